"""A pattern that repeats exactly, by regression: many harmonics that take no states."""

import numpy as np

from stategp.means import Periodic
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
