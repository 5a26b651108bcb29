"""Small fits that the tests of pictures and reports share: trend, season, a gap, missing values."""

import functools

import numpy as np

import stategp as sg


def to_time(x: np.ndarray) -> np.ndarray:
    """Years since 2015 as dates."""
    seconds = np.round(np.asarray(x, dtype=float) * 365.25 * 86400)
    return np.datetime64("2015-01-01", "us") + seconds.astype("timedelta64[s]")


def _inputs() -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 8, 280))
    x = x[(x < 4.0) | (x > 5.0)]
    return x, np.sin(2 * np.pi * x) + 0.5 * np.sin(0.7 * x), rng


def _kernel() -> sg.kernels.Kernel:
    season = sg.kernels.Harmonic(weights=[1.0], frequency=sg.fixed(1.0), lengthscale=sg.fixed(50.0))
    return sg.kernels.Sum(trend=sg.kernels.Matern32(lengthscale=3.0), season=season)


@functools.cache
def gaussian_posterior() -> sg.Posterior:
    x, f, rng = _inputs()
    y = 10 + f + 0.4 * rng.standard_normal(len(x))
    y[::50] = np.nan
    return sg.fit(sg.GP(_kernel(), mean=sg.means.Constant()), x, y, inducing=30)


@functools.cache
def poisson_posterior() -> sg.Posterior:
    x, f, rng = _inputs()
    y = rng.poisson(np.exp(1.2 + 0.7 * f)).astype(float)
    return sg.fit(sg.GP(_kernel(), "poisson", mean=sg.means.Constant()), x, y, inducing=30)
