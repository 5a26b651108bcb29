"""The trial of forecasts from origins within the data, and what intervals learn from them."""

import numpy as np
import pytest

import stategp as sg
from benchmarks import origin_trials
from benchmarks.origin_trials import (
    STEPS,
    Recalibrated,
    Track,
    recalibrations,
    scores_of,
    track_of,
)
from stategp._forecasting._choosing import Choice
from stategp.kernels import Matern12, Matern32, Sum

KERNEL = Sum(
    trend=Matern32(variance=40.0, lengthscale=9.0), short=Matern12(variance=0.5, lengthscale=2.0)
)
RNG = np.random.default_rng(0)
N = 24
X = 0.5 * np.arange(N)
Y = np.cumsum(RNG.standard_normal(N))
NOISE = 0.3


def dense_covariance(x: np.ndarray) -> np.ndarray:
    """From the definitions of the two kernels."""
    apart = np.abs(np.subtract.outer(x, x))
    far = np.sqrt(3) * apart / 9.0
    return 40.0 * (1 + far) * np.exp(-far) + 0.5 * np.exp(-apart / 2.0)


def dense_scores(y: np.ndarray, weights: np.ndarray, origin: int, ahead: int) -> float:
    """How far an observation lies from what the ones up to an origin say of it."""
    seen = [i for i in range(origin + 1) if weights[i] > 0]
    target = origin + ahead
    K = dense_covariance(X)
    G = K[np.ix_(seen, seen)] + np.diag(NOISE / weights[seen])
    gain = np.linalg.solve(G, K[seen, target])
    variance = K[target, target] - K[seen, target] @ gain + NOISE
    return float((y[target] - gain @ y[seen]) / np.sqrt(variance))


def test_scores_are_those_of_the_dense_model() -> None:
    """Also where an observation is missing, one has less weight, and one series is shorter."""
    weights = np.ones(N)
    weights[[9, 15]] = 0.0, 0.25
    later = np.where(np.arange(N) >= 6, weights, 0.0)
    counted = np.arange(N) != 15
    tracks = [
        Track(KERNEL, NOISE, 0.5, np.where(w > 0, Y, 0.0), w, counted) for w in (weights, later)
    ]
    for w, scores in zip((weights, later), scores_of(tracks), strict=True):
        assert len(scores) == np.count_nonzero(w) // 2
        for row, origin in enumerate(range(N - 1 - len(scores), N - 1)):
            for column, ahead in enumerate(STEPS):
                target = origin + ahead
                if target >= N or w[target] == 0 or not counted[target]:
                    assert np.isnan(scores[row, column])
                else:
                    expected = dense_scores(Y, w, origin, ahead)
                    assert scores[row, column] == pytest.approx(expected, abs=1e-9)


def test_observations_are_put_on_a_grid() -> None:
    x = np.array([0.0, 1.0, 3.0, 4.0])
    ones = np.ones(4)
    track = track_of(KERNEL, NOISE, 1.0, x, np.arange(1.0, 5.0), ones, ones > 0)
    np.testing.assert_array_equal(track.values, [1, 2, 0, 3, 4])
    np.testing.assert_array_equal(track.weights, [1, 1, 0, 1, 1])
    for irregular in ([0.0, 1.0, 2.4, 4.0], [0.0, 1.0, 1.0, 4.0]):
        x = np.array(irregular)
        assert track_of(KERNEL, NOISE, 1.0, x, ones, ones, ones > 0) is None
    assert recalibrations([None]) == [()]


def test_intervals_learn_from_errors_ahead() -> None:
    """Errors as expected leave them alone; larger ones make them wider, as far as there are any."""
    rows = RNG.standard_normal((60, len(STEPS)))
    rows[:, -2:] = np.nan
    fair, wide = origin_trials._calibrated(rows), origin_trials._calibrated(3 * rows)
    assert np.max(np.abs(fair)) < 0.35
    assert wide[0] > 1.2  # the logarithm of a variance
    assert wide[0] > wide[5] > wide[-1] == 0.0
    posterior = sg.condition(sg.GP(KERNEL), X, Y, inducing="data", progress=False)
    choice = Choice(1.0, posterior, "", log=False, spent=2.0, lately=1.5)
    at = np.array([-1.0, X[-1] + 0.5, X[-1] + 1.0, X[-1] + 500.0])
    wider = Recalibrated(choice, wide).widening(at) / choice.widening(at)
    np.testing.assert_allclose(wider, np.exp([0.0, wide[0], wide[1], wide[-1]]))
