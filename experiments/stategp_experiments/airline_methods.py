"""The methods of the airline study: each learns from training rows and predicts others."""

import time
import warnings
from typing import NamedTuple

import numpy as np
import optax

import stategp as sg
from stategp_experiments import fourier

BATCH = 10_000
BATCHED = 2 * 1_000_000 // 3  # training rows from which the paper takes minibatches
RATE = 0.01  # of Adam and of natural gradients, in the paper
ADAM = optax.adam(RATE)
PLACES = np.linspace(0, 1, 61)  # days of the week and of the month lie on this grid
STAGES = (2 * 10_000 // 3, 2 * 100_000 // 3)  # rows that a larger fit begins with
TOLERANCE = 1e-4  # slope of the bound per row


class Learned(NamedTuple):
    """Predictions of one fit."""

    mean: np.ndarray
    variance: np.ndarray  # of f
    noise: float
    bound: float
    steps: int
    seconds: float  # to learn, without predicting
    posterior: sg.AdditivePosterior | None = None


def model(names, noise: float = 1.0) -> sg.AdditiveGP:
    """The noise starts as all of y's variance: far too small a start can cost Adam the run."""
    likelihood = sg.likelihoods.Gaussian(variance=noise)
    return sg.AdditiveGP({name: sg.kernels.Matern32() for name in names}, likelihood)


def with_adam(names, x, y, x_test, steps: int, noise: float = 1.0) -> Learned:
    """The paper's first scheme: Adam on all parameters, at the paper's rate."""
    began = time.perf_counter()
    posterior = _fit_with_adam(model(names, noise), x, y, steps, method="gradient")
    return _learned(posterior, x_test, time.perf_counter() - began)


def with_natural_gradients(names, x, y, x_test, steps: int) -> Learned:
    """The paper's second: natural gradients on q, Adam on the rest, both at the paper's rate."""
    began = time.perf_counter()
    posterior = _fit_with_adam(model(names), x, y, steps, method="natural", step_size=RATE)
    return _learned(posterior, x_test, time.perf_counter() - began)


def _fit_with_adam(start, x, y, steps: int, **settings) -> sg.AdditivePosterior:
    return _fit(
        start,
        x,
        y,
        inducing=[PLACES] * len(start.names),
        optimiser=ADAM,
        batch_size=BATCH if len(x) >= BATCHED else None,
        max_steps=steps,
        **settings,
    )


def with_our_rates(names, x, y, x_test, steps: int) -> Learned:
    """The same with the library's rates and minibatches of 10,000 at every size."""
    began = time.perf_counter()
    posterior = _fit(model(names), x, y, batch_size=BATCH, max_steps=steps)
    return _learned(posterior, x_test, time.perf_counter() - began)


def with_all_rows(names, x, y, x_test, steps: int, noise: float = 1.0) -> Learned:
    """Natural gradients and L-BFGS on all rows, from hyperparameters learned on fewer of them."""
    began = time.perf_counter()
    start = model(names, noise)
    for rows in STAGES:
        if rows < len(x):
            start = _fit(start, x[:rows], y[:rows], tolerance=TOLERANCE).model
    posterior = _fit(start, x, y, tolerance=TOLERANCE, max_steps=steps)
    return _learned(posterior, x_test, time.perf_counter() - began)


def _fit(start, x, y, **settings) -> sg.AdditivePosterior:
    with warnings.catch_warnings():  # the number of steps is ours to decide
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        return sg.fit(start, x, y, **settings)


def _learned(posterior: sg.AdditivePosterior, x_test, seconds: float) -> Learned:
    mean, variance = (np.asarray(v) for v in posterior.predict_f(x_test))
    noise, steps = float(posterior.model.likelihood.variance), posterior.fit_result.steps
    return Learned(mean, variance, noise, posterior.elbo, steps, seconds, posterior)


def with_fourier_features(names, x, y, x_test, steps: int) -> Learned:
    """The baseline: 59 Fourier features for each input, a joint Gaussian over all coefficients."""
    began = time.perf_counter()
    found = fourier.fit(fourier.statistics(x, y), len(names), steps)
    seconds = time.perf_counter() - began
    mean, variance = fourier.predict(found, x_test)
    return Learned(mean, variance, found.noise, found.bound, found.steps, seconds)


METHODS = {  # and how many steps each may take
    "VFF": (with_fourier_features, 200),
    "Adam": (with_adam, 2000),
    "Adam + natural": (with_natural_gradients, 2000),
    "our rates": (with_our_rates, 1500),
    "all rows": (with_all_rows, 60),
}
