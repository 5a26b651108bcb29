"""Newton steps on the sites of a field: EP, Laplace, linearised smoothing over space and time.

As for a series (`_methods/_bayes_newton.py`), with q found as the posterior of pseudo-observations
of Gaussian noise, which are what sites are (`_stacked.py`); their precisions are kept positive.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stategp._data import Observations
from stategp._fitting._methods import BayesNewton
from stategp._fitting._methods._bayes_newton import newton_slopes, wanted_site
from stategp._fitting._methods._lines import At
from stategp._fitting._methods._slopes import Seen
from stategp._fitting._settings import Settings
from stategp._fitting._space_time import observed_in_space
from stategp._fitting._stacked import LEAST, Rows, log_sites, observe_rows, quietly
from stategp._inference import Outcome, Step, Stepwise, Watch, run
from stategp._models import SpaceTimeGP, bare, seen_as_gaussian, with_likelihood
from stategp._posteriors import SpaceTimePosterior
from stategp._runtime import Progress

MOST_STEPS = 200
STILL = 1e-8  # the largest relative change of a site that counts as none


class Newton(NamedTuple):
    """The sites, and q as they make it."""

    linear: np.ndarray
    precision: np.ndarray
    field: Any
    bound: float
    wanted: tuple[np.ndarray, np.ndarray]
    change: float


def is_newton_field(model: Any, settings: Settings) -> bool:
    """Whether the sites of a field are to be moved by Newton steps."""
    return isinstance(model, SpaceTimeGP) and isinstance(settings.method, BayesNewton)


def newton_field(
    model: SpaceTimeGP,
    request: Any,
    settings: Settings,
    show: Progress,
    answer: Callable[[Any], Any],
) -> SpaceTimePosterior:
    """The posterior that was asked for; `answer` finds that of pseudo-observations."""
    natural = dataclasses.replace(request, method="natural")
    if model.likelihood.conjugate:
        exact: SpaceTimePosterior = answer(natural)
        return exact
    method: Any = settings.method
    data, _ = observed_in_space(model, request)
    _check(model, data, method, request)
    rows = observe_rows(model.likelihood, request, grid=True)
    inner = dataclasses.replace(
        natural, model=seen_as_gaussian(model), x=rows.x, weights=None, progress=False, learn=False,
        options=request.options | {"max_steps": None, "tolerance": None},
    )  # fmt: skip
    search = _Steps(model, rows, inner, settings, lambda one: quietly(answer, one))
    result = run(search, show, None)
    field, bound = search.best.field, search.best.bound
    if method.steady:
        free = quietly(answer, dataclasses.replace(natural, progress=False, learn=False))
        result = method.remarked(model, result, free.elbo - bound)
    return dataclasses.replace(
        field,
        model=with_likelihood(field.model, model.likelihood),
        data=data,
        elbo=bound,
        fit_result=result,
    )


def _check(model: SpaceTimeGP, data: Observations, method: BayesNewton, request: Any) -> None:
    """Refuse what Newton steps on a field cannot do."""
    method.check(request.open(model, lambda: model), data)
    if method.curvature == "quasi_newton":
        raise ValueError("curvature 'quasi_newton' is for an sg.GP; use 'exact' or 'riemann'")
    if request.checkpoints is not None:
        raise ValueError(
            f"checkpoint is for searches for hyperparameters, of which method={method.name!r} has "
            "none; leave it out"
        )


class _Steps(Stepwise):
    """Steps until the sites stand still."""

    def __init__(
        self,
        model: SpaceTimeGP,
        rows: Rows,
        request: Any,
        settings: Settings,
        answer: Callable[[Any], Any],
    ):
        self.likelihood, self.rows, self.request = bare(model.likelihood), rows, request
        self.method: Any = settings.method
        self.answer = answer
        self.max_steps = settings.max_steps or MOST_STEPS
        self.enough = settings.tolerance or STILL

    def start(self) -> Newton:
        guess = np.asarray(self.likelihood.guess(self.rows.y, self.rows.extra))
        linear, precision = starting_sites_of(self.likelihood, *self.rows[1:], guess)
        return self._inferred(np.asarray(linear), np.asarray(precision), np.inf)

    def step(self, state: Newton, number: int) -> Step:
        old = (state.linear, state.precision)
        rate = self.method.damping
        new = [a + rate * (b - a) for a, b in zip(old, state.wanted, strict=True)]
        changes = [
            np.max(np.abs(b - a)) / (1e-12 + np.max(np.abs(b)))
            for a, b in zip(old, new, strict=True)
        ]
        moved = self._inferred(new[0], np.maximum(new[1], LEAST), float(max(changes)))
        return Step(moved, moved.bound, rate, known=moved)

    def judge(self, state: Newton, watch: Watch) -> Outcome | None:
        return Outcome.converged if state.change <= self.enough else None

    def exhausted(self, watch: Watch) -> Outcome:
        return Outcome.sites_moving

    def _inferred(self, linear: np.ndarray, precision: np.ndarray, change: float) -> Newton:
        """q for given sites."""
        x, y, extra, weights = self.rows
        seen, values = weights > 0, linear / precision
        asked = dataclasses.replace(
            self.request,
            y=np.where(seen, values, np.nan),
            extras={"noise_variance": 1 / precision},
        )
        field = self.answer(asked)
        mean, variance = map(np.asarray, field.predict_f(x))
        fit, *wanted = map(
            np.asarray,
            look(
                self.likelihood, y, extra, weights, mean, variance, linear, precision, self.method
            ),
        )
        sites = log_sites(values, precision, mean, variance)
        bound = float(fit) + field.elbo - float(np.sum(sites[seen]))
        return Newton(linear, precision, field, bound, (wanted[0], wanted[1]), change)


@jax.jit
def starting_sites_of(likelihood: Any, y: Any, extra: Any, weights: Any, guess: Any) -> Any:
    """Sites to begin with, from a guess of f."""
    _, slope, curvature = likelihood.expected_slopes(
        y, guess, likelihood.guess_variance(guess), extra
    )
    precision = jnp.maximum(-2 * weights * curvature, LEAST)
    return weights * slope + precision * guess, precision


@partial(jax.jit, static_argnames="method")
def look(
    likelihood: Any,
    y: Any,
    extra: Any,
    weights: Any,
    mean: Any,
    variance: Any,
    linear: Any,
    precision: Any,
    method: BayesNewton,
) -> Any:
    """Σ E[log p(y | f)], and the sites that a whole step would lead to."""
    nothing = jnp.zeros_like(mean)
    at = At(y, extra, mean, variance, nothing)
    seen = Seen(likelihood, at, nothing, weights, linear, precision)
    wanted = wanted_site(seen, newton_slopes(seen, method), method)
    fit = weights @ likelihood.expected_slopes(y, mean, variance, extra)[0]
    return fit, *wanted
