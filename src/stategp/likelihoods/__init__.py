"""What an observation says about f."""

from stategp.likelihoods._gaussian import Gaussian

__all__ = ["Gaussian"]
