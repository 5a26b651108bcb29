"""Data frames with dates: fit, forecast, components, outliers."""

import dataclasses
import sys
from typing import Any

import numpy as np

from stategp.data import distinct_inputs, extra_values
from stategp.expressions import parse_kernel, write_kernel
from stategp.fitting import fit
from stategp.forecasting._axis import TimeAxis, read_times
from stategp.forecasting._defaults import default_kernel, default_mean, with_weak_priors
from stategp.forecasting._frames import (
    as_frame,
    is_frame,
    kind_of,
    make_frame,
    number_column,
    time_column,
)
from stategp.forecasting._steps import continued
from stategp.models import GP, as_likelihood
from stategp.parameters import Parameter, map_parameters
from stategp.posterior import Posterior
from stategp.story import Story, tell

EXTRAS = ("noise_variance", "exposure", "trials")


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind."""

    posterior: Posterior
    axis: TimeAxis
    time: str
    target: str
    kind: str  # of data frame, by the name of its library
    extras: dict[str, str]  # the columns that the likelihood reads beside the target
    call: str


@dataclasses.dataclass(eq=False)
class Forecaster:
    """A Gaussian process on a column of a data frame, against its column of times.

    Frames of pandas, polars and pyarrow come in, and answers are frames of the same kind. Times are
    dates (with or without a time zone, also as text) or numbers, in any order, with gaps and
    repetitions; dates are measured in days, so that "30d", "52w" or 3.5 are lengths of time.

    Arguments:
        kernel: an expression such as "matern52(30d) + periodic(1d)", one of `sg.kernels`, or None
            for a trend and the seasons that the data can show (printed when it is fitted).
        likelihood: one of `sg.likelihoods` or its name: "poisson" for counts, "student-t" for data
            with outliers.
        mean: a mean function; a line unless the likelihood has a link, then a constant.
        inducing: as for `sg.fit`.

    >>> import numpy as np, pandas as pd, stategp as sg
    >>> days = pd.date_range("2024-01-01", periods=60)
    >>> frame = pd.DataFrame({"ds": days, "y": np.sin(np.arange(60) / 9)})
    >>> forecaster = sg.Forecaster("matern52(10d)").fit(frame, progress=False)
    >>> list(forecaster.forecast("7d").columns)
    ['ds', 'mean', 'lower_95', 'upper_95']
    """

    kernel: Any = None
    likelihood: Any = "gaussian"
    mean: Any = None
    inducing: Any = "auto"
    fitted: Fitted | None = None

    def fit(
        self,
        frame: Any,
        time: str = "ds",
        target: str = "y",
        *,
        noise_variance: str | None = None,
        exposure: str | None = None,
        trials: str | None = None,
        weights: str | None = None,
        progress: Any = None,
        **options: Any,
    ) -> "Forecaster":
        """Learn from the columns `time` and `target`; a missing target is a missing observation.

        `noise_variance`, `exposure`, `trials` and `weights` are names of columns; other options
        are those of `sg.fit`.
        """
        given = dict(zip(EXTRAS, (noise_variance, exposure, trials), strict=True))
        extras = {name: column for name, column in given.items() if column is not None}
        table = as_frame(frame)
        instants = time_column(table, time)
        axis = TimeAxis.of(instants) if self.fitted is None else self.fitted.axis
        x = axis.numbers(instants, f"column {time!r}")
        y = number_column(table, target)
        if not np.any(np.isfinite(y)):
            raise ValueError(f"column {target!r} holds no number: nothing to fit")
        columns = {name: number_column(table, column) for name, column in extras.items()}
        model = self._model(x, y, columns, axis, progress)
        counts = None if weights is None else number_column(table, weights)
        posterior = fit(
            model, x, y,
            inducing=self.inducing, weights=counts, progress=progress, **columns, **options,
        )  # fmt: skip
        beside = extras | ({} if weights is None else {"weights": weights}) | options
        call = f"{self!r}.fit(frame, time={time!r}, target={target!r}{_written(beside)})"
        self.fitted = Fitted(posterior, axis, time, target, kind_of(table), extras, call)
        return self

    def _model(
        self, x: np.ndarray, y: np.ndarray, columns: Any, axis: TimeAxis, progress: Any
    ) -> GP:
        likelihood = as_likelihood(self.likelihood)
        kernel = self.kernel
        if kernel is None:
            seen = np.isfinite(y)
            extra = extra_values(likelihood, len(y), columns)
            f = likelihood.guess(y[seen], extra[seen]).reshape(int(seen.sum()), -1)[:, 0]
            text = default_kernel(x[seen], f, axis.dates)
            if progress is not False:
                print(f"kernel from the data: {text}", file=sys.stderr)
            kernel = with_weak_priors(parse_kernel(text))
        mean = default_mean(likelihood) if self.mean is None else self.mean
        return GP(kernel, likelihood, mean)

    @property
    def posterior(self) -> Posterior:
        """The posterior behind it, in which dates are days since the first observation."""
        return self._fitted.posterior

    @property
    def learned_kernel(self) -> str:
        """The kernel with what was learned, as an expression."""
        kernel = map_parameters(_without_prior, self._fitted.posterior.model.kernels[0])
        try:
            return write_kernel(kernel, dates=self._fitted.axis.dates)
        except ValueError:  # a kernel that expressions do not know
            return repr(kernel)

    def forecast(self, horizon: Any, *, every: Any = None, **options: Any) -> Any:
        """A frame of predictions from the end of the data up to the horizon ("30d", 12.5).

        The steps are those of the data (its median spacing, or calendar months) unless `every`
        says otherwise; options are those of `predict`.
        """
        return self._predict(self._after(horizon, every), {}, **options)

    def predict(self, times: Any = None, **options: Any) -> Any:
        """A frame with the mean and an interval for each level, at any times.

        `times` is a column of them or a frame that has one; those of the data unless given. The
        intervals hold a new observation with the probability `levels` (0.95, or several), or,
        with `of="function"`, the function behind the observations. Where observations are not
        Gaussian a column `median` is added. What the likelihood reads beside the target
        (`exposure`, `trials`, `noise_variance`) is taken from the frame, or given by name.
        """
        return self._predict(*self._numbers(times), **options)

    def _predict(
        self,
        x: np.ndarray,
        beside: dict[str, Any],
        *,
        levels: Any = 0.95,
        of: str = "observation",
        **extras: Any,
    ) -> Any:
        fitted, posterior = self._fitted, self._fitted.posterior
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        if of == "function":
            columns = _function_columns(posterior, x, as_levels(levels))
        else:
            columns = _observation_columns(posterior, x, as_levels(levels), beside | extras)
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def components(self, times: Any = None, *, levels: Any = 0.95) -> Any:
        """A frame with the mean and bounds of each summand of the kernel (behind the link)."""
        x, _ = self._numbers(times)
        fitted, columns = self._fitted, {}
        for name, (mean, variance) in fitted.posterior.components(x).items():
            columns |= _normal_columns(f"{name}_", mean, variance, as_levels(levels), name)
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def sample(
        self, times: Any = None, num_samples: int = 10, *, seed: int = 0, **extras: Any
    ) -> Any:
        """A frame with a column for each joint sample of new observations: sample_0, sample_1, …"""
        x, beside = self._numbers(times)
        fitted = self._fitted
        drawn = fitted.posterior.sample_y(seed, x, num_samples, **(beside | extras))
        columns = {f"sample_{i}": np.asarray(path) for i, path in enumerate(drawn)}
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def outliers(self, frame: Any, *, threshold: float = 1e-3) -> Any:
        """How probable each observation of the data is, given all the others.

        The column `probability` is that of an observation at least as far out on its side, doubled;
        `outlier` says whether it is below the threshold. `frame` is what was fitted.
        """
        fitted = self._fitted
        table = as_frame(frame)
        x, beside = self._numbers(frame)
        y = number_column(table, fitted.target)
        probability = fitted.posterior.tail_probability(x, y, **beside)
        columns = {
            fitted.target: y,
            "probability": np.asarray(probability),
            "outlier": np.asarray(probability) < threshold,
        }
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def cross_validate(
        self, frame: Any, time: str = "ds", target: str = "y", **options: Any
    ) -> Any:
        """Scores of forecasts from several origins; see `sg.forecasting.cross_validate`."""
        from stategp.forecasting._rolling import cross_validate

        return cross_validate(self, frame, time, target, **options)

    def story(self, *, horizon: Any = None, levels: Any = (0.5, 0.95), **options: Any) -> Story:
        """What there is to show, for `sg.plots` and reports; with a horizon, the forecast too."""
        fitted = self._fitted
        until = None if horizon is None else float(self._after(horizon, None)[-1])
        return tell(
            fitted.posterior,
            until=until,
            levels=as_levels(levels),
            to_time=fitted.axis.times if fitted.axis.dates else None,
            call=fitted.call,
            names=(fitted.time, fitted.target),
            **options,
        )

    def plot(self, *, horizon: Any = None, levels: Any = (0.5, 0.95)) -> Any:
        """A figure of the data, the mean and its intervals."""
        from stategp import plots

        return plots.plot(self.story(horizon=horizon, levels=levels))

    def plot_components(self, *, horizon: Any = None) -> Any:
        """A figure of each summand of the kernel."""
        from stategp import plots

        return plots.plot_components(self.story(horizon=horizon))

    def plot_checks(self) -> Any:
        """A figure that says whether the model fits: calibration and residuals."""
        from stategp import plots

        return plots.plot_checks(self.story())

    def report(self, path: Any, *, horizon: Any = None, **options: Any) -> None:
        """Write one HTML file that shows everything, and needs nothing else to be read."""
        from stategp.report import write_report

        write_report(self.story(horizon=horizon, **options), path)

    def save(self, path: Any) -> None:
        """Write it to a file, for `sg.load`: numbers and names, nothing that could run."""
        from stategp.files import save

        save(self, path)

    @property
    def _fitted(self) -> Fitted:
        if self.fitted is None:
            raise ValueError("this Forecaster has not been fitted: call fit(frame, time, target)")
        return self.fitted

    def _after(self, horizon: Any, every: Any) -> np.ndarray:
        fitted = self._fitted
        data = fitted.posterior.data
        x = distinct_inputs(np.asarray(data.x)) + float(data.origin)
        return continued(x, fitted.axis, horizon, every)

    def _numbers(self, times: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Times as numbers, and what the likelihood reads beside the target."""
        fitted = self._fitted
        axis = fitted.axis
        if times is None:
            data = fitted.posterior.data
            return np.asarray(data.x) + float(data.origin), {}
        if is_frame(times):
            table = as_frame(times)
            instants = time_column(table, fitted.time, axis.zone)
            beside = {
                name: number_column(table, column)
                for name, column in fitted.extras.items()
                if column in table.columns
            }
            return axis.numbers(instants, f"column {fitted.time!r}"), beside
        return axis.numbers(read_times(times, "times", axis.zone), "times"), {}

    def __repr__(self) -> str:
        kernel = self.kernel if isinstance(self.kernel, str) else repr(self.kernel)
        shown = [repr(kernel) if isinstance(self.kernel, str) else kernel]
        if self.likelihood != "gaussian":
            shown.append(f"likelihood={self.likelihood!r}")
        if self.mean is not None:
            shown.append(f"mean={self.mean!r}")
        if not isinstance(self.inducing, str) or self.inducing != "auto":
            shown.append(f"inducing={self.inducing!r}")
        return f"Forecaster({', '.join(shown)})"


def as_levels(levels: Any) -> tuple[float, ...]:
    """Probabilities of intervals, as a tuple."""
    found = tuple(float(level) for level in np.atleast_1d(levels))
    if not all(0 < level < 1 for level in found):
        raise ValueError(f"levels must lie between 0 and 1 (0.95 for 95 %), got {levels!r}")
    return found


def bound_names(level: float) -> tuple[str, str]:
    """The columns of an interval: lower_95 and upper_95."""
    text = f"{100 * level:.6g}"
    return f"lower_{text}", f"upper_{text}"


def _normal_columns(
    prefix: str, mean: Any, variance: Any, levels: tuple[float, ...], name: str = "mean"
) -> dict[str, np.ndarray]:
    from scipy.special import ndtri

    mean, deviation = np.asarray(mean), np.sqrt(np.asarray(variance))
    columns = {name: mean}
    for level in levels:
        reach = ndtri(0.5 + level / 2) * deviation
        lower, upper = bound_names(level)
        columns |= {prefix + lower: mean - reach, prefix + upper: mean + reach}
    return columns


def _function_columns(
    posterior: Posterior, x: np.ndarray, levels: tuple[float, ...]
) -> dict[str, np.ndarray]:
    mean, variance = posterior.predict_f(x)
    if np.ndim(mean) == 1:
        return _normal_columns("", mean, variance, levels)
    return {
        key: column
        for i in range(mean.shape[1])
        for key, column in _normal_columns(
            f"{i}_", mean[:, i], variance[:, i], levels, f"{i}_mean"
        ).items()
    }


def _observation_columns(
    posterior: Posterior, x: np.ndarray, levels: tuple[float, ...], extras: dict[str, Any]
) -> dict[str, np.ndarray]:
    mean, variance = posterior.predict_y(x, **extras)
    if posterior.model.likelihood.conjugate:
        return _normal_columns("", mean, variance, levels)
    wanted = [0.5, *[side for level in levels for side in (0.5 - level / 2, 0.5 + level / 2)]]
    quantiles = np.asarray(posterior.quantiles(x, wanted, **extras))
    columns = {"mean": np.asarray(mean), "median": quantiles[0]}
    for i, level in enumerate(levels):
        lower, upper = bound_names(level)
        columns |= {lower: quantiles[1 + 2 * i], upper: quantiles[2 + 2 * i]}
    return columns


def _without_prior(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, prior=None)


def _written(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())
