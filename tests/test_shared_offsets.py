"""What many series teach about hyperparameters in units of each, against dense integrals."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

import stategp as sg
from stategp._data import observe
from stategp._fitting import Pupil, learn_offsets

RNG = np.random.default_rng(3)
OPTIONS = {"max_steps": 60, "tolerance": 1e-7, "inducing": "data"}
SPREAD = 1.5  # of the priors that are given
CENTRE = -(SPREAD**2)  # the mode of such a density, in logarithms


def near(value):
    return sg.parameter(value, prior=sg.priors.LogNormal(median=value, spread=SPREAD))


class Series:
    """A Matérn-1/2 process and noise, whose unit is known up to a factor."""

    def __init__(self, count, unit, doubt=0.0, rough=True):
        self.x, self.unit, self.doubt, self.rough = np.arange(float(count)), unit, doubt, rough
        apart = np.abs(self.x[:, None] - self.x) * (1 if rough else np.sqrt(3))
        signal = np.exp(-apart / 3) * (1 if rough else 1 + apart / 3)
        noise = 0.5 * unit * np.exp(0.4 * RNG.standard_normal())
        covariance = unit * signal + noise * np.eye(count)
        guessed = unit * np.exp(np.sqrt(doubt) * RNG.standard_normal())
        self.y = RNG.multivariate_normal(np.zeros(count), covariance)
        self.variance, self.unit = unit, guessed
        self.values, vectors = np.linalg.eigh(signal)
        self.turned = vectors.T @ self.y

    def pupil(self, *, signal):
        kind = sg.kernels.Matern12 if self.rough else sg.kernels.Matern32
        variance = near(self.variance) if signal else sg.fixed(self.variance)
        kernel = kind(variance=variance, lengthscale=sg.fixed(3.0))
        model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=near(self.unit)))
        names = ("signal", "noise") if signal else ("noise",)
        return Pupil(model, observe(self.x, self.y), names, np.full(len(names), self.doubt))

    def log_density(self, noise, signal=0.0):
        """log p(y) for offsets of the noise and of the signal."""
        variances = self.variance * np.exp(signal) * self.values + self.unit * np.exp(noise)
        return -0.5 * np.sum(np.log(2 * np.pi * variances) + self.turned**2 / variances)


def test_a_density_is_the_likeliest_given_all_integrals():
    """Series of two structures share what has one name; one with an uncertain unit says less."""
    kinds = [(90, 0.0, True)] * 5 + [(90, 0.0, False)] * 4 + [(60, 0.8, True)] * 3
    data = [Series(n, np.exp(RNG.normal()), doubt, rough) for n, doubt, rough in kinds]
    grid = np.linspace(-6, 6, 1201)
    known = [np.array([one.log_density(r) for r in grid]) for one in data]

    def loss(place):
        centre, spread = place[0], np.exp(place[1])
        total = norm.logpdf(centre, CENTRE, SPREAD)
        # A density given counts as one series in the spread.
        total += norm.logpdf(SPREAD, 0, spread)
        for one, values in zip(data, known, strict=True):
            width = np.sqrt(spread**2 + one.doubt)
            total += logsumexp(values + norm.logpdf(grid, centre, width))
        return -total

    best = minimize(loss, [0.0, 0.0], tol=1e-10).x
    pupils = [one.pupil(signal=False) for one in data]
    found = learn_offsets(pupils, "prior", OPTIONS, stretches=(1.0,), progress=False)
    # The posterior of each series is nearly Gaussian, with deviations of about 0.2.
    assert found["noise"].centre == pytest.approx(best[0], abs=0.03)
    assert found["noise"].spread == pytest.approx(np.exp(best[1]), rel=0.05)


def test_one_value_makes_all_series_together_likeliest():
    data = [Series(n, np.exp(RNG.normal())) for n in (20, 30, 30)]

    def loss(place):
        priors = np.sum(norm.logpdf(place, CENTRE, SPREAD))  # counted once
        return -priors - sum(one.log_density(*place) for one in data)

    best = minimize(loss, [0.0, 0.0], tol=1e-12).x
    pupils = [one.pupil(signal=True) for one in data]
    found = learn_offsets(pupils, "all", OPTIONS, stretches=(1.0,), progress=False)
    assert [found[name].centre for name in ("noise", "signal")] == pytest.approx(best, abs=1e-4)
    assert {one.spread for one in found.values()} == {0.0}


def test_series_that_say_nothing_leave_the_prior_as_it_is():
    x = np.arange(3.0)
    blind = sg.kernels.Matern12(variance=near(1e-12), lengthscale=sg.fixed(3.0))
    model = sg.GP(blind, sg.likelihoods.Gaussian(variance=sg.fixed(1.0)))
    data = observe(x, np.cos(x))
    pupil = Pupil(model, data, ("signal",), np.zeros(1))
    found = learn_offsets([pupil] * 3, "prior", OPTIONS, stretches=(1.0,), progress=False)
    assert found["signal"].centre == pytest.approx(CENTRE, abs=1e-6)
    assert found["signal"].spread == pytest.approx(SPREAD, rel=1e-6)
