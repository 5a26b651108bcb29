"""Newton steps on sites against dense matrices that follow the published updates.

The dense twin holds the N × N covariance. For overdispersed counts of mean exp(f) it has the
derivatives of log p(y | f) in closed form, averages them by quadrature, and matches the moments of
SciPy's density.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

import stategp as sg
from stategp._fitting._methods._bayes_newton import first_newton
from stategp._inference import pseudo_data
from tests.likelihoods import reference

X = np.arange(8) * 0.7
Y = np.array([1.0, 3, 5, 3, 2, 0, 1, 0])
KERNEL = sg.kernels.Matern32(variance=0.8, lengthscale=2.0)
LEVEL = 0.3
POISSON = sg.GP(KERNEL, sg.likelihoods.Poisson(), mean=LEVEL)
SHAPE = 1.5
COUNTS = sg.GP(KERNEL, sg.likelihoods.NegativeBinomial(shape=SHAPE), mean=LEVEL)
R = np.sqrt(3) * np.abs(X[:, None] - X[None]) / 2.0
K = 0.8 * (1 + R) * np.exp(-R)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def posterior_of(linear, precision):
    """Mean (without the level) and covariance of prior × sites."""
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(precision))
    return covariance @ linear, covariance


class Wanted(NamedTuple):
    """A whole step of the sites, and the place and the slopes that differences are taken of."""

    linear: np.ndarray
    precision: np.ndarray
    place: list[np.ndarray]  # mean, and variance if the objective depends on it
    slope: list[np.ndarray]


def newton(mean, first, second, variance=None, in_variance=None):
    place = [mean] if variance is None else [mean, variance]
    slope = [first] if variance is None else [first, in_variance]
    return Wanted(first - second * mean, -second, place, slope)


def slopes(f):
    """First and second derivative of log p(y | f), and the second of Gauss–Newton."""
    rate, y = np.exp(f), np.reshape(Y, (-1, *[1] * (np.ndim(f) - 1)))
    share = rate / (SHAPE + rate)
    return y - (y + SHAPE) * share, -(y + SHAPE) * share * (1 - share), -SHAPE * share


def mode(mean, variance, sites, gauss_newton):
    first, exact, plain = slopes(mean + LEVEL)
    return newton(mean, first, plain if gauss_newton else exact)


def spread(mean, variance):
    return mean[:, None] + LEVEL + np.sqrt(variance)[:, None] * NODES


def variational(mean, variance, sites, gauss_newton):
    first, exact, plain = (each @ WEIGHTS for each in slopes(spread(mean, variance)))
    return newton(mean, first, plain if gauss_newton else exact, variance, exact / 2)


def linearised(mean, variance, sites, gauss_newton):
    """The regression of y on f, for f ~ N(mean, variance)."""
    rate = np.exp(spread(mean, variance))
    centre, within = rate @ WEIGHTS, (rate + rate**2 / SHAPE) @ WEIGHTS
    slope = (rate * NODES) @ WEIGHTS / np.sqrt(variance)
    noise = within + (rate - centre[:, None]) ** 2 @ WEIGHTS - slope**2 * variance
    return line(mean, centre, slope, noise, 0.0 if gauss_newton else centre)


def extended(mean, variance, sites, gauss_newton):
    rate = np.exp(mean + LEVEL)
    return line(mean, rate, rate, rate + rate**2 / SHAPE, 0.0 if gauss_newton else rate)


def line(mean, centre, slope, noise, bend):
    left = (Y - centre) / noise
    return newton(mean, slope * left, -(slope**2) / noise + bend * left)


def ep(mean, variance, sites, gauss_newton):
    """Moments of cavity × likelihood; what differences are taken of are slopes of log mass."""
    linear, precision = sites
    wide = 1 / (1 / variance - precision)
    cavity = wide * (mean / variance - linear)
    log_density = reference.negative_binomial(SHAPE, 1.0)
    tilted = [
        reference.tilted(log_density, *each) for each in zip(Y, cavity + LEVEL, wide, strict=True)
    ]
    _, centre, left = np.transpose(tilted)
    first = (centre - LEVEL - cavity) / wide
    place, in_variance = [cavity, wide], (left / wide**2 - 1 / wide + first**2) / 2
    matched = (centre - LEVEL) / left - cavity / wide
    return Wanted(matched, 1 / left - 1 / wide, place, [first, in_variance])


def dense(objective, curvature, steps, start, damping=0.7, steady=False):
    linear, precision = start
    memory = None
    for _ in range(steps):
        mean, covariance = posterior_of(linear, precision)
        variance = np.diagonal(covariance)
        step = objective(mean, variance, (linear, precision), curvature == "gauss_newton")
        new_linear, wanted = step.linear, step.precision
        if curvature == "quasi_newton":
            places, found = (list(np.transpose(each)) for each in (step.place, step.slope))
            if memory is None:
                memory = (places, found, [-p * np.eye(len(step.place)) for p in precision])
            else:
                moved = zip(places, found, *memory, strict=True)
                memory = (places, found, [rank_one(*each) for each in moved])
            second = np.array([B[0, 0] for B in memory[2]])
            cavity = step.place[1] if objective is ep else np.zeros(len(Y))
            # of a Gaussian with slope `first` and curvature `second` of its log mass
            shrunk = 1 + second * cavity
            wanted = -second / shrunk
            new_linear = step.slope[0] / shrunk + wanted * step.place[0]
        changed = np.full(len(Y), wanted.mean()) if steady else wanted
        if curvature == "riemann":
            changed = changed + damping * (precision - changed) ** 2 / precision / 2
        new_linear = new_linear + (changed - wanted) * step.place[0]
        linear = (1 - damping) * linear + damping * new_linear
        precision = (1 - damping) * precision + damping * changed
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
    posterior = sg.condition(COUNTS, X, Y)
    guess = np.asarray(pseudo_data(COUNTS, posterior.data))
    state = first_newton(COUNTS, posterior.data, posterior.inducing, guess, method)[1]
    return np.asarray(state.linear), np.asarray(state.precision)


@pytest.mark.parametrize(
    ("objective", "curvature", "steps", "steady"),
    [
        (mode, "exact", 3, False),
        (mode, "gauss_newton", 3, True),
        (mode, "quasi_newton", 4, False),
        (variational, "exact", 3, True),
        (variational, "gauss_newton", 3, False),
        (variational, "quasi_newton", 4, False),
        (variational, "riemann", 3, False),
        (ep, "exact", 3, False),
        (ep, "exact", 3, True),
        (ep, "quasi_newton", 4, False),
        (linearised, "exact", 3, False),
        (linearised, "gauss_newton", 3, True),
        (extended, "exact", 3, False),
        (extended, "gauss_newton", 3, False),
    ],
)
def test_steps_are_those_of_dense_matrices(objective, curvature, steps, steady):
    method = sg.BayesNewton(objective.__name__, curvature, steady)
    mean, covariance = dense(objective, curvature, steps, start_of(method), steady=steady)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        found = sg.condition(COUNTS, X, Y, method=method, max_steps=steps)
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


@pytest.mark.parametrize(
    ("method", "cause"),
    [
        (sg.BayesNewton("variational", "exact", True), "one precision for all sites"),
        (sg.BayesNewton("mode", "exact"), "the objective 'mode' with the curvature 'exact'"),
    ],
)
def test_certificates_count_what_is_lost_to_the_best_bound(method, cause):
    """There is a state at every input, so that nothing is lost by too few of them."""
    found = sg.condition(POISSON, X, Y, method=method)
    lost = sg.condition(POISSON, X, Y).elbo - found.elbo
    certificate = found.certificate
    assert certificate.error == pytest.approx(lost, abs=1e-6)
    assert certificate.bound == found.elbo
    assert not certificate.reached
    assert f"; {lost:.2g} of it is due to {cause}" in certificate.reason


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
