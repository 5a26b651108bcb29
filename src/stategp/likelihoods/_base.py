"""What a likelihood is.

p(y | f), observation by observation. A likelihood writes its log density; expectations follow by
quadrature unless it has them in closed form. All methods work elementwise: `y` and `extra` have
one entry per observation, `f`, `mean` and `variance` too, or (observations, latents) when the
likelihood reads several latent functions.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp._modules import Module
from stategp.likelihoods._distribution import Coordinate, average, crps, quantile
from stategp.likelihoods._quadrature import (
    Tilted,
    derivatives,
    expectation,
    expectation_and_slopes,
    product_hermite,
    several_derivatives,
    several_expectation,
    tilted,
)
from stategp.parameters import Parameter

Points = Float[Array, "*points"]  # one number per observation
Latent = Float[Array, "..."]  # one number per observation, or one per observation and latent
Features = Float[Array, "_ *points"]  # one row for each

QUADRATURE = 32  # nodes, unless the user says otherwise
MOST_NODES = 2**15  # of a product of rules


class Likelihood(Module):
    """How observations depend on the latent function.

    >>> import jax.numpy as jnp, stategp as sg
    >>> sg.likelihoods.Poisson().log_density(jnp.array([2.0]), jnp.array([0.0]), jnp.ones(1))
    Array([-1.69314718], dtype=float64)
    """

    latents: ClassVar[int] = 1  # how many latent functions an observation depends on
    extra: ClassVar[str | None] = None  # the argument of `fit` that each observation may bring
    extra_default: ClassVar[float] = 0.0
    extra_of_new: ClassVar[bool] = True  # whether it matters to the distribution of a new y
    elementary: ClassVar[bool] = False  # expectations are a few elementary functions
    conjugate: ClassVar[bool] = False  # one natural-gradient step of size one is the optimum
    log_concave: ClassVar[bool] = False  # E[∂²/∂f² log p] ≤ 0: sites never have negative precision
    support: ClassVar[str] = "be finite"  # what `valid` demands, in words
    discrete: ClassVar[bool] = False  # y is a whole number
    nominal: ClassVar[bool] = False  # y is the number of a class, and classes have no order
    differences: ClassVar[bool] = False  # only those between latents matter: f + c is as good as f

    @abc.abstractmethod
    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        """log p(y | f)."""

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        """E[log p(y | f)] for f ~ N(mean, variance), with the derivatives of the integral."""
        average = expectation if self.latents == 1 else several_expectation
        return average(
            lambda f: self.log_density(y, f, extra), mean, variance, self.quadrature_order
        )

    def expected_slopes(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> tuple[Points, Latent, Latent]:
        """E[log p(y | f)] and its derivatives in the mean and in the variance of each latent.

        They are computed in forward mode, so that no array per quadrature node is stored.
        """
        by_quadrature = type(self).expected_log_density is Likelihood.expected_log_density
        if by_quadrature and self.latents == 1:
            return expectation_and_slopes(
                lambda f: self.log_density(y, f, extra), mean, variance, self.quadrature_order
            )

        def terms(mean: Latent, variance: Latent) -> Points:
            return self.expected_log_density(y, mean, variance, extra)

        slopes, curvatures = [], []
        for latent in range(self.latents):
            chosen = jnp.arange(self.latents) == latent  # the direction of this latent function
            chosen = chosen[0] if self.latents == 1 else chosen
            along = jnp.broadcast_to(1.0 * chosen, mean.shape)
            slopes.append(jax.jvp(lambda m: terms(m, variance), (mean,), (along,))[1])
            curvatures.append(jax.jvp(lambda v: terms(mean, v), (variance,), (along,))[1])
        if self.latents == 1:
            return terms(mean, variance), slopes[0], curvatures[0]
        return terms(mean, variance), jnp.stack(slopes, axis=-1), jnp.stack(curvatures, axis=-1)

    def statistics(self, y: Any, extra: Any) -> Any:
        """What p(y | f) reads of an observation, if that is little: (kinds, observations), or None.

        log p(y | f) is then linear in them: Σ_k statistics_k · feature_k(f). Observations whose f
        is a smooth function of x can be summed up by such numbers. By default, the indicators of
        the values of y if there are few. Works with arrays of NumPy and of JAX.
        """
        if self.outcomes is None or self.extra is not None:
            return None
        return 1.0 * (y[None] == np.arange(self.outcomes).reshape(-1, *[1] * y.ndim))

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        """E[feature(f)] of each of the `statistics`, with derivatives as in `expected_slopes`."""
        outcomes = jnp.arange(float(self.outcomes or 0)).reshape(-1, *[1] * mean.ndim)
        y, mean, variance = jnp.broadcast_arrays(outcomes, mean[None], variance[None])
        return self.expected_slopes(y, mean, variance, jnp.zeros_like(mean))

    @abc.abstractmethod
    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        """Mean and variance of y given f."""

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        """Mean and variance of y for f ~ N(mean, variance)."""
        f, weights = self.nodes(mean, variance)
        first, second = jax.vmap(lambda f: self.moments(f, extra))(f)
        centre = jnp.tensordot(weights, first, axes=1)
        spread = jnp.tensordot(weights, second + (first - centre[None]) ** 2, axes=1)
        return centre, spread

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        """N(f; mean, variance) · p(y | f)^power: its log normaliser and moments."""
        if self.latents > 1:
            raise NotImplementedError(f"{type(self).__name__} reads several latent functions")
        return tilted(
            lambda f: power * self.log_density(y, f, extra), mean, variance, self.quadrature_order
        )

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        """log ∫ p(y | f) N(f; mean, variance) df."""
        if self.latents == 1:
            return self.tilted(y, mean, variance, extra).log_normaliser
        f, weights = self.nodes(mean, variance)
        logs = jax.vmap(lambda f: self.log_density(y, f, extra))(f)
        return jax.nn.logsumexp(logs, axis=0, b=weights.reshape((-1,) + (1,) * y.ndim))

    def cdf(self, y: Points, f: Latent, extra: Points) -> Points:
        """P(Y ≤ y | f)."""
        if type(self).continued_cdf is Likelihood.continued_cdf:
            raise ValueError(
                f"quantiles, probabilities and CRPS of {type(self).__name__} need its distribution "
                "function: give the class a method cdf(y, f, extra), P(Y ≤ y | f)"
            )
        return self.predictive_cdf(y, f, jnp.zeros_like(f), extra)

    def predictive_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        """P(Y ≤ y) for f ~ N(mean, variance), accurate to 1e-6.

        >>> import jax.numpy as jnp, stategp as sg
        >>> one = jnp.ones(1)
        >>> print(sg.likelihoods.Poisson().predictive_cdf(2 * one, 0 * one, 0 * one, one).round(4))
        [0.9197]
        """
        lowest, highest = self.bounds(extra)
        at = jnp.floor(y) if self.discrete else y
        before, after = at < lowest, at >= highest
        inner = 0.0 if self.discrete else 0.5  # a possible value whatever the likelihood
        safe = jnp.where(before | after | ~jnp.isfinite(y), inner, at)
        inside = jnp.clip(self.continued_cdf(safe, mean, variance, extra), 0.0, 1.0)
        inside = jnp.where(before | (y == -jnp.inf), 0.0, inside)
        return jnp.where(jnp.isnan(y), jnp.nan, jnp.where(after | (y == jnp.inf), 1.0, inside))

    def predictive_quantile(
        self, level: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        """The smallest y with P(Y ≤ y) ≥ level, for f ~ N(mean, variance)."""
        return quantile(self, level, mean, variance, extra)

    def crps(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        """Continuous ranked probability score of y, for f ~ N(mean, variance); smaller is better.

        ∫ (P(Y ≤ u) − [u ≥ y])² du, in the unit of y; without uncertainty it is the distance from y.
        Exact for Gaussian observations and for few levels; for others accurate to 1 % unless f is
        so uncertain that y spans tens of orders of magnitude.
        """
        return crps(self, y, mean, variance, extra)

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        """`predictive_cdf` inside the bounds; for whole numbers also between them.

        This implementation assumes that `cdf` is monotonic in f; with several latents its accuracy
        is that of Gauss–Hermite quadrature.
        """
        if self.latents == 1:
            return average(lambda f: self.cdf(y, f, extra), mean, variance)
        f, weights = self.nodes(mean, variance)
        return jnp.tensordot(weights, jax.vmap(lambda f: self.cdf(y, f, extra))(f), axes=1)

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        """Where to search for quantiles: the rough location and width of y's distribution."""
        centre, spread = self.predict(mean, variance, extra)
        least = 0.5 if self.discrete else 1e-9 * (1 + jnp.abs(centre))
        return Coordinate("real", centre, jnp.sqrt(spread) + least)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        """The lowest and highest possible y."""
        return -jnp.inf, jnp.inf

    def edges(self, y: np.ndarray, extra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest value that observations may stand for, and the one below all of them."""
        return y, np.ceil(y) - 1 if self.discrete else y

    @property
    def outcomes(self) -> int | None:
        """The number of values 0, 1, … that y can take, if it is small."""
        return None

    def outcome_probabilities(
        self, mean: Latent, variance: Latent, extra: Points
    ) -> Float[Array, "*points outcomes"]:
        """The probability of each of the `outcomes`, along a new last axis, for f ~ N."""
        if self.outcomes is None:
            raise ValueError(
                f"{type(self).__name__} has no few outcomes that could each have a probability; "
                "ask for quantiles, or for the distribution function (cdf)"
            )
        values = [jnp.full(extra.shape, float(value)) for value in range(self.outcomes)]
        logs = [self.log_predictive_density(value, mean, variance, extra) for value in values]
        return jax.nn.softmax(jnp.stack(logs, axis=-1), axis=-1)

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        """One draw of y for every entry of f."""

    def slopes(self, y: Points, f: Latent, extra: Points) -> tuple[Points, Latent, Latent]:
        """log p(y | f) and its first and second derivative in f (in each latent on its own)."""
        each = derivatives if self.latents == 1 else several_derivatives
        return each(lambda f: self.log_density(y, f, extra), f)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """A rough value of f for each observation, to start from; y is in order of x."""
        shape = y.shape if self.latents == 1 else (*y.shape, self.latents)
        return np.zeros(shape)

    def guess_variance(self, guess: Latent) -> Latent:
        """The variance assumed for f around its `guess`, to start from."""
        return jnp.zeros_like(guess)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """Which observations are possible under this likelihood."""
        return np.isfinite(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        """The highest log density that any f can give (infinite if unknown)."""
        return jnp.full(y.shape, jnp.inf)

    @property
    def quadrature_order(self) -> int:
        """The number of nodes of its quadrature."""
        return getattr(self, "quadrature", QUADRATURE)

    def nodes(self, mean: Latent, variance: Latent) -> tuple[Array, Array]:
        """Gauss–Hermite nodes for f, along a new first axis, and their weights."""
        nodes, weights = product_hermite(self.quadrature_order, self.latents)
        inner = (1,) * mean.ndim if self.latents == 1 else (*(1,) * (mean.ndim - 1), self.latents)
        t = jnp.asarray(nodes).reshape((len(weights), *inner))
        return mean[None] + jnp.sqrt(variance)[None] * t, jnp.asarray(weights)

    def joint_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard normal nodes, a column for each latent, and weights, where they are dependent.

        If only `differences` of latents matter, there is a column for each but the last.
        """
        dims = self.latents - self.differences
        if self.quadrature_order**dims > MOST_NODES:
            least = int(MOST_NODES ** (1 / dims))
            raise ValueError(
                f"{type(self).__name__} reads {self.latents} functions together, and quadrature "
                f"with {self.quadrature_order} nodes for each would need "
                f"{self.quadrature_order}**{dims} of them, more than {MOST_NODES}: let it have "
                f"quadrature={least} or less, give its class a method expected_jointly(y, mean, "
                "covariance, extra), or use an sg.GP, whose functions are independent under q"
            )
        return product_hermite(self.quadrature_order, dims)

    def joint_slopes(self, y: Points, f: Latent, extra: Points) -> tuple[Points, Latent, Latent]:
        """log p(y | f), its gradient in all latents of each observation, and half its Hessian."""

        def one(f: Array, y: Array, extra: Array) -> Array:
            return self.log_density(y[None], f[None], extra[None])[0]

        value, slope = jax.vmap(jax.value_and_grad(one))(f, y, extra)
        return value, slope, jax.vmap(jax.hessian(one))(f, y, extra) / 2

    def __repr__(self) -> str:
        shown = {"link", "levels", "classes"}
        fields = [
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if isinstance(value, Parameter) or name in shown
        ]
        return f"{type(self).__name__}({', '.join(fields)})"


def all_slopes(
    function: Callable[[Points, Points], Points], mean: Points, variance: Points
) -> tuple[Points, Points, Points]:
    """An elementwise function whose derivatives cost no memory, and both of them."""
    value, pull = jax.vjp(function, mean, variance)
    return value, *pull(jnp.ones_like(value))


def with_constants(
    features: tuple[Features, Features, Features], constants: Float[Array, " more"]
) -> tuple[Features, Features, Features]:
    """Features that do not depend on f, after those that do."""
    like = (len(constants), *features[0].shape[1:])
    ones = constants.reshape(-1, *[1] * (len(like) - 1))
    more = (jnp.broadcast_to(ones, like), jnp.zeros(like), jnp.zeros(like))
    value, slope, curvature = (jnp.concatenate(pair) for pair in zip(features, more, strict=True))
    return value, slope, curvature


def log_gamma(values: Any) -> Any:
    """log Γ of an array of NumPy, without compiling anything, or of JAX."""
    if not isinstance(values, np.ndarray):
        return gammaln(values)
    from scipy import special  # slow to import

    return special.gammaln(values)


def check_quadrature(order: Any) -> int:
    """A constructor's `quadrature` argument: how many nodes."""
    return whole_number("quadrature", order, least=1)


def check_link(link: Any, known: tuple[str, ...]) -> str:
    """A constructor's `link` argument."""
    if link not in known:
        raise ValueError(f"link must be one of {', '.join(map(repr, known))}, got {link!r}")
    return str(link)


def is_count(y: np.ndarray) -> np.ndarray:
    """Whether each number is 0, 1, 2, …"""
    return np.isfinite(y) & (y >= 0) & (y == np.floor(y))
