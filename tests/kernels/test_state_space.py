"""Each kernel's matrices against its covariance, its differential equation and many digits."""

import functools

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.test_util import check_grads

import stategp as sg
from stategp.kernels import Kernel
from stategp.kernels._discretise import discretise
from stategp.parameters import to_vector, with_vector

from .cases import CASES, MATERNS, Case
from .references import NEGLIGIBLE, exact_matrices

LOG_STEPS = np.logspace(-12, 3, 16)  # λΔ
LENGTH = 24  # of every list of steps, so that each kernel compiles once
every_kernel = pytest.mark.parametrize("name", CASES)
closed_forms = pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.closed_form])
from_equations = pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.closed_form])


class Matrices(eqx.Module):
    A: jax.Array
    Q: jax.Array
    covariance: jax.Array
    P: jax.Array
    H: jax.Array
    F: jax.Array
    D: jax.Array


@eqx.filter_jit
def _matrices(kernel: Kernel, steps: jax.Array) -> Matrices:
    return Matrices(
        jax.vmap(kernel.transition)(steps),
        jax.vmap(kernel.process_noise)(steps),
        kernel.covariance(steps),
        kernel.stationary_covariance(),
        kernel.emission(),
        kernel.feedback(),
        kernel.diffusion(),
    )


def matrices(kernel: Kernel, steps: np.ndarray) -> Matrices:
    """Everything that a kernel offers, as NumPy arrays."""
    padded = np.concatenate([steps, np.zeros(LENGTH - len(steps))])
    found = jax.tree.map(np.array, _matrices(kernel, jnp.asarray(padded)))
    at_steps = (found.A[: len(steps)], found.Q[: len(steps)], found.covariance[: len(steps)])
    return eqx.tree_at(lambda m: (m.A, m.Q, m.covariance), found, at_steps)


def steps_of(case: Case) -> np.ndarray:
    """Steps over fifteen decades, and both sides of every switch between formulas."""
    around = [switch * side for switch in case.switches[:3] for side in (1 - 1e-9, 1 + 1e-9)]
    return np.concatenate([LOG_STEPS / case.rate, around])


@functools.cache
def at_all_steps(name: str) -> Matrices:
    return matrices(CASES[name].kernel, steps_of(CASES[name]))


@functools.cache
def exact_at_all_steps(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    case, found = CASES[name], at_all_steps(name)
    # Entries that are tiny beside others have to be right in closed forms only.
    digits = {} if case.closed_form else {"digits": 100}
    equation = (found.F, found.D, found.P)
    return exact_matrices(case.kernel, steps_of(case), equation=equation, **digits)


def largest(stack: np.ndarray) -> np.ndarray:
    """The largest entry of each matrix of a stack, shaped to divide it."""
    return np.abs(stack).max(axis=(-2, -1), keepdims=True)


# --- the covariance --------------------------------------------------------------------------


@every_kernel
def test_covariance_agrees_with_an_independent_formula_and_with_the_state_space(name: str) -> None:
    case = CASES[name]
    lags = np.concatenate([[0.0], np.logspace(-3, 1.5, 14) / case.rate])
    found = matrices(case.kernel, lags)
    expected = case.reference(lags)
    through_states = np.einsum("i,nij,jk,k->n", found.H, found.A, found.P, found.H)
    np.testing.assert_allclose(found.covariance, expected, rtol=0, atol=1e-12 * expected[0])
    np.testing.assert_allclose(through_states, expected, rtol=0, atol=1e-12 * expected[0])


@pytest.mark.parametrize("name", ["Matérn-3/2", "squared exponential 4", "sum"])
def test_calling_a_kernel_gives_its_covariance_matrix(name: str) -> None:
    case = CASES[name]
    x1, x2 = np.array([0.0, 0.3, 2.0]) / case.rate, np.array([1.0, 0.3]) / case.rate
    dense = case.kernel(jnp.asarray(x1), jnp.asarray(x2))
    expected = case.reference(np.abs(x1[:, None] - x2[None, :]).reshape(-1)).reshape(3, 2)
    np.testing.assert_allclose(dense, expected, rtol=1e-9, atol=1e-12 * expected.max())


# --- the differential equation ---------------------------------------------------------------


@every_kernel
def test_stationary_covariance_solves_the_lyapunov_equation(name: str) -> None:
    found = at_all_steps(name)
    left = found.F @ found.P + found.P @ found.F.T
    scale = (np.abs(found.F) @ np.abs(found.P)).max()
    np.testing.assert_allclose(left, -found.D, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(found.P, found.P.T, rtol=0, atol=1e-15 * found.P.max())


@every_kernel
def test_stationary_covariance_against_many_digits(name: str) -> None:
    _, _, exact = exact_at_all_steps(name)
    np.testing.assert_allclose(at_all_steps(name).P, exact, rtol=0, atol=1e-12 * exact.max())


@every_kernel
def test_transition_is_the_exponential_of_the_feedback(name: str) -> None:
    """Links `feedback` to the rest where the exact reference does not use it (products)."""
    step = 0.7 / CASES[name].rate
    found = matrices(CASES[name].kernel, np.array([step]))
    np.testing.assert_allclose(found.A[0], scipy.linalg.expm(found.F * step), rtol=0, atol=1e-13)


@every_kernel
def test_state_dim_and_determinism_say_what_the_matrices_are(name: str) -> None:
    kernel, found = CASES[name].kernel, at_all_steps(name)
    assert found.F.shape == (kernel.state_dim, kernel.state_dim)
    assert found.H.shape == (kernel.state_dim,)
    assert kernel.deterministic == (not found.Q.any())
    assert kernel.deterministic == (not found.D.any())


@pytest.mark.parametrize("name", ["coupled", "stiff", "raw derivatives", "squared exponential 6"])
def test_states_of_an_equation_are_dimensionless(name: str) -> None:
    np.testing.assert_allclose(np.diagonal(at_all_steps(name).P), 1.0, rtol=1e-6)


# --- a step, against many digits -------------------------------------------------------------


@closed_forms
def test_every_entry_of_the_process_noise_is_accurate_at_every_step(name: str) -> None:
    _, exact, _ = exact_at_all_steps(name)
    np.testing.assert_allclose(at_all_steps(name).Q, exact, rtol=1e-9, atol=NEGLIGIBLE)


@closed_forms
def test_transition_is_accurate_at_every_step(name: str) -> None:
    exact, _, _ = exact_at_all_steps(name)
    error = np.abs(at_all_steps(name).A - exact)
    assert np.all(error <= 1e-9 * largest(exact) + NEGLIGIBLE), (error / largest(exact)).max()


@pytest.mark.parametrize("name", MATERNS)
def test_every_entry_of_a_matern_transition_is_accurate_at_every_step(name: str) -> None:
    exact, _, _ = exact_at_all_steps(name)
    np.testing.assert_allclose(at_all_steps(name).A, exact, rtol=1e-9, atol=NEGLIGIBLE)


@pytest.mark.parametrize("name", MATERNS)
def test_after_an_endless_step_a_matern_has_forgotten(name: str) -> None:
    found = matrices(CASES[name].kernel, np.array([1e200, 1e308]))
    np.testing.assert_array_equal(found.A, 0.0)
    np.testing.assert_array_equal(found.covariance, 0.0)
    for noise in found.Q:
        np.testing.assert_array_equal(noise, found.P)


@from_equations
def test_process_noise_from_an_equation_is_accurate_and_a_covariance(name: str) -> None:
    found, (_, exact, _) = at_all_steps(name).Q, exact_at_all_steps(name)
    error = np.abs(found - exact) / largest(exact)
    assert np.all(error <= 1e-9), error.max()
    assert np.all(np.abs(found - found.transpose(0, 2, 1)) <= 1e-15 * largest(found))
    assert np.all(np.linalg.eigvalsh(found / largest(found)) >= -1e-15)
    deviations = np.sqrt(np.einsum("nii->ni", found))
    deviations = np.where(deviations > 0, deviations, 1.0)  # deterministic parts
    scaled = found / deviations[:, :, None] / deviations[:, None, :]
    assert np.all(np.linalg.eigvalsh(scaled) >= -1e-12)


@from_equations
def test_transition_from_an_equation_is_accurate(name: str) -> None:
    exact, _, _ = exact_at_all_steps(name)
    np.testing.assert_allclose(at_all_steps(name).A, exact, rtol=0, atol=1e-12 * exact.max())


# --- what holds for any step -----------------------------------------------------------------

PAIRS = LENGTH // 3
decades = st.lists(st.floats(-12, 3), min_size=PAIRS, max_size=PAIRS).map(np.array)


@every_kernel
@hypothesis.settings(max_examples=8, phases=[hypothesis.Phase.generate])  # eight pairs in each
@hypothesis.given(first=decades, second=decades, shift=st.floats(-1, 1))
def test_two_steps_make_one(name: str, first: np.ndarray, second: np.ndarray, shift: float) -> None:
    """A(a+b) = A(b)A(a), Q(a+b) = A(b)Q(a)A(b)ᵀ + Q(b), A P₀ Aᵀ + Q = P₀, at any parameters."""
    case = CASES[name]
    vector = to_vector(case.kernel)
    moved = with_vector(case.kernel, vector + shift * jnp.cos(jnp.arange(len(vector))))
    a, b = 10**first / case.rate, 10**second / case.rate
    found = matrices(moved, np.concatenate([a, b, a + b]))
    (Aa, Ab, Aab), (Qa, Qb, Qab) = np.split(found.A, 3), np.split(found.Q, 3)
    ATb, ATab = (A.transpose(0, 2, 1) for A in (Ab, Aab))

    phase = np.maximum(1, case.rate * (a + b))[:, None, None]  # its rounding is relative
    assert np.all(np.abs(Ab @ Aa - Aab) <= 1e-13 * phase * np.maximum(1, largest(Aab)))
    assert np.all(np.abs(Aab @ found.P @ ATab + Qab - found.P) <= 1e-12 * np.abs(found.P).max())
    deviation = np.sqrt(np.einsum("nii->ni", Qab))
    entrywise = deviation[:, :, None] * deviation[:, None, :]
    scale = entrywise if case.closed_form else largest(Qab)
    assert np.all(np.abs(Ab @ Qa @ ATb + Qb - Qab) <= 1e-11 * scale)


@every_kernel
def test_a_step_of_zero_changes_nothing(name: str) -> None:
    found = matrices(CASES[name].kernel, np.zeros(1))
    np.testing.assert_array_equal(found.A[0], np.eye(len(found.H)))
    np.testing.assert_array_equal(found.Q[0], np.zeros_like(found.F))


# --- derivatives -----------------------------------------------------------------------------


@eqx.filter_jit
def _scalars(
    kernel: Kernel, vectors: jax.Array, steps: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """A scalar of A, Q and P₀ with its gradients in the parameters' logarithms and the step."""
    dim = kernel.state_dim
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(3, dim, dim)))

    def scalar(vector: jax.Array, step: jax.Array) -> jax.Array:
        moved = with_vector(kernel, vector)
        A, Q, P = moved.transition(step), moved.process_noise(step), moved.stationary_covariance()
        return jnp.sum(weights * jnp.stack([A, Q, P]))

    return jax.vmap(jax.value_and_grad(scalar, argnums=(0, 1)))(vectors, steps)


INSTEAD = {  # the same classes with fewer states; None: nothing that another kernel lacks
    "periodic": sg.kernels.Periodic(variance=1.2, period=2.0, lengthscale=0.8, order=2),
    "quasi-periodic 1/2": None,
    "quasi-periodic 3/2": None,
    "quasi-periodic 5/2": sg.kernels.QuasiPeriodic(
        variance=1.2, period=2.0, lengthscale=0.8, decay=7.0, envelope="matern52", order=1
    ),
    "sum": None,  # "nested" is a sum of sums and products, with a constant, …
    "trend + season": None,
    "scaled": None,
    "cosine × Matérn": None,
    "Matérn × cosine": None,  # "Wiener × cosine"
    "Matérn × oscillator": None,
    "oscillator × Matérn": None,  # "oscillator × oscillator", "Matérn × Matérn"
    "squared exponential 2": None,
    "squared exponential 6": None,
    "squared exponential 8": None,
    "SDE × cosine": None,
    "SDE + Matérn": None,
    "slowed": None,
}
DIFFERENTIATED = {n: INSTEAD.get(n, case.kernel) for n, case in CASES.items()}
differentiated = pytest.mark.parametrize("name", [n for n, k in DIFFERENTIATED.items() if k])
EXTREMES = np.array([0.0, 1e-12, 1.0, 1e3, 1e6, 1e12])  # λΔ
ORDINARY = np.array([0.05, 0.9, 3.0])
NUDGE = 1e-5


@functools.cache
def scalars(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients at the extremes, then at ordinary steps with each input nudged."""
    kernel, rate = DIFFERENTIATED[name], CASES[name].rate
    vector = np.asarray(to_vector(kernel))
    nudges = NUDGE * np.eye(len(vector) + 1)  # the last one is the step's
    shifts = np.concatenate([np.zeros((1, len(vector) + 1)), nudges, -nudges])
    points = [np.append(vector, step / rate) for step in EXTREMES]
    for step in ORDINARY / rate:
        points.extend(np.append(vector + s[:-1], step * (1 + s[-1])) for s in shifts)
    rows = np.array(points)
    value, (slope, in_step) = _scalars(kernel, jnp.asarray(rows[:, :-1]), jnp.asarray(rows[:, -1]))
    return np.asarray(value), np.column_stack([slope, in_step])


@differentiated
def test_values_and_gradients_are_finite_at_extreme_steps(name: str) -> None:
    value, gradient = scalars(name)
    assert np.all(np.isfinite(value[: len(EXTREMES)]))
    assert np.all(np.isfinite(gradient[: len(EXTREMES)])), gradient[: len(EXTREMES)]


@differentiated
def test_gradients_agree_with_finite_differences(name: str) -> None:
    value, gradient = (rows[len(EXTREMES) :] for rows in scalars(name))
    inputs = gradient.shape[1]
    value, gradient = value.reshape(len(ORDINARY), -1), gradient.reshape(len(ORDINARY), -1, inputs)
    centre, up, down = value[:, :1], value[:, 1 : inputs + 1], value[:, inputs + 1 :]
    differences = (up - down) / (2 * NUDGE)
    exact = gradient[:, 0].copy()
    exact[:, -1] *= ORDINARY / CASES[name].rate  # the step was nudged relative to its size
    noise = 1e-9 * np.maximum(1.0, np.abs(centre))
    np.testing.assert_array_less(np.abs(exact - differences), 1e-5 * np.abs(differences) + noise)


def test_derivatives_of_steps_of_an_equation_are_those_of_differences() -> None:
    """In the equation and in the steps; short ones, and long ones that are doubled often."""
    F = jnp.array([[0.0, 1.0, 0.1], [-4.0, -3.0, 0.2], [0.3, 0.0, -0.7]])
    diffusion = jnp.array([[0.1, 0.2, 0.0], [0.2, 3.0, 0.1], [0.0, 0.1, 0.5]])
    dt = jnp.array([0.0, 1e-3, 0.05, 0.3, 1.7, 9.0, 40.0])
    weights = jax.random.normal(jax.random.key(0), (2, 3, 3, len(dt)))

    def total(F, half, dt):
        A, Q = discretise(F, half + half.T, dt)
        return jnp.sum(weights[0] * A) + jnp.sum(weights[1] * Q)

    check_grads(jax.jit(total), (F, diffusion / 2, dt), order=1, modes=["rev"], rtol=1e-6)


def test_many_steps_of_an_equation_are_the_same_in_blocks() -> None:
    kernel = sg.kernels.FromSDE([[0.0, 1.0], [-4.0, -4.0]], [0.0, 1.0], [[3.0]], [1.0, 0.0])
    dt = jnp.linspace(0.0, 3.0, 8192 + 100)
    A, Q = jax.jit(lambda dt: kernel.step_matrices(dt))(dt)
    alone = jax.jit(lambda dt: kernel.step_matrices(dt))(dt[-5:])
    np.testing.assert_allclose(A[..., -5:], alone[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(Q[..., -5:], alone[1], rtol=1e-12, atol=1e-14)
