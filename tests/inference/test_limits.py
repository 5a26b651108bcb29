"""How small the noise may become, and what a search says that ends there."""

import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._inference import maximise, noise_limits
from stategp._inference._limits import resolution


@pytest.mark.parametrize(
    ("y", "unit"),
    [
        ([3.0, 7.0, 12.0], 1.0),
        ([0.12, 3.4, 7.0], 0.01),
        ([1200.0, 45600.0], 100.0),
        ([1.0, 1.0], 0.0),
        (np.sin(np.arange(9.0)), 0.0),
    ],
)
def test_the_unit_of_numbers_written_with_few_digits(y, unit):
    assert resolution(np.asarray(y)) == pytest.approx(unit, rel=1e-12)


def test_limits_are_those_of_the_likelihood_in_the_order_of_the_vector():
    y = np.array([3.0, 7.0, 12.0, 9.0])
    rounding = 0.1**2 / 12
    gaussian = noise_limits(sg.GP(k.Matern12(), mean=sg.means.Constant(1.0)), y)
    np.testing.assert_allclose(gaussian.lowest, [-np.inf, -np.inf, np.log(rounding), -np.inf])
    student = noise_limits(sg.GP(k.Matern12(), "student_t"), y)
    np.testing.assert_allclose(np.max(student.lowest), np.log(rounding) / 2)
    given = noise_limits(sg.GP(k.Matern12(), sg.likelihoods.Gaussian(variance=1e-9)), y)
    np.testing.assert_allclose(given.lowest[2], np.log(1e-9))
    fine = noise_limits(sg.GP(k.Matern12()), np.sin(y))
    np.testing.assert_allclose(fine.lowest[2], np.log(np.var(np.sin(y)) / 1e12))


def test_a_search_stops_at_the_lowest_value_and_says_so():
    def function(vector):
        return -float(vector[0] + vector[1] ** 2), -np.array([1.0, 2 * vector[1]])

    best, _, result = maximise(
        function,
        np.array([0.0, 3.0]),
        observations=1,
        reach=18.0,
        max_steps=50,
        report=lambda *_: None,
        lowest=np.array([-2.0, -np.inf]),
        remark="that is the end",
    )
    np.testing.assert_allclose(best, [-2.0, 0.0], atol=1e-4)
    assert result.converged
    assert "that is the end" in result.message
    assert "edge" not in result.message
