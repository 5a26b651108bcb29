"""One GPU: a natural-gradient step on 10⁸ observations. `python -m benchmarks.gpu [--points N]`.

Matérn-3/2, 1000 inducing states, Gaussian and Poisson observations. The data are packed, the first
time with compilation; then the step is timed with the data summed up, and with a pass over all of
them. `--save docs/gpu-run.json` stores the run that docs/gpu.md quotes.
"""

import argparse
import datetime
import json
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import stategp as sg
from benchmarks.ours import bound, bound_and_gradients, natural_step
from stategp._data import WIDEST, cut_cells, cut_short_cells, observe, pack_rows
from stategp._inference import Sight, fastest_rate
from stategp._runtime._shapes import pad_inducing
from stategp.parameters import to_vector


def best_of(function, repeats=10):
    began = time.perf_counter()
    jax.block_until_ready(function())
    first, times = time.perf_counter() - began, []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return {"seconds": min(times), "first_seconds": first}


def series(n, likelihood, rng):
    x = np.sort(rng.uniform(0, 1000, n))
    f = np.sin(x)
    y = f + 0.3 * rng.standard_normal(n) if likelihood == "gaussian" else rng.poisson(np.exp(f))
    return x, y.astype(float)


def measure(n, m, likelihood):
    noise = sg.likelihoods.Gaussian(variance=0.09) if likelihood == "gaussian" else likelihood
    model = sg.GP(sg.kernels.Matern32(variance=1.0, lengthscale=2.0), noise)
    x, y = series(n, likelihood, np.random.default_rng(0))
    data = observe(x, y, model.likelihood)
    inducing = jnp.asarray(pad_inducing(np.linspace(0, 1000, m) - data.origin))
    packed = best_of(lambda: Sight(data, inducing)(model), repeats=2)
    report = {"likelihood": likelihood, "n": n, "m": m, "pack": packed, "works": {}}
    view, _ = Sight(data, inducing)(model)
    place = np.asarray(data.x), np.asarray(inducing), WIDEST / (2 * fastest_rate(model))
    rows, _ = pack_rows(data, cut_short_cells(*place) or cut_cells(*place, n), y)
    views = {"sums": view, "rows": rows}
    size, vector = jnp.asarray(1.0), jnp.asarray(to_vector(model))
    for name, view in views.items():
        sites = tuple(
            sg.chain.Sites.zeros(len(inducing) + 1, kernel.state_dim) for kernel in model.kernels
        )
        for _ in range(3):
            sites = natural_step(model, view, inducing, sites, size)
        report["works"][name] = {
            "bound": float(bound(model, view, inducing, sites)),
            "natural step": best_of(partial(natural_step, model, view, inducing, sites, size)),
            "bound + gradients": best_of(
                partial(bound_and_gradients, vector, model, view, inducing, sites)
            ),
        }
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=float, default=1e8)
    parser.add_argument("--states", type=int, default=1000)
    parser.add_argument("--likelihoods", default="gaussian,poisson")
    parser.add_argument("--save", type=Path, help="a JSON file")
    options = parser.parse_args()
    run = {
        "device": jax.devices()[0].device_kind,
        "date": datetime.date.today().isoformat(),
        "jax": jax.__version__,
        "results": [],
    }
    print(run["device"], "JAX", run["jax"], flush=True)
    for likelihood in options.likelihoods.split(","):
        report = measure(int(options.points), options.states, likelihood)
        print(json.dumps(report, indent=1), flush=True)
        run["results"].append(report)
    if options.save:
        options.save.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
