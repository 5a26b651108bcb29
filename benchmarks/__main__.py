"""Time per operation against the dense GP, side by side in one run: `make bench`."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import stategp as sg
from stategp.data import observe
from stategp.inference import Collapsed, infer
from stategp.parameters import to_vector


def best_of(function, repeats=5):
    jax.block_until_ready(function())
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - began)
    return min(times)


@jax.jit
def dense_evidence(kernel, noise, x, y):
    C = kernel(x, x) + noise * jnp.eye(len(x))
    L = jnp.linalg.cholesky(C)
    white = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    constant = len(x) * jnp.log(2 * jnp.pi)
    return -(white @ white + constant) / 2 - jnp.sum(jnp.log(jnp.diagonal(L)))


def main() -> None:
    model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    vector = to_vector(model)
    rng = np.random.default_rng(0)
    print(f"JAX {jax.__version__} on {jax.devices()[0].platform}, Matérn-3/2, float64\n")
    print("      N       M   bound (ms)   + gradient (ms)   dense evidence (ms)   ratio to bound")
    for n, m in [(1000, 1000), (4000, 4000), (10**5, 1000), (10**6, 1000)]:
        x = np.sort(rng.uniform(0, 1000, n))
        data = observe(x, np.sin(x) + 0.3 * rng.standard_normal(n))
        z = data.x if m == n else jnp.linspace(0.0, float(data.x[-1]), m)
        bound = best_of(lambda data=data, z=z: infer(model, data, z).q.elbo)
        gradient = best_of(partial(Collapsed(model, data, z), vector))
        line = f"{n:7d} {m:7d} {1e3 * bound:12.2f} {1e3 * gradient:17.2f}"
        if n <= 4000:
            dense = best_of(lambda data=data: dense_evidence(model.kernel, 0.1, data.x, data.y), 2)
            exact = float(dense_evidence(model.kernel, 0.1, data.x, data.y))
            np.testing.assert_allclose(float(infer(model, data, z).q.elbo), exact, rtol=1e-8)
            line += f" {1e3 * dense:21.1f} {dense / bound:16.1f}"
        print(line)

    data_x = rng.uniform(0, 100, 2000)
    posterior = sg.condition(model, data_x, np.sin(data_x), inducing=200)
    print("\njoint samples of f, ten at a time\n points   (ms)   ns per point and sample")
    for n in [2**14, 2**16, 2**18, 2**20]:
        at = np.linspace(0, 110, n)
        seconds = best_of(lambda at=at: posterior.sample_f(0, at, num_samples=10), 3)
        print(f"{n:7d} {1e3 * seconds:6.0f} {1e9 * seconds / (10 * n):24.0f}")


if __name__ == "__main__":
    main()
