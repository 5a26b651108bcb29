"""Sums of products of functions with Gaussian noise: one function scales another.

y = f₁ g₁ + … + f_K g_K + noise is a quadratic form ½ vᵀBv in v = (f, g) ~ N(m, S), whose moments
are known: mean ½ (mᵀBm + tr BS), variance mᵀBSBm + ½ tr BSBS. With positive g = softplus(w)
there is quadrature instead.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Latent, Likelihood, Points, check_quadrature
from stategp.likelihoods._distribution import Coordinate
from stategp.parameters import Parameter, Value, positive

LINKS = ("identity", "softplus")
_ORDERS = {1: 32, 2: 9, 3: 5}  # nodes for each function, by terms


class Products(Likelihood):
    """y = Σ_k f_k(x) · g_k(x) + noise: functions scaled by others that change with x too.

    The likelihood reads f_1 … f_K and then g_1 … g_K. With ``link="softplus"`` the second are made
    positive first, as amplitudes are. Outputs of an `sg.MultiOutputGP` that share the f and each
    have g of their own are a regression network.

    >>> import stategp as sg
    >>> sg.likelihoods.Products(terms=2).latents
    4
    """

    latents: int = eqx.field(static=True)  # type: ignore[misc]  # of the instance, not the class
    variance: Parameter
    link: str = eqx.field(static=True)
    quadrature: int = eqx.field(static=True)

    def __init__(
        self,
        *,
        terms: int = 1,
        variance: Value = None,
        link: str = "identity",
        quadrature: int | None = None,
    ):
        count = whole_number("terms", terms, least=1)
        if link not in LINKS:
            raise ValueError(f"link must be 'identity' or 'softplus', got {link!r}")
        self.latents, self.link = 2 * count, link
        self.variance = positive("variance", variance, default=1.0, role="noise")
        order = _ORDERS.get(count, 3) if quadrature is None else quadrature
        self.quadrature = check_quadrature(order)

    def _sum(self, f: Latent) -> Points:
        half = self.latents // 2
        scales = f[..., half:]
        if self.link == "softplus":
            scales = jax.nn.softplus(scales)
        return jnp.sum(f[..., :half] * scales, axis=-1)

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        return self._log_normal((y - self._sum(f)) ** 2)

    def _log_normal(self, square: Points) -> Points:
        noise = self.variance.value
        return -(square / noise + jnp.log(2 * math.pi * noise)) / 2

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        if self.link == "softplus":
            return super().expected_log_density(y, mean, variance, extra)
        return self._expected(y, mean, _diagonal(variance), extra)

    @property
    def expected_jointly(self) -> Callable[..., Points]:
        """E[log p(y | f)] where the functions are dependent, if it is known in closed form."""
        if self.link == "softplus":
            raise AttributeError("there is none with link='softplus'")
        return self._expected

    def _expected(self, y: Points, mean: Latent, covariance: Array, extra: Points) -> Points:
        centre, spread = self._moments_of_sum(mean, covariance)
        return self._log_normal((y - centre) ** 2 + spread)

    def _moments_of_sum(self, mean: Latent, covariance: Array) -> tuple[Points, Points]:
        half = self.latents // 2
        B = jnp.asarray(np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(half)))
        turned = mean @ B
        mixed = jnp.einsum("ij,...jk->...ik", B, covariance)
        centre = (jnp.sum(turned * mean, axis=-1) + jnp.trace(mixed, axis1=-2, axis2=-1)) / 2
        linear = jnp.einsum("...i,...ij,...j->...", turned, covariance, turned)
        return centre, linear + jnp.einsum("...ij,...ji->...", mixed, mixed) / 2

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        centre = self._sum(f)
        return centre, jnp.full_like(centre, self.variance.value)

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        if self.link == "softplus":
            return super().predict(mean, variance, extra)
        moments = self._moments_of_sum(mean, _diagonal(variance))
        return moments[0], moments[1] + self.variance.value

    def cdf(self, y: Points, f: Latent, extra: Points) -> Points:
        return ndtr((y - self._sum(f)) / jnp.sqrt(self.variance.value))

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        centre, spread = self.predict(mean, variance, extra)
        return Coordinate("real", centre, jnp.sqrt(spread))

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        noise = jnp.sqrt(self.variance.value)
        centre = self._sum(f)
        return centre + noise * jax.random.normal(key, centre.shape)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """Equal shares of y, with scales of one: zeros for both would be a saddle."""
        half = self.latents // 2
        one: Any = math.log(math.expm1(1.0)) if self.link == "softplus" else 1.0
        shares = np.repeat(np.asarray(y)[..., None] / half, half, axis=-1)
        return np.concatenate([shares, np.full(shares.shape, one)], axis=-1)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return self._log_normal(jnp.zeros_like(y))

    def __repr__(self) -> str:
        terms = self.latents // 2
        return f"Products(terms={terms}, link={self.link!r}, variance={self.variance!r})"


def _diagonal(variance: Latent) -> Array:
    """Covariance matrices of independent functions."""
    count = variance.shape[-1]
    unit = jnp.eye(count).reshape(*[1] * (variance.ndim - 1), count, count)
    return variance[..., None] * unit
