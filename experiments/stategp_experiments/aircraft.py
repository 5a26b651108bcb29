"""Aircraft accidents 1919–2017: 35,959 daily counts, hyperparameters learned.

    stategp-experiments aircraft [--output experiments/results]

A trend, the year and the week add up to the log rate. Draws the rate over the century and the two
cycles.
"""

import time
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import studies


def model() -> sg.GP:
    kernel = sg.kernels.Sum(
        trend=sg.kernels.Matern52(),
        year=sg.kernels.Cosine(variance=0.1, period=sg.fixed(365.25)),
        week=sg.kernels.Cosine(variance=0.1, period=sg.fixed(7.0)),
    )
    return sg.GP(kernel, "poisson", sg.means.Constant())


def picture(data, posterior: sg.Posterior, path: Path) -> None:
    plt = studies.plt
    figure, axes = plt.subplots(
        1, 3, figsize=(12, 3.6), width_ratios=[2.2, 1, 1], layout="constrained"
    )
    at = np.linspace(data.x[0], data.x[-1], 2000)
    years = data.first.astype("datetime64[Y]").astype(int) + 1970 + at / 365.25 + 0.55
    parts = posterior.components(at)
    base = float(posterior.model.mean.value)
    mean, deviation = np.asarray(parts["trend"][0]) + base, np.sqrt(np.asarray(parts["trend"][1]))
    yearly = 365.25 * np.exp(mean)
    axes[0].fill_between(
        years, yearly * np.exp(-2 * deviation), yearly * np.exp(2 * deviation), alpha=0.3, lw=0
    )
    axes[0].plot(years, yearly)
    whole_years = data.y[: len(data.y) // 365 * 365]
    counted = whole_years.reshape(-1, 365).sum(axis=1)
    axes[0].plot(years[0] + np.arange(len(counted)) + 0.5, counted, "k.", ms=3, label="counted")
    axes[0].set(xlabel="year", ylabel="accidents per year", title="trend")
    axes[0].legend(frameon=False)
    # The last day is Sunday, 31 December 2017: the cycles that end there begin as labelled.
    cycles = [(axes[1], "year", 365.25, "1 January"), (axes[2], "week", 7.0, "Sunday")]
    for axis, name, period, first in cycles:
        inside = data.x[-1] - period + np.linspace(0, period, 200)
        moments = posterior.components(inside)[name]
        studies.band(axis, np.linspace(0, period, 200), *(np.asarray(v) for v in moments))
        axis.set(title=f"cycle of the {name}", xlabel=f"days from {first}", ylabel="log rate")
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__)
    output = parser.parse_args(arguments).output
    data = sg.data.aircraft()
    print(f"{len(data.y)} days, {int(data.y.sum())} accidents")
    began = time.perf_counter()
    posterior = sg.fit(model(), data.x, data.y)
    seconds = time.perf_counter() - began
    print(posterior)
    print(f"{seconds:.1f} s, compilation included")
    picture(data, posterior, output / "aircraft.png")
