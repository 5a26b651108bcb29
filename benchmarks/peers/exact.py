"""What the two exact peers in JAX share: likelihood with gradient, and the fit by L-BFGS."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from benchmarks.peers import protocol

jax.config.update("jax_enable_x64", True)


def log_parameters(job):
    return np.log([job.variance, job.lengthscale, job.noise])


def compiled(job, log_likelihood):
    """Value and gradient of log_likelihood(log parameters, x, y), waiting until they are there."""
    function = jax.jit(jax.value_and_grad(log_likelihood))
    x, y = jnp.asarray(job.x), jnp.asarray(job.y)
    return lambda vector: jax.block_until_ready(function(vector, x, y))


def value_and_gradient(job, log_likelihood):
    protocol.require_gaussian(job)
    function, start = compiled(job, log_likelihood), jnp.asarray(log_parameters(job))
    (value, gradient), times = protocol.timed(job, lambda: function(start))
    return {"value": float(value), "gradient": np.asarray(gradient).tolist(), **times}


def fit(job, log_likelihood):
    """Learn the logarithms of the three parameters by SciPy's L-BFGS."""
    protocol.require_gaussian(job)
    function, start = compiled(job, log_likelihood), log_parameters(job)
    watch = protocol.Fit(job, lambda: function(start))

    def loss(vector):
        value, gradient = function(vector)
        watch(float(value))
        return -float(value), -np.asarray(gradient)

    report = watch.run(lambda: minimize(loss, start, jac=True, method="L-BFGS-B"))
    return report | {"method": "exact likelihood, L-BFGS"}
