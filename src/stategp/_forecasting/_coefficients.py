"""Coefficients of effects: Gaussian, where log p(y | β) is quadratic in them."""

from typing import NamedTuple

import numpy as np

from stategp._forecasting._design import SLOPES, Design

_SMOOTH, _NOISE = 7, 0.1  # degree of a first smooth curve, and the share of noise then
_SPREAD = 1.0  # of the prior of a size that is learned, in logarithms
_REACH = 5.0  # how far it may be from what is expected, in logarithms


class Coefficients(NamedTuple):
    """β a posteriori, its deviations a priori, and log of ∫ p(y | β) p(β) dβ / p(y | β = 0)."""

    mean: np.ndarray
    covariance: np.ndarray
    deviations: np.ndarray
    gain: float


def roughly_without(design: Design, x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """f without what a regression on effects and a smooth curve makes of them: for first looks."""
    scaled = 2 * (x - x.min()) / (np.ptp(x) or 1.0) - 1
    curve = np.polynomial.legendre.legvander(scaled, min(_SMOOTH, len(x) // 4))
    columns = design.matrix(x)
    away = columns - curve @ np.linalg.lstsq(curve, columns, rcond=None)[0]
    rest = f - curve @ np.linalg.lstsq(curve, f, rcond=None)[0]
    noise = _NOISE * float(np.var(rest)) or 1.0
    sizes = np.full(columns.shape[1], float(np.std(f)) or 1.0)
    without: np.ndarray = (
        f - columns @ coefficients(away.T @ away / noise, away.T @ rest / noise, sizes).mean
    )
    return without


def coefficients(H: np.ndarray, b: np.ndarray, deviations: np.ndarray) -> Coefficients:
    """β where log p(y | β) is b·β − ½ β·H β plus a constant, and β has these deviations."""
    # I + S½ H S½, which is no smaller than one in any direction.
    root = np.linalg.cholesky(np.eye(len(b)) + deviations[:, None] * H * deviations)
    half = np.linalg.solve(root, np.diag(deviations))
    white = half @ b
    gain = white @ white / 2 - np.sum(np.log(np.diagonal(root)))
    return Coefficients(half.T @ white, half.T @ half, deviations, float(gain))


def with_learned_sizes(
    design: Design, H: np.ndarray, b: np.ndarray, deviations: np.ndarray
) -> Coefficients:
    """β, where effects of which there are several alike have the most probable size.

    These are all occasions together, all changes of slope together, and the coefficients of each
    smooth effect.
    """
    groups = np.array([column.group for column in design.columns])
    smooth = [number for number, e in enumerate(design.effects) if e.kind == "smooth"]
    for group in [*smooth, -1, SLOPES]:
        inside = groups == group
        if not np.any(H[inside]):  # nothing is known of it
            continue
        size = _best_size(H, b, deviations, inside)
        deviations = np.where(inside, size * deviations, deviations)
    return coefficients(H, b, deviations)


def _best_size(H: np.ndarray, b: np.ndarray, deviations: np.ndarray, inside: np.ndarray) -> float:
    """What the deviations inside a group are multiplied by."""
    from scipy.optimize import minimize_scalar  # slow to import

    def loss(log_size: float) -> float:
        sized = np.where(inside, np.exp(log_size) * deviations, deviations)
        return (log_size / _SPREAD) ** 2 / 2 - coefficients(H, b, sized).gain

    best = minimize_scalar(loss, bounds=(-_REACH, _REACH), method="bounded")
    return float(np.exp(best.x))
