"""What we fit."""

from stategp.models._gp import GP

__all__ = ["GP"]
