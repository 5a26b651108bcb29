"""Counts with too many zeros: a fit that knows of them finds the rate, and their share."""

import numpy as np

import stategp as sg


def test_zeros_that_are_none_of_the_rate():
    rng = np.random.default_rng(0)
    x = np.linspace(0, 12, 120)
    log_rate = 1.5 + np.sin(x)
    counts = np.where(rng.uniform(size=120) < 0.3, 0.0, rng.poisson(np.exp(log_rate)))
    model = sg.GP("matern52(3)", "zero-inflated-poisson", 1.0)
    posterior = sg.fit(model, x, counts, inducing=12, progress=False)
    assert posterior.fit_result.converged
    assert abs(posterior.model.likelihood.share - 0.3) < 0.12
    found = np.asarray(posterior.predict_f(x)[0])
    assert np.sqrt(np.mean((found - log_rate) ** 2)) < 0.25
