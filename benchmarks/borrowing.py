"""Do short series forecast better if they share? `python -m benchmarks.borrowing`.

M4's weekly series (`STATEGP_DATA/m4/m4_odd.parquet`), of their training parts only: the last 13
observations of each are forecast from 60 to 120 before them, by the default models fitted to each
series alone and with what they share. For each way to share, the mean of MASE and of MSIS over
series, and of the difference to fitting alone, with its standard error over series.
"""

import argparse
import json

import numpy as np
import pandas as pd

import stategp as sg
from benchmarks.forecast_series import GROUPS, read_m4

LENGTHS = (60, 120)
SCORES = ("mase", "msis")


def main():
    parser = argparse.ArgumentParser(
        prog="benchmarks.borrowing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--series", type=int, default=180, help="the first so many")
    parser.add_argument("--ways", nargs="+", default=["prior", "all"], choices=["prior", "all"])
    options = parser.parse_args()
    series = short(options.series)
    frame = pd.concat(table(name, y) for name, (y, _) in series.items())
    found = {share: scores(series, frame, share) for share in ["none", *options.ways]}
    for share, each in found.items():
        said = {"share": share, "series": len(each)}
        for name, ours, alone in zip(SCORES, each.T, found["none"].T, strict=True):
            away = ours - alone
            said[name] = round(float(np.mean(ours)), 4)
            said[f"{name} less that alone"] = round(float(np.mean(away)), 4)
            said[f"{name}, standard error"] = round(
                float(np.std(away, ddof=1) / np.sqrt(len(away))), 4
            )
            said[f"{name}, series better"] = int(np.sum(away < 0))
        print(json.dumps(said), flush=True)


def short(count):
    """The end of every training part, and what comes after it."""
    random, horizon = np.random.default_rng(0), GROUPS["weekly"].horizon
    found = {}
    for name, (train, _) in list(read_m4("weekly").items())[:count]:
        length = int(random.integers(*LENGTHS, endpoint=True))
        found[name] = train[:-horizon][-length:], train[-horizon:]
    return found


def table(name, y):
    about = GROUPS["weekly"]
    days = pd.date_range(about.start, periods=len(y), freq=about.step)
    return pd.DataFrame({"unique_id": name, "ds": days, "y": y})


def scores(series, frame, share):
    """A row for each series."""
    forecaster = sg.Forecaster().fit(frame, by="unique_id", share=share, progress=False)
    ahead = dict(tuple(forecaster.forecast(GROUPS["weekly"].ahead).groupby("unique_id")))
    rows = []
    for name, (y, future) in series.items():
        mean, low, high = (ahead[name][c].to_numpy() for c in ("mean", "lower_95", "upper_95"))
        rows.append((sg.metrics.mase(future, mean, y), sg.metrics.msis(future, low, high, y)))
    return np.array(rows)


if __name__ == "__main__":
    main()
