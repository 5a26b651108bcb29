"""Trees in a rainforest: counts on a grid, one side taken as time and the other as space.

    stategp-experiments rainforest [--columns 20 50] [--folds 10] [--places 25] [--quick]
        [--q joint] [--output experiments/results]

Counts of one species in a grid of 200 cells along 1000 m and so many along 500 m; Poisson,
Matérn-3/2 in both directions, hyperparameters learned from variance 1 and lengthscales of 10 m.
Prints the NLPD of the cells left out and the seconds that a step of q takes, draws the intensity.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import studies


def model(places, q: str) -> sg.SpaceTimeGP:
    return sg.SpaceTimeGP(
        sg.spatial.Matern32(lengthscale=10.0),
        sg.kernels.Matern32(variance=1.0, lengthscale=10.0),
        "poisson",
        places=places,
        q=q,
    )


def anchors(columns: int, most: int) -> np.ndarray:
    """The middles of the cells along the short side, or fewer at equal distances."""
    count = min(columns, most)
    return (np.arange(count) + 0.5) * 500 / count


def seconds_per_step(fitted: sg.SpaceTimePosterior, x, y) -> float:
    """Of the natural gradient, from two runs of different lengths."""
    took = []
    for steps in (1, 1, 5):  # the first compiles
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            sg.condition(fitted.model, x, y, max_steps=steps)
        took.append(time.perf_counter() - began)
    return (took[2] - took[1]) / 4


def study(columns: int, options: argparse.Namespace) -> tuple[dict, sg.SpaceTimePosterior]:
    data = sg.data.rainforest(columns, rows=options.rows)
    shape = model(anchors(columns, options.places), options.q)
    scores, steps = [], []
    for fold in data.folds[: options.folds]:
        keep = np.setdiff1d(np.arange(len(data.y)), fold)
        fitted = sg.fit(shape, data.x[keep], data.y[keep])
        density = np.asarray(fitted.log_density(data.x[fold], data.y[fold]))
        scores.append(-float(density.mean()))
        steps.append(seconds_per_step(fitted, data.x[keep], data.y[keep]))
        print(f"  {columns} columns, fold {len(scores)}: NLPD {scores[-1]:.4f}", flush=True)
    kernels = fitted.model
    numbers = {
        "rows": options.rows,
        "columns": columns,
        "places": len(fitted.inducing_places),
        "q": options.q,
        "folds": len(scores),
        "nlpd": scores,
        "seconds per step": steps,
        "explained": fitted.explained,
        "lengthscale in space": float(kernels.space.lengthscale),
        "lengthscale in time": float(kernels.time.lengthscale),
        "variance": float(kernels.time.variance),
    }
    return numbers, fitted


def picture(columns: int, fitted: sg.SpaceTimePosterior, path: Path) -> None:
    data = sg.data.rainforest(columns, rows=fitted.states)
    along, across = np.linspace(2.5, 997.5, 200), np.linspace(2.5, 497.5, 100)
    seen = fitted.map(along, across)
    figure, axes = studies.plt.subplots(3, 1, figsize=(8, 9.5), layout="constrained")
    cell = 1000 / data.shape[0] * 500 / data.shape[1]
    intensity = np.exp(seen.mean + seen.sd**2 / 2) / cell * 1e4
    counted = data.y.reshape(data.shape) / cell * 1e4
    titles = ["counted", "intensity", "standard deviation of its logarithm"]
    for axis, image, title in zip(axes, [counted, intensity, seen.sd], titles, strict=True):
        most = np.quantile(image, 0.995)
        drawn = axis.imshow(
            image.T, origin="lower", extent=(0, 1000, 0, 500), vmin=0 if image is not seen.sd
            else None, vmax=most, cmap="magma" if image is seen.sd else "viridis",
            interpolation="nearest",
        )  # fmt: skip
        figure.colorbar(drawn, ax=axis, label="" if image is seen.sd else "trees per hectare")
        axis.set_title(title, loc="left")
        axis.set_ylabel("m")
    axes[-1].set_xlabel("m")
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="a grid of 12 × 5 cells, one fold")
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 50], help="%(default)s")
    parser.add_argument("--rows", type=int, default=200, help="%(default)s")
    parser.add_argument("--folds", type=int, default=10, help="how many of ten (%(default)s)")
    parser.add_argument("--places", type=int, default=25, help="at most (%(default)s)")
    parser.add_argument("--q", choices=["joint", "product"], default="joint")
    options = parser.parse_args(arguments)
    if options.quick:
        options.columns, options.rows, options.folds, options.places = [5], 12, 1, 3
    print("columns  places  NLPD            seconds per step")
    results = []
    for columns in options.columns:
        numbers, fitted = study(columns, options)
        results.append(numbers)
        scores, steps = np.asarray(numbers["nlpd"]), np.asarray(numbers["seconds per step"])
        print(
            f"{columns:7d} {numbers['places']:7d}  {scores.mean():.4f} ± {scores.std():.4f} "
            f"{steps.mean():9.3f}",
            flush=True,
        )
        picture(columns, fitted, options.output / f"rainforest-{columns}.png")
        studies.write(results, options.output / "rainforest.json")
