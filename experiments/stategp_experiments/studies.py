"""What the studies share: their options, pictures without a screen, numbers with their origin."""

import argparse
import datetime
import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import jax
import matplotlib
import numpy as np

import stategp
from stategp._runtime import replacing

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path("experiments/results")


def parser(documentation: str, quick: str = "", output: bool = True) -> argparse.ArgumentParser:
    """Options: --output if anything is written, and --quick where `quick` says what that does."""
    name = documentation.split("stategp-experiments ")[1].split()[0]
    options = argparse.ArgumentParser(
        prog=f"stategp-experiments {name}",
        description=documentation,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if quick:
        options.add_argument("--quick", action="store_true", help=quick)
    if output:
        options.add_argument("--output", type=Path, default=RESULTS, help="folder (%(default)s)")
    return options


def save(figure, path: Path) -> None:
    """The picture as PNG and as PDF beside it; a killed run leaves no half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".png", ".pdf"):
        with replacing(path.with_suffix(suffix)) as file:
            figure.savefig(file, dpi=130, format=suffix[1:])
    plt.close(figure)
    print(f"picture: {path.with_suffix('.png')} and .pdf", flush=True)


def write(numbers, path: Path, about: dict | None = None) -> None:
    """Numbers as JSON, with the date, the commit, the machine and the versions they came from.

    `about` says so instead for numbers that come from elsewhere.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = about or {"date": f"{datetime.datetime.now():%Y-%m-%d %H:%M}"} | machine()
    text = json.dumps(whole | {"results": numbers}, indent=1, default=_plain)
    with replacing(path) as file:
        file.write(text.encode())
    print(f"numbers: {path}", flush=True)


def collect(folder: Path) -> tuple[list[dict], dict]:
    """The numbers that several runs wrote into a folder, and what they came from."""
    rows, about = [], {}
    for path in sorted(folder.glob("*.json")):
        whole = json.loads(path.read_text())
        rows += whole.pop("results")
        about = whole
    if not rows:
        raise ValueError(f"no results of runs (*.json) in {folder}")
    return rows, about


def commit() -> str:
    """Of the code that runs; what is not committed is named."""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        here = Path(__file__).parent
        done = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # a machine without git
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine() -> dict:
    others = {name: version(name) for name in ("jax", "numpy", "scipy")}
    return {
        "commit": commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {"stategp": stategp.__version__} | others,
        "devices": [str(device.device_kind) for device in jax.devices()],
    }


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _plain(value):
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        return np.asarray(value).tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


def band(axis, x, mean, variance, color="C0", label=None) -> None:
    """Mean and two standard deviations either way."""
    deviation = 2 * np.sqrt(np.asarray(variance))
    axis.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.25, lw=0)
    axis.plot(x, mean, color=color, lw=1.5, label=label)
