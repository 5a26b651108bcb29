"""Dense twins of approximate inference: full covariance matrices, textbook algorithms, NumPy.

Log densities here come from SciPy or are written out, not from the library.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.linalg import block_diag
from scipy.optimize import minimize


class Approximation(NamedTuple):
    log_evidence: float  # the bound, or the method's approximation of it
    mean: np.ndarray
    variance: np.ndarray


def variational(K, expected) -> Approximation:
    """The best Gaussian for f ~ N(0, K), found by L-BFGS on a whitened mean and factor.

    `expected(mean, variance)` is Σ E[log p(y | f)] as a JAX function.
    """
    n = len(K)
    root, found = _climbed(K, lambda mean, spread: expected(mean, jnp.sum(spread**2, axis=1)))
    factor = np.zeros((n, n))
    factor[np.tril_indices(n)] = found.x[n:]
    return Approximation(-found.fun, root @ found.x[:n], np.sum((root @ factor) ** 2, axis=1))


def _climbed(K, expected, lower=None):
    """A root of K, and where L-BFGS ended: whitened mean and factor.

    `expected` is a function of the mean and of a root of the covariance, whose whitened factor has
    zeros but at the indices `lower`.
    """
    n = len(K)
    root = np.linalg.cholesky(K + 1e-12 * np.eye(n) * np.trace(K) / n)
    lower = np.tril_indices(n) if lower is None else lower

    def bound(parameters):
        mean, factor = parameters[:n], jnp.zeros((n, n)).at[lower].set(parameters[n:])
        fit = expected(root @ mean, root @ factor)
        diagonal = jnp.diagonal(factor)
        kl = (jnp.sum(factor**2) + mean @ mean - n) / 2 - jnp.sum(jnp.log(jnp.abs(diagonal)))
        return kl - fit

    value_and_grad = jax.jit(jax.value_and_grad(bound))
    start = np.concatenate([np.zeros(n), np.eye(n)[lower]])
    for _ in range(3):  # L-BFGS restarted forgets a bad history
        found = minimize(
            lambda v: tuple(np.asarray(part) for part in value_and_grad(v)),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50},
        )
        start = found.x
    return root, found


class Jointly(NamedTuple):
    bound: float
    mean: np.ndarray  # (points, functions)
    covariance: np.ndarray  # of the functions at each point: (points, functions, functions)


def variational_jointly(kernels, means, x, expected) -> Jointly:
    """The best Gaussian over several functions at x, all of them dependent under it.

    `expected(mean, covariance)` is Σ E[log p(y | f)] as a JAX function of moments at each point.
    """
    n, count = len(x), len(kernels)
    prior = np.repeat(np.asarray(means, dtype=float), n)
    K = np.zeros((count * n, count * n))
    for i, kernel in enumerate(kernels):
        K[i * n : (i + 1) * n, i * n : (i + 1) * n] = kernel(x, x)

    def moments(mean, spread):
        """By point; `spread` is a root of the covariance of everything."""
        each = spread.reshape(count, n, -1)
        return mean.reshape(count, n).T, jnp.einsum("int,jnt->nij", each, each)

    def looked_at(mean, spread):
        return expected(*moments(mean + prior, spread))

    root, found = _climbed(K, looked_at)
    factor = np.zeros_like(K)
    factor[np.tril_indices(len(K))] = found.x[len(K) :]
    mean, covariance = moments(root @ found.x[: len(K)] + prior, jnp.asarray(root @ factor))
    return Jointly(-found.fun, np.asarray(mean), np.asarray(covariance))


def variational_apart(priors, expected) -> Approximation:
    """The best Gaussian over several functions whose parts are all independent under it.

    `priors` has a list for each function: the covariances of the parts that it is the sum of.
    Moments have a row for each point and a column for each function.
    """
    n, parts = len(priors[0][0]), [len(each) for each in priors]
    blocks, owner = [K for each in priors for K in each], np.repeat(np.arange(len(parts)), parts)
    lower = np.nonzero(np.tril(block_diag(*[np.ones((n, n))] * len(blocks))))
    sums = jnp.asarray(owner[None] == np.arange(len(parts))[:, None], dtype=float)

    def moments(mean, spread):
        """Of the functions, from a mean and a root of the covariance of all parts."""
        variance = jnp.sum(spread**2, axis=1)
        return tuple((sums @ part.reshape(len(blocks), n)).T for part in (mean, variance))

    def looked_at(mean, spread):
        means, variances = moments(mean, spread)
        return expected(means, variances[:, :, None] * jnp.eye(len(parts))[None])

    root, found = _climbed(block_diag(*blocks), looked_at, lower)
    factor = np.zeros_like(root)
    factor[lower] = found.x[len(root) :]
    mean, variance = moments(root @ found.x[: len(root)], root @ factor)
    return Approximation(-found.fun, np.asarray(mean), np.asarray(variance))


def product_rule(log_density, y, functions, order):
    """Σ E[log p(y | f)] on a product of Gauss–Hermite nodes, for `variational_jointly`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(*[nodes] * functions, indexing="ij"), -1).reshape(-1, functions)
    table = np.stack(np.meshgrid(*[weights] * functions, indexing="ij"), -1)
    total = np.prod(table, axis=-1).ravel() / np.sqrt(2 * np.pi) ** functions

    def expected(mean, covariance):
        f = mean[:, None] + jnp.asarray(grid)[None] @ jnp.linalg.cholesky(covariance).mT
        return jnp.sum(log_density(jnp.asarray(y)[:, None], f) * total[None])

    return expected


def quadrature(log_density, y, order=80):
    """Σ E[log p(y | f)] by Gauss–Hermite, for `variational`."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    weights = weights / np.sqrt(2 * np.pi)

    def expected(mean, variance):
        f = mean[:, None] + jnp.sqrt(variance)[:, None] * nodes[None, :]
        return jnp.sum(log_density(y[:, None], f) * weights[None, :])

    return expected


def laplace_logit(K, y) -> Approximation:
    """Newton's method for logistic classification (Rasmussen & Williams, algorithm 3.1)."""
    sign, f = 2 * y - 1, np.zeros(len(y))
    for _ in range(100):
        p = 1 / (1 + np.exp(-f))
        W = p * (1 - p)
        B = np.eye(len(y)) + np.sqrt(W)[:, None] * K * np.sqrt(W)
        b = W * f + (y - p)
        a = b - np.sqrt(W) * np.linalg.solve(B, np.sqrt(W) * (K @ b))
        f = K @ a
    _, log_det = np.linalg.slogdet(B)
    evidence = -a @ f / 2 - np.sum(np.logaddexp(0, -sign * f)) - log_det / 2
    half = np.linalg.solve(np.linalg.cholesky(B), np.sqrt(W)[:, None] * K)
    return Approximation(evidence, f, np.diag(K) - np.sum(half**2, axis=0))


def ep_probit(K, y, sweeps=25) -> Approximation:
    """Sequential EP for probit classification (Rasmussen & Williams, algorithm 3.5)."""
    sign, n = 2 * y - 1, len(y)
    tau, nu = np.zeros(n), np.zeros(n)
    S, m = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            tau_c, nu_c = 1 / S[i, i] - tau[i], m[i] / S[i, i] - nu[i]
            m_c, v_c = nu_c / tau_c, 1 / tau_c
            z = sign[i] * m_c / np.sqrt(1 + v_c)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            m_hat = m_c + sign[i] * v_c * ratio / np.sqrt(1 + v_c)
            v_hat = v_c - v_c**2 * ratio / (1 + v_c) * (z + ratio)
            change = 1 / v_hat - tau_c - tau[i]
            tau[i], nu[i] = tau[i] + change, m_hat / v_hat - nu_c
            S = S - np.outer(S[:, i], S[:, i]) * change / (1 + change * S[i, i])
            m = S @ nu
        B = np.eye(n) + np.sqrt(tau)[:, None] * K * np.sqrt(tau)
        half = np.linalg.solve(np.linalg.cholesky(B), np.sqrt(tau)[:, None] * K)
        S = K - half.T @ half
        m = S @ nu
    tau_c, nu_c = 1 / np.diag(S) - tau, m / np.diag(S) - nu
    m_c, v_c = nu_c / tau_c, 1 / tau_c
    # log Z = Σ log Ẑ_i + log N(μ̃; 0, K + Σ̃) − Σ log N(μ̃_i; m_c, Σ̃_i + v_c)
    pseudo, noise = nu / tau, 1 / tau
    joint = stats.multivariate_normal(np.zeros(n), K + np.diag(noise)).logpdf(pseudo)
    local = stats.norm.logpdf(pseudo, m_c, np.sqrt(noise + v_c))
    tilted = stats.norm.logcdf(sign * m_c / np.sqrt(1 + v_c))
    return Approximation(joint + np.sum(tilted - local), m, np.diag(S))
