"""Classification as scikit-learn's users know it."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from stategp._estimators._fitting import (
    Fitted,
    column_names,
    fit_rows,
    kernels_of,
    learned_kernel,
    steps_taken,
)
from stategp._estimators._parameters import WithKernel
from stategp._estimators._rows import Rows, as_input
from stategp.kernels import Matern52
from stategp.likelihoods import Bernoulli, Softmax
from stategp.parameters import parameter
from stategp.priors import LogNormal

_VARIANCE = 4.0  # of the log odds, before anything is known: a few units either way


class GPClassifier(ClassifierMixin, WithKernel):  # type: ignore[misc]  # they have no types
    """Gaussian-process classification in time linear in the number of rows.

    With one column the model is a `sg.GP`, with several an additive model (`sg.AdditiveGP`) with
    one function for each column. With more than two classes there is such a function for each
    class, and all are learned together (`sg.likelihoods.Softmax`; several columns: `sg.StackedGP`).
    With ``multi_class="one_vs_rest"`` there is a model of each class against the rest, and their
    probabilities are normalised.

    Arguments:
        kernel: as for `sg.GPRegressor`. By default Matern52 with a prior on its variance; without
            the prior, f would diverge for classes that are perfectly separable.
        likelihood: "bernoulli" or a `sg.likelihoods.Bernoulli`, whose link may be "probit".
        multi_class: "softmax" (with the link "logit"), "one_vs_rest", or "auto": softmax if the
            link is "logit". It matters for more than two classes only.
        inducing, n_restarts_optimizer, max_iter, tol, random_state, verbose: as for
            `sg.GPRegressor`.

    After `fit`: `classes_`; `posterior_`, `kernel_` and `elbo_` as for `sg.GPRegressor`, in lists
    with one for each class if each has a model of its own (softmax has one posterior and a tuple of
    kernels); `n_iter_`, the most steps of any fit.

    >>> import numpy as np, stategp as sg
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = sg.GPClassifier().fit(X, np.where(np.sin(X[:, 0]) > 0, "up", "down"))
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "bernoulli",
        multi_class: Any = "auto",
        inducing: Any = "auto",
        n_restarts_optimizer: Any = 0,
        max_iter: Any = 100,
        tol: Any = 1e-4,
        random_state: Any = None,
        verbose: Any = False,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.multi_class = multi_class
        self.inducing = inducing
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GPClassifier":
        """Learn the hyperparameters and the posterior; `sample_weight` is the weight of each row.

        Rows with the same X and y are counted, not repeated.
        """
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        likelihood = _as_bernoulli(self.likelihood)
        names = column_names(self)
        kernels = kernels_of(self.kernel, names, _default_kernel(len(names)))
        self.classes_, labels = np.unique(y, return_inverse=True)
        rows = Rows.of(X, labels, sample_weight)
        present = np.unique(rows.y)
        if len(present) < 2:
            raise ValueError(
                "GPClassifier needs at least two classes to tell apart, but y has one class only: "
                f"{self.classes_[present].tolist()[0]!r}"
            )
        if _together(self.multi_class, likelihood) and len(self.classes_) > 2:
            posteriors = [fit_rows(self, kernels, Softmax(len(self.classes_)), rows)]
        else:
            targets = [1] if len(self.classes_) == 2 else range(len(self.classes_))
            posteriors = [
                fit_rows(self, kernels, likelihood, rows._replace(y=1.0 * (rows.y == target)))
                for target in targets
            ]
        one = len(posteriors) == 1
        self.posterior_: Fitted | list[Fitted] = posteriors[0] if one else posteriors
        learned = [learned_kernel(posterior) for posterior in posteriors]
        self.kernel_ = learned[0] if one else learned
        self.elbo_ = posteriors[0].elbo if one else [p.elbo for p in posteriors]
        self.n_iter_ = max(steps_taken(p) for p in posteriors)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        labels: np.ndarray = self.classes_[np.argmax(probabilities, axis=1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of `classes_`: (rows, classes)."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False)
        if not isinstance(self.posterior_, list):
            return np.array(self.posterior_.predict_probabilities(as_input(x)))
        columns = [posterior.predict_y(as_input(x))[0] for posterior in self.posterior_]
        scores = np.column_stack([np.asarray(column) for column in columns])
        total = scores.sum(axis=1, keepdims=True)
        # Where every class is denied beyond double precision, nothing tells them apart.
        even = np.full_like(scores, 1 / len(columns))
        return np.divide(scores, total, out=even, where=total > 0)


def _together(multi_class: Any, likelihood: Bernoulli) -> bool:
    """Whether more than two classes share one model."""
    known = ("auto", "softmax", "one_vs_rest")
    if multi_class not in known:
        named = ", ".join(map(repr, known))
        raise ValueError(f"multi_class must be one of {named}, got {multi_class!r}")
    if multi_class == "softmax" and likelihood.link != "logit":
        raise ValueError(
            f"multi_class='softmax' needs the link 'logit', but the link is {likelihood.link!r}: "
            "choose multi_class='one_vs_rest', or 'auto'"
        )
    return multi_class == "softmax" or (multi_class == "auto" and likelihood.link == "logit")


def _as_bernoulli(likelihood: Any) -> Bernoulli:
    if isinstance(likelihood, str) and likelihood.strip().lower() == "bernoulli":
        return Bernoulli()
    if not isinstance(likelihood, Bernoulli):
        raise ValueError(
            "likelihood of a GPClassifier must be 'bernoulli' or an sg.likelihoods.Bernoulli, got "
            f"{likelihood!r}"
        )
    return likelihood


def _default_kernel(columns: int) -> Matern52:
    """Every column has its share of the variance; the data may say otherwise by factors."""
    prior = LogNormal(median=_VARIANCE / columns, spread=1.0)
    return Matern52(variance=parameter(prior=prior))
