"""The models that can be fitted."""

from stategp._models._additive import AdditiveGP
from stategp._models._bare import bare
from stategp._models._deep import DeepGP, Layer, Path, Stack
from stategp._models._gp import GP, as_kernel, as_likelihood
from stategp._models._latent import Latent, Values
from stategp._models._prior import prior_states, seen_from

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
    "bare",
    "prior_states",
    "seen_from",
]
