"""Solar irradiance (paper, section 4.1): exact GP, S²VGP and classic inducing points.

    stategp-experiments solar [--quick] [--output experiments/results]

Matérn-3/2, M inducing points on a regular grid: the paper's 60, and 120, 195 and 390. The paper's
text says Matérn-3/2, whose state has two entries, but also that S²VGP has three times as many
inducing variables as SVGP, which is so for Matérn-5/2: that is run with 60 too. Every method
learns all hyperparameters from the same two starts, and the better end is kept: for M = 60 the
bound of S²VGP has a second, lower optimum with a long lengthscale, where the solar cycle counts as
noise, and `fit` by itself ends there. Draws the paper's three panels for M = 60. The paper shows
pictures only; here are numbers too: how far each posterior is from the exact GP's, and its log
density of the five intervals removed.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import stategp as sg
from stategp._data import observe
from stategp._inference import starting_model
from stategp.data import Solar
from stategp_experiments import baselines, studies


class Run(NamedTuple):
    """One method, with hyperparameters learned."""

    kernel: str
    method: str
    inducing: int
    bound: float
    loss: float  # KL(q‖p(f | y)) = log p(y) − bound, hyperparameters as this method learned them
    marginal_kl: float  # KL(q(f(x))‖exact GP's), mean over a grid of x: hyperparameters count too
    mean_distance: float  # root mean square over the same grid
    nlpd: float  # on the removed intervals
    lengthscale: float
    noise: float
    seconds: float
    mean: np.ndarray
    variance: np.ndarray


class Learned(NamedTuple):
    """What each method returns: its model, bound, log p(y) under that model, and predictions."""

    model: sg.GP
    bound: float
    evidence: float
    predict: Callable


KERNELS = {"Matérn-3/2": sg.kernels.Matern32, "Matérn-5/2": sg.kernels.Matern52}
TEXT, CAPTION = KERNELS  # of which the paper's text speaks, and which its other words imply


def model(kernel: str = TEXT) -> sg.GP:
    return sg.GP(KERNELS[kernel](), sg.likelihoods.Gaussian())


def starts(data: Solar, kernel: str = TEXT) -> list[sg.GP]:
    """The values that `fit` takes from the data, and the same with a shorter lengthscale."""
    observed = observe(data.x_train, data.y_train)
    return [starting_model(model(kernel), observed, stretch) for stretch in (1.0, 0.25)]


def learn_dense(bound: Callable, begin: list[sg.GP]) -> tuple[sg.GP, float]:
    return max((baselines.learn(bound, start) for start in begin), key=lambda end: end[1])


def grid(data: Solar, count: int) -> np.ndarray:
    everything = np.concatenate([data.x_train, data.x_test])
    return np.linspace(everything.min(), everything.max(), count)


def exact(data: Solar, begin: list[sg.GP]) -> Learned:
    x, y = data.x_train, data.y_train
    learned, evidence = learn_dense(lambda m: baselines.exact(m, x, y, x[:1])[0], begin)
    return Learned(learned, evidence, evidence, lambda new: baselines.exact(learned, x, y, new)[1:])


def with_states(data: Solar, count: int, begin: list[sg.GP]) -> Learned:
    z = grid(data, count)
    ends = (
        sg.fit(start, data.x_train, data.y_train, inducing=z, progress=False) for start in begin
    )
    posterior = max(ends, key=lambda end: end.elbo)
    evidence = posterior.log_marginal_likelihood()
    return Learned(posterior.model, posterior.elbo, evidence, posterior.predict_f)


def with_values(data: Solar, count: int, begin: list[sg.GP], features=baselines.VALUES) -> Learned:
    x, y, z = data.x_train, data.y_train, grid(data, count)
    learned, bound = learn_dense(lambda m: baselines.collapsed(m, x, y, z, features)[0], begin)
    _, q = baselines.collapsed(learned, x, y, z, features)
    evidence = float(baselines.exact(learned, x, y, x[:1])[0])
    return Learned(
        learned, bound, evidence, lambda new: baselines.predict(q, learned, z, new, features)
    )


def study(data: Solar, counts: list[int], kernel: str = TEXT) -> list[Run]:
    """All methods at all numbers of inducing points; the exact GP first."""
    at, begin = grid(data, 1000), starts(data, kernel)
    runs: list[Run] = []

    def record(method, count, learn):
        began = time.perf_counter()
        learned = learn()
        seconds = time.perf_counter() - began
        noise = float(learned.model.likelihood.variance)
        mean, variance = (np.asarray(v) for v in learned.predict(at))
        held_mean, held_variance = (np.asarray(v) for v in learned.predict(data.x_test))
        reference = (runs[0].mean, runs[0].variance) if runs else (mean, variance)
        runs.append(
            Run(
                kernel=kernel,
                method=method,
                inducing=count,
                bound=learned.bound,
                loss=learned.evidence - learned.bound,
                marginal_kl=np.mean(gaussian_kl(mean, variance, *reference)),
                mean_distance=np.sqrt(np.mean((mean - reference[0]) ** 2)),
                nlpd=-np.mean(log_normal(data.y_test, held_mean, held_variance + noise)),
                lengthscale=float(learned.model.kernel.lengthscale),
                noise=noise,
                seconds=seconds,
                mean=mean,
                variance=variance,
            )
        )

    record("exact", len(data.x_train), lambda: exact(data, begin))
    for count in counts:
        record("S²VGP", count, lambda count=count: with_states(data, count, begin))
        record("SVGP", count, lambda count=count: with_values(data, count, begin))
    return runs


def gaussian_kl(mean, variance, mean_p, variance_p):
    """KL(N(mean, variance)‖N(mean_p, variance_p)), elementwise."""
    ratio = variance / variance_p
    return (ratio - 1 - np.log(ratio) + (mean - mean_p) ** 2 / variance_p) / 2


def log_normal(y, mean, variance):
    return -((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2


PAPER = {  # section 4.1 and its figure, for M = 60
    "S²VGP": "extremely similar to exact",
    "SVGP": "misses high frequencies",
}


def table(runs: list[Run]) -> str:
    heading = (
        "kernel      method   M      bound   KL(q‖p)   KL of f(x)   RMS of mean     NLPD"
        "   lengthscale     noise   seconds   paper"
    )
    rows = [
        f"{run.kernel:11} {run.method:6} {run.inducing:3d} {run.bound:10.3f} {run.loss:9.3f}"
        f" {run.marginal_kl:12.4f} {run.mean_distance:13.4f} {run.nlpd:8.3f}"
        f" {run.lengthscale:13.2f} {run.noise:9.4f} {run.seconds:9.2f}"
        f"   {PAPER.get(run.method, '') if run.inducing == 60 else ''}".rstrip()
        for run in runs
    ]
    return "\n".join([heading, *rows])


def picture(data: Solar, runs: list[Run]):
    """The paper's three panels, for the smallest number of inducing points."""
    fewest = min(run.inducing for run in runs[1:])
    chosen = [r for r in runs if r.inducing == fewest]
    chosen = [*sorted(chosen, key=lambda r: r.method != "SVGP"), runs[0]]
    figure, axes = studies.plt.subplots(
        3, 1, figsize=(9, 7.5), sharex=True, sharey=True, layout="constrained"
    )
    at, z = grid(data, 1000), grid(data, fewest)
    for axis, run, letter in zip(axes, chosen, "abc", strict=True):
        studies.band(axis, at, run.mean, run.variance, "C0", "mean ± 2 sd")
        axis.plot(data.x_train, data.y_train, "k.", ms=2.5, label="observed")
        axis.plot(data.x_test, data.y_test, "C1x", ms=3, mew=0.8, label="removed")
        title = "exact GP" if run is runs[0] else f"{run.method}, M = {run.inducing}"
        axis.set_title(f"({letter}) {title}", loc="left", fontsize=10)
        axis.set_ylabel("irradiance (standardised)")
        axis.set_xlim(at[0], at[-1])
        if run is not runs[0]:
            axis.plot(
                z, np.zeros_like(z), "|", color="C3", ms=9, mew=1.2, label="inducing locations",
                transform=axis.get_xaxis_transform(),
            )  # fmt: skip
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=4, loc="outside lower center", fontsize=9, frameon=False)
    axes[-1].set_xlabel("year")
    return figure


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="M = 60 only")
    options = parser.parse_args(arguments)
    counts, suffix = ([60], "_quick") if options.quick else ([60, 120, 195, 390], "")
    data = sg.data.solar()
    runs = study(data, counts)
    other = study(data, counts[:1], CAPTION)
    print(table([*runs, *other]))
    print("KL(q‖p): log p(y) − bound under the method's own hyperparameters; KL of f(x) and RMS")
    print("of mean: from the exact GP, on a grid. S²VGP's bound must be that of its dense twin:")
    for count in counts:
        twin = with_values(data, count, starts(data), baselines.VALUES_AND_SLOPES).bound
        ours = next(r.bound for r in runs if (r.method, r.inducing) == ("S²VGP", count))
        print(f"  M = {count}: learned bound minus the dense twin's {ours - twin:+.1e}")
    studies.save(picture(data, runs), options.output / f"solar{suffix}.png")
    left_out = {"mean", "variance"}
    numbers = [{k: v for k, v in r._asdict().items() if k not in left_out} for r in [*runs, *other]]
    studies.write(numbers, options.output / f"solar{suffix}.json")
