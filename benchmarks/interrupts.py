"""Ctrl-C at every moment: `python -m benchmarks.interrupts` (minutes).

Sends SIGINT to `stategp fit` (or, with --script, to a script that fits) some seconds after learning
began, with an empty cache so that most of the time is compilation, and says how each ended.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_SCRIPT = """
import sys, pandas as pd, stategp as sg
sg.Forecaster(likelihood="student-t").fit(pd.read_csv(sys.argv[1]))
"""


def write_series(path: Path, count: int = 2000) -> None:
    rng = np.random.default_rng(0)
    t = np.arange(count)
    y = np.sin(t / 40) + np.cos(2 * np.pi * t / 7) + 0.3 * rng.standard_normal(count)
    days = np.datetime64("2020-01-01") + t
    path.write_text("ds,y\n" + "".join(f"{d},{v:.6f}\n" for d, v in zip(days, y, strict=True)))


def interrupted_after(seconds: float, script: bool) -> tuple[int, str, bool]:
    """Exit code, the last line on standard error, and whether a model was written."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "series.csv"), Path(folder, "series.stategp")
        write_series(data)
        command = [sys.executable, "-c", "from stategp_launcher import main; main()"]
        command += ["fit", str(data), "-l", "student-t"]
        process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(data)] if script else command,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"STATEGP_CACHE": str(Path(folder, "cache"))},
        )  # fmt: skip
        begun = process.stderr.readline()  # "kernel from the data: …"
        assert begun.startswith("kernel"), begun
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        return process.returncode, (errors.splitlines() or [""])[-1][:90], model.exists()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--script", action="store_true")
    moments = [0, 0.5, 1, 2, 3, 5, 7, 10, 15, 20]
    parser.add_argument("--seconds", type=float, nargs="+", default=moments)
    arguments = parser.parse_args()
    crashes = 0
    for seconds in arguments.seconds:
        code, line, written = interrupted_after(seconds, arguments.script)
        # A script that Ctrl-C ends has the signal itself as its exit status.
        crashes += code not in (0, 130, -signal.SIGINT)
        print(f"{seconds:5.1f} s  exit {code:4d}  model {written!s:5}  {line}", flush=True)
    print(f"{crashes} of {len(arguments.seconds)} ended in a crash")
    sys.exit(bool(crashes))


if __name__ == "__main__":
    main()
