"""Counts in several stages: none or more, one or more, …, and how many beyond."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Latent, Likelihood, Points, is_count
from stategp.likelihoods._bernoulli import Bernoulli
from stategp.likelihoods._counts import Poisson
from stategp.likelihoods._distribution import Coordinate


class StagedPoisson(Likelihood):
    """Counts in stages, each with a function of its own.

    y stops at k = 0, 1, …, stages − 2 with log odds f_k(x), if it got that far; what goes through
    all of these stages is stages − 1 and a Poisson variable with rate exposure · exp(f_last(x)).
    With three stages: sold none, sold one, sold two and how many more.

    >>> import stategp as sg
    >>> sg.likelihoods.StagedPoisson(stages=3).latents
    3
    """

    extra: ClassVar[str | None] = "exposure"
    extra_default: ClassVar[float] = 1.0
    log_concave: ClassVar[bool] = True  # in each latent on its own
    support: ClassVar[str] = "be a count 0, 1, 2, …"
    discrete: ClassVar[bool] = True

    latents: int = eqx.field(static=True)  # type: ignore[misc]  # of the instance, not the class

    def __init__(self, *, stages: int = 3):
        self.latents = whole_number("stages", stages, least=2)

    @property
    def _last(self) -> int:
        return self.latents - 1

    def _by_stage(self, y: Points, stop: list[Points], go: list[Points], rest: Points) -> Points:
        """The sum over the stages that y passes."""
        total = jnp.where(y >= self._last, rest, 0.0)
        for k in range(self._last):
            total += jnp.where(y == k, stop[k], jnp.where(y > k, go[k], 0.0))
        return total

    def _beyond(self, y: Points) -> Points:
        return jnp.maximum(y - self._last, 0.0)

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        each = [f[..., k] for k in range(self._last)]
        rest = _COUNT.log_density(self._beyond(y), f[..., self._last], extra)
        logs = [jax.nn.log_sigmoid(g) for g in each], [jax.nn.log_sigmoid(-g) for g in each]
        return self._by_stage(y, *logs, rest)

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        return self._each("expected_log_density", y, mean, variance, extra)

    def _each(self, what: str, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        """The sum of what the likelihood of each stage says of y."""

        def stage(label: float) -> list[Points]:
            at, one = jnp.full(y.shape, label), getattr(_STAGE, what)
            return [one(at, mean[..., k], variance[..., k], extra) for k in range(self._last)]

        last = (mean[..., self._last], variance[..., self._last])
        rest = getattr(_COUNT, what)(self._beyond(y), *last, extra)
        return self._by_stage(y, stage(1.0), stage(0.0), rest)

    def expected_jointly(
        self, y: Points, mean: Latent, covariance: Latent, extra: Points
    ) -> Points:
        """E[log p(y | f)] where the functions are dependent: each has a term of its own."""
        variance = jnp.diagonal(covariance, axis1=-2, axis2=-1)
        return self.expected_log_density(y, mean, variance, extra)

    def _chances(
        self, mean: Latent, variance: Latent, extra: Points
    ) -> tuple[Float[Array, "stages *points"], Points]:
        """The probabilities to stop at each stage, and that of going through all of them."""
        stops, reached = [], jnp.ones(extra.shape)
        for k in range(self._last):
            stop, _ = _STAGE.predict(mean[..., k], variance[..., k], extra)
            stops.append(reached * stop)
            reached = reached * (1 - stop)
        return jnp.stack(stops), reached

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        stops, reached = self._chances(mean, variance, extra)
        more, spread = _COUNT.predict(mean[..., self._last], variance[..., self._last], extra)
        k = jnp.arange(float(self._last)).reshape(-1, *[1] * extra.ndim)
        centre = jnp.sum(k * stops, axis=0) + reached * (self._last + more)
        away = (k - centre[None]) ** 2
        beyond = spread + (self._last + more - centre) ** 2
        return centre, jnp.sum(away * stops, axis=0) + reached * beyond

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        return self._each("log_predictive_density", y, mean, variance, extra)

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        stops, reached = self._chances(mean, variance, extra)
        last = (mean[..., self._last], variance[..., self._last])
        more = _COUNT.continued_cdf(self._beyond(y), *last, extra)
        begun = jnp.clip(y - self._last + 1, 0.0, 1.0)
        steps = jnp.arange(float(self._last)).reshape(-1, *[1] * y.ndim)
        below = jnp.sum(stops * jnp.clip(y[None] - steps + 1, 0.0, 1.0), axis=0)
        return below + reached * begun * more

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        return _COUNT.coordinate(mean[..., self._last], variance[..., self._last], extra)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        *of_stages, of_rest = jax.random.split(key, self.latents)
        y = self._last + _COUNT.sample(of_rest, f[..., self._last], extra)
        for k in reversed(range(self._last)):
            y = jnp.where(jax.random.bernoulli(of_stages[k], jax.nn.sigmoid(f[..., k])), k, y)
        return y

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        columns = []
        for k in range(self._last):
            there = y >= k  # others say nothing of this stage
            guess = np.zeros(y.shape)
            guess[there] = _STAGE.guess(1.0 * (y[there] == k), extra[there])
            columns.append(guess)
        through = y >= self._last
        beyond = _COUNT.guess(y[through] - self._last, extra[through])
        rate = np.full(y.shape, np.mean(beyond) if len(beyond) else 0.0)
        rate[through] = beyond
        return np.stack([*columns, rate], axis=-1)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability

    def __repr__(self) -> str:
        return f"StagedPoisson(stages={self.latents})"


_STAGE, _COUNT = Bernoulli(), Poisson()
