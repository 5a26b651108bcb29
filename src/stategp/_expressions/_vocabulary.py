"""The kernels that text can name, and their arguments."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp

from stategp.kernels import (
    Constant,
    Cosine,
    DampedTrend,
    Harmonic,
    IntegratedWiener,
    Kernel,
    Linear,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Matern72,
    Oscillator,
    Periodic,
    QuasiPeriodic,
    SquaredExponential,
    Wiener,
)
from stategp.parameters import Parameter, fixed

# What may be written for an argument:
#   number, duration   a value to learn from (a duration may be a plain number, too)
#   frequency, period, start
#                      the same, but held fixed unless `learn(...)` says otherwise
#   numbers            a list in brackets
#   count, share, word options that are not learned: a whole number, a number, a name
Kind = Literal[
    "number", "duration", "frequency", "period", "start", "numbers", "count", "share", "word"
]  # fmt: skip
PARAMETERS = ("number", "duration", "frequency", "period", "start", "numbers")
HELD = ("frequency", "period", "start")
ENVELOPES = ("matern12", "matern32", "matern52")  # the only words there are


@dataclasses.dataclass(frozen=True)
class Word:
    """A kernel that text can name. The first of its arguments may be given without its name."""

    name: str
    kernel: type[Kernel]
    make: Callable[..., Kernel]
    arguments: dict[str, Kind]
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the options

    @property
    def first(self) -> str:
        return next(iter(self.arguments))


def _harmonic(
    *,
    period: Any = None,
    frequency: Any = None,
    terms: int | None = None,
    weights: Any = None,
    lengthscale: Any = None,
) -> Kernel:
    if period is not None and frequency is not None:
        raise ValueError("harmonic takes a period or a frequency, not both")
    if terms is not None and weights is not None:
        raise ValueError("harmonic takes terms or the weights of its terms, not both")
    if period is not None:
        frequency = fixed(1 / period.value) if isinstance(period, Parameter) else 1 / period
    kernel = Harmonic(weights=weights, frequency=frequency, lengthscale=lengthscale)
    if terms is None:
        return kernel
    if terms < 1:
        raise ValueError(f"terms must be at least 1, got {terms}")
    started = Parameter(jnp.ones(terms), "positive", kernel.weights.role, given=False)
    changed: Kernel = eqx.tree_at(lambda k: k.weights, kernel, started)
    return changed


def _matern(*, order: float | None = None, **options: Any) -> Kernel:
    if order is None:
        raise ValueError(
            "say how smooth it is: matern12, matern32, matern52, matern72, or matern(order=4.5)"
        )
    return Matern(order=order, **options)


_SMOOTH: dict[str, Kind] = {"lengthscale": "duration", "variance": "number"}
_SERIES: dict[str, Kind] = {"tolerance": "share", "order": "count"}

_WORDS = (
    Word("constant", Constant, Constant, {"variance": "number"}),
    Word("cosine", Cosine, Cosine, {"period": "period", "variance": "number"}),
    Word(
        "damped_trend",
        DampedTrend,
        DampedTrend,
        {"diffusivity": "number", "damping": "number", "start": "start"},
    ),
    Word(
        "harmonic",
        Harmonic,
        _harmonic,
        {
            "period": "period",
            "frequency": "frequency",
            "terms": "count",
            "weights": "numbers",
            "lengthscale": "duration",
        },
    ),
    Word(
        "integrated_wiener",
        IntegratedWiener,
        IntegratedWiener,
        {"diffusivity": "number", "start": "start", "slope": "start", "order": "count"},
        {"order": 1},
    ),
    Word("linear", Linear, Linear, {"slope": "number", "start": "start"}),
    Word("matern", Matern, _matern, {**_SMOOTH, "order": "share"}),
    Word("matern12", Matern12, Matern12, _SMOOTH),
    Word("matern32", Matern32, Matern32, _SMOOTH),
    Word("matern52", Matern52, Matern52, _SMOOTH),
    Word("matern72", Matern72, Matern72, _SMOOTH),
    Word(
        "oscillator",
        Oscillator,
        Oscillator,
        {"period": "period", "quality": "number", "variance": "number"},
    ),
    Word(
        "periodic",
        Periodic,
        Periodic,
        {"period": "period", "lengthscale": "number", "variance": "number", **_SERIES},
        {"tolerance": 1e-4},
    ),
    Word(
        "quasiperiodic",
        QuasiPeriodic,
        QuasiPeriodic,
        {
            "period": "period",
            "decay": "duration",
            "lengthscale": "number",
            "variance": "number",
            "envelope": "word",
            **_SERIES,
        },
        {"tolerance": 1e-4, "envelope": "matern32"},
    ),
    Word(
        "squared_exponential",
        SquaredExponential,
        SquaredExponential,
        {**_SMOOTH, "order": "count"},
        {"order": 6},
    ),
    Word("wiener", Wiener, Wiener, {"diffusivity": "number", "start": "start"}),
)

_ALIASES = {
    "rbf": "squared_exponential",
    "se": "squared_exponential",
    "exponential": "matern12",
    "ou": "matern12",
    "ornstein_uhlenbeck": "matern12",
    "bias": "constant",
    "cos": "cosine",
    "locally_periodic": "quasiperiodic",
    "sho": "oscillator",
    "brownian": "wiener",
    "random_walk": "wiener",
    "local_level": "wiener",
    "local_linear_trend": "integrated_wiener",
}

# What people look for here and find elsewhere.
_ELSEWHERE = {
    "white": "observation noise belongs to the likelihood, not to the kernel",
    "whitenoise": "observation noise belongs to the likelihood, not to the kernel",
    "noise": "observation noise belongs to the likelihood, not to the kernel",
    "gaussian": "as a kernel it is called squared_exponential, se or rbf",
    "fixed": "fixed(...) goes around a value: matern52(fixed(30d))",
    "learn": "learn(...) goes around a value: periodic(learn(1y))",
}


def plain(name: str) -> str:
    """A name without what people write in different ways: capitals, underscores, hyphens."""
    return name.lower().replace("_", "").replace("-", "")


NAMES = tuple(word.name for word in _WORDS)
BY_KERNEL = {word.kernel: word for word in _WORDS}
_BY_NAME = {plain(word.name): word for word in _WORDS}
_BY_NAME |= {plain(alias): _BY_NAME[plain(name)] for alias, name in _ALIASES.items()}


def find(name: str) -> Word | None:
    return _BY_NAME.get(plain(name))


def advice(name: str) -> str:
    """What to say of a name that is no kernel's."""
    if plain(name) in _ELSEWHERE:
        return f"; {_ELSEWHERE[plain(name)]}"
    if "-" in name and all(find(part) for part in name.split("-")):
        return "; kernels can be added and multiplied, not subtracted"
    return f"; known: {', '.join(NAMES)}.{suggestion(plain(name), list(_BY_NAME))}"


def suggestion(unknown: str, known: list[str]) -> str:
    close = difflib.get_close_matches(unknown, known, n=1)
    if not close:
        return ""
    word = _BY_NAME.get(close[0])
    # An alias is shown as it is spelled, a kernel by its full name.
    shown = word.name if word and plain(word.name) == close[0] else close[0]
    return f" Did you mean {shown}?"
