"""From the parameters of an estimator and its columns to a posterior."""

import warnings
from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from stategp import means
from stategp._arguments import positive_number, whole_number
from stategp._estimators._rows import Rows, as_input
from stategp._fitting import NotConvergedWarning, fit
from stategp._models import GP, AdditiveGP, StackedGP, as_kernel
from stategp._posteriors import AdditivePosterior, Posterior, StackedPosterior
from stategp.kernels import Kernel
from stategp.likelihoods import Softmax

Fitted = Posterior | AdditivePosterior | StackedPosterior


def fit_rows(estimator: Any, kernels: dict[str, Any], likelihood: Any, rows: Rows) -> Fitted:
    """The posterior of a GP on one column, of an additive model on several."""
    options = _options(estimator)
    model: GP | AdditiveGP | StackedGP
    if len(kernels) == 1:
        (kernel,) = kernels.values()
        # Of several functions the first has mean zero, since only their differences matter.
        several = isinstance(likelihood, Softmax)
        model = GP(kernel, likelihood, None if several else means.Constant())
    else:
        if options["starts"] > 1:
            raise ValueError(
                "n_restarts_optimizer must be 0 where X has several columns: additive models are "
                f"fitted from one start; got {estimator.n_restarts_optimizer}"
            )
        several = isinstance(likelihood, Softmax)
        whole = AdditiveGP(kernels, None if several else likelihood)
        model = StackedGP(whole, likelihood) if several else whole
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        posterior: Fitted = fit(model, as_input(rows.x), rows.y, weights=rows.weights, **options)
    result = posterior.fit_result
    if result is not None and not result.converged:
        message = str(result).replace("max_steps", "max_iter")
        warnings.warn(f"the fit did not converge: {message}", ConvergenceWarning, stacklevel=3)
    return posterior


def learned_kernel(posterior: Fitted) -> Any:
    """The kernel of the only column, or a dictionary with that of each; one for each class."""
    if isinstance(posterior, StackedPosterior):
        return tuple(learned_kernel(part) for part in posterior.parts)
    model = posterior.model
    if isinstance(model, GP):
        return model.kernel
    return dict(zip(model.names, model.kernels, strict=True))


def steps_taken(posterior: Fitted) -> int:
    """The steps of the search; where nothing was to be learned, inference itself is one."""
    return max(1, posterior.fit_result.steps) if posterior.fit_result else 1


def _options(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator, as `fit` calls them."""
    restarts = whole_number("n_restarts_optimizer", estimator.n_restarts_optimizer, least=0)
    return {
        "inducing": estimator.inducing,
        "starts": restarts + 1,
        "seed": as_seed(estimator.random_state),
        "max_steps": whole_number("max_iter", estimator.max_iter, least=1),
        "tolerance": positive_number("tol", estimator.tol),
        "progress": bool(estimator.verbose),
    }


def as_seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def column_names(estimator: BaseEstimator) -> list[str]:
    """The names of the columns of a data frame; x0, x1, … if they have none of their own."""
    count = estimator.n_features_in_
    names = [str(name) for name in getattr(estimator, "feature_names_in_", range(0))]
    return names if len(set(names)) == count else [f"x{i}" for i in range(count)]


def kernels_of(kernel: Any, names: list[str], default: Kernel) -> dict[str, Any]:
    """A kernel for each column, from what the user gave: nothing, one for all, or one for each."""
    if kernel is None:
        return dict.fromkeys(names, default)
    if isinstance(kernel, Kernel | str):
        return dict.fromkeys(names, as_kernel(kernel))
    if isinstance(kernel, Mapping):
        for name in kernel:
            if name not in names:
                raise ValueError(f"kernel names the column {name!r}, but X has {_listed(names)}")
        for name in names:
            if name not in kernel:
                raise ValueError(f"kernel has no entry for the column {name!r} of X")
        return {name: kernel[name] for name in names}
    if isinstance(kernel, list | tuple):
        if len(kernel) != len(names):
            columns = "one column" if len(names) == 1 else f"{len(names)} columns"
            raise ValueError(f"kernel lists {len(kernel)} kernels, but X has {columns}")
        return dict(zip(names, kernel, strict=True))
    raise ValueError(
        "kernel must be one of sg.kernels, such as sg.kernels.Matern52(), an expression such as "
        "'matern52 + periodic(7)', or a list or dictionary with one for each column of X; got "
        f"{kernel!r}"
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown}, … ({len(names)} in all)"
