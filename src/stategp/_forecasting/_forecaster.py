"""Data frames with dates: fit, forecast, components, outliers."""

import dataclasses
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from stategp._expressions import write_kernel
from stategp._files import save
from stategp._forecasting._answers import (
    as_levels,
    distribution_columns,
    function_columns,
    normal_columns,
)
from stategp._forecasting._cautions import caution_of_scores, warn_of_horizon
from stategp._forecasting._choosing import draw, refuse_extras
from stategp._forecasting._effects import (
    as_changepoints,
    as_effects,
    as_events,
    as_holidays,
    written,
)
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._frames import (
    as_frame,
    dates_of,
    frame_of,
    is_frame,
    make_frame,
    number_column,
    text_series,
    time_column,
    times_of,
)
from stategp._forecasting._jointly import Joint, fit_jointly
from stategp._forecasting._learning import Series
from stategp._forecasting._long_answers import after
from stategp._forecasting._panel import Panel
from stategp._forecasting._panel_updating import updated_panel
from stategp._forecasting._parallel import fit_panel
from stategp._forecasting._pictures import Pictured
from stategp._forecasting._pooling import draw_pooled, pooled
from stategp._forecasting._regressors import effect_rows, without_unknown
from stategp._forecasting._single import EXTRAS, Wish, fit_frame, fit_stream
from stategp._forecasting._targets import VALUE, melted
from stategp._forecasting._updating import updated
from stategp._forecasting._words import explain, tell_apart
from stategp._posteriors import Posterior
from stategp._story import user_units
from stategp._streams import Stream
from stategp.likelihoods import Bounded
from stategp.parameters import Parameter, map_parameters


@dataclasses.dataclass(eq=False)
class Forecaster(Pictured):
    """A Gaussian process for one column of a data frame as a function of its time column.

    It takes pandas, polars and pyarrow frames and returns frames of the same kind. Times are dates
    (with or without a time zone, also as text) or numbers, in any order, with gaps and repetitions.
    Dates are measured in days, so that durations are "30d", "52w" or 3.5.

    Arguments:
        kernel: an expression such as "matern52(30d) + periodic(1d)", one of `sg.kernels`, or None
            for models that are compared on the data and averaged (`explain` says which).
        likelihood: one of `sg.likelihoods` or its name: "poisson" for counts, "student-t" for data
            with outliers.
        mean: a mean function, by default a constant.
        inducing: as for `sg.fit`; with a number or locations the default is one model, whose
            trend goes on and whose seasons repeat exactly; with "auto" or "data" models are
            compared.
        regressors: columns of the frame that the target depends on, by name or as `sg.Effect`.
            Their values must be known wherever something is predicted.
        holidays: a country ("DE"), a country and a subdivision (("DE", "BY")), `sg.Holidays`, or a
            list of these; every holiday has an effect.
        events: dates by name ({"sale": ["2025-03-01"]}) or `sg.Event`, one or a list.
        robust: whether outliers are found and get little weight, where models are compared.
        floor, cap: limits that forecasts keep: `floor=0` for what cannot be negative, both for
            growth that saturates.
        changepoints: dates (numbers, if times are numbers) at which the slope of the trend changes;
            by how much is learned.

    >>> import numpy as np, pandas as pd, stategp as sg
    >>> days, t = pd.date_range("2024-01-01", periods=60), np.arange(60)
    >>> frame = pd.DataFrame({"ds": days, "y": np.sin(t / 9) + 0.1 * np.cos(17 * t)})
    >>> forecaster = sg.Forecaster("matern52(10d)").fit(frame, progress=False)
    >>> list(forecaster.forecast("7d").columns)
    ['ds', 'mean', 'lower_95', 'upper_95']
    """

    kernel: Any = None
    likelihood: Any = "gaussian"
    mean: Any = None
    inducing: Any = "auto"
    regressors: Any = None
    holidays: Any = None
    events: Any = None
    robust: bool = True
    floor: Any = None
    cap: Any = None
    changepoints: Any = None
    fitted: Fitted | None = None
    panel: Panel | None = None  # of many series, instead
    joint: Joint | None = None  # of several targets together, instead
    scored: tuple[float, float, int] | None = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        self.regressors = as_effects(self.regressors)
        self.holidays = as_holidays(self.holidays)
        self.events = as_events(self.events)
        self.changepoints = as_changepoints(self.changepoints)
        if self._limited:
            limits = Bounded(self.floor, self.cap)  # which says what is wrong with them
            self.floor, self.cap = limits.floor, limits.cap

    @property
    def _limited(self) -> bool:
        return self.floor is not None or self.cap is not None

    def fit(
        self,
        frame: Any,
        time: str = "ds",
        target: str | list[str] = "y",
        *,
        by: Any = None,
        joint: Any = False,
        n_jobs: Any = None,
        share: str = "none",
        noise_variance: str | None = None,
        exposure: str | None = None,
        trials: str | None = None,
        limits: Any = None,
        weights: str | None = None,
        date_format: str | None = None,
        progress: Any = None,
        **options: Any,
    ) -> "Forecaster":
        """Learn from the columns `time` and `target`; an empty target is a missing observation.

        A pandas Series with an index of dates works too. `noise_variance`, `exposure`, `trials` and
        `weights` are names of columns. `date_format` ("%d/%m/%Y") is needed if dates are texts
        whose format is ambiguous. Other options are those of `sg.fit`. Instead of a frame, files
        larger than memory can be given as `sg.stream(folder, …)`, which names the columns.

        `limits` are the columns of lower and upper limits, such as ``limits=("above", "below")`` or
        ``(None, "detection_limit")``: where the target is empty, its value lies between them
        (`sg.likelihoods.Censored`). Forecasts are of the value itself.

        `by` is the column (or a list of columns) that tells many series in a long frame apart:
        ``fit(frame, by="unique_id")`` fits a model to each, all of them side by side where that is
        possible. `forecast` and `predict` then answer with a long frame, ``forecaster[key]`` is the
        forecaster of one series, and `failures_` lists those that could not be fitted. `n_jobs`
        divides the series among processes, by the backend that joblib has (or was told to use).
        With `checkpoint`, the file holds the series that are finished; ``resume=True`` goes on.
        `share` says what their hyperparameters have in common: "none"; "all", one value for all
        series; or "prior", a prior that is learned from all, so that short series borrow from long
        ones. With a kernel that was given this is as in `sg.fit_many`; for the models that are
        compared by default it is in the units of each series, its time step and typical change.

        With a list of targets every one of these columns is such a series, on its own:
        ``fit(frame, target=["load", "price"])``. Answers have their names in a column `target`, and
        ``forecaster["load"]`` is the forecaster of one. With `joint=True` they have one model (an
        `sg.MultiOutputGP`), in which their levels and their noise are correlated, so that each
        tells of the others, where one is missing and in samples; `joint=2` lets them share two
        processes only. It has `forecast`, `predict`, `sample`, figures and a report.
        """
        extras = dict(zip(EXTRAS, (noise_variance, exposure, trials), strict=True))
        columns = extras | {"weights": weights}
        several = isinstance(target, list | tuple)
        if several and isinstance(frame, Stream):
            raise ValueError("a stream names its target where it is made, and has one")
        if joint is not False:
            if not several or by is not None or n_jobs is not None:
                raise ValueError(
                    "joint is for a list of targets, without by and n_jobs: "
                    "fit(frame, target=['a', 'b'], joint=True)"
                )
            wish = Wish(time, VALUE, columns, date_format, progress, options, limits)
            return self._keep(joint=fit_jointly(self, frame, wish, target, joint))
        if isinstance(target, list | tuple):
            frame, by, target = melted(frame, time, target, by)
        if by is None and share != "none":
            raise ValueError(
                f"share={share!r} is for many series: give by, the column that tells them apart"
            )
        wish = Wish(time, target, columns, date_format, progress, options, limits, share)
        if isinstance(frame, Stream):
            if by is not None or n_jobs is not None:
                raise ValueError("a stream holds one series: by and n_jobs are for frames")
            return self._keep(fit_stream(self, frame, wish))
        if by is not None:
            if limits is not None:
                raise ValueError("limits are for one series: fit the series of `by` one by one")
            return self._keep(panel=fit_panel(self, frame, by, wish, n_jobs))
        if n_jobs is not None:
            raise ValueError("n_jobs is for many series: give by, the column that tells them apart")
        fitted = fit_frame(self, frame, wish)
        self._keep(fitted)
        if fitted.choices and progress is not False:
            print(self.explain(), file=sys.stderr)
        return self

    def _keep(
        self,
        fitted: Fitted | None = None,
        panel: Panel | None = None,
        joint: Joint | None = None,
    ) -> "Forecaster":
        """What was fitted, in the place of what was fitted before."""
        self.fitted, self.panel, self.joint = fitted, panel, joint
        return self

    def update(
        self,
        frame: Any,
        *,
        refine: Any = False,
        weights: str | None = None,
        forget: Any = None,
        window: Any = None,
        progress: Any = None,
    ) -> "Forecaster":
        """Take in new rows, at the end of the others or anywhere, without starting over.

        The columns have the names that they had in the frame of the fit. Hyperparameters, and the
        weights of models that are averaged, stay as they are; with `refine` the hyperparameters are
        learned again from their present values. `weights` is the name of a column. For series
        without end, `forget="90d"` lets observations count e⁻¹ ≈ 37 % as much after that time, and
        `window="90d"` drops those that are further than this before the last one (of many series:
        before the last of each).

        Many series (`fit(frame, by=…)`) take rows of a long frame; series that are new, or could
        not be fitted before, are fitted. Rows that a series cannot take in are left out, with a
        warning and a row in `failures_`, and it stays as it was.

        >>> import numpy as np, pandas as pd, stategp as sg
        >>> days, t = pd.date_range("2024-01-01", periods=60), np.arange(60)
        >>> frame = pd.DataFrame({"ds": days, "y": np.sin(t / 9) + 0.1 * np.cos(17 * t)})
        >>> forecaster = sg.Forecaster("matern52(10d)").fit(frame[:50], progress=False)
        >>> forecaster.update(frame[50:]).forecast("1d")["ds"][0]
        Timestamp('2024-03-01 00:00:00')
        """
        options = {"weights": weights, "forget": forget, "window": window, "progress": progress}
        if self.panel is None:
            self.fitted = updated(self._fitted, frame, refine=refine, **options)
            return self
        blank = dataclasses.replace(self, fitted=None, panel=None, joint=None)
        self.panel = updated_panel(blank, self.panel, frame, refine=refine, **options)
        return self

    def explain(self) -> str:
        """What was found in the data and which models were chosen, in words.

        Lines that begin with "careful" say why forecasts should be trusted less.
        """
        fitted = self._fitted
        return explain(fitted.choices, self.learned_kernel, fitted.findings, self.cautions)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why forecasts should be trusted less than their intervals say: sentences, or nothing.

        After `cross_validate` one of them may be about its scores.
        """
        scored = [] if self.scored is None else caution_of_scores(*self.scored)
        return (*self._fitted.cautions, *scored)

    def __getitem__(self, key: Any) -> "Forecaster":
        """The forecaster of one of many series, by its key."""
        if self.joint is not None:
            raise TypeError("targets fitted together are answered for together, not by their name")
        if self.panel is None:
            raise TypeError("this Forecaster has one series: fit it with `by` for many")
        panel, number = self.panel, self.panel.number(key)
        if number in panel.alone:
            one: Forecaster = panel.alone[number]
            return one
        form, choices = panel.form, panel.choices(number)
        compared = choices if choices[0].trend else ()
        said: tuple[tuple[str, ...], ...] = ((), ())
        if compared:
            data = panel.data[number]
            x, y, counts = panel.data.inputs(number), np.asarray(data.y), np.asarray(data.weights)
            series = Series.of(x, y, counts, dates=form.axis.dates, robust=False)
            said = tell_apart(compared, series, y, form.axis)
        if panel.shared:
            said = ((*said[0], panel.shared), said[1])
        fitted = Fitted(
            choices[0].posterior, form.axis, form.time, form.target, form.kind, {}, panel.call,
            compared, findings=said[0], cautions=said[1],
        )  # fmt: skip
        return dataclasses.replace(self, fitted=fitted, panel=None)

    @property
    def failures_(self) -> Any:
        """Of many series, a frame of those that could not be fitted or updated, and why."""
        if self.panel is None:
            raise ValueError("failures_ is for many series: call fit(frame, by=...)")
        return self.panel.failures

    @property
    def posterior(self) -> Posterior:
        """The posterior, in which dates are days since the first observation."""
        return self._fitted.posterior

    @property
    def learned_kernel(self) -> str:
        """The kernel with the learned hyperparameters, as an expression."""
        kernel = map_parameters(_without_prior, self._fitted.posterior.model.kernels[0])
        try:
            return write_kernel(kernel, dates=self._fitted.axis.dates)
        except ValueError:  # a kernel that expressions do not know
            return repr(kernel)

    def effects(self, *, level: float = 0.95) -> Any:
        """A frame with the effect of each regressor, holiday, event and changepoint.

        The effect of a column is that of one unit of it, in the unit of the target (before the
        link, if observations are not Gaussian); that of a holiday or event, the effect of the day,
        if such a day is in the data. A smooth effect is given at three values of the column; of one
        that varies with a season, the average. Of a changepoint, the change of slope is given, per
        day where times are dates. `lower` and `upper` are an interval with the probability `level`.
        """
        fitted = self._fitted
        columns = effect_rows(fitted.posterior, as_levels(level)[0])
        return frame_of(fitted.kind, text_series(fitted.kind, "name", columns.pop("name")), columns)

    def forecast(
        self, horizon: Any, *, every: Any = None, future: Any = None, **options: Any
    ) -> Any:
        """A frame of predictions from the end of the data up to the horizon.

        The horizon is a duration ("30d"), a date ("2025-12-01", included), or a number. The default
        step is that of the data (the median spacing, or calendar months); `every` sets another.
        Regressors must be known up to the horizon: `future` is a frame with the time column and
        theirs; rows of the fitted frame without a target do as well. Options are those of
        `predict`.
        """
        if self.joint is not None:
            return self.joint.forecast(horizon, every, future, **options)
        if self.panel is not None:
            return self.panel.forecast(horizon, every, future, **options)
        x = self._after(horizon, every)
        data = self._fitted.posterior.data
        warn_of_horizon(self._fitted.axis, np.asarray(data.x) + data.origin, x)
        return self._predict(self._knowing(future, x), x, self._usual_extras(), **options)

    def predict(self, times: Any = None, *, of: str = "observation", **options: Any) -> Any:
        """A frame with the mean and an interval for each level, at any times.

        `times` is a column of times, a frame that has one or a pandas Series with an index of
        dates, by default the times of the data. The intervals contain a new observation with the
        probability `levels` (0.95, or several), or, with `of="function"`, the latent function. If
        observations are not Gaussian, a column `median` is added. Other quantities that
        the likelihood needs (`exposure`, `trials`, `noise_variance`) are taken from the frame or
        given by name; if only times are given, the median of the data is used. Regressors are
        taken from the frame, too.
        """
        if self.joint is not None:
            return self.joint.predict(times, of=of, **options)
        if self.panel is not None:
            return self.panel.predict(times, of=of, **options)
        x, read_extras = self._numbers(times, options if of == "observation" else None)
        return self._predict(self._knowing(times, x), x, read_extras, of=of, **options)

    def _predict(
        self,
        fitted: Fitted,
        x: np.ndarray,
        read_extras: dict[str, Any],
        *,
        levels: Any = 0.95,
        of: str = "observation",
        **extras: Any,
    ) -> Any:
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        wanted = as_levels(levels)
        if of == "function" and not fitted.choices:
            columns = function_columns(fitted.posterior, x, wanted)
        elif of == "function" and fitted.pools:
            columns = normal_columns("", *pooled(fitted.choices, x), wanted)
        else:
            there = fitted.distribution(x, read_extras | extras, noise=of == "observation")
            columns = distribution_columns(there, wanted)
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def components(self, times: Any = None, *, levels: Any = 0.95) -> Any:
        """A frame with the mean and bounds of each component of the kernel (before the link).

        If several models are averaged, those of the first; of log y, if that is what it models.
        Each regressor and event is a component, too, and so are all holidays together.
        """
        x, _ = self._numbers(times, None)
        fitted = self._fitted
        columns: dict[str, np.ndarray] = {}
        for name, (mean, variance) in self._knowing(times, x).posterior.components(x).items():
            columns |= normal_columns(f"{name}_", mean, variance, as_levels(levels), name)
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def sample(
        self, times: Any = None, num_samples: int = 10, *, seed: int = 0, **extras: Any
    ) -> Any:
        """A frame with a column for each joint sample of new observations: sample_0, sample_1, …

        If several models are averaged, each gives as many samples as its weight says.
        """
        if self.joint is not None:
            if extras:
                raise ValueError(f"targets fitted together take no {', '.join(extras)}")
            return self.joint.sample(times, num_samples, seed)
        x, read_extras = self._numbers(times, extras)
        fitted, every = self._knowing(times, x), read_extras | extras
        drawn: Any
        if fitted.pools:
            drawn = draw_pooled(fitted.choices, seed, x, num_samples, every)
        elif fitted.choices:
            refuse_extras(every)
            drawn = draw(fitted.choices, seed, x, num_samples)
        else:
            drawn = fitted.posterior.sample_y(seed, x, num_samples, **every)
        columns = {f"sample_{i}": np.asarray(path) for i, path in enumerate(drawn)}
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def outliers(self, frame: Any = None, *, threshold: float = 1e-3) -> Any:
        """How probable each observation of the data is, given all the others.

        The column `probability` is the two-sided probability of an observation at least as extreme;
        `outlier` says whether it is below the threshold. Pass the fitted `frame` to get its rows in
        their original order, including missing observations.
        """
        fitted = self._fitted
        weights = None  # those of the fit, which the posterior looks up
        if frame is None:
            data = fitted.posterior.data
            x, extras = self._numbers(None)
            y, weights = np.asarray(data.y), np.asarray(data.weights)
        else:
            table = as_frame(frame, fitted.time, fitted.target)
            x, extras = self._numbers(table.to_native())
            y = number_column(table, fitted.target)
        posterior = self._knowing(frame, None).posterior
        y = without_unknown(posterior, x, y)
        modelled = fitted.as_modelled(x, y)
        lost = np.isnan(modelled) & np.isfinite(y)  # nothing could be more extreme
        probability = np.asarray(posterior.tail_probability(x, modelled, weights=weights, **extras))
        probability = np.where(lost, 0.0, probability)
        columns = {
            fitted.target: y,
            "probability": probability,
            "outlier": probability < threshold,
        }
        return make_frame(fitted.kind, fitted.axis, (fitted.time, x), columns)

    def cross_validate(
        self, frame: Any, time: str = "ds", target: str = "y", **options: Any
    ) -> Any:
        """Scores of forecasts from several origins, as a frame with a row for each.

        With `by="horizon"` a row for each step ahead, with `by="observation"` the forecasts. With
        the column that tells many series apart, `by="unique_id"`, scores of each and of all. All
        options: `cross_validate` in the reference; others are those of `fit`.
        """
        from stategp._forecasting._rolling import cross_validate

        return cross_validate(self, frame, time, target, **options)

    def save(self, path: Any) -> None:
        """Write the forecaster to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    @property
    def _fitted(self) -> Fitted:
        if self.joint is not None:
            raise ValueError(
                "targets fitted together (joint=True) have forecast, predict, sample, plot, report "
                "and save, which answer for all; for the rest fit each on its own, without joint, "
                "or ask forecaster.joint.posterior, an sg.MultiOutputPosterior"
            )
        if self.panel is not None:
            raise ValueError(
                "this Forecaster has many series: ask it for one by its key, forecaster[key]; "
                "forecast and predict answer for all"
            )
        if self.fitted is None:
            raise ValueError("this Forecaster has not been fitted: call fit(frame, time, target)")
        return self.fitted

    def _knowing(self, frame: Any, x: np.ndarray | None) -> Fitted:
        """What was fitted, with the values of regressors in a frame, which must suffice for x."""
        return self._fitted.knowing(frame, x)

    def _after(self, horizon: Any, every: Any) -> np.ndarray:
        fitted = self._fitted
        origin = fitted.posterior.data.origin
        return after(fitted.last_times, origin, fitted.axis, horizon, every)

    def _usual_extras(self) -> dict[str, float]:
        """Defaults for other quantities that the likelihood needs: the median of the data."""
        values = np.asarray(self._fitted.posterior.data.extra)
        return {name: float(np.median(values)) for name in self._fitted.read_extras}

    def _numbers(
        self, times: Any, passed: Mapping[str, Any] | None = MappingProxyType({})
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Times as numbers, and what the likelihood reads beside the target but was not passed.

        None in the place of what was passed: nothing of the kind is read.
        """
        fitted = self._fitted
        axis = fitted.axis
        if times is None:
            data = fitted.posterior.data
            x = user_units(np.asarray(data.x), data.origin, len(data))
            return x, {name: np.asarray(data.extra) for name in fitted.read_extras}
        if not is_frame(times):
            instants = times_of(dates_of(times) if axis.dates else times, axis.zone, axis.layout)
            return axis.numbers(instants, "times"), self._usual_extras()
        table = as_frame(times, fitted.time)
        instants = time_column(table, fitted.time, axis.zone, axis.layout)
        x = axis.numbers(instants, f"column {fitted.time!r}")
        extras = {}
        for name, column in fitted.read_extras.items():
            if passed is None or name in passed:
                continue
            if column not in table.columns:
                raise ValueError(
                    f"there is no column {column!r}, which the fit read as {name}; add it, or "
                    f"give {name} as a number"
                )
            extras[name] = number_column(table, column)
        return x, extras

    def __repr__(self) -> str:
        shown = [] if self.kernel is None else [repr(self.kernel)]
        if not (isinstance(self.likelihood, str) and self.likelihood == "gaussian"):
            shown.append(f"likelihood={self.likelihood!r}")
        if self.mean is not None:
            shown.append(f"mean={self.mean!r}")
        if not isinstance(self.inducing, str) or self.inducing != "auto":
            shown.append(f"inducing={self.inducing!r}")
        if self.robust is not True:
            shown.append(f"robust={self.robust!r}")
        for name in ("floor", "cap"):
            if getattr(self, name) is not None:
                shown.append(f"{name}={getattr(self, name):g}")
        for name in ("regressors", "holidays", "events", "changepoints"):
            if getattr(self, name):
                shown.append(f"{name}={written(getattr(self, name))}")
        return f"Forecaster({', '.join(shown)})"


def _without_prior(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, prior=None)
