"""A million rows of Parquet through the command line: seconds and peak memory.

    python -m benchmarks.command [--rows 1e6] [--folder DIR]

Simulated readings, one a minute at random moments: a trend, a daily season, noise. Each command
runs in a process of its own; the peak is the resident memory of that process.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet


def simulate(rows: int, path: Path) -> None:
    rng = np.random.default_rng(0)
    days = np.sort(rng.uniform(0, rows / 1440, rows))
    span = days[-1]
    y = 20 + 5 * np.sin(9 * days / span) + 3 * np.sin(2 * np.pi * days) + rng.normal(size=rows)
    times = np.datetime64("2024-01-01", "us") + (days * 86_400e6).astype("timedelta64[us]")
    pyarrow.parquet.write_table(pyarrow.table({"time": times, "y": y}), path)


def run(*arguments: str, cache: str | None = None) -> dict[str, float]:
    """Wall-clock seconds and peak resident memory of one command."""
    began = time.perf_counter()
    environment = os.environ if cache is None else os.environ | {"STATEGP_CACHE": cache}
    process = os.posix_spawn(
        sys.executable, [sys.executable, "-m", "stategp", *arguments], environment
    )
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - began
    if status:
        sys.exit(f"stategp {' '.join(arguments)} ended with status {status}")
    return {"seconds": round(seconds, 1), "peak MB": round(usage.ru_maxrss / 1024)}


def measure(rows: int, folder: Path, cache: str | None = None) -> dict[str, dict[str, float]]:
    """What each command takes, with the user's cache of compiled programs or another one."""
    data, model = folder / "readings.parquet", folder / "readings.stategp"
    simulate(rows, data)
    print(f"{rows:,} rows, {data.stat().st_size / 1e6:.1f} MB of Parquet", flush=True)
    commands = {
        "describe": ["describe", str(data)],
        "fit": ["fit", str(data), "-o", str(model)],
        "fit again": ["fit", str(data), "-o", str(model)],
        "forecast": ["forecast", str(model), "1d", "-o", str(folder / "next.parquet")],
        "report": ["report", str(model), "--horizon", "2d"],
    }
    found = {}
    for name, arguments in commands.items():
        found[name] = run(*arguments, cache=cache)
        print(name, json.dumps(found[name]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(int(given.rows), given.folder or Path(temporary))


if __name__ == "__main__":
    main()
