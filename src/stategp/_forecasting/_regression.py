"""A Gaussian process plus effects: f(x) = GP(x) + Σ βⱼ φⱼ(x), with β ~ N(0, S).

Given β, f is a Gaussian process whose mean is shifted. β and the hyperparameters are found
together, and then β is integrated out. Every observation acts as a Gaussian one of some precision
(its own for Gaussian observations, that of its site for others), so that log p(y | β) is quadratic
with the curvature

    H = Φᵀ (K + noise)⁻¹ Φ = Φᵀ precision (Φ − G),

where column j of G, the response, is what the GP would be were the data φⱼ. With b its slope at
zero, β has the covariance C = (S⁻¹ + H)⁻¹ and the mean C b, and f the variance

    Var(f(x) | β) + (φ(x) − G(x))ᵀ C (φ(x) − G(x)).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting import fit
from stategp._forecasting._design import Design
from stategp._forecasting._regression_posterior import RegressionPosterior, pairs_of
from stategp._inference import infer
from stategp._models import GP
from stategp._posteriors import Posterior, per_point, read_weights
from stategp._runtime import on_device, pad_inducing, pad_last, padded_size
from stategp.likelihoods import Gaussian
from stategp.means import Tabulated, Zero
from stategp.parameters import Parameter, fixed
from stategp.priors import Normal

_NOISE = 0.1  # of the variance of f, for the sizes of steps of a search
_COLUMNS = 8  # columns come in multiples of that many, so that few programs are compiled
_SPREAD = 1.0  # of the prior of a size that is learned, in logarithms
_SIZES = np.exp(np.linspace(-5.0, 3.0, 161))  # that are tried, in units of what is expected


class Coefficients(NamedTuple):
    """β a posteriori, and the log of ∫ p(y | β) p(β) dβ / p(y | β = 0)."""

    mean: np.ndarray
    covariance: np.ndarray
    gain: float


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
    if not isinstance(inducing, str) or inducing not in ("auto", "data"):
        raise ValueError(
            "with regressors, holidays or events there is an inducing point at every observation: "
            f"leave inducing out, or give 'data'; got {inducing!r}"
        )
    if len(model.kernels) > 1:
        raise ValueError(
            "regressors, holidays and events need a likelihood with one latent function, not "
            f"{type(model.likelihood).__name__}"
        )
    seen = np.isfinite(y)
    matrix = design.matrix(x)
    matrix[~seen] = 0.0  # where nothing need be known
    deviations = expected_sizes(design) * _size_of_f(model, y[seen], options, seen)
    basis, priors = _basis(matrix[seen], deviations)
    mean = _tabulated(model, x[seen], matrix[seen] @ basis, priors)
    fitted = fit(GP(model.kernels, model.likelihood, mean), x, y, inducing="data", **options)
    learned = fitted.model.means[0]
    assert isinstance(learned, Tabulated)
    weights = basis @ np.asarray(learned.weights.value)[: basis.shape[1]]
    plain = GP(fitted.model.kernels, fitted.model.likelihood, (learned.base,))
    return integrated(fitted, plain, design, weights, deviations)


def expected_sizes(design: Design) -> np.ndarray:
    """The standard deviation of every coefficient a priori, in units of that of f."""
    scales = [effect.scale for effect in design.effects] + [1.0]
    return np.array([scales[column.group] for column in design.columns])


def _size_of_f(model: GP, y: np.ndarray, options: dict[str, Any], seen: np.ndarray) -> float:
    extra = options.get(model.likelihood.extra or "")
    beside = np.full(len(y), model.likelihood.extra_default)
    if extra is not None:
        beside = np.broadcast_to(np.asarray(extra, dtype=float), len(seen))[seen]
    f = np.asarray(model.likelihood.guess(y, beside)).reshape(len(y), -1)[:, 0]
    return float(np.std(f)) or 1.0


def _basis(matrix: np.ndarray, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Combinations of coefficients that white noise would leave independent, of variance one.

    They are independent a priori, too; their standard deviations there come second.
    """
    used = np.flatnonzero(np.any(matrix != 0, axis=0))
    scaled = matrix[:, used] * deviations[used]
    noise = _NOISE * np.max(deviations, initial=1.0) ** 2
    values, vectors = np.linalg.eigh(scaled.T @ scaled / noise + np.eye(len(used)))
    basis = np.zeros((matrix.shape[1], len(used)))
    basis[used] = deviations[used, None] * vectors / np.sqrt(values)
    return basis, np.sqrt(values)


def _tabulated(model: GP, x: np.ndarray, columns: np.ndarray, priors: np.ndarray) -> Tabulated:
    """The mean of the model and the columns, padded to few sizes."""
    times, first = np.unique(np.asarray(x, dtype=float), return_index=True)
    more = -columns.shape[1] % _COLUMNS
    table = np.pad(columns[first], [(0, 0), (0, more)])
    spread = np.pad(priors, (0, more), constant_values=1.0)
    weights, spread = on_device((np.zeros(len(spread)), spread))
    size = padded_size(max(len(times), 2))
    inputs, rows = on_device((pad_last(times, size), pad_last(table, size)))
    prior = Normal(0.0, spread)
    return Tabulated(model.means[0], Parameter(weights, "real", prior=prior), inputs, rows)


def integrated(
    fitted: Posterior, model: GP, design: Design, weights: np.ndarray, deviations: np.ndarray
) -> RegressionPosterior:
    """The posterior of the model without effects, fitted with those of `weights`, and of these."""
    data = fitted.data
    x = np.asarray(data.x)
    matrix = design.matrix(x + float(data.origin))
    slope, precision = _precisions(fitted)
    used = np.flatnonzero(np.any(matrix != 0, axis=0))
    means, linear = _responses(model, fitted, matrix[:, used], precision)
    response = np.zeros((matrix.shape[1], *means.shape[1:]))
    response[used] = means
    inducing = np.asarray(fitted.relative_inducing)
    kernel = model.kernels[0]
    read = read_weights(kernel, inducing, x)
    interval = np.searchsorted(inducing, x, side="right")
    G = np.einsum("nw,pnw->np", read, pairs_of(response)[:, interval])
    H = matrix.T @ (precision[:, None] * (matrix - G))
    H = (H + H.T) / 2
    b = matrix.T @ slope + H @ weights
    deviations = _learned_sizes(design, deviations, H, b)
    found = coefficients(H, b, deviations)
    moved = found.mean - weights
    start = fitted.elbo - weights @ (matrix.T @ slope) - weights @ H @ weights / 2
    (site,), (pairs,) = fitted.sites, fitted.marginals
    shifted = np.asarray(pairs.mean) - np.tensordot(moved, pairs_of(response), 1)
    pulled = np.asarray(site.linear) - np.tensordot(moved[used], linear, 1)
    sites = dataclasses.replace(site, linear=on_device(pulled))
    marginals = dataclasses.replace(pairs, mean=on_device(shifted))
    return RegressionPosterior(
        model, data, fitted.relative_inducing, (sites,), (marginals,), float(start + found.gain),
        fitted.fit_result, fitted.certificate, fitted.indefinite, fitted.is_bound,
        design=design, effect_mean=found.mean, effect_covariance=found.covariance,
        effect_deviations=deviations, responses=response,
    )  # fmt: skip


def _precisions(fitted: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Slope and precision of what each observation says about f."""
    data, likelihood = fitted.data, fitted.model.likelihood
    weights = np.asarray(data.weights)
    x = np.asarray(data.x) + float(data.origin)
    mean, variance = map(np.asarray, fitted.predict_f(x))
    y, extra = np.asarray(data.y), np.asarray(data.extra)
    if isinstance(likelihood, Gaussian):
        precision = weights / (float(likelihood.variance.value) + extra)
        return precision * (y - mean), precision
    slopes = per_point(likelihood, "expected_slopes", y, mean, variance, extra)
    g, h = map(np.asarray, slopes[1:])
    return weights * g, np.maximum(-2 * weights * h, 0.0)


def _responses(
    model: GP, fitted: Posterior, columns: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The means of the states were the data these columns, and the sites of those data."""
    inducing = np.asarray(fitted.relative_inducing)
    states, dim = len(inducing), model.kernels[0].state_dim
    counts = precision > 0
    if columns.shape[1] == 0 or not counts.any():
        nothing = np.zeros((columns.shape[1], states, dim))
        return nothing, np.zeros((columns.shape[1], states + 1, 2 * dim))
    noise = 1 / precision[counts]
    least = float(noise.min())
    gaussian = GP(model.kernels, Gaussian(variance=fixed(least)), Zero())
    x = np.asarray(fitted.data.x)[counts]
    keep = np.append(np.arange(states), -1)
    means, linear = [], []
    padded = on_device(pad_inducing(inducing))
    for column in columns[counts].T:
        seen: Any = (x, column, noise - least, np.ones(len(x)), fitted.data.origin)
        data = Observations(*seen)
        q = infer(gaussian, data, padded).q
        pairs, site = jax.tree.map(np.asarray, (q.marginals[0].mean, q.sites[0].linear))
        means.append(pairs[:states, dim:])
        linear.append(site[keep])
    return np.stack(means), np.stack(linear)


def coefficients(H: np.ndarray, b: np.ndarray, deviations: np.ndarray) -> Coefficients:
    """β where log p(y | β) is b·β − ½ β·H β plus a constant, and β has these deviations."""
    scaled = deviations[:, None] * H * deviations
    values, vectors = np.linalg.eigh(scaled)
    values = np.maximum(values, 0.0)  # not below zero but by rounding
    root = deviations[:, None] * vectors / np.sqrt(1 + values)
    white = root.T @ b
    gain = (white @ white - np.sum(np.log1p(values))) / 2
    return Coefficients(root @ white, root @ root.T, float(gain))


def _learned_sizes(
    design: Design, deviations: np.ndarray, H: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """Sizes of coefficients of which there are several alike: the most probable ones."""
    groups = np.array([column.group for column in design.columns])
    smooth = [number for number, e in enumerate(design.effects) if e.kind == "smooth"]
    for group in [*smooth, -1]:
        inside = groups == group
        if not inside.any():
            continue
        chances = [
            coefficients(H, b, np.where(inside, size * deviations, deviations)).gain
            - (np.log(size) / _SPREAD) ** 2 / 2
            for size in _SIZES
        ]
        best = _SIZES[int(np.argmax(chances))]
        deviations = np.where(inside, best * deviations, deviations)
    return deviations
