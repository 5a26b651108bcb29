"""`inducing="auto"`: a state at every input where that is cheap, else as few as it takes.

Choosing a number costs several fits and their compilation. Where a fit with all of them is expected
to take less than that, it is what is done, and nothing is lost. Otherwise the number is doubled
until the error is small. For Gaussian observations the error log p(y) − bound is known: both sides
cost time linear in the data. For others, and where there are too many for the size of the state, it
is estimated from how the bound rises when the number doubles.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stategp._arguments import positive_number
from stategp._data import Observations, place_inducing
from stategp._fitting._settings import Settings
from stategp._inference import Certificate, Outcome
from stategp._models import GP, MixedGP
from stategp._posteriors import MixedPosterior, Posterior
from stategp.parameters import all_parameters, log_prior, to_vector

Model = GP | MixedGP
Answer = Posterior | MixedPosterior
Start = Callable[[float], Any]
Bound = Callable[[Any, np.ndarray], float]  # for hyperparameters as they are
Learn = Callable[[list[Any], np.ndarray], Any]  # from the best of some starts

_FEW = 256  # with no more distinct inputs than this, inducing points at the data cost nothing
_FEWEST = 16
EXACT_STRETCHES = (1.0, 0.25, 0.0625, 1 / 64, 1 / 256)  # of the lengthscales to start from
_AFFORDABLE = 3_000_000  # numbers in a matrix for every state: more than that is not done exactly
_SCANNED = 1024  # inducing points with which starting lengthscales are compared, at most
_PATIENCE = 10.0  # seconds of computing that choosing a number of inducing points would take
_MANY = 20_000  # states beyond which a posterior is a burden to keep and to predict from
_EVALUATIONS = 60  # of the bound and its gradient, in a search for hyperparameters
_STEPS = 10  # of q in each of them, where observations are not Gaussian


@dataclasses.dataclass(frozen=True)
class Auto:
    """``inducing=sg.Auto(tolerance=0.01)``, for an `sg.GP`; "auto" is the same with the default.

    `tolerance` is how far the bound may be below the best that any number of inducing points could
    reach, in nats per 1,000 observations.

    >>> import stategp as sg
    >>> sg.Auto()
    Auto(tolerance=0.01)
    """

    tolerance: float = 0.01

    def __init__(self, tolerance: Any = 0.01):
        object.__setattr__(self, "tolerance", positive_number("tolerance", tolerance))


def as_auto(inducing: object) -> Auto | None:
    """What the user asked for, if that was to have the number chosen."""
    if isinstance(inducing, Auto):
        return inducing
    return Auto() if isinstance(inducing, str) and inducing == "auto" else None


def choose(
    start: Start,
    data: Observations,
    auto: Auto,
    *,
    bound: Bound,
    scan: Bound | None = None,
    learn: Learn,
    settings: Settings,
) -> Any:
    """The posterior with the number of inducing points that the tolerance asks for.

    `start` gives the model to begin with, its open lengthscales multiplied by a number. `bound`
    infers with hyperparameters as they are, `scan` (if given) does so where nothing is learned with
    as many inducing points; `learn` may change them, by the method of `settings`.
    """
    allowed = auto.tolerance * float(np.sum(np.asarray(data.weights))) / 1000
    grid = _Grid(data)
    if grid.most <= _FEW or exact_is_cheaper(start(1.0), grid.most, settings):
        at_data = learn([start(scale) for scale in EXACT_STRETCHES], grid(grid.most))
        return _certify(at_data, grid, [(grid.most, at_data.elbo)], allowed, bound, settings)
    posterior: Answer | None = None
    history: list[tuple[int, float]] = []
    smallest = _FEWEST  # fewer were found wanting
    try:
        first = model = best_scale(start, grid, scan or bound)
        checks = _Checks(model, data, grid, bound)
        count = checks.enough(grid.clip(_per_lengthscale(model, data)), allowed)
        while True:
            grown = bool(history) and count > history[-1][0]
            posterior = _learned(learn([model], grid(count)))
            history.append((count, posterior.elbo))
            if grown:
                # Hyperparameters learned with too few inducing points may be near a worse optimum.
                posterior = _better(posterior, _learned(learn([first], grid(count))))
                history[-1] = count, posterior.elbo
            # Was that enough, and not too many, for the hyperparameters learned there?
            model = posterior.model
            checks = _Checks(model, data, grid, bound)
            needed = max(checks.enough(count, allowed), smallest)
            if needed == count:
                break
            smallest = max(smallest, needed) if needed > count else smallest
            count = needed
    except _Interrupted as interrupted:
        reached = interrupted.posterior
        best = reached if posterior is None else _better(posterior, reached)
        return _unfinished(best, allowed, history)
    except KeyboardInterrupt:
        if posterior is None:
            raise
        return _unfinished(posterior, allowed, history)
    return _certify(posterior, grid, history, allowed, bound, settings, checks)


def _certify(
    posterior: Answer,
    grid: "_Grid",
    history: list[tuple[int, float]],
    allowed: float,
    bound: Bound,
    settings: Settings,
    checks: "_Checks | None" = None,
) -> Answer:
    """The posterior with a certificate of its number of inducing points."""
    count, model = history[-1][0], posterior.model
    checks = checks or _Checks(model, grid.data, grid, bound)
    error, reason = checks.error(count), checks.reason(count)
    method = settings.method
    if not method.plain_bound:
        reason += f"; determined with the bound of method='natural', not of {method.name!r}"
    elif (cause := method.shortfall(model)) is not None:
        short = max(checks.bound(count) - posterior.elbo, 0.0)
        error += short
        reason += f"; {short:.2g} of it is due to {cause}"
    certificate = Certificate(
        inducing=count,
        bound=posterior.elbo,
        error=max(error, 0.0),
        tolerance=allowed,
        exact=checks.exact or (count >= grid.most and grid.data.individual),
        reached=error <= allowed,
        history=tuple(history),
        reason=reason,
    )
    return _certified(posterior, certificate)


class _Interrupted(Exception):  # noqa: N818, nothing went wrong
    """A fit that was interrupted, and what it reached."""

    def __init__(self, posterior: Answer):
        super().__init__()
        self.posterior = posterior


def _learned(posterior: Answer) -> Answer:
    """The posterior of a fit that nobody interrupted."""
    result = posterior.fit_result
    if result is not None and result.outcome is Outcome.interrupted:
        raise _Interrupted(posterior)
    return posterior


def _better(one: Answer, other: Answer) -> Answer:
    """The one with the higher objective: the bound, and the log prior of the hyperparameters."""

    def height(posterior: Answer) -> float:
        return posterior.elbo + float(log_prior(posterior.model))

    return other if height(other) > height(one) else one


def _unfinished(posterior: Answer, allowed: float, history: list[tuple[int, float]]) -> Answer:
    """What was reached before an interruption, and a certificate that says so."""
    certificate = Certificate(
        inducing=len(posterior.inducing),
        bound=posterior.elbo,
        error=math.inf,
        tolerance=allowed,
        exact=False,
        reached=False,
        history=tuple(history),
        reason="interrupted before it was known",
    )
    result = posterior.fit_result
    if result is not None and result.outcome is not Outcome.interrupted:
        result = result.with_remarks(outcome=Outcome.interrupted)
    return dataclasses.replace(posterior, certificate=certificate, fit_result=result)


def exact_is_cheaper(model: Model, inputs: int, settings: Settings) -> bool:
    """Whether a fit with a state at every input should take less than choosing fewer would.

    Only methods that climb with q at its best need few enough evaluations. The costs are
    microseconds a state on one core, about those of `benchmarks/chain.py` with A and Q on top.
    """
    if not settings.method.takes_starts or inputs > _MANY:
        return False
    evaluations = _EVALUATIONS if len(to_vector(model)) else 1
    if model.likelihood.conjugate:
        cost = sum(0.3 + 0.03 * dim**2.2 for dim in chain_sizes(model))
    else:
        cost = _STEPS * sum(0.5 + 0.12 * dim**2.1 for dim in chain_sizes(model))
    return 1e-6 * cost * inputs * evaluations <= _PATIENCE


def chain_sizes(model: Model) -> list[int]:
    """The sizes of the states of all chains."""
    dims = [kernel.state_dim for kernel in model.kernels]
    return [sum(dims)] if isinstance(model, MixedGP) and model.q == "joint" else dims


def best_scale(start: Start, grid: "_Grid", bound: Bound) -> Model:
    """The starting lengthscales, or shorter ones if the data speak for them.

    A search for hyperparameters from lengthscales much too long may call everything noise.
    """
    candidates = [start(scale) for scale in EXACT_STRETCHES]
    if np.array_equal(to_vector(candidates[0]), to_vector(candidates[1])):
        return candidates[0]
    exact = knows_exactly(candidates[0], grid)  # then all data will be needed anyway
    locations = grid(grid.most if exact else min(grid.most, _SCANNED))
    bounds = [bound(candidate, locations) for candidate in candidates]
    return candidates[int(np.argmax(np.nan_to_num(bounds, nan=-np.inf)))]


def knows_exactly(model: Model, grid: "_Grid") -> bool:
    """Whether log p(y) can be had: Gaussian observations, not too many for the state's size."""
    entries = sum(dim**2 for dim in chain_sizes(model))
    known = model.likelihood.conjugate and grid.data.individual
    return known and grid.most * entries <= _AFFORDABLE


def _per_lengthscale(model: Model, data: Observations) -> int:
    """One inducing point for every lengthscale."""
    lengths = [
        float(np.min(p.value))
        for kernel in model.kernels
        for p in all_parameters(kernel)
        if p.role == "lengthscale"
    ]
    span = float(data.x[-1] - data.x[0])
    shortest = min(lengths, default=span)
    most = len(data)
    return int(min(math.ceil(span / shortest) if shortest > 0 else most, most))


class _Grid:
    """Inducing locations by number, as few compiled shapes as doubling gives."""

    def __init__(self, data: Observations):
        self.data, self.places = data, data.edges()
        self.most = len(self.places)

    def clip(self, count: int) -> int:
        """A power of two, or all distinct inputs where that is not much more."""
        count = max(_FEWEST, 1 << max(count - 1, 1).bit_length())
        return self.most if 3 * count > 2 * self.most else count

    def half(self, count: int) -> int:
        """The step of `clip` below this one."""
        below = 1 << ((count if count < self.most else 2 * count // 3 + 1) - 1).bit_length() - 1
        return max(_FEWEST, min(below, count - 1))

    def __call__(self, count: int) -> np.ndarray:
        return self.places if count >= self.most else place_inducing(count, self.data)


class _Checks:
    """Errors at fixed hyperparameters."""

    def __init__(self, model: Model, data: Observations, grid: _Grid, bound: Bound):
        self.model, self.data, self.grid, self.infer = model, data, grid, bound
        self.bounds: dict[int, float] = {}
        self.ratio = 0.5
        self.exact = knows_exactly(model, grid)

    def bound(self, count: int) -> float:
        if count not in self.bounds:
            self.bounds[count] = self.infer(self.model, self.grid(count))
        return self.bounds[count]

    def error(self, count: int) -> float:
        """log p(y) − bound, or what is left to gain by further doublings."""
        error = self._error(count)
        return math.inf if math.isnan(error) else error

    def _error(self, count: int) -> float:
        if count >= self.grid.most:
            return 0.0 if self.grid.data.individual else self._error_at_edges()
        if self.exact:
            return self.bound(self.grid.most) - self.bound(count)
        gain = abs(self.bound(self.grid.clip(2 * count)) - self.bound(count))
        return gain / (1 - self._falling(gain, count))

    def _error_at_edges(self) -> float:
        """What states between the edges of a summary could still gain."""
        most, half = self.grid.most, max(self.grid.most // 2, 2)
        if most <= half:
            return math.nan
        gain = abs(self.bound(most) - self.bound(half))
        ratio = self._falling(gain, half)
        return gain * ratio / (1 - ratio)

    def _falling(self, gain: float, count: int) -> float:
        """The share of the gain of a doubling that the next is assumed to have."""
        before = self.bound(count) - self.bound(max(count // 2, 2))
        # Asymptotically the gains fall by 2^(2ν) per doubling for a Matérn-ν process, so by half
        # at least; what was seen, with a margin, may say more.
        self.ratio = float(np.clip(1.5 * gain / before, 0.03, 0.5)) if before > 0 else 0.5
        return self.ratio

    def enough(self, count: int, allowed: float) -> int:
        """The smallest number, among doublings and halvings of `count`, that is good enough."""
        while count < self.grid.most and self.error(count) > allowed:
            count = self.grid.clip(2 * count)
        while count > _FEWEST and self.error(self.grid.half(count)) <= allowed:
            count = self.grid.half(count)
        return count

    def reason(self, count: int) -> str:
        if count >= self.grid.most and not self.grid.data.individual:
            return (
                "there is one at every edge of the summary, and each further doubling is assumed "
                f"to gain {self.ratio:.2g} of the one before; a summary with a smaller `shortest` "
                "has more edges"
            )
        if count >= self.grid.most:
            return "there is one at every distinct input, so more cannot help"
        if self.exact:
            return "log p(y) was computed exactly"
        gain = self.bound(self.grid.clip(2 * count)) - self.bound(count)
        return (
            f"doubling them gains {gain:.2g}, and each further doubling is assumed to gain "
            f"{self.ratio:.2g} of the one before"
        )


def _certified(posterior: Answer, certificate: Certificate) -> Answer:
    return dataclasses.replace(posterior, certificate=certificate)
