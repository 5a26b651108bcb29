"""Files larger than memory: `python -m benchmarks.stream --rows 1e8`.

Simulated rows are written to Parquet files in a temporary folder, which is removed at the end.
Hyperparameters are then learned from them, of Gaussian observations and of counts, each in a
process of its own: its time, the time that reading took of it, and its peak memory. `--rows 1e7
1e8` compares the peaks (of programs that are compiled already: run it twice). `--save run.json`
stores the numbers.
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
import time
from pathlib import Path

import numpy as np

FILES = 8
GROUP = 1_000_000  # rows of a row group
SPAN = 1000.0
TARGETS = {"gaussian": "y", "poisson": "n"}


def write(folder, rows):
    """Files that each go once through the whole range."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [("t", pa.float64()), ("y", pa.float64()), ("n", pa.int32())]
    for file in range(FILES):
        rng = np.random.default_rng(file)
        count = rows // FILES + (file < rows % FILES)
        groups = -(-count // GROUP)
        with pq.ParquetWriter(folder / f"{file}.parquet", pa.schema(kinds)) as writer:
            for group in range(groups):
                size = min(GROUP, count - group * GROUP)
                t = np.sort(rng.uniform(group, group + 1, size)) * SPAN / groups
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


def measure(rows):
    """Both fits of as many rows, each in a process of its own."""
    measured = []
    with tempfile.TemporaryDirectory(prefix="stategp-stream-") as folder:
        command = [sys.executable, "-m", "benchmarks.stream"]
        subprocess.run([*command, "--write", folder, "--rows", str(rows)], check=True)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        for likelihood in TARGETS:
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
    print(
        f"{one['likelihood']:>9} {one['rows']:>13,} rows {one['file_bytes'] / 1e9:6.2f} GB"
        f"  read {one['read_seconds']:7.1f} s ({one['rows'] / one['read_seconds'] / 1e6:.2f} M/s)"
        f"  all {one['seconds']:7.1f} s  peak {one['peak_bytes'] / 1e6:7.0f} MB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e7])
    parser.add_argument("--save", type=Path)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--likelihood", choices=TARGETS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        write(asked.write, int(asked.rows[0]))
        return
    if asked.fit:
        print(json.dumps(fit(asked.fit, asked.likelihood)))
        return
    runs = [measure(int(rows)) for rows in asked.rows]
    for few, many in zip(runs[0], runs[-1], strict=True):
        more = many["peak_bytes"] / few["peak_bytes"] - 1
        print(f"{few['likelihood']:>9}: peak of the last {100 * more:+.1f} % to that of the first")
    if asked.save:
        about = {
            "made": datetime.date.today().isoformat(),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "runs": runs,
        }
        asked.save.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
