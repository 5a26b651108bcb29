"""Trials of models for monthly and longer steps: `python -m benchmarks.month_trial`.

At origins as many steps before the end of the training parts of series as the competition
forecasts, every so many of them. `trends`: forecasts with the three trends that monthly series had
before, whose slopes were expected to be small beside what changes from one observation to the next,
weighted by tenth roots of likelihoods, and with those they have now. `seasons`: with waves of
seasons as they are, and with waves expected to be smaller.

    python -m benchmarks.month_trial trends M3 --share 0/2 --out m3-0.json
    python -m benchmarks.month_trial trends M3 --subset yearly --out m3-yearly.json
    python -m benchmarks.month_trial --join m3-0.json m3-1.json m3-yearly.json --store
    python -m benchmarks.month_trial seasons M3 --every 1 --share 3/8 --out m3.json
    python -m benchmarks.month_trial seasons M1 --every 1 --share 1/4 --out m1.json
    python -m benchmarks.month_trial seasons Tourism --every 1 --share 1/16 --out tourism.json
    python -m benchmarks.month_trial --join m3.json m1.json tourism.json --store

The series are in files of `benchmarks/results` (`m3-monthly.npz`, `tourism-yearly.npz`), which jobs
of `benchmarks.peers.forecast_peers` write. `--store` keeps a summary in
docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import contextlib
import json
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.change_trials import scored
from benchmarks.forecast_series import read_series
from benchmarks.forecast_trials import setting
from benchmarks.foresight_trial import FEWEST, M3, SCORES, STORED, summary
from stategp._forecasting import _candidates, _choosing
from stategp._forecasting._choosing import averaged, choose
from stategp.kernels import Cosine, Linear, Matern12, Matern32, Sum, Wiener
from stategp.parameters import fixed

WAYS = {"trends": ("before", "now"), "seasons": ("as they are", "small waves")}
AHEAD = {  # steps that are forecast
    "M3": {"monthly": 18, "quarterly": 8, "yearly": 6},
    "M1": {"monthly": 18, "quarterly": 8, "yearly": 6},
    "Tourism": {"monthly": 24, "quarterly": 8, "yearly": 4},
}
LEAST = {"monthly": FEWEST["monthly"], "quarterly": 20, "yearly": 12}  # steps before an origin


def compared(trial, subset, y, ahead):
    """Scores of the forecasts of the last steps of y, both ways."""
    y, future = y[:-ahead], y[-ahead:]
    here = setting(subset, y, ahead)
    found = {}
    for way, patched in zip(WAYS[trial], PATCHES[trial], strict=True):
        with contextlib.ExitStack() as patches:
            for module, name, value in patched:
                patches.enter_context(mock.patch.object(module, name, value))
            average = averaged(choose(here.series, here.axis)[0], here.ahead)
        found[way] = dict(zip(SCORES, scored(subset, average, y, future), strict=True))
    return found


def earlier_trends(outline, change, drift, vague):
    """A slope that wanders beside a fixed one, a fixed one, and none."""
    step, start = outline.step, fixed(_candidates._VAGUE * change**2)
    wide = fixed(10 * (outline.span / step + 1) * change**2)
    steepness, far = (change / step) ** 2, 10 * outline.span
    near = _candidates._near
    wandering = Matern32(
        variance=near(1e-4 * steepness / step / (4 * (np.sqrt(3) / far) ** 3), 3.0),
        lengthscale=fixed(far),
    )

    def line(slope):
        return Linear(slope=fixed(slope**2 * steepness), start=start)

    def level(start=wide):
        return Wiener(diffusivity=near(0.1 * change**2 / step, 2.0), start=start)

    short = Matern12(variance=near(0.5 * change**2, 1.5), lengthscale=near(3.0 * step, 1.0))
    return {
        "wandering": {"trend": Sum(line=line(0.05), bends=wandering, level=level())},
        "fixed": {"trend": Sum(line=line(0.15), level=level())},
        "none": {"trend": level(start), "short": short},
    }


def small_waves(outline, change):
    """Variances of 1/j² squared changes are expected of the waves of a year, instead of 4/j."""
    return {
        season.name: Sum(
            **{
                f"wave{j}": Cosine(
                    variance=_candidates._near(change**2 / j**2, 1.5),
                    period=fixed(season.period / j),
                )
                * Matern12(variance=fixed(1.0), lengthscale=fixed(40 * season.period))
                for j in range(1, min(_candidates._FULL, int(season.steps / 2 + 0.1)) + 1)
            }
        )
        for season in outline.seasons
    }


# What is patched for each way.
PATCHES = {
    "trends": ([(_candidates, "_trends", earlier_trends), (_choosing, "_COUNTED", 0.1)], []),
    "seasons": ([], [(_candidates, "_seasons", small_waves)]),
}


def run(options):
    number, shares = map(int, options.share.split("/"))
    ahead, found = AHEAD[options.of][options.subset], []
    file = M3.parent / f"{options.of.lower()}-{options.subset}.npz"
    series = {
        name: train
        for name, (train, _) in read_series(file).items()
        if len(train) - ahead >= LEAST[options.subset] and np.ptp(train[:-ahead]) > 0
    }
    kind = f"{options.of}{'' if options.subset == 'monthly' else f' {options.subset}'}"
    for name, train in list(series.items())[:: options.every][number::shares]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = compared(options.trial, options.subset, train, ahead)
        if min(way[name] for way in scores.values() for name in SCORES[:2]) > 0:
            found.append({"series": f"{kind} {name}", "of": kind} | scores)
        options.out.write_text(json.dumps({"trial": options.trial, "results": found}))
    print(f"{len(found)} origins: {options.out}")


def join(options):
    """A summary of results of one trial: of all series and, if there are several, of each kind."""
    files = [json.loads(file.read_text()) for file in options.join]
    (trial,) = {file["trial"] for file in files}
    rows = [row for file in files for row in file["results"]]
    kinds = {row["of"]: [other for other in rows if other["of"] == row["of"]] for row in rows}
    found = summary(rows, *WAYS[trial])
    if len(kinds) > 1:
        found |= {kind: summary(some, *WAYS[trial]) for kind, some in kinds.items()}
    print(json.dumps(found, indent=1))
    if options.store:
        stored = json.loads(STORED.read_text()) | {f"{trial} of months": found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trial", nargs="?", choices=WAYS)
    parser.add_argument("of", nargs="?", choices=AHEAD, default="M3", help="the competition")
    parser.add_argument("--subset", choices=LEAST, default="monthly")
    parser.add_argument("--every", type=int, default=2, help="every so many of the series")
    parser.add_argument("--share", default="0/1", help="which of how many shares of these")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if options.join:
        return join(options)
    if options.trial is None or options.out is None:
        parser.error("a trial and --out, or --join")
    return run(options)


if __name__ == "__main__":
    main()
