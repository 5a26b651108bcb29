"""From a posterior to a filter: the state at the last observation."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from stategp._arguments import as_whole, positive_number
from stategp._posteriors._filter import Filter, Time
from stategp._posteriors._prediction import Chain
from stategp._posteriors._revising import Recent
from stategp._posteriors._stepping import FilterState, States, Stepper
from stategp._runtime import at_once, finishing_compilations
from stategp.chain import Sites, prior_transitions, sweep


def start_filter(posterior: Any, forget: Any, window: Any, lag: Any) -> Filter:
    """`posterior.filter`, whose documentation says what it does."""
    if forget is not None and window is not None:
        raise ValueError("forget and window are two ways to forget: give one of them")
    revised = _lag(posterior, forget, window, lag)
    x, origin = float(posterior.data.x[-1]), posterior.data.origin
    time = _as_given(x, origin)
    memory = None if forget is None else positive_number("forget", forget)
    span = None if window is None else positive_number("window", window)
    young = None if span is None else Stepper(posterior.model).prior
    rounding = 0.0 if isinstance(time, int) else 2 * float(np.spacing(abs(x) + abs(origin)))
    if revised:
        recent, states = _recent(posterior, revised, x)
        return Filter(posterior.model, time, states, rounding=rounding, lag=revised, recent=recent)
    states = _last_states(posterior, x)
    return Filter(posterior.model, time, states, 0, memory, span, young, time, rounding)


def _lag(posterior: Any, forget: Any, window: Any, lag: Any) -> int:
    """How many observations are to be revised; none where there is nothing to revise."""
    if lag is None:
        return 0
    count, likelihood = as_whole(lag), posterior.model.likelihood
    if count is None or count < 1:
        raise ValueError(f"lag must be a number of observations, 1 or more, got {lag!r}")
    if forget is not None or window is not None:
        raise ValueError("a filter that forgets does not look back: give lag, forget or window")
    return 0 if likelihood.conjugate else count


def _recent(posterior: Any, lag: int, x: float) -> tuple[Recent, States]:
    """The last observations of a posterior that has a state for each, and the states at the end.

    Where it has fewer states, no observation can be taken out again, and none is there yet; nor
    where negative sites leave no normal distribution of what was known before.
    """
    data, inducing = posterior.data, np.asarray(posterior.relative_inducing)
    places = np.asarray(data.x)
    if not (data.individual and np.array_equal(inducing, data.edges())):
        states = _last_states(posterior, x)
        return Recent.none(states), states
    number = int(np.searchsorted(inducing, places[max(len(places) - lag, 0)]))
    rows = slice(int(np.searchsorted(places, inducing[number])), None)
    stepper, here = Stepper(posterior.model), places[rows]
    chain = posterior.chain
    with finishing_compilations(forget=False):
        found = at_once(lambda: _before(chain.bare, np.asarray(number)))
    before = tuple(FilterState(np.asarray(mean), np.asarray(P)) for mean, P in found)
    if not all(np.isfinite(state.covariance).all() for state in before):
        states = _last_states(posterior, x)
        return Recent.none(states), states
    users = here + float(data.origin)
    mean, variance = (np.asarray(v) for v in posterior.predict_f(users))
    y, extra, weights = (np.asarray(column)[rows] for column in (data.y, data.extra, data.weights))
    centre = stepper.centres(users)
    slope, curvature = stepper.slopes(y, mean, variance, extra)
    precision = -2 * curvature * weights[:, None]
    linear = slope * weights[:, None] + precision * (mean.reshape(centre.shape) - centre)
    steps = np.diff(here, prepend=here[0])
    recent = Recent(before, steps, y, extra, weights, centre, linear, precision)
    return recent.settled(stepper)


@jax.jit
def _before(chain: Chain, number: Int[Array, ""]) -> Any:
    """The state of this number, given all that was observed at those before it."""
    negative = not chain.model.likelihood.log_concave
    place = number + 1  # what is seen at a state belongs to the interval on its right
    earlier = jnp.arange(len(chain.inducing) + 1) < place
    found = []
    for kernel, sites in zip(chain.model.kernels, chain.sites, strict=True):
        known = Sites(
            jnp.where(earlier[:, None], sites.linear, 0.0),
            jnp.where(earlier[:, None, None], sites.precision, 0.0),
        )
        swept = sweep(prior_transitions(kernel, chain.inducing), known, indefinite=negative)
        pairs, dim = swept.marginals, kernel.state_dim
        found.append((pairs.mean[place, :dim], pairs.covariance[place, :dim, :dim]))
    return tuple(found)


def _last_states(posterior: Any, x: float) -> States:
    """The states at the last observation."""
    dims = [kernel.state_dim for kernel in posterior.model.kernels]
    last = float(posterior.relative_inducing[-1])
    if last <= x:
        states = [
            FilterState(np.asarray(q.mean)[-1, :d], np.asarray(q.covariance)[-1, :d, :d])
            for q, d in zip(posterior.marginals, dims, strict=True)
        ]
        return Stepper(posterior.model).advance(tuple(states), x - last, None)
    moments = posterior.predict_state([_as_given(x, posterior.data.origin)])
    mean, covariance = (np.asarray(v)[0] for v in moments)
    ends = np.cumsum([0, *dims]).tolist()
    return tuple(FilterState(mean[a:b], covariance[a:b, a:b]) for a, b in itertools.pairwise(ends))


def _as_given(x: float, origin: Time) -> Time:
    """An input as the user has it: whole numbers stay what they are."""
    return origin + int(x) if isinstance(origin, int) and x == int(x) else x + float(origin)
