"""Posteriors: predictions from chains of states, and saving them."""

from stategp._posteriors._additive import AdditivePosterior, Training
from stategp._posteriors._at_points import PATTERN
from stategp._posteriors._deep import DeepPosterior
from stategp._posteriors._marginals import Marginals, marginals_at
from stategp._posteriors._pointwise import Points, by_blocks, check_levels, padded, per_point
from stategp._posteriors._posterior import Posterior
from stategp._posteriors._prediction import Chain, Predicts, summands_of
from stategp._posteriors._saved import allow_all

allow_all()

__all__ = [
    "PATTERN",
    "AdditivePosterior",
    "Chain",
    "DeepPosterior",
    "Marginals",
    "Points",
    "Posterior",
    "Predicts",
    "Training",
    "by_blocks",
    "check_levels",
    "marginals_at",
    "padded",
    "per_point",
    "summands_of",
]
