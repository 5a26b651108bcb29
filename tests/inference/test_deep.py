"""Deep models: one layer is the plain GP, gradients and samples are right, misuse is named."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stategp as sg
from stategp._inference._deep import DeepState, Output, deep_bound, deep_step, first_sites, first_xi
from stategp._models._deep import Latent
from stategp.parameters import to_vector

k = sg.kernels
Z = np.linspace(0, 1, 8)


def series(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x, np.sin(6 * x) + 0.1 * rng.standard_normal(n)


def layer(**options):
    return sg.Layer(k.Matern32(variance=1.0, lengthscale=0.3), Z, **options)


NOISE = sg.likelihoods.Gaussian(variance=0.01)
SHORT = pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")  # on purpose


def test_one_layer_is_the_plain_gp():
    x, y = series()
    plain = sg.condition(sg.GP(k.Matern32(variance=1.0, lengthscale=0.3), NOISE), x, y, inducing=Z)
    model = sg.DeepGP.stack([layer(mean=0.0)], NOISE)
    deep = sg.condition(model, x, y, step_size=1.0, max_steps=3)
    np.testing.assert_allclose(deep.elbo, plain.elbo, rtol=1e-8)
    x_new = np.linspace(-0.5, 1.5, 20)
    for ours, theirs in zip(deep.predict_f(x_new), plain.predict_f(x_new), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    for ours, theirs in zip(deep.predict_y(x_new), plain.predict_y(x_new), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    ours = deep.log_density(x_new, np.sin(x_new))
    np.testing.assert_allclose(ours, plain.log_density(x_new, np.sin(x_new)), atol=1e-7)
    function = deep.functions["0"]
    np.testing.assert_allclose(function.predict_f(x_new), deep.predict_f(x_new), atol=1e-8)


def two_layers(**options):
    inner = sg.Layer(k.Matern32(variance=0.1, lengthscale=0.5), np.linspace(0.1, 0.9, 6))
    return sg.DeepGP.stack([inner, layer(mean=0.0)], NOISE, **options)


def test_gradients_are_right_inside_and_outside_the_inducing_range():
    """Inner layers move inputs, here beyond the inducing locations on both sides."""
    x, y = series(30)
    model = two_layers(samples=3)
    outputs = (Output(jnp.asarray(1.4 * x - 0.2), jnp.asarray(y), jnp.zeros(30), jnp.ones(30)),)
    vector = to_vector(model)
    start = first_xi(model, vector, first_sites(model), False)
    bound = jax.jit(
        lambda e: deep_bound(e, model, outputs, jnp.ones(len(vector)), jax.random.key(0))
    )
    gradient = jax.jit(jax.grad(bound))(start)
    rng = np.random.default_rng(0)
    way = jax.tree.map(lambda v: jnp.asarray(rng.standard_normal(v.shape)), start)
    ends = [
        float(bound(jax.tree.map(lambda v, w, s=side: v + s * 1e-6 * w, start, way)))
        for side in (-1, 1)
    ]
    products = jax.tree.map(lambda a, b: float(jnp.vdot(a, b)), gradient, way)
    expected = sum(jax.tree.leaves(products))
    np.testing.assert_allclose((ends[1] - ends[0]) / 2e-6, expected, rtol=1e-5)


def test_natural_steps_move_hyperparameters_along_the_same_gradient():
    x, y = series(30)
    model = two_layers(samples=3)
    outputs = (Output(jnp.asarray(x), jnp.asarray(y), jnp.zeros(30), jnp.ones(30)),)
    vector, sites, free = to_vector(model), first_sites(model), optax.sgd(1.0)
    scales, key = jnp.ones(len(vector)), jax.random.key(0)

    @jax.jit
    def step(vector):
        state = DeepState(vector, free.init(vector), sites)
        return deep_step(free, state, model, outputs, scales, jnp.zeros(()), key)

    moved, bound = step(vector)
    everything = first_xi(model, vector, sites, False)
    value, gradient = jax.jit(
        jax.value_and_grad(lambda e: deep_bound(e, model, outputs, scales, key))
    )(everything)
    np.testing.assert_allclose(bound, value, rtol=1e-6)
    np.testing.assert_allclose((moved.scaled - vector) * 30, gradient.scaled, rtol=1e-5, atol=1e-5)


@SHORT
def test_two_layers_beat_one_on_a_step():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 200)
    y = np.tanh(40 * x) + 0.05 * rng.standard_normal(200)
    train = np.arange(200) % 2 == 0
    outer = sg.Layer(k.Matern52(variance=1.0, lengthscale=1.0), 20, between=(-2, 2), mean=0.0)
    inner = sg.Layer(k.Matern52(variance=0.5, lengthscale=0.5), 20)
    densities = []
    for layers in ([outer], [inner, outer]):
        model = sg.DeepGP.stack(layers, sg.likelihoods.Gaussian(variance=0.05))
        posterior = sg.fit(
            model, x[train], y[train], max_steps=300, step_size=0.1, optimiser=optax.adam(0.02),
        )  # fmt: skip
        densities.append(float(np.mean(posterior.log_density(x[~train], y[~train]))))
    assert densities[1] > densities[0] + 0.1


@SHORT
def test_several_outputs_minibatches_and_one_optimiser_for_all():
    x, y = series()
    model = sg.DeepGP(
        {"shared": layer(mean=0.0), "own": [layer(mean=0.0), layer(mean=0.0)]},
        lambda f, t, number: f["shared"](t) + 0.5 * f["own"][number](t),
        NOISE,
        samples=2,
    )
    ys = [y, y[::-1].copy()]
    posterior = sg.fit(model, x, ys, batch_size=20, max_steps=30)
    assert posterior.predict_f(x, 1)[0].shape == (60,)
    assert posterior.sample_f(0, x, 3, number=1).shape == (3, 60)
    assert "own[1]" in repr(posterior)
    more = sg.fit(posterior, x, ys, method="gradient", max_steps=30)
    assert np.isfinite(more.elbo)
    with pytest.raises(ValueError, match="the model has 2 outputs"):
        posterior.predict_f(x, 2)


@SHORT
def test_samples_through_the_layers_agree_with_the_predicted_moments():
    x, y = series()
    posterior = sg.condition(two_layers(), x, y, max_steps=60, step_size=0.2)
    at = np.array([0.2, 0.55, 0.9])
    samples = np.asarray(posterior.sample_f(0, at, 4000))
    mean, variance = posterior.predict_f(at, samples=4000)
    deviation = np.sqrt(np.asarray(variance))
    np.testing.assert_allclose(samples.mean(0), mean, atol=0.1 * deviation.max())
    np.testing.assert_allclose(samples.std(0), deviation, rtol=0.1)


def test_sums_and_multiples_of_functions_stay_gaussian():
    a = Latent(jnp.array([1.0]), jnp.array([4.0]), jnp.array([0.5]))
    b = Latent(jnp.array([2.0]), jnp.array([9.0]), jnp.array([-1.0]))
    total = 3.0 - 2.0 * a + b
    assert float(total.mean[0]) == 3.0
    assert float(total.variance[0]) == 25.0
    np.testing.assert_allclose(total.sample(), 3.0 - 2.0 * a.sample() + b.sample())
    np.testing.assert_allclose(jnp.asarray(a * b), a.sample() * b.sample())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sg.Layer(3), "the kernel of a layer"),
        (lambda: sg.Layer(k.Matern32(), 1), "at least 2"),
        (lambda: sg.Layer(k.Matern32(), [1.0, 0.0]), "increasing"),
        (lambda: sg.Layer(k.Matern32(), 5, between=(1, 0)), "a lower and an upper end"),
        (lambda: sg.DeepGP({}, lambda f, x: x), "a dictionary of sg.Layer"),
        (lambda: sg.DeepGP({"a": 3}, lambda f, x: x), "layer 'a' must be"),
        (lambda: sg.DeepGP({"a": layer()}, 3), "function must be a function"),
        (lambda: sg.DeepGP({"a": layer()}, lambda f, x: x, samples=0), "samples must be"),
        (
            lambda: sg.DeepGP.stack([layer()], sg.likelihoods.HeteroscedasticGaussian()),
            "one latent function for each output",
        ),
        (lambda: sg.fit(sg.DeepGP({"a": layer()}, lambda f, x: x), *series()), "never calls"),
        (lambda: sg.fit(two_layers(), *series(), inducing=20), "given to each sg.Layer"),
        (lambda: sg.fit(two_layers(), *series(), optimiser="lbfgs"), "DeepGP models takes"),
        (lambda: sg.fit(two_layers(), *series(), method="laplace"), "cannot be used with DeepGP"),
        (
            lambda: sg.fit(sg.DeepGP({"a": layer()}, lambda f, x, n: f["a"](x)), *series()),
            "y must be a list",
        ),
    ],
)  # fmt: skip
def test_misuse_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
