"""Several targets in one model: forecasts of each know of the others."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from stategp._arguments import as_whole
from stategp._data import distinct_inputs
from stategp._fitting import condition, fit
from stategp._forecasting._answers import as_levels, distribution_columns, normal_columns
from stategp._forecasting._frames import (
    as_frame,
    clock_times,
    dates_of,
    is_frame,
    kind_of,
    number_column,
    time_column,
    times_of,
)
from stategp._forecasting._joint_model import Target, joint_model
from stategp._forecasting._learning import LEARNING
from stategp._forecasting._long_answers import after, answer_frame
from stategp._forecasting._reading import LongForm
from stategp._forecasting._single import Wish, asked_model, call_text
from stategp._forecasting._steps import fitting_axis
from stategp._forecasting._targets import TARGET, VALUE, target_names
from stategp._models import MultiOutputGP, as_likelihood
from stategp._posteriors import MultiOutputPosterior
from stategp._story import Portrait, portray, user_units
from stategp.likelihoods import Gaussian, MultivariateGaussian

_MOST_STEPS = 300
_FEWEST = 4  # times from which on the model is left to the data


@dataclasses.dataclass(frozen=True)
class Joint:
    """What a fit of several targets together leaves behind."""

    posterior: MultiOutputPosterior
    form: LongForm
    call: str

    def forecast(self, horizon: Any, every: Any, future: Any, **options: Any) -> Any:
        """A long frame of predictions of all targets from the end of the data up to the horizon."""
        if future is not None:
            raise ValueError("targets fitted together have no regressors: leave future out")
        return self._answer(self.after(horizon, every), **options)

    def predict(self, times: Any, **options: Any) -> Any:
        """A long frame of predictions of all targets, by default at the times of the data."""
        return self._answer(self._numbers(times), **options)

    def sample(self, times: Any, num_samples: int, seed: int) -> Any:
        """A long frame with a column for each joint sample of new observations of all targets."""
        x = self._numbers(times)
        drawn = np.asarray(self.posterior.sample_y(seed, x, num_samples))
        return self._framed(
            x, [{f"sample_{i}": path[:, n] for i, path in enumerate(drawn)} for n in self._each]
        )

    def portrait(self, horizon: Any, level: float) -> Portrait:
        """The content of figures and reports: a panel for each target."""
        axis, form = self.form.axis, self.form
        until = None if horizon is None else float(self.after(horizon, None)[-1])
        return portray(
            self.posterior,
            level=level,
            until=until,
            title="Targets",
            call=self.call,
            to_time=partial(clock_times, form.kind, axis) if axis.dates else None,
            x_label=f"{form.time} ({axis.zone})" if axis.zone else form.time,
        )

    def after(self, horizon: Any, every: Any) -> np.ndarray:
        """Times after the last at which any target was seen."""
        data = self.posterior.data
        x = distinct_inputs(np.asarray(data.x))
        return after(x, data.origin, self.form.axis, horizon, every)

    @property
    def _each(self) -> range:
        return range(self.posterior.model.outputs)

    def _answer(
        self, x: np.ndarray, *, levels: Any = 0.95, of: str = "observation", **others: Any
    ) -> Any:
        if others:
            raise ValueError(f"targets fitted together take no {', '.join(others)}")
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        wanted = as_levels(levels)
        if of == "function":
            mean, variance = (np.asarray(part) for part in self.posterior.predict_f(x))
            each = [normal_columns("", mean[:, n], variance[:, n], wanted) for n in self._each]
        else:
            each = [
                distribution_columns(self.posterior.marginals_of(n, x), wanted) for n in self._each
            ]
        return self._framed(x, each)

    def _framed(self, x: np.ndarray, columns: list[dict[str, np.ndarray]]) -> Any:
        keys = [(name,) for name in self.posterior.model.names]
        return answer_frame(self.form, keys, {n: (x, part) for n, part in enumerate(columns)})

    def _numbers(self, times: Any) -> np.ndarray:
        form, axis = self.form, self.form.axis
        if times is None:
            data = self.posterior.data
            return user_units(distinct_inputs(np.asarray(data.x)), data.origin, len(data))
        if not is_frame(times):
            instants = times_of(dates_of(times) if axis.dates else times, axis.zone, axis.layout)
            return axis.numbers(instants, "times")
        instants = time_column(as_frame(times, form.time), form.time, axis.zone, axis.layout)
        return axis.numbers(instants, f"column {form.time!r}")


def fit_jointly(asked: Any, frame: Any, wish: Wish, targets: Any, joint: Any) -> Joint:
    """What a forecaster (`asked`) learns of several targets together."""
    names, shared = target_names(targets, wish.time), _as_shared(joint, len(targets))
    _refuse(asked, wish)
    table = as_frame(frame, wish.time)
    y = np.stack([number_column(table, name) for name in names], axis=1)
    for name, column in zip(names, y.T, strict=True):
        if not np.any(np.isfinite(column)):
            raise ValueError(f"column {name!r} has no numbers: nothing to fit")
    instants = time_column(table, wish.time, layout=wish.date_format)
    axis = dataclasses.replace(fitting_axis(instants), business=False)
    x = axis.numbers(instants, f"column {wish.time!r}")
    weights = wish.columns["weights"]
    given: dict[str, Any] = {} if weights is None else {"weights": number_column(table, weights)}
    quiet: dict[str, Any] = {"progress": wish.progress, "inducing": asked.inducing}
    likelihood, rows = as_likelihood(asked.likelihood), slice(None)
    if asked.kernel is not None:
        kernel = asked_model(asked, None, likelihood, axis, wish.progress).kernels[0]
        plain = type(likelihood) is Gaussian and not likelihood.variance.given
        noise: Any = MultivariateGaussian() if plain else [likelihood] * len(names)
        model = MultiOutputGP(
            [kernel] * shared, noise, mixing="learned", outputs=names, mean=asked.mean
        )
        options = wish.options
    else:
        model, y, rows = _default(asked, x, y, names, shared, axis.dates)
        options = LEARNING | {"max_steps": _MOST_STEPS} | wish.options
    part = {name: column[rows] for name, column in given.items()}
    posterior: MultiOutputPosterior = fit(model, x[rows], y[rows], **(quiet | options), **part)
    if len(y[rows]) < len(y):
        whole: MultiOutputPosterior = condition(posterior.model, x, y, **quiet, **given)
        posterior = dataclasses.replace(whole, fit_result=posterior.fit_result)
    form = LongForm((TARGET,), wish.time, VALUE, kind_of(table), axis)
    said = f"frame, time={wish.time!r}, target={names!r}, joint={joint!r}"
    return Joint(posterior, form, call_text(asked, said, wish.options))


def _default(
    asked: Any, x: np.ndarray, y: np.ndarray, names: list[str], shared: int, dates: bool
) -> tuple[MultiOutputGP, np.ndarray, Any]:
    """The model that is left to the data, y without gross outliers, and the rows to learn from."""
    if type(as_likelihood(asked.likelihood)) is not Gaussian or asked.mean is not None:
        raise ValueError(
            "the default model of targets fitted together has Gaussian noise and a mean of its "
            "own: give a kernel, or leave likelihood and mean out"
        )
    each = []
    for name, column in zip(names, y.T, strict=True):
        if len(np.unique(x[np.isfinite(column)])) < _FEWEST:
            raise ValueError(
                f"column {name!r} has observations at fewer than {_FEWEST} times: give a kernel, "
                "or leave it out"
            )
        each.append(Target.of(x, column, dates=dates, robust=asked.robust))
    cleaned = y.copy()
    for number, target in enumerate(each):
        doubted = target.series.x[target.series.doubted]
        cleaned[np.isin(x, doubted), number] = np.nan
    begin = min(target.series.x[target.series.latest[0]] for target in each)
    return joint_model(x, cleaned, each, names, shared), cleaned, np.flatnonzero(x >= begin)


def _as_shared(joint: Any, targets: int) -> int:
    """How many processes targets share, from the argument of `fit`."""
    if joint is True:
        return targets
    count = as_whole(joint)
    if count is None or not 1 <= count <= targets:
        raise ValueError(
            f"joint must be True, or the number of processes that the {targets} targets share (1 "
            f"to {targets}), got {joint!r}"
        )
    return count


def _refuse(asked: Any, wish: Wish) -> None:
    """What targets fitted together cannot have yet."""
    effects = ("regressors", "holidays", "events", "changepoints")
    given = [name for name in effects if getattr(asked, name)]
    given += [name for name in ("floor", "cap") if getattr(asked, name) is not None]
    given += [what for what, column in wish.columns.items() if column and what != "weights"]
    given += ["limits"] * (wish.limits is not None)
    if given:
        raise ValueError(
            f"targets fitted together are modelled without {' and '.join(given)}: leave them out, "
            "or joint=True, which fits every target on its own"
        )
