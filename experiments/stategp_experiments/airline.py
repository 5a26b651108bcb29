"""Airline delays (paper, section 4.3): an additive model of eight inputs.

    stategp-experiments airline [--sizes 10000 100000 1000000 all] [--repeats 3] [--minibatches]

Repeat i of size n: seed n + i, all rows permuted, the first n taken, 2/3 to train and 1/3 to test;
y standardised and every input scaled to [0, 1] on the training rows. Matérn-3/2 for each input,
all hyperparameters learned: with all data in every step (natural gradients and L-BFGS), or in
minibatches of 10,000 (natural gradients and Adam).
"""

import resource
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import stategp as sg
from stategp_experiments import figures

PAPER = {  # MSE, NLPD
    10_000: "VFF .89 / 1.36, Adam .96 / 1.40, Adam + natural gradients .90 / 1.36",
    100_000: "VFF .82 / 1.32, Adam .83 / 1.33, Adam + natural gradients .81 / 1.32",
    1_000_000: "VFF .83 / 1.336, Adam .81 / 1.316, Adam + natural gradients .82 / 1.321",
}
LARGEST = "(6 million) VFF .827 / 1.324, Adam .822 / 9.22, Adam + natural gradients .829 / 1.325"


def split(flights, count: int, repeat: int):
    """Training and test rows of one repeat, scaled on the training rows."""
    rows = np.random.default_rng(count + repeat).permutation(len(flights.y))[:count]
    x, y = flights.x[rows], flights.y[rows]
    train = 2 * count // 3
    low, high = x[:train].min(axis=0), x[:train].max(axis=0)
    x = (x - low) / np.where(high > low, high - low, 1.0)
    y = (y - y[:train].mean()) / y[:train].std()
    return x[:train], y[:train], x[train:], y[train:]


def run(flights, count: int, repeat: int, settings) -> tuple[dict, sg.AdditivePosterior]:
    x, y, x_test, y_test = split(flights, count, repeat)
    model = sg.AdditiveGP({name: sg.kernels.Matern32() for name in flights.names})
    began = time.perf_counter()
    with warnings.catch_warnings(record=True):
        posterior = sg.fit(model, x, y, **settings)
    seconds = time.perf_counter() - began
    mean, _ = posterior.predict_f(x_test)
    density = np.asarray(posterior.log_density(x_test, y_test))
    row = {
        "rows": count,
        "repeat": repeat,
        "settings": {name: str(value) for name, value in settings.items()},
        "mse": float(np.mean((np.asarray(mean) - y_test) ** 2)),
        "nlpd": -float(np.mean(density)),
        "bound": posterior.elbo,
        "seconds": seconds,
        "steps": posterior.fit_result.steps,
        "message": str(posterior.fit_result),
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }
    return row, posterior


def draw(posterior: sg.AdditivePosterior, path) -> None:
    """The effect of every input; variances account for correlated inputs at a few points."""
    figure, axes = plt.subplots(2, 4, figsize=(12, 5), layout="constrained", sharey=True)
    for axis, name in zip(axes.flat, posterior.model.names, strict=True):
        at = np.linspace(0, 1, 200)
        figures.band(axis, at, *posterior.components({name: at})[name])
        axis.set_title(name, fontsize=9)
    figure.supxlabel("input, scaled")
    figure.supylabel("effect, in standard deviations of the delay")
    figures.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = figures.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["10000", "100000", "1000000", "all"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--minibatches", action="store_true")
    options = parser.parse_args(arguments)
    flights = sg.data.airline()
    settings = {"max_steps": options.max_steps} if options.max_steps else {}
    if options.minibatches:
        settings["batch_size"] = 10_000
    rows = []
    for size in options.sizes:
        count = len(flights.y) if size == "all" else int(float(size))
        for repeat in range(options.repeats):
            row, posterior = run(flights, count, repeat, settings)
            rows.append(row)
            print(
                f"{count:>8} repeat {repeat}: MSE {row['mse']:.4f}, NLPD {row['nlpd']:.4f}, "
                f"{row['seconds']:.0f} s, {row['steps']} steps, peak {row['peak GB']:.1f} GB; "
                f"{row['message']}",
                flush=True,
            )
        own = [row for row in rows if row["rows"] == count]
        scores = [
            f"{np.mean([r[name] for r in own]):.3f} ± {np.std([r[name] for r in own]):.3f}"
            for name in ("mse", "nlpd")
        ]
        print(
            f"{count:>8}: MSE {scores[0]}, NLPD {scores[1]}; the paper: {PAPER.get(count, LARGEST)}"
        )
        kind = "minibatches" if options.minibatches else "all_data"
        figures.write(rows, figures.RESULTS / f"airline_{kind}.json")
        draw(posterior, figures.RESULTS / f"airline_{kind}.png")
