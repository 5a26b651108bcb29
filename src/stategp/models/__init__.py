"""What we fit."""

from stategp.models._additive import AdditiveGP
from stategp.models._deep import DeepGP, Layer
from stategp.models._gp import GP, as_kernel, as_likelihood

__all__ = ["GP", "AdditiveGP", "DeepGP", "Layer", "as_kernel", "as_likelihood"]
