"""A Gaussian process on one input."""

from collections.abc import Callable
from typing import Any

import equinox as eqx

from stategp import means
from stategp.kernels import Kernel
from stategp.likelihoods import Gaussian
from stategp.means import Mean


class GP(eqx.Module):
    """A prior over functions of one input, and how they are observed.

    `mean` is a mean function, a number, or any function of x; zero unless given.

    >>> import stategp as sg
    >>> sg.GP(kernel=sg.kernels.Matern32(lengthscale=2.0))
    GP(kernel=Matern32(variance=1, lengthscale=2), likelihood=Gaussian(variance=1), mean=Zero())
    """

    kernel: Kernel
    likelihood: Gaussian
    mean: Mean

    def __init__(
        self,
        kernel: Any,
        likelihood: Any = None,
        mean: Mean | float | Callable[..., Any] | Any = None,
    ):
        if not isinstance(kernel, Kernel):
            raise ValueError(
                f"kernel must be one of sg.kernels, such as sg.kernels.Matern52(); got {kernel!r}"
            )
        likelihood = Gaussian() if likelihood is None else likelihood
        if not isinstance(likelihood, Gaussian):
            raise ValueError(
                f"likelihood must be one of sg.likelihoods, such as sg.likelihoods.Gaussian(); "
                f"got {likelihood!r}"
            )
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = _as_mean(mean)

    def __repr__(self) -> str:
        return f"GP(kernel={self.kernel!r}, likelihood={self.likelihood!r}, mean={self.mean!r})"


def _as_mean(mean: object) -> Mean:
    if mean is None:
        return means.Zero()
    if isinstance(mean, Mean):
        return mean
    if isinstance(mean, int | float):
        return means.Constant(mean)
    if callable(mean):
        return means.Function(mean)
    raise ValueError(f"mean must be a mean function, a number or a function of x; got {mean!r}")
