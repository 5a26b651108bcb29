"""New observations of all outputs at a time, as one Gaussian vector."""

import math
from typing import Any

import jax
import numpy as np

from stategp._models import MultiOutputGP
from stategp._posteriors._prediction import observe_samples
from stategp._runtime import on_device
from stategp.likelihoods import Gaussian


def noise_matrices(model: MultiOutputGP, extra: np.ndarray) -> np.ndarray:
    """The covariance of the noise at each point, with known variances (points, outputs) added."""
    R = np.asarray(model.noise_covariance())
    whole: np.ndarray = R[None] + extra[..., None] * np.eye(len(R))
    return whole


def draw_noise(key: Any, noise: np.ndarray, samples: int) -> np.ndarray:
    """Samples of the noise of all outputs: (samples, points, outputs)."""
    points, outputs = noise.shape[:2]
    nothing = np.zeros((samples, points))
    keys = jax.random.split(key, outputs)
    unit = Gaussian(variance=1.0)
    drawn = [np.asarray(observe_samples(unit, k, on_device(nothing), nothing)) for k in keys]
    every: np.ndarray = np.einsum("npq,qsn->snp", np.linalg.cholesky(noise), np.stack(drawn))
    return every


def vector_log_density(y: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Log density of what is not NaN in each row of y; NaN if nothing is there."""
    seen = ~np.isnan(y)
    both = seen[:, :, None] & seen[:, None]
    root = np.linalg.cholesky(np.where(both, covariance, np.eye(y.shape[1])))
    residual = np.where(seen, y - mean, 0.0)
    scaled = np.linalg.solve(root, residual[..., None])[..., 0]
    log_size = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
    count = np.sum(seen, axis=1)
    density = -np.sum(scaled**2, axis=1) / 2 - log_size - count * math.log(2 * math.pi) / 2
    return np.where(count > 0, density, np.nan)
