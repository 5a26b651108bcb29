"""Dense baselines for Matérn-3/2 regression, independent of the package's own algebra.

`bound` is Titsias' collapsed bound with inducing variables at M locations: the values f(z) alone
(the classic sparse GP) or the values and slopes, which is the S²VGP family written densely.
O(N M²); the covariances come from the closed form of the kernel and its derivatives.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize


def _covariance(tau, variance, rate):
    return variance * (1 + rate * jnp.abs(tau)) * jnp.exp(-rate * jnp.abs(tau))


def _features(x, z, variance, rate, slopes):
    """cov(f(x), u) for u = f(z), and f′(z)/rate if `slopes`."""
    tau = x[:, None] - z[None, :]
    values = _covariance(tau, variance, rate)
    if not slopes:
        return values
    return jnp.concatenate([values, variance * rate * tau * jnp.exp(-rate * jnp.abs(tau))], axis=1)


def _feature_covariance(z, variance, rate, slopes):
    tau = z[:, None] - z[None, :]
    values = _covariance(tau, variance, rate)
    if not slopes:
        return values
    decay = variance * jnp.exp(-rate * jnp.abs(tau))
    cross = rate * tau * decay
    curvature = (1 - rate * jnp.abs(tau)) * decay
    return jnp.block([[values, cross], [cross.T, curvature]])


class Sparse(NamedTuple):
    """A sparse posterior: the bound it reaches and its mean and variance at new points."""

    bound: jax.Array
    mean: jax.Array
    variance: jax.Array


def sparse(log_parameters, x, y, z, x_new, slopes):
    """Optimal q for parameters (log variance, log lengthscale, log noise)."""
    variance, lengthscale, noise = jnp.exp(log_parameters)
    rate = jnp.sqrt(3.0) / lengthscale
    Luu = jnp.linalg.cholesky(_feature_covariance(z, variance, rate, slopes))

    def whiten(points):
        cross = _features(points, z, variance, rate, slopes)
        return jax.scipy.linalg.solve_triangular(Luu, cross.T, lower=True)

    W = whiten(x)
    B = jnp.eye(len(Luu)) + W @ W.T / noise
    L = jnp.linalg.cholesky(B)
    c = jax.scipy.linalg.solve_triangular(L, W @ y, lower=True) / noise
    n = len(y)
    fit = -n / 2 * jnp.log(2 * jnp.pi * noise) - jnp.sum(jnp.log(jnp.diagonal(L)))
    fit += (c @ c - y @ y / noise) / 2
    trace = (n * variance - jnp.sum(W**2)) / (2 * noise)
    V = whiten(x_new)
    U = jax.scipy.linalg.solve_triangular(L, V, lower=True)
    return Sparse(fit - trace, U.T @ c, variance - jnp.sum(V**2, axis=0) + jnp.sum(U**2, axis=0))


def exact(log_parameters, x, y, x_new):
    """The exact GP: log evidence, mean and variance."""
    variance, lengthscale, noise = jnp.exp(log_parameters)
    rate = jnp.sqrt(3.0) / lengthscale
    cross = _covariance(x[:, None] - x_new[None, :], variance, rate)
    L = jnp.linalg.cholesky(
        _covariance(x[:, None] - x[None, :], variance, rate) + noise * jnp.eye(len(x))
    )
    white = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    half = jax.scipy.linalg.solve_triangular(L, cross, lower=True)
    evidence = -(white @ white) / 2 - jnp.sum(jnp.log(jnp.diagonal(L)))
    evidence -= len(y) / 2 * jnp.log(2 * jnp.pi)
    return Sparse(evidence, half.T @ white, variance - jnp.sum(half**2, axis=0))


def learn(bound, start):
    """The parameters that maximise `bound(log_parameters)`, by L-BFGS from `start`."""
    negative = jax.jit(jax.value_and_grad(lambda v: -bound(v)))

    def function(v):
        value, gradient = negative(jnp.asarray(v))
        return float(value), np.asarray(gradient)

    options = {"ftol": 1e-14, "gtol": 1e-7, "maxiter": 500}
    found = minimize(function, np.asarray(start), jac=True, method="L-BFGS-B", options=options)
    return found.x, -found.fun
