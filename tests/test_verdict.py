"""What the checks of a story say: far outliers, wrong intervals, correlated residuals."""

import numpy as np
import pytest
from scipy import stats

import stategp as sg
from stategp._story._checks import Checks, _autocorrelation
from stategp._story._verdict import Remark, judge, outlier_limit

LEVELS = (0.5, 0.95)


def remarks(residuals: np.ndarray, likelihood: str = "gaussian") -> tuple[Remark, ...]:
    nominal = np.linspace(0, 1, 51)
    alike, pairs = _autocorrelation(residuals[None])
    ranks = stats.norm.cdf(residuals)
    checks = Checks(
        np.arange(float(len(ranks))), ranks, residuals, alike, pairs, nominal, nominal, ""
    )
    return judge(checks, LEVELS, sg.likelihoods.from_name(likelihood))


def normal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count)


@pytest.mark.parametrize("count", [20, 700, 20_000])
def test_chance_alone_raises_no_alarm(count: int) -> None:
    kinds = [remarks(normal(count, seed))[0].kind for seed in range(40)]
    assert kinds.count("good") >= 39


@pytest.mark.parametrize("count", [30, 700, 10**6])
def test_beyond_the_limit_a_hundredth_is_expected(count: int) -> None:
    assert 2 * count * stats.norm.sf(outlier_limit(count)) <= 0.01
    assert 2 * count * stats.norm.sf(outlier_limit(count) - 0.5) > 0.01


def test_seven_far_outliers_among_700() -> None:
    residuals = normal(700)
    residuals[::100] = 6.5
    worst, *_ = remarks(residuals)
    assert worst.kind == "bad"
    assert worst.text.startswith("7 of 700 observations lie more than 4.5 standard deviations")
    assert 'likelihood="student_t"' in worst.text
    assert 'likelihood="negative_binomial"' in remarks(residuals, "poisson")[0].text
    assert "look at them" in remarks(residuals, "student_t")[0].text


def test_one_outlier_is_something_to_look_at() -> None:
    residuals = normal(700)
    residuals[5] = -6.0
    (only,) = remarks(residuals)
    assert only.kind == "look"
    assert only.text.startswith("1 of 700 observations lies")


def test_few_outliers_among_many_are_something_to_look_at() -> None:
    residuals = normal(3000)
    residuals[::600] = 6.5
    assert remarks(residuals)[0].kind == "look"


def test_intervals_too_wide_and_too_narrow() -> None:
    (wide,) = remarks(0.6 * normal(700))
    assert wide.kind == "look"
    assert "wider than they need to be" in wide.text
    assert "on its bounds" in remarks(0.6 * normal(700), "poisson")[0].text
    narrow = next(r for r in remarks(1.8 * normal(700)) if "interval" in r.text)
    assert narrow.kind == "bad"
    assert "too narrow" in narrow.text


def test_residuals_that_follow_one_another() -> None:
    noise = normal(701)
    (only,) = remarks((noise[1:] + noise[:-1]) / np.sqrt(2))
    assert "Neighbouring residuals are correlated" in only.text
    wave = (normal(700) + np.sqrt(2) * np.sin(2 * np.pi * np.arange(700) / 7)) / np.sqrt(2)
    assert "Residuals 7 observations apart" in remarks(wave)[0].text.replace("14", "7")


def test_too_few_to_say() -> None:
    (only,) = remarks(normal(5))
    assert only.kind == "unknown"
