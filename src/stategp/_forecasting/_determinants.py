"""Slopes of the determinant that integrating over effects leaves, in the hyperparameters.

The determinant is that of I + CᵀΣ⁻¹C, with the columns C in units of what is expected of their
coefficients, and Σ the covariance of observations without effects. For Gaussian observations they
are slopes of log p(y) where y is a column, by the program that a search for hyperparameters has.
"""

import dataclasses

import numpy as np

from stategp._data import Observations
from stategp._fitting import fill_up
from stategp._forecasting._filtering import determinant_slopes, mean_at
from stategp._inference import Collapsed
from stategp._models import GP
from stategp._runtime import on_device
from stategp.likelihoods import Gaussian
from stategp.parameters import all_parameters, to_vector

_NOTHING = 1e-9  # of information about a combination of effects: there is none


def penalty_slopes(
    model: GP, data: Observations, inducing: np.ndarray, columns: np.ndarray, precision: np.ndarray,
    products: np.ndarray,
) -> list[np.ndarray]:  # fmt: skip
    """Derivatives of −½ log |I + CᵀΣ⁻¹C| in the logarithm of each parameter of the model.

    Columns have a row for each inducing point, which are the inputs of the data; `products` are
    CᵀΣ⁻¹C.
    """
    found = None
    if isinstance(model.likelihood, Gaussian):
        found = _by_evidence(model, data, inducing, columns, products)
    return _traced(model, data, inducing, columns, precision) if found is None else found


def _by_evidence(
    model: GP,
    data: Observations,
    inducing: np.ndarray,
    columns: np.ndarray,
    products: np.ndarray,
) -> list[np.ndarray] | None:
    """From log p(y) at the columns along the axes of the matrix, or None if it has few digits.

    Along an axis on which the matrix is m, (m − 1) is yᵀΣ⁻¹y, of which −½ is in log p(y).
    """
    sizes, axes = np.linalg.eigh(np.eye(len(products)) + products)
    state = np.searchsorted(inducing, np.asarray(data.x))
    base = mean_at(model.means[0], inducing + float(data.origin))
    states, vector = on_device(fill_up(model, data, inducing)), to_vector(model)

    def slope(values: np.ndarray) -> np.ndarray:
        seen = dataclasses.replace(data, y=(base + values)[state])
        return Collapsed(model, seen, states)(vector)[1]

    nothing = slope(np.zeros(len(inducing)))
    total = np.zeros_like(nothing)
    for size, axis in zip(sizes, axes.T, strict=True):
        if size > 1 + _NOTHING:
            total += (slope(columns @ axis) - nothing) / size
    if not np.all(np.isfinite(total)):
        return None
    parameters = list(all_parameters(model))
    counts = [p.value.size if p.learned else 0 for p in parameters]
    parts = np.split(total, np.cumsum(counts)[:-1])
    return [
        part.reshape(p.value.shape) if p.learned else np.zeros(p.value.shape)
        for part, p in zip(parts, parameters, strict=True)
    ]


def _traced(
    model: GP,
    data: Observations,
    inducing: np.ndarray,
    columns: np.ndarray,
    precision: np.ndarray,
) -> list[np.ndarray]:
    """By a program of their own."""
    (kernel,), likelihood = model.kernels, model.likelihood
    inside, outside = determinant_slopes(kernel, inducing, columns, precision)
    slopes = [np.zeros(p.value.shape) for p in all_parameters(model)]
    for number, parameter in enumerate(all_parameters(kernel)):
        slopes[number] = np.asarray(np.asarray(parameter.value) * inside[number])
    if isinstance(likelihood, Gaussian):  # whose variance comes after the kernel
        noise = float(likelihood.variance.value)
        whole = noise + np.asarray(data.extra)
        state = np.searchsorted(inducing, np.asarray(data.x))
        louder = np.bincount(state, -np.asarray(data.weights) * noise / whole**2, len(inducing))
        slopes[len(inside)] = np.asarray(outside @ louder)
    return slopes
