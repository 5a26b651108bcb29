"""The recursions along a chain, compiled kernels against JAX: `python -m benchmarks.chain`.

Microseconds a state, and the seconds that XLA compiles before the first, for sweeps (filter,
smoother, pair marginals) and for the exact likelihood with and without its gradient; then what
steady states save. JAX's way is the one that runs where the kernels are not built; the "scan" is
what one would write first, a filter of whole matrices in one `lax.scan` and JAX's derivative of it.
`--store` writes docs/chain-run.json, which docs/performance.md quotes.
"""

import argparse
import datetime
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.__main__ import machine
from benchmarks.kills import commit
from stategp import _native, chain
from stategp import kernels as k
from stategp._native import _kernels

STORED = Path(__file__).parent.parent / "docs" / "chain-run.json"
WAYS = ("compiled", "JAX", "scan")
COMPARED = (2, 3, 5, 8, 11, 16)  # dimensions
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


def scanned_evidence(steps, emission, value, precision):
    """The log density of the observations, by a Kalman filter over whole matrices."""

    def step(state, given):
        mean, covariance = state
        A, Q, y, noise = given
        mean, covariance = A @ mean, A @ covariance @ A.T + Q
        seen = covariance @ emission
        variance, residual = emission @ seen + noise, y - emission @ mean
        gain = seen / variance
        state = mean + gain * residual, covariance - jnp.outer(gain, seen)
        return state, -0.5 * (jnp.log(variance / noise) + residual**2 / variance)

    start = jnp.zeros_like(emission), jnp.zeros((len(emission),) * 2)
    given = steps.A[: len(value)], steps.Q[: len(value)], value, 1 / precision
    return jnp.sum(jax.lax.scan(step, start, given)[1])


def works_of(way, dim, states, even):
    """Functions to be timed, with their arguments."""
    rng, kernel = np.random.default_rng(0), kernel_of(dim)
    gaps = jnp.asarray([0.3] if even else rng.uniform(0.1, 0.5, states - 1))
    steps = chain.step_transitions(kernel, gaps)
    which = np.append(0, np.ones(states - 1, int)) if even else np.arange(states)
    blocks = tuple(block.state_dim for block in kernel.blocks())
    value, precision = jnp.asarray(rng.standard_normal(states)), jnp.full(states, 4.0)
    inputs = (steps, kernel.emission(), value, precision)
    if way == "scan":
        expected, _ = chain.log_evidence(*inputs)
        np.testing.assert_allclose(scanned_evidence(*inputs), expected, rtol=1e-8)
        gradient = jax.value_and_grad(scanned_evidence, argnums=(0, 1, 2, 3))
        works = {"likelihood": scanned_evidence, "likelihood + gradient": gradient}
        return {name: (function, inputs) for name, function in works.items()}

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


def measure(dims, ways):
    results = []
    for way in ways:
        if way == "JAX":
            _kernels._PROBLEM = "compared with"
        for dim in dims if way == "compiled" else [dim for dim in dims if dim in COMPARED]:
            for even in (False, True) if way == "compiled" else (False,):
                states = STATES[dim] * (10 if even and dim == 16 else 1)
                for work, (function, arguments) in works_of(way, dim, states, even).items():
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
    parser.add_argument("--store", action="store_true", help=f"write docs/{STORED.name}")
    given = parser.parse_args()
    if problem := _native.problem():
        parser.error(f"the compiled kernels are not in use: {problem}")
    if given.store and (given.alone or given.dims != list(STATES)):
        parser.error("--store is for all dimensions and all ways")
    results = measure(given.dims, WAYS[:1] if given.alone else WAYS)
    if given.store:
        about = {"date": datetime.date.today().isoformat(), "commit": commit()}
        about |= {"machine": machine(), "jax": jax.__version__}
        STORED.write_text(json.dumps(about | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
