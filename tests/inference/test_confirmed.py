"""Sweeps whose bound has lost its digits: their marginals are confirmed, or not."""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import stategp as sg
from stategp._inference import _exact
from stategp.chain import PairMarginals

X = np.arange(40.0)
RNG = np.random.default_rng(3)
Y = 3000 + 40 * np.cumsum(RNG.standard_normal(40)) + RNG.standard_normal(40)


def vague(noise, **options) -> sg.GP:
    """Two levels of which only the sum is known."""
    k = sg.kernels
    kernel = k.Wiener(diffusivity=1600.0, start=1e6) + k.Linear(slope=4.0, start=1e6)
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise), **options)


def log_density(noise: float) -> float:
    """By multiple-precision arithmetic."""
    with mpmath.workdps(60):
        lags = [[mpmath.mpf(float(a - b)) for b in X] for a in X]
        start, rate = mpmath.mpf(1e6), mpmath.mpf(1600.0) / (2 * mpmath.mpf(1e6))
        turn = mpmath.sqrt(mpmath.mpf(4.0) / start)
        rows = [
            [start * (mpmath.exp(-rate * abs(lag)) + mpmath.cos(turn * lag)) for lag in row]
            for row in lags
        ]
        matrix = mpmath.matrix(rows) + mpmath.mpf(noise) * mpmath.eye(len(X))
        y = mpmath.matrix([mpmath.mpf(float(v)) for v in Y])
        root = mpmath.cholesky(matrix)
        white = mpmath.lu_solve(root, y)
        log_root = mpmath.fsum(mpmath.log(root[i, i]) for i in range(len(X)))
        scale = len(X) * mpmath.log(2 * mpmath.pi) / 2
        return float(-(white.T * white)[0] / 2 - log_root - scale)


@pytest.fixture
def no_careful_way(monkeypatch):
    def refuse(*_):
        raise AssertionError("the careful way was taken")

    monkeypatch.setattr(_exact, "careful_pairs", refuse)


@pytest.mark.parametrize("known", [False, True])
def test_two_vague_levels_need_no_careful_way(no_careful_way, known) -> None:
    """The noise may be learned, or known for every observation with none beside it."""
    noise = sg.fixed(0.0) if known else 1.0
    model = vague(noise)
    extra = {"noise_variance": np.ones(40)} if known else {}
    posterior = sg.condition(model, X, Y, inducing="data", **extra)
    assert posterior.elbo == pytest.approx(log_density(1.0), rel=1e-8)
    mean, variance = posterior.predict_f(X[::7])
    assert np.all(np.abs(np.asarray(mean) - Y[::7]) < 5)
    assert np.all((np.asarray(variance) > 0.5) & (np.asarray(variance) < 1.0))


@pytest.mark.parametrize("noise", [1.0, sg.fixed(0.0)])
def test_wrong_marginals_are_not_confirmed(monkeypatch, noise) -> None:
    seen = {}
    original = _exact._confirmed

    def look(*arguments):
        seen["arguments"] = arguments
        return original(*arguments)

    monkeypatch.setattr(_exact, "_confirmed", look)
    known = {"noise_variance": np.ones(40)} if noise != 1.0 else {}
    sg.condition(vague(noise), X, Y, inducing="data", **known)
    model, view, inducing, q = seen["arguments"]
    lost = q._replace(elbo=jnp.asarray(jnp.nan))
    assert original(model, view, inducing, lost) is not None
    (pairs,) = q.marginals
    for moved in (pairs.mean + 1e-4 * jnp.abs(pairs.mean), pairs.mean.at[20].add(0.5)):
        wrong = lost._replace(marginals=(PairMarginals(moved, pairs.covariance),))
        assert original(model, view, inducing, wrong) is None
