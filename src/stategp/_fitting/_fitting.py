"""`condition` and `fit`: from a model and data to a posterior."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, Literal, overload

import jax.numpy as jnp
import numpy as np

from stategp._data import Observations, Observed, observe, observe_table, place_all, place_inducing
from stategp._fitting._additive import learn_additive
from stategp._fitting._automatic import Auto, as_auto, choose
from stategp._fitting._deep import learn_deep, observe_outputs
from stategp._fitting._learn import learn as learn_posterior
from stategp._fitting._settings import Settings
from stategp._inference import (
    ChainSites,
    FitResult,
    PowerEP,
    Sight,
    infer,
    starting_additive,
    starting_model,
    transfer_sites,
)
from stategp._models import GP, AdditiveGP, DeepGP
from stategp._posteriors import AdditivePosterior, DeepPosterior, Posterior
from stategp._runtime import Progress, make_room, pad_inducing
from stategp.parameters import Parameter, map_parameters

Inducing = int | Literal["data", "auto"] | Auto | Any
Method = Literal["natural", "gradient", "laplace", "ep", "vb"] | PowerEP | Any
Optimiser = Any  # "lbfgs", "adam" or an optax.GradientTransformation


class NotConvergedWarning(UserWarning):
    """A fit stopped before it reached an optimum."""


@overload
def condition(model: GP, x: Any, y: Any, **options: Any) -> Posterior: ...
@overload
def condition(model: AdditiveGP, x: Any, y: Any, **options: Any) -> AdditivePosterior: ...
@overload
def condition(model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Any) -> DeepPosterior: ...
def condition(  # type: ignore[misc]  # the arguments are listed here, not in the overloads
    model: GP | AdditiveGP | DeepGP | Any,
    x: Any,
    y: Any,
    *,
    inducing: Inducing = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Method = "natural",
    optimiser: Optimiser = None,
    batch_size: Any = None,
    step_size: Any = None,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    progress: bool | Progress | None = None,
) -> Any:
    """The posterior for the hyperparameters as they are.

    Arguments:
        model: what is believed about the function and how it is observed. The posterior of a deep
            model stands for its model, and for where the search starts.
        x: inputs, one-dimensional, in any order; repeated values are fine. Additive models: an
            array with a column for each kernel, a dictionary of columns or a data frame.
        y: observations; NaN means missing.
        inducing: how the posterior is represented: "auto" (as many inducing points as it takes,
            see `posterior.certificate`; `sg.Auto(tolerance=…)` says how exactly), a number (placed
            by the quantiles of x over its range), an increasing array of locations, or "data",
            which loses nothing. Additive models: one of these for all inputs, or a dictionary or
            list with one for each; their number is not searched for: "auto" is 64, or as many as
            the input has distinct values, and `sg.Auto` is refused.
        noise_variance: Gaussian observations: known noise variances, one number or one per
            observation, added to that of the likelihood.
        exposure: counts: what the rate is multiplied by, one number or one per observation.
        trials: binomial observations: out of how many.
        weights: how often each observation counts, once unless given.
        method: how the posterior is approximated. "natural": the variational optimum by natural
            gradients, which for Gaussian observations is exact and takes one step. "gradient": the
            same optimum by the optimiser, on the mean and precision factor of q. "laplace", "ep"
            (or `sg.PowerEP`) and, for logistic Bernoulli, "vb" are other approximations.
        optimiser: "lbfgs", "adam", or any Optax optimiser; for `fit` and for method="gradient".
            L-BFGS unless minibatches are asked for, then Adam.
        batch_size: observations per step; all of them unless given.
        step_size: of the natural gradient in minibatches: a number, or an Optax schedule.
        seed: of minibatches.
        max_steps: the most steps.
        tolerance: when to stop. Inference: how little q moves, in nats per observation (EP: the
            largest relative change of a site). L-BFGS: the slope per observation. Optax: how
            little the bound rises per observation; in minibatches all steps are taken unless
            this is given.
        progress: whether to show the bound on standard error; by default, when that is a
            terminal.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    >>> posterior = sg.condition(model, np.arange(10), np.sin(np.arange(10)), inducing=5)
    """
    begin = model if isinstance(model, DeepPosterior) else None
    model = model.model if isinstance(model, DeepPosterior) else model
    _check_model(model)
    settings = Settings.of(
        model, method, optimiser, batch_size, step_size, 1, seed, max_steps, tolerance
    )
    extras = {"noise_variance": noise_variance, "exposure": exposure, "trials": trials}
    frozen: Any = map_parameters(_freeze, model)
    if isinstance(model, DeepGP):
        series = observe_outputs(model, x, y, extras, weights)
        deep = _run_deep(frozen, series, inducing, settings, progress, begin)
        return dataclasses.replace(deep, model=deep.model.like(model))
    if isinstance(model, AdditiveGP):
        rows = observe_table(model.names, x, y, model.likelihood, extras=extras, weights=weights)
        settings.check(model, rows)
        additive = _run_additive(frozen, rows, inducing, settings, progress)
        return dataclasses.replace(additive, model=model)
    data = observe(x, y, model.likelihood, extras=extras, weights=weights)
    settings.check(model, data)
    posterior = _run(lambda _: frozen, data, inducing, settings, progress)
    return dataclasses.replace(posterior, model=model)


@overload
def fit(model: GP, x: Any, y: Any, **options: Any) -> Posterior: ...
@overload
def fit(model: AdditiveGP, x: Any, y: Any, **options: Any) -> AdditivePosterior: ...
@overload
def fit(model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Any) -> DeepPosterior: ...
def fit(  # type: ignore[misc]  # as for condition
    model: GP | AdditiveGP | DeepGP | Any,
    x: Any,
    y: Any,
    *,
    inducing: Inducing = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Method = "natural",
    optimiser: Optimiser = None,
    batch_size: Any = None,
    step_size: Any = None,
    starts: Any = 1,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    progress: bool | Progress | None = None,
) -> Any:
    """Learn the hyperparameters, then infer.

    Maximises the bound (plus the log priors, if parameters have any). Hyperparameters that were
    not given start from values taken from the data, fixed ones stay. A fit that did not converge
    warns and says so in `posterior.fit_result`; Ctrl-C keeps what has been reached.

    Arguments are those of `condition`, and two that are different here:

    Arguments:
        starts: how many starting points L-BFGS tries; the best result is kept.
        seed: of the random starting points beyond the first, and of minibatches.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x))
    >>> posterior.fit_result.converged
    True
    """
    begin = model if isinstance(model, DeepPosterior) else None
    model = model.model if isinstance(model, DeepPosterior) else model
    _check_model(model)
    settings = Settings.of(
        model, method, optimiser, batch_size, step_size, starts, seed, max_steps, tolerance
    )
    extras = {"noise_variance": noise_variance, "exposure": exposure, "trials": trials}
    if isinstance(model, DeepGP):
        series = observe_outputs(model, x, y, extras, weights)
        return _run_deep(model, series, inducing, settings, progress, begin)
    if isinstance(model, AdditiveGP):
        rows = observe_table(model.names, x, y, model.likelihood, extras=extras, weights=weights)
        start = starting_additive(model, rows)
        settings.check(start, rows)
        return _run_additive(start, rows, inducing, settings, progress)
    data = observe(x, y, model.likelihood, extras=extras, weights=weights)
    settings.check(starting_model(model, data), data)
    return _run(
        lambda stretch: starting_model(model, data, stretch), data, inducing, settings, progress
    )


def _run(
    start: Callable[[float], GP],
    data: Observations,
    inducing: Inducing,
    settings: Settings,
    progress: bool | Progress | None,
) -> Posterior:
    make_room()
    show = Progress.of(progress)
    auto = as_auto(inducing)
    try:
        if auto is None:
            locations = place_inducing(inducing, data)
            posterior = learn_posterior([start(1.0)], data, locations, settings, show, None)
        else:
            previous: list[Posterior] = []

            def learn(models: list[GP], locations: np.ndarray) -> Posterior:
                show.note(f"{len(locations)} inducing points, ")
                warm = _warm_start(models[0], data, previous, pad_inducing(locations))
                posterior = learn_posterior(models, data, locations, settings, show, warm)
                previous.append(posterior)
                return posterior

            def bound(model: GP, locations: np.ndarray) -> float:
                show.note(f"checking {len(locations)} inducing points, ")
                padded = pad_inducing(locations)
                # Where there are several optima, bounds are compared at the same one.
                start = previous if not model.likelihood.log_concave else []
                warm = _warm_start(model, data, start, padded)
                return float(infer(model, data, jnp.asarray(padded), warm).q.elbo)

            posterior = choose(start, data, auto, bound=bound, learn=learn, settings=settings)
    finally:
        show.close()
    _warn(posterior.fit_result)
    return posterior


def _run_additive(
    start: AdditiveGP,
    rows: Observed,
    inducing: Inducing,
    settings: Settings,
    progress: bool | Progress | None,
) -> AdditivePosterior:
    make_room()
    show = Progress.of(progress)
    try:
        locations = place_all(inducing, rows, start.names)
        posterior = learn_additive(start, rows, locations, settings, show)
    finally:
        show.close()
    _warn(posterior.fit_result)
    return posterior


def _run_deep(
    model: DeepGP,
    series: list[Observations],
    inducing: Inducing,
    settings: Settings,
    progress: bool | Progress | None,
    begin: DeepPosterior | None,
) -> DeepPosterior:
    settings.check_deep()
    if not (isinstance(inducing, str) and inducing == "auto"):
        raise ValueError("inducing points of a deep model are given to each sg.Layer")
    make_room()
    show = Progress.of(progress)
    try:
        posterior = learn_deep(model, series, settings, show, begin)
    finally:
        show.close()
    _warn(posterior.fit_result)
    return posterior


def _warn(result: FitResult | None) -> None:
    if result is not None and not result.converged:
        warnings.warn(f"the fit did not converge: {result}", NotConvergedWarning, stacklevel=4)


def _warm_start(
    model: GP, data: Observations, previous: list[Posterior], locations: np.ndarray
) -> ChainSites | None:
    """The last posterior, seen from other inducing points."""
    if not previous or model.likelihood.conjugate:
        return None
    last = previous[-1]
    inducing = jnp.asarray(locations)
    view, _ = Sight(data, inducing)(model)
    chain = last.chain
    return transfer_sites(model, chain.model, view, chain.inducing, chain.marginals, inducing)


def _freeze(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, learned=False)


def _check_model(model: object) -> None:
    if not isinstance(model, GP | AdditiveGP | DeepGP):
        raise ValueError(
            "model must be an sg.GP, an sg.AdditiveGP or an sg.DeepGP, got "
            f"{type(model).__name__}: {model!r}"
        )
