"""Coal-mining disasters: counts in bins, a Poisson rate that varies in time.

    stategp-experiments coal [--output experiments/results]

Draws the rate with its uncertainty, prints the NLPD on the ten given folds.
"""

import time
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import folds, studies


def model(likelihood="poisson") -> sg.GP:
    return sg.GP(sg.kernels.Matern52(), likelihood, sg.means.Constant())


def picture(data, posterior, path: Path) -> None:
    width = float(np.median(np.diff(data.x)))
    at = np.linspace(data.x[0] - 5, data.x[-1] + 5, 600)
    mean, variance = (np.asarray(v) for v in posterior.predict_f(at))
    plt = studies.plt
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    bins = 15
    starts = np.arange(0, len(data.x), bins)
    per_year = np.add.reduceat(data.y, starts) / (
        width * np.add.reduceat(np.ones(len(data.y)), starts)
    )
    edges = np.append(data.x[starts], data.x[-1] + width) - width / 2
    axis.stairs(per_year, edges, color="0.6", label=f"counted, {bins * width:.0f} years at a time")
    axis.plot(np.repeat(data.x, data.y.astype(int)), np.full(191, 0.1), "k|", ms=6, alpha=0.5)
    low, high = (np.exp(mean + sign * 2 * np.sqrt(variance)) / width for sign in (-1, 1))
    axis.fill_between(at, low, high, color="C0", alpha=0.3, lw=0, label="rate, ± 2 sd of its log")
    axis.plot(at, np.exp(mean) / width, color="C0")
    axis.set(xlabel="year", ylabel="disasters per year", ylim=(0, 6), xlim=(at[0], at[-1]))
    axis.legend(frameon=False, loc="upper right")
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__)
    output = parser.parse_args(arguments).output
    data = sg.data.coal()
    began = time.perf_counter()
    posterior = sg.fit(model(), data.x, data.y)
    print(posterior)
    print(f"{time.perf_counter() - began:.1f} s, compilation included")
    picture(data, posterior, output / "coal.png")
    numbers = {}
    for name in ["poisson", "negative_binomial"]:
        scores = folds.nlpd(model(name), data, inducing=64)
        folds.show(name, scores)
        numbers[name] = scores.tolist()
    studies.write(numbers, output / "coal.json")
