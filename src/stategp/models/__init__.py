"""What we fit."""

from stategp.models._additive import AdditiveGP
from stategp.models._deep import DeepGP, Layer
from stategp.models._gp import GP

__all__ = ["GP", "AdditiveGP", "DeepGP", "Layer"]
