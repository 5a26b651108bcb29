"""Variational Fourier features for additive Matérn-3/2 models (Hensman, Durrande, Solin 2017).

The inducing variables of each input are projections of its function on 1, cos and sin of whole
periods of an interval wider than the data. Their covariance with f(x) is the feature itself,
whatever the hyperparameters, so all that is ever needed of the data is Φᵀ Φ, Φᵀ y and yᵀ y, and a
step of the hyperparameters costs the same for any number of rows. One Gaussian is joint over the
coefficients of all inputs (no mean field). Interval and frequencies are those of its authors'
airline study: [-2, 3] for inputs in [0, 1], frequencies 0 to 29.

Rows are looked at through pairs of distinct values: a sum over rows of a product of functions of
two inputs is a sum over a table that counts how often each pair of values occurs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, cho_solve, solve_triangular
from scipy.optimize import minimize

LOW, HIGH, FREQUENCIES = -2.0, 3.0, 30


class Statistics(NamedTuple):
    """All that is needed of the data."""

    gram: jax.Array  # Φᵀ Φ, the features of all inputs side by side
    projected: jax.Array  # Φᵀ y
    squares: float  # yᵀ y
    rows: int


class Fit(NamedTuple):
    """What was learned: parameters as logarithms, the bound, and q over the coefficients."""

    parameters: np.ndarray
    bound: float
    steps: int
    weights: np.ndarray  # the mean of f(x) is features(x) @ weights
    shrinkage: np.ndarray  # its variance: the prior's − features(x) @ shrinkage @ features(x)
    frequencies: int

    @property
    def noise(self) -> float:
        return float(np.exp(self.parameters[-1]))


def _omega(frequencies: int) -> np.ndarray:
    return 2 * np.pi * np.arange(frequencies) / (HIGH - LOW)


def features(x: np.ndarray, frequencies: int = FREQUENCIES) -> np.ndarray:
    """cov(u, f(x)), a row for each x: cosines (a constant first), then sines."""
    if np.any((x < LOW) | (x > HIGH)):
        raise ValueError(f"features are for inputs in [{LOW}, {HIGH}]")
    angles = (x[:, None] - LOW) * _omega(frequencies)
    return np.concatenate([np.cos(angles), np.sin(angles[:, 1:])], axis=1)


def feature_covariance(variance, lengthscale, frequencies: int = FREQUENCIES):
    """cov(u, u) of one input: inner products in the Matérn-3/2 RKHS on the interval.

    With λ = √3 / lengthscale the inner product of g and h is
    [∫ (λ²g + 2λg′ + g″)(λ²h + 2λh′ + h″) / 4λ³ + g(low) h(low) + g′(low) h′(low) / λ²] / variance;
    the integral is diagonal in whole periods, the rest has rank two.
    """
    rate, omega = jnp.sqrt(3.0) / lengthscale, jnp.asarray(_omega(frequencies))
    integral = (HIGH - LOW) * (rate**2 + omega**2) ** 2 / (8 * rate**3)
    cosines = jnp.diag(integral.at[0].multiply(2.0)) + 1.0
    slopes = omega[1:] / rate
    sines = jnp.diag(integral[1:]) + jnp.outer(slopes, slopes)
    return block_diag(cosines, sines) / variance


def statistics(x: np.ndarray, y: np.ndarray, frequencies: int = FREQUENCIES) -> Statistics:
    distinct = [np.unique(column, return_inverse=True) for column in x.T]
    seen = [features(values, frequencies) for values, _ in distinct]
    blocks = [[np.empty(0)] * len(seen) for _ in seen]
    for i, (own, (values, index)) in enumerate(zip(seen, distinct, strict=True)):
        for j in range(i + 1):
            others = len(distinct[j][0])
            pairs = np.bincount(index * others + distinct[j][1], minlength=len(values) * others)
            blocks[i][j] = own.T @ pairs.reshape(len(values), others) @ seen[j]
            blocks[j][i] = blocks[i][j].T
    sums = [
        own.T @ np.bincount(index, weights=y, minlength=len(values))
        for own, (values, index) in zip(seen, distinct, strict=True)
    ]
    gram = jnp.asarray(np.block(blocks))
    return Statistics(gram, jnp.asarray(np.concatenate(sums)), float(y @ y), len(y))


def _split(parameters, inputs: int):
    """Variances, lengthscales and the variance of the noise."""
    values = jnp.exp(parameters)
    return values[:inputs], values[inputs:-1], values[-1]


class _Solved(NamedTuple):
    root: jax.Array  # of cov(u, u)
    inner: jax.Array  # root of B = 1 + root⁻¹ Φᵀ Φ root⁻ᵀ / noise
    white: jax.Array  # root⁻¹ Φᵀ y / noise


def _solve(parameters, data: Statistics, inputs: int) -> tuple[_Solved, jax.Array]:
    variances, lengthscales, noise = _split(parameters, inputs)
    frequencies = (data.gram.shape[0] // inputs + 1) // 2
    blocks = [
        jnp.linalg.cholesky(feature_covariance(variances[i], lengthscales[i], frequencies))
        for i in range(inputs)
    ]
    root = block_diag(*blocks)
    half = solve_triangular(root, data.gram, lower=True)
    whole = solve_triangular(root, half.T, lower=True) / noise
    inner = jnp.linalg.cholesky(jnp.eye(len(root)) + whole)
    white = solve_triangular(root, data.projected, lower=True) / noise
    return _Solved(root, inner, white), jnp.trace(whole)


def bound(parameters, data: Statistics, inputs: int):
    """The collapsed bound for (log variances, log lengthscales, log noise variance)."""
    variances, _, noise = _split(parameters, inputs)
    solved, explained = _solve(parameters, data, inputs)
    best = solve_triangular(solved.inner, solved.white, lower=True)
    evidence = -data.rows / 2 * jnp.log(2 * jnp.pi * noise)
    evidence -= jnp.sum(jnp.log(jnp.diagonal(solved.inner)))
    evidence += (best @ best - data.squares / noise) / 2
    return evidence - (data.rows * jnp.sum(variances) / noise - explained) / 2


_per_row = jax.jit(
    jax.value_and_grad(lambda v, data, inputs: -bound(v, data, inputs) / data.rows),
    static_argnums=2,
)


def start(inputs: int) -> np.ndarray:
    """For standardised y and inputs in [0, 1]: equal shares of the variance, a half is noise."""
    return np.log(np.r_[np.full(inputs, 0.5 / inputs), np.full(inputs, 0.3), 0.5])


def fit(data: Statistics, inputs: int, max_steps: int = 200) -> Fit:
    """Hyperparameters by L-BFGS, then q."""

    def function(v):
        value, slope = _per_row(jnp.asarray(v), data, inputs)
        return float(value), np.asarray(slope)

    # Walls that no answer is near keep the search where the algebra has its digits.
    walls = [(np.log(1e-8), np.log(1e4))] * inputs + [(np.log(1e-2), np.log(1e2))] * inputs
    walls += [(np.log(1e-4), np.log(1e2))]
    options = {"ftol": 1e-8, "gtol": 1e-6, "maxiter": max_steps}
    found = minimize(
        function, start(inputs), jac=True, method="L-BFGS-B", bounds=walls, options=options
    )
    return infer(found.x, data, inputs)._replace(steps=int(found.nit))


def infer(parameters: np.ndarray, data: Statistics, inputs: int) -> Fit:
    """q for given hyperparameters."""
    solved, _ = _solve(jnp.asarray(parameters), data, inputs)
    eye = jnp.eye(len(solved.white))
    inverse = cho_solve((solved.inner, True), eye)
    back = solve_triangular(solved.root, eye, lower=True)
    weights = np.asarray(back.T @ inverse @ solved.white)
    shrinkage = np.asarray(back.T @ (eye - inverse) @ back)
    value = float(bound(jnp.asarray(parameters), data, inputs))
    return Fit(parameters, value, 0, weights, shrinkage, (len(eye) // inputs + 1) // 2)


def predict(fitted: Fit, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at the rows of x, by tables over pairs of distinct values."""
    size = 2 * fitted.frequencies - 1
    distinct = [np.unique(column, return_inverse=True) for column in x.T]
    seen = [features(values, fitted.frequencies) for values, _ in distinct]
    mean = np.zeros(len(x))
    variance = np.full(len(x), np.sum(np.exp(fitted.parameters[: x.shape[1]])))
    for i, (own, (_, index)) in enumerate(zip(seen, distinct, strict=True)):
        here = slice(i * size, (i + 1) * size)
        mean += (own @ fitted.weights[here])[index]
        half = own @ fitted.shrinkage[here]
        variance -= np.sum(half[:, here] * own, axis=1)[index]
        for j in range(i):
            pairs = half[:, j * size : (j + 1) * size] @ seen[j].T
            variance -= 2 * pairs[index, distinct[j][1]]
    return mean, variance
