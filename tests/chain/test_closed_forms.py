"""The compiled evidence of kernels, block by block, against mpmath and its twin in JAX."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from stategp import _native, chain
from stategp import kernels as k
from stategp.chain._blocks import compiled_evidence, kernel_steps
from stategp.parameters import with_vector
from tests.kernels.references import exact_matrices

from .twins import agree, both, sum_of

pytestmark = pytest.mark.skipif(bool(_native.problem()), reason=_native.problem())

RATE = 1.7
STEPS = np.logspace(-12, 3, 16) / RATE
MATERNS = {
    name: kind(variance=1.3, lengthscale=np.sqrt(2 * order - 1) / RATE)
    for order, (name, kind) in enumerate(
        {
            "matern12": k.Matern12,
            "matern32": k.Matern32,
            "matern52": k.Matern52,
            "matern72": k.Matern72,
        }.items(),
        start=1,
    )
}
OSCILLATORS = {
    f"oscillator {quality:.6g}": k.Oscillator(
        variance=1.3, period=2 * np.pi / RATE, quality=quality
    )
    for quality in (
        *(1e-4, 0.01, 0.1, 0.499, 0.5, 0.501, 0.55, 3.0, 1000.0),
        *(0.5 / 1.1001, 0.5 / 1.0999, 0.5 / 0.9001, 0.5 / 0.8999),  # the switches in damping
    )
}
KERNELS = MATERNS | OSCILLATORS


@jax.jit
def log_density(kernel, length, h, precision, twice):
    """Of zero, seen through h after one step or two from a state that is known to be zero."""
    steps, layout = kernel_steps(kernel, length[None])
    assert layout.closed
    seen = jnp.stack([jnp.where(twice, 0.0, precision), jnp.where(twice, precision, 0.0)])
    which = jnp.ones(2, jnp.int32)
    steps = steps._replace(emission=h)
    return compiled_evidence(steps, jnp.zeros(2), seen, which, layout, True)[0]


def directions(dim):
    """Components, and sums of two: h Q h for all of them is Q."""
    pairs = [(i, j) for i in range(dim) for j in range(i, dim)]
    return np.array([(np.eye(dim)[i] + np.eye(dim)[j]) / (1 + (i == j)) for i, j in pairs])


def all_of(function, kernel, precision, twice):
    def at(length, row):
        return jax.vmap(lambda h, j: function(kernel, length, h, j, twice))(rows, row)

    rows = jnp.asarray(directions(kernel.state_dim))
    return np.asarray(jax.vmap(at)(jnp.asarray(STEPS), jnp.asarray(precision)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("twice", [False, True])
def test_variances_after_steps_of_every_size_are_exact(name, twice):
    """Two steps in a row are one twice as long, which says that A is right, too."""
    kernel = KERNELS[name]
    _, Q, _ = exact_matrices(kernel, STEPS * (1 + twice))
    h = directions(kernel.state_dim)
    expected = np.einsum("ri,nij,rj->nr", h, Q, h)
    found = np.expm1(-2 * all_of(log_density, kernel, 1 / expected, twice)) * expected
    np.testing.assert_allclose(found, expected, rtol=2e-13)


@jax.jit
def by_numbers(kernel, *rest):
    """Slopes in the length of a step, in the time scale, in the variance, and in what is left."""
    by_kernel, by_length = jax.grad(log_density, argnums=(0, 1))(kernel, *rest)
    scale = by_kernel.period if isinstance(kernel, k.Oscillator) else by_kernel.lengthscale
    rest = [by_kernel.quality.value] if isinstance(kernel, k.Oscillator) else []
    return jnp.stack([by_length, scale.value, by_kernel.variance.value, *rest])


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_after_steps_of_every_size_are_exact(name):
    """dQ/dΔ = A D Aᵀ; and Q depends on the product of rate and length, and on the variance."""
    kernel = KERNELS[name]
    A, Q, _ = exact_matrices(kernel, STEPS)
    h = directions(kernel.state_dim)
    noise = A @ np.asarray(kernel.diffusion()) @ A.transpose(0, 2, 1)
    slope = np.einsum("ri,nij,rj->nr", h, noise, h)
    variance = np.einsum("ri,nij,rj->nr", h, Q, h)

    found = all_of(by_numbers, kernel, 1 / variance, False)
    expected = -slope / variance / 4
    tolerances = {"rtol": 1e-12, "atol": 1e-12}
    relative = STEPS[:, None]
    np.testing.assert_allclose(found[..., 0] * relative, expected * relative, **tolerances)
    scale = kernel.period if name in OSCILLATORS else kernel.lengthscale
    by_scale = -expected * relative / float(scale.value)
    np.testing.assert_allclose(found[..., 1], by_scale, **tolerances)
    np.testing.assert_allclose(found[..., 2], np.full_like(expected, -0.25 / 1.3), **tolerances)


def exact_slopes_in_quality(kernel):
    """q · d(h Q h)/dq over h Q h, with Q = σ² (1 − e^{FΔ} e^{FᵀΔ}) to hundreds of digits."""

    def variances(quality, step):
        F = RATE * mpmath.matrix([[0, 1], [-1, -1 / quality]])
        A = mpmath.expm(F * mpmath.mpf(step))
        Q = mpmath.eye(2) - A * A.T
        return [Q[0, 0], (Q[0, 0] + 2 * Q[0, 1] + Q[1, 1]), Q[1, 1]]

    with mpmath.workdps(200):
        quality, little = mpmath.mpf(float(kernel.quality.value)), mpmath.mpf("1e-40")
        return np.array(
            [
                [
                    float((more - less) / (2 * little) / here)
                    for more, less, here in zip(
                        variances(quality * (1 + little), step),
                        variances(quality * (1 - little), step),
                        variances(quality, step),
                        strict=True,
                    )
                ]
                for step in STEPS
            ]
        )


@pytest.mark.parametrize("name", OSCILLATORS)
def test_derivatives_in_the_quality_are_exact(name):
    kernel = OSCILLATORS[name]
    _, Q, _ = exact_matrices(kernel, STEPS)
    h = directions(2)
    found = all_of(by_numbers, kernel, 1 / np.einsum("ri,nij,rj->nr", h, Q, h), False)[..., 3]
    expected = -exact_slopes_in_quality(kernel) / 4
    np.testing.assert_allclose(
        found * float(kernel.quality.value), expected, rtol=1e-10, atol=1e-12
    )


SUMS = {  # closed forms, matrices that are given, and both; the first has a step for every state
    "many steps": sum_of(
        k.Matern52(lengthscale=0.7),
        k.Harmonic(weights=[1.0, 0.4, 0.2], frequency=0.3, lengthscale=5.0),
        k.Oscillator(period=2.0),
        k.Matern12(variance=0.1),
        k.Matern12() * k.Matern32(),
    ),
    "one": k.Matern32(lengthscale=0.6),
    "two of one": k.Matern12(lengthscale=0.3) + k.Matern12(lengthscale=4.0),
    "scaled": 2.0 * k.Matern72() + k.Constant(variance=3.0),
    "products": k.Matern12() * k.Matern12(lengthscale=3.0) + k.Cosine(period=2.0) * k.Matern32(),
    "seasons": k.QuasiPeriodic(period=2.0, order=1) + k.Periodic(period=3.0, order=2),
    "trends": k.Wiener(start=10.0) + k.Linear(start=10.0),
    "oscillators": sum_of(
        2.0 * k.Oscillator(period=2.0, quality=0.2),
        k.IntegratedWiener(diffusivity=0.3, start=10.0, slope=2.0),
        k.DampedTrend(diffusivity=0.3, start=10.0),
        k.Matern12(),
    ),
    "given": k.Matern12() * k.Matern32(),
    "emission": k.FromSDE([[0.0, 1.0], [-4.0, -4.0]], [0.0, 1.0], [[3.0]], [1.0, 0.5]),
}


def irregular(count):
    """Steps with repetitions, a gap and lengths of (almost) nothing; some states are not seen."""
    rng = np.random.default_rng(0)
    lengths = rng.uniform(0.01, 1.0, count - 1)
    lengths[3:7] = 0.0, 1e-9, 40.0, lengths[2]
    which = np.arange(count)
    which[6] = which[2]
    precision = rng.uniform(0.5, 3.0, count)
    precision[[0, 4, 5, count - 1]] = 0.0
    return (
        jnp.asarray(lengths),
        jnp.asarray(rng.standard_normal(count)),
        jnp.asarray(precision),
    ), which


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_blocks_have_the_evidence_and_derivatives_of_the_twin(name):
    inputs, which = irregular(100 if name == "many steps" else 30)

    def everything(kernel, *inputs):
        def evidence(kernel, *inputs):
            return chain.kernel_evidence(kernel, *inputs, which=which)

        differentiated = jax.value_and_grad(evidence, argnums=(0, 1, 2, 3), has_aux=True)
        found, (*slopes, d_precision) = differentiated(kernel, *inputs)
        return found, slopes, jnp.where(inputs[2] > 0, d_precision, 0.0)

    agree(*both(everything, SUMS[name], *inputs), 1e-10)


@pytest.mark.parametrize("name", ["one", "oscillators"])
def test_long_series_of_small_states_are_taken_in_stretches(name):
    inputs, which = irregular(1500)

    def evidence(kernel):
        return jax.value_and_grad(
            lambda kernel: chain.kernel_evidence(kernel, *inputs, which=which)[0]
        )(kernel)

    agree(*both(evidence, SUMS[name]), 1e-10)


def test_even_stretches_of_uneven_series_are_steady():
    """More lengths than are kept at once, then a stretch of steps that repeat."""
    kernel = sum_of(*(k.Matern52(lengthscale=float(i)) for i in range(1, 5)), k.Matern12())
    (lengths, value, precision), which = irregular(1600)
    which[150:1500] = which[149]
    precision = precision.at[100:1500].set(2.0)

    def evidence(steady):
        def of(kernel, value, precision):
            inputs = (lengths, value, precision)
            return chain.kernel_evidence(kernel, *inputs, which=which, steady=steady)[0]

        return jax.jit(jax.value_and_grad(of, argnums=(0, 1, 2)))(kernel, value, precision)

    agree(evidence(True), evidence(False), 1e-10)


class Twice(k.Matern32):
    """Another process noise than that of the class it comes from."""

    def steps(self, dt):
        A, Q = super().steps(dt)
        return A, [[2 * entry for entry in row] for row in Q]


def test_subclasses_keep_their_own_matrices():
    assert Twice().closed_form() is None
    assert (Twice() * k.Cosine()).blocks()[0].closed_form() is None
    assert k.Matern32().closed_form().order == 2
    assert type("Other", (k.Oscillator,), {})().closed_form() is None


@pytest.mark.parametrize("logs", [(0, np.nan, 0), (0, 0, np.nan), (0, -720, 0), (0, 720, 0)])
def test_oscillators_without_end_are_those_of_the_twin(logs):
    """NaN is not forgetting at once; one that takes for ever to swing does not move."""
    inputs, which = irregular(20)

    def evidence(vector):
        kernel = with_vector(k.Oscillator(), vector)
        return chain.kernel_evidence(kernel, *inputs, which=which)[0]

    compiled, twin = both(evidence, jnp.asarray(logs, float))
    assert np.isnan(compiled) == (logs[1] != 720)
    np.testing.assert_allclose(compiled, twin, rtol=1e-12)


def test_products_with_oscillators_are_given():
    oscillator = k.Oscillator()
    for factor in (k.Matern12(), k.Cosine(), oscillator):
        assert (oscillator * factor).blocks()[0].closed_form() is None
        assert (factor * oscillator).blocks()[0].closed_form() is None
    assert (k.Constant() * oscillator).blocks()[0].closed_form().swings


def test_second_derivatives_and_many_kernels_at_once():
    inputs, which = irregular(20)

    def evidence(logs):
        scale, variance, period = jnp.exp(logs)
        kernel = SUMS["one"].with_parameters(lengthscale=scale, variance=variance)
        both_of = kernel + k.Cosine(period=2.0).with_parameters(period=period)
        return chain.kernel_evidence(both_of, *inputs, which=which)[0]

    at = jnp.asarray([[0.1, 0.2, 0.3], [-0.5, 0.4, 1.0]])
    agree(*both(jax.vmap(jax.value_and_grad(evidence)), at), 1e-10)
    agree(*both(jax.hessian(evidence), at[0]), 1e-9)
