"""What else forecasts could do, on rolling origins: `python -m benchmarks.forecast_trials`.

Within the training parts of M4's weekly and hourly series (`STATEGP_DATA/m4/m4_odd.parquet`); their
test parts are not looked at. Six kinds of trial, each in a process that may do a share of it:

    python -m benchmarks.forecast_trials changes weekly --share 0/12 --out changes-0.json
    python -m benchmarks.forecast_trials models weekly --share 0/16 --out models-0.json

`changes` compares forecasts with and without sudden changes of level, where some are found.
`models` has the forecasts of every model by itself: the default ones, some without seasons, all of
them on y, its square root and log y; and of the first one with hyperparameters averaged over their
Laplace approximation. `intervals` compares widths after changes of level, `origins` widths with and
without what forecasts from earlier origins show, `slopes` forecasts with and without a change of
slope (`benchmarks.change_trials`), `weights` which trend is fitted first, and how much weight the
other scale keeps (`benchmarks.weight_trials`). What `docs/forecast-trials-run.json` says follows
from the first two and the last.
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import equinox as eqx
import numpy as np
import pandas as pd

import stategp as sg
from benchmarks.change_trials import trial_of_intervals, trial_of_origins, trial_of_slopes
from benchmarks.forecast_series import GROUPS, read_m4
from benchmarks.weight_trials import trial_of_weights
from stategp._forecasting import _candidates as default
from stategp._forecasting import _choosing
from stategp._forecasting._changes import with_changes
from stategp._forecasting._instants import read_times
from stategp._forecasting._learning import Series, learn, noise_of
from stategp._forecasting._steps import fitting_axis
from stategp.kernels import DampedTrend, Linear, Matern12, Sum, Wiener
from stategp.likelihoods import LogNormal
from stategp.parameters import all_parameters, fixed, to_vector, with_vector

BEFORE_THE_END = {"weekly": (13, 52, 104), "hourly": (48, 216)}
FEWEST = 60  # observations before an origin
AWAY = 0.15  # of logarithms of hyperparameters, for second differences


def main():
    options = arguments()
    number, shares = map(int, options.share.split("/"))
    trial = TRIALS[options.trial]
    began, found = time.perf_counter(), []
    for name, (train, _) in list(read_m4(options.group).items())[number::shares]:
        for cut in BEFORE_THE_END[options.group]:
            y, future = train[:-cut], train[len(train) - cut :][: GROUPS[options.group].horizon]
            if len(y) < FEWEST or time.perf_counter() - began > options.limit:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = trial(options.group, y, future)
            found += [{"series": name, "before_the_end": cut} | row for row in rows]
            options.out.write_text(json.dumps(found))
    print(f"{len(found)} results in {time.perf_counter() - began:.0f} s: {options.out}")


def arguments():
    parser = argparse.ArgumentParser(
        prog="benchmarks.forecast_trials", description=__doc__.splitlines()[0]
    )
    parser.add_argument("trial", choices=TRIALS)
    parser.add_argument("group", choices=BEFORE_THE_END)
    parser.add_argument("--share", default="0/1", help="which of how many shares of the series")
    parser.add_argument("--limit", type=float, default=420.0, help="seconds to begin origins in")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file")
    return parser.parse_args()


class Setting(NamedTuple):
    """A series up to an origin, and the times after it."""

    series: Series
    ahead: np.ndarray
    axis: object
    frame: pd.DataFrame


def setting(group, y, horizon=None):
    """Of a group of series; its horizon is that of the competition unless it is given."""
    about = GROUPS[group]
    horizon = about.horizon if horizon is None else horizon
    dates = pd.date_range(about.start, periods=len(y) + horizon, freq=about.step)
    frame = pd.DataFrame({"ds": dates[: len(y)], "y": y})
    instants = dates.to_numpy().astype("datetime64[us]")
    axis = fitting_axis(read_times(instants[: len(y)], "times"))
    x = axis.numbers(read_times(instants, "times"), "times")
    series = Series.of(x[: len(y)], y, None, dates=True, robust=True)
    return Setting(series, x[len(y) :], axis, frame)


# --- changes of level -----------------------------------------------------------------------------


def trial_of_changes(group, y, future):
    """A row, if changes are found: scores with and without them."""
    here = setting(group, y)
    changed = with_changes(here.series, here.axis)
    if changed is here.series:
        return []
    times = changed.beside.design.changes
    since = int(np.sum(here.series.x >= times[-1]))
    with mock.patch.object(_choosing, "with_changes", lambda series, axis: series):
        without, _ = scores(group, here.frame, y, future)
    given, used = scores(group, here.frame, y, future)
    row = {"found": len(times), "since": since, "used": used, "without": without, "with": given}
    return [row]


def scores(group, frame, y, future):
    """MASE, MSIS and coverage of the default forecaster, and whether it uses changes."""
    about = GROUPS[group]
    forecaster = sg.Forecaster().fit(frame, progress=False)
    ahead = forecaster.forecast(about.ahead)
    lower, upper = ahead["lower_95"].to_numpy(), ahead["upper_95"].to_numpy()
    middle = ahead["median" if "median" in ahead else "mean"].to_numpy()
    found = (
        sg.metrics.mase(future, middle, history=y, season=about.season),
        sg.metrics.msis(future, lower, upper, level=0.95, history=y, season=about.season),
        sg.metrics.coverage(future, lower, upper),
    )
    design = getattr(forecaster.posterior, "design", None)
    return [float(score) for score in found], bool(design is not None and design.changes)


# --- models ---------------------------------------------------------------------------------------


class Root(NamedTuple):
    """The square root as a scale, as `stategp._forecasting._scales.Scale` has others."""

    log: bool = True
    floor: None = None
    cap: None = None

    def forward(self, y):
        return 2 * np.sqrt(y)

    def backward(self, values):
        return np.maximum(values / 2, 0) ** 2

    def log_slopes(self, y):
        return -0.5 * np.log(y)

    def takes(self, y):
        return np.isfinite(y) & (y > 0)

    def likelihood(self, variance):
        return LogNormal(variance=variance)  # which only says how large noise is


def trial_of_models(group, y, future):
    """A row for every model on every scale; the likeliest first one has Laplace's moments, too."""
    here = setting(group, y)
    series, scales = here.series, here.series.candidates()
    if len(scales) == 2:
        root = Root()
        scales += default.candidates(
            series.x, series.outline, [(root, root.forward(series.cleaned))]
        )
    rows, first = [], None
    for number, models in enumerate(scales):
        models = {f"default {i}": model for i, model in enumerate(models)}
        models |= without_seasons(models["default 0"], series) if group == "weekly" else {}
        for name, model in models.items():
            learned = learn(model, series)
            mean, variance = map(np.asarray, learned.posterior.predict_f(here.ahead))
            choice = _choosing.Choice(
                1.0, learned.posterior, name, False, model.spent,
                lately=_choosing.lately(learned.scores[~series.doubted]),
            )  # fmt: skip
            rows.append(
                {
                    "scale": ("y", "log y", "root")[number],
                    "model": name,
                    "evidence": learned.evidence,
                    "mean": mean.tolist(),
                    "variance": (variance + float(noise_of(learned.posterior))).tolist(),
                    "widening": choice.widening(here.ahead).tolist(),
                    "future": future.tolist(),
                }
            )
            best = -np.inf if first is None else first[2].evidence
            if name == "default 0" and learned.evidence > best:
                first = (len(rows) - 1, model, learned)
    row, model, learned = first
    rows[row]["laplace"] = [part.tolist() for part in averaged(model, series, learned, here.ahead)]
    return rows


def without_seasons(model, series):
    """A level, a level and a slope, and the like: what Theta has."""
    outline = series.outline
    change = default.typical_change(model.scale.forward(series.cleaned) - model.fitted, outline)
    step, steepness = outline.step, (change / outline.step) ** 2
    wide = fixed(10 * (outline.span / step + 1) * change**2)
    vague = fixed(default._VAGUE * change**2)

    def near(value, spread):
        return default._near(value, spread)

    def level(start=wide):
        return Wiener(diffusivity=near(0.1 * change**2 / step, 2.0), start=start)

    def line():
        return Linear(slope=fixed(0.05**2 * steepness), start=vague)

    short = Matern12(variance=near(0.5 * change**2, 1.5), lengthscale=near(3 * step, 1.0))
    rate = 1 / (26 * step)
    damped = DampedTrend(
        diffusivity=near(2 * rate * 0.01 * steepness, 2.0), damping=near(rate, 0.7), start=wide
    )
    kernels = {
        "level": Sum(level=level(vague)),
        "level, slope": Sum(trend=line(), level=level()),
        "level, slope, deviations": Sum(trend=line(), level=level(), short=short),
        "level, damped slope": Sum(trend=Sum(line=line(), bends=damped), level=level()),
    }
    return {name: model._replace(kernel=kernel) for name, kernel in kernels.items()}


# --- hyperparameters ------------------------------------------------------------------------------


def averaged(model, series, learned, ahead):
    """Mean and variance of observations, averaged over the Laplace approximation.

    At points on the axes of its ellipsoid that have its mean and covariance.
    """
    noise = np.asarray(float(noise_of(learned.posterior)))
    likelihood = eqx.tree_at(lambda tree: tree.variance.value, model.likelihood, noise)
    gp = sg.GP(learned.posterior.model.kernel, likelihood, learned.posterior.model.mean)
    centre = np.asarray(to_vector(gp))
    latest = series.part(model, series.latest)
    curvature = -hessian(lambda vector: log_posterior(with_vector(gp, vector), latest), centre)
    values, axes = np.linalg.eigh(curvature)
    reach = np.minimum(np.sqrt(len(centre) / np.maximum(values, 0.1)), 3.0)
    everything = series.part(model, np.arange(len(series.y)))
    means, variances = [], []
    for away in (*(reach * axes).T, *(-reach * axes).T):
        there = with_vector(gp, centre + away)
        posterior = sg.condition(there, **everything, inducing="data", progress=False)
        mean, variance = map(np.asarray, posterior.predict_f(ahead))
        means.append(mean)
        variances.append(variance + float(there.likelihood.variance))
    return np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0)


def log_posterior(gp, part):
    """Of the logarithms of hyperparameters."""
    learned = [p for p in all_parameters(gp) if p.learned and p.prior is not None]
    priors = sum(float(p.prior.log_density(p.value)) for p in learned)
    evidence = sg.condition(gp, **part, inducing="data", progress=False).elbo
    return evidence + priors + float(np.sum(np.asarray(to_vector(gp))))


def hessian(function, centre):
    """By differences."""
    units = AWAY * np.eye(len(centre))
    middle = function(centre)
    above = [function(centre + unit) for unit in units]
    below = [function(centre - unit) for unit in units]
    second = np.diag([a + b - 2 * middle for a, b in zip(above, below, strict=True)])
    for i in range(len(centre)):
        for j in range(i):
            both = function(centre + units[i] + units[j])
            second[i, j] = second[j, i] = both - above[i] - above[j] + middle
    return second / AWAY**2


TRIALS = {
    "changes": trial_of_changes,
    "models": trial_of_models,
    "intervals": lambda group, y, future: trial_of_intervals(group, setting(group, y), y, future),
    "origins": lambda group, y, future: trial_of_origins(group, setting(group, y), y, future),
    "slopes": lambda group, y, future: trial_of_slopes(group, setting(group, y), y, future),
    "weights": lambda group, y, future: trial_of_weights(group, setting(group, y), y, future),
}


if __name__ == "__main__":
    main()
