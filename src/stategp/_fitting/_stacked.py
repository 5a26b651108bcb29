"""Several functions of several inputs that one likelihood reads: each in turn a Gaussian problem.

q of every function is the posterior of its part given pseudo-observations of Gaussian noise, its
sites: where E[log p(y | f)] has derivatives g and h in the mean m and variance of a function at an
observation, a natural-gradient step leads to sites of precision λ = −2h and value m + g/λ (Khan &
Lin, 2017). The bound is

    Σ E[log p(y | f)] + Σ_k (bound of part k − Σ E[log N(site; f_k, 1/λ)]).

To learn hyperparameters, those of each part are fitted to its pseudo-observations, which are held
fixed (Adam, Chang, Khan & Solin, 2021), and the sites follow, in turns.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stategp._inference import Outcome, Step, Stepwise, Watch, run
from stategp._models import SpaceTimeGP, StackedGP, bare, seen_as_gaussian
from stategp._posteriors import StackedPosterior
from stategp._runtime import Progress
from stategp.likelihoods import Likelihood
from stategp.parameters import Parameter, map_parameters, to_vector

MOST_STEPS = 100
MOST_ROUNDS = 30
TOLERANCE = 1e-7  # nats per observation that a step still gains at the end
ROUNDED = 1e-4  # the same of a round, which learns hyperparameters
_SHORTEST = 1e-3  # of a step
_FITTING = 15  # steps of L-BFGS in a round
_FOLLOWING = 5  # natural-gradient steps in a round
_PAST = 6  # steps that tell where the next is to lead
LEAST = 1e-8  # precision of a site: less says nothing


class Rows(NamedTuple):
    """The observations; what is missing has weight zero."""

    x: Any
    y: np.ndarray
    extra: np.ndarray
    weights: np.ndarray


class Stacking(NamedTuple):
    """Sites, q as they make it, and the sites that the data would rather have."""

    linear: np.ndarray  # of every observation and function
    precision: np.ndarray
    parts: tuple[Any, ...]
    wanted: tuple[np.ndarray, np.ndarray]
    bound: float
    size: float  # of the next step
    done: bool
    past: tuple[tuple[np.ndarray, np.ndarray], ...] = ()  # sites, and what they lacked


def stacked_posterior(
    model: StackedGP, request: Any, show: Progress, answer: Callable[[Any], Any]
) -> StackedPosterior:
    """The posterior that was asked for; `answer` finds that of each part."""
    given = {name: request.options[name] for name in ("optimiser", "batch_size", "step_size")}
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is not for an sg.StackedGP, which is fitted on all data")
    if request.method != "natural" or request.checkpoints is not None:
        raise ValueError("an sg.StackedGP is fitted by method='natural', without checkpoints")
    grid = isinstance(model.parts[0], SpaceTimeGP)
    rows = observe_rows(model.likelihood, request, grid=grid)
    inner = dataclasses.replace(request, x=rows.x, weights=None, progress=False)
    search = _Turns(model, rows, inner, lambda one: quietly(answer, one))
    result = run(search, show, None)
    state: Stacking = search.best
    kept = StackedGP([part.model for part in state.parts], model.likelihood)
    return StackedPosterior(kept, state.parts, state.bound, result)


def log_sites(
    values: np.ndarray, precision: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """E[log N(site; f, 1/precision)] under q."""
    square = (values - mean) ** 2 + variance
    expected: np.ndarray = (np.log(precision / (2 * math.pi)) - square * precision) / 2
    return expected


def quietly(answer: Callable[[Any], Any], request: Any) -> Any:
    """The answer, without warnings of a search that is a part of another."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of searches that are cut short; ours is judged itself
        return answer(request)


def observe_rows(likelihood: Likelihood, request: Any, *, grid: bool) -> Rows:
    """What the user gave, in rows; y may be a `grid` of times and places."""
    x, y = request.x, np.asarray(request.y, dtype=float)
    if grid and y.ndim == 2:
        times, places = np.asarray(x[0]), np.asarray(x[1], dtype=float)
        places = places[:, None] if places.ndim == 1 else places
        x = (np.repeat(times, len(places)), np.tile(places, (len(times), 1)))
    shape, y = y.shape, y.ravel()

    def column(value: Any, usual: float) -> np.ndarray:
        whole = np.asarray(usual if value is None else value, dtype=float)
        return np.broadcast_to(whole, shape).ravel()

    extra = column(request.extras.get(likelihood.extra or ""), likelihood.extra_default)
    seen = ~np.isnan(y)
    bad = seen & ~likelihood.valid(np.where(seen, y, 0.0), extra)
    if np.any(bad):
        at = int(np.argmax(bad))
        raise ValueError(
            f"y must {likelihood.support} for {likelihood!r}, but y[{at}] is {y[at]:g}"
        )
    weights = np.where(seen, column(request.weights, 1.0), 0.0)
    return Rows(x, np.where(seen, y, 0.0), extra, weights)


class _Turns(Stepwise):
    """Natural-gradient steps; to learn, a fit of every part comes before some of them."""

    def __init__(self, model: StackedGP, rows: Rows, request: Any, answer: Callable[[Any], Any]):
        self.model, self.rows, self.request, self.answer = model, rows, request, answer
        total, tolerance = float(rows.weights.sum()), request.options["tolerance"]
        self.enough = total * (TOLERANCE if request.learn else tolerance or TOLERANCE)
        self.rounded = total * (tolerance or ROUNDED)
        most = MOST_ROUNDS if request.learn else MOST_STEPS
        self.max_steps = request.options["max_steps"] or most

    def start(self) -> Stacking:
        likelihood, rows = self.model.likelihood, self.rows
        guess = likelihood.guess(rows.y, rows.extra)
        linear, precision = self._wanted(guess, np.ones_like(guess))[1:]
        asked = [seen_as_gaussian(part) for part in self.model.parts]
        return self._inferred(linear, precision, tuple(asked), learn=self.request.learn)

    def step(self, state: Stacking, number: int) -> Step:
        new = self._round(state) if self.request.learn else self._natural(state)
        return Step(new, new.bound, new.size, known=new)

    def judge(self, state: Stacking, watch: Watch) -> Outcome | None:
        return Outcome.converged if state.done else None

    def _round(self, state: Stacking) -> Stacking:
        """Hyperparameters for the sites as they are, then sites for these hyperparameters."""
        models = tuple(part.model for part in state.parts)
        new = self._inferred(state.linear, state.precision, models, learn=True)
        for _ in range(_FOLLOWING):
            new = self._natural(new)
            if new.done:
                break
        return new._replace(done=bool(new.bound - state.bound <= self.rounded))

    def _natural(self, state: Stacking) -> Stacking:
        """One step; one that lowers the bound is not taken, and the next is plain, and shorter."""
        models = tuple(part.model for part in state.parts)
        there = np.stack([state.linear, state.precision])
        past = (*state.past, (there, np.stack(state.wanted) - there))[-_PAST:]
        linear, precision = there + state.size * past[-1][1]
        if len(past) > 1 and state.size == 1.0:
            linear, precision = _accelerated(past)
        new = self._inferred(linear, np.maximum(precision, LEAST), models, learn=False)
        gain = new.bound - state.bound
        if not gain >= -1e-9 * abs(state.bound):
            shorter = state.size if state.past else state.size / 2
            return state._replace(size=shorter, past=(), done=shorter < _SHORTEST)
        size = min(1.0, 1.5 * state.size)
        return new._replace(size=size, past=past, done=bool(abs(gain) <= self.enough))

    def _inferred(
        self, linear: np.ndarray, precision: np.ndarray, models: tuple[Any, ...], *, learn: bool
    ) -> Stacking:
        """q of every part for given sites, or with hyperparameters learned for them."""
        values, noise = linear / precision, 1 / precision
        seen = self.rows.weights > 0
        parts = []
        for k, model in enumerate(models):
            options = self.request.options | {"max_steps": _FITTING, "tolerance": None, "starts": 1}
            asked = dataclasses.replace(
                self.request,
                model=map_parameters(_given, model) if not learn else model,
                y=np.where(seen, values[:, k], np.nan),
                extras={"noise_variance": noise[:, k]},
                options=options if learn else options | {"max_steps": None},
                learn=learn and len(to_vector(model)) > 0,
            )
            found = self.answer(asked)
            parts.append(dataclasses.replace(found, model=map_parameters(_given, found.model)))
        moments = [part.predict_f(self.rows.x) for part in parts]
        mean, variance = (np.stack([np.asarray(m[i]) for m in moments], axis=-1) for i in range(2))
        fit, *wanted = self._wanted(mean, variance)
        parted = sum(part.elbo for part in parts)
        sites = log_sites(values, precision, mean, variance)
        bound = fit + parted - float(np.sum(sites[seen]))
        return Stacking(linear, precision, tuple(parts), (wanted[0], wanted[1]), bound, 1.0, False)

    def _wanted(
        self, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Σ E[log p(y | f)], and the sites that its derivatives point at."""
        _, y, extra, weights = self.rows
        value, slope, curvature = map(
            np.asarray, _expected(bare(self.model.likelihood), y, mean, variance, extra)
        )
        precision = np.maximum(-2 * weights[:, None] * curvature, LEAST)
        return float(weights @ value), weights[:, None] * slope + precision * mean, precision


def _accelerated(past: tuple[tuple[np.ndarray, np.ndarray], ...]) -> np.ndarray:
    """Where nothing would be lacking if what sites lack were linear in them (Anderson, 1965).

    Functions that a likelihood reads pull at one another: each going where it would be best if the
    others stayed takes many steps.
    """
    places, lacks = (np.stack([pair[k].ravel() for pair in past]) for k in range(2))
    moved, changed = np.diff(places, axis=0), np.diff(lacks, axis=0)
    shares = np.linalg.lstsq(changed.T, lacks[-1], rcond=1e-10)[0]
    best: np.ndarray = places[-1] + lacks[-1] - shares @ (moved + changed)
    return best.reshape(past[-1][0].shape)


@jax.jit
def _expected(likelihood: Likelihood, y: Any, mean: Any, variance: Any, extra: Any) -> Any:
    return likelihood.expected_slopes(*map(jnp.asarray, (y, mean, variance, extra)))


def _given(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, given=True)
