"""Draw the three outputs of docs/outputs.md: python docs/figures/outputs.py"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import stategp as sg

OUTPUT = Path(__file__).parent.parent / "images" / "outputs.png"
NAMES = ("north", "coast", "south")
COLOURS = ("#009E73", "#CC79A7", "#E69F00")


def readings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hours, what three stations measured, and what there was to measure."""
    rng = np.random.default_rng(0)
    hours = np.arange(0, 96, 1.5)
    weather, day = np.sin(hours / 11) + 0.5 * np.cos(hours / 5), np.sin(2 * np.pi * hours / 24)
    truth = 15 + np.stack([3 * weather + 2 * day, 2 * weather + 0.5 * day, 3 * weather + 4 * day])
    measured = truth.T + 0.4 * rng.standard_normal((len(hours), 3))
    measured[24:44, 0] = np.nan  # north was out of order for 30 hours
    return hours, measured, truth.T


def main() -> None:
    hours, measured, truth = readings()
    kernels = [sg.kernels.Matern52(), sg.kernels.Matern52()]
    shared = sg.MultiOutputGP(kernels, mixing="learned", outputs=NAMES)
    alone = sg.MultiOutputGP(sg.kernels.Matern52(), outputs=NAMES)
    x = np.linspace(0, 96, 400)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    grid = figure.subplots(3, 2, sharex=True, sharey="row")
    titles = ("each on its own", "mixtures of two processes")
    for column, (title, model) in enumerate(zip(titles, (alone, shared), strict=True)):
        posterior = sg.fit(model, hours, measured)
        mean, variance = (np.asarray(v) for v in posterior.predict_f(x))
        away = 1.96 * np.sqrt(variance)
        for row, (name, colour) in enumerate(zip(NAMES, COLOURS, strict=True)):
            axes = grid[row, column]
            low, high = mean[:, row] - away[:, row], mean[:, row] + away[:, row]
            axes.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)
            axes.plot(x, mean[:, row], color=colour, lw=1.6)
            axes.plot(hours, truth[:, row], color="0.4", lw=0.8, ls="--")
            axes.plot(hours, measured[:, row], ".", color="0.3", ms=4)
            axes.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axes.set_ylabel(name)
            if row == 0:
                axes.set_title(title, loc="left", fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("hours")
    figure.savefig(OUTPUT, dpi=110)


if __name__ == "__main__":
    main()
