"""The two series of the time-warp study: five known functions, noise, and what is removed."""

import numpy as np

MISSING = ([(0.55, 0.6), (0.85, 0.9)], [(0.4, 0.5)])
FUNCTIONS = ("a1", "a2", "f", "g1", "g2")
Series = list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def shared(x):
    return (0.75 * (1 - np.tanh(10 * 2 * np.pi * x / 15)) + 0.25) * np.sin(10 * 2 * np.pi * x)


def warps(t):
    return [t, t**2]


def distortions(v):
    return [np.tanh(v), v]


def simulate(seed: int, noise: float, count: int = 1000) -> Series:
    """Inputs, observations, and which of them are removed, for both series."""
    rng = np.random.default_rng(seed)
    series = []
    for number in range(2):
        t = np.sort(rng.uniform(0, 1, count))
        y = distortions(shared(warps(t)[number]))[number] + noise * rng.standard_normal(count)
        series.append((t, y, missing(t, number)))
    return series


def missing(t: np.ndarray, number: int) -> np.ndarray:
    return np.any([(t > low) & (t < high) for low, high in MISSING[number]], axis=0)


def observed(series: Series) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [t[~gone] for t, _, gone in series], [y[~gone] for _, y, gone in series]
