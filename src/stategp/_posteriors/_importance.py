"""Samples of q with importance weights, and the bound on log p(y) that they give."""

import abc
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp._data import Observations
from stategp._inference import draw_states, geometry, log_normaliser, log_weights, prior_mean
from stategp._modules import Module
from stategp._posteriors._prediction import Chain
from stategp._runtime import as_key

_REPEATS = 32


class ImportanceWeighted(Module):
    """The methods of posteriors that weigh samples."""

    @abc.abstractmethod
    def _points(self, x_new: Any) -> Float[Array, " points"]:
        """The user's inputs, measured from the origin."""

    @abc.abstractmethod
    def _draw_states(self, key: Any, x: Float[Array, " points"], count: int) -> Any:
        """Joint samples of states at points measured from the origin."""

    @property
    @abc.abstractmethod
    def _observed(self) -> Observations:
        """What it is the posterior of."""

    @property
    @abc.abstractmethod
    def chain(self) -> Chain:
        """What the posterior consists of."""

    @property
    @abc.abstractmethod
    def _negative(self) -> bool:
        """Whether sites may have negative precision."""

    def importance_weighted_bound(
        self, samples: Any = 100, *, key: PRNGKeyArray | int | Any = 0, repeats: Any = _REPEATS
    ) -> tuple[float, float]:
        """A lower bound of log p(y) from samples of q, and the standard error of its estimate.

        Weights of `samples` draws are averaged, `repeats` times. The bound is `elbo` for one
        sample, and approaches log p(y) with more of them: what it gains says how far q is from the
        true posterior of f. For posteriors with an inducing point at every observation.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern12(), sg.likelihoods.Poisson())
        >>> posterior = sg.condition(model, np.arange(5.0), [0, 1, 3, 0, 2])
        >>> bound, error = posterior.importance_weighted_bound(100)
        >>> bound > posterior.elbo - 2 * error
        True
        """
        samples, repeats = (
            whole_number(name, value, least=1)
            for name, value in (("samples", samples), ("repeats", repeats))
        )
        self._check_states()
        keys = jax.random.split(as_key(key), repeats)
        bounds = np.asarray(_bounds(self.chain, self._observed, keys, samples, self._negative))
        error = bounds.std(ddof=1) / math.sqrt(repeats) if repeats > 1 else math.nan
        return float(bounds.mean()), float(error)

    def sample_weighted(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 100
    ) -> tuple[Float[Array, "samples points *latents"], Float[Array, " samples"]]:
        """Joint samples of f under q, and weights that make them samples of the true posterior.

        The weights sum to one: an average of any function of f, so weighted, approaches that of
        p(f | y) as the samples become many. For posteriors with an inducing point at every
        observation.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern12(), sg.likelihoods.Poisson())
        >>> posterior = sg.condition(model, np.arange(5.0), [0, 1, 3, 0, 2])
        >>> f, weights = posterior.sample_weighted(0, [0.5, 6.0], 1000)
        >>> (weights @ np.exp(f)).shape
        (2,)
        """
        samples = whole_number("num_samples", num_samples, least=1)
        self._check_states()
        chain, x = self.chain, self._points(x_new)
        model, count = chain.model, len(chain.inducing)
        everywhere = jnp.concatenate([chain.inducing, x])
        states = self._draw_states(key, everywhere, samples)
        weights = _weights(chain, self._observed, states[:, :count])
        f, start = [], 0
        for kernel in model.kernels:
            f.append(states[:, count:, start : start + kernel.state_dim] @ kernel.emission())
            start += kernel.state_dim
        together = f[0] if len(f) == 1 else jnp.stack(f, axis=-1)
        return together + prior_mean(model, x + chain.origin)[None], weights

    def _check_states(self) -> None:
        data = self._observed
        inside = np.isin(np.asarray(data.x), np.asarray(self.chain.inducing))
        if not data.individual or not np.all(inside):
            raise ValueError(
                "importance weights need an inducing point at every observation: fit or condition "
                "with inducing='data'"
            )


@partial(jax.jit, static_argnames=("samples", "indefinite"))
def _bounds(
    chain: Chain, data: Observations, keys: Array, samples: int, indefinite: bool
) -> Float[Array, " repeats"]:
    shape = geometry(chain.model, data.x, chain.inducing)
    log_z = log_normaliser(shape, chain.sites, indefinite)

    def bound(key: PRNGKeyArray) -> Float[Array, ""]:
        states = draw_states(shape, chain.sites, key, samples, indefinite)
        logs = log_weights(chain.model, data, shape, chain.sites, states)
        return log_z + jax.nn.logsumexp(logs) - math.log(samples)

    return jax.lax.map(bound, keys)


@jax.jit
def _weights(
    chain: Chain, data: Observations, states: Float[Array, "samples states dims"]
) -> Float[Array, " samples"]:
    """Weights that sum to one, of samples of the states of all chains side by side."""
    shape = geometry(chain.model, data.x, chain.inducing)
    ends = np.cumsum([kernel.state_dim for kernel in chain.model.kernels])[:-1]
    apart = tuple(jnp.split(states, ends, axis=-1))
    return jax.nn.softmax(log_weights(chain.model, data, shape, chain.sites, apart))
