"""`condition` and `fit`: from a model and data to a posterior."""

import dataclasses
import sys
import time
import warnings
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from stategp.data import Observations, observe, place_inducing
from stategp.inference import (
    FitResult,
    infer,
    maximise,
    objective_and_gradient,
    search_scales,
    starting_model,
)
from stategp.models import GP
from stategp.parameters import to_vector, with_vector
from stategp.posterior import Posterior

Inducing = int | Literal["data"] | Any

_REACH = 18.5  # hyperparameters move by at most a factor e¹⁸·⁵ ≈ 10⁸ either way
_START_SPREAD = 1.5  # standard deviation, in log units, of further starting points


class NotConvergedWarning(UserWarning):
    """A fit stopped before it reached an optimum."""


def condition(
    model: GP | Any, x: Any, y: Any, *, inducing: Inducing = "data", noise_variance: Any = None
) -> Posterior:
    """The posterior for the hyperparameters as they are.

    Arguments:
        model: what is believed about the function and how it is observed.
        x: inputs, one-dimensional, in any order; repeated values are fine.
        y: observations; NaN means missing.
        inducing: how the posterior is represented: a number of inducing points (placed by the
            quantiles of x over its range), an increasing array of locations, or "data", which
            makes inference exact.
        noise_variance: known noise variances, one number or one per observation, added to that
            of the likelihood.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    >>> posterior = sg.condition(model, np.arange(10), np.sin(np.arange(10)), inducing=5)
    """
    _check_model(model)
    data = observe(x, y, noise_variance)
    _check_noise(model, data)
    return _posterior(model, data, place_inducing(inducing, data), None)


def fit(
    model: GP | Any,
    x: Any,
    y: Any,
    *,
    inducing: Inducing = "data",
    noise_variance: Any = None,
    starts: int = 1,
    seed: int = 0,
    max_steps: int = 500,
    progress: bool | None = None,
) -> Posterior:
    """Learn the hyperparameters, then infer.

    Maximises the bound (plus the log priors, if parameters have any) by L-BFGS. Hyperparameters
    that were not given start from values taken from the data, fixed ones stay. A fit that did
    not converge warns and says so in `posterior.fit_result`; Ctrl-C keeps the best so far.

    Arguments:
        model, x, y, inducing, noise_variance: as for `condition`.
        starts: how many starting points to try; the best result is kept.
        seed: of the random starting points beyond the first.
        max_steps: the most L-BFGS steps from each starting point.
        progress: whether to show the bound on standard error; by default, when that is a
            terminal.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x))
    >>> posterior.fit_result.converged
    True
    """
    _check_model(model)
    if starts < 1 or max_steps < 1:
        raise ValueError(f"starts and max_steps must be at least 1, got {starts} and {max_steps}")
    data = observe(x, y, noise_variance)
    locations = place_inducing(inducing, data)
    model = starting_model(model, data)
    _check_noise(model, data)
    show = _Progress(sys.stderr.isatty() if progress is None else progress)
    try:
        model, result = _best_of_starts(model, data, locations, starts, seed, max_steps, show)
    finally:
        show.close()
    if not result.converged:
        warnings.warn(f"the fit did not converge: {result}", NotConvergedWarning, stacklevel=2)
    return _posterior(model, data, locations, result)


def _best_of_starts(
    model: GP,
    data: Observations,
    inducing: np.ndarray,
    starts: int,
    seed: int,
    max_steps: int,
    show: "_Progress",
) -> tuple[GP, FitResult]:
    first = np.asarray(to_vector(model))
    scales = search_scales(model, data)
    offsets = np.random.default_rng(seed).normal(0, _START_SPREAD, (starts, len(first)))
    offsets[0] = 0.0
    best: tuple[float, GP, FitResult] | None = None
    for number, offset in enumerate(offsets, start=1):
        show.start(number, starts)
        value, learned, result = _climb(
            with_vector(model, jnp.asarray(first + offset * scales)),
            data,
            inducing,
            max_steps,
            show,
        )
        better = best is None or (result.converged, value) > (best[2].converged, best[0])
        if better:
            best = value, learned, result
        if result.message.startswith("interrupted"):
            break
    assert best is not None
    return best[1], best[2]


def _climb(
    model: GP, data: Observations, inducing: np.ndarray, max_steps: int, show: "_Progress"
) -> tuple[float, GP, FitResult]:
    """One search, repeated if the kernel's truncation has to follow its new parameters."""
    while True:
        value, model, result = _search(model, data, inducing, max_steps, show)
        try:
            kernel = model.kernel.refined()
        except ValueError as error:  # more harmonics than anyone would want
            message = f"{result.message}; {error}"
            return value, model, dataclasses.replace(result, converged=False, message=message)
        if kernel.state_dim <= model.kernel.state_dim or not result.converged:
            return value, model, result
        model = GP(kernel, model.likelihood, model.mean)


def _search(
    model: GP, data: Observations, inducing: np.ndarray, max_steps: int, show: "_Progress"
) -> tuple[float, GP, FitResult]:
    scales = search_scales(model, data)
    locations = jnp.asarray(inducing)

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective_and_gradient(
            jnp.asarray(scaled * scales), model, data, locations
        )
        return float(value), np.asarray(gradient) * scales

    start = np.asarray(to_vector(model))
    if len(start) == 0:
        value = float(infer(model, data, locations).elbo)
        return value, model, FitResult(True, "nothing to learn", 0, (value,), (0.0,))
    best, value, result = maximise(
        function,
        start / scales,
        observations=len(data),
        reach=_REACH,
        max_steps=max_steps,
        report=show,
    )
    return value, with_vector(model, jnp.asarray(best * scales)), result


def _posterior(
    model: GP, data: Observations, inducing: np.ndarray, result: FitResult | None
) -> Posterior:
    locations = jnp.asarray(inducing)
    q = infer(model, data, locations)
    if not np.isfinite(q.elbo):
        raise FloatingPointError(
            f"inference lost all its digits for {model!r}: the signal is too many orders of "
            "magnitude above the noise for double precision; use hyperparameters closer to the "
            "scales of the data"
        )
    return Posterior(model, data, locations, q.sites, q.marginals, float(q.elbo), result)


def _check_model(model: object) -> None:
    if not isinstance(model, GP):
        raise ValueError(f"model must be an sg.GP, got {type(model).__name__}: {model!r}")


def _check_noise(model: GP, data: Observations) -> None:
    smallest = float(model.likelihood.variance) + float(jnp.min(data.known))
    if not smallest > 0:
        raise ValueError(
            "observations without noise: the likelihood's variance is zero, so noise_variance must "
            "be given and positive"
        )


class _Progress:
    """One line on standard error, rewritten a few times a second."""

    def __init__(self, visible: bool):
        self.visible, self.last, self.prefix, self.shown = visible, 0.0, "", False

    def start(self, number: int, starts: int) -> None:
        self.prefix = f"start {number} of {starts}, " if starts > 1 else ""

    def __call__(self, step: int, value: float) -> None:
        now = time.perf_counter()
        if self.visible and now - self.last > 0.2:
            self.last, self.shown = now, True
            sys.stderr.write(f"\r\033[Kfit: {self.prefix}step {step}, bound {value:.6g}")
            sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
