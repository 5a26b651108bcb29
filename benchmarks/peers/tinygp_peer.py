"""Times tinygp: exact GPs in linear time by quasiseparable matrices, in JAX."""

from functools import partial

import numpy as np

from benchmarks.peers import protocol

try:
    import jax
    import jax.numpy as jnp
    import tinygp

    from benchmarks.peers import exact
except ImportError as error:
    protocol.fail("tinygp", error)

NO_BOUND = "an exact GP: no variational bound and no q"
# The family, and lengthscales times the job's, of a sum with equal variances.
KERNELS = {
    "matern32": ("Matern32", (1,)),
    "matern52": ("Matern52", (1,)),
    "four-matern32": ("Matern32", (1, 2, 4, 8)),
}


def process(kernel, vector, x):
    variance, lengthscale, noise = jnp.exp(vector)
    name, factors = KERNELS[kernel]
    family, sigma = getattr(tinygp.kernels.quasisep, name), jnp.sqrt(variance / len(factors))
    parts = [family(scale=factor * lengthscale, sigma=sigma) for factor in factors]
    prior = sum(parts[1:], start=parts[0])
    return tinygp.GaussianProcess(prior, x, diag=noise, assume_sorted=True)


def log_likelihood(job):
    return lambda vector, x, y: process(job.kernel, vector, x).log_probability(y)


def evidence(job):
    protocol.require_gaussian(job)
    function = jax.jit(log_likelihood(job))
    arguments = jnp.asarray(exact.log_parameters(job)), jnp.asarray(job.x), jnp.asarray(job.y)
    value, times = protocol.timed(job, lambda: function(*arguments).block_until_ready())
    return {"value": float(value), **times}


def evidence_and_gradient(job):
    return exact.value_and_gradient(job, log_likelihood(job))


def fit(job):
    return exact.fit(job, log_likelihood(job))


def conditioned(job):
    """The factorised GP, the data, and the new points (None, as tinygp has it, for the data's)."""
    protocol.require_gaussian(job)
    factorise = jax.jit(partial(process, job.kernel))
    gp = factorise(jnp.asarray(exact.log_parameters(job)), jnp.asarray(job.x))
    if np.array_equal(job.x, job.x_new):
        return gp, jnp.asarray(job.y), None
    require_dense(job)
    return gp, jnp.asarray(job.y), jnp.asarray(job.x_new)


def require_dense(job):
    """Away from the data, tinygp conditions by dense matrices."""
    new = len(job.x_new)
    what = "a dense covariance between data and new points"
    protocol.require_memory(len(job.x), new, copies=2, what=what)
    protocol.require_memory(new, new, copies=3, what="a dense covariance of the new points")


def predict(job):
    gp, y, at = conditioned(job)
    (mean, variance), times = protocol.timed(
        job, lambda: jax.block_until_ready(gp.predict(y, at, return_var=True))
    )
    return {**protocol.prediction(mean, variance), **times}


def sample(job):
    gp, y, at = conditioned(job)
    key = jax.random.PRNGKey(0)
    draw = jax.jit(lambda gp, y, at: gp.condition(y, at).gp.sample(key, (job.samples,)))
    draws, times = protocol.timed(job, lambda: draw(gp, y, at).block_until_ready())
    return {"shape": list(draws.shape), **times}


WORKS = {
    "elbo": NO_BOUND,
    "elbo+gradient": NO_BOUND,
    "natural-step": NO_BOUND,
    "exact": evidence,
    "exact+gradient": evidence_and_gradient,
    "predict": predict,
    "sample": sample,
    "fit": fit,
}

if __name__ == "__main__":
    protocol.main("tinygp", WORKS, ["tinygp", "jax", "jaxlib", "numpy", "scipy"])
