"""A and Q of many irregular steps of an equation: from tables, and each step doubled by itself.

    python -m benchmarks.tables [--steps 10000 100000] [--dims 3 5 8] [--store]

CPU seconds of A and Q, and of these with a gradient in the equation, and the largest difference
between the two ways. The equation is the one that `LatentExponentiallyGenerated` starts with; steps
are exponential with means 0.05, 2 and 50. `--store` writes docs/tables-run.json.
"""

import argparse
import itertools
import json
import platform
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from stategp.kernels import LatentExponentiallyGenerated
from stategp.kernels._step_table import doubled, tabulated

STORE = Path(__file__).parent.parent / "docs/tables-run.json"
WAYS = {"doubled": doubled, "tabulated": tabulated}


def cpu_seconds(function, *arguments, repeats):
    """The least CPU time of several runs, without compilation."""
    jax.block_until_ready(function(*arguments))
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        jax.block_until_ready(function(*arguments))
        taken.append(time.process_time() - began)
    return min(taken)


def measure(dim, mean, number, repeats):
    """One equation and one set of steps, both ways."""
    kernel = LatentExponentiallyGenerated(size=dim)
    F, diffusion = kernel.feedback(), kernel.diffusion()
    dt = jnp.asarray(np.random.default_rng(0).exponential(mean, number))
    weights = jax.random.normal(jax.random.key(0), (2, dim, dim, number))
    result = {"dim": dim, "mean": mean, "steps": number}
    values = {}
    for name, way in WAYS.items():

        def total(F, diffusion, dt, weights, way=way):
            A, Q = way(F, diffusion, dt)
            return jnp.sum(weights[0] * A) + jnp.sum(weights[1] * Q)

        matrices, gradient = jax.jit(way), jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
        result[name] = {
            "value": cpu_seconds(matrices, F, diffusion, dt, repeats=repeats),
            "gradient": cpu_seconds(gradient, F, diffusion, dt, weights, repeats=repeats),
        }
        values[name] = matrices(F, diffusion, dt)
    apart = zip(values["doubled"], values["tabulated"], strict=True)
    result["apart"] = max(float(jnp.max(jnp.abs(one - other))) for one, other in apart)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", type=int, nargs="*", default=[3, 5, 8])
    parser.add_argument("--means", type=float, nargs="*", default=[0.05, 2.0, 50.0])
    parser.add_argument("--steps", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", action="store_true", help=f"write {STORE.name}")
    given = parser.parse_args()
    results = []
    for number, dim, mean in itertools.product(given.steps, given.dims, given.means):
        results.append(measure(dim, mean, number, given.repeats))
        one, other = (results[-1][name] for name in WAYS)
        print(
            f"N = {number:6d}, d = {dim}, mean step {mean:5g}: A and Q "
            f"{one['value']:.3f} → {other['value']:.3f} s, with gradient "
            f"{one['gradient']:.3f} → {other['gradient']:.3f} s, "
            f"apart {results[-1]['apart']:.1e}",
            flush=True,
        )
    if given.store:
        run = {"jax": jax.__version__, "machine": platform.machine(), "results": results}
        STORE.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
