"""Traces start at the prior, end at the optimum, and are read off as they should be."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stategp as sg
from stategp_experiments import natural_gradients as study
from stategp_experiments.natural_gradients import Problem, Run


@pytest.fixture(scope="module")
def problem():
    return Problem(np.linspace(0, 1, 16), np.linspace(0, 1, 16), 4, {"L-BFGS": "lbfgs"})


def test_one_natural_step_reaches_the_exact_evidence(problem):
    model, y = study.MODELS["Gaussian"], study.simulate(problem.x, 0)["Gaussian"]
    bounds, seconds = study.natural(model, problem, y)
    covariance = np.asarray(study.KERNEL(problem.x, problem.x))
    evidence = multivariate_normal(cov=covariance + 0.01 * np.eye(16)).logpdf(y)
    prior = -np.sum(y**2 + 1) / 0.02 - 8 * np.log(2 * np.pi * 0.01)
    np.testing.assert_allclose(bounds, [prior, evidence], rtol=1e-8)
    assert np.all(np.diff(seconds) > 0)


def test_gradients_start_at_the_prior_and_rise(problem):
    model, y = study.MODELS["Gaussian"], study.simulate(problem.x, 0)["Gaussian"]
    bounds, seconds = study.by_gradient(model, problem, y, "lbfgs")
    prior = -np.sum(y**2 + 1) / 0.02 - 8 * np.log(2 * np.pi * 0.01)
    np.testing.assert_allclose(bounds[0], prior, rtol=1e-8)
    assert len(bounds) == len(seconds) == problem.steps + 1
    assert bounds[-1] > bounds[0]


def test_student_natural_gradients_end_where_condition_does(problem):
    model, y = study.MODELS["Student-t"], study.simulate(problem.x, 0)["Student-t"]
    bounds, _ = study.natural(model, problem._replace(steps=100), y)
    best = sg.condition(model, problem.x, y, inducing=problem.inducing).elbo
    np.testing.assert_allclose(bounds[-1], best, rtol=1e-9)
    assert np.all(np.diff(bounds) > -1e-9)


def test_table_and_picture(tmp_path):
    runs = []
    for likelihood in study.MODELS:
        runs += [
            Run(likelihood, "natural gradients", 0, [50.0, 0.01], [0.001, 0.002]),
            Run(likelihood, "L-BFGS", 0, [50.0, 40.0, 0.05], [0.001, 0.003, 0.004]),
            Run(likelihood, "Adam (0.1)", 0, [50.0, 45.0, 30.0], [0.001, 0.002, 0.003]),
            Run(likelihood, "Adam (0.01)", 0, [50.0, 49.0, 48.0], [0.001, 0.002, 0.003]),
        ]
    assert runs[1].near() == 0.004
    assert runs[2].near() == np.inf
    assert study.best_rate(runs, "Gaussian") == "Adam (0.1)"
    text = study.table(runs)
    assert "not reached" in text
    assert "striking advantage" in text
    assert "Adam (0.01)" not in text
    study.picture(runs, tmp_path / "traces.png")
    assert (tmp_path / "traces.png").stat().st_size > 10_000
    assert (tmp_path / "traces.pdf").read_bytes().startswith(b"%PDF")
