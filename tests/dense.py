"""Dense twins in NumPy: what the library must agree with, at cubic cost."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def _covariance(kernel, left, right):
    return kernel(left, right)


@jax.jit
def _transitions(kernel, lags):
    return jax.vmap(kernel.transition)(lags)


class Regression(NamedTuple):
    log_evidence: float
    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray


def gp(kernel, x, y, noise, x_new) -> Regression:
    """Exact GP regression from the kernel's closed form; `noise` is a number or one per point."""
    n = len(x)
    everywhere = jnp.asarray(np.concatenate([x, x_new]))
    K = np.asarray(_covariance(kernel, everywhere, everywhere))  # of all: one program
    C = K[:n, :n] + np.diag(np.broadcast_to(noise, n))
    cross = K[n:, :n]
    L = np.linalg.cholesky(C)
    white = np.linalg.solve(L, np.asarray(y))
    half = np.linalg.solve(L, cross.T)
    covariance = K[n:, n:] - half.T @ half
    evidence = -white @ white / 2 - np.log(np.diag(L)).sum() - n / 2 * np.log(2 * np.pi)
    return Regression(evidence, half.T @ white, np.diag(covariance), covariance)


def state_covariances(kernel, z, x):
    """Covariances of the states at z, and of f(x) with them, from A and P₀ alone."""
    z, x = np.asarray(z), np.asarray(x)
    d, P0, H = kernel.state_dim, np.asarray(kernel.stationary_covariance()), kernel.emission()
    H = np.asarray(H)
    lags = [np.maximum(v, 0.0) for v in (z[:, None] - z, x[:, None] - z, z - x[:, None])]
    flat = _transitions(kernel, jnp.asarray(np.concatenate([v.ravel() for v in lags])))
    parts = np.split(np.asarray(flat), np.cumsum([v.size for v in lags])[:-1])
    among, ahead, behind = (
        part.reshape(*v.shape, d, d) for part, v in zip(parts, lags, strict=True)
    )
    lower = (among @ P0).transpose(0, 2, 1, 3)
    order = np.arange(len(z))
    blocks = np.where(
        (order[:, None] >= order)[:, None, :, None], lower, lower.transpose(2, 3, 0, 1)
    )
    rows = np.where((x[:, None] >= z)[..., None], H @ ahead @ P0, behind @ P0 @ H)
    Kuu, Kfu = blocks.reshape(len(z) * d, len(z) * d), rows.reshape(len(x), len(z) * d)
    return Kuu, Kfu


class Sparse(NamedTuple):
    elbo: float
    kl: float
    state_mean: np.ndarray
    state_covariance: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def sparse(kernel, x, y, noise, z, x_new) -> Sparse:
    """Titsias' bound with the states at z as inter-domain features, written densely."""
    Kuu, Kfu = state_covariances(kernel, z, x)
    _, Ksu = state_covariances(kernel, z, x_new)
    W = np.linalg.solve(Kuu, Kfu.T).T
    Qff = W @ Kfu.T
    prior = float(kernel.covariance(jnp.zeros(())))
    C = Qff + np.diag(np.broadcast_to(noise, len(x)))
    _, logdet = np.linalg.slogdet(C)
    fit = -(y @ np.linalg.solve(C, y) + logdet + len(x) * np.log(2 * np.pi)) / 2
    elbo = fit - np.sum((prior - np.diag(Qff)) / noise) / 2
    S = Kuu - Kfu.T @ np.linalg.solve(C, Kfu)
    m = Kfu.T @ np.linalg.solve(C, y)
    _, logdet_p = np.linalg.slogdet(Kuu)
    _, logdet_q = np.linalg.slogdet(S)
    inner = np.trace(np.linalg.solve(Kuu, S)) + m @ np.linalg.solve(Kuu, m) - len(m)
    kl = (inner + logdet_p - logdet_q) / 2
    Ws = np.linalg.solve(Kuu, Ksu.T).T
    variance = prior - np.einsum("ni,ni->n", Ws, Ksu) + np.einsum("ni,ij,nj->n", Ws, S, Ws)
    return Sparse(elbo, kl, m, S, Ws @ m, variance)
