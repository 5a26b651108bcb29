"""Newton steps on sites against dense matrices that follow the published updates.

The dense twin holds the N × N covariance, has the derivatives of log p(y | f) for counts with rate
exp(f) in closed form, and takes expectations of N(m, v) from the log-normal law.
"""

import warnings

import numpy as np
import pytest

import stategp as sg
from stategp._fitting._methods._bayes_newton import first_newton
from stategp._inference import pseudo_data

X = np.arange(8) * 0.7
Y = np.array([1.0, 3, 5, 3, 2, 0, 1, 0])
KERNEL = sg.kernels.Matern32(variance=0.8, lengthscale=2.0)
LEVEL = 0.3
POISSON = sg.GP(KERNEL, sg.likelihoods.Poisson(), mean=LEVEL)
R = np.sqrt(3) * np.abs(X[:, None] - X[None]) / 2.0
K = 0.8 * (1 + R) * np.exp(-R)


def posterior_of(linear, precision):
    """Mean (without the level) and covariance of prior × sites."""
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(precision))
    return covariance @ linear, covariance


def mode(mean, variance):
    rate = np.exp(mean + LEVEL)
    return Y - rate, -rate, None


def variational(mean, variance):
    rate = np.exp(mean + LEVEL + variance / 2)
    return Y - rate, -rate, -rate / 2


def linearised(mean, variance):
    """Line and noise of counts from the moments of the log-normal law."""
    rate = np.exp(mean + LEVEL + variance / 2)
    noise = rate + rate**2 * (np.expm1(variance) - variance)
    left = rate * (Y - rate) / noise
    return left, -(rate**2) / noise + left, left / 2


def dense(objective, curvature, steps, start, damping=0.7, steady=False):
    linear, precision = start
    memory = None
    for _ in range(steps):
        mean, covariance = posterior_of(linear, precision)
        variance = np.diagonal(covariance)
        first, second, in_variance = objective(mean, variance)
        if curvature == "quasi_newton":
            two = in_variance is not None
            place = [np.array([m, v])[: 1 + two] for m, v in zip(mean, variance, strict=True)]
            slope = [np.array(s) for s in zip(*([first, in_variance][: 1 + two]), strict=True)]
            if memory is None:
                memory = (place, slope, [-p * np.eye(1 + two) for p in precision])
            else:
                moved = zip(place, slope, *memory, strict=True)
                memory = (place, slope, [rank_one(*each) for each in moved])
            second = np.array([B[0, 0] for B in memory[2]])
        if steady:
            second = np.full(len(Y), second.mean())
        if curvature == "riemann":
            second = second - damping * (precision + second) ** 2 / precision / 2
        linear = (1 - damping) * linear + damping * (first - second * mean)
        precision = (1 - damping) * precision - damping * second
    return posterior_of(linear, precision)


def rank_one(place, slope, old_place, old_slope, B):
    s = place - old_place
    w = slope - old_slope - B @ s
    if np.linalg.norm(s) <= 1e-5 * np.sqrt(1 + place @ place) or abs(w @ s) <= 1e-3 * (
        np.linalg.norm(w) * np.linalg.norm(s)
    ):
        return B
    return B + np.outer(w, w) / (w @ s)


def start_of(method):
    """What a search begins with: it follows from y alone."""
    posterior = sg.condition(POISSON, X, Y)
    guess = np.asarray(pseudo_data(POISSON, posterior.data))
    state = first_newton(POISSON, posterior.data, posterior.inducing, guess, method)[1]
    return np.asarray(state.linear), np.asarray(state.precision)


@pytest.mark.parametrize(
    ("objective", "curvature", "steps", "steady"),
    [
        (mode, "quasi_newton", 4, False),
        (variational, "quasi_newton", 4, False),
        (variational, "riemann", 3, False),
        (variational, "exact", 3, True),
        (linearised, "exact", 3, False),
    ],
)
def test_steps_are_those_of_dense_matrices(objective, curvature, steps, steady):
    method = sg.BayesNewton(objective.__name__, curvature, steady)
    mean, covariance = dense(objective, curvature, steps, start_of(method), steady=steady)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        found = sg.condition(POISSON, X, Y, method=method, max_steps=steps)
    np.testing.assert_allclose(found.predict_f(X)[0], mean + LEVEL, atol=1e-9)
    np.testing.assert_allclose(found.predict_f(X)[1], np.diagonal(covariance), atol=1e-9)


STUDENT = sg.GP(KERNEL, sg.likelihoods.StudentT(scale=0.5, df=5.0), mean=LEVEL)


@pytest.mark.parametrize(
    ("method", "same"),
    [
        (sg.BayesNewton("variational", "quasi_newton"), "natural"),
        (sg.BayesNewton("mode", "quasi_newton"), "laplace"),
        (sg.BayesNewton("ep", "exact"), "ep"),
        (sg.BayesNewton("linearised", "gauss_newton"), "posterior_linearisation"),
        (sg.BayesNewton("extended", "gauss_newton"), "extended"),
    ],
)
def test_what_is_known_by_another_name_is_the_same(method, same):
    """Where the likelihood is not log-concave; differences of slopes say what derivatives do."""
    found, known = (sg.condition(STUDENT, X, Y, method=m).predict_f(X) for m in (method, same))
    assert np.max(np.abs(found[0] - known[0])) < 1e-4
    assert np.max(np.abs(found[1] - known[1])) < 1e-4


def test_precisions_stay_positive():
    """Outliers of Student-t noise make f less certain; corrected sites do not."""
    free = sg.condition(STUDENT, X, Y)
    kept = sg.condition(STUDENT, X, Y, method=sg.BayesNewton("variational", "riemann"))
    least = [np.linalg.eigvalsh(one.chain.sites[0].precision).min() for one in (free, kept)]
    assert least[0] < -1e-3
    assert least[1] > -1e-12
    assert kept.elbo < free.elbo < kept.elbo + 0.05


def test_one_precision_for_all_says_what_it_costs():
    steady = sg.condition(POISSON, X, Y, method=sg.BayesNewton("variational", "exact", True))
    lost = sg.condition(POISSON, X, Y).elbo - steady.elbo
    assert steady.fit_result.remarks == (
        f"one precision for all sites costs {lost:.2g} nats of the bound",
    )


def test_choices_are_checked():
    with pytest.raises(ValueError, match=r"objective must be one of 'mode', .*got 'newton'"):
        sg.BayesNewton("newton")
    with pytest.raises(ValueError, match="curvature must be one of 'exact'"):
        sg.BayesNewton("mode", "fisher")
    with pytest.raises(ValueError, match=r"no curvature 'gauss_newton'.*averaged over f"):
        sg.BayesNewton("ep", "gauss_newton")
    with pytest.raises(ValueError, match="damping must lie"):
        sg.BayesNewton(damping=2.0)
    with pytest.raises(ValueError, match="learn them by another"):
        sg.fit(POISSON, X, Y, method="bayes_newton")
