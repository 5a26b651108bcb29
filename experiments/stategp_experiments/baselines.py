"""Dense peers for Gaussian observations, of textbook form: the exact GP and the classic sparse GP.

A model is an `sg.GP` with a Gaussian likelihood and mean zero; only the closed form of its kernel
is used, nothing of its state space. Inducing variables u are values f(z) at M locations, and q is
kept over v = Luu⁻¹ u, whose prior is standard normal:

- `collapsed`: the bound with q maximised out (Titsias 2009), and that q;
- `uncollapsed`: the bound at any q = N(mean, factor factorᵀ) (Hensman et al. 2013), the SVGP;
- `predict`, `exact`, and `learn`, which maximises any of these in the hyperparameters.

The sparse ones take O(N M²) time and O(N M) memory. The covariance of u gets JITTER · k(0) on its
diagonal, without which it is numerically singular where inducing points lie close; u are then
values of f with that much noise, and a bound stays a bound.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.optimize import minimize

import stategp as sg
from stategp.parameters import to_vector, with_vector

JITTER = 1e-10  # of the prior variance


class Features(NamedTuple):
    """What the inducing variables are: their covariances with f(x), and among themselves."""

    cross: Callable  # kernel, x, z → points × variables
    own: Callable  # kernel, z → variables × variables


VALUES = Features(lambda kernel, x, z: kernel(x, z), lambda kernel, z: kernel(z, z))


def _with_slopes(kernel, x, z):
    """cov(f(x), f(z)) and cov(f(x), f′(z)/rate) of Matérn-3/2, side by side."""
    tau = kernel.rate * (x[:, None] - z[None, :])
    slopes = kernel.variance.value * tau * jnp.exp(-jnp.abs(tau))
    return jnp.concatenate([kernel(x, z), slopes], axis=1)


def _slopes_with_slopes(kernel, z):
    tau = kernel.rate * (z[:, None] - z[None, :])
    decay = kernel.variance.value * jnp.exp(-jnp.abs(tau))
    cross = tau * decay
    return jnp.block([[kernel(z, z), cross], [cross.T, (1 - jnp.abs(tau)) * decay]])


# Matérn-3/2 only: its whole state, hence the family of S²VGP written densely.
VALUES_AND_SLOPES = Features(_with_slopes, _slopes_with_slopes)


class Whitened(NamedTuple):
    """q(v) = N(mean, factor factorᵀ), with `factor` lower triangular."""

    mean: jax.Array
    factor: jax.Array


def standard(variables: int) -> Whitened:
    """q as the prior, from which an optimiser may start."""
    return Whitened(jnp.zeros(variables), jnp.eye(variables))


def _whiten(model, x, z, features, jitter):
    """W = Luu⁻¹ cov(u, f(x)), and what u leaves of the variance of f(x)."""
    kernel = model.kernel
    variance = kernel.covariance(jnp.zeros(()))
    own = features.own(kernel, z)
    root = jnp.linalg.cholesky(own + jitter * variance * jnp.eye(len(own)))
    W = solve_triangular(root, features.cross(kernel, x, z).T, lower=True)
    return W, variance - jnp.sum(W**2, axis=0)


def _expected_fit(model, residual_squares, variances):
    """E_q[log p(y | f)], from the sums over the data of (y − mean)² and of the variances of f."""
    noise = model.likelihood.variance.value
    squares = jnp.sum(residual_squares) + jnp.sum(variances)
    return -(len(residual_squares) * jnp.log(2 * jnp.pi * noise) + squares / noise) / 2


@partial(jax.jit, static_argnames="features")
def collapsed(model, x, y, z, features=VALUES, jitter=JITTER):
    """The bound at the best q for the hyperparameters as they are, and that q."""
    noise = model.likelihood.variance.value
    W, left = _whiten(model, x, z, features, jitter)
    precision = jnp.eye(len(W)) + W @ W.T / noise
    # From the last variable to the first, so that the inverse of the factor is lower triangular.
    upper = jnp.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]
    c = solve_triangular(upper, W @ y) / noise
    bound = _expected_fit(model, y**2, left) + (c @ c) / 2 - jnp.sum(jnp.log(jnp.diagonal(upper)))
    factor = solve_triangular(upper, jnp.eye(len(W))).T
    return bound, Whitened(factor @ c, factor)


@partial(jax.jit, static_argnames="features")
def uncollapsed(q, model, x, y, z, features=VALUES, jitter=JITTER):
    """The bound at q."""
    W, left = _whiten(model, x, z, features, jitter)
    factor = jnp.tril(q.factor)
    fit = _expected_fit(model, (y - q.mean @ W) ** 2, left + jnp.sum((factor.T @ W) ** 2, axis=0))
    squares = jnp.sum(factor**2) + q.mean @ q.mean - len(q.mean)
    return fit - squares / 2 + jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))


# Gradient in (mean, factor), everything else as it is.
bound_and_gradient = jax.jit(jax.value_and_grad(uncollapsed), static_argnames="features")


@partial(jax.jit, static_argnames="features")
def predict(q, model, z, x_new, features=VALUES, jitter=JITTER):
    """Mean and variance of f at new points."""
    W, left = _whiten(model, x_new, z, features, jitter)
    return q.mean @ W, left + jnp.sum((jnp.tril(q.factor).T @ W) ** 2, axis=0)


@jax.jit
def exact(model, x, y, x_new):
    """The exact GP, in O(N³): log evidence, and mean and variance of f at new points."""
    kernel, noise = model.kernel, model.likelihood.variance.value
    root = jnp.linalg.cholesky(kernel(x, x) + noise * jnp.eye(len(x)))
    white = solve_triangular(root, y, lower=True)
    half = solve_triangular(root, kernel(x, x_new), lower=True)
    evidence = -(white @ white + len(y) * jnp.log(2 * jnp.pi)) / 2
    evidence -= jnp.sum(jnp.log(jnp.diagonal(root)))
    variance = kernel.covariance(jnp.zeros(())) - jnp.sum(half**2, axis=0)
    return evidence, white @ half, variance


def learn(bound: Callable, model: sg.GP) -> tuple[sg.GP, float]:
    """The model whose hyperparameters maximise `bound(model)`, by L-BFGS from those it has."""
    negative = jax.jit(jax.value_and_grad(lambda vector: -bound(with_vector(model, vector))))

    def function(vector):
        value, gradient = negative(jnp.asarray(vector))
        return float(value), np.asarray(gradient)

    options = {"ftol": 1e-14, "gtol": 1e-7, "maxiter": 500}
    start = np.asarray(to_vector(model))
    found = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    return with_vector(model, jnp.asarray(found.x)), -float(found.fun)
