"""Scores of forecasts, against utilsforecast 0.2.17 and sums by hand."""

import numpy as np
import pytest
from scipy.stats import norm

from stategp import metrics

Y = [3.0, -1.5, 4.0, 0.5, 6.0]
MEAN = [2.5, -1.0, 5.0, 0.0, 4.5]
LOWER = [1.0, -2.0, 4.5, -1.0, 3.0]
UPPER = [4.0, 0.0, 6.0, 1.0, 5.5]
HISTORY = [1.0, 4.0, 2.0, -1.0, 3.0, 5.0, 0.5]


# utilsforecast.losses: mase, smape (times 200, as M4 has it), quantile_loss, mqloss (times 2, which
# is the CRPS), coverage, winkler_score at level 80.
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (metrics.mase(Y, MEAN, HISTORY), 0.2594594594594595),
        (metrics.mase(Y, MEAN, HISTORY, season=3), 0.4266666666666667),
        (metrics.smape(Y, MEAN), 61.795093795093806),
        (metrics.pinball(Y, LOWER, 0.1), 0.23),
        (metrics.pinball(Y, UPPER, 0.9), 0.19),
        (metrics.crps(Y, [LOWER, MEAN, UPPER], [0.25, 0.5, 0.75]), 0.7666666666666666),
        (metrics.coverage(Y, LOWER, UPPER), 0.6),
        (metrics.interval_score(Y, LOWER, UPPER, level=0.8), 4.2),
    ],
)
def test_as_utilsforecast_has_them(found, expected):
    assert found == pytest.approx(expected, rel=1e-12)


def test_msis_by_hand():
    """Widths 3, 2, 1.5, 2, 2.5; two misses of 0.5, 40 times each; differences 3 2 3 4 2 4.5."""
    by_hand = ((3 + 2 + 1.5 + 2 + 2.5) + 40 * (0.5 + 0.5)) / 5 / (18.5 / 6)
    assert metrics.msis(Y, LOWER, UPPER, HISTORY) == pytest.approx(by_hand, rel=1e-12)


def test_many_quantiles_give_the_crps_of_a_normal():
    """Gneiting and Raftery 2007, equation 5 of their section 4.2."""
    y, shares = np.array([0.3, -1.2, 2.5]), np.arange(1, 2000) / 2000
    quantiles = np.repeat(norm.ppf(shares)[:, None], 3, axis=1)
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    assert metrics.crps(y, quantiles, shares) == pytest.approx(exact.mean(), rel=2e-3)


def test_missing_observations_do_not_count():
    y, four = np.array(Y), [0, 1, 2, 4]
    y[3] = np.nan
    for name in ("mase", "smape", "coverage", "interval_score", "msis", "pinball"):
        score = getattr(metrics, name)
        forecast = {"mase": (MEAN,), "smape": (MEAN,), "pinball": (MEAN,)}.get(name, (LOWER, UPPER))
        last = {"mase": (HISTORY,), "msis": (HISTORY,), "pinball": (0.3,)}.get(name, ())
        fewer = [np.array(array)[four] for array in forecast]
        assert score(y, *forecast, *last) == pytest.approx(score(y[four], *fewer, *last)), name
    assert metrics.seasonal_scale([1.0, np.nan, 2.0, 4.0]) == 2.0
    assert np.isnan(metrics.coverage([np.nan], [0.0], [1.0]))


def test_nothing_to_scale_by():
    assert np.isnan(metrics.mase([1.0], [2.0], [3.0, 3.0, 3.0]))
    assert np.isnan(metrics.mase([1.0], [2.0], [3.0, 4.0], season=2))


@pytest.mark.parametrize(
    ("step", "season"),
    [(1 / 24, 24), (0.5, 1), (1.0, 1), (7.0, 1), (28.0, 12), (31.0, 12), (91.3, 4), (365.25, 1)],
)
def test_seasons_are_those_of_m4(step, season):
    assert metrics.usual_season(step) == season


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.mase(Y, MEAN[:2], HISTORY), r"the shapes are y \(5,\), forecast \(2,\)"),
        (lambda: metrics.mase(Y, MEAN, HISTORY, season=0), "of at least 1, got .* and 0"),
        (lambda: metrics.mase(Y, MEAN, [HISTORY]), r"an array of shape \(1, 7\)"),
        (lambda: metrics.msis(Y, LOWER, UPPER, HISTORY, level=95.0), "between 0 and 1 .* got 95"),
        (lambda: metrics.pinball(Y, MEAN, 0.0), "probability must lie between"),
        (lambda: metrics.crps(Y, [MEAN], [0.1, 0.9]), "1 rows were given for 2 probabilities"),
    ],
)
def test_wrong_use(call, words):
    with pytest.raises(ValueError, match=words):
        call()
