"""Classification (paper, appendix): S²VGP against Laplace, EP and VB on the same chain.

    stategp-experiments classification [--datasets 20] [--labels sign drawn] [--quick]

x uniform on [0, 7], y = sign(6 sin(πx)/(πx + 1) + 0.05 ε), N = 5,000 to train and 1,000 to test,
Matérn-3/2 with variance 1 and lengthscale 1, both fixed. S²VGP has 50 inducing points on a grid;
the others have a state at every observation, as in the paper; VB is the quadratic bound on the
logistic function. The paper does not give its hyperparameters, on which NLPD depends: labels that
are the sign of a function can be predicted far better than its 0.586. `drawn` draws labels with
probability σ(6 sin(πx)/(πx + 1)) instead, the model that all methods assume; then 0.586 cannot be
reached. What can be compared is how the methods differ. L-BFGS is stopped after 300 steps; the log
evidence says how far it came. Times are those of `sg.condition`, with programs compiled before; the
paper's are of other programs on another machine.
"""

import itertools
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit, ndtr

import stategp as sg
from stategp_experiments import studies

MODEL = sg.GP(sg.kernels.Matern32(variance=1.0, lengthscale=1.0), "bernoulli")
GRID = np.linspace(0, 7, 50)
METHODS = {
    "S²VGP (M = 50)": {"inducing": GRID, "method": "natural"},
    "S²VGP (M = 50, L-BFGS)": {"inducing": GRID, "method": "gradient", "max_steps": 300},
    "S²VGP (M = N)": {"inducing": "data", "method": "natural"},
    "Laplace": {"inducing": "data", "method": "laplace"},
    "EP": {"inducing": "data", "method": "ep"},
    "VB": {"inducing": "data", "method": "vb"},
}
PAPER = {  # NLPD and seconds
    "S²VGP (M = 50, L-BFGS)": "0.586 ± 0.013    3.38 ± 0.98",
    "Laplace": "0.586 ± 0.013    7.55 ± 0.15",
    "EP": "0.586 ± 0.013   10.59 ± 0.01",
    "VB": "0.587 ± 0.013   39.53 ± 0.06",
}


class Run(NamedTuple):
    """One method on one data set."""

    labels: str
    method: str
    seed: int
    nlpd: float  # of the test labels
    evidence: float  # the bound, or the approximation of the log evidence
    seconds: float
    first: float | None  # seconds with compilation, of the first data set


def truth(x: np.ndarray) -> np.ndarray:
    return 6 * np.sin(np.pi * x) / (np.pi * x + 1)


def simulate(seed: int, count: int, labels: str = "sign") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 7, count)
    if labels == "drawn":
        return x, (rng.uniform(size=count) < 1 / (1 + np.exp(-truth(x)))).astype(float)
    return x, (truth(x) + 0.05 * rng.standard_normal(count) > 0).astype(float)


def study(
    size: int, labels: list[str], datasets: int, methods: dict = METHODS, done=lambda runs: None
) -> list[Run]:
    """Every method on every data set; `done` is called with the runs after each data set."""
    runs: list[Run] = []
    compiled: set[str] = set()
    for kind, seed in itertools.product(labels, range(datasets)):
        x, y = simulate(seed, size + size // 5, kind)
        for name, settings in methods.items():
            first = None
            if name not in compiled:
                first = _condition(x[:size], y[:size], settings)[1]
                compiled.add(name)
            posterior, seconds = _condition(x[:size], y[:size], settings)
            nlpd = -float(np.mean(posterior.log_density(x[size:], y[size:])))
            runs.append(Run(kind, name, seed, nlpd, float(posterior.elbo), seconds, first))
        line = ", ".join(f"{r.method} {r.seconds:.2f} s" for r in runs[-len(methods) :])
        print(f"labels {kind}, data set {seed}: {line}", flush=True)
        done(runs)
    return runs


def _condition(x: np.ndarray, y: np.ndarray, settings: dict) -> tuple[sg.Posterior, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)  # L-BFGS, by its limit of steps
        posterior = sg.condition(MODEL, x, y, **settings)
    return posterior, time.perf_counter() - began


def table(runs: list[Run]) -> str:
    lines = []
    for kind in dict.fromkeys(run.labels for run in runs):
        seeds = {run.seed for run in runs if run.labels == kind}
        lines += [
            f"labels {kind}, {len(seeds)} data sets"
            f" (best possible NLPD {best_nlpd(kind):.3f}: the labels' own probabilities)",
            f"{'method':24}{'NLPD':>15}{'log evidence':>15}{'seconds':>16}"
            "    paper: NLPD     seconds",
        ]
        for name in dict.fromkeys(run.method for run in runs):
            mine = [run for run in runs if (run.labels, run.method) == (kind, name)]
            nlpd, seconds = (np.array([getattr(r, n) for r in mine]) for n in ("nlpd", "seconds"))
            evidence = np.mean([run.evidence for run in mine])
            lines.append(
                f"{name:24}{nlpd.mean():7.4f} ± {nlpd.std():.3f}{evidence:14.2f}"
                f"{seconds.mean():9.3f} ± {seconds.std():.3f}    {PAPER.get(name, ''):29}".rstrip()
            )
        lines.append("")
    return "\n".join(lines)


def best_nlpd(labels: str) -> float:
    """The entropy of a label whose probability is known, averaged over x."""
    f = truth(np.linspace(0, 7, 100_001))
    one = expit(f) if labels == "drawn" else ndtr(f / 0.05)
    return float(np.mean(entr(one) + entr(1 - one)))


def picture(size: int, labels: list[str], path: Path) -> None:
    """Labels, the function behind them and the posterior, one panel for each kind of labels."""
    figure, axes = studies.plt.subplots(
        len(labels), 1, figsize=(9, 3.4 * len(labels)), sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    at = np.linspace(-0.5, 7.5, 800)
    for axis, kind in zip(axes[:, 0], labels, strict=True):
        x, y = (values[:size] for values in simulate(0, size + size // 5, kind))
        posterior, _ = _condition(x, y, {"inducing": GRID})
        x, y = x[:800], y[:800]
        jitter = np.random.default_rng(0).normal(0, 0.12, len(x))
        axis.plot(x, 10 * y - 5 + jitter, "k.", ms=2, alpha=0.4, label="labels (some)")
        axis.plot(at[at >= 0], truth(at[at >= 0]), "C2--", label="truth")
        studies.band(axis, at, *posterior.predict_f(at), color="C3", label="f, mean ± 2 sd")
        axis.plot(GRID, np.full(50, -6.0), "|", color="C0", label="inducing locations")
        axis.set(ylabel="f", xlim=(-0.5, 7.5))
        axis.set_title(f"labels: {kind}", loc="left", fontsize=10)
    axes[-1, 0].set_xlabel("x")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, ncols=4, loc="outside lower center", fontsize=9, frameon=False)
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="500 observations, two data sets")
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--labels", nargs="+", choices=["sign", "drawn"], default=["sign", "drawn"])
    options = parser.parse_args(arguments)
    size, datasets = (500, 2) if options.quick else (5000, options.datasets)
    path = options.output / f"classification{'_quick' if options.quick else ''}.png"
    runs = study(
        size,
        options.labels,
        datasets,
        done=lambda runs: studies.write([r._asdict() for r in runs], path.with_suffix(".json")),
    )
    print(table(runs))
    picture(size, options.labels, path)
