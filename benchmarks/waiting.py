"""What people wait for: `python -m benchmarks.waiting`, a part of `make bench`.

Each work is a process of its own, once with an empty cache of compiled programs and once with the
cache that the first one filled. Every step of it is timed from the start of the process, and JAX
says where the time went: tracing, lowering, XLA, reading programs from the cache; the rest is
computing (and everything else that Python does).
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "XLA",
    "/jax/compilation_cache/cache_retrieval_time_sec": "cache",
}


class Clock:
    """Steps of a work, and what JAX did in each."""

    def __init__(self):
        self.steps, self.events, self.programs = [], dict.fromkeys(_EVENTS.values(), 0.0), 0
        self.began = time.time()

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
        self.steps.append({"step": name, "seconds": seconds, "programs": self.programs} | events)
        self.began, self.programs = now, 0


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
    clock.step(f"predict, sample {name}")


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
        clock.step(f"predict N={n:,}")


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
        clock.step(f"forecast {len(frame):,} ({number + 1})")


def forecaster_hourly(clock, sg):
    forecast(clock, sg, [hourly(700, 0), hourly(700, 1), hourly(820, 2)], "48h")


def forecaster_daily(clock, sg):
    forecast(clock, sg, [daily(800, 0), daily(800, 1), daily(960, 2)], "30d")


def regressor(clock, sg):
    for n in (1000, 1000, 3000):
        x, y = waves(n)
        sg.GPRegressor().fit(x[:, None], y).predict(x[:100, None], return_std=True)
        clock.step(f"fit, predict N={n:,}")


def demo(clock, sg):
    from stategp._command import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["stategp", "demo", "--output", folder]
        with contextlib.suppress(SystemExit):
            main()
        if not list(Path(folder).glob("*.html")):
            sys.exit("the demo wrote no report")
    clock.step("stategp demo")


WORKS = {
    work.__name__: work
    for work in (
        readme, total, poisson, regressor, forecaster_hourly, forecaster_daily, demo,
    )
}  # fmt: skip


def work_in_process(name):
    """One work, and a line of JSON about it."""
    clock = Clock()
    clock.began = float(os.environ["STATEGP_BENCH_BEGAN"])
    clock.listen()
    import stategp as sg

    clock.step("import")
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
        where = ", ".join(f"{kind} {one[kind]:.2f}" for kind in kinds if one[kind] >= 0.005)
        print(
            f"  {one['step']:32s} {one['seconds']:7.2f} s  {one['programs']:3d} programs: {where}"
        )
    whole = sum(one["seconds"] for one in measured["steps"])
    print(f"  {'all':32s} {whole:7.2f} s, {measured.get('peak_mb', 0):.0f} MB", flush=True)


def waiting(works):
    """All works, each with an empty and with a filled cache."""
    results = []
    for name in works:
        with tempfile.TemporaryDirectory() as cache:
            for state in ("empty", "filled"):
                measured = measure(name, cache)
                report(name, state, measured)
                results.append({"waiting": name, "cache": state} | measured)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=list(WORKS), help=", ".join(WORKS))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="where the measurements are written")
    options = parser.parse_args()
    if options.work:
        return work_in_process(options.work)
    results = waiting(options.works)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return None


if __name__ == "__main__":
    main()
