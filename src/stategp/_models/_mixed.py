"""Models whose observations read mixtures of several processes.

Latent processes g_1 … g_L are independent, each with a kernel. A row, an input x and a place, reads

    f = offset + Σ_l C_l g_l(x) + extra,    extra ~ N(0, e) on its own,

in which offset, C and e depend on the place, on hyperparameters, and, if so declared, on x.
"""

import abc
from typing import Any, Literal

import equinox as eqx
from jaxtyping import Array, Float

from stategp._modules import Module
from stategp.kernels import Kernel

Rows = Float[Array, " rows"]
Family = Literal["joint", "product"]


class MixedGP(Module):
    """A model of several processes, of which every observation reads a mixture.

    `q` says which states are dependent under q: "joint", those of all processes (one chain of
    large states), or "product", those of each process on its own (a chain for each).
    """

    kernels: eqx.AbstractVar[tuple[Kernel, ...]]
    q: eqx.AbstractVar[Family]

    @property
    @abc.abstractmethod
    def likelihood(self) -> Any:
        """What tells whether all observations are Gaussian (`conjugate`), and `log_concave`."""

    @property
    def functions(self) -> int:
        """How many functions a row reads; if several, `mixtures` has what they are."""
        return 1

    def mixtures(self, x: Rows, places: Any) -> Float[Array, "rows functions processes"] | None:
        """C for each of several functions, or None if the processes are the functions."""
        return None

    @property
    def concave(self) -> bool:
        """Whether no observation can make f less certain: sites never have negative precision."""
        return bool(self.likelihood.log_concave)

    @abc.abstractmethod
    def likelihood_at(self, places: Any) -> Any:
        """How the observations in rows depend on f there: a likelihood, with its parameters."""

    @abc.abstractmethod
    def coefficients(self, x: Rows, places: Any) -> Float[Array, "rows latents"]:
        """C, a row for each place. x as kernels measure it."""

    @abc.abstractmethod
    def extra_variance(self, x: Rows, places: Any) -> Rows:
        """e, the variance that no process explains; never negative. x as kernels measure it."""

    @abc.abstractmethod
    def offset(self, x: Rows, places: Any) -> Float[Array, "rows *functions"]:
        """The mean function, at inputs in the user's units."""

    @abc.abstractmethod
    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "MixedGP":
        """The same model with other kernels."""


def check_family(q: Any) -> Family:
    """A constructor's argument `q`."""
    if not (isinstance(q, str) and q in ("joint", "product")):
        raise ValueError(
            "q must be 'joint' (all processes together) or 'product' (each on its own, cheaper), "
            f"got {q!r}"
        )
    return "joint" if q == "joint" else "product"
