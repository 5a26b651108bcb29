"""Draw three samples from each kernel: python docs/figures/kernels.py"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import stategp as sg

OUTPUT = Path(__file__).parent.parent / "images" / "kernels.png"
SHOWN = (
    "matern12(2)",
    "matern32(2)",
    "matern52(2)",
    "squared_exponential(2)",
    "cosine(2.5)",
    "periodic(2.5)",
    "quasiperiodic(2.5, decay=5)",
    "harmonic(2.5, terms=3, lengthscale=20)",
    "oscillator(2.5, quality=4)",
    "matern52(4) + periodic(1, variance=0.2)",
    "matern52(4) * cosine(1)",
    "constant + matern12(0.1, variance=0.1)",
)
COLOURS = ("#0072B2", "#D55E00", "#009E73")


def draw_samples(kernel: sg.kernels.Kernel, x: np.ndarray, count: int = 3) -> np.ndarray:
    """From the prior, by the eigenvalues of its covariance matrix."""
    covariance = np.asarray(kernel.covariance(np.abs(x[:, None] - x[None, :])))
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(3).standard_normal((len(x), count))
    return vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * normal)


def main() -> None:
    x = np.linspace(0, 10, 500)
    figure = Figure(figsize=(10, 8.4), layout="constrained")
    grid = figure.subplots(4, 3, sharex=True)
    for axes, text in zip(grid.ravel(), SHOWN, strict=True):
        for path, colour in zip(draw_samples(sg.parse_kernel(text), x).T, COLOURS, strict=True):
            axes.plot(x, path, color=colour, lw=1.1)
        axes.set_title(text, loc="left", fontsize=9, family="monospace")
        axes.set(xlim=(0, 10), yticks=[0])
        axes.axhline(0, color="0.85", lw=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    figure.savefig(OUTPUT, dpi=110)


if __name__ == "__main__":
    main()
