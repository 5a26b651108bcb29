"""Why Adam can end with the right mean and a hopeless NLPD: the noise variance it starts from.

Per row, the slope of the bound in the log of the noise variance s is r²/2s - 1/2. Above the right s
it is never more than 1/2, below it has no limit. Adam divides by a root mean square of slopes whose
memory is about a thousand steps: after a start far below, its steps stay small long after the slope
has fallen. The mean hardly depends on s, so the MSE looks finished while the NLPD is near MSE/2s.
L-BFGS with all rows takes the same start to the optimum.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from stategp_experiments import studies
from stategp_experiments.airline_methods import with_adam, with_all_rows

STARTS = (1.0, 0.1, 0.01, 0.001)
STEPS = (50, 100, 200, 400, 800, 1500)


def scores(mean, variance, noise: float, y) -> dict:
    total, errors = variance + noise, (y - mean) ** 2
    costs = (errors / total + np.log(2 * np.pi * total)) / 2
    return {"mse": float(errors.mean()), "nlpd": float(costs.mean()), "worst": float(costs.max())}


def study(names, x, y, x_test, y_test, *, steps) -> list[dict]:
    """Adam from each start with so many steps, and all rows at once from the lowest."""
    rows = [
        one_start(names, x, y, x_test, y_test, start=start, steps=number)
        for start in STARTS
        for number in steps
    ]
    return [*rows, all_rows(names, x, y, x_test, y_test)]


def one_start(names, x, y, x_test, y_test, *, start: float, steps: int) -> dict:
    """Adam from one start. Runs with fewer steps are the first part of those with more."""
    found = with_adam(names, x, y, x_test, steps, noise=start)
    row = {"method": "Adam", "start": start, "steps": found.steps, "noise": found.noise}
    return row | scores(found.mean, found.variance, found.noise, y_test)


def all_rows(names, x, y, x_test, y_test) -> dict:
    """L-BFGS from the lowest start."""
    found = with_all_rows(names, x, y, x_test, 500, noise=STARTS[-1])
    row = {"method": "all rows", "start": STARTS[-1], "steps": found.steps, "noise": found.noise}
    return row | scores(found.mean, found.variance, found.noise, y_test)


def table(rows: list[dict]) -> str:
    last = {(row["method"], row["start"]): row for row in rows}
    return "\n".join(
        [
            "noise: start  method    steps  learned     MSE    NLPD",
            *(
                f"{start:12} {method:9} {row['steps']:6} {row['noise']:8.4f}"
                f" {row['mse']:7.4f} {row['nlpd']:7.3f}"
                for (method, start), row in last.items()
            ),
        ]
    )


def picture(rows: list[dict], path: Path) -> None:
    names = {"noise": "noise variance", "mse": "MSE", "nlpd": "NLPD"}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axis, (score, label) in zip(axes, names.items(), strict=True):
        for number, start in enumerate(STARTS):
            own = [row for row in rows if (row["method"], row["start"]) == ("Adam", start)]
            color = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")[number]
            steps, values = [r["steps"] for r in own], [r[score] for r in own]
            axis.plot(steps, values, ".-", color=color, label=f"Adam from noise {start}")
        axis.axhline(
            rows[-1][score], color="k", ls="--", lw=1, label=f"all rows, from {STARTS[-1]}"
        )
        axis.set(xlabel="steps", ylabel=label, yscale="linear" if score == "mse" else "log")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=5, loc="outside lower center", frameon=False, fontsize=9)
    studies.save(figure, path)
