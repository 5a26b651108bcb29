"""A likelihood that reads several functions, all of them together under q."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._models._gp import GP
from stategp._models._joint_likelihood import JointLikelihood
from stategp._models._mixed import Family, MixedGP
from stategp.kernels import Kernel
from stategp.likelihoods import Likelihood
from stategp.means import Mean


class JointGP(MixedGP):
    """A GP whose likelihood reads several functions, which are dependent given the data.

    An `sg.GP` treats the functions as independent under q, which understates how uncertain they
    are where one can stand in for another: a residual may be due to the mean or to the noise. Here
    q is one chain of the states of all functions. Arguments are those of `sg.GP`; the cost of a
    step grows with the third power of the states of all functions together.

    >>> import stategp as sg
    >>> noise = sg.likelihoods.HeteroscedasticGaussian()
    >>> model = sg.JointGP(sg.kernels.Matern32(), noise)
    >>> model.functions
    2
    """

    kernels: tuple[Kernel, ...]
    reader: Likelihood  # of all functions
    means: tuple[Mean, ...]
    q: Family = eqx.field(static=True)

    def __init__(self, kernel: Any, likelihood: Any, mean: Any = None):
        parts = GP(kernel, likelihood, mean)
        self.kernels, self.reader, self.means = parts.kernels, parts.likelihood, parts.means
        self.q = "joint"
        if self.likelihood.latents == 1:
            raise ValueError(
                f"{type(self.likelihood).__name__} reads one function: use sg.GP (an sg.JointGP is "
                "for likelihoods that read several, such as HeteroscedasticGaussian)"
            )
        if not hasattr(self.likelihood, "expected_jointly"):
            self.likelihood.joint_nodes()  # raises an error if there would be too many

    @property
    def likelihood(self) -> Likelihood:
        """How an observation depends on all functions."""
        return self.reader

    @property
    def functions(self) -> int:
        return len(self.kernels)

    @property
    def concave(self) -> bool:
        return False  # in all functions together

    @property
    def as_gp(self) -> GP:
        """The same functions, independent under q."""
        return GP(self.kernels, self.likelihood, self.means)

    def likelihood_at(self, places: Any) -> JointLikelihood:
        return JointLikelihood(self.likelihood)

    def coefficients(self, x: Any, places: Any) -> Float[Array, "rows functions"]:
        raise NotImplementedError("every row reads all functions")

    def extra_variance(self, x: Any, places: Any) -> Float[Array, " rows"]:
        raise NotImplementedError("every row reads all functions")

    def offset(self, x: Float[Array, " rows"], places: Any) -> Float[Array, "rows functions"]:
        return jnp.stack([mean(x) for mean in self.means], axis=-1)

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "JointGP":
        return JointGP(kernels, self.likelihood, self.means)

    def __repr__(self) -> str:
        return (
            f"JointGP(kernel={self.kernels!r}, likelihood={self.likelihood!r}, mean={self.means!r})"
        )
