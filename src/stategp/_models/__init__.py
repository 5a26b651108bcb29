"""The models that can be fitted."""

from stategp._models._additive import AdditiveGP
from stategp._models._bare import bare
from stategp._models._deep import DeepGP, Layer, Path, Stack
from stategp._models._gp import GP, as_kernel, as_likelihood
from stategp._models._joint import JointGP
from stategp._models._joint_likelihood import JointLikelihood
from stategp._models._latent import Latent, Values
from stategp._models._learned import Learned
from stategp._models._loadings import Loadings
from stategp._models._mixed import MixedGP, check_family
from stategp._models._outputs import MultiOutputGP
from stategp._models._prior import prior_states, seen_from
from stategp._models._space_time import SpaceTimeGP, Spots
from stategp._models._stacked import StackedGP, seen_as_gaussian, with_likelihood

__all__ = [
    "GP",
    "AdditiveGP",
    "DeepGP",
    "JointGP",
    "JointLikelihood",
    "Latent",
    "Layer",
    "Learned",
    "Loadings",
    "MixedGP",
    "MultiOutputGP",
    "Path",
    "SpaceTimeGP",
    "Spots",
    "Stack",
    "StackedGP",
    "Values",
    "as_kernel",
    "as_likelihood",
    "bare",
    "check_family",
    "prior_states",
    "seen_as_gaussian",
    "seen_from",
    "with_likelihood",
]
