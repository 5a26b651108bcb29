"""Complexity (paper, table 1): exponents of time and storage in N, M and d, measured.

    stategp-experiments complexity [--quick]

The bound of a Gaussian regression with its gradients in q (for the package's methods the natural
one) and in the hyperparameters is timed along ladders of sizes: N observations, M inducing points,
or states of dimension d grow while the others stay. q is the prior; its value does not change the
work. An exponent is the slope of log time over the last three sizes of a ladder, where overhead
counts least; storage is the bytes of q. Times are the best of several, programs compiled before.

VGP (dense) has a full Gaussian over f at the data, SVGP one over f at M points; VGP (banded) is
S²VGP with inducing points at the data. S²VGP passes over all observations each time, as in the
paper; "summed up" is what the package does with many Gaussian observations: it sums them up once,
before the clock starts, after which nothing grows with N.

Exponents fall short of the table's where small parts still count or large matrices run at a higher
rate (M² to M³ of SVGP, N³ of VGP), and exceed it where the arrays outgrow the cache (N of SVGP and
of S²VGP).
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import stategp as sg
from stategp._data import Moments, observe
from stategp._inference import (
    Sight,
    evaluate,
    geometry,
    no_sites,
    prior_mean,
    wanted_sites,
    with_gradient,
)
from stategp.parameters import to_vector, with_vector
from stategp_experiments import baselines, studies

SPAN = 100.0  # of the inputs
Evaluation = tuple[Callable[[], Any], Any]  # what is timed, and q


class Point(NamedTuple):
    """One method at one size."""

    method: str
    ladder: str  # which of N, M, d grows
    N: int
    M: int
    d: int
    seconds: float
    bytes: int  # of q

    @property
    def size(self) -> int:
        return getattr(self, self.ladder)


class Paper(NamedTuple):
    """A row of the paper's table, and the exponents it means for each ladder."""

    time: str
    storage: str
    time_exponents: dict[str, str]
    storage_exponents: dict[str, str]


PAPER = {
    "VGP (dense)": Paper("O(N³)", "O(N²)", {"N": "3"}, {"N": "2"}),
    "SVGP": Paper("O(NM² + M³)", "O(M²)", {"N": "1", "M": "2-3", "d": "0"}, {"M": "2", "d": "0"}),
    "VGP (banded)": Paper("O(Nd³)", "O(Nd²)", {"N": "1", "d": "3"}, {"N": "1", "d": "2"}),
    "S²VGP": Paper(
        "O((N+M)d³)", "O(Md²)", {"N": "1", "M": "1", "d": "3"}, {"N": "0", "M": "1", "d": "2"}
    ),
    "S²VGP (summed up)": Paper("-", "-", {}, {}),
}
# Sizes as (N, M, d); powers of two, to which the package pads.
LADDERS = {
    ("VGP (dense)", "N"): [(n, n, 2) for n in (256, 512, 1024, 2048)],
    ("SVGP", "N"): [(n, 64, 2) for n in (2**10, 2**12, 2**14, 2**16)],
    ("VGP (banded)", "N"): [(n, n, 2) for n in (2**10, 2**12, 2**14, 2**16)],
    ("S²VGP", "N"): [(n, 64, 2) for n in (2**10, 2**12, 2**14, 2**16, 2**18)],
    ("S²VGP (summed up)", "N"): [(n, 64, 2) for n in (2**14, 2**16, 2**18, 2**20)],
    ("SVGP", "M"): [(2048, m, 2) for m in (64, 128, 256, 512, 1024)],
    ("S²VGP", "M"): [(2048, m, 2) for m in (2**6, 2**8, 2**10, 2**12, 2**14, 2**16)],
    ("SVGP", "d"): [(2048, 256, d) for d in (2, 4, 8, 16)],
    ("VGP (banded)", "d"): [(1024, 1024, d) for d in (2, 4, 8, 16)],
    ("S²VGP", "d"): [(4096, 1024, d) for d in (2, 4, 8, 16)],
}
QUICK = {
    ("VGP (dense)", "N"): [(n, n, 2) for n in (64, 128, 256)],
    ("SVGP", "N"): [(n, 16, 2) for n in (512, 2048)],
    ("VGP (banded)", "N"): [(n, n, 2) for n in (512, 2048)],
    ("S²VGP", "N"): [(n, 16, 2) for n in (512, 2048)],
    ("SVGP", "M"): [(512, m, 2) for m in (16, 256)],
    ("S²VGP", "M"): [(512, m, 2) for m in (16, 1024)],
    ("S²VGP", "d"): [(512, 64, d) for d in (2, 4)],
}


def problem(N: int, d: int, harmonic: bool) -> tuple[sg.GP, np.ndarray, np.ndarray]:
    """A model with states of dimension d, and data: decaying harmonics where d is to grow."""
    kernel: Any = sg.kernels.Matern32(variance=1.0, lengthscale=5.0)
    if harmonic:
        weights = np.full(d // 2, np.sqrt(2 / d))
        kernel = sg.kernels.Harmonic(weights=weights, frequency=0.1, lengthscale=5.0)
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, SPAN, N))
    y = np.sin(x) + 0.3 * rng.standard_normal(N)
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=0.1)), x, y


def vgp(mean_and_factor, model: sg.GP, x, y):
    """The bound of a full Gaussian over whitened f at the data, q = N(mean, factor factorᵀ)."""
    mean, factor = mean_and_factor
    noise = model.likelihood.variance.value
    jitter = baselines.JITTER * model.kernel.covariance(jnp.zeros(()))
    root = jnp.linalg.cholesky(model.kernel(x, x) + jitter * jnp.eye(len(x)))
    factor = jnp.tril(factor)
    squares = jnp.sum((y - root @ mean) ** 2) + jnp.sum((root @ factor) ** 2)
    fit = -(len(x) * jnp.log(2 * jnp.pi * noise) + squares / noise) / 2
    distance = (jnp.sum(factor**2) + mean @ mean - len(x)) / 2
    return fit - distance + jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))


def dense(bound: Callable, q: Any, model: sg.GP, *arguments: Any) -> Evaluation:
    """A dense bound and its gradient in q and the hyperparameters."""

    @jax.jit
    def both(q, vector, *arguments):
        return jax.value_and_grad(
            lambda q, vector: bound(q, with_vector(model, vector), *arguments), argnums=(0, 1)
        )(q, vector)

    vector, arrays = jnp.asarray(to_vector(model)), [jnp.asarray(a) for a in arguments]
    return lambda: both(q, vector, *arrays), q


@jax.jit
def bound_and_gradients(vector, model, view, inducing, sites):
    """The package's bound, its gradient in the hyperparameters, its natural gradient in q."""

    def objective(vector):
        moved = with_vector(model, vector)
        shape = geometry(moved, view.nodes, inducing, view.numbers)
        still_model, still = jax.lax.stop_gradient((moved, shape))
        q = jax.lax.stop_gradient(evaluate(still_model, view, still, sites))
        return with_gradient(moved, view, shape, q), (q, still)

    (value, (q, shape)), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    mean, variance = shape.projections[0].marginals(q.marginals[0])
    shift = prior_mean(model, view.user_nodes)
    found = view.expected(model.likelihood, mean + shift, variance)
    natural = jax.tree.map(lambda a, b: a - b, wanted_sites(shape, mean, found), sites)
    return value, gradient, natural


def chain(model: sg.GP, x: np.ndarray, y: np.ndarray, inducing, summed: bool) -> Evaluation:
    """The same for the package."""
    data = observe(x, y, model.likelihood)
    z = jnp.asarray(inducing - data.origin)
    view, _ = Sight(data, z, few=0 if summed else len(x) + 1)(model)
    if summed != isinstance(view, Moments):
        raise ValueError(f"{len(x)} observations are too few to be summed up")
    vector, sites = jnp.asarray(to_vector(model)), no_sites(model, z)
    return lambda: bound_and_gradients(vector, model, view, z, sites), sites


def evaluation(method: str, N: int, M: int, d: int, harmonic: bool = False) -> Evaluation:
    model, x, y = problem(N, d, harmonic)
    z = np.linspace(0, SPAN, M)
    if method == "VGP (dense)":
        return dense(vgp, baselines.standard(N), model, x, y)
    if method == "SVGP":
        return dense(baselines.uncollapsed, baselines.standard(M), model, x, y, z)
    return chain(model, x, y, x if method == "VGP (banded)" else z, "summed up" in method)


def best_seconds(run: Callable[[], Any], most: int = 10, limit: float = 3.0) -> float:
    """The shortest of several runs, after one that compiles."""
    jax.block_until_ready(run())
    times: list[float] = []
    while not times or (len(times) < most and sum(times) < limit):
        began = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - began)
    return min(times)


def study(ladders: dict, done: Callable = lambda points: None) -> list[Point]:
    """All ladders; `done` is called with the points after each of them."""
    points: list[Point] = []
    for (method, ladder), sizes in ladders.items():
        for N, M, d in sizes:
            run, q = evaluation(method, N, M, d, harmonic=ladder == "d")
            seconds, stored = best_seconds(run), ravel_pytree(q)[0].nbytes
            points.append(Point(method, ladder, N, M, d, seconds, stored))
            print(f"{method}, N = {N}, M = {M}, d = {d}: {1e3 * seconds:.2f} ms", flush=True)
        done(points)
    return points


def exponent(points: list[Point], what: str) -> float:
    """The slope of log `what` against log size, over the last three sizes."""
    last = sorted(points, key=lambda point: point.size)[-3:]
    sizes, values = ([getattr(p, name) for p in last] for name in ("size", what))
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def along(points: list[Point], method: str, ladder: str) -> list[Point]:
    return [point for point in points if (point.method, point.ladder) == (method, ladder)]


def table(points: list[Point]) -> str:
    lines = [
        "exponents, measured (the paper's in brackets)",
        f"{'':18}{'the paper: time, storage':30}{'time in N':>12}{'M':>12}{'d':>12}"
        f"{'storage in N':>15}{'M':>12}{'d':>12}",
    ]
    for method, paper in PAPER.items():
        cells = []
        for what, said in [("seconds", paper.time_exponents), ("bytes", paper.storage_exponents)]:
            for ladder in "NMd":
                mine = along(points, method, ladder)
                known = f" ({said[ladder]})" if ladder in said else ""
                cells.append(f"{round(exponent(mine, what), 2) + 0.0:.2f}{known}" if mine else "-")
        widths = [12, 12, 12, 15, 12, 12]
        row = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{method:18}{paper.time + ', ' + paper.storage:30}{row}")
    return "\n".join(lines)


def picture(points: list[Point], path: Path) -> None:
    """Time against N, M and d."""
    figure, axes = studies.plt.subplots(1, 3, figsize=(13, 4.8), sharey=True, layout="constrained")
    titles = {"N": "observations N", "M": "inducing points M", "d": "dimension of the state d"}
    for axis, (ladder, title) in zip(axes, titles.items(), strict=True):
        for number, method in enumerate(PAPER):
            mine = along(points, method, ladder)
            if mine:
                label = f"{method}: {exponent(mine, 'seconds'):.2f}"
                sizes, times = [p.size for p in mine], [p.seconds for p in mine]
                axis.loglog(sizes, times, "osD^v"[number] + "-", color=f"C{number}", label=label)
        axis.set_xlabel(title)
        axis.legend(title="exponent of time", frameon=False, fontsize=9, loc="upper left")
    dimensions = sorted({point.d for point in points if point.ladder == "d"})
    axes[2].set_xticks(dimensions, [str(d) for d in dimensions])
    axes[2].set_xticks([], minor=True)
    axes[0].set_ylabel("seconds: bound and gradients")
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high * (high / low) ** 0.45)  # room for the legends
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="short ladders of small sizes: overhead dominates")
    options = parser.parse_args(arguments)
    path = options.output / f"complexity{'_quick' if options.quick else ''}.png"
    points = study(
        QUICK if options.quick else LADDERS,
        lambda points: studies.write([p._asdict() for p in points], path.with_suffix(".json")),
    )
    print(table(points))
    picture(points, path)
