"""From a real number to a probability."""

import jax
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from stategp.likelihoods._normal import log_cdf as log_normal_cdf

Values = Float[Array, "*points"]

LINKS: tuple[str, ...] = ("logit", "probit")


def cdf(link: str, x: Values) -> Values:
    """The probability."""
    return jax.nn.sigmoid(x) if link == "logit" else ndtr(x)


def log_cdf(link: str, x: Values) -> Values:
    """Its logarithm, with derivatives that hold far out in the tails."""
    return jax.nn.log_sigmoid(x) if link == "logit" else log_normal_cdf(x)


def quantile(link: str, probability: np.ndarray) -> np.ndarray:
    """The number with that probability."""
    if link == "logit":
        return np.log(probability) - np.log1p(-probability)
    from scipy.special import ndtri  # slow to import

    return np.asarray(ndtri(probability))
