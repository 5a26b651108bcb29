"""Making kernels: sums, products, scalings, constructors, truncation orders, printing."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared

import stategp as sg
from stategp import kernels
from stategp.kernels import Kernel
from stategp.kernels._compose import _distinct
from stategp.parameters import all_parameters, to_vector, with_vector

LAGS = jnp.array([0.0, 0.3, 1.0, 4.0])
OU = {"F": [[-1.0]], "L": [[1.0]], "Qc": [[2.0]], "H": [1.0]}

# The classes with parameters, and the names of those.
PARAMETERS = {
    kernels.Constant: ("variance",),
    kernels.Cosine: ("variance", "period"),
    kernels.Matern: ("variance", "lengthscale"),
    kernels.Matern12: ("variance", "lengthscale"),
    kernels.Matern32: ("variance", "lengthscale"),
    kernels.Matern52: ("variance", "lengthscale"),
    kernels.Matern72: ("variance", "lengthscale"),
    kernels.Oscillator: ("variance", "period", "quality"),
    kernels.Periodic: ("variance", "period", "lengthscale"),
    kernels.DivergenceFreeOscillator: ("variance", "period", "lengthscale"),
    kernels.QuasiPeriodic: ("variance", "period", "lengthscale", "decay"),
    kernels.Harmonic: ("weights", "frequency", "lengthscale"),
    kernels.SquaredExponential: ("variance", "lengthscale"),
}
every_class = pytest.mark.parametrize("cls", PARAMETERS, ids=lambda cls: cls.__name__)
every_parameter = pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls, names in PARAMETERS.items() for name in names],
    ids=lambda value: getattr(value, "__name__", value),
)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the tests' run-time type checks: what users meet."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@eqx.filter_jit
def covariance(kernel: Kernel, lags: jax.Array) -> jax.Array:
    return kernel.covariance(lags)


@eqx.filter_jit
def step_matrices(kernel: Kernel, dt: jax.Array) -> tuple[jax.Array, jax.Array]:
    return kernel.transition(dt), kernel.process_noise(dt)


def same_covariance(first: Kernel, second: Kernel) -> bool:
    return np.allclose(first.covariance(LAGS), second.covariance(LAGS), rtol=1e-14, atol=0)


# --- sums ------------------------------------------------------------------------------------


def test_sums_are_flat_and_name_their_parts() -> None:
    a, b, c = kernels.Matern32(), kernels.Cosine(), kernels.Constant()
    total = a + (b + c)
    assert total.kernels == (a, b, c)
    assert total.names == ("matern32", "cosine", "constant")
    assert kernels.Sum(trend=a, daily=b).names == ("trend", "daily")
    assert (kernels.Sum(trend=a) + c).names == ("trend", "constant")
    assert kernels.Sum(a, b, level=c).names == ("matern32", "cosine", "level")


def test_repeated_names_are_numbered() -> None:
    a = kernels.Matern32()
    assert (a + a + a).names == ("matern32", "matern32_2", "matern32_3")
    assert ((a + a) + (a + a)).names == ("matern32", "matern32_2", "matern32_3", "matern32_4")
    named = kernels.Sum(matern32_2=kernels.Cosine())
    assert (named + a + a).names == ("matern32_2", "matern32", "matern32_3")


@given(st.lists(st.sampled_from(["a", "b", "a_2", "a_3", "b_2", "c_x"]), max_size=12))
def test_names_become_distinct_and_the_first_of_each_stays(names: list[str]) -> None:
    distinct = _distinct(names)
    assert len(distinct) == len(names) == len(set(distinct))
    if len(set(names)) == len(names):
        assert distinct == tuple(names)


def test_a_named_sum_stays_one_part_made_of_several_blocks() -> None:
    a, b, c = kernels.Matern32(), kernels.Cosine(), kernels.Constant()
    total = kernels.Sum(slow=a + c, daily=b)
    assert total.names == ("slow", "daily")
    assert [block.state_dim for block in total.blocks()] == [2, 1, 2]


def test_a_sum_needs_a_kernel() -> None:
    with pytest.raises(ValueError, match="at least one kernel"):
        kernels.Sum()
    with pytest.raises(TypeError):
        kernels.Matern32() + 1.0


# --- products --------------------------------------------------------------------------------


def test_a_product_has_the_product_of_the_covariances_on_the_kronecker_state() -> None:
    left = kernels.Matern32(lengthscale=0.7) + kernels.Constant(variance=0.4)
    right = kernels.Oscillator(period=2.0, variance=3.0)
    product = left * right
    assert product.state_dim == left.state_dim * right.state_dim
    assert not product.deterministic
    np.testing.assert_allclose(
        product.covariance(LAGS), left.covariance(LAGS) * right.covariance(LAGS), rtol=1e-15
    )
    whole, *factors = (
        eqx.filter_jit(lambda k: (k.transition(0.3), k.stationary_covariance()))(kernel)
        for kernel in (product, left, right)
    )
    for found, first, second in zip(whole, *factors, strict=True):
        np.testing.assert_allclose(found, np.kron(first, second), rtol=1e-15)
    np.testing.assert_array_equal(product.emission(), np.kron(left.emission(), right.emission()))


def test_a_product_with_a_sum_has_one_block_for_each_pair() -> None:
    a, b, c = kernels.Matern12(), kernels.Matern32(), kernels.Matern52()
    dims = [block.state_dim for block in ((a + b) * (b + c)).blocks()]
    assert dims == [1 * 2, 1 * 3, 2 * 2, 2 * 3]


def test_products_of_deterministic_kernels_are_deterministic() -> None:
    product = kernels.Cosine() * (kernels.Cosine(period=0.3) + kernels.Constant())
    assert product.deterministic
    assert not product.process_noise(0.7).any()
    assert not (product * kernels.Matern12()).deterministic


# --- scaling by a number ---------------------------------------------------------------------

REFUSED = r"positive number|unsupported operand"
NUMBERS = [2, 2.0, np.float64(2), np.float32(2), np.int64(2), np.array(2.0), jnp.asarray(2.0)]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__}")
def test_a_number_scales_the_covariance_and_nothing_else(number: object) -> None:
    kernel = kernels.Matern32(variance=1.5, lengthscale=0.7)
    for scaled in (number * kernel, kernel * number):
        assert isinstance(scaled, Kernel)
        np.testing.assert_array_equal(scaled.covariance(LAGS), 2 * kernel.covariance(LAGS))
        np.testing.assert_array_equal(scaled.process_noise(0.3), 2 * kernel.process_noise(0.3))
        assert scaled.state_dim == kernel.state_dim
        assert len(to_vector(scaled)) == 2  # the number is not learned


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "number",
    [
        0,
        0.0,
        -1.0,
        np.float64(-2),
        float("nan"),
        np.array([1.0, 2.0]),
        jnp.ones(2),
        np.ones((1, 1)),
    ],
    ids=repr,
)
def test_only_one_positive_number_can_scale_a_kernel(number: object) -> None:
    kernel = kernels.Matern32()
    with pytest.raises((ValueError, TypeError), match=REFUSED):
        kernel * number
    with pytest.raises((ValueError, TypeError), match=REFUSED):
        number * kernel


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("other", ["2", "two", None, True, 1j, [2.0]], ids=repr)
def test_other_things_cannot_scale_a_kernel(other: object) -> None:
    with pytest.raises(TypeError, match="Matern32"):
        kernels.Matern32() * other
    with pytest.raises(TypeError, match="Matern32"):
        other * kernels.Matern32()


def test_an_infinite_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"finite|positive number"):
        np.inf * kernels.Matern32()


# --- constructors ----------------------------------------------------------------------------


@every_class
def test_parameters_are_given_by_name(cls: type[Kernel]) -> None:
    with pytest.raises(TypeError, match="positional"):
        cls(1.0)


def test_the_variance_of_an_equation_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        kernels.FromSDE(*OU.values(), 2.0)


BAD_NUMBERS = [-1.0, 0.0, float("nan"), float("inf"), "abc", "2.0"]


@every_parameter
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=repr)
def test_a_bad_value_is_refused_by_name(cls: type[Kernel], name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        cls(**{name: value})


@every_parameter
@pytest.mark.parametrize("value", BAD_NUMBERS[:4], ids=repr)
def test_a_bad_fixed_value_is_refused_by_name(cls: type[Kernel], name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        cls(**{name: sg.fixed(np.full(1, value) if name == "weights" else value)})


@every_parameter
def test_several_values_are_refused_where_one_is_meant(cls: type[Kernel], name: str) -> None:
    value = np.ones((2, 2)) if name == "weights" else np.array([1.0, 2.0])
    with pytest.raises(ValueError, match=name):
        cls(**{name: value})


@every_parameter
def test_values_arrive_in_their_parameters(cls: type[Kernel], name: str) -> None:
    number = getattr(cls(**{name: 2.5}), name)
    assert np.all(np.asarray(number.value) == 2.5)
    assert number.learned
    assert not getattr(
        cls(**{name: sg.fixed(np.full(1, 2.5) if name == "weights" else 2.5)}), name
    ).learned


def test_the_default_decay_is_ten_periods() -> None:
    assert float(kernels.QuasiPeriodic(period=3.0).decay) == 30.0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernels.Periodic(tolerance=0.0), "tolerance"),
        (lambda: kernels.Periodic(tolerance=1.0), "tolerance"),
        (lambda: kernels.Periodic(lengthscale=0.01), "lengthscale 0.01 .* harmonics"),
        (lambda: kernels.QuasiPeriodic(lengthscale=0.01), "lengthscale 0.01 .* harmonics"),
        (lambda: kernels.QuasiPeriodic(envelope="cubic"), "envelope .* 'cubic'"),
        (lambda: kernels.SquaredExponential(order=0), "order"),
        (lambda: kernels.SquaredExponential(order=13), "order .* 13"),
    ],
)
def test_bad_settings_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- truncation orders -----------------------------------------------------------------------


@pytest.mark.parametrize("lengthscale", [0.2, 0.7, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-6, 1e-10])
def test_the_order_of_a_periodic_kernel_is_the_least_that_meets_its_tolerance(
    lengthscale: float, tolerance: float
) -> None:
    kernel = kernels.Periodic(
        variance=2.0, period=3.0, lengthscale=lengthscale, tolerance=tolerance
    )
    lags = np.linspace(0, 3, 31)
    exact = 2 * ExpSineSquared(lengthscale, 3.0)(np.zeros((1, 1)), lags[:, None])[0]
    terms = [np.asarray(covariance(block, jnp.asarray(lags))) for block in kernel.blocks()]
    assert len(terms) == kernel.order + 1
    assert np.abs(sum(terms) - exact).max() <= 2 * tolerance
    assert np.abs(sum(terms[:-1]) - exact).max() > 2 * tolerance
    np.testing.assert_allclose(kernel.truncation_error(), 1 - sum(terms)[0] / 2, rtol=0, atol=1e-14)


@pytest.mark.parametrize("lengthscale", [0.1, 0.5, 1.0, 5.0, 1e3])
def test_the_weights_of_the_harmonics_are_bessel_functions(lengthscale: float) -> None:
    kernel = kernels.Periodic(lengthscale=lengthscale, order=30)
    expected = np.where(np.arange(31) > 0, 2, 1) * ive(np.arange(31), lengthscale**-2)
    np.testing.assert_allclose(kernel.weights(), expected, rtol=1e-12)


def test_a_quasi_periodic_kernel_is_truncated_like_the_periodic_one() -> None:
    kernel = kernels.QuasiPeriodic(lengthscale=0.5, tolerance=1e-6, envelope="matern52")
    assert kernel.order == kernels.Periodic(lengthscale=0.5, tolerance=1e-6).order
    assert kernel.state_dim == 3 * (2 * kernel.order + 1)


@pytest.mark.parametrize("cls", [kernels.Periodic, kernels.QuasiPeriodic])
def test_refining_follows_the_lengthscale(cls: type[Kernel]) -> None:
    settings = {"variance": sg.fixed(2.0), "tolerance": 1e-6}
    if cls is kernels.QuasiPeriodic:
        settings["envelope"] = "matern52"
    prior = sg.priors.LogNormal(median=3.0)
    kernel = cls(period=sg.parameter(3.0, prior=prior), lengthscale=2.0, **settings)
    vector = to_vector(kernel)
    moved = with_vector(kernel, vector.at[1].add(np.log(0.1)))  # period, then lengthscale
    assert moved.order == kernel.order
    refined = moved.refined()
    np.testing.assert_allclose(float(refined.lengthscale), 0.2, rtol=1e-15)
    assert refined.order == cls(lengthscale=0.2, **settings).order > kernel.order
    assert all_parameters(refined) == all_parameters(moved)
    assert refined.period.prior == prior
    assert refined.tolerance == 1e-6
    assert getattr(refined, "envelope", None) == settings.get("envelope")


def test_an_order_that_was_given_stays() -> None:
    kernel = kernels.Periodic(lengthscale=0.2, order=2)
    assert kernel.order == kernel.refined().order == 2


def test_refining_reaches_into_sums_and_products() -> None:
    kernel = kernels.Sum(
        daily=2.0 * kernels.Periodic(lengthscale=2.0), rest=kernels.Matern32(lengthscale=1.0)
    )
    moved = with_vector(kernel, jnp.full(5, np.log(0.3)))
    refined = moved.refined()
    assert refined.names == ("daily", "rest")
    assert refined.kernels[0].right.order == kernels.Periodic(lengthscale=0.3).order
    assert refined.state_dim > moved.state_dim
    np.testing.assert_array_equal(to_vector(refined), to_vector(moved))


@pytest.mark.parametrize("order", [1, 2, 4, 6, 8, 12])
def test_the_approximation_error_of_the_squared_exponential_is_true(order: int) -> None:
    kernel = kernels.SquaredExponential(variance=3.0, lengthscale=0.5, order=order)
    lags = np.linspace(0, 5, 5001)
    exact = 3 * RBF(0.5)(np.zeros((1, 1)), lags[:, None])[0]
    error = np.abs(kernel.covariance(jnp.asarray(lags)) - exact).max() / 3
    np.testing.assert_allclose(kernel.approximation_error, error, rtol=1e-4)


def test_the_squared_exponential_gets_better_with_the_order() -> None:
    errors = [kernels.SquaredExponential(order=n).approximation_error for n in range(1, 13)]
    assert all(later < earlier for earlier, later in itertools.pairwise(errors[1:]))
    assert errors[-1] < 1e-3


# --- kernels from equations ------------------------------------------------------------------

EYE = np.eye(2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((-EYE[:1], EYE, EYE, [1, 0]), r"F must be \(d, d\).*\(1, 2\)"),
        ((-EYE, EYE, EYE[:1, :1], [1, 0]), r"Qc \(r, r\)"),
        ((-EYE, np.eye(3), np.eye(3), [1, 0]), r"L \(d, r\)"),
        ((-np.eye(3), np.ones((2, 3)), EYE, [1, 0, 0]), r"L \(d, r\)"),
        ((-EYE, EYE, EYE, [1, 0, 0]), r"H \(d,\)"),
        ((-EYE, EYE * np.nan, EYE, [1, 0]), "finite"),
        ((-EYE, EYE, EYE, [1, np.inf]), "finite"),
        ((EYE, EYE, EYE, [1, 0]), "stable"),
        ((0 * EYE, EYE, EYE, [1, 0]), "stable.*Constant"),
        (([[0, 1], [-1, 0]], EYE, EYE, [1, 0]), "stable.*Cosine"),
        ((-EYE, EYE, -EYE, [1, 0]), "positive semi-definite"),
        ((-EYE, EYE, [[1, 0.5], [0, 1]], [1, 0]), "symmetric"),
        (([["a", 0], [0, -1]], EYE, EYE, [1, 0]), "."),
    ],
)
def test_bad_equations_are_refused(arrays: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.FromSDE(*arrays)


def test_the_variance_of_an_equation_is_checked() -> None:
    with pytest.raises(ValueError, match="variance"):
        kernels.FromSDE(**OU, variance=-1.0)


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_lower_rank_is_accepted(seed: int) -> None:
    """A positive semi-definite Q_c has eigenvalues of −1e-17 as often as zero."""
    column = np.random.default_rng(seed).normal(size=(3, 1))
    kernel = kernels.FromSDE(-np.eye(3), np.eye(3), column @ column.T, np.ones(3))
    np.testing.assert_array_equal(kernel.Qc.value, column @ column.T)


def test_an_equation_scales_with_its_variance() -> None:
    kernel = kernels.FromSDE(**OU, variance=3.0)
    np.testing.assert_allclose(covariance(kernel, LAGS), 3 * np.exp(-LAGS), rtol=1e-13)


@pytest.mark.parametrize("rate", [1e-18, 1e-9, 1e9, 1e18])
def test_equations_in_any_unit_of_time(rate: float) -> None:
    kernel = kernels.SquaredExponential(lengthscale=1 / rate, order=4)
    twin = kernels.SquaredExponential(order=4)
    found = step_matrices(kernel, jnp.asarray(0.7 / rate))
    for ours, theirs in zip(found, step_matrices(twin, jnp.asarray(0.7)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rate", [1e-6, 1e6])
def test_raw_derivatives_in_any_unit_of_time(rate: float) -> None:
    """Matérn-5/2 in f, f′, f″, where ‖F‖ is the cube of the rate (or its inverse)."""
    kernel = kernels.FromSDE(
        F=[[0, 1, 0], [0, 0, 1], [-(rate**3), -3 * rate**2, -3 * rate]],
        L=[[0], [0], [1]],
        Qc=[[16 / 3 * rate**5]],
        H=[1, 0, 0],
    )
    expected = covariance(kernels.Matern52(lengthscale=5**0.5 / rate), LAGS / rate)
    np.testing.assert_allclose(covariance(kernel, LAGS / rate), expected, rtol=0, atol=1e-12)


# --- printing --------------------------------------------------------------------------------

PRINTED = {
    "Constant(variance=4)": kernels.Constant(variance=4.0),
    "Constant(variance=fixed(0.1))": kernels.Constant(variance=sg.fixed(0.1)),
    "Cosine(variance=1, period=24)": kernels.Cosine(period=24),
    "Matern12(variance=1, lengthscale=3)": kernels.Matern12(lengthscale=3.0),
    "Matern32(variance=2.5, lengthscale=fixed(3))": kernels.Matern32(
        variance=2.5, lengthscale=sg.fixed(3.0)
    ),
    "Matern52(variance=1, lengthscale=parameter(2, prior=LogNormal(median=2.0, spread=0.5)))": (
        kernels.Matern52(
            lengthscale=sg.parameter(2.0, prior=sg.priors.LogNormal(median=2.0, spread=0.5))
        )
    ),
    "Matern72(variance=1, lengthscale=1e-09)": kernels.Matern72(lengthscale=1e-9),
    "Oscillator(variance=1, period=5, quality=0.25)": kernels.Oscillator(period=5, quality=0.25),
    "Periodic(variance=1, period=2, lengthscale=0.5)": kernels.Periodic(period=2, lengthscale=0.5),
    "Harmonic(weights=[1, 0.5], frequency=147, lengthscale=0.125)": kernels.Harmonic(
        weights=[1.0, 0.5], frequency=147.0, lengthscale=0.125
    ),
    "SquaredExponential(variance=1, lengthscale=2, order=4)": kernels.SquaredExponential(
        lengthscale=2.0, order=4
    ),
    "QuasiPeriodic(variance=1, period=1, lengthscale=1, decay=20)": kernels.QuasiPeriodic(
        decay=20.0
    ),
    "Matern12(variance=1, lengthscale=1) + Constant(variance=1)": (
        kernels.Matern12() + kernels.Constant()
    ),
    "2.5 * (Matern12(variance=1, lengthscale=1) + Constant(variance=1))": (
        2.5 * (kernels.Matern12() + kernels.Constant())
    ),
    "2 * Matern12(variance=1, lengthscale=1) * Cosine(variance=1, period=7)": (
        2.0 * kernels.Matern12() * kernels.Cosine(period=7.0)
    ),
}


@pytest.mark.parametrize("text", PRINTED)
def test_kernels_print_as_the_code_that_makes_them(text: str) -> None:
    kernel = PRINTED[text]
    assert repr(kernel) == text
    assert same_covariance(_evaluated(text), kernel)


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.QuasiPeriodic(decay=20.0, envelope="matern52"),
        kernels.QuasiPeriodic(decay=20.0, tolerance=1e-8),
        kernels.Periodic(tolerance=1e-8),
        kernels.Periodic(order=2),
    ],
    ids=["envelope", "tolerance of a quasi-periodic", "tolerance", "order"],
)
def test_settings_that_change_a_kernel_are_printed(kernel: Kernel) -> None:
    again = _evaluated(repr(kernel))
    assert again.state_dim == kernel.state_dim
    assert same_covariance(again, kernel)


def test_an_equation_prints_its_size() -> None:
    assert repr(kernels.FromSDE(**OU, variance=2.0)) == "FromSDE(state_dim=1, variance=2)"


def test_a_traced_kernel_can_be_printed() -> None:
    texts = []
    jax.jit(lambda k: texts.append(repr(k)))(kernels.Matern12())
    assert texts == ["Matern12(variance=traced, lengthscale=traced)"]


def _evaluated(text: str) -> Kernel:
    names = {**vars(kernels), **vars(sg.priors), "fixed": sg.fixed, "parameter": sg.parameter}
    return eval(text, names)
