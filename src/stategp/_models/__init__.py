"""What we fit."""

from stategp._models._additive import AdditiveGP
from stategp._models._deep import DeepGP, Layer, Path, Stack
from stategp._models._gp import GP, as_kernel, as_likelihood
from stategp._models._latent import Latent, Values

__all__ = [
    "GP",
    "AdditiveGP",
    "DeepGP",
    "Latent",
    "Layer",
    "Path",
    "Stack",
    "Values",
    "as_kernel",
    "as_likelihood",
]
