"""A fitted forecaster with more rows: which posterior is updated, and how."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stategp._data import (
    Bundle,
    Forgetting,
    Observations,
    check_support,
    extra_values,
    observe_more,
)
from stategp._fitting import as_it_is
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._frames import as_frame, number_column, time_column
from stategp._forecasting._long import Key, read_long, shown_key
from stategp._forecasting._panel import Panel, merged
from stategp._forecasting._panel_refining import refined
from stategp._forecasting._parallel import fit_part, rows_of
from stategp._forecasting._reading import Raw, read_series
from stategp._forecasting._regression import condition_with_effects, fit_with_effects
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._forecasting._regressors import values_in
from stategp._forecasting._single import LIMITS, Wish, read_within
from stategp._posteriors import Posterior
from stategp._story import user_units
from stategp._streams import Stream
from stategp.likelihoods import Likelihood
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


def updated_panel(
    forecaster: Any,
    panel: Panel,
    frame: Any,
    *,
    refine: bool,
    weights: str | None,
    forget: Any,
    window: Any,
    progress: Any,
) -> Panel:
    """What many fits left behind, with the rows of a long frame.

    Models stay as they are, unless they are to be refined. Series that are new are fitted.
    """
    form, shared = panel.form, "share=" in panel.call
    if refine and shared:
        raise ValueError(
            "refine learns every series by itself, and these share hyperparameters: fit again, "
            "with all rows"
        )
    ways = lengths(form.axis, forget, window)
    long = read_long(frame, form.by, form.time, form.target)
    columns = {"weights": weights}
    _, raws = read_series(long, form.time, form.target, columns, form.axis.layout, form.axis)
    found, new = known_series(panel.numbers, panel.problems, raws)
    alone = dict(panel.alone)
    options = {"refine": refine, "weights": weights, "progress": progress}
    options |= {"forget": forget, "window": window}
    for number in [number for number in found if number in alone]:
        part = long.part(long.keys.index(found.pop(number).key))
        one = alone[number] = dataclasses.replace(alone[number])
        try:
            one.update(part, **options)
        except ValueError as error:
            raise ValueError(f"series {shown_key(panel.keys[number])!r}: {error}") from None
    for number, raw in found.items():
        if any(light.log for light in panel.chosen[number]) and np.any(np.asarray(raw.y) <= 0):
            raise ValueError(
                f"series {shown_key(raw.key)!r}: a model of log y was chosen from the data, and "
                "new values are not positive: fit again, with all rows"
            )
    grown = more_of_each(
        panel.data,
        found,
        lambda number: panel.models[panel.chosen[number][0].which].likelihood,
        Forgetting.of(**ways),
    )
    longer = panel.data.with_series(grown, len(panel.keys))
    after = dataclasses.replace(panel, data=longer, alone=alone)
    if refine:
        after = refined(after, sorted(grown), progress)
    if not new:
        return after
    if shared:
        return _with_failures(after, [raw.key for raw in new])
    rows = rows_of(long, np.array([long.keys.index(raw.key) for raw in new]))
    named = {name: column for one in alone.values() for name, column in one.fitted.extras.items()}
    wish = Wish(form.time, form.target, named | columns, form.axis.layout, progress, {})
    return merged([after, fit_part(forecaster, rows, list(form.by), wish, form.axis)])


def _with_failures(panel: Panel, keys: list[Key]) -> Panel:
    """With series that cannot be fitted by themselves."""
    count = len(panel.keys) + len(keys)
    return dataclasses.replace(
        panel,
        keys=(*panel.keys, *keys),
        problems=(*panel.problems, *[_NEW] * len(keys)),
        chosen=(*panel.chosen, *[()] * len(keys)),
        data=panel.data.with_series({}, count),
    )


_NEW = (
    "it was not there when the others, with which it shares hyperparameters, were fitted: fit "
    "again, with all rows"
)


def known_series(
    numbers: Mapping[Key, int], problems: Sequence[str], raws: Sequence[Raw]
) -> tuple[dict[int, Raw], list[Raw]]:
    """New rows by the number of their series, without those that failed; and new series."""
    found, unknown = {}, []
    for raw in raws:
        number = numbers.get(raw.key)
        if number is None:
            unknown.append(raw)
        elif raw.problem:
            raise ValueError(f"series {shown_key(raw.key)!r}: {raw.problem}")
        elif not problems[number]:
            found[number] = raw
    return found, unknown


def more_of_each(
    data: Bundle,
    raws: Mapping[int, Raw],
    likelihood_of: Callable[[int], Likelihood],
    forgetting: Forgetting,
) -> dict[int, Observations]:
    """Series by their number, with new observations; what is wrong names its series."""
    grown = {}
    for number, raw in raws.items():
        extras = {name: value for name, value in raw.extras.items() if name != "weights"}
        try:
            grown[number] = observe_more(
                data[number], raw.x, raw.y, likelihood_of(number), extras=extras,
                weights=raw.extras.get("weights"), forgetting=forgetting,
            )[0]  # fmt: skip
        except ValueError as error:
            raise ValueError(f"series {shown_key(raw.key)!r}: {error}") from None
    return grown


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
