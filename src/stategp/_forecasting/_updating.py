"""A fitted forecaster with more rows: which posterior is updated, and how."""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import (
    Forgetting,
    check_support,
    extra_values,
)
from stategp._fitting import as_it_is
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._frames import as_frame, number_column, time_column
from stategp._forecasting._regression import condition_with_effects, fit_with_effects
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._forecasting._regressors import values_in
from stategp._forecasting._single import LIMITS, read_within
from stategp._posteriors import Posterior
from stategp._story import user_units
from stategp._streams import Stream
from stategp.parameters import map_parameters


def updated(
    fitted: Fitted,
    frame: Any,
    *,
    refine: Any,
    weights: str | None,
    forget: Any,
    window: Any,
    progress: Any,
) -> Fitted:
    """What a fit left behind, with the rows of a frame, whose columns are those of the fit."""
    if isinstance(frame, Stream):
        ways = lengths(fitted.axis, forget, window)
        _check_stream(fitted, frame, weights)
        grown = fitted.posterior.update(frame, refine=refine, progress=progress, **ways)
        return fitted.grown(grown, frame.latest)
    table = as_frame(frame, fitted.time, fitted.target)
    axis = fitted.axis
    instants = time_column(table, fitted.time, axis.zone, axis.layout)
    x = axis.numbers(instants, f"column {fitted.time!r}")
    y = number_column(table, fitted.target)
    if fitted.extras.keys() & set(LIMITS):
        y, censored = read_within(table, fitted.extras, y)
        extras = {"censored": censored}
    else:
        extras = {name: number_column(table, column) for name, column in fitted.extras.items()}
    counts = None if weights is None else number_column(table, weights)
    _check_target(fitted, y, extras)
    beside: dict[str, Any] = {"weights": counts, "progress": progress, **extras}
    beside |= lengths(axis, forget, window)
    if fitted.choices:
        choices = tuple(
            choice._replace(posterior=_posterior(choice.posterior, table, x, y, refine, beside))
            for choice in fitted.choices
        )
        return dataclasses.replace(fitted, posterior=choices[0].posterior, choices=choices)
    posterior = _posterior(fitted.posterior, table, x, y, refine, beside)
    return fitted.grown(posterior, x[np.isfinite(y)])


def _check_stream(fitted: Fitted, stream: Stream, weights: str | None) -> None:
    """Refuse a stream that is read in another way than that of the fit."""
    if weights is not None:
        raise ValueError("what is read of a stream is said where it is made: give weights there")
    for what, own, other in [
        ("time column", fitted.time, stream.time),
        ("target", fitted.target, stream.target),
        ("calendar", (fitted.axis.dates, fitted.axis.zone), tuple(stream.calendar)),
    ]:
        if own != other:
            raise ValueError(f"the {what} of the fit was {own!r}, that of the stream is {other!r}")


def lengths(axis: TimeAxis, forget: Any, window: Any) -> dict[str, float | None]:
    """Two stretches of time as numbers, where they are given."""
    given = {"forget": forget, "window": window}
    return {n: None if value is None else axis.length(n, value) for n, value in given.items()}


def _posterior(
    posterior: Posterior, table: Any, x: np.ndarray, y: np.ndarray, refine: Any, beside: Any
) -> Posterior:
    """One posterior, with these rows."""
    if not isinstance(posterior, RegressionPosterior):
        grown: Posterior = posterior.update(x, y, refine=refine, **beside)
        return grown
    values = values_in(table, posterior.design.effects)
    return _with_effects(posterior, x, y, values, refine, beside)


def _check_target(fitted: Fitted, y: np.ndarray, extras: dict[str, Any]) -> None:
    """Refuse, by the name of the column, what the likelihood of any model calls impossible."""
    name = f"column {fitted.target!r}"
    posteriors = [choice.posterior for choice in fitted.choices] or [fitted.posterior]
    for posterior in posteriors:
        likelihood = posterior.model.likelihood
        extra = extra_values(likelihood, len(y), extras, needed=np.isfinite(y))
        try:
            check_support(likelihood, name, y, extra)
        except ValueError as error:
            if not fitted.choices:
                raise
            raise ValueError(
                f"{error}, which is one of the models that were chosen from the data: fit again, "
                "with all rows"
            ) from None


def _with_effects(
    posterior: RegressionPosterior,
    x: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    refine: Any,
    beside: dict[str, Any],
) -> Posterior:
    """The effects depend on all observations: they are found anew, for hyperparameters as given."""
    beside, data = dict(beside), posterior.data
    design = posterior.design.knowing(x, values)
    for missing in design.unknown(x[np.isfinite(y)]).values():
        y = np.where(np.isin(x, missing), np.nan, y)
    if not np.any(np.isfinite(y)) and not refine:
        return posterior.knowing(design)
    old = user_units(np.asarray(data.x), data.origin, len(data))
    forgetting = Forgetting.of(beside.pop("forget"), beside.pop("window"))
    together = {"weights": np.asarray(data.weights)}
    extra = posterior.model.likelihood.extra
    if extra in beside:
        together[extra] = np.asarray(data.extra)
    for name, column in together.items():
        new = beside.get(name)
        new = np.ones(len(x)) if new is None else new
        beside = beside | {name: np.concatenate([column, new])}
    x, y, seen = np.concatenate([old, x]), np.concatenate([np.asarray(data.y), y]), len(old)
    if forgetting:
        shares = forgetting.shares(old.astype(float), x[seen:][np.isfinite(y[seen:])].astype(float))
        every = np.where(np.isfinite(y), 0.0, 1.0)
        every[np.isfinite(y)] = np.concatenate(shares)
        beside["weights"] = beside["weights"] * every
        x, y = x[every > 0], y[every > 0]
        for name in together:
            beside[name] = beside[name][every > 0]
    if refine:
        model = map_parameters(as_it_is, posterior.model)
        return fit_with_effects(design, model, x, y, **beside)
    found = condition_with_effects(design, posterior.model, x, y, **beside)
    return dataclasses.replace(found, fit_result=posterior.fit_result)
