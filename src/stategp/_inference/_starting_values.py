"""Starting values for the hyperparameters that the user left open, taken from the data."""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from stategp._data import Observations, Observed, distinct_inputs
from stategp._models import GP, AdditiveGP
from stategp._runtime import on_device
from stategp.kernels import Kernel
from stategp.means import Mean, Zero
from stategp.parameters import Parameter, Role, all_parameters, map_parameters, with_value

Part = TypeVar("Part")

_SPECTRUM_POINTS = 3000
_MOST_CYCLES = 1500
_STARTS: tuple[Role, ...] = (
    "start", "start of a line", "start of a drifting line", "start of a curve",
)  # fmt: skip
_DIFFUSIVITIES: dict[Role, int] = {  # the order of the derivative that walks
    "diffusivity": 0, "slope diffusivity": 1, "diffusivity 2": 2, "diffusivity 3": 3,
    "diffusivity 4": 4, "diffusivity 5": 5, "diffusivity 6": 6,
    "diffusivity 7": 7, "diffusivity 8": 8, "diffusivity 9": 9, "diffusivity 10": 10,
}  # fmt: skip
_SIZES: tuple[Role, ...] = ("variance", "slope variance", *_DIFFUSIVITIES)


def pseudo_data(model: GP, data: Observations) -> np.ndarray:
    """The values of f that the observations point at, one column per latent function."""
    return model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))


def starting_model(model: GP, data: Observations, stretch: float = 1.0) -> GP:
    """The model with every hyperparameter that was not given set from the data.

    `stretch` multiplies the lengthscales that are.
    """
    guesses = _guesses(model, data, stretch)
    kernels = tuple(_start(k, guess) for k, guess in zip(model.kernels, guesses, strict=True))
    means = tuple(
        _held(_start(m, guess), m, k)
        for m, k, guess in zip(model.means, model.kernels, guesses, strict=True)
    )
    return GP(kernels, _start(model.likelihood, guesses[0]), means)


def _held(mean: Mean, before: Mean, kernel: Kernel) -> Mean:
    """The mean function without what the kernel leaves open: no level or slope is learned twice.

    (Far from the data, the constant that a trend is pulled to would become a trend of its own.)
    """
    open_roles: set[Role] = {p.role for p in all_parameters(kernel)}
    roles = ["level"] * bool(open_roles & set(_STARTS))
    roles += ["slope"] * ("start of a slope" in open_roles or "slope variance" in open_roles)
    chosen = {p.role for p in all_parameters(before) if not p.given} & set(roles)

    def hold(parameter: Parameter) -> Parameter:
        if parameter.role not in chosen:
            return parameter
        return Parameter(parameter.value, parameter.constraint, parameter.role, learned=False)

    return map_parameters(hold, mean)


def search_scales(model: GP, data: Observations) -> np.ndarray:
    """The natural size of a step in each coordinate of the hyperparameter vector."""
    guesses = _guesses(model, data)
    owners = [*zip(model.kernels, guesses, strict=True), (model.likelihood, guesses[0])]
    owners += zip(model.means, guesses, strict=True)
    return _scales(owners)


class Openings:
    """`starting_model` and `search_scales` of one model for many series, without making models.

    `model` is as given, `like` its starting model for any series, which tells what is learned.
    """

    def __init__(self, model: GP, like: GP):
        self.model, self.entries, self.learned = model, [], []
        for number, (part, same) in enumerate(zip(_parts(model), _parts(like), strict=True)):
            parameters = all_parameters(part)
            latents = len(model.kernels)  # whose means come after the likelihood
            latent = number if number < latents else max(number - latents - 1, 0)
            summands = _summands(parameters)
            for parameter, started in zip(parameters, all_parameters(same), strict=True):
                role = None if parameter.given else parameter.role
                self.entries.append((latent, role, summands))
                if started.learned:
                    real = started.constraint == "real"
                    size = started.value.size
                    self.learned.append((latent, started.role if real else None, size))

    def values(
        self, given: list[np.ndarray], data: Observations, stretches: Sequence[float]
    ) -> list[list[np.ndarray]]:
        """For each stretch, the values of all parameters in the order of the fields.

        `given` are those of the model, some of which will do.
        """
        if all(role is None for _, role, _ in self.entries):
            return [given]
        guesses, found = _guesses(self.model, data), []
        for stretch in stretches:
            for guess in guesses:
                guess.stretch = stretch
            numbers = []
            for (latent, role, summands), value in zip(self.entries, given, strict=True):
                number = None if role is None else guesses[latent].value(role, summands)
                numbers.append(value if number is None else np.full(value.shape, float(number)))
            found.append(numbers)
        return found

    def scales(self, data: Observations) -> np.ndarray:
        """The natural size of a step in each learned coordinate."""
        if all(role is None for _, role, _ in self.learned):
            return np.ones(sum(size for _, _, size in self.learned))
        guesses = _guesses(self.model, data)
        sizes = [1.0 if role is None else guesses[n].scale(role) for n, role, _ in self.learned]
        return np.repeat(sizes, [size for _, _, size in self.learned])


def _parts(model: GP) -> list[Any]:
    """Kernels, likelihood and means, in the order of the fields."""
    return [*model.kernels, model.likelihood, *model.means]


def _summands(parameters: list[Parameter]) -> int:
    return max(1, sum(p.role in _SIZES and not p.given for p in parameters))


def _scales(owners: list[tuple[Any, "_Guesses"]]) -> np.ndarray:
    scales: list[Any] = []
    for part, guess in owners:  # in the order of the fields of the model, which is the vector's
        for parameter in all_parameters(part):
            if parameter.learned:
                size = 1.0 if parameter.constraint == "positive" else guess.scale(parameter.role)
                scales.append(np.full(parameter.value.size, size))
    return np.concatenate(scales) if scales else np.zeros(0)


def starting_additive(model: AdditiveGP, observed: Observed) -> AdditiveGP:
    """The additive model with every hyperparameter that was not given set from the data."""
    guesses = _additive_guesses(model, observed)
    parts = [_start(k, guess) for k, guess in zip(model.kernels, guesses[:-1], strict=True)]
    likelihood, mean = _start(model.likelihood, guesses[-1]), _start(model.mean, guesses[-1])
    for kernel in model.kernels:
        mean = _held(mean, model.mean, kernel)
    return AdditiveGP(dict(zip(model.names, parts, strict=True)), likelihood, mean)


def additive_scales(model: AdditiveGP, observed: Observed) -> np.ndarray:
    """The natural size of a step in each coordinate of the hyperparameter vector."""
    guesses = _additive_guesses(model, observed)
    parts = [*model.kernels, model.likelihood, model.mean]
    return _scales(list(zip(parts, [*guesses, guesses[-1]], strict=True)))


def _additive_guesses(model: AdditiveGP, observed: Observed) -> list["_Guesses"]:
    """For each component, which has its share of the variance, and for f as a whole."""
    count, guesses = len(model.kernels), []
    for number in [*range(count), 0]:
        data = observed.as_series(number)
        f = model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
        robust = not model.likelihood.conjugate
        guess = _Guesses(np.asarray(data.x), f, float(data.origin), robust, 3.0)
        guesses.append(_from_mean(guess, model.mean))
    for guess in guesses[:-1]:
        guess.variance /= count
    return guesses


def _guesses(model: GP, data: Observations, stretch: float = 1.0) -> list["_Guesses"]:
    pseudo = pseudo_data(model, data).reshape(len(data), -1)
    robust = not model.likelihood.conjugate
    guesses = [
        _Guesses(np.asarray(data.x), pseudo[:, i], float(data.origin), robust, stretch)
        for i in range(pseudo.shape[1])
    ]
    return [_from_mean(guess, mean) for guess, mean in zip(guesses, model.means, strict=True)]


def _from_mean(guess: "_Guesses", mean: Mean) -> "_Guesses":
    """f without its mean function, if there is one, has a level around zero."""
    if not isinstance(mean, Zero):
        guess.vague = guess.variance
    return guess


def _start(part: Part, guesses: "_Guesses") -> Part:
    """The kernel, mean or likelihood with what was not given taken from the data."""
    summands = _summands(all_parameters(part))

    def start(parameter: Parameter) -> Parameter:
        if parameter.given:
            return parameter
        value = guesses.value(parameter.role, summands)
        if value is None:
            return parameter
        return with_value(parameter, on_device(np.full(parameter.value.shape, float(value))))

    return map_parameters(start, part)


class _Guesses:
    def __init__(self, x: np.ndarray, f: np.ndarray, origin: float, robust: bool, stretch: float):
        self.x, self.y, self.origin, self.robust = x, f, origin, robust
        self.stretch = stretch
        self.span = float(self.x[-1] - self.x[0]) or 1.0
        spread = float(np.var(self.y))
        if robust:  # outliers say nothing about the size of f
            deviations = np.abs(self.y - np.median(self.y))
            spread = float(1.4826 * np.median(deviations)) ** 2 or spread
        level = float(np.mean(self.y**2))
        self.variance = spread or level or 1.0
        # A level far from zero must not be pulled there, but digits beside small noise are limited.
        self.vague = self.variance + level / 1000

    def value(self, role: Role, summands: int) -> float | None:
        match role:
            case "variance":
                return self.variance / summands
            case "noise":
                return 0.1 * self.variance
            case "scale":
                return float(np.sqrt(0.1 * self.variance))
            case "amplitude":
                return float(np.sqrt(self.variance))
            case "lengthscale":
                return max(self.stretch * self.span / 10, self._spacing())
            case "decay":
                return max(self.span / 3, self._spacing())
            case "period":
                return self._period
            case "frequency":
                return 1 / self._period
            case "level":
                return float(np.median(self.y) if self.robust else np.mean(self.y))
            case "slope":
                return 0.0
            case "diffusivity":  # of a random walk that varies as y does within the span
                return 6 * self.variance / summands / self.span
            case "slope diffusivity":
                return 100 * self.variance / summands / self.span**3
            case "slope variance":  # of a line that varies as y does
                return 12 * self.variance / summands / self.span**2
            case "rate":
                return 10 / self.span
            case "start":
                return 1e6 * self.vague
            case "start of a line":
                return 1e8 * self.vague
            case "start of a drifting line":
                return 1e10 * self.vague
            case "start of a curve":  # whose level is no further from zero than data say
                return 1e6 * self.variance + 1e4 * (self.vague - self.variance)
            case "start of a slope":
                return 1e6 * self.variance / self.span**2
            case "centre":
                return self.origin + float(np.mean(self.x))
            case _ if role in _DIFFUSIVITIES:  # sizes of derivatives that grow as of a few waves
                order = _DIFFUSIVITIES[role]
                return 100.0**order * self.variance / summands / self.span ** (2 * order + 1)
            case _:
                return None

    def scale(self, role: Role) -> float:
        deviation = float(np.sqrt(self.variance))
        sizes = {"level": deviation, "slope": deviation / self.span, "change": self.span / 10}
        return sizes.get(role, 1.0)

    def _spacing(self) -> float:
        gaps = np.diff(distinct_inputs(self.x))
        return float(np.median(gaps)) if len(gaps) else self.span

    @functools.cached_property
    def _period(self) -> float:
        return strongest_period(self.x, self.y)[0]


def strongest_period(
    x: np.ndarray, y: np.ndarray, fewest_cycles: float = 1.0
) -> tuple[float, float]:
    """The strongest period between twice the usual spacing of x and its span, a smooth trend
    removed, and the share of the variance that a sine of it explains; x in order.
    """
    from scipy.signal import lombscargle  # slow to import

    distinct = distinct_inputs(x)
    span = float(x[-1] - x[0]) or 1.0
    keep = np.random.default_rng(0).permutation(len(x))[:_SPECTRUM_POINTS]
    x, y = x[keep] / span, y[keep]
    if len(np.unique(x)) < 8:
        return span, 0.0
    degree = 1 if fewest_cycles <= 1 else 5
    y = y - np.polynomial.Polynomial.fit(x, y, degree)(x)
    if not np.any(y):
        return span, 0.0
    spacing = float(np.median(np.diff(distinct))) / span
    most = np.clip(1 / (2 * spacing), fewest_cycles + 1, _MOST_CYCLES)
    cycles = np.arange(fewest_cycles, most, 0.25)
    power = lombscargle(x, y, 2 * np.pi * cycles, normalize=True)
    best = int(np.argmax(power))
    return float(span / cycles[best]), float(power[best])
