"""Minibatches against all data at once: 100,000 Poisson counts, then 2,000 with Cauchy noise.

    stategp-experiments minibatches [--observations 100000]

Both learn the hyperparameters of the counts; the bounds are those on all data. With Cauchy noise
everything but q is held: minibatches count no observation as evidence against certainty, and the
table says what that does to the mean and to the standard deviation of f.
"""

import time
import warnings
from argparse import Namespace

import numpy as np
import optax

import stategp as sg
from stategp_experiments import studies


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, output=False)
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=1000)
    options = parser.parse_args(arguments)
    counts(options)
    heavy_tails()


def counts(options: Namespace) -> None:
    """Bounds and times."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 100, options.observations))
    y = rng.poisson(np.exp(0.5 + np.sin(x) + 0.5 * np.cos(0.37 * x))).astype(float)
    model = sg.GP(sg.kernels.Matern52(), "poisson")
    bounds = {}
    for name, settings in {
        "all data, L-BFGS": {},
        "minibatches, Adam": {"batch_size": options.batch_size},
    }.items():
        began = time.perf_counter()
        posterior = sg.fit(model, x, y, inducing=options.inducing, **settings)
        seconds = time.perf_counter() - began
        bounds[name] = posterior.elbo
        print(f"{name:20} bound {posterior.elbo:14.3f}   {seconds:7.1f} s   {posterior.fit_result}")
        print(f"{'':20} {posterior.model.kernel}")
    full, stochastic = bounds.values()
    print(f"minibatches are below by {(full - stochastic) / abs(full):.5%} of the bound")


def heavy_tails(observations: int = 2000, steps: int = 3000) -> None:
    """How far f ends from the optimum, in standard deviations, for several widths of the noise."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 20, observations))
    noise, at = rng.standard_cauchy(observations), np.linspace(0, 20, 100)
    titles = f"{'mean, rms':>10} {'furthest':>9} {'sd':>6} {'least':>6}"
    print(f"\n{'Cauchy noise of width':22} {titles}")
    for width in (0.1, 0.3, 1.0):
        likelihood = sg.likelihoods.StudentT(df=sg.fixed(1.0), scale=sg.fixed(width))
        kernel = sg.kernels.Matern32(variance=sg.fixed(1.0), lengthscale=sg.fixed(2.0))
        model, y = sg.GP(kernel, likelihood), np.sin(x) + width * noise
        best = sg.condition(model, x, y, inducing=30)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            batches = sg.condition(
                model, x, y, inducing=30, batch_size=200, max_steps=steps,
                step_size=optax.exponential_decay(0.2, steps // 3, 0.1),
            )  # fmt: skip
        (mean, variance), (moved, smaller) = (
            [np.asarray(v) for v in posterior.predict_f(at)] for posterior in (best, batches)
        )
        away, ratio = np.abs(moved - mean) / np.sqrt(variance), np.sqrt(smaller / variance)
        print(
            f"{width:22g} {np.sqrt(np.mean(away**2)):10.3f} {away.max():9.3f} "
            f"{ratio.mean():6.3f} {ratio.min():6.3f}"
        )
