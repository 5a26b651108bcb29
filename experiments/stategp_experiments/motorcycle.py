"""Motorcycle crash: a mean and a noise level that both vary in time.

    stategp-experiments motorcycle [--output experiments/results]

x and y are standardised, as in published comparisons. Draws mean and noise, prints the NLPD on
the ten given folds beside those of constant noise and of heavy tails.
"""

import time
from pathlib import Path

import numpy as np

import stategp as sg
from stategp.data import Folds
from stategp_experiments import folds, studies


def standardised() -> Folds:
    data = sg.data.motorcycle()
    x, y = ((v - v.mean()) / v.std() for v in (data.x, data.y))
    return Folds(x, y, data.folds)


def model(likelihood) -> sg.GP:
    return sg.GP(sg.kernels.Matern32(), likelihood)


def picture(data: Folds, posterior: sg.Posterior, path: Path) -> None:
    at = np.linspace(data.x[0] - 0.2, data.x[-1] + 0.2, 500)
    f_mean, f_variance = (np.asarray(v) for v in posterior.predict_f(at))
    y_mean, y_variance = (np.asarray(v) for v in posterior.predict_y(at))
    plt = studies.plt
    figure, axes = plt.subplots(
        2, 1, figsize=(9, 6), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    spread = 2 * np.sqrt(y_variance)
    axes[0].fill_between(
        at, y_mean - spread, y_mean + spread, color="C1", alpha=0.2, lw=0, label="observations"
    )
    studies.band(axes[0], at, f_mean[:, 0], f_variance[:, 0], label="mean function")
    axes[0].plot(data.x, data.y, "k.", ms=4)
    axes[0].set_ylabel("acceleration (standardised)")
    axes[0].legend(frameon=False, loc="upper left", title="mean ± 2 sd")
    centre, deviation = f_mean[:, 1], 2 * np.sqrt(f_variance[:, 1])
    axes[1].fill_between(
        at,
        np.exp((centre - deviation) / 2),
        np.exp((centre + deviation) / 2),
        color="C3",
        alpha=0.25,
        lw=0,
    )
    axes[1].plot(at, np.exp(centre / 2), color="C3")
    axes[1].set(ylabel="noise sd", xlabel="time (standardised)", yscale="log", xlim=(at[0], at[-1]))
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__)
    output = parser.parse_args(arguments).output
    data = standardised()
    began = time.perf_counter()
    posterior = sg.fit(model("heteroscedastic"), data.x, data.y)
    print(posterior)
    print(f"{time.perf_counter() - began:.1f} s, compilation included")
    picture(data, posterior, output / "motorcycle.png")
    numbers = {}
    for name in ["heteroscedastic", "gaussian", "student_t"]:
        scores = folds.nlpd(model(name), data, inducing=40)
        folds.show(name, scores)
        numbers[name] = scores.tolist()
    studies.write(numbers, output / "motorcycle.json")
