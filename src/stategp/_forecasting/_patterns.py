"""A pattern that repeats exactly, by regression: many harmonics that take no states."""

from typing import Any

import equinox as eqx
import numpy as np

from stategp._fitting import fit
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.means import Constant, Periodic
from stategp.parameters import fixed

_NEIGHBOURS = 5  # harmonics over which the spectrum of what is left is averaged


def exact_pattern(
    x: np.ndarray, y: np.ndarray, period: float, harmonics: int
) -> tuple[Periodic, np.ndarray, float]:
    """The Fourier series of a pattern in y, each harmonic shrunk by what noise adds to it.

    A slow part that is straight within each period is estimated along with it and left to others.
    Harmonics that do not rise above the spectrum between them vanish. Returned with its values
    at x, and with how many numbers it took from the data.
    """
    numbers = np.arange(1, harmonics + 1)
    angles = 2 * np.pi * np.outer(np.remainder(x / period, 1.0), numbers)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    design = np.concatenate([waves, _slow(x, period)], axis=1)
    fitted = np.linalg.lstsq(design, y, rcond=1e-10)[0]
    cosines, sines = fitted[:harmonics], fitted[harmonics : 2 * harmonics]
    noise = 4 * _spectrum_between(x, y - design @ fitted, period, harmonics) / len(x)
    power = cosines**2 + sines**2
    kept = np.maximum(0.0, 1 - 2 * noise / np.maximum(power, 1e-300))
    shrunk, level = np.tile(kept, 2) * fitted[: 2 * harmonics], float(np.median(y))
    series = Periodic(
        level=fixed(level),
        period=fixed(period),
        cosines=fixed(shrunk[:harmonics]),
        sines=fixed(shrunk[harmonics:]),
    )
    return series, level + waves @ shrunk, 2 * float(np.sum(kept))


def _slow(x: np.ndarray, period: float) -> np.ndarray:
    """Columns of which any continuous curve that is straight within each period is a sum."""
    first, last = float(x.min()), float(x.max())
    knots = np.linspace(first, last, max(int(np.ceil((last - first) / period)), 1) + 1)
    width = knots[1] - knots[0]
    return np.maximum(0.0, 1 - np.abs(x[:, None] - knots) / width)


def _spectrum_between(x: np.ndarray, left: np.ndarray, period: float, harmonics: int) -> np.ndarray:
    """The power of what is left near each harmonic, from the frequencies half way between them."""
    place = (x - x.min()) / (np.ptp(x) or 1.0)
    taper = np.sin(np.pi * place) ** 2
    tapered = left * taper / np.sqrt(np.mean(taper**2) or 1.0)
    between = (np.arange(harmonics + 1) + 0.5) / period
    waves = np.exp(-2j * np.pi * np.outer(between, x - x.min()))
    power = np.abs(waves @ tapered) ** 2 / len(x) + 1e-300
    near = np.sqrt(power[:-1] * power[1:]) * 1.3  # a geometric mean of two lies below the mean
    edge = _NEIGHBOURS // 2
    averaging = np.ones(_NEIGHBOURS) / _NEIGHBOURS
    return np.convolve(np.pad(near, edge, mode="edge"), averaging, mode="valid")


def pattern_values(pattern: Periodic, x: np.ndarray) -> np.ndarray:
    """The pattern less its level, harmonic by harmonic: no table of all of them."""
    wave = np.exp(2j * np.pi * np.remainder(x / float(pattern.period.value), 1.0))
    values = np.zeros_like(wave)
    sizes = np.asarray(pattern.cosines.value) - 1j * np.asarray(pattern.sines.value)
    for size in sizes[::-1]:
        values += size
        values *= wave
    return np.ascontiguousarray(values.real)


def fit_beside(
    pattern: Periodic, model: GP, x: np.ndarray, y: np.ndarray, **options: Any
) -> Posterior:
    """As `fit` of the model, which has that mean function and Gaussian observations.

    These say of f what y less the pattern does of the rest. The latter is slower, and sums over
    longer stretches follow it.
    """
    rows = np.flatnonzero(np.isfinite(y))
    rows = rows[np.argsort(x[rows], kind="stable")]
    columns = {
        name: option[rows] if np.shape(option) == x.shape else option
        for name, option in options.items()
    }
    x, y = x[rows], y[rows]
    rest = y - pattern_values(pattern, x)
    level = Constant(fixed(float(pattern.level.value)))
    found: Posterior = fit(GP(model.kernel, model.likelihood, level), x, rest, **columns)
    return eqx.tree_at(lambda tree: (tree.model.means[0], tree.data.y), found, (pattern, y))
