"""Weights of samples of q, the bound they give, and a q that is trained by it."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import stategp as sg


@pytest.fixture(scope="module")
def posterior():
    model = sg.GP(sg.kernels.Matern12(variance=4.0), sg.likelihoods.Poisson())
    return sg.condition(model, [0.0, 1.0], [0.0, 5.0])


def test_many_samples_give_the_evidence(posterior):
    """log p(y) of two counts, by two-dimensional quadrature."""
    prior = scipy.stats.multivariate_normal(cov=4 * np.exp([[0.0, -1.0], [-1.0, 0.0]]))

    def joint(b, a):
        counts = scipy.stats.poisson.pmf([0, 5], np.exp([a, b]))
        return prior.pdf([a, b]) * counts.prod()

    evidence = math.log(scipy.integrate.dblquad(joint, -14, 6, -14, 6, epsabs=1e-8)[0])
    bound, error = posterior.importance_weighted_bound(1000)
    assert evidence - 4 * error - 2e-3 < bound < evidence + 4 * error
    assert posterior.elbo + 0.01 < evidence


def test_one_sample_gives_the_usual_bound(posterior):
    bound, error = posterior.importance_weighted_bound(1, key=1, repeats=4000)
    assert abs(bound - posterior.elbo) < 4 * error < 0.1


def test_importance_weights_need_states_at_the_data(posterior):
    fewer = sg.condition(posterior.model, [0.0, 1.0], [0.0, 5.0], inducing=[0.0])
    with pytest.raises(ValueError, match="inducing='data'"):
        fewer.importance_weighted_bound(10)
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1"):
        posterior.importance_weighted_bound(0)


def test_weighted_samples_are_those_of_the_true_posterior(posterior):
    """How lopsided f is given two counts, by sums over a grid; q itself is not."""
    f, weights = map(np.asarray, posterior.sample_weighted(0, [0.0, 3.0], 20_000))
    at = np.linspace(-14, 6, 801)
    prior = scipy.stats.multivariate_normal(cov=4 * np.exp([[0.0, -1.0], [-1.0, 0.0]]))
    pairs = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1)
    mass = prior.pdf(pairs) * scipy.stats.poisson.pmf([0, 5], np.exp(pairs)).prod(axis=-1)
    mass = mass.sum(axis=1) / mass.sum()
    mean = mass @ at
    exact = mass @ (at - mean) ** 3
    assert f.shape == (20_000, 2)
    cubes = (f[:, 0] - mean) ** 3
    error = np.sqrt(np.sum(weights**2 * (cubes - exact) ** 2))
    assert abs(weights @ cubes - exact) < 4 * error < abs(np.mean(cubes) - exact)


def test_a_q_that_is_trained_by_the_bound():
    """One count of zero: mean and width with the highest bound of two samples, by quadrature."""
    t, w = np.polynomial.hermite_e.hermegauss(60)
    w = np.outer(w, w) / w.sum() ** 2

    def loss(place):
        q = scipy.stats.norm(place[0], math.exp(place[1]))
        f = place[0] + math.exp(place[1]) * t
        log_weight = scipy.stats.norm.logpdf(f, 0, 2.0) - np.exp(f) - q.logpdf(f)
        return -np.sum(w * np.logaddexp(log_weight[:, None], log_weight[None])) + math.log(2)

    best = scipy.optimize.minimize(loss, [-1.0, 0.3]).x
    usual = scipy.optimize.minimize(
        lambda p: np.exp(p[0] + np.exp(2 * p[1]) / 2) + (p[0] ** 2 + np.exp(2 * p[1])) / 8 - p[1],
        [-1.0, 0.3],
    ).x
    model = sg.GP(sg.kernels.Matern12(variance=4.0), sg.likelihoods.Poisson())
    trained = sg.condition(model, [0.0], [0.0], method=sg.ImportanceWeighted(2))
    mean, variance = (float(part[0]) for part in trained.predict_f([0.0]))
    found = np.array([mean, math.log(variance) / 2])
    np.testing.assert_allclose(found, best, atol=0.03)
    assert np.abs(usual - best).max() > 0.06
    with pytest.raises(ValueError, match="samples must be a whole number of at least 2"):
        sg.ImportanceWeighted(1)
    with pytest.raises(ValueError, match="needs an inducing point at every observation"):
        sg.condition(model, [0.0, 1.0], [0.0, 1.0], inducing=[0.0], method="importance_weighted")
