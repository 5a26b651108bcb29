"""Trials of `benchmarks.forecast_trials` about intervals, and about changes of level and slope."""

import dataclasses
from unittest import mock

import numpy as np

import stategp as sg
from benchmarks.forecast_series import GROUPS
from stategp._forecasting import _choosing
from stategp._forecasting._averages import Average, Part
from stategp._forecasting._changes import with_changes
from stategp._forecasting._design import Column, Design
from stategp._forecasting._filtering import respond
from stategp._forecasting._learning import learn, noise_of

TIMES = 24  # at which the slope might change, evenly spread over the latest observations
EDGE = 0.1  # of these observations before the first such time, and after the last


def scored(group, average, y, future):
    """MASE, MSIS and coverage."""
    season = GROUPS[group].season
    middle, lower, upper = average.quantiles([0.5, 0.025, 0.975])
    found = (
        sg.metrics.mase(future, middle, history=y, season=season),
        sg.metrics.msis(future, lower, upper, level=0.95, history=y, season=season),
        sg.metrics.coverage(future, lower, upper),
    )
    return [float(score) for score in found]


# --- intervals ------------------------------------------------------------------------------------


def trial_of_intervals(group, here, y, future):
    """A row where changes of level are used: widths by the latest errors, all or since the last."""
    if with_changes(here.series, here.axis) is here.series:
        return []
    seen = []

    def remembered(scores):
        seen.append(scores)
        return usual(scores)

    usual = _choosing.lately
    with mock.patch.object(_choosing, "lately", remembered):
        choices, series = _choosing.choose(here.series, here.axis)
    design = series.beside.design
    if design is None or not design.changes:
        return []
    after = (series.x >= design.changes[-1])[~series.doubted]
    since = [
        choice._replace(lately=usual(scores[after]))
        for choice, scores in zip(choices, seen, strict=True)
    ]
    ways = {"all": choices, "since": since, "none": [c._replace(lately=1.0) for c in choices]}
    found = {
        name: scored(group, _choosing.averaged(tuple(way), here.ahead), y, future)
        for name, way in ways.items()
    }
    return [{"changes": len(design.changes), "since_rows": int(after.sum()), "scores": found}]


def trial_of_origins(group, here, y, future):
    """A row: intervals with and without what forecasts from earlier origins show."""
    choices, _ = _choosing.choose(here.series, here.axis)
    ways = {"without": tuple(c._replace(ahead=()) for c in choices), "with": choices}
    found = {
        name: scored(group, _choosing.averaged(way, here.ahead), y, future)
        for name, way in ways.items()
    }
    return [{"scores": found}]


# --- changes of slope -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Bends(Design):
    """Changes of slope in the place of changes of level."""

    @property
    def columns(self):
        return tuple(Column("bends", f"slope from {time:g}", -2) for time in self.changes)

    def matrix(self, x):
        x = np.asarray(x, dtype=float)
        span = float(np.ptp(self.times)) or 1.0
        return np.stack([np.maximum(x - time, 0.0) / span for time in self.changes], axis=1)


def trial_of_slopes(group, here, y, future):
    """A row: the likeliest first model with and without the change of slope that it likes best."""
    series = here.series
    fitted = [learn(scale[0], series) for scale in series.candidates()]
    plain = max(fitted, key=lambda one: one.evidence)
    rows = series.latest
    x = np.unique(series.x[rows])
    inside = x[int(EDGE * len(x)) : len(x) - int(EDGE * len(x))]
    times = inside[np.linspace(0, len(inside) - 1, TIMES).astype(int)]
    bends = Bends.of_changes(here.axis, tuple(map(float, times)))
    bends = dataclasses.replace(bends, times=x, values=np.zeros((len(x), 0)))
    best = times[np.argmax(gains(bends, plain, series, x))]
    one = dataclasses.replace(bends, changes=(float(best),))
    changed = dataclasses.replace(series, beside=dataclasses.replace(series.beside, design=one))
    bent = learn(plain.candidate, changed)
    ahead = {
        name: Average((part(learned, changed if name == "with" else series, here.ahead),))
        for name, learned in (("without", plain), ("with", bent))
    }
    return [
        {
            "since": int(np.sum(series.x >= best)),
            "gain": bent.evidence - plain.evidence - float(np.log(len(rows))),
            "scores": {name: scored(group, one, y, future) for name, one in ahead.items()},
        }
    ]


def gains(design, learned, series, x):
    """How much likelier each column makes y, for hyperparameters as they are."""
    candidate, data = learned.candidate, series.part(learned.candidate, series.latest)
    at = np.searchsorted(x, data["x"])
    noise = float(noise_of(learned.posterior))
    precision = np.bincount(at, minlength=len(x)) / noise
    away = data["y"] - candidate.fitted[series.latest]
    target = np.bincount(at, away, len(x)) / np.maximum(np.bincount(at, minlength=len(x)), 1)
    columns = np.concatenate([design.matrix(x), target[:, None]], axis=1)
    products, _ = respond(learned.posterior.model.kernels[0], x, columns, precision)
    H, b = np.diagonal(products)[:-1], products[:-1, -1]
    size = float(np.var(data["y"])) or 1.0
    return b**2 / (H + 1 / size) / 2 - np.log1p(size * H) / 2


def part(learned, series, ahead):
    """The forecast of one model."""
    posterior, scale = learned.posterior, learned.candidate.scale
    mean, variance = map(np.asarray, posterior.predict_f(ahead))
    choice = _choosing.Choice(
        1.0, posterior, "", scale.log, learned.candidate.spent,
        lately=_choosing.lately(learned.scores[~series.doubted]),
    )  # fmt: skip
    variance = (variance + float(noise_of(posterior))) * choice.widening(ahead)
    return Part(1.0, scale.log, mean, np.sqrt(variance), scale.floor, scale.cap)
