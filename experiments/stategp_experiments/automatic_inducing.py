"""`inducing="auto"` on ten varied simulated data sets: is the certificate true?

    stategp-experiments automatic-inducing [--only NAME ...]

For each: the number M chosen, the error that the certificate states, the true error at the learned
hyperparameters (exact for Gaussian observations, against a state at every observation for others),
and the smallest M, on a fine ladder, whose true error meets the tolerance.
"""

import time
import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import stategp as sg
from stategp import kernels as k
from stategp._data import place_inducing
from stategp._inference import infer
from stategp._runtime._memory import make_room
from stategp_experiments import studies


class Case(NamedTuple):
    model: sg.GP
    x: np.ndarray
    y: np.ndarray


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    uniform = np.sort(rng.uniform(0, 100, 3000))
    clustered = np.sort(np.concatenate([rng.normal(c, 2, 700) for c in (10, 30, 80)]))
    gap = uniform[(uniform < 40) | (uniform > 70)]
    wave = np.sin(uniform)
    chirp = np.sin((uniform / 12) ** 2)
    rough = np.cumsum(rng.standard_normal(3000)) * 0.05

    def noise(x, size):
        return size * rng.standard_normal(len(x))

    heavy = wave + 0.1 * rng.standard_t(2, 3000)
    return {
        "wave, matern52": Case(sg.GP(k.Matern52()), uniform, wave + noise(uniform, 0.3)),
        "wave, low noise": Case(sg.GP(k.Matern52()), uniform, wave + noise(uniform, 0.01)),
        "chirp, matern32": Case(sg.GP(k.Matern32()), uniform, chirp + noise(uniform, 0.3)),
        "random walk, matern12": Case(sg.GP(k.Matern12()), uniform, rough + noise(uniform, 0.5)),
        "clusters, matern32": Case(
            sg.GP(k.Matern32()), clustered, np.sin(clustered) + noise(clustered, 0.2)
        ),
        "gap, trend + wave": Case(
            sg.GP(k.Matern52() + k.Cosine(period=6.0)),
            gap,
            gap / 50 + np.sin(gap) + noise(gap, 0.3),
        ),
        "pure noise": Case(sg.GP(k.Matern32()), uniform, noise(uniform, 1.0)),
        "counts": Case(
            sg.GP(k.Matern52(), "poisson"), uniform, rng.poisson(np.exp(1 + wave)).astype(float)
        ),
        "classes": Case(
            sg.GP(k.Matern32(), "bernoulli"),
            uniform,
            (rng.uniform(size=3000) < 1 / (1 + np.exp(-3 * wave))).astype(float),
        ),
        "heavy tails": Case(sg.GP(k.Matern52(), "student_t"), uniform, heavy),
    }


def true_errors(posterior: sg.Posterior, allowed: float) -> tuple[float, int]:
    """Error of the M chosen, and the smallest M on a ladder of ratio 2^¼ that is good enough."""
    model, data = posterior.model, posterior.data

    def bound(inducing) -> float:
        return float(infer(model, data, jnp.asarray(place_inducing(inducing, data))).q.elbo)

    best = bound("data")
    chosen = len(posterior.relative_inducing)
    error = best - bound(chosen)
    smallest = chosen
    for step in range(1, 60):
        make_room(20_000)
        count = round(chosen / 2 ** (step / 4))
        if count < 2 or best - bound(count) > allowed:
            break
        smallest = count
    return error, smallest


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, output=False)
    parser.add_argument("--only", nargs="*")
    only = parser.parse_args(arguments).only
    titles = ["N", "M", "stated", "true", "allowed", "min M", "ratio", "seconds"]
    widths = [6, 6, 10, 10, 9, 7, 7, 9]
    print(f"{'data':24}" + "".join(f"{t:>{w}}" for t, w in zip(titles, widths, strict=True)))
    failures = 0
    for name, case in cases().items():
        if only and not any(word in name for word in only):
            continue
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            posterior = sg.fit(case.model, case.x, case.y, inducing="auto")
        seconds = time.perf_counter() - began
        found = posterior.certificate
        make_room(5_000)
        error, smallest = true_errors(posterior, found.tolerance)
        ratio = found.inducing / smallest
        failures += error > found.tolerance or ratio > 4
        print(
            f"{name:24}{len(case.y):6d}{found.inducing:6d}{found.error:10.2g}{error:10.2g}"
            f"{found.tolerance:9.2g}{smallest:7d}{ratio:7.2f}{seconds:9.1f}  "
            f"{'' if posterior.fit_result.converged else 'NOT converged'}",
            flush=True,
        )
    print(f"{failures} failed")
