"""Solar irradiance (paper, section 4.1): exact GP, S²VGP and classic inducing points.

    stategp-experiments solar [--inducing 60 120 195 390] [--output experiments/results]

Matérn-3/2, hyperparameters learned for every method from the same start, inducing points on a
regular grid. Prints the table, writes it as JSON, and draws the paper's three panels.
"""

import time
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import stategp as sg
from stategp.data import Solar, observe
from stategp.inference import starting_model
from stategp.parameters import to_vector
from stategp_experiments import baselines, figures


class Run(NamedTuple):
    """One method, with hyperparameters learned."""

    method: str
    inducing: int
    bound: float
    distance: float  # root mean square distance of the mean from the exact one's, on a grid
    nlpd: float  # on the removed intervals
    seconds: float
    mean: np.ndarray
    variance: np.ndarray


def model() -> sg.GP:
    return sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())


def start(data: Solar) -> np.ndarray:
    """The starting values that `fit` takes from the data, as logarithms."""
    return np.asarray(to_vector(starting_model(model(), observe(data.x_train, data.y_train))))


def grid(data: Solar, count: int) -> np.ndarray:
    everything = np.concatenate([data.x_train, data.x_test])
    return np.linspace(everything.min(), everything.max(), count)


def study(data: Solar, counts: list[int]) -> list[Run]:
    """All methods at all numbers of inducing points; the exact GP first."""
    at = grid(data, 1000)
    runs: list[Run] = []

    def record(method, count, bound, predict, noise, seconds):
        mean, variance = (np.asarray(v) for v in predict(at))
        held_mean, held_variance = (np.asarray(v) for v in predict(data.x_test))
        total = held_variance + noise
        nlpd = np.mean((data.y_test - held_mean) ** 2 / total + np.log(2 * np.pi * total)) / 2
        reference = runs[0].mean if runs else mean
        distance = np.sqrt(np.mean((mean - reference) ** 2))
        runs.append(Run(method, count, bound, distance, nlpd, seconds, mean, variance))

    for count in [None, *counts]:
        began = time.perf_counter()
        inducing = "data" if count is None else grid(data, count)
        posterior = sg.fit(model(), data.x_train, data.y_train, inducing=inducing)
        seconds = time.perf_counter() - began
        noise = float(posterior.model.likelihood.variance)
        name = "exact" if count is None else "S²VGP"
        record(
            name, count or len(data.x_train), posterior.elbo, posterior.predict_f, noise, seconds
        )
    for count in counts:
        began = time.perf_counter()
        found, bound = learn_dense(data, count, slopes=False)
        seconds = time.perf_counter() - began

        def predict(x_new, found=found, count=count):
            _, mean, variance = dense(found, data, count, x_new, slopes=False)
            return mean, variance

        record("inducing points", count, bound, predict, np.exp(found[2]), seconds)
    return runs


def dense(parameters, data: Solar, count: int, x_new, slopes: bool) -> baselines.Sparse:
    origin = data.x_train.min()
    x, z, new = (jnp.asarray(v - origin) for v in (data.x_train, grid(data, count), x_new))
    return baselines.sparse(
        jnp.asarray(parameters), x, jnp.asarray(data.y_train), z, new, slopes=slopes
    )


def learn_dense(data: Solar, count: int, slopes: bool) -> tuple[np.ndarray, float]:
    """Hyperparameters of a dense baseline, from the same start as everything else."""
    return baselines.learn(
        lambda v: dense(v, data, count, data.x_train[:1], slopes).bound, start(data)
    )


def table(runs: list[Run]) -> str:
    lines = [
        "method           M      bound   distance of mean   NLPD (held out)   seconds",
        *(
            f"{run.method:15} {run.inducing:4d} {run.bound:10.3f} {run.distance:18.4f}"
            f" {run.nlpd:17.3f} {run.seconds:9.2f}"
            for run in runs
        ),
    ]
    return "\n".join(lines)


def picture(data: Solar, runs: list[Run], path: Path) -> None:
    """The paper's three panels, for the smallest number of inducing points."""
    plt = figures.plt
    exact = runs[0]
    fewest = min(run.inducing for run in runs[1:])
    chosen = [
        next(r for r in runs if r.method == "inducing points" and r.inducing == fewest),
        next(r for r in runs if r.method == "S²VGP" and r.inducing == fewest),
        exact,
    ]
    figure, axes = plt.subplots(
        3, 1, figsize=(9, 7), sharex=True, sharey=True, layout="constrained"
    )
    at = grid(data, 1000)
    for axis, run, letter in zip(axes, chosen, "abc", strict=True):
        deviation = np.sqrt(run.variance)
        axis.fill_between(
            at, run.mean - 2 * deviation, run.mean + 2 * deviation, color="C0", alpha=0.25, lw=0
        )
        axis.plot(at, run.mean, color="C0", lw=1.2, label="mean ± 2 sd")
        axis.plot(data.x_train, data.y_train, "k.", ms=2.5, label="observed")
        axis.plot(data.x_test, data.y_test, "C3.", ms=2.5, label="held out")
        if run is not exact:
            z = grid(data, fewest)
            axis.plot(z, np.full_like(z, -3.3), "|", color="0.4", ms=5, label="inducing locations")
        count = "" if run is exact else f", M = {run.inducing}"
        axis.set_title(f"({letter}) {run.method}{count}", loc="left", fontsize=10)
        axis.set_ylabel("irradiance (standardised)")
        axis.set_xlim(at[0], at[-1])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, loc="outside lower center", fontsize=9, frameon=False)
    axes[-1].set_xlabel("year")
    figures.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = figures.parser(__doc__)
    parser.add_argument("--inducing", type=int, nargs="+", default=[60, 120, 195, 390])
    options = parser.parse_args(arguments)
    data = sg.data.solar()
    runs = study(data, options.inducing)
    print(table(runs))
    for count in options.inducing:
        _, reached = learn_dense(data, count, slopes=True)
        ours = next(r.bound for r in runs if r.method == "S²VGP" and r.inducing == count)
        print(f"M = {count}: learned bound minus the dense twin's: {ours - reached:+.2e}")
    picture(data, runs, options.output / "solar.png")
    numbers = [run._asdict() | {"mean": None, "variance": None} for run in runs]
    figures.write(numbers, options.output / "solar.json")
