"""Files larger than memory: `python -m benchmarks.stream --store`.

Simulated rows are written to Parquet files in a temporary folder, which is removed at the end.
Hyperparameters are then learned from 10⁷ and 10⁸ of them (`--rows`), of Gaussian observations and
of counts, each in a process of its own: its time, the time that reading took of it, and its peak
memory. Of Student-t observations, whose rows are kept on disk, a tenth as many are conditioned on:
every step passes over the file. In minibatches of the first rows again: the time and the rows read
until the first step and for many. Peaks are compared (of programs that are compiled already: run it
twice). `--store` writes docs/stream-run.json and what docs/scaling.md says of it.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

from benchmarks.blocks import DOCS, write_block
from stategp_experiments.studies import commit

STORED = DOCS / "stream-run.json"
ROBUST = "student-t"  # has no sums
FEWER = 10  # times as few rows of it
BATCHES, SIZE, STEPS = "minibatches", 10_000, 300  # of Gaussian rows
FILES = 8
GROUP = 1_000_000  # rows of a row group
SPAN = 1000.0
TARGETS = {"gaussian": "y", "poisson": "n"}


def write(folder, rows, group=GROUP):
    """Files that each go once through the whole range."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [("t", pa.float64()), ("y", pa.float64()), ("n", pa.int32())]
    for file in range(FILES):
        rng = np.random.default_rng(file)
        count = rows // FILES + (file < rows % FILES)
        groups = -(-count // group)
        with pq.ParquetWriter(folder / f"{file}.parquet", pa.schema(kinds)) as writer:
            for number in range(groups):
                size = min(group, count - number * group)
                t = np.sort(rng.uniform(number, number + 1, size)) * SPAN / groups
                f = np.sin(t)
                y, n = f + 0.3 * rng.standard_normal(size), rng.poisson(np.exp(f - 1))
                writer.write_table(pa.table({"t": t, "y": y, "n": n.astype(np.int32)}))


def fit(folder, likelihood):
    """What one process measures."""
    import stategp as sg

    began = time.perf_counter()
    series = sg.stream(folder, time="t", target=TARGETS[likelihood], shortest=1.0)
    summary = sg.summarise(series, likelihood=likelihood)
    read = time.perf_counter() - began
    posterior = sg.fit(sg.GP(sg.kernels.Matern32(), likelihood), summary, inducing=1000)
    return {
        "likelihood": likelihood,
        "rows": summary.rows,
        "summary_bytes": summary.nbytes,
        "read_seconds": read,
        "seconds": time.perf_counter() - began,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "converged": posterior.fit_result.converged,
        "lengthscale": float(posterior.model.kernel.lengthscale),
    }


def condition(folder):
    """The same of observations whose rows are kept on disk, with given hyperparameters."""
    import stategp as sg

    began = time.perf_counter()
    series = sg.stream(folder, time="t", target="y", shortest=1.0)
    kernel = sg.kernels.Matern32(lengthscale=2.0, variance=1.0)
    model = sg.GP(kernel, sg.likelihoods.StudentT(df=4.0, scale=0.25))
    posterior = sg.condition(model, series, inducing=1000, progress=False)
    return {
        "likelihood": ROBUST,
        "rows": posterior.data.observed,
        "seconds": time.perf_counter() - began,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def in_batches(folder):
    """What one process measures of a fit in minibatches, beginning with what comes before them."""
    import warnings

    import stategp as sg
    from stategp._streams._sources import Piece

    read, batches = [], Piece.batches
    Piece.batches = lambda piece, *names: read.append(piece.rows) or batches(piece, *names)
    warnings.simplefilter("ignore")
    model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), "gaussian")
    found = {"likelihood": BATCHES}
    for name, steps in (("first", 1), ("all", STEPS)):
        read.clear()
        began = time.perf_counter()
        series = sg.stream(folder, time="t", target="y", shortest=1.0)
        options = {"inducing": 1000, "batch_size": SIZE, "max_steps": steps, "progress": False}
        posterior = sg.fit(model, series, **options)
        seconds = time.perf_counter() - began
        found |= {f"{name}_seconds": seconds, f"{name}_rows_read": sum(read)}
    return found | {
        "rows": posterior.data.observed,
        "steps": STEPS,
        "seconds": found["all_seconds"],
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def measure(rows, likelihoods):
    """Fits of as many rows, each in a process of its own."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="stategp-stream-") as folder:
        command = [sys.executable, "-m", "benchmarks.stream"]
        subprocess.run([*command, "--write", folder, "--count", str(rows)], check=True)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        for likelihood in likelihoods:
            done = subprocess.run(
                [*command, "--fit", folder, "--likelihood", likelihood],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            measured.append(json.loads(done.stdout) | {"file_bytes": size})
            show(measured[-1])
    return measured


def show(one):
    reading = ""
    if "read_seconds" in one:
        speed = one["rows"] / one["read_seconds"] / 1e6
        reading = f"  read {one['read_seconds']:7.1f} s ({speed:.2f} M/s)"
    print(
        f"{one['likelihood']:>9} {one['rows']:>13,} rows {one['file_bytes'] / 1e9:6.2f} GB{reading}"
        f"  all {one['seconds']:7.1f} s  peak {one['peak_bytes'] / 1e6:7.0f} MB",
        flush=True,
    )


def page(run):
    """What docs/scaling.md says."""
    few, many = run["runs"]
    seconds = [f"{one['seconds']:.1f} s" for one in many]
    peaks = [f"{one['peak_bytes'] / 1e6:.0f}" for one in (*many, *few)]
    sizes = [f"{one['summary_bytes'] / 1e6:.1f}" for one in many]
    text = (
        "`python -m benchmarks.stream` makes as many rows, fits them and removes them. On two "
        f"cores of an AMD EPYC, from files of {many[0]['file_bytes'] / 1e9:.1f} GB, "
        f"{many[0]['rows'] / 1e6:.0f} million rows take {seconds[0]} with Gaussian observations "
        f"and {seconds[1]} with counts, most of it reading; the peak of memory is {peaks[0]} and "
        f"{peaks[1]} MB ({peaks[2]} and {peaks[3]} MB for a tenth of the rows, most of it the "
        f"libraries), and a summary has {sizes[0]} and {sizes[1]} MB."
    )
    if "robust" in run:
        few, many = run["robust"]
        text += (
            f" Of Student-t observations, {many['rows'] / 1e6:.0f} million rows on disk with given "
            f"hyperparameters take {many['seconds']:.0f} s and {many['peak_bytes'] / 1e6:.0f} MB "
            f"at the peak ({few['peak_bytes'] / 1e6:.0f} MB for a tenth of them)."
        )
    if "minibatches" in run:
        _, many = run["minibatches"]
        text += (
            f" In minibatches of {SIZE:,}, a fit to {many['rows'] / 1e6:.0f} million rows takes "
            f"its first step after {many['first_seconds']:.1f} s, with compilation, when "
            f"{many['first_rows_read'] / 1e6:.0f} million are read, and {many['steps']} steps in "
            f"{many['all_seconds']:.0f} s."
        )
    return textwrap.fill(f"{text} [Numbers](stream-run.json).", 100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, nargs=2, default=[1e7, 1e8], metavar="N")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} and the page")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--likelihood", choices=[*TARGETS, ROBUST, BATCHES], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        write(asked.write, asked.count)
        return
    if asked.fit:
        one, others = asked.likelihood, {ROBUST: condition, BATCHES: in_batches}
        print(json.dumps(others[one](asked.fit) if one in others else fit(asked.fit, one)))
        return
    runs = [measure(int(rows), [*TARGETS, BATCHES]) for rows in asked.rows]
    batches = [run.pop() for run in runs]
    robust = [measure(int(rows) // FEWER, [ROBUST])[0] for rows in asked.rows]
    for few, many in (*zip(*runs, strict=True), robust):
        more = many["peak_bytes"] / few["peak_bytes"] - 1
        print(f"{few['likelihood']:>9}: peak of the last {100 * more:+.1f} % to that of the first")
    if asked.store:
        about = {
            "made": datetime.date.today().isoformat(),
            "commit": commit(),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "runs": runs,
            "robust": robust,
            "minibatches": batches,
        }
        STORED.write_text(json.dumps(about, indent=1) + "\n")
        write_block("scaling.md", "streams", page(about))


if __name__ == "__main__":
    main()
