"""Forecasts of stategp and of its peers on the same series: `python -m benchmarks.forecasts`.

`sg.Forecaster()` with plain defaults against statsforecast's methods and Prophet with theirs, on
M4 hourly and weekly (`STATEGP_DATA/m4/m4_odd.parquet`) and M3 monthly, or with `--group quarterly
yearly` every second one of these of M3. All series, or with --quick (or QUICK=1) forty of each
group; `--skip 40` takes others than these. `--store` keeps scores beside the documentation
(`docs/forecasts-run.json`; with --skip 40 `docs/forecasts-fresh-run.json`, with --skip 160
`docs/forecasts-last-run.json`, of quarterly and yearly series `docs/forecasts-years-run.json`) and
writes their table into docs/forecasting.md. Ours run
in a process of its own, one series after another; peers in one of their environment
(`benchmarks/peers/make_environments.sh`), and what they forecast is kept in
`benchmarks/results/forecast-peers/`, so that ours can be run again quickly; `--keep-peers` takes
their scores from the run that is stored instead, and `--keep-seconds` our seconds, for a machine
that is busy with other things. The table, and whether targets are reached, go to standard output;
scores, forecasts and pictures of our worst series to `benchmarks/results/`.

Several processes may each take a share of the series, and ours and peers be run apart:

    python -m benchmarks.forecasts --without-peers --share 0/16 --out folder
    python -m benchmarks.forecasts --without-ours
    python -m benchmarks.forecasts --join folder/*.json benchmarks/results/*.json
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks import forecast_page, forecast_scores, forecast_targets
from benchmarks.__main__ import machine
from benchmarks.forecast_series import GROUPS, M3, PEERS, USUAL, chosen, series_of, share_of
from benchmarks.peers.protocol import forecast_record, seconds_of, versions
from stategp._runtime import replacing

HERE = Path(__file__).parent
ROOT = HERE.parent
OURS = "stategp"
LEVELS = [*(round(0.1 * i, 1) for i in range(1, 10)), 0.95]
QUICK = 40
PINS = (HERE / "peers/requirements-forecasts.txt").read_text().splitlines()[1:4]


def main():
    options = arguments()
    if options.work:
        return forecast_ours(json.loads(options.work.read_text()))
    options.out.mkdir(parents=True, exist_ok=True)
    if options.join:
        return finish(forecast_targets.joined(options.join), options)
    peers = [] if options.without_peers or options.keep_peers else peers_python(options)
    groups = options.group or list(USUAL)
    run = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "seed": options.seed,
        "series": options.series or "all",
        "skip": options.skip,
        "share": options.share,
        "levels": LEVELS,
        "groups": {},
    }
    try:
        for name in groups:
            every = series_of(name, series_file(name, options, peers))
            series = share_of(
                chosen(every, options.series, options.seed, options.skip), options.share
            )
            theirs = forecast_page.peers_kept(run, name) if options.keep_peers else []
            run["groups"][name] = kept = asdict(GROUPS[name]) | {"results": theirs}
            for record in forecasts(name, series, options, peers):
                train, test = series[record["series"]]
                scored = record | forecast_scores.scores(record, train, test, GROUPS[name].season)
                kept["results"].append(scored)
                say(name, scored)
            picture = forecast_scores.draw(name, run, series, options.out, OURS)
            print(f"drawn: {picture}" if picture else f"{name}: nothing to draw", flush=True)
    except KeyboardInterrupt:
        run["interrupted"] = True
        print("interrupted: what was forecast until then")
    return finish(run, options)


def finish(run, options):
    """Tables on standard output, everything in files."""
    methods = (OURS, *PEERS)
    if options.keep_seconds:
        run = forecast_page.with_seconds_kept(run)
    forecast_targets.summarised(run, methods)
    print("\n" + forecast_scores.table(run, methods))
    print("\n" + forecast_targets.targets(run, methods))
    size = "all" if run["series"] == "all" else f"{run['series']}-of-each"
    size += f"-but-{run['skip']}" if run.get("skip") else ""
    share = run.get("share", "0/1").replace("/", "-of-")
    part = "-joined" if options.join else "" if share == "0-of-1" else f"-share-{share}"
    part += "-without-peers" if options.without_peers else ""
    part += "-without-ours" if options.without_ours else ""
    file = options.out / f"{run['date']}-forecasts-{'-'.join(run['groups'])}-{size}{part}.json"
    write(file, run)
    print(f"\nwritten to {file}")
    if options.store and "interrupted" not in run:
        stored = forecast_page.stored_as(run)
        write(stored, forecast_scores.without_forecasts(run), indent=1)
        forecast_page.rewrite(run)
        print(f"written to {stored}, and its table to {forecast_page.PAGE}")
    return


def arguments():
    parser = argparse.ArgumentParser(
        prog="benchmarks.forecasts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} series of each group")
    parser.add_argument("--series", type=int, metavar="K", help="so many series of each group")
    parser.add_argument("--group", choices=GROUPS, nargs="+", help="only these series")
    parser.add_argument("--seed", type=int, default=0, help="for the choice of series")
    parser.add_argument("--skip", type=int, default=0, metavar="K", help="without the first K")
    parser.add_argument("--share", default="0/1", help="which of how many shares of the series")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="results of shares")
    parser.add_argument("--without-peers", action="store_true", help="stategp alone")
    parser.add_argument("--keep-peers", action="store_true", help="their scores as stored")
    parser.add_argument("--keep-seconds", action="store_true", help="our seconds as stored")
    parser.add_argument("--without-ours", action="store_true", help="peers alone")
    parser.add_argument("--fresh", action="store_true", help="ask peers again, too")
    parser.add_argument("--store", action="store_true", help="write the documentation, too")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one forecast")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--python", default="python3.11", help="for the environment of the peers")
    parser.add_argument("--peers-python", type=Path, help="of an environment that is ready")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.series is None and (options.quick or os.environ.get("QUICK")):
        options.series = QUICK
    return options


def peers_python(options):
    """The command that runs peers; it makes their environment if there is none."""
    python = options.peers_python
    if python is None:
        script = [HERE / "peers/make_environments.sh", options.environments, options.python]
        if subprocess.run(["sh", *map(str, script), "forecasts"]).returncode:
            sys.exit("forecasts: without the peers' environment, use --without-peers")
        python = options.environments / "forecasts/bin/python"
    return [str(python.absolute()), "-m", "benchmarks.peers.forecast_peers"]


def series_file(group, options, peers):
    """A file of the series: M3's, which a package of the peers has, and M4's if there is one."""
    file = options.out / (f"m3-{group}.npz" if group in M3 else f"m4-{group}.npz")
    if group in M3 and not file.exists():
        if not peers:
            sys.exit("forecasts: M3 comes with the peers; run once without --without-peers")
        job = {"work": "m3", "subset": group, "to": str(file.absolute())}
        list(worked(peers, job, [{}], options.limit))
    return file if file.exists() else None


def forecasts(group, series, options, peers):
    """A record of every method and series: peers, from what is kept or anew, then ours."""
    about = {"levels": LEVELS} | asdict(GROUPS[group])
    kept = options.out / "forecast-peers" / group
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "series.npz"
        np.savez(data, **{f"{name}:train": train for name, (train, _) in series.items()})
        job = about | {"work": "forecast", "data": str(data)}
        todo = []
        for name in series if peers else ():
            known = {} if options.fresh else read(kept / f"{name}.json")
            for method in GROUPS[group].seasons:
                record = known.get(method, {})
                if record.get("asked") == asked(method, about):
                    yield record
                else:
                    todo.append({"series": name, "method": method})
        for found in worked(peers, job, todo, options.limit):
            record = found | {"asked": asked(found["method"], about)}
            if "versions" in record:  # not if its process died
                file = kept / f"{record['series']}.json"
                write(file, read(file) | {record["method"]: record})
            yield record
        command = [sys.executable, "-m", "benchmarks.forecasts", "--work"]
        mine = [{"series": name, "method": OURS} for name in series if not options.without_ours]
        yield from worked(command, job, mine, options.limit)


def asked(method, about):
    """All that a peer's forecast depends on beside the series."""
    names = ("levels", "horizon", "start", "step")
    return {name: about[name] for name in names} | {
        "seasons": about["seasons"][method],
        "pins": PINS,
    }


def worked(command, job, todo, limit):
    """A record for each of todo, in order; a process that dies costs only what it was doing."""
    left = list(todo)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            file, words = Path(folder) / "job.json", Path(folder) / "words"
            file.write_text(json.dumps(job | {"todo": left}))
            with words.open("w") as stderr:
                process = subprocess.Popen(
                    [*command, str(file)],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                )
                try:
                    for line in lines(process, limit):
                        yield left.pop(0) | json.loads(line)
                finally:
                    process.kill()
                    status = process.wait()
                    process.stdout.close()
            if status == 1:  # not of a series: their errors are in their records
                sys.exit(f"forecasts: {command[0]} failed:\n{words.read_text()[-2000:]}")
            if left:
                reason = f"the process ended with status {status}, or was ended after {limit:g} s"
                yield left.pop(0) | {"error": reason}


def lines(process, limit):
    """What a process prints, until it ends or is silent for too long."""
    while True:
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            process.wait()
            return
        yield line


def forecast_ours(job):
    """Our forecasts, one series after another, a line of JSON for each."""
    began = time.perf_counter()
    import pandas as pd

    import stategp as sg

    importing, used = time.perf_counter() - began, versions("stategp", "jax", "numpy")
    with np.load(job["data"]) as series:
        for number, one in enumerate(job["todo"]):
            y = series[f"{one['series']}:train"]
            dates = pd.date_range(job["start"], periods=len(y), freq=job["step"])
            about = {"first": number == 0, "import_seconds": importing}
            found = our_forecast(sg, pd.DataFrame({"ds": dates, "y": y}), job)
            print(json.dumps(one | about | found | {"versions": used}), flush=True)


def our_forecast(sg, frame, job):
    """With plain defaults."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", sg.NotConvergedWarning)
            fit_seconds, forecaster = seconds_of(lambda: sg.Forecaster().fit(frame, progress=False))
            seconds, found = seconds_of(
                lambda: forecaster.forecast(job["ahead"], levels=job["levels"])
            )
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    median = found["median" if "median" in found else "mean"]
    names = [f"{100 * level:g}" for level in job["levels"]]
    lower, upper = ([found[f"{side}_{name}"] for name in names] for side in ("lower", "upper"))
    return forecast_record(fit_seconds + seconds, found["mean"], median, lower, upper) | {
        "fit_seconds": fit_seconds,
        "kernel": forecaster.learned_kernel,
        "converged": not any(issubclass(w.category, sg.NotConvergedWarning) for w in caught),
    }


def say(group, record):
    outcome = f"MASE {record['mase']:7.3f}, {record['seconds']:7.2f} s" if "mase" in record else ""
    note = record.get("error", "").replace("\n", " ")[:100]
    print(f"{group:8s} {record['series']:6s} {record['method']:22s} {outcome}{note}", flush=True)


def read(file):
    return json.loads(file.read_text()) if file.exists() else {}


def write(file, content, indent=None):
    text = json.dumps(content, indent=indent, allow_nan=False)
    with replacing(file) as written:
        written.write(text.encode())


if __name__ == "__main__":
    main()
