"""Posteriors: predictions from chains of states, and saving them."""

from stategp._posteriors._additive import AdditivePosterior, Training
from stategp._posteriors._at_points import PATTERN, Seen, component_moments, read_weights, see
from stategp._posteriors._consistency import check_posterior
from stategp._posteriors._deep import DeepPosterior
from stategp._posteriors._filter import Filter
from stategp._posteriors._joint import JointPosterior
from stategp._posteriors._marginals import Marginals, marginals_at
from stategp._posteriors._mixed import MixedPosterior
from stategp._posteriors._outputs import MultiOutputPosterior
from stategp._posteriors._pointwise import Points, by_blocks, check_levels, padded, per_point
from stategp._posteriors._posterior import Posterior
from stategp._posteriors._prediction import Chain, Predicts, observe_samples, summands_of
from stategp._posteriors._saved import allow_all
from stategp._posteriors._space_time import SpaceTimePosterior
from stategp._posteriors._stacked import StackedPosterior

allow_all()

__all__ = [
    "PATTERN",
    "AdditivePosterior",
    "Chain",
    "DeepPosterior",
    "Filter",
    "JointPosterior",
    "Marginals",
    "MixedPosterior",
    "MultiOutputPosterior",
    "Points",
    "Posterior",
    "Predicts",
    "Seen",
    "SpaceTimePosterior",
    "StackedPosterior",
    "Training",
    "by_blocks",
    "check_levels",
    "check_posterior",
    "component_moments",
    "marginals_at",
    "observe_samples",
    "padded",
    "per_point",
    "read_weights",
    "see",
    "summands_of",
]
