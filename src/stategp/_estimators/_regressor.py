"""Regression as scikit-learn's users know it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from stategp._arguments import whole_number
from stategp._data import extra_values
from stategp._estimators._fitting import (
    as_seed,
    column_names,
    fit_rows,
    kernels_of,
    learned_kernel,
    steps_taken,
)
from stategp._estimators._parameters import WithKernel
from stategp._estimators._rows import Rows, as_input
from stategp._models import bare
from stategp._posteriors import by_blocks, per_point
from stategp.kernels import Matern52
from stategp.likelihoods import Gaussian, Likelihood


class GPRegressor(RegressorMixin, WithKernel):  # type: ignore[misc]  # they have no types
    """Gaussian-process regression in time linear in the number of rows.

    With one column the model is a `sg.GP`, with several an additive model (`sg.AdditiveGP`) with
    one function for each column. The level of f is learned, and hyperparameters without a value get
    starting values from the data: neither X nor y needs scaling.

    Arguments:
        kernel: one of `sg.kernels` or an expression ("matern52 + periodic(7)"), used for every
            column with separate parameters, or a list or dictionary with one for each column. The
            default is Matern52. In `set_params` and searches its hyperparameters are called
            `kernel__lengthscale` and so on; they are starting values, or the values of those that
            are fixed.
        likelihood: how y depends on f: a name ("gaussian", "student_t", "poisson", …) or one of
            `sg.likelihoods`. `predict` gives the mean of y.
        inducing: how many inducing points, as for `sg.fit`: "auto", a number, locations or "data";
            with several columns also a list or dictionary with one of these for each.
        n_restarts_optimizer: the number of random starting points in addition to the first; only
            with one column.
        max_iter: the maximum number of steps of the search for hyperparameters.
        tol: the gradient of the bound per observation at which the search ends.
        random_state: seed of the random starting points.
        verbose: whether to show the bound on standard error while fitting.

    After `fit`: `posterior_`, the posterior (`posterior_.components` gives the effect of each
    column); `kernel_`, the kernel with the learned values, a dictionary by column if there are
    several; `elbo_`, the lower bound on log p(y); `n_iter_`, the number of steps.

    >>> import numpy as np, stategp as sg
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = sg.GPRegressor().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(9 * X[:, 0]))
    >>> mean, std = model.predict([[5.0], [12.0]], return_std=True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "gaussian",
        inducing: Any = "auto",
        n_restarts_optimizer: Any = 0,
        max_iter: Any = 100,
        tol: Any = 1e-4,
        random_state: Any = None,
        verbose: Any = False,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GPRegressor":
        """Learn the hyperparameters and the posterior; `sample_weight` is the weight of each row.

        Rows with the same X and y are counted, not repeated.
        """
        X, y = validate_data(self, X, y, y_numeric=True)
        default = Matern52()
        kernels = kernels_of(self.kernel, column_names(self), default)
        rows = Rows.of(X, np.asarray(y, dtype=float), sample_weight)
        self.posterior_ = fit_rows(self, kernels, self.likelihood, rows)
        self.kernel_ = learned_kernel(self.posterior_)
        self.elbo_ = self.posterior_.elbo
        self.n_iter_ = steps_taken(self.posterior_)
        return self

    def predict(self, X: Any, return_std: Any = False, include_noise: Any = False) -> Any:
        """The mean of y, and with `return_std` a standard deviation.

        The standard deviation is that of f, as for scikit-learn's GaussianProcessRegressor without
        a WhiteKernel, or, with `include_noise`, that of a new observation. If the likelihood is not
        Gaussian, "f" is the expected observation: for counts, their rate.
        """
        x = self._checked(X)
        posterior = self.posterior_
        f: tuple[Any, Any] = posterior.predict_f(as_input(x))
        likelihood, extra = posterior.model.likelihood, self._extra(len(x))
        mean, variance = per_point(likelihood, "predict", *f, extra)
        if not return_std:
            return np.array(mean)
        if not include_noise:
            variance = _variance_of_mean(likelihood, *f, extra)
        return np.array(mean), np.sqrt(np.asarray(variance))

    def sample_y(
        self, X: Any, n_samples: Any = 1, random_state: Any = 0, include_noise: Any = False
    ) -> np.ndarray:
        """Joint draws of f, or of new observations with `include_noise`: (rows, n_samples).

        If the likelihood is not Gaussian, "f" is the expected observation.

        >>> import numpy as np, stategp as sg
        >>> X = np.linspace(0, 10, 50)[:, None]
        >>> model = sg.GPRegressor().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(9 * X[:, 0]))
        >>> model.sample_y([[5.0], [12.0]], n_samples=4).shape
        (2, 4)
        """
        x = self._checked(X)
        whole_number("n_samples", n_samples, least=1)
        posterior, seed = self.posterior_, as_seed(random_state)
        if include_noise:
            return np.array(posterior.sample_y(seed, as_input(x), n_samples)).T
        f = np.asarray(posterior.sample_f(seed, as_input(x), n_samples))
        extra = np.tile(self._extra(len(x)), n_samples)
        points = f.reshape(-1, *f.shape[2:])
        y = per_point(posterior.model.likelihood, "moments", points, extra)[0]
        return np.array(y).reshape(f.shape[:2]).T

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x: np.ndarray = validate_data(self, X, reset=False)
        return x

    def _extra(self, points: int) -> np.ndarray:
        return np.asarray(extra_values(self.posterior_.model.likelihood, points, {}))


def _variance_of_mean(likelihood: Likelihood, mean: Any, variance: Any, extra: Any) -> Any:
    """The variance of E[y | f] for f ~ N(mean, variance)."""
    if isinstance(likelihood, Gaussian):
        return variance
    plain = bare(likelihood)
    return by_blocks(lambda *block: _spread_of_mean(plain, *block), mean, variance, extra)


@jax.jit
def _spread_of_mean(
    likelihood: Likelihood, mean: jax.Array, variance: jax.Array, extra: jax.Array
) -> jax.Array:
    f, weights = likelihood.nodes(mean, variance)
    means = jax.vmap(lambda f: likelihood.moments(f, extra)[0])(f)
    centre = jnp.tensordot(weights, means, axes=1)
    spread: jax.Array = jnp.tensordot(weights, (means - centre[None]) ** 2, axes=1)
    return spread
