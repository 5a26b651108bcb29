"""Rows as scikit-learn hands them over, and as the models take them."""

from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Every distinct row once, in an order of its own, and how often it counts."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, sample_weight: Any) -> "Rows":
        """Equal rows become one, so that repeating a row is the same as a weight, exactly."""
        weights = _as_weights(sample_weight, len(y))
        counts = weights > 0
        x, y, weights = x[counts], y[counts], weights[counts]
        order = np.lexsort([y, *x.T])
        x, y, weights = x[order], y[order], weights[order]
        differs = (y[1:] != y[:-1]) | np.any(x[1:] != x[:-1], axis=1)
        first = np.flatnonzero(np.append(True, differs))
        return Rows(x[first], y[first], np.add.reduceat(weights, first))


def _as_weights(sample_weight: Any, count: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(count)
    weights = np.asarray(sample_weight, dtype=float)
    weights = np.full(count, weights) if weights.ndim == 0 else weights
    if weights.shape != (count,):
        raise ValueError(
            f"sample_weight must have one number for each of {count} rows, got shape "
            f"{weights.shape}"
        )
    if not (np.all(np.isfinite(weights)) and np.all(weights >= 0)):
        raise ValueError("sample_weight must be finite and zero or more in every row")
    if not weights.any():
        raise ValueError("every sample_weight is zero: at least one row must count")
    return weights


def as_input(x: np.ndarray) -> np.ndarray:
    """What a posterior takes: one column on its own, or the table."""
    return x[:, 0] if x.shape[1] == 1 else x
