"""What people wait for: `python -m benchmarks.waiting`, a part of `make bench`.

Each work is a process of its own, once with an empty cache of compiled programs and once with the
cache that the first one filled. Every step of it is timed from the start of the process, and JAX
says where the time went: tracing, lowering, XLA, reading programs from the cache; the rest is
computing (and everything else that Python does). `--store` writes docs/waiting-run.json, which
docs/performance.md quotes (`python -m benchmarks.figures`).
"""

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STORED = Path(__file__).parent.parent / "docs" / "waiting-run.json"
_ROWS = 10**6  # of the command line's Parquet file
_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "XLA",
    "/jax/compilation_cache/cache_retrieval_time_sec": "cache",
}


class Clock:
    """Steps of a work, and what JAX did in each.

    Steps belong to answers: the first is complete when `answered` is called for the first time.
    """

    def __init__(self):
        self.steps, self.events, self.programs = [], dict.fromkeys(_EVENTS.values(), 0.0), 0
        self.began, self.answer = time.time(), 0

    def listen(self):
        """Count what JAX reports from now on; importing it is the first step."""
        import jax

        def note(event, seconds, **_):
            if event in _EVENTS:
                self.events[_EVENTS[event]] += seconds
                self.programs += event.endswith("backend_compile_duration")

        jax.monitoring.register_event_duration_secs_listener(note)

    def step(self, name):
        """What was done since the last step."""
        now = time.time()
        seconds = now - self.began
        events, self.events = self.events, dict.fromkeys(self.events, 0.0)
        # Reading a program from the cache is reported as compiling it, too.
        events["XLA"] = max(events["XLA"] - events["cache"], 0.0)
        events["rest"] = max(seconds - sum(events.values()), 0.0)
        about = {"step": name, "answer": self.answer, "seconds": seconds}
        self.steps.append(about | {"programs": self.programs} | events)
        self.began, self.programs = now, 0

    def answered(self, name):
        """The last step of an answer."""
        self.step(name)
        self.answer += 1


def waves(n, seed=0):
    import numpy as np

    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 100, n))
    return x, np.sin(x) + 0.3 * rng.standard_normal(n)


def posterior(clock, sg, model, n, name):
    """README's example: fit, predict, sample."""
    import numpy as np

    x, y = waves(n)
    fitted = sg.fit(model, x, y)
    clock.step(f"fit {name}")
    fitted.predict_f([50.0, 101.0])
    fitted.sample_f(0, np.linspace(0, 110, 500), num_samples=10)
    clock.answered(f"predict, sample {name}")


def readme(clock, sg):
    model = sg.GP(sg.kernels.Matern52(), sg.likelihoods.Gaussian())
    for n in (2000, 900, 5000):
        posterior(clock, sg, model, n, f"N={n:,}")


def total(clock, sg):
    model = sg.GP("matern52(30) + periodic(6.28)", sg.likelihoods.Gaussian())
    for n in (2700, 1500):
        posterior(clock, sg, model, n, f"N={n:,}")


def poisson(clock, sg):
    import numpy as np

    model = sg.GP(sg.kernels.Matern52(), sg.likelihoods.Poisson())
    for n in (2700, 1500):
        x, y = waves(n)
        counts = np.random.default_rng(0).poisson(np.exp(y))
        fitted = sg.fit(model, x, counts)
        clock.step(f"fit N={n:,}")
        fitted.predict_f([50.0, 101.0])
        clock.answered(f"predict N={n:,}")


def hourly(n, seed):
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    t = np.arange(n)
    season = 5 * np.sin(2 * np.pi * t / 24) + 2 * np.cos(4 * np.pi * t / 24)
    weekly = 2 * np.sin(2 * np.pi * t / 168)
    level = np.cumsum(0.2 * rng.standard_normal(n))
    y = 50 + season + weekly + level + rng.standard_normal(n)
    return pd.DataFrame({"ds": pd.date_range("2025-01-06", periods=n, freq="h"), "y": y})


def daily(n, seed):
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    t = np.arange(n)
    y = 50 + 3 * np.sin(2 * np.pi * t / 7) + 8 * np.sin(2 * np.pi * t / 365.25)
    y = y + np.cumsum(0.3 * rng.standard_normal(n)) + rng.standard_normal(n)
    return pd.DataFrame({"ds": pd.date_range("2022-01-03", periods=n), "y": y})


def forecast(clock, sg, frames, horizon):
    for number, frame in enumerate(frames):
        forecaster = sg.Forecaster().fit(frame)
        clock.step(f"fit {len(frame):,} ({number + 1})")
        forecaster.forecast(horizon)
        clock.answered(f"forecast {len(frame):,} ({number + 1})")


def forecaster_hourly(clock, sg):
    forecast(clock, sg, [hourly(700, 0), hourly(700, 1), hourly(820, 2)], "48h")


def forecaster_daily(clock, sg):
    forecast(clock, sg, [daily(800, 0), daily(800, 1), daily(960, 2)], "30d")


def regressor(clock, sg):
    for n in (1000, 1000, 3000):
        x, y = waves(n)
        sg.GPRegressor().fit(x[:, None], y).predict(x[:100, None], return_std=True)
        clock.answered(f"fit, predict N={n:,}")


def demo(clock, sg):
    from stategp._command import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["stategp", "demo", "--output", folder]
        with contextlib.suppress(SystemExit):
            main()
        if not list(Path(folder).glob("*.html")):
            sys.exit("the demo wrote no report")
    clock.answered("stategp demo")


def large_states(clock, sg):
    """d = 25, evenly spaced: two trends, nine waves of a day, rough deviations, all learned."""
    k = sg.kernels
    waves = [
        k.Cosine(period=sg.fixed(24 / j)) * k.Matern12(variance=sg.fixed(1.0)) for j in range(1, 10)
    ]
    trends = [k.Matern52(lengthscale=100.0), k.Matern52(lengthscale=10.0)]
    model = sg.GP(k.Sum(*trends, *waves, k.Matern12(lengthscale=2.0)), sg.likelihoods.Gaussian())
    for seed in range(3):
        frame = hourly(1000, seed)
        sg.fit(model, frame.index.to_numpy(float), frame["y"].to_numpy() - 50)
        clock.answered(f"fit N=1,000 ({seed + 1})")


def importing(clock, sg):
    """Nothing else."""


WORKS = {
    work.__name__: work
    for work in (
        importing, readme, total, poisson, regressor, forecaster_hourly, forecaster_daily, demo,
        large_states,
    )
}  # fmt: skip
COMMAND = "command"  # not in this list: it is several processes


def work_in_process(name):
    """One work, and a line of JSON about it."""
    clock = Clock()
    clock.began = float(os.environ["STATEGP_BENCH_BEGAN"])
    clock.listen()
    clock.step("import jax")
    import stategp as sg

    clock.step("import stategp")
    WORKS[name](clock, sg)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps({"steps": clock.steps, "peak_mb": peak}))


def measure(name, cache):
    """One work in a process of its own."""
    environment = dict(os.environ, STATEGP_CACHE=str(cache), STATEGP_BENCH_BEGAN=repr(time.time()))
    command = [sys.executable, "-m", "benchmarks.waiting", "--work", name]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parent.parent, capture_output=True, text=True
    )
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"error": done.stderr[-2000:], "steps": []}


def report(name, state, measured):
    kinds = [*_EVENTS.values(), "rest"]
    print(f"\n{name}, cache {state}" + (f": {measured['error']}" if "error" in measured else ""))
    for one in measured["steps"]:
        where = ", ".join(f"{kind} {one[kind]:.2f}" for kind in kinds if one.get(kind, 0) >= 0.005)
        where = f"  {one['programs']:3d} programs: {where}" if "programs" in one else ""
        print(f"  {one['step']:32s} {one['seconds']:7.2f} s{where}")
    whole = sum(one["seconds"] for one in measured["steps"])
    print(f"  {'all':32s} {whole:7.2f} s, {measured.get('peak_mb', 0):.0f} MB", flush=True)


def command_line(cache):
    """`stategp fit` on a million rows, first with an empty cache, then with the one it filled."""
    from benchmarks import command

    with tempfile.TemporaryDirectory() as folder:
        found = command.measure(_ROWS, Path(folder), str(cache))
    for state, name in (("empty", "fit"), ("filled", "fit again")):
        step = {"step": f"stategp fit, {_ROWS:,} rows", "answer": 0}
        step |= {"seconds": found[name]["seconds"]}
        yield state, {"steps": [step], "peak_mb": found[name]["peak MB"]}


def waiting(works):
    """All works, each with an empty and with a filled cache."""
    results = []
    for name in works:
        with tempfile.TemporaryDirectory() as cache:
            states = (
                command_line(cache)
                if name == COMMAND
                else ((state, measure(name, cache)) for state in ("empty", "filled"))
            )
            for state, measured in states:
                report(name, state, measured)
                results.append({"waiting": name, "cache": state} | measured)
    return results


def store(results):
    """Write the run, with what it was measured on, for docs/performance.md."""
    from benchmarks.__main__ import machine
    from benchmarks.kills import commit
    from benchmarks.peers.protocol import versions

    about = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine()}
    about |= {"versions": versions("jax", "jaxlib", "equinox", "numpy", "scipy")}
    STORED.write_text(json.dumps(about | {"results": results}, indent=1) + "\n")
    print(f"\nwritten to {STORED}; python -m benchmarks.figures quotes it")


def main():
    everything = [*WORKS, COMMAND]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=everything, help=", ".join(everything))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="where the measurements are written")
    parser.add_argument("--store", action="store_true", help=f"all of them, to docs/{STORED.name}")
    options = parser.parse_args()
    if options.work:
        return work_in_process(options.work)
    if options.store and options.works != everything:
        parser.error("--store is for all works")
    if unknown := set(options.works) - set(everything):
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join(everything)}")
    results = waiting(options.works)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if failed := [one for one in results if "error" in one]:
        sys.exit(f"failed: {', '.join(one['waiting'] for one in failed)}")
    if options.store:
        store(results)
    return None


if __name__ == "__main__":
    main()
