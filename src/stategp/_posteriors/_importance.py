"""A bound on log p(y) that is tighter the more samples of q it weighs.

With states u drawn from q = prior · sites / Z, the weight p(y | u) p(u) / q(u) is
Z · p(y | u) / sites(u), whose expectation is p(y). The logarithm of an average of K weights is on
average a lower bound of log p(y): the usual one for K = 1, exact for K → ∞ (Burda, Grosse and
Salakhutdinov, 2016).
"""

import abc
import math
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp._data import Observations
from stategp._inference import geometry, prior_mean, stack
from stategp._posteriors._prediction import Chain
from stategp._runtime import as_key
from stategp.chain import Sites, sample_states, sweep

_REPEATS = 32


class ImportanceWeighted(eqx.Module):
    """The method of posteriors that weighs samples."""

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
        data = self._observed
        inside = np.isin(np.asarray(data.x), np.asarray(self.chain.inducing))
        if not data.individual or not np.all(inside):
            raise ValueError(
                "importance weights need an inducing point at every observation: fit or condition "
                "with inducing='data'"
            )
        keys = jax.random.split(as_key(key), repeats)
        bounds = np.asarray(_bounds(self.chain, data, keys, samples, self._negative))
        error = bounds.std(ddof=1) / math.sqrt(repeats) if repeats > 1 else math.nan
        return float(bounds.mean()), float(error)


@partial(jax.jit, static_argnames=("samples", "indefinite"))
def _bounds(
    chain: Chain, data: Observations, keys: Array, samples: int, indefinite: bool
) -> Float[Array, " repeats"]:
    model = chain.model
    shape = geometry(model, data.x, chain.inducing)
    centre = prior_mean(model, jnp.asarray(data.x) + chain.origin)
    y, extra, weights = (jnp.asarray(v) for v in (data.y, data.extra, data.weights))
    log_normaliser = sum(
        sweep(prior, sites, indefinite=indefinite).log_normaliser
        for prior, sites in zip(shape.transitions, chain.sites, strict=True)
    )

    def log_weights(key: PRNGKeyArray) -> Float[Array, " samples"]:
        functions, total = [], jnp.zeros(samples)
        for number, prior in enumerate(shape.transitions):
            sites, own = chain.sites[number], jax.random.fold_in(key, number)
            states = sample_states(prior, sites, own, samples, indefinite=indefinite)
            total = total - _log_sites(sites, states)
            functions.append(shape.projections[number].conditional_mean(states))

        def log_density(*f: Float[Array, " points"]) -> Float[Array, ""]:
            return jnp.sum(weights * model.likelihood.log_density(y, stack([*f]) + centre, extra))

        return total + log_normaliser + jax.vmap(log_density)(*functions)

    return jax.lax.map(lambda key: jax.nn.logsumexp(log_weights(key)) - math.log(samples), keys)


def _log_sites(
    sites: Sites, states: Float[Array, "samples states dim"]
) -> Float[Array, " samples"]:
    """Of every sample; there is nothing on the outer sides of the first and the last state."""
    padded = jnp.pad(states, ((0, 0), (1, 1), (0, 0)))
    pairs = jnp.concatenate([padded[:, :-1], padded[:, 1:]], axis=-1)
    squares = jnp.einsum("smi,mij,smj->s", pairs, sites.precision, pairs)
    return jnp.einsum("smi,mi->s", pairs, sites.linear) - squares / 2
