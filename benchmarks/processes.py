"""1, 2 and 4 processes share one fit: `python -m benchmarks.processes --store` (some minutes).

Each process has one core to itself, as long as there are enough. What is timed, of programs that
are compiled: reading a folder and exchanging its sums; one pass over rows without sums (Laplace)
on disk and one over rows in memory; a few steps of a search for hyperparameters. All must find the
same. One process with two devices (and two cores) is timed, too. `--store` writes
docs/processes-run.json and what docs/scaling.md says of it.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.blocks import DOCS, write_block
from benchmarks.stream import SPAN, write
from benchmarks.workers import free_port
from stategp_experiments.studies import commit

STORED = DOCS / "processes-run.json"
ROWS = 2_000_000
CASES = ((1, 1), (2, 1), (4, 1), (1, 2))  # processes, and devices of each
STEPS = 3  # of a search
REPEATS = 5
LONGEST = 1800  # seconds
WORK = {
    "read_seconds": "reading, and exchange of the sums",
    "disk_pass_seconds": "a pass over rows on disk",
    "memory_pass_seconds": "a pass over rows in memory",
    "fit_seconds": f"{STEPS} steps of a search, rows in memory",
}


def timed(work, repeats):
    """The least of several times; the first of all, which compiles, does not count."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - began)
    return min(times), found


def run(folder, rows):
    """What every process does; the first one says how long it took."""
    import jax

    import stategp as sg
    from stategp._data import observe
    from stategp._inference import Sight

    warnings.simplefilter("ignore")
    kernel = sg.kernels.Matern32(lengthscale=2.0, variance=1.0)
    robust = sg.GP(kernel, sg.likelihoods.Laplace(scale=0.2))

    def stream():
        return sg.stream(folder, time="t", target="y", shortest=1.0)

    reading, summary = timed(lambda: sg.summarise(stream()), 2)
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, SPAN, rows))
    y = np.sin(x) + rng.laplace(0, 0.2, rows)
    inducing = np.linspace(0, SPAN, 1000)

    @jax.jit
    def look(view, mean, variance):
        return view.expected(robust.likelihood, mean, variance)

    def one_pass(data):
        view, _ = Sight(data, inducing - float(data.origin))(robust)
        mean, variance = np.zeros(view.nodes.size), np.ones(view.nodes.size)
        seconds, _ = timed(lambda: jax.block_until_ready(look(view, mean, variance).value), REPEATS)
        return seconds

    stored = stream().stored(robust.likelihood, stream().stretches)
    disk_pass = one_pass(stored)
    stored.close()
    memory_pass = one_pass(observe(x, y, robust.likelihood))
    options = {"inducing": inducing, "max_steps": STEPS, "progress": False}
    fitting, posterior = timed(lambda: sg.fit(robust, x, y, **options), 1)
    return {
        "rows": summary.rows,
        "read_seconds": reading,
        "disk_pass_seconds": disk_pass,
        "memory_pass_seconds": memory_pass,
        "fit_seconds": fitting,
        "elbo": posterior.elbo,
        "lengthscale": float(posterior.model.kernel.lengthscale),
    }


def one_of_several(asked):
    """A process with a core of its own, or as many as it has devices."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if cores:
        own = {cores[(asked.process + k) % len(cores)] for k in range(asked.devices)}
        os.sched_setaffinity(0, own)
    import stategp as sg

    if asked.processes > 1:
        sg.join_processes(f"localhost:{asked.port}", asked.processes, asked.process)
    found = run(asked.folder, asked.rows)
    if asked.process == 0:
        print(json.dumps(found), flush=True)


def measure(folder, rows, processes, devices):
    """What the first of so many processes says."""
    given = ["--folder", folder, "--rows", rows, "--processes", processes, "--devices", devices]
    given += ["--port", free_port()]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.processes", *map(str, given), "--process", str(k)],
            env=os.environ | {"XLA_FLAGS": flags},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(processes)
    ]
    try:
        said = [process.communicate(timeout=LONGEST)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        sys.exit(f"{processes} processes did not come to an end")
    line = next(line for line in said[0].splitlines() if line.startswith("{"))
    return {"processes": processes, "devices": devices} | json.loads(line)


def page(stored):
    """What docs/scaling.md says."""
    runs, cores = stored["runs"], stored["cores"]
    heads = [
        f"{one['processes']} process{'es' * (one['processes'] > 1)}"
        + (f" with {one['devices']} devices" if one["devices"] > 1 else "")
        for one in runs
    ]
    lines = ["| seconds | " + " | ".join(heads) + " |", "|---" * (1 + len(runs)) + "|"]
    for name, what in WORK.items():
        lines.append(f"| {what} | " + " | ".join(f"{one[name]:.3g}" for one in runs) + " |")
    apart = max(abs(one["elbo"] / runs[0]["elbo"] - 1) for one in runs)
    return (
        f"`python -m benchmarks.processes`, {stored['rows']:,} rows, on a machine with {cores} "
        f"cores, of which\neach process is given one and each device one: more than {cores} of "
        "them share cores and cannot be faster.\nAll find the same bound, to "
        f"{max(apart, 1e-16):.0e} ([numbers](processes-run.json)).\n\n" + "\n".join(lines)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} and the page")
    for name in ("process", "processes", "devices", "port"):
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.process is not None:
        one_of_several(asked)
        return
    with tempfile.TemporaryDirectory(prefix="stategp-processes-") as folder:
        write(Path(folder), asked.rows, group=max(asked.rows // 64, 1))
        runs = []
        for case in CASES:
            runs.append(measure(folder, asked.rows, *case))
            print(runs[-1], flush=True)
    stored = {"made": datetime.date.today().isoformat(), "commit": commit()}
    stored |= {"cores": os.cpu_count(), "rows": asked.rows, "runs": runs}
    print(page(stored))
    if asked.store:
        STORED.write_text(json.dumps(stored, indent=1) + "\n")
        write_block("scaling.md", "processes", page(stored))


if __name__ == "__main__":
    main()
