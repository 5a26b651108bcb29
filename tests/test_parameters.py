"""Hyperparameters: the vector that optimisers see, priors, and what was given by whom."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import stategp as sg
from stategp import kernels, priors
from stategp.parameters import (
    Parameter,
    all_parameters,
    declare,
    log_prior,
    map_parameters,
    to_vector,
    with_vector,
)

positive_numbers = st.floats(1e-6, 1e6)
unshrunk = settings(phases=[Phase.generate])  # to fail at once, not after minutes of shrinking


def values(tree: object) -> list[np.ndarray]:
    return [np.asarray(p.value) for p in all_parameters(tree)]


# --- the vector ------------------------------------------------------------------------------


@unshrunk
@given(st.tuples(*[positive_numbers] * 3), st.lists(positive_numbers, min_size=1, max_size=4))
def test_vector_round_trip(numbers: tuple[float, ...], weights: list[float]) -> None:
    kernel = kernels.Oscillator(
        variance=numbers[0], period=numbers[1], quality=numbers[2]
    ) + kernels.Harmonic(weights=np.array(weights))
    vector = to_vector(kernel)
    np.testing.assert_allclose(
        vector, np.log([*numbers, *weights, 1.0, 1.0]), rtol=1e-14, atol=1e-15
    )
    again = with_vector(kernel, vector)
    for old, new in zip(values(kernel), values(again), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-14)


@unshrunk
@given(st.lists(st.floats(-30, 30), min_size=5, max_size=5))
def test_any_vector_makes_a_model(numbers: list[float]) -> None:
    tree = (kernels.Matern32() * kernels.Cosine(), Parameter(jnp.asarray(0.5)))
    vector = np.array(numbers)
    moved = with_vector(tree, jnp.asarray(vector))
    np.testing.assert_allclose(to_vector(moved), vector, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(values(moved)[:4], np.exp(vector[:4]), rtol=1e-14)
    assert values(moved)[4] == vector[4]  # real numbers are not transformed


def test_fixed_parameters_stay_out_of_the_vector() -> None:
    kernel = 3.0 * kernels.Matern32(variance=sg.fixed(2.0), lengthscale=0.5)
    vector = to_vector(kernel)
    np.testing.assert_allclose(vector, [np.log(0.5)])
    moved = with_vector(kernel, vector + 1.0)
    np.testing.assert_allclose(values(moved), [3.0, 2.0, 0.5 * np.e])
    assert [p.learned for p in all_parameters(moved)] == [False, False, True]


def test_nothing_learned_is_an_empty_vector() -> None:
    kernel = kernels.Constant(variance=sg.fixed(2.0))
    assert to_vector(kernel).shape == (0,)
    assert values(with_vector(kernel, jnp.zeros(0))) == [2.0]


def test_derivatives_pass_through_the_vector() -> None:
    kernel = kernels.Matern32(variance=2.0, lengthscale=0.5)
    slope = jax.jit(jax.grad(lambda v: with_vector(kernel, v).lengthscale.value))(to_vector(kernel))
    np.testing.assert_allclose(slope, [0.0, 0.5], rtol=1e-15)


def test_everything_else_about_a_parameter_survives() -> None:
    prior = priors.Gamma()
    kernel = kernels.Cosine(period=sg.parameter(2.0, prior=prior))
    moved = with_vector(kernel, to_vector(kernel) + 1.0)
    for old, new in zip(all_parameters(kernel), all_parameters(moved), strict=True):
        assert (new.constraint, new.learned, new.prior) == (old.constraint, old.learned, old.prior)
        assert new.given


def test_map_parameters_meets_each_once() -> None:
    kernel = kernels.Sum(a=kernels.Matern32(), b=2.0 * kernels.Cosine())
    met: list[Parameter] = []
    same = map_parameters(lambda p: met.append(p) or p, kernel)
    assert met == all_parameters(kernel) == all_parameters(same)
    assert len(met) == 5


# --- what was given --------------------------------------------------------------------------

DEFAULTS = [
    kernels.Constant(),
    kernels.Cosine(),
    kernels.Matern12(),
    kernels.Matern32(),
    kernels.Matern52(),
    kernels.Matern72(),
    kernels.Oscillator(),
    kernels.Periodic(),
    kernels.DivergenceFreeOscillator(),
    kernels.QuasiPeriodic(),
    kernels.Harmonic(),
    kernels.SquaredExponential(),
]


@pytest.mark.parametrize("kernel", DEFAULTS, ids=lambda kernel: type(kernel).__name__)
def test_defaults_are_known_to_be_defaults(kernel: kernels.Kernel) -> None:
    for number in all_parameters(kernel):
        assert not number.given
        assert number.learned
        assert number.prior is None
        assert np.all(np.isfinite(number.value))


def test_numbers_are_known_to_be_given() -> None:
    kernel = kernels.Cosine(variance=2, period=np.float32(3.0))
    assert all(p.given and p.learned for p in all_parameters(kernel))
    assert [float(p) for p in all_parameters(kernel)] == [2.0, 3.0]
    assert all(p.value.dtype == np.float64 for p in all_parameters(kernel))


def test_a_prior_without_a_value_starts_from_the_default() -> None:
    prior = priors.LogNormal(median=2.0, spread=0.5)
    lengthscale = kernels.Matern32(lengthscale=sg.parameter(prior=prior)).lengthscale
    assert lengthscale.prior == prior
    assert not lengthscale.given
    assert lengthscale.learned
    assert float(lengthscale) == float(kernels.Matern32().lengthscale)


def test_a_prior_with_a_value_starts_from_it() -> None:
    lengthscale = kernels.Matern32(lengthscale=sg.parameter(2.0, prior=priors.Gamma())).lengthscale
    assert lengthscale.prior == priors.Gamma()
    assert lengthscale.given
    assert float(lengthscale) == 2.0


def test_a_fixed_parameter_keeps_its_value() -> None:
    lengthscale = kernels.Matern32(lengthscale=sg.fixed(2.0)).lengthscale
    assert not lengthscale.learned
    assert float(lengthscale) == 2.0
    assert repr(lengthscale) == "fixed(2)"
    assert repr(sg.fixed([1.0, 0.25])) == "fixed([1, 0.25])"


@pytest.mark.parametrize("make", [sg.fixed, sg.parameter])
@pytest.mark.parametrize("text", ["two", "2.0"])
def test_text_is_not_a_number(make: object, text: str) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        make(text)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_real_parameter_must_be_finite(value: float) -> None:
    with pytest.raises(ValueError, match="offset must be finite"):
        declare("offset", value, default=0.0, constraint="real", role="level")


# --- priors ----------------------------------------------------------------------------------

spread = st.floats(0.1, 10)


@given(x=st.floats(1e-3, 1e3), a=spread, b=spread, mean=st.floats(-5, 5))
def test_prior_densities(x: float, a: float, b: float, mean: float) -> None:
    pairs = [
        (priors.Normal(mean=mean, standard_deviation=a), scipy.stats.norm(mean, a)),
        (priors.HalfNormal(scale=a), scipy.stats.halfnorm(scale=a)),
        (priors.LogNormal(median=b, spread=a), scipy.stats.lognorm(s=a, scale=b)),
        (priors.Gamma(concentration=a, rate=b), scipy.stats.gamma(a, scale=1 / b)),
        (priors.InverseGamma(concentration=a, scale=b), scipy.stats.invgamma(a, scale=b)),
    ]
    for ours, theirs in pairs:
        expected = theirs.logpdf(x)
        np.testing.assert_allclose(
            ours.log_density(jnp.asarray(x)), expected, rtol=1e-11, atol=1e-11, err_msg=repr(ours)
        )


def test_priors_compare_by_value() -> None:
    assert isinstance(priors.Gamma(), priors.Prior)
    assert priors.Gamma(2.0, 1.0) == priors.Gamma()
    assert len({priors.Gamma(), priors.Gamma(), priors.Gamma(rate=3.0)}) == 2


def test_log_prior_adds_up_what_has_a_prior() -> None:
    first, second = priors.LogNormal(median=2.0), priors.HalfNormal(scale=3.0)
    kernel = kernels.Matern32(lengthscale=sg.parameter(1.5, prior=first)) + kernels.Harmonic(
        weights=sg.parameter(np.array([0.5, 2.0]), prior=second)
    )
    expected = scipy.stats.lognorm(s=1.0, scale=2.0).logpdf(1.5)
    expected += scipy.stats.halfnorm(scale=3.0).logpdf([0.5, 2.0]).sum()
    np.testing.assert_allclose(log_prior(kernel), expected, rtol=1e-13)
    assert log_prior(kernels.Matern32()) == 0.0
    assert log_prior(kernels.Matern32()).shape == ()


def test_log_prior_has_derivatives() -> None:
    prior = priors.LogNormal(median=2.0, spread=0.5)
    kernel = kernels.Matern32(lengthscale=sg.parameter(1.5, prior=prior))
    slope = jax.grad(lambda v: log_prior(with_vector(kernel, v)))(to_vector(kernel))
    np.testing.assert_allclose(slope, [0.0, -np.log(1.5 / 2.0) / 0.25 - 1.0], rtol=1e-12)
