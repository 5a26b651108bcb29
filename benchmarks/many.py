"""How many series are fitted in a second: `python -m benchmarks.many`.

Three jobs, each with a broken series among the others: `sg.fit_many` with a Matérn-3/2 kernel and
noise, hyperparameters learned, on 5,000 series of 500 points; the default forecaster with a weekly
season on daily series of 500 points; and M4's weekly series (`STATEGP_DATA/m4/m4_odd.parquet`) in
one call. AutoETS of statsforecast forecasts some of the same simulated series, on all cores, in its
own environment (`benchmarks/peers/make_environments.sh`). What is timed has been compiled before;
the first call is timed, too. Results go to standard output and to `benchmarks/results/`; `--store`
writes those of all jobs, or of the one that was named, to docs/many-run.json and docs/many.md.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

import stategp as sg
from benchmarks.__main__ import machine
from benchmarks.blocks import write_block
from benchmarks.forecast_series import read_m4
from stategp._runtime import replacing
from stategp_experiments.studies import commit

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = ROOT / "docs" / "many-run.json"
LENGTH, SEASON, HORIZON = 500, 7, 14
TARGETS = {"matern32": 100, "seasons": 10}  # series a second, on two cores
QUICK = {"matern32": 200, "seasons": 40}
FULL = {"matern32": 5000, "seasons": 500}


def simulated(count, seasons, seed=0):
    """Series of many scales; the last but one of them is broken."""
    random = np.random.default_rng(seed)
    model = sg.GP(sg.kernels.Matern32(variance=1.0, lengthscale=15.0))
    x = np.arange(float(LENGTH))
    y = np.asarray(model.prior_sample(seed, x, count))
    y = y + np.exp(random.normal(-1.0, 0.5, (count, 1))) * random.standard_normal(y.shape)
    if seasons:
        phase = random.uniform(0, 2 * np.pi, (count, 1))
        y = 20 + y + 2 * np.sin(2 * np.pi * x / SEASON + phase)
    else:
        y *= np.exp(random.normal(0.0, 1.0, (count, 1)))
    y[-2, LENGTH // 2] = np.inf
    return y


def long_frame(y, dates):
    import pandas as pd

    count = len(y)
    times = pd.date_range("2024-01-01", periods=LENGTH) if dates else np.arange(float(LENGTH))
    return pd.DataFrame(
        {
            "unique_id": np.repeat([f"s{n}" for n in range(count)], LENGTH),
            "ds": np.tile(times, count),
            "y": y.ravel(),
        }
    )


def fit_matern(frame):
    model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())
    many = sg.fit_many(model, frame, by="unique_id")
    converged = int(np.sum(many.table["converged"]))
    return many, {"converged": converged, "failed": len(many.failures)}


def fit_seasons(frame):
    forecaster = sg.Forecaster().fit(frame, by="unique_id")
    return forecaster, {"failed": len(forecaster.failures_)}


def ours(name, y, fit):
    """The first call on a few series, then all of them, then their forecasts."""
    dates = name == "seasons"
    few = {"first": timed(lambda: fit(long_frame(y[:70], dates)))[0]}
    timed(lambda: fit(long_frame(y[:70], dates)))
    frame = long_frame(y, dates)
    seconds, (found, counts) = timed(lambda: fit(frame))
    horizon = f"{HORIZON}d" if dates else float(HORIZON)
    found.forecast(horizon)
    forecast, _ = timed(lambda: found.forecast(horizon))
    return few | counts | {
        "series": len(y), "length": LENGTH, "seconds": seconds, "forecast_seconds": forecast,
    }  # fmt: skip


def m4_weekly():
    """All of M4's weekly series in one call, and the scores of their forecasts."""
    import pandas as pd

    series = read_m4("weekly")
    parts = [
        pd.DataFrame(
            {
                "unique_id": name,
                "ds": pd.date_range("1975-01-06", periods=len(train), freq="7D"),
                "y": train,
            }
        )
        for name, (train, _) in series.items()
    ]
    frame = pd.concat(parts)
    model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(), sg.means.Constant())
    first, _ = timed(lambda: sg.fit_many(model, frame, by="unique_id"))
    again, many = timed(lambda: sg.fit_many(model, frame, by="unique_id"))
    seconds, forecaster = timed(lambda: sg.Forecaster().fit(frame, by="unique_id"))
    forecast_seconds, ahead = timed(lambda: forecaster.forecast("13w"))
    by_key = dict(tuple(ahead.groupby("unique_id")))
    errors = [
        sg.metrics.smape(test, by_key[name]["mean"].to_numpy())
        for name, (_, test) in series.items()
        if name in by_key
    ]
    return {
        "series": len(series),
        "observations": len(frame),
        "fit_many_first_seconds": first,
        "fit_many_seconds": again,
        "fit_many_failed": len(many.failures),
        "failed": len(forecaster.failures_),
        "seconds_with_compilation": seconds,
        "forecast_seconds": forecast_seconds,
        "smape": float(np.mean(errors)),
    }


def theirs(options, name, y):
    """AutoETS on the same series, or why not."""
    if options.without_peers:
        return None
    python = options.peers_python
    if python is None:
        script = [HERE / "peers/make_environments.sh", options.environments, options.python]
        if subprocess.run(["sh", *map(str, script), "forecasts"]).returncode:
            sys.exit("many: without the peers' environment, use --without-peers")
        python = options.environments / "forecasts/bin/python"
    some = y[np.all(np.isfinite(y), axis=1)][: options.peer_series]
    with tempfile.TemporaryDirectory() as folder:
        data, job = Path(folder) / "series.npz", Path(folder) / "job.json"
        np.savez(data, **{name: some})
        season = SEASON if name == "seasons" else 1
        asked = {"data": str(data), "name": name, "season": season, "horizon": HORIZON}
        job.write_text(json.dumps(asked))
        command = [str(python.absolute()), "-m", "benchmarks.peers.many_peer", str(job)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr else "no words"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def timed(work):
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def rate(record):
    return record["series"] / record["seconds"]


def table(run):
    lines = [f"{'job':<12}{'series':>8}{'a second':>12}{'target':>8}{'AutoETS a second':>20}"]
    for name, record in run["jobs"].items():
        peer = record.get("AutoETS") or {}
        beside = f"{rate(peer):.3g}" if "seconds" in peer else "–"
        speed = f"{rate(record):.3g}"
        lines.append(f"{name:<12}{record['series']:>8,}{speed:>12}{TARGETS[name]:>8}{beside:>20}")
    weekly = run.get("m4_weekly")
    if weekly:
        seconds = weekly["seconds_with_compilation"] + weekly["forecast_seconds"]
        lines.append(
            f"M4 weekly: {weekly['series']} series in {seconds:.3g} s with compilation, "
            f"{weekly['failed']} failed, sMAPE {weekly['smape']:.2f}"
        )
    return "\n".join(lines)


def speeds(run):
    """What docs/many.md says of simulated series."""
    matern, seasons = run["matern32"], run["seasons"]
    text = (
        "`python -m benchmarks.many` measures how many series are fitted in a second, beside "
        f"AutoETS of statsforecast in the same run. On {run['cores']} cores of an "
        f"{run['processor']}, once compiled, {matern['series']:,} series of {matern['length']} "
        "points with a Matérn-3/2 kernel and learned hyperparameters take "
        f"{matern['seconds']:.1f} s ({rate(matern):.0f} a second, one broken series among them)"
        f"{beside(matern)}; of daily series with a weekly season the default forecaster, which "
        f"compares models, fits {rate(seasons):.0f} a second{beside(seasons)}; the first 70 of "
        f"them, with compilation, take {seasons['first']:.0f} s ([numbers](many-run.json))."
    )
    return textwrap.fill(text, 100)


def beside(record):
    """AutoETS on some of the same series."""
    peer = record.get("AutoETS") or {}
    if "seconds" not in peer:
        return ""
    said = f", AutoETS fits {rate(peer):.0f} a second on all cores"
    if "one_process_seconds" not in peer:
        return f"{said} (with the start of its processes)"
    return f"{said} and {peer['series'] / peer['one_process_seconds']:.0f} in one process"


def page(weekly):
    """What docs/many.md says of M4's weekly series."""
    first, again = weekly["fit_many_first_seconds"], weekly["fit_many_seconds"]
    return (
        f"M4's {weekly['series']} weekly series ({weekly['observations']:,} observations), each in "
        f"one call: `sg.fit_many` takes {again:.1f} s\n({first:.1f} s with compilation), and "
        '`Forecaster().fit(frame, by="unique_id")`, which compares models,\n'
        f"{weekly['seconds_with_compilation']:.0f} s with compilation; the sMAPE of its forecasts "
        f"is {weekly['smape']:.2f} (`python -m benchmarks.many --job m4`,\n"
        "[numbers](many-run.json))."
    )


def store(run):
    """What was measured, beside what was not measured this time, and on the page."""
    stored = json.loads(STORED.read_text())
    stored |= run["jobs"] | ({"m4_weekly": run["m4_weekly"]} if "m4_weekly" in run else {})
    stored |= {"date": run["date"], "commit": commit(), "cores": os.cpu_count()}
    stored["commands"] = ["python -m benchmarks.many --store"]
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    write_block("many.md", "speeds", speeds(stored))
    if "m4_weekly" in stored:
        write_block("many.md", "m4", page(stored["m4_weekly"]))


def arguments():
    parser = argparse.ArgumentParser(prog="benchmarks.many", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer series")
    parser.add_argument("--series", type=int, metavar="K", help="so many series of each job")
    parser.add_argument("--job", choices=[*FULL, "m4"], help="only this one")
    parser.add_argument("--store", action="store_true", help="write the page and its numbers")
    parser.add_argument("--peer-series", type=int, default=1000, help="so many for AutoETS")
    parser.add_argument("--without-peers", action="store_true", help="stategp alone")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--python", default="python3.11", help="for the environment of the peers")
    parser.add_argument("--peers-python", type=Path, help="of an environment that is ready")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    return parser.parse_args()


def main():
    options = arguments()
    quick = options.quick or bool(os.environ.get("QUICK"))
    sizes = QUICK if quick else FULL
    fits = {"matern32": fit_matern, "seasons": fit_seasons}
    run = {"date": datetime.date.today().isoformat(), "machine": machine(), "jobs": {}}
    for name in [job for job in FULL if options.job in (None, job)]:
        y = simulated(options.series or sizes[name], seasons=name == "seasons")
        run["jobs"][name] = ours(name, y, fits[name])
        run["jobs"][name]["AutoETS"] = theirs(options, name, y)
        print(f"{name}: {json.dumps(run['jobs'][name])}", flush=True)
    if options.job in (None, "m4") and os.environ.get("STATEGP_DATA"):
        run["m4_weekly"] = m4_weekly()
    if options.store:
        store(run)
    print("\n" + table(run))
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{run['date']}-many{'-quick' if quick else ''}.json"
    with replacing(file) as writer:
        writer.write(json.dumps(run, indent=1).encode())
    print(f"\nwritten to {file}")


if __name__ == "__main__":
    main()
