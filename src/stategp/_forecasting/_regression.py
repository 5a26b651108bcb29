"""A Gaussian process plus effects: f(x) = GP(x) + Σ βⱼ φⱼ(x), with β ~ N(0, S).

Given β, f is a Gaussian process whose mean is shifted. Every observation acts as a Gaussian one of
some precision (its own for Gaussian observations, that of its site for others), so that
log p(y | β) is quadratic, with the curvature H = Φᵀ(K + noise)⁻¹Φ. With b its slope at zero, β has
the covariance C = (S⁻¹ + H)⁻¹ and the mean C b, and f the variance

    Var(f(x) | β) + (φ(x) − G(x))ᵀ C (φ(x) − G(x)),

where Gⱼ, the response, is what the GP would be were the data φⱼ. Hyperparameters are learned with
β at its mean, and β is found for them, in turn. They hardly depend on each other, so that two turns
are enough, as a rule.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from stategp._data import observe
from stategp._fitting import NotConvergedWarning, condition, fit
from stategp._forecasting._coefficients import Coefficients, with_learned_sizes
from stategp._forecasting._design import Design
from stategp._forecasting._filtering import respond
from stategp._forecasting._regression_posterior import RegressionPosterior, pairs_of
from stategp._inference import Outcome, starting_model
from stategp._models import GP
from stategp._posteriors import Posterior, per_point
from stategp._runtime import on_device, pad_last, padded_size
from stategp.likelihoods import Gaussian
from stategp.means import Tabulated

_TURNS = 5
_MOVED = 0.1  # standard deviations that coefficients may still move in the last turn


def fit_with_effects(
    design: Design,
    model: GP,
    x: np.ndarray,
    y: np.ndarray,
    *,
    inducing: Any = "auto",
    **options: Any,
) -> RegressionPosterior:
    """The posterior of a model and of effects; options are those of `fit`."""
    _check(model, inducing)
    beside = {name: options[name] for name in (model.likelihood.extra,) if name in options}
    seen = np.isfinite(y)
    data = observe(x, y, model.likelihood, extras=beside)
    f = np.asarray(model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra)))
    expected = expected_sizes(design) * (float(np.std(f)) or 1.0)
    times, first = np.unique(np.asarray(x, dtype=float)[seen], return_index=True)
    matrix = design.matrix(np.asarray(x)[seen][first])

    def offset(model: GP, weights: np.ndarray) -> GP:
        return GP(model.kernels, model.likelihood, _tabulated(model, times, matrix @ weights))

    def found_with(posterior: Posterior, weights: np.ndarray) -> Found:
        return _found(posterior, plain(posterior.model), matrix, weights, expected, design)

    known = {name: v for name, v in options.items() if name in ("weights", model.likelihood.extra)}
    start = starting_model(model, data)
    nothing = np.zeros(matrix.shape[1])
    first_look = condition(offset(start, nothing), x, y, inducing="data", **known)
    found = found_with(first_look, nothing)
    for _ in range(_TURNS):
        weights = found.coefficients.mean
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConvergedWarning)
            fitted = fit(offset(model, weights), x, y, inducing="data", **options)
        found = found_with(fitted, weights)
        model = plain(fitted.model)
        moved = np.abs(found.coefficients.mean - weights)
        settled = moved <= _MOVED * np.sqrt(np.diagonal(found.coefficients.covariance))
        result = fitted.fit_result
        if np.all(settled) or (result and result.outcome is Outcome.interrupted):
            break
    for warning in caught:  # of the last turn only
        warnings.warn(warning.message, stacklevel=3)
    return _posterior(fitted, model, design, weights, found)


def plain(model: GP) -> GP:
    """The model without the effects that were put into its mean."""
    (mean,) = model.means
    assert isinstance(mean, Tabulated)
    return GP(model.kernels, model.likelihood, mean.base)


def _check(model: GP, inducing: Any) -> None:
    if len(model.kernels) > 1:
        raise ValueError(
            "regressors, holidays and events need a likelihood with one latent function, not "
            f"{type(model.likelihood).__name__}"
        )
    if not isinstance(inducing, str) or inducing not in ("auto", "data"):
        raise ValueError(
            "with regressors, holidays or events there is an inducing point at every observation: "
            f"leave inducing out, or give 'data'; got {inducing!r}"
        )


def expected_sizes(design: Design) -> np.ndarray:
    """The standard deviation of every coefficient a priori, in units of that of f."""
    scales = [effect.scale for effect in design.effects] + [1.0]
    return np.array([scales[column.group] for column in design.columns])


def _tabulated(model: GP, times: np.ndarray, values: np.ndarray) -> Tabulated:
    """The mean of the model plus values at some times, padded to few sizes."""
    size = padded_size(max(len(times), 2))
    inputs, rows = on_device((pad_last(times, size), pad_last(values, size)))
    return Tabulated(model.means[0], inputs, rows)


class Found(NamedTuple):
    """β for some hyperparameters."""

    coefficients: Coefficients
    curvature: np.ndarray  # of log p(y | β), and its slope at zero
    slope: np.ndarray
    states: np.ndarray  # of the chain, in response to each column
    pulls: np.ndarray  # what each column adds to the linear terms of sites: state by state


def _found(
    fitted: Posterior,
    model: GP,
    matrix: np.ndarray,
    weights: np.ndarray,
    expected: np.ndarray,
    design: Design,
) -> Found:
    """β, from a posterior given some of it; the matrix has a row for each inducing point."""
    target, precision = _observed(fitted, model, matrix @ weights)
    used = np.flatnonzero(np.any(matrix != 0, axis=0))
    kernel, inducing = model.kernels[0], np.asarray(fitted.relative_inducing)
    columns = np.concatenate([matrix[:, used], target[:, None]], axis=1)
    products, responses = respond(kernel, inducing, columns, precision)
    count = matrix.shape[1]
    H, b, states = (
        np.zeros((count, count)),
        np.zeros(count),
        np.zeros((count, *responses.shape[1:])),
    )
    H[np.ix_(used, used)] = products[:-1, :-1]
    b[used], states[used] = products[:-1, -1], responses[:-1]
    pulls = (precision[:, None] * matrix).T[..., None] * np.asarray(kernel.emission())
    return Found(with_learned_sizes(design, H, b, expected), H, b, states, pulls)


def _observed(fitted: Posterior, model: GP, offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is seen of GP + effects at each inducing point, without the mean, and its precision.

    `offset` are the effects that the posterior was given there.
    """
    data, likelihood = fitted.data, model.likelihood
    weights, y, extra = (np.asarray(column) for column in (data.weights, data.y, data.extra))
    inducing = np.asarray(fitted.relative_inducing)
    state = np.searchsorted(inducing, np.asarray(data.x))
    base = np.asarray(model.means[0](on_device(inducing + float(data.origin))))[state]
    if isinstance(likelihood, Gaussian):
        precision = weights / (float(likelihood.variance.value) + extra)
        pull = precision * (y - base)
    else:
        mean, variance = map(np.asarray, fitted.predict_f(np.asarray(data.x) + data.origin))
        slopes = per_point(likelihood, "expected_slopes", y, mean, variance, extra)
        g, h = map(np.asarray, slopes[1:])
        precision = np.maximum(-2 * weights * h, 0.0)
        pull = weights * g + precision * (mean - base)
    total = np.bincount(state, precision, len(inducing))
    return np.bincount(state, pull, len(inducing)) / np.where(total > 0, total, 1.0), total


def _posterior(
    fitted: Posterior, model: GP, design: Design, weights: np.ndarray, found: Found
) -> RegressionPosterior:
    """The posterior given some effects, moved to their mean; and the effects."""
    beta, H, b = found.coefficients, found.curvature, found.slope
    moved = beta.mean - weights
    (site,), (pairs,) = fitted.sites, fitted.marginals
    shifted = np.asarray(pairs.mean) - np.tensordot(moved, pairs_of(found.states), 1)
    linear = np.array(site.linear)
    dim = linear.shape[1] // 2
    linear[1:, :dim] -= np.tensordot(moved, found.pulls, 1)  # a state is left of its interval
    without = fitted.elbo - b @ weights + weights @ H @ weights / 2
    return RegressionPosterior(
        model,
        fitted.data,
        fitted.relative_inducing,
        (dataclasses.replace(site, linear=on_device(linear)),),
        (dataclasses.replace(pairs, mean=on_device(shifted)),),
        float(without + beta.gain),
        fitted.fit_result,
        fitted.certificate,
        fitted.indefinite,
        fitted.is_bound,
        design=design,
        effect_mean=beta.mean,
        effect_covariance=beta.covariance,
        effect_deviations=beta.deviations,
        responses=found.states,
    )
