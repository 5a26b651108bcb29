"""What forecasting needs of a posterior, kept up to date observation by observation."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from stategp._data import check_support, extra_values, inputs_as_given, numbers, relative_inputs
from stategp._files import save
from stategp._models import GP
from stategp._posteriors._marginals import marginals_at
from stategp._posteriors._pointwise import Latent, Points
from stategp._posteriors._revising import Recent
from stategp._posteriors._stepping import Matrices, States, Stepper, even, log_normal
from stategp._runtime import on_device

Time = int | float

_NUMBERS = 2**20  # of the matrices of points that are predicted together
_BLOCK = 256  # steps whose matrices are computed together
_EVENED = 64  # observations after which rounding is evened out


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Filter:
    """The state at the end of a series, which is all that forecasts need of the data.

    Made by `posterior.filter()`. `filter.update(x, y)` gives the filter after another observation,
    in the same time however many there were: microseconds if observations are Gaussian. It is then
    what the posterior of all observations says about the future. Other observations are taken in
    one after the other, too: each by the variational optimum of its own site, given the state
    before it. Sites are not revised when later observations come (this is assumed-density
    filtering), so that the answer is close to, but not, that of `sg.condition`. With a `lag`, the
    sites of that many observations before the last are revised with every new one: as soon as the
    kernel has forgotten what is further back, the answer is that of `sg.condition` again.

    `time` is that of the last observation, `observed` the number taken in since the posterior.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(variance=0.1))
    >>> filter = sg.condition(model, np.arange(3), [0.0, 1.0, 0.0]).filter()
    >>> filter = filter.update(3, 0.5)
    >>> filter.time, filter.observed
    (3, 1)
    >>> mean, variance = filter.predict_f([4.0, 10.0])
    """

    model: GP
    time: Time
    states: States
    observed: int = 0
    forget: float | None = None
    window: float | None = None
    young: States | None = None  # with a window: what is known without all that came before …
    young_since: Time = 0  # … this
    rounding: float = 0.0  # of the time, if it was computed and not given
    lag: int | None = None  # how many observations are revised …
    recent: Recent | None = None  # … and at least these: no more than twice as many

    def update(self, x: Any, y: Any, **extras: Any) -> "Filter":
        """The filter after one observation, or after many, in any order.

        Times must not lie before the last one; NaN means missing. Other quantities that the
        likelihood reads are given by name: `noise_variance`, `exposure` or `trials`.
        """
        when, value = _number(x), _number(y)
        if when is not None and value is not None and not extras:
            step, steps = self._step(when), self._steps
            if 0 <= step < math.inf and steps.accepts(value):
                return self._after(when, step, float(value), steps.extra)
        return self._after_all(x, y, extras)

    def predict_f(self, x_new: Any) -> tuple[Latent, Latent]:
        """Mean and variance of the latent function, at times that are not before the last one."""
        x = inputs_as_given("x_new", np.atleast_1d(np.asarray(x_new)))
        self._refuse_late("x_new", x)
        steps = np.maximum(relative_inputs("x_new", x, self.time), 0.0)
        largest = max(len(h) for h in self._steps.emissions)
        size = max(_NUMBERS // largest**2, 1)
        parts = [self._moments(steps[at : at + size]) for at in range(0, max(len(x), 1), size)]
        mean, variance = (np.concatenate(those) for those in zip(*parts, strict=True))
        mean = mean + self._steps.centres(x.astype(float))
        if mean.shape[1] == 1:
            mean, variance = mean[:, 0], variance[:, 0]
        moments: tuple[Latent, Latent] = on_device((mean, variance))
        return moments

    def predict_y(self, x_new: Any, **extras: Any) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        return marginals_at(self, x_new, **extras).moments()

    def quantiles(
        self, x_new: Any, levels: Any = (0.025, 0.5, 0.975), **extras: Any
    ) -> Float[Array, "levels points"]:
        """Quantiles of a new observation at each point: the smallest y with P(Y ≤ y) ≥ level."""
        return marginals_at(self, x_new, **extras).quantiles(levels)

    def predict_probabilities(self, x_new: Any) -> Float[Array, "points outcomes"]:
        """The probability of each label, level or class of a new observation."""
        return marginals_at(self, x_new).probabilities()

    def log_density(self, x_new: Any, y_new: Any, **extras: Any) -> Any:
        """Log predictive density of each new observation separately, NaN where y is NaN.

        Of one observation, given as two numbers, it is a number: how little it was expected. Ask
        before `update` takes it in.
        """
        when, value, noise = _number(x_new), _number(y_new), self._steps.noise
        if when is None or value is None:
            return marginals_at(self, x_new, **extras).log_density(y_new)
        step = self._step(when)
        if not noise or extras or not 0 <= step < math.inf:
            return float(marginals_at(self, [when], **extras).log_density([value])[0])
        mean, variance = self._moments(np.array([step]))
        centre = self._steps.centres(np.array([float(when)]))
        error = value - float(mean[0, 0]) - float(centre[0, 0])
        return log_normal(error, float(variance[0, 0]) + noise)

    def save(self, path: Any) -> None:
        """Write the filter to a small file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def __repr__(self) -> str:
        ways = {"forget": self.forget, "window": self.window, "lag": self.lag}
        how = "".join(f", {name}={value:g}" for name, value in ways.items() if value is not None)
        return f"Filter of {self.model!r} at {self.time}, {self.observed} observed{how}"

    @property
    def _steps(self) -> Stepper:
        steps: Stepper | None = self.__dict__.get("_kept_steps")
        if steps is None:
            steps = Stepper(self.model)
            object.__setattr__(self, "_kept_steps", steps)
        return steps

    def _step(self, x: Time) -> float:
        """How far a time is from the last one; less than nothing if it lies before it."""
        step = float(x - self.time)
        return 0.0 if -self.rounding <= step < 0 else step

    def _after(self, x: Time, step: float, y: float, extra: float) -> "Filter":
        """After an observation that has been checked."""
        if self.recent is not None:
            return self._revised([x], [step], [y], [extra])
        steps, young, since = self._steps, self.young, self.young_since
        states = steps.advance(self.states, step, self.forget)
        if self.window is not None and young is not None:
            young = steps.advance(young, step, None)
            if x - since >= self.window:
                states, young, since = young, steps.prior, x
            young = steps.take(young, x, y, extra)
        states = steps.take(states, x, y, extra)
        count = self.observed + 1
        if count % _EVENED == 0:
            states, young = even(states), None if young is None else even(young)
        new = Filter(self.model, x, states, count, self.forget, self.window, young, since)
        object.__setattr__(new, "_kept_steps", steps)
        return new

    def _revised(
        self, x: list[Time], steps: list[float], y: list[float], extra: list[float]
    ) -> "Filter":
        """After some observations, no more than the lag, the sites of the last ones revised."""
        recent, stepper, lag = self.recent, self._steps, self.lag
        assert recent is not None
        assert lag is not None
        if len(recent) + len(y) > 2 * lag:
            recent = recent.without_first(stepper, len(recent) - lag)
        columns = (np.array(column, dtype=float) for column in (steps, x, y, extra))
        recent, states = recent.with_more(stepper, *columns)
        count = self.observed + len(y)
        new = Filter(self.model, x[-1], even(states), count, lag=lag, recent=recent)
        object.__setattr__(new, "_kept_steps", stepper)
        return new

    def _after_all(self, x: Any, y: Any, extras: dict[str, Any]) -> "Filter":
        likelihood = self.model.likelihood
        inputs = inputs_as_given("x", np.atleast_1d(np.asarray(x)))
        targets = numbers("y", np.atleast_1d(np.asarray(y)))
        if len(inputs) != len(targets):
            raise ValueError(
                f"x and y must have equal lengths, got {len(inputs)} and {len(targets)}"
            )
        there = ~np.isnan(targets)
        extra = extra_values(likelihood, len(targets), extras, needed=there)
        if np.any(np.isinf(targets)):
            raise ValueError("y must be finite (NaN means missing), got an infinite value")
        check_support(likelihood, "y", targets, extra)
        noise = self._steps.noise
        if noise is not None and np.any(there & ~(noise + extra > 0)):
            raise ValueError(
                "observations without noise: the likelihood's variance is zero, so "
                "noise_variance must be given and positive"
            )
        self._refuse_late("x", inputs)
        order = np.flatnonzero(there)[np.argsort(inputs[there], kind="stable")]
        columns = [column[order].tolist() for column in (inputs, targets, extra)]
        new = self
        if self.lag is not None:
            for first in range(0, len(order), self.lag):
                when, value, beside = (column[first : first + self.lag] for column in columns)
                gaps = [float(b - a) for a, b in itertools.pairwise(when)]
                new = new._revised(when, [new._step(when[0]), *gaps], value, beside)
            return new
        for number, (when, value, beside) in enumerate(zip(*columns, strict=True)):
            if number % _BLOCK == 0:
                ahead = itertools.pairwise([new.time, *columns[0][number : number + _BLOCK]])
                new._steps.prepare(np.array([float(b - a) for a, b in ahead]))
            new = new._after(when, new._step(when), value, beside)
        return new

    def _refuse_late(self, name: str, x: np.ndarray) -> None:
        late = x < self.time - self.rounding if self.rounding else x < self.time
        if late.any():
            at = int(np.argmax(late))
            more = f" (and {int(late.sum()) - 1} more)" if late.sum() > 1 else ""
            raise ValueError(
                f"{name}[{at}] = {x[at]} lies before the last observation, at {self.time}{more}: a "
                "filter knows the present and the future only. Late observations can be added to "
                "the posterior of all data, by posterior.update"
            )

    def _moments(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (without the mean function) and variance after some steps, a column per latent."""
        stepper = self._steps
        if len(steps) == 1:
            states = [stepper.advance(self.states, float(steps[0]), self.forget)]
        elif self.forget is not None:
            stepper.prepare(steps)
            states = [stepper.advance(self.states, step, self.forget) for step in steps.tolist()]
        else:
            return self._all_moments(stepper.all_matrices(steps) if len(steps) else ())
        pairs = [list(zip(one, stepper.emissions, strict=True)) for one in states]
        mean = np.array([[h @ state.mean for state, h in each] for each in pairs])
        variance = np.array([[h @ state.covariance @ h for state, h in each] for each in pairs])
        return mean, np.maximum(variance, 0.0)

    def _all_moments(self, matrices: Matrices) -> tuple[np.ndarray, np.ndarray]:
        if not matrices:
            return np.zeros((0, len(self.states))), np.zeros((0, len(self.states)))
        means, variances = [], []
        for (A, Q), h, state in zip(matrices, self._steps.emissions, self.states, strict=True):
            read = h @ A  # what f reads of the present state
            means.append(read @ state.mean)
            spread = np.einsum("ni,ij,nj->n", read, state.covariance, read)
            variances.append(np.maximum(spread, 0.0) + np.einsum("i,nij,j->n", h, Q, h))
        return np.stack(means, axis=1), np.stack(variances, axis=1)


def _number(value: Any) -> Time | None:
    """A plain number, integers as integers; None for anything that has to be looked at closely."""
    kind = type(value)
    if kind is float or kind is int:
        number: Time = value
        return number
    if isinstance(value, np.integer):
        return int(value)
    return float(value) if isinstance(value, float) else None


def check_filter(kept: Filter) -> None:
    """A state of the right size for each kernel."""
    recent = kept.recent
    if (recent is None) != (kept.lag is None):
        raise ValueError("it has a lag without the last observations, or these without a lag")
    more = [] if recent is None else [recent.before]
    for states in (kept.states, *([] if kept.young is None else [kept.young]), *more):
        if len(states) != len(kept.model.kernels):
            raise ValueError(f"it has {len(states)} states for {len(kept.model.kernels)} kernels")
        for state, kernel in zip(states, kept.model.kernels, strict=True):
            d = kernel.state_dim
            shapes = np.shape(state.mean), np.shape(state.covariance)
            if shapes != ((d,), (d, d)):
                raise ValueError(f"a state has shapes {shapes}, and its kernel has dimension {d}")
    if recent is not None:
        count, latents = len(recent), len(kept.model.kernels)
        rows = recent.y, recent.extra, recent.weights
        tables = recent.centre, recent.linear, recent.precision
        narrow = all(np.shape(row) == (count,) for row in rows)
        if not narrow or any(np.shape(table) != (count, latents) for table in tables):
            raise ValueError("its last observations have columns of different lengths")
