"""What the pictures share: a canvas without a screen, and files that are whole or absent."""

import json
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path("experiments/results")


def save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"picture: {path}")


def write(numbers, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(numbers, indent=1))


def band(axis, x, mean, variance, color="C0", label=None) -> None:
    """Mean and two standard deviations either way."""
    deviation = 2 * np.sqrt(np.asarray(variance))
    axis.fill_between(x, mean - deviation, mean + deviation, color=color, alpha=0.25, lw=0)
    axis.plot(x, mean, color=color, lw=1.5, label=label)
