"""How small the noise may become, and what a search says that ends there."""

import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._inference import LBFGS, run, search_limits
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


@pytest.mark.parametrize("size", [1e-300, 1e-149, 1e149, 1e300])
def test_numbers_of_extreme_size_have_finite_limits_or_none(size):
    y = size * np.sin(np.arange(9.0))
    assert resolution(y) == 0
    assert resolution(size * np.array([1.0, 1.0])) == 0
    (lowest,) = search_limits(sg.GP(k.Matern12(), mean=sg.means.Zero()), y).lowest[-1:]
    assert lowest < np.inf
    assert not np.isnan(lowest)


def test_additive_models_end_at_the_ratio_of_a_sweep():
    y = np.sin(np.arange(9.0))
    additive = sg.AdditiveGP({"a": k.Matern12(), "b": k.Matern12()})
    lowest = search_limits(additive, y).lowest
    np.testing.assert_allclose(np.max(lowest), np.log(np.var(y) / 1e8))


def test_limits_are_those_of_the_likelihood_in_the_order_of_the_vector():
    y = np.array([3.0, 7.0, 12.0, 9.0])
    rounding = 0.1**2 / 12
    gaussian = search_limits(sg.GP(k.Matern12(), mean=sg.means.Constant(1.0)), y)
    np.testing.assert_allclose(gaussian.lowest, [-np.inf, -np.inf, np.log(rounding), -np.inf])
    student = search_limits(sg.GP(k.Matern12(), "student_t"), y)
    np.testing.assert_allclose(np.max(student.lowest), np.log(rounding) / 2)
    given = search_limits(sg.GP(k.Matern12(), sg.likelihoods.Gaussian(variance=1e-9)), y)
    np.testing.assert_allclose(given.lowest[2], np.log(1e-9))
    fine = search_limits(sg.GP(k.Matern12()), np.sin(y))
    np.testing.assert_allclose(fine.lowest[2], np.log(np.var(np.sin(y)) / 1e12))


def test_a_search_stops_at_the_lowest_value_and_says_so():
    def function(vector):
        return -float(vector[0] + vector[1] ** 2), -np.array([1.0, 2 * vector[1]])

    low, high = np.array([-2.0, -18.0]), np.array([18.0, 18.0])
    search = LBFGS(function, np.array([0.0, 3.0]), observations=1, low=low, high=high, max_steps=50)
    result = run(search, lambda *_: None)
    np.testing.assert_allclose(search.best.vector, [-2.0, 0.0], atol=1e-4)
    np.testing.assert_array_equal(search.at_edge(), [-1, 0])
    assert result.converged


def test_noise_that_vanishes_ends_at_what_the_data_can_show_and_says_so():
    x = np.linspace(0, 10, 30)
    posterior = sg.fit(sg.GP(k.Matern52()), x, np.sin(x))
    assert posterior.fit_result.converged
    assert "the noise fell to the smallest that these data can show" in str(posterior.fit_result)


@pytest.mark.parametrize("noise", [1e-8, 1e-11])
def test_additive_models_have_six_digits_or_no_number(noise):
    """One component is a GP, whose careful way keeps all digits."""
    x = np.linspace(0, 10, 40)
    y, kernel = np.sin(x), k.Matern12(lengthscale=1.0)
    likelihood, mean = sg.likelihoods.Gaussian(variance=noise), sg.means.Zero()
    additive = sg.AdditiveGP({"a": kernel}, likelihood, mean=mean)
    if noise < 1e-10:
        with pytest.raises(FloatingPointError, match="orders of magnitude above the noise"):
            sg.condition(additive, {"a": x}, y, inducing="data")
    else:
        exact = sg.condition(sg.GP(kernel, likelihood, mean=mean), x, y, inducing="data")
        bound = sg.condition(additive, {"a": x}, y, inducing="data").elbo
        assert bound == pytest.approx(exact.elbo, rel=1e-6)
