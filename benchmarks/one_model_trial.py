"""The model without comparison, and the one before it: `python -m benchmarks.one_model_trial`.

Forecasts from rolling origins with fewer inducing points than observations, of a smooth trend that
falls back to the mean with two harmonics of each season (what was fitted until now), and of what is
fitted now. M4's hourly and weekly series (training parts only, every twentieth and every twelfth),
flights an hour (the airline data), carbon dioxide, and a long simulated hourly series.

    python -m benchmarks.one_model_trial hourly --out hourly.json
    python -m benchmarks.one_model_trial --join hourly.json weekly.json … --store

`--store` keeps a summary in docs/forecast-trials-run.json, which docs/forecasting.md quotes.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

import stategp as sg
from benchmarks.forecast_series import read_m4
from benchmarks.foresight_trial import SCORES, STORED, summary
from stategp._forecasting import _defaults, _single
from stategp._forecasting._defaults import SEASONS, Default, rank_correlation

WAYS = ("falls back", "goes on")


class Kind(NamedTuple):
    """Origins before the end, steps ahead, the step, the season of MASE, inducing points."""

    cuts: tuple[int, ...]
    horizon: int
    step: str
    season: int
    inducing: int


KINDS = {
    "hourly": Kind((48, 216), 48, "h", 24, 60),
    "weekly": Kind((13, 52), 13, "7D", 1, 60),
    "airline": Kind(tuple(range(168, 168 * 7, 168)), 168, "h", 24, 100),
    "co2": Kind(tuple(range(60, 420, 60)), 60, "MS", 12, 60),
    "simulated": Kind((168, 2000, 5000, 8000, 11000, 14000), 168, "h", 24, 300),
}


def series_of(kind):
    """Series by name."""
    folder = Path(os.environ["STATEGP_DATA"])
    if kind in ("hourly", "weekly"):
        every = {"hourly": 20, "weekly": 12}[kind]
        chosen = list(read_m4(kind).items())[::every]
        return {name: train for name, (train, _) in chosen if len(train) > 300}
    if kind == "airline":
        import pyarrow.dataset

        found = pyarrow.dataset.dataset(
            folder / "airline", format="parquet", partitioning="hive", exclude_invalid_files=True
        )
        table = found.to_table(columns=["month", "dayOfMonth", "crsDepTime"]).to_pandas()
        day = pd.to_datetime({"year": 2008, "month": table["month"], "day": table["dayOfMonth"]})
        hours = day + pd.to_timedelta(table["crsDepTime"] // 100 % 24, unit="h")
        counts = hours.value_counts().sort_index().asfreq("h", fill_value=0)
        return {"flights": counts.to_numpy(float)}
    if kind == "co2":
        return {"co2": np.loadtxt(folder / "co2/CO2_data.csv", delimiter=",")[:, 1]}
    rng, days = np.random.default_rng(0), np.arange(30_000) / 24
    level = np.cumsum(0.05 * rng.standard_normal(len(days)))
    rough = np.zeros(len(days))
    for hour in range(1, len(days)):
        rough[hour] = 0.9 * rough[hour - 1] + rng.standard_normal()
    busy = 8 * np.abs(np.sin(np.pi * days)) ** 3 * np.where(days.astype(int) % 7 >= 5, 0.6, 1.0)
    yearly = 4 * np.cos(2 * np.pi * days / 365.25)
    return {"simulated": level + rough + busy + yearly + rng.standard_normal(len(days))}


def falling_back(x, f, dates, **_):
    """What was fitted before, for dates."""
    span, spacing = float(np.ptp(x)), float(np.median(np.diff(x)))
    variance = float(np.var(f)) or 1.0
    parts = [f"trend: matern52({span:.4g}, variance={variance:.3g})"]
    scaled = 2 * (x - x[0]) / (x[-1] - x[0]) - 1
    columns = [np.polynomial.legendre.legvander(scaled, 7)]
    for name, period in SEASONS.items():
        if span >= 2 * period and spacing <= period / 3.9:
            waves = [f"cosine({period / j}, variance={variance / 4**j:.3g})" for j in (1, 2)]
            parts.append(f"{name}: ({' + '.join(waves)})")
            angles = 2 * np.pi * x[:, None] / (period / np.array([1, 2]))
            columns += [np.cos(angles), np.sin(angles)]
    design = np.concatenate(columns, axis=1)
    left = f - design @ np.linalg.lstsq(design, f, rcond=None)[0]
    if rank_correlation(left[1:], left[:-1]) > 0.3:
        short = max(np.sqrt(span * spacing), span / 300)
        parts.append(f"short: matern32({short:.4g}, variance={variance / 100:.3g})")
    return Default(" + ".join(parts), None, "")


MODELS = dict(zip(WAYS, (falling_back, _defaults.default_model), strict=True))


def scores(kind, y, future, model):
    dates = pd.date_range("2001-01-01", periods=len(y) + len(future), freq=kind.step)
    frame = pd.DataFrame({"ds": dates[: len(y)], "y": y})
    with mock.patch.object(_single, "default_model", model):
        made = sg.Forecaster(inducing=kind.inducing).fit(frame, progress=False)
    ahead = made.predict(dates[len(y) :])
    mean, lower, upper = (ahead[name].to_numpy() for name in ("mean", "lower_95", "upper_95"))
    found = (
        sg.metrics.mase(future, mean, history=y, season=kind.season),
        sg.metrics.msis(future, lower, upper, level=0.95, history=y, season=kind.season),
        sg.metrics.coverage(future, lower, upper),
    )
    return dict(zip(SCORES, map(float, found), strict=True))


def run(name, out):
    kind, rows = KINDS[name], []
    for series, values in series_of(name).items():
        for cut in kind.cuts:
            y, future = values[:-cut], values[len(values) - cut :][: kind.horizon]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = {way: scores(kind, y, future, model) for way, model in MODELS.items()}
            rows.append({"kind": name, "series": series, "before_the_end": cut} | found)
            out.write_text(json.dumps(rows))
    print(json.dumps(summed_up(rows)))


def summed_up(rows):
    """Means, and changes where there are several series."""
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = summary(rows, *WAYS)
    several = len({row["series"] for row in rows}) > 1
    return {name: part for name, part in found.items() if several or "change" not in name}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS, nargs="?")
    parser.add_argument("--out", type=Path, help="a JSON file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of kinds")
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    options = parser.parse_args()
    if not options.join:
        if options.kind is None or options.out is None:
            parser.error("a kind and --out, or --join")
        return run(options.kind, options.out)
    rows = [row for file in options.join for row in json.loads(file.read_text())]
    found = {
        kind: summed_up([row for row in rows if row["kind"] == kind])
        for kind in KINDS
        if any(row["kind"] == kind for row in rows)
    }
    print(json.dumps(found, indent=1))
    if options.store:
        stored = json.loads(STORED.read_text()) | {"one model": found}
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
