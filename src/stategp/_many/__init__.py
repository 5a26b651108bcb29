"""Many series with one model."""

from stategp._files import allow, check_when_read
from stategp._many._collecting import check_many
from stategp._many._fitting import fit_many
from stategp._many._posteriors import ManyPosteriors

allow(answers=(ManyPosteriors,))
check_when_read({ManyPosteriors: check_many})

__all__ = ["ManyPosteriors", "fit_many"]
