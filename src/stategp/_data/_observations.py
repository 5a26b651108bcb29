"""Data at the door: checked once, sorted, and measured from an origin that is kept.

Inputs are stored as differences from the first one, taken in integer arithmetic where they are
integers, so that nanosecond timestamps near 10¹⁸ lose nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._arguments import as_whole
from stategp._data._views import (
    Expected,
    Latent,
    Origin,
    View,
    positive_precision,
    slopes_in_parameters,
)
from stategp._runtime import is_traced, on_device, refuse_traced
from stategp.likelihoods import Gaussian, Likelihood

_SMALLEST, _LARGEST = 1e-150, 1e150  # sizes of y whose squares are ordinary numbers

if TYPE_CHECKING:
    Column = Array
else:  # the user's data stay on the host until something is computed with them
    Column = Float[Array | np.ndarray, " points"]


class Observations(View):
    """Observations in order of x, without the missing ones."""

    x: Column  # measured from the origin
    y: Column
    # What the likelihood reads beside y (noise variance, exposure, …), and how often each counts.
    extra: Column
    weights: Column
    origin: Origin

    def __len__(self) -> int:
        return len(self.y)

    @property
    def observed(self) -> int:
        """How many observations there are, or were before they were summed up."""
        return len(self)

    @property
    def individual(self) -> bool:
        """Whether each of them is known."""
        return True

    @property
    def at_hand(self) -> "Observations":
        """What is looked at where all of them are asked for."""
        return self

    def edges(self) -> np.ndarray:
        """Where inducing points are put, in order and each once: at the inputs."""
        return distinct_inputs(np.asarray(self.x))

    def at_edges(self, inducing: Any) -> np.ndarray:
        """Locations given by the user, from the origin."""
        return relative_inputs("inducing", inducing, self.origin)

    @property
    def nodes(self) -> Float[Array, " points"]:
        return jnp.asarray(self.x)

    @property
    def user_nodes(self) -> Float[Array, " points"]:
        return self.nodes + self.origin

    @property
    def total(self) -> Float[Array, ""]:
        if is_traced(self.weights):
            return jnp.sum(self.weights)
        together: Float[Array, ""] = on_device(np.sum(np.asarray(self.weights)))
        return together

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        value, slope, curvature = likelihood.expected_slopes(self._y, mean, variance, self._extra)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        return Expected(self._sum(value), self._weigh(slope), self._weigh(curvature))

    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        return slopes_in_parameters(
            lambda moved: self._sum(
                moved.expected_log_density(self._y, mean, variance, self._extra)
            ),
            likelihood,
        )

    def start(self, likelihood: Likelihood, guess: Latent, shift: Latent) -> tuple[Latent, Latent]:
        expected = self.expected(likelihood, guess, likelihood.guess_variance(guess))
        precision = positive_precision(likelihood, expected.curvature)
        return expected.slope + precision * (guess - shift), precision

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        return self._sum(likelihood.highest_log_density(self._y, self._extra))

    @property
    def _y(self) -> Float[Array, " points"]:
        return jnp.asarray(self.y)

    @property
    def _extra(self) -> Float[Array, " points"]:
        return jnp.asarray(self.extra)

    def _sum(self, values: Float[Array, " points"]) -> Float[Array, ""]:
        return jnp.sum(jnp.asarray(self.weights) * values)

    def _weigh(self, values: Latent) -> Latent:
        weights = jnp.asarray(self.weights)
        return values * (weights if values.ndim == 1 else weights[:, None])


class AtInducing(Observations):
    """Observations that are made at inducing points only."""

    state: Int[Array, " points"]  # of inducing points that are equal, the last
    first: Int[Array, " points"]  # and the first: those that fill up the end then see nothing
    lengths: Float[Array, " steps"]  # of the steps between inducing points, each of them once
    which: Int[Array, " states"]  # of them leads to each state; 0, from nothing, to the first

    @property
    def numbers(self) -> Int[Array, " points"]:
        return self.state


def observe(
    x: Any,
    y: Any,
    likelihood: Likelihood | None = None,
    *,
    extras: Mapping[str, Any] | None = None,
    weights: Any = None,
) -> Observations:
    """Check and sort what the user gave; drop the observations that are NaN."""
    likelihood = Gaussian() if likelihood is None else likelihood
    columns: list[Any] = [*check_columns(x, y, likelihood, extras, weights)]
    if len(columns[0]) == 0:
        none_given = np.size(x) == 0
        raise ValueError(
            "x and y are empty: at least one observation is needed"
            if none_given
            else "every y is NaN (missing): at least one observation is needed"
        )
    if not columns[3].any():
        raise ValueError("every weight is zero: at least one observation has to count")
    origin = columns[0].min().item()
    columns[0] = relative_inputs("x", columns[0], origin)
    if np.any(columns[0][1:] < columns[0][:-1]):
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
    extra_source = (extras or {}).get(likelihood.extra or "")
    for number, source in ((1, y), (2, extra_source), (3, weights)):
        columns[number] = _apart(columns[number], source)
    return Observations(columns[0], columns[1], columns[2], columns[3], origin)


def check_columns(
    x: Any,
    y: Any,
    likelihood: Likelihood,
    extras: Mapping[str, Any] | None,
    weights: Any,
) -> list[np.ndarray]:
    """Inputs, observations, what is read beside them and weights, without those that are NaN."""
    inputs = inputs_as_given("x", x)
    targets = numbers("y", y)
    if len(inputs) != len(targets):
        raise ValueError(f"x and y must have equal lengths, got {len(inputs)} and {len(targets)}")
    seen = ~np.isnan(targets)
    _reject(np.isinf(targets), "y", targets, "be finite (NaN means missing)")
    _check_size("y", targets[seen])
    extra = extra_values(likelihood, len(targets), extras, needed=seen)
    check_support(likelihood, "y", targets, extra)
    counts = observation_weights(weights, len(targets), seen)
    columns = [inputs, targets, extra, counts]
    return columns if seen.all() else [column[seen] for column in columns]


def _apart(column: np.ndarray, source: Any) -> np.ndarray:
    """The column itself, or a copy where it is the memory of the user, who may change it later."""
    if source is None or isinstance(source, list | tuple):
        return column
    return column.copy() if np.may_share_memory(column, np.asarray(source)) else column


def _check_size(name: str, values: np.ndarray) -> None:
    """Refuse numbers whose squares double precision does not have."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest > 0 and not _SMALLEST <= largest <= _LARGEST:
        wrong = "small" if largest < _SMALLEST else "large"
        raise ValueError(
            f"{name} is too {wrong} for double precision to hold its variance: the largest "
            f"absolute value is {largest:g}, and must lie between {_SMALLEST:g} and {_LARGEST:g}; "
            f"rescale {name} (change its units) first"
        )


def check_support(likelihood: Likelihood, name: str, y: np.ndarray, extra: np.ndarray) -> None:
    """Refuse observations that the likelihood calls impossible; NaN means missing."""
    rule = f"{likelihood.support} for {type(likelihood).__name__}"
    _reject(~np.isnan(y) & ~likelihood.valid(y, extra), name, y, rule)


def observation_weights(weights: Any, count: int, needed: np.ndarray) -> np.ndarray:
    """How often each observation counts, once unless given."""
    counts = _one_per_observation("weights", weights, count, default=1.0)
    _reject(needed & ~(np.isfinite(counts) & (counts >= 0)), "weights", counts, "be zero or more")
    return counts


def extra_values(
    likelihood: Likelihood,
    count: int,
    extras: Mapping[str, Any] | None,
    needed: np.ndarray | None = None,
) -> np.ndarray:
    """What the likelihood reads beside y, one number per observation, from arguments by name."""
    passed = {name: value for name, value in (extras or {}).items() if value is not None}
    name = likelihood.extra
    for other in passed:
        if other != name:
            takes = f"it takes {name}" if name else "it takes nothing of the kind"
            raise ValueError(f"{other} has no meaning for {type(likelihood).__name__}: {takes}")
    if name is None:
        return np.broadcast_to(0.0, count)
    values = _one_per_observation(name, passed.get(name), count, likelihood.extra_default)
    if name in passed:
        looked_at = np.ones(count, dtype=bool) if needed is None else needed
        if name == "censored":
            _reject(looked_at & np.isnan(values), name, values, "be zero, a width or ±∞")
            return values
        if name == "noise_variance":  # adds to that of the likelihood
            _reject(looked_at & ~(values >= 0), name, values, "be zero or more")
        else:
            _reject(looked_at & ~(values > 0), name, values, "be positive")
        _reject(looked_at & np.isinf(values), name, values, "be finite")
    return values


def traced_inputs(name: str, x: Any, origin: Origin) -> Float[Array, " points"]:
    """`relative_inputs` of what JAX traces: nothing can be checked but the shape."""
    inputs = jnp.asarray(x)
    if inputs.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {inputs.shape}")
    if jnp.issubdtype(inputs.dtype, jnp.signedinteger) and isinstance(origin, int):
        whole, first = inputs.astype(jnp.int64), jnp.asarray(origin, dtype=jnp.int64)
        # Modulo 2⁶⁴ the difference in the right order is exact, as in `_integer_differences`.
        bits, first_bits = whole.astype(jnp.uint64), first.astype(jnp.uint64)
        above, below = (bits - first_bits).astype(float), (first_bits - bits).astype(float)
        return jnp.where(whole >= first, above, -below)
    return inputs.astype(float) - float(origin)


def relative_inputs(name: str, x: Any, origin: Origin) -> np.ndarray:
    """Inputs as the user has them → float64 differences from the origin."""
    inputs = inputs_as_given(name, x)
    if inputs.dtype.kind == "i" and isinstance(origin, int):
        relative = _integer_differences(inputs, origin)
    else:
        with np.errstate(over="ignore"):
            relative = inputs - float(origin)
    _reject(~np.isfinite(relative), name, inputs, "span a range that double precision can hold")
    return relative


def _integer_differences(inputs: np.ndarray, origin: int) -> np.ndarray:
    """Differences of 64-bit integers, rounded once, however far apart they are."""
    ends = int(inputs.min(initial=origin)), int(inputs.max(initial=origin))
    if all(abs(end - origin) < 2**63 for end in ends):
        return (inputs - np.int64(origin)).astype(float)
    # Modulo 2⁶⁴ the difference in the right order is exact.
    bits, first = inputs.view(np.uint64), np.int64(origin).view(np.uint64)
    return np.where(inputs >= origin, (bits - first).astype(float), -(first - bits).astype(float))


def distinct_inputs(x: np.ndarray) -> np.ndarray:
    """Each input once; they must be in order."""
    return x[np.append(True, x[1:] > x[:-1])]


_SAME = 1e-9  # relative difference up to which steps can be the same but for rounding


def distinct_steps(locations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lengths of the steps between ordered locations, and which of them leads to each.

    Lengths are counted from 1; 0 leads to the first location. Steps are the same if they differ by
    no more than the rounding of the locations. Unless most of them are, each stands for itself.

    >>> lengths, which = distinct_steps(np.arange(6) / 24)
    >>> len(lengths), which
    (1, array([0, 1, 1, 1, 1, 1]))
    """
    steps = np.diff(locations)
    everyone = steps, np.arange(len(locations))
    if len(steps) == 0:
        return everyone
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    rounding = 4 * np.finfo(float).eps * np.max(np.abs(locations))
    apart = np.diff(ordered) > np.minimum(rounding, _SAME * ordered[1:])
    first = np.flatnonzero(np.append(True, apart))
    # A run of tiny differences could add up to a large one.
    runs = np.append(first[1:], len(ordered)) - 1
    drift = ordered[runs] - ordered[first]
    if 2 * len(first) > len(steps) or np.any(
        drift > np.minimum(4 * rounding, _SAME * ordered[runs])
    ):
        return everyone
    number = np.cumsum(np.append(True, apart))
    which = np.empty(len(steps), dtype=int)
    which[order] = number
    lengths = np.add.reduceat(ordered, first) / np.diff(np.append(first, len(ordered)))
    return lengths, np.append(0, which)


def place_inducing(inducing: Any, data: Observations) -> np.ndarray:
    """Inducing locations, measured from the origin: ordered and distinct."""
    if isinstance(inducing, str):
        if inducing != "data":
            raise ValueError(
                f"inducing must be a number, an array of locations or 'data', got {inducing!r}"
            )
        if not data.individual:
            raise ValueError(
                "a summary or stream does not hold the inputs, so inducing='data' is not "
                "possible: give a number, or locations at edges of its stretches"
            )
        return data.edges()
    if isinstance(inducing, bool):
        raise ValueError(f"inducing must be a number or locations, got {inducing!r}")
    count = as_whole(inducing)
    if count is not None:
        locations = _at_quantiles(count, data.edges())
        return locations if data.individual else nearest_of(locations, data.edges())
    locations = data.at_edges(inducing)
    if len(locations) == 0:
        raise ValueError("inducing is empty: at least one inducing location is needed")
    gaps = np.diff(locations)
    if np.any(gaps <= 0):
        at = int(np.argmax(gaps <= 0))
        asked = np.asarray(inducing)
        problem = "repeated" if gaps[at] == 0 else "not in increasing order"
        raise ValueError(
            f"inducing locations must be strictly increasing; inducing[{at}] = {asked[at]} and "
            f"inducing[{at + 1}] = {asked[at + 1]} are {problem}"
        )
    return locations


def _at_quantiles(count: int, distinct: np.ndarray) -> np.ndarray:
    """`count` locations from the first to the last input, as dense as the inputs are."""
    if count < 1:
        raise ValueError(f"inducing must be at least 1, got {count}")
    if count >= len(distinct):
        return distinct
    if count == 1:
        return distinct[[len(distinct) // 2]]
    positions = np.linspace(0, len(distinct) - 1, count)
    return np.unique(np.interp(positions, np.arange(len(distinct)), distinct))


def nearest_of(locations: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Of these edges those that are nearest to the locations; both are in order."""
    above = np.clip(np.searchsorted(edges, locations), 1, max(len(edges) - 1, 1))
    below = edges[above - 1]
    return np.unique(np.where(locations - below < edges[above] - locations, below, edges[above]))


def _one_per_observation(name: str, value: Any, count: int, default: float) -> np.ndarray:
    if value is None:
        return np.broadcast_to(default, count)  # takes no room
    scalar = np.ndim(value) == 0
    values = numbers(name, [value] if scalar else value)
    values = np.broadcast_to(values[0], count) if scalar else values
    if len(values) != count:
        raise ValueError(
            f"{name} must have one value per observation, got {len(values)} for {count}"
            " observations"
        )
    return values


def inputs_as_given(name: str, x: Any) -> np.ndarray:
    """A one-dimensional array of finite numbers, integers kept as integers."""
    refuse_traced(name, x)
    array = np.asarray(x)
    _refuse_long_integers(name, x, array)
    if array.dtype.kind == "O" and all(isinstance(value, int) for value in array.flat):
        array = array.astype(np.int64)
    if array.dtype.kind in "iu":
        return _one_dimensional(name, array.astype(np.int64, copy=False))
    values = numbers(name, x)
    _reject(~np.isfinite(values), name, values, "be finite")
    return values


def _refuse_long_integers(name: str, x: Any, array: np.ndarray) -> None:
    """Refuse integers beyond 64 signed bits, which would lose their last digits as floats."""
    kind = array.dtype.kind
    mixed = kind == "f" and isinstance(x, list | tuple)  # NumPy makes some lists of integers floats
    if array.ndim != 1 or not (kind in "uO" or mixed):
        return
    if kind != "O" and not np.max(np.abs(array), initial=0) >= 2**63:
        return
    for at, value in enumerate(x if mixed else array):
        if isinstance(value, int | np.integer) and not -(2**63) <= int(value) < 2**63:
            raise ValueError(
                f"{name} must hold integers that fit into 64 bits with a sign: {name}[{at}] is "
                f"{value}; subtract a common origin (the smallest of them) first"
            )


def numbers(name: str, values: Any) -> np.ndarray:
    """A one-dimensional float array of what the user gave, or an error that names it."""
    refuse_traced(name, values)
    array = np.asarray(values)
    if array.dtype.kind == "O":
        try:
            array = array.astype(float)  # None and the like in an otherwise numeric column
        except (TypeError, ValueError):
            raise ValueError(f"{name} must hold numbers, got {_example(array)}") from None
    if array.dtype.kind not in "iufb":
        kind = "dates" if array.dtype.kind in "mM" else str(array.dtype)
        hint = ""
        if kind == "dates":
            hint = (
                "; make days of them, (dates - dates[0]) / np.timedelta64(1, 'D'), here and "
                "wherever predictions are asked for, or use an sg.Forecaster"
            )
        raise ValueError(f"{name} must hold numbers, got {kind} such as {_example(array)}{hint}")
    return _one_dimensional(name, array.astype(float, copy=False))


def _one_dimensional(name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 1:
        hint = ""
        if array.ndim == 2 and array.shape[1] == 1:
            hint = f"; pass {name}[:, 0]"
        elif array.ndim == 2 and name == "y":
            hint = "; several outputs need an sg.MultiOutputGP"
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}{hint}")
    return array


def _example(array: np.ndarray) -> str:
    return repr(array.reshape(-1)[:1].tolist()[0]) if array.size else "nothing"


def _reject(bad: np.ndarray, name: str, values: np.ndarray, rule: str) -> None:
    """Raise if any entry is bad, naming the first of them and how many there are."""
    if bad.any():
        at = int(np.argmax(bad))
        more = f" (and {int(bad.sum()) - 1} more)" if bad.sum() > 1 else ""
        raise ValueError(f"{name} must {rule}: {name}[{at}] is {values[at]}{more}")
