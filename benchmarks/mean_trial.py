"""Means with and without the far tail of log y: `python -m benchmarks.mean_trial`.

The default forecaster at origins within the training parts of series: M4 weekly and hourly
(`STATEGP_DATA`), and the monthly ones of M1 and M3. Models of log y were taken at their word
before, up to 97.5 % of the distribution; now their deviation counts up to a limit.

    python -m benchmarks.mean_trial M3 --share 1/6 --out m3.json
    python -m benchmarks.mean_trial M1 --share 1/6 --out m1.json
    python -m benchmarks.mean_trial weekly --share 0/2 --first 25 --out weekly.json
    python -m benchmarks.mean_trial --join m3.json m1.json weekly.json --store

The series of M3 are in the file of `benchmarks.foresight_trial`, those of M1 in one beside it
(`m1-monthly.npz`), which a job of `benchmarks.peers.forecast_peers` writes. `--store` keeps a
summary in docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import json
import math
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

import stategp as sg
from benchmarks.forecast_series import GROUPS, read_m4, read_series
from benchmarks.forecast_trials import setting
from benchmarks.foresight_trial import M3, STORED
from stategp._forecasting import _averages
from stategp._forecasting._choosing import averaged, choose

WAYS = ("as learned", "without the far tail", "median")
CUTS = {"weekly": (13, 52, 104), "hourly": (48,), "M1": (18,), "M3": (18,)}
FEWEST = {"weekly": 60, "hourly": 60, "M1": 30, "M3": 30}  # observations before an origin
SHORT = 40  # observations


def compared(group, y, future):
    """The MASE of means both ways, and of the median."""
    here = setting(group, y)
    there = averaged(choose(here.series, here.axis)[0], here.ahead)
    with mock.patch.object(_averages, "_SKEWED", math.inf):
        means = there.moments()[0]
    lower, median, upper = there.quantiles([0.025, 0.5, 0.975])
    forecasts = (np.clip(means, lower, upper), there.moments()[0], median)
    season = GROUPS[group].season
    return {
        way: float(sg.metrics.mase(future, forecast, history=y, season=season))
        for way, forecast in zip(WAYS, forecasts, strict=True)
    }


def run(options):
    monthly = options.of in ("M1", "M3")
    group = "monthly" if monthly else options.of
    series = read_series(M3.parent / f"{options.of.lower()}-monthly.npz") if monthly else None
    series, found = series or read_m4(group), []
    number, shares = map(int, options.share.split("/"))
    for name, (train, _) in list(series.items())[number::shares][: options.first]:
        for cut in CUTS[options.of]:
            y, future = train[:-cut], train[len(train) - cut :][: GROUPS[group].horizon]
            if len(y) < FEWEST[options.of] or np.ptp(y) == 0:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = compared(group, y, future)
            about = {"of": options.of, "series": name, "before": len(y)}
            found.append(about | scores)
            options.out.write_text(json.dumps(found))
    print(f"{len(found)} origins: {options.out}")


def summary(rows):
    """Means, and how a typical MASE changes: by series, as its origins are not independent."""
    found = {"origins": len(rows), "series": len({row["series"] for row in rows})}
    found["mase"] = {way: float(np.mean([row[way] for row in rows])) for way in WAYS}
    before, now, _ = WAYS
    most = max(rows, key=lambda row: abs(row[now] - row[before]))
    found["that changes most"] = {way: most[way] for way in WAYS}
    changes = {}
    for row in rows:
        if row[before] > 0 and row[now] > 0:
            change = math.log(row[now] / row[before])
            changes.setdefault(row["series"], []).append(change)
    means = np.array([np.mean(some) for some in changes.values()])
    error = float(np.std(means, ddof=1) / math.sqrt(len(means)))
    found["change of log mase"] = {"mean": float(np.mean(means)), "standard error": error}
    return found


def join(options):
    rows = [row for file in options.join for row in json.loads(file.read_text())]
    kinds = {of: [row for row in rows if row["of"] == of] for of in CUTS}
    monthly = kinds["M1"] + kinds["M3"]
    kinds |= {
        "months, fewer than 40": [row for row in monthly if row["before"] < SHORT],
        "months, 40 or more": [row for row in monthly if row["before"] >= SHORT],
    }
    found = {of: summary(some) for of, some in kinds.items() if some}
    for of, one in found.items():
        print(f"{of}: {json.dumps(one)}")
    if options.store:
        stored = json.loads(STORED.read_text()) | {"means": found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("of", nargs="?", choices=CUTS)
    parser.add_argument("--share", default="0/1", help="which of how many shares of the series")
    parser.add_argument("--first", type=int, metavar="K", help="only the first K of these series")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if options.join:
        return join(options)
    if options.of is None or options.out is None:
        parser.error("series and --out, or --join")
    return run(options)


if __name__ == "__main__":
    main()
