"""A Gaussian process plus effects: f(x) = GP(x) + Σ βⱼ φⱼ(x), with β ~ N(0, S).

Given β, f is a Gaussian process whose mean is shifted. Every observation acts as a Gaussian one of
some precision (its own for Gaussian observations, that of its site for others), so that
log p(y | β) is quadratic, with the curvature H = Φᵀ(K + noise)⁻¹Φ. With b its slope at zero, β has
the covariance C = (S⁻¹ + H)⁻¹ and the mean C b, and f the variance

    Var(f(x) | β) + (φ(x) − G(x))ᵀ C (φ(x) − G(x)),

where Gⱼ, the response, is what the GP would be were the data φⱼ. Hyperparameters are learned with
β at its mean (`_tilting` has what that leaves out), and β is found for them, in turn. They hardly
depend on each other, so that two turns are enough, as a rule.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Observations, distinct_inputs, observe
from stategp._fitting import NotConvergedWarning, condition, fit
from stategp._forecasting._coefficients import Coefficients, with_learned_sizes
from stategp._forecasting._design import Design
from stategp._forecasting._filtering import determinant_slopes, respond
from stategp._forecasting._regression_posterior import RegressionPosterior, pairs_of
from stategp._forecasting._tabulated import Tabulated
from stategp._forecasting._tilting import level, short_of_slope, tilted, upright
from stategp._inference import Outcome, starting_model
from stategp._models import GP
from stategp._posteriors import Posterior, per_point
from stategp._runtime import on_device, pad_last, padded_size
from stategp.likelihoods import Gaussian
from stategp.parameters import Parameter, all_parameters, map_parameters

_TURNS = 6
_SHORT = 0.005  # nats of the slopes that the last turn may not have seen
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
    _check(model, inducing, options.get("checkpoint"))
    beside = {n: options[n] for n in (model.likelihood.extra, "weights") if n in options}
    extras = {name: value for name, value in beside.items() if name != "weights"}
    data = observe(x, y, model.likelihood, extras=extras)
    effects = _Effects.of(design, model, data)
    model = level(starting_model(model, data))
    found = effects.found(condition(effects.added_to(model, None), x, y, inducing="data", **beside))
    for turn in range(_TURNS):
        weights = found.coefficients.mean
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConvergedWarning)
            fitted = fit(effects.added_to(model, weights), x, y, inducing="data", **options)
        found = effects.found(fitted)
        model = without_effects(fitted.model)
        moved = np.abs(found.coefficients.mean - weights)
        settled = moved <= _MOVED * np.sqrt(np.diagonal(found.coefficients.covariance))
        enough = turn > 0 and np.all(settled) and short_of_slope(model) <= _SHORT
        result = fitted.fit_result
        if enough or (result and result.outcome is Outcome.interrupted):
            break
        model = tilted(model, effects.slopes(model, found))
    for warning in caught:  # of the last turn only
        warnings.warn(warning.message, stacklevel=3)
    return _posterior(fitted, upright(model), design, weights, found)


def condition_with_effects(
    design: Design, model: GP, x: np.ndarray, y: np.ndarray, **options: Any
) -> RegressionPosterior:
    """The posterior of a model and of effects, for hyperparameters as they are."""
    if isinstance(model.likelihood, Gaussian):  # for which one look is enough
        _check(model, options.get("inducing", "data"), None)
        beside = {n: options[n] for n in (model.likelihood.extra, "weights") if n in options}
        extras = {name: value for name, value in beside.items() if name != "weights"}
        effects = _Effects.of(design, model, observe(x, y, model.likelihood, extras=extras))
        seen = condition(
            effects.added_to(model, None), x, y, inducing="data", progress=False, **beside
        )
        nothing = np.zeros(len(design.columns))
        return _posterior(seen, model, design, nothing, effects.found(seen))

    def frozen(parameter: Parameter) -> Parameter:
        return dataclasses.replace(parameter, given=True, learned=False)

    found = fit_with_effects(design, map_parameters(frozen, model), x, y, **options)
    same: RegressionPosterior = dataclasses.replace(found, model=model)
    return same


def without_effects(model: GP) -> GP:
    """The model without the effects that were put into its mean."""
    (mean,) = model.means
    assert isinstance(mean, Tabulated)
    return GP(model.kernels, model.likelihood, mean.base)


def _check(model: GP, inducing: Any, checkpoint: Any) -> None:
    if checkpoint is not None:
        raise ValueError(
            "a fit with regressors, holidays or events is many short ones and keeps no "
            "checkpoint: leave checkpoint out"
        )
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
    scales = [effect.scale for effect in design.effects]
    columns = design.columns
    return np.array([scales[column.group] if column.group >= 0 else 1.0 for column in columns])


class Found(NamedTuple):
    """β for some hyperparameters."""

    coefficients: Coefficients
    curvature: np.ndarray  # of log p(y | β), and its slope at zero
    slope: np.ndarray
    states: np.ndarray  # of the chain, in response to each column
    pulls: np.ndarray  # what each column adds to the linear terms of sites: state by state
    precision: np.ndarray  # of what is observed at each state
    precision_slope: np.ndarray  # its derivative in the logarithm of the variance of the noise


@dataclasses.dataclass(frozen=True)
class _Effects:
    """Columns at the inducing points, which are all times that have an observation."""

    design: Design
    times: np.ndarray  # as the user has them, and from the origin
    inducing: np.ndarray
    matrix: np.ndarray
    expected: np.ndarray  # standard deviations of coefficients

    @staticmethod
    def of(design: Design, model: GP, data: Observations) -> "_Effects":
        f = model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
        expected = expected_sizes(design) * (float(np.std(f)) or 1.0)
        inducing = distinct_inputs(np.asarray(data.x))
        times = inducing + float(data.origin)
        return _Effects(design, times, inducing, design.matrix(times), expected)

    def added_to(self, model: GP, weights: np.ndarray | None) -> GP:
        """The model with effects in its mean, padded to few sizes."""
        values = np.zeros(len(self.times)) if weights is None else self.matrix @ weights
        size = padded_size(max(len(self.times), 2))
        inputs, rows = on_device((pad_last(self.times, size), pad_last(values, size)))
        return GP(model.kernels, model.likelihood, Tabulated(model.means[0], inputs, rows))

    def found(self, fitted: Posterior) -> Found:
        """β, from a posterior given some of it."""
        model, matrix = without_effects(fitted.model), self.matrix
        target, precision, precision_slope = _observed(fitted, model)
        used = np.flatnonzero(np.any(matrix != 0, axis=0))
        kernel, count = model.kernels[0], matrix.shape[1]
        columns = np.concatenate([matrix[:, used], target[:, None]], axis=1)
        products, responses = respond(kernel, self.inducing, columns, precision)
        H, b = np.zeros((count, count)), np.zeros(count)
        states = np.zeros((count, *responses.shape[1:]))
        H[np.ix_(used, used)] = products[:-1, :-1]
        b[used], states[used] = products[:-1, -1], responses[:-1]
        pulls = (precision[:, None] * matrix).T[..., None] * np.asarray(kernel.emission())
        beta = with_learned_sizes(self.design, H, b, self.expected)
        return Found(beta, H, b, states, pulls, precision, precision_slope)

    def slopes(self, model: GP, found: Found) -> list[np.ndarray]:
        """Of the determinant, in the logarithm of each parameter of the model."""
        (kernel,), columns = model.kernels, self.matrix * found.coefficients.deviations
        inside, outside = determinant_slopes(kernel, self.inducing, columns, found.precision)
        slopes = [np.zeros(p.value.shape) for p in all_parameters(model)]
        for number, parameter in enumerate(all_parameters(kernel)):
            slopes[number] = np.asarray(np.asarray(parameter.value) * inside[number])
        if isinstance(model.likelihood, Gaussian):  # whose variance comes after the kernel
            slopes[len(inside)] = np.asarray(outside @ found.precision_slope)
        return slopes


def _observed(fitted: Posterior, model: GP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is seen of GP and effects at each inducing point, its precision, and that one's slope.

    The slope is the derivative in the logarithm of the variance of Gaussian noise.
    """
    data, likelihood = fitted.data, model.likelihood
    weights, y, extra = (np.asarray(column) for column in (data.weights, data.y, data.extra))
    inducing = np.asarray(fitted.relative_inducing)
    state = np.searchsorted(inducing, np.asarray(data.x))
    base = np.asarray(model.means[0](on_device(inducing + float(data.origin))))[state]
    slope = np.zeros(len(y))
    if isinstance(likelihood, Gaussian):
        variance = float(likelihood.variance.value)
        precision = weights / (variance + extra)
        slope = -precision * variance / (variance + extra)
        pull = precision * (y - base)
    else:
        mean, spread = map(np.asarray, fitted.predict_f(np.asarray(data.x) + data.origin))
        slopes = per_point(likelihood, "expected_slopes", y, mean, spread, extra)
        g, h = map(np.asarray, slopes[1:])
        precision = np.maximum(-2 * weights * h, 0.0)
        pull = weights * g + precision * (mean - base)

    def at_states(values: np.ndarray) -> np.ndarray:
        return np.bincount(state, values, len(inducing))

    total = at_states(precision)
    return at_states(pull) / np.where(total > 0, total, 1.0), total, at_states(slope)


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
