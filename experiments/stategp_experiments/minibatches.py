"""Minibatches against all data at once: 100,000 Poisson counts.

    stategp-experiments minibatches [--observations 100000]

Both learn the hyperparameters; the bounds are those on all data.
"""

import time

import numpy as np

import stategp as sg
from stategp_experiments import studies


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, output=False)
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=1000)
    options = parser.parse_args(arguments)
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
