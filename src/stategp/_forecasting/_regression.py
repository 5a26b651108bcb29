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
from stategp._forecasting._design import SLOPES, Design, nearest
from stategp._forecasting._determinants import penalty_slopes
from stategp._forecasting._filtering import emission_of, mean_at, respond
from stategp._forecasting._regression_posterior import RegressionPosterior, pairs_of
from stategp._forecasting._tabulated import Tabulated
from stategp._forecasting._tilting import level, short_of_slope, tilted, upright
from stategp._inference import Outcome, starting_model
from stategp._models import GP
from stategp._posteriors import Posterior, per_point
from stategp._runtime import on_device, pad_last, padded_size
from stategp.likelihoods import Gaussian
from stategp.parameters import Parameter, map_parameters

_TURNS = 6
_SHORT = 0.005  # nats of the slopes that the last turn may not have seen
_STEEP = 3.0  # standard deviations of f that a change of slope adds over all of the data
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
    effects = _Effects.of(design, model, x, y, beside)
    model = level(starting_model(model, effects.data))
    found = effects.found(condition(*effects.given(model, None), inducing="data", **beside))
    for turn in range(_TURNS):
        weights = found.coefficients.mean
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConvergedWarning)
            fitted = fit(*effects.given(model, weights), inducing="data", **options)
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
    return _posterior(effects, fitted, upright(model), weights, found)


def condition_with_effects(
    design: Design, model: GP, x: np.ndarray, y: np.ndarray, **options: Any
) -> RegressionPosterior:
    """The posterior of a model and of effects, for hyperparameters as they are."""
    if isinstance(model.likelihood, Gaussian):  # for which one look is enough
        _check(model, options.get("inducing", "data"), None)
        beside = {n: options[n] for n in (model.likelihood.extra, "weights") if n in options}
        effects = _Effects.of(design, model, x, y, beside)
        seen = condition(*effects.given(model, None), inducing="data", progress=False, **beside)
        nothing = np.zeros(len(design.columns))
        return _posterior(effects, seen, model, nothing, effects.found(seen))

    def frozen(parameter: Parameter) -> Parameter:
        return dataclasses.replace(parameter, given=True, learned=False)

    found = fit_with_effects(design, map_parameters(frozen, model), x, y, **options)
    same: RegressionPosterior = dataclasses.replace(found, model=model)
    return same


def without_effects(model: GP) -> GP:
    """The model without the effects that were put into its mean, if they were."""
    (mean,) = model.means
    return GP(model.kernels, model.likelihood, mean.base) if isinstance(mean, Tabulated) else model


def _check(model: GP, inducing: Any, checkpoint: Any) -> None:
    if checkpoint is not None:
        raise ValueError(
            "a fit with regressors, holidays, events or changepoints is many short ones and keeps "
            "no checkpoint: leave checkpoint out"
        )
    if len(model.kernels) > 1:
        raise ValueError(
            "regressors, holidays, events and changepoints need a likelihood with one latent "
            f"function, not {type(model.likelihood).__name__}"
        )
    if not isinstance(inducing, str) or inducing not in ("auto", "data"):
        raise ValueError(
            "with regressors, holidays, events or changepoints there is an inducing point at every "
            f"observation: leave inducing out, or give 'data'; got {inducing!r}"
        )


def expected_sizes(design: Design) -> np.ndarray:
    """The standard deviation of every coefficient a priori, in units of that of f."""
    scales = dict(enumerate(effect.scale for effect in design.effects)) | {SLOPES: _STEEP}
    return np.array([scales.get(column.group, 1.0) for column in design.columns])


class Found(NamedTuple):
    """β for some hyperparameters."""

    coefficients: Coefficients
    curvature: np.ndarray  # of log p(y | β), and its slope at zero
    slope: np.ndarray
    states: np.ndarray  # of the chain, in response to each column
    pulls: np.ndarray  # what each column adds to the linear terms of sites: state by state
    precision: np.ndarray  # of what is observed at each state


@dataclasses.dataclass(frozen=True)
class _Effects:
    """Observations, and columns at the inducing points, which are all times that have one."""

    design: Design
    x: np.ndarray  # as they were given
    y: np.ndarray
    data: Observations
    times: np.ndarray  # as the user has them, and from the origin
    inducing: np.ndarray
    matrix: np.ndarray
    expected: np.ndarray  # standard deviations of coefficients

    @staticmethod
    def of(
        design: Design, model: GP, x: np.ndarray, y: np.ndarray, beside: dict[str, Any]
    ) -> "_Effects":
        extras = {name: value for name, value in beside.items() if name != "weights"}
        data = observe(x, y, model.likelihood, extras=extras, weights=beside.get("weights"))
        f = model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
        expected = expected_sizes(design) * (float(np.std(f)) or 1.0)
        inducing = distinct_inputs(np.asarray(data.x))
        times = inducing + float(data.origin)
        return _Effects(design, x, y, data, times, inducing, design.matrix(times), expected)

    def given(self, model: GP, weights: np.ndarray | None) -> tuple[GP, np.ndarray, np.ndarray]:
        """The model and its observations, if these are the effects.

        Gaussian observations are without them, so that programs without effects serve. Others have
        them in the mean of the model, padded to few sizes.
        """
        values = np.zeros(len(self.times)) if weights is None else self.matrix @ weights
        if isinstance(model.likelihood, Gaussian):
            return model, self.x, self.y - values[nearest(self.times, np.asarray(self.x))]
        size = padded_size(max(len(self.times), 2))
        inputs, rows = on_device((pad_last(self.times, size), pad_last(values, size)))
        mean = Tabulated(model.means[0], inputs, rows)
        return GP(model.kernels, model.likelihood, mean), self.x, self.y

    def found(self, fitted: Posterior) -> Found:
        """β, from a posterior given some of it."""
        model, matrix = without_effects(fitted.model), self.matrix
        target, precision = _observed(fitted, self.data, model)
        used = np.flatnonzero(np.any(matrix != 0, axis=0))
        kernel, count = model.kernels[0], matrix.shape[1]
        columns = np.concatenate([matrix[:, used], target[:, None]], axis=1)
        products, responses = respond(kernel, self.inducing, columns, precision)
        H, b = np.zeros((count, count)), np.zeros(count)
        states = np.zeros((count, *responses.shape[1:]))
        H[np.ix_(used, used)] = products[:-1, :-1]
        b[used], states[used] = products[:-1, -1], responses[:-1]
        pulls = (precision[:, None] * matrix).T[..., None] * emission_of(kernel)
        beta = with_learned_sizes(self.design, H, b, self.expected)
        return Found(beta, H, b, states, pulls, precision)

    def slopes(self, model: GP, found: Found) -> list[np.ndarray]:
        """Of the determinant, in the logarithm of each parameter of the model."""
        sizes = found.coefficients.deviations
        products = sizes[:, None] * found.curvature * sizes
        columns = self.matrix * sizes
        return penalty_slopes(model, self.data, self.inducing, columns, found.precision, products)


def _observed(fitted: Posterior, data: Observations, model: GP) -> tuple[np.ndarray, np.ndarray]:
    """What is seen of GP and effects at each inducing point, and its precision."""
    likelihood = model.likelihood
    weights, y, extra = (np.asarray(column) for column in (data.weights, data.y, data.extra))
    inducing = np.asarray(fitted.relative_inducing)
    state = np.searchsorted(inducing, np.asarray(data.x))
    base = mean_at(model.means[0], inducing + float(data.origin))[state]
    if isinstance(likelihood, Gaussian):
        precision = weights / (float(likelihood.variance.value) + extra)
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
    return at_states(pull) / np.where(total > 0, total, 1.0), total


def _posterior(
    effects: _Effects, fitted: Posterior, model: GP, weights: np.ndarray, found: Found
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
        effects.data,
        fitted.relative_inducing,
        (dataclasses.replace(site, linear=on_device(linear)),),
        (dataclasses.replace(pairs, mean=on_device(shifted)),),
        float(without + beta.gain),
        fitted.fit_result,
        fitted.certificate,
        fitted.indefinite,
        fitted.is_bound,
        design=effects.design,
        effect_mean=beta.mean,
        effect_covariance=beta.covariance,
        effect_deviations=beta.deviations,
        responses=found.states,
    )
