"""The recursions along a chain, compiled kernels against JAX: `python -m benchmarks.chain`.

Microseconds a state, and the seconds that XLA compiles before the first, for sweeps (filter,
smoother, pair marginals) and for the exact likelihood with and without its gradient; then what
steady states save. JAX's way is the one that runs where the kernels are not built.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from stategp import _native, chain
from stategp import kernels as k
from stategp._native import _kernels

STATES = {1: 10**5, 2: 10**5, 3: 10**5, 5: 10**4, 8: 10**4, 11: 10**4, 16: 10**4, 25: 2000}


def kernel_of(dim):
    """A sum of Matérn-5/2 kernels, and what is missing to d."""
    parts = [k.Matern52(lengthscale=1.0 + i) for i in range(dim // 3)]
    parts += [{1: k.Matern12(), 2: k.Matern32()}[dim % 3]] if dim % 3 else []
    return sum(parts[1:], start=parts[0])


def best_of(function, *arguments):
    """Seconds of compilation, and of the best of some calls."""
    program = jax.jit(function)
    began = time.perf_counter()
    ready = program.lower(*arguments).compile()
    compiling, times = time.perf_counter() - began, []
    while sum(times) < 1.0 and len(times) < 20:
        began = time.perf_counter()
        jax.block_until_ready(ready(*arguments))
        times.append(time.perf_counter() - began)
    return compiling, min(times)


def works_of(dim, states, even):
    """Functions to be timed, with their arguments."""
    rng, kernel = np.random.default_rng(0), kernel_of(dim)
    gaps = jnp.asarray([0.3] if even else rng.uniform(0.1, 0.5, states - 1))
    steps = chain.step_transitions(kernel, gaps)
    which = np.append(0, np.ones(states - 1, int)) if even else np.arange(states)
    blocks = tuple(block.state_dim for block in kernel.blocks())
    value, precision = jnp.asarray(rng.standard_normal(states)), jnp.full(states, 4.0)
    inputs = (steps, kernel.emission(), value, precision)

    def evidence(steady, *inputs):
        return chain.log_evidence(*inputs, which=which, blocks=blocks, steady=steady)[0]

    def with_gradient(steady):
        return jax.value_and_grad(lambda *at: evidence(steady, *at), argnums=(0, 1, 2, 3))

    works = {
        "likelihood": (lambda *at: evidence(True, *at), inputs),
        "likelihood + gradient": (with_gradient(True), inputs),
    }
    if even:
        return works | {"likelihood + gradient, general": (with_gradient(False), inputs)}
    rows = rng.standard_normal((states + 1, 2 * dim)) / dim
    rows[0, :dim] = rows[-1, dim:] = 0.0
    sites = chain.Sites(jnp.asarray(rows), jnp.asarray(rows[:, :, None] * rows[:, None, :]))
    prior = chain.prior_transitions(kernel, jnp.append(0.0, jnp.cumsum(gaps)))

    def sweep(prior, sites):
        swept = chain.sweep(prior, sites)
        return swept.marginals, swept.log_normaliser

    return works | {"sweep": (sweep, (prior, sites))}


def measure(dims, without):
    results = []
    for way in ("compiled", "JAX"):
        if way == "JAX":
            if without:
                break
            _kernels._PROBLEM = "compared with"
        for dim in dims:
            for even in (False, True) if way == "compiled" else (False,):
                states = STATES[dim] * (10 if even and dim == 16 else 1)
                for work, (function, arguments) in works_of(dim, states, even).items():
                    compiling, seconds = best_of(function, *arguments)
                    result = {"way": way, "d": dim, "states": states, "even": even, "work": work}
                    result |= {"compiling": compiling, "seconds": seconds}
                    results.append(result)
                    per_state = 1e6 * seconds / states
                    spaced = "evenly spaced, " if even else ""
                    print(
                        f"d = {dim:2d}, {way:8s}  {spaced + work:48s} {per_state:9.3f} µs a state, "
                        f"{compiling:6.2f} s of compilation",
                        flush=True,
                    )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", type=int, nargs="*", default=list(STATES))
    parser.add_argument("--alone", action="store_true", help="the compiled kernels only")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if problem := _native.problem():
        parser.error(f"the compiled kernels are not in use: {problem}")
    results = measure(given.dims, given.alone)
    if given.json:
        given.json.write_text(json.dumps({"jax": jax.__version__, "results": results}, indent=1))


if __name__ == "__main__":
    main()
