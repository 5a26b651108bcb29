"""Natural gradients (paper, appendix): against Adam and L-BFGS, two likelihoods.

    stategp-experiments natural-gradients [--datasets 10] [--quick]

1,000 points on [0, 1], Matérn-3/2 with lengthscale 0.1, Gaussian noise of variance 0.01 or
Student-t noise with one degree of freedom, 50 inducing points on a grid, all hyperparameters at
their true values. q starts as the prior for every optimiser. Adam and L-BFGS move the mean and the
Cholesky factor of q's precision, as in the paper. The paper does not say what rate its Adam had:
four are run, and the one that is closest to the optimum after a hundred steps is shown. Seconds
are those on the clock after each step, of programs compiled before. Adam and L-BFGS are given more
steps than the picture shows, for the time they take to come within a tenth of a nat.
"""

import itertools
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

import stategp as sg
from stategp._data import observe
from stategp._inference import evaluate_all, no_sites, pseudo_data, starting_state, take_steps
from stategp_experiments import studies

KERNEL = sg.kernels.Matern32(variance=1.0, lengthscale=0.1)
MODELS = {
    "Gaussian": sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.01)),
    "Student-t": sg.GP(KERNEL, sg.likelihoods.StudentT(df=1.0, scale=1.0)),
}
ADAM = {f"Adam ({rate:g})": optax.adam(rate) for rate in (0.01, 0.03, 0.1, 0.3)}
SHOWN = (1, 5, 20, 100)  # steps
NEAR = 0.1  # nats
PAPER = {
    "Gaussian": "natural gradients have a striking advantage",
    "Student-t": "natural gradients do well, most of all in the first few iterations",
}


class Run(NamedTuple):
    """One optimiser on one data set: after each step (the prior first)."""

    likelihood: str
    method: str
    seed: int
    below: list[float]  # nats below the best bound
    seconds: list[float]

    def after(self, step: int) -> float:
        """Nats below the best bound after so many steps; an optimiser that is done stays there."""
        return self.below[min(step, len(self.below) - 1)]

    def near(self) -> float:
        """Seconds until the bound is within `NEAR` of the best."""
        there = np.flatnonzero(np.asarray(self.below) <= NEAR)
        return self.seconds[there[0]] if len(there) else np.inf


class Short(NamedTuple):
    """What is kept of a run for the table."""

    likelihood: str
    method: str
    seed: int
    below: dict[str, float]  # by step
    reached: float | None  # seconds

    def after(self, step: int) -> float:
        return self.below[str(step)]

    def near(self) -> float:
        return np.inf if self.reached is None else self.reached


def shortened(rows: list[dict]) -> list[dict]:
    """The rows that `Short` takes, of rows that `Run` takes."""
    runs = [Run(**row) for row in rows]
    return [
        Short(
            *run[:3],
            below={str(step): run.after(step) for step in SHOWN},
            reached=run.near() if np.isfinite(run.near()) else None,
        )._asdict()
        for run in runs
    ]


class Problem(NamedTuple):
    """What all runs have in common."""

    x: np.ndarray
    inducing: np.ndarray
    steps: int
    optimisers: dict[str, object]


def simulate(x: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """The same function with the noise of either likelihood."""
    rng = np.random.default_rng(seed)
    covariance = np.asarray(KERNEL(x, x)) + 1e-10 * np.eye(len(x))
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(len(x))
    gaussian, heavy = 0.1 * rng.standard_normal(len(x)), rng.standard_t(1.0, len(x))
    return {"Gaussian": f + gaussian, "Student-t": f + heavy}


def natural(model: sg.GP, problem: Problem, y: np.ndarray) -> tuple[list[float], list[float]]:
    """The bound after each natural-gradient step from the prior, and the seconds until then."""
    data, inducing = observe(problem.x, y, model.likelihood), jnp.asarray(problem.inducing)
    prior = no_sites(model, inducing)
    guess = jnp.asarray(pseudo_data(model, data))
    began = time.perf_counter()
    bounds = [float(evaluate_all(model, data, inducing, prior, indefinite=False).elbo)]
    seconds = [time.perf_counter() - began]
    conjugate = model.likelihood.conjugate  # a whole step arrives, from wherever it starts
    shape, state = starting_state(model, data, inducing, guess, None if conjugate else prior)
    for step in range(problem.steps + 1):
        state = take_steps(model, data, shape, state, 1, 1e-12)
        if step or conjugate:  # else it has evaluated the prior
            bounds.append(float(state.q.elbo))
            seconds.append(time.perf_counter() - began)
        if bool(state.done):
            break
    return bounds, seconds


def by_gradient(
    model: sg.GP, problem: Problem, y: np.ndarray, optimiser: object
) -> tuple[list[float], list[float]]:
    """The same for an optimiser on the mean and the Cholesky factor of the precision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        result = sg.condition(
            model,
            problem.x,
            y,
            inducing=problem.inducing,
            method="gradient",
            optimiser=optimiser,
            max_steps=problem.steps + (optimiser != "lbfgs"),  # Optax's trace ends a step earlier
            tolerance=1e-12,
        ).fit_result
    return list(result.trace), list(result.seconds)


def study(problem: Problem, datasets: int, done=lambda runs: None) -> list[Run]:
    """Every optimiser on every data set; `done` is called with the runs after each data set."""
    runs: list[Run] = []
    for (name, model), seed in itertools.product(MODELS.items(), range(datasets)):
        y = simulate(problem.x, seed)[name]
        best = sg.condition(model, problem.x, y, inducing=problem.inducing).elbo
        methods = {"natural gradients": natural}
        for label, optimiser in problem.optimisers.items():
            methods[label] = lambda *given, optimiser=optimiser: by_gradient(*given, optimiser)
        for label, method in methods.items():
            if seed == 0:  # for the compiler
                method(model, problem._replace(steps=2), y)
            bounds, seconds = method(model, problem, y)
            below = np.maximum(best - np.asarray(bounds), 0.0).tolist()
            runs.append(Run(name, label, seed, below, seconds))
        line = ", ".join(_short(run) for run in runs[-len(methods) :])
        print(f"{name}, data set {seed}, nats below after 100 steps: {line}", flush=True)
        done(runs)
    return runs


def _short(run: Run) -> str:
    return f"{run.method} {run.after(100):.2g} ({len(run.below) - 1} in {run.seconds[-1]:.2f} s)"


def best_rate(runs: Sequence[Run | Short], likelihood: str) -> str:
    """The rate of Adam with the smallest median distance after a hundred steps."""

    def distance(name: str) -> float:
        mine = [r for r in runs if (r.likelihood, r.method) == (likelihood, name)]
        return float(np.median([run.after(100) for run in mine]))

    return min({r.method for r in runs} & set(ADAM), key=distance)


def shown(runs: Sequence[Run | Short], likelihood: str) -> dict[str, list]:
    """The runs of the three methods that are compared."""
    names = ["natural gradients", "L-BFGS", best_rate(runs, likelihood)]
    return {n: [r for r in runs if (r.likelihood, r.method) == (likelihood, n)] for n in names}


def table(runs: list[Run]) -> str:
    lines = []
    for likelihood in MODELS:
        methods = shown(runs, likelihood)
        count = len(methods["L-BFGS"])
        lines += [
            f"{likelihood} noise: nats below the best bound, median of {count} data sets",
            f"{'':20}" + "".join(f"{f'step {s}':>11}" for s in SHOWN) + f"   ms until {NEAR} nats",
        ]
        for name, mine in methods.items():
            below = [np.median([run.after(step) for run in mine]) for step in SHOWN]
            near = 1e3 * np.median([run.near() for run in mine])
            time = f"{near:18.1f}" if np.isfinite(near) else "not reached".rjust(18)
            lines.append(f"{name:20}" + "".join(f"{value:11.3g}" for value in below) + time)
        lines += [f"the paper: {PAPER[likelihood]}", ""]
    return "\n".join(lines)


def picture(runs: list[Run], path: Path) -> None:
    """Likelihoods side by side; against steps above, against time below."""
    plt = studies.plt
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharey="col", layout="constrained")
    for column, likelihood in enumerate(MODELS):
        by_step, by_time = axes[:, column]
        for number, (name, mine) in enumerate(shown(runs, likelihood).items()):
            for run in mine:
                below = np.maximum(run.below, 1e-7)
                look = {"color": f"C{number}", "lw": 1, "alpha": 0.7}
                label = name if run is mine[0] else None
                mark = {"marker": ".", "ms": 4} if number == 0 else {}
                by_step.plot(below[:101], **look, **mark, label=label)
                by_time.plot(run.seconds, below, **look, **mark, label=label)
        by_step.set(title=f"{likelihood} noise", xlabel="step", yscale="log", xlim=(-2, 100))
        by_time.set(xlabel="seconds", xscale="log", yscale="log")
        by_time.axhline(NEAR, color="0.6", lw=0.8, ls=":")
        by_step.legend(frameon=False, loc="upper right")
    for axis in axes[:, 0]:
        axis.set_ylabel("nats below the best bound")
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="two data sets of 200 points, 100 steps, one Adam")
    parser.add_argument("--datasets", type=int, default=10)
    options = parser.parse_args(arguments)
    size, inducing, steps = (200, 20, 100) if options.quick else (1000, 50, 1000)
    optimisers = {"L-BFGS": "lbfgs"} | (
        {"Adam (0.1)": ADAM["Adam (0.1)"]} if options.quick else ADAM
    )
    problem = Problem(np.linspace(0, 1, size), np.linspace(0, 1, inducing), steps, optimisers)
    path = options.output / f"natural_gradients{'_quick' if options.quick else ''}.png"
    runs = study(
        problem,
        2 if options.quick else options.datasets,
        lambda runs: studies.write([run._asdict() for run in runs], path.with_suffix(".json")),
    )
    print(table(runs))
    picture(runs, path)
