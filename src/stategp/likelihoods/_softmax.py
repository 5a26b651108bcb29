"""One of several classes, in no order."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Latent, Likelihood, Points
from stategp.likelihoods._largest import expected_log_sum, largest
from stategp.likelihoods._quadrature import spread_out

_MOST_JOINTLY = 12


class Softmax(Likelihood):
    """Classes 0, 1, …, classes − 1: class k has probability exp(fₖ(x)) / Σⱼ exp(fⱼ(x)).

    There is a latent function for each class. Expectations are integrals over one variable, not
    over a grid in all functions: the time is linear in the number of classes. With two classes
    the model is that of `Bernoulli` for the difference of the two functions. Predictions are
    `posterior.predict_probabilities(x)`: the numbers of classes have no mean and no quantiles.

    >>> import stategp as sg
    >>> likelihood = sg.likelihoods.Softmax(classes=3)
    >>> likelihood.latents
    3
    """

    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be a class 0, 1, 2, … below `classes`"
    discrete: ClassVar[bool] = True
    nominal: ClassVar[bool] = True
    differences: ClassVar[bool] = True

    classes: int = eqx.field(static=True)

    def __init__(self, classes: Any):
        self.classes = whole_number("classes", classes, least=2)

    @property
    def latents(self) -> int:  # type: ignore[override]  # of the instance, not the class
        return self.classes

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        return jnp.sum(self._chosen(y) * jax.nn.log_softmax(f, axis=-1), axis=-1)

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        return jnp.sum(self._chosen(y) * mean, axis=-1) - expected_log_sum(mean, variance)

    def expected_slopes(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> tuple[Points, Latent, Latent]:
        chosen, found = self._chosen(y), largest(mean, variance)
        value = jnp.sum(chosen * mean, axis=-1) - found.log_sum
        return value, chosen - found.shares, -found.bends / 2

    def slopes(self, y: Points, f: Latent, extra: Points) -> tuple[Points, Latent, Latent]:
        shares = jax.nn.softmax(f, axis=-1)
        first = self._chosen(y) - shares
        return self.log_density(y, f, extra), first, -shares * (1 - shares)

    def joint_nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """A product of rules for up to three classes, then nodes spread over all differences.

        With standard deviations up to 2 the error of an expectation is then below 0.003.
        """
        if self.classes > _MOST_JOINTLY:
            raise ValueError(
                f"Softmax reads {self.classes} functions together, and their joint expectations "
                f"are accurate for at most {_MOST_JOINTLY}: use an sg.GP, whose functions are "
                "independent under q, with any number of classes"
            )
        return super().joint_nodes() if self.classes <= 3 else spread_out(self.classes - 1)

    def joint_slopes(self, y: Points, f: Latent, extra: Points) -> tuple[Points, Latent, Latent]:
        shares = jax.nn.softmax(f, axis=-1)
        each = shares[..., None] * jnp.eye(self.classes)[None]
        bend = shares[..., None] * shares[..., None, :] - each
        return self.log_density(y, f, extra), self._chosen(y) - shares, bend / 2

    def cdf(self, y: Points, f: Latent, extra: Points) -> Points:
        return self._upto(y, jax.nn.softmax(f, axis=-1))

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        return self._of_labels(jax.nn.softmax(f, axis=-1))

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        return self._of_labels(largest(mean, variance).shares)

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        chosen, found = self._chosen(y), largest(mean, variance)
        share = jnp.sum(chosen * found.shares, axis=-1)
        least = jnp.sum(chosen * mean, axis=-1) - found.log_sum  # by Jensen, where it underflows
        return jnp.where(share > 0, jnp.log(jnp.where(share > 0, share, 1.0)), least)

    def outcome_probabilities(
        self, mean: Latent, variance: Latent, extra: Points
    ) -> Float[Array, "*points outcomes"]:
        return largest(mean, variance).shares

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        return self._upto(y, largest(mean, variance).shares)

    def _upto(self, y: Points, shares: Latent) -> Points:
        labels = jnp.broadcast_to(jnp.arange(self.classes), shares.shape)
        return jnp.sum(jnp.where(labels <= y[..., None], shares, 0.0), axis=-1)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, self.classes - 1.0

    @property
    def outcomes(self) -> int | None:
        return self.classes

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        return jax.random.categorical(key, f, axis=-1).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """The logarithm of one count with one more from the overall shares."""
        chosen = 1.0 * (y[..., None] == np.arange(self.classes))
        count = chosen.reshape(-1, self.classes).sum(axis=0)
        overall = (count + 0.5) / (count.sum() + 0.5 * self.classes)
        return np.log((chosen + overall) / 2)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isin(y, np.arange(self.classes))

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability

    def _chosen(self, y: Points) -> Latent:
        return jax.nn.one_hot(y.astype(int), self.classes, dtype=float)

    def _of_labels(self, shares: Latent) -> tuple[Points, Points]:
        """Mean and variance of the number of the class."""
        labels = jnp.broadcast_to(jnp.arange(float(self.classes)), shares.shape)
        centre = jnp.sum(labels * shares, axis=-1)
        return centre, jnp.sum((labels - centre[..., None]) ** 2 * shares, axis=-1)
