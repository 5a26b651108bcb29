"""Gaussian observations added to a posterior without a pass over those that are there.

Gaussian sites do not depend on q: those of the old observations stay, those of the new ones are
added, and one sweep over the states gives the moments. What an old observation adds to the bound
beside log Z is a constant, so that

    bound = old bound − old log Z + log Z − ½ Σ (log 2π noise + (error² + residual) / noise)

with the sum over new observations, their errors from the mean function and what the states leave
open of f there. This holds as long as no new state lies among old observations.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._fitting._series import SeriesTask
from stategp._inference import Q, needs_care, prior_mean, rounding_of
from stategp._models import GP, bare
from stategp._posteriors import Posterior
from stategp._projection import project
from stategp._runtime import on_device, pad_inducing, pad_last, padded_size
from stategp.chain import PairMarginals, Sites, prior_transitions, sweep
from stategp.likelihoods import Gaussian

_LONG = 4096  # states; with more, and few observations to each, a pass takes less than two sweeps


class _Extended(NamedTuple):
    sites: Sites
    marginals: PairMarginals
    elbo: Float[Array, ""]
    rounding: Float[Array, ""]


def extend(posterior: Posterior, task: SeriesTask, new: Observations) -> Posterior | None:
    """The posterior with new observations, or None where all observations have to be looked at."""
    states, old = task.states, len(posterior.relative_inducing)
    if states > _LONG and 2 * states > len(task.data):
        return None
    inducing = np.asarray(task.inducing)[:states]
    if not _extends(posterior, inducing):
        return None
    model, before = bare(posterior.model), np.asarray(posterior.relative_inducing)
    padded = pad_inducing(inducing)
    size = padded_size(len(new))
    columns = [pad_last(np.asarray(c), size) for c in (new.x, new.y, new.extra, new.weights)]
    columns[3][len(new) :] = 0.0
    kept = posterior.sites[0]
    # With more states, the interval right of what was the last state now ends at the next one.
    places = np.append(np.arange(old), len(padded) if states == old else old)
    found = _extend(
        model,
        *on_device((padded, pad_last(before, len(padded)))),
        on_device(placed(kept, np.append(np.arange(old), len(padded)), len(padded))),
        on_device(placed(kept, places, len(padded))),
        on_device((*columns, np.asarray(float(new.origin)))),
        on_device(np.asarray(posterior.elbo)),
    )
    marginals = (found.marginals,)
    q = Q((found.sites,), marginals, (), found.elbo, found.rounding, (found.sites,))
    if needs_care(model, task.data, q):
        return None
    return task.posterior(posterior.model, q.sites, marginals, q.elbo, None, settled=True)


def _extends(posterior: Posterior, inducing: np.ndarray) -> bool:
    """Whether the old sites stay what they are with these inducing points."""
    conjugate = isinstance(posterior.model.likelihood, Gaussian) and posterior.settled
    return conjugate and stay(posterior, inducing)


def stay(posterior: Posterior, inducing: np.ndarray) -> bool:
    """Whether the best old sites, as functions of the states, are also those with these states.

    The old observations lie between the same ones as before.
    """
    before = np.asarray(posterior.relative_inducing)
    old = len(before)
    if any(kernel.located for kernel in posterior.model.kernels):
        return False
    if not np.array_equal(inducing[:old], before):  # states have come between, or before them
        return False
    return len(inducing) == old or float(posterior.data.x[-1]) <= float(before[-1])


def placed(sites: Sites, places: np.ndarray, size: int) -> Sites:
    """Sites at some intervals of a chain of so many states, none at the others."""

    def spread(leaf: Any) -> np.ndarray:
        whole = np.zeros((size + 1, *leaf.shape[1:]))
        whole[places] = np.asarray(leaf)
        return whole

    placed: Sites = jax.tree.map(spread, sites)
    return placed


@jax.jit
def _extend(
    model: GP,
    inducing: Array,
    old_inducing: Array,
    old_sites: Sites,
    sites: Sites,
    new: tuple[Array, ...],
    old_elbo: Array,
) -> _Extended:
    (kernel,), likelihood = model.kernels, model.likelihood
    assert isinstance(likelihood, Gaussian)
    x, y, extra, weights, origin = new
    before = sweep(prior_transitions(kernel, old_inducing), old_sites)
    prior = prior_transitions(kernel, inducing)
    projection = project(kernel, inducing, x, prior)
    noise = likelihood.variance.value + extra
    precision, error = weights / noise, y - prior_mean(model, x + origin)
    added = projection.gather(precision * error, precision, len(prior.A))
    whole: Sites = jax.tree.map(jnp.add, sites, added)
    after = sweep(prior, whole)
    residual = jnp.sum(jnp.stack(projection.residual), axis=0).reshape(-1)
    constants = -(weights * jnp.log(2 * jnp.pi * noise) + precision * (error**2 + residual)) / 2
    terms = jnp.stack([old_elbo, -before.log_normaliser, after.log_normaliser, jnp.sum(constants)])
    rounding = rounding_of(terms, [(whole, after.marginals)])
    return _Extended(whole, after.marginals, jnp.sum(terms), rounding)
