"""Deep models: one layer is the plain GP, gradients and samples are right, misuse is named."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import integrate, stats

import stategp as sg
from stategp._fitting._methods._deep import _natural_step
from stategp._inference import Tape, checked, deep_chains, expected_fit, stratified
from stategp._inference._deep import DeepState, Output, deep_bound, first_sites, first_xi
from stategp._inference._deep_tape import draws_of
from stategp._models import Latent, Values
from stategp._posteriors import DeepPosterior
from stategp.chain import Sites
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
# Hyperparameters all but stand still: steps of q, and of both, are one program.
SLOW = optax.sgd(1e-7)
SHORT = pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")  # on purpose


def test_one_layer_is_the_plain_gp():
    """Its bound, too, has no prior of hyperparameters."""
    x, y = series()
    prior = sg.priors.LogNormal(median=3.0, spread=0.5)
    kernel = k.Matern32(variance=1.0, lengthscale=sg.parameter(0.3, prior=prior))
    plain = sg.condition(sg.GP(kernel, NOISE), x, y, inducing=Z)
    model = sg.DeepGP.stack([sg.Layer(kernel, Z, mean=0.0)], NOISE)
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


def two_layers():
    inner = sg.Layer(k.Matern32(variance=0.1, lengthscale=0.5), np.linspace(0.1, 0.9, 8))
    return sg.DeepGP.stack([inner, layer(mean=0.0)], NOISE, samples=3)


def output(x, y):
    points = len(x)
    return (Output(jnp.asarray(x), jnp.asarray(y), jnp.zeros(points), jnp.ones(points)),)


def bound_and_gradient(model):
    """The bound as a function of q and hyperparameters, with its gradient: one program for both."""

    def bound(everything, outputs):
        scales = jnp.ones_like(everything.scaled)
        return deep_bound(everything, model, outputs, scales, jax.random.key(0))

    return jax.jit(jax.value_and_grad(bound))


def agrees_with_differences(function, start, outputs):
    """The gradient, along a random direction."""
    _, gradient = function(start, outputs)
    rng = np.random.default_rng(0)
    way = jax.tree.map(lambda v: rng.standard_normal(v.shape), start)
    ends = [
        float(function(jax.tree.map(lambda v, w, s=side: v + s * 1e-6 * w, start, way), outputs)[0])
        for side in (-1, 1)
    ]
    products = jax.tree.map(lambda a, b: float(np.vdot(a, b)), gradient, way)
    expected = sum(jax.tree.leaves(products))
    np.testing.assert_allclose((ends[1] - ends[0]) / 2e-6, expected, rtol=1e-5)


def beginning(model):
    """q and hyperparameters before the first step, as NumPy arrays."""
    start = first_xi(model, to_vector(model), first_sites(model), False)
    return jax.tree.map(np.asarray, start)


def step(model, sites, outputs, size, key):
    """One step of q, which takes the hyperparameters along: that of `sg.fit`."""
    optimiser = checked(SLOW)
    state, scales = DeepState.first(model, optimiser, sites), jnp.ones(len(to_vector(model)))
    return _natural_step(optimiser)(
        state, model, outputs, None, scales, jnp.asarray(size, dtype=float), key
    )


STACKED = two_layers()
stacked_bound = bound_and_gradient(STACKED)


def test_gradients_are_right_inside_and_outside_the_inducing_range():
    """Inner layers move inputs, here beyond the inducing locations on both sides."""
    x, y = series()
    agrees_with_differences(stacked_bound, beginning(STACKED), output(1.4 * x - 0.2, y))


def test_natural_steps_move_hyperparameters_along_the_same_gradient():
    outputs = output(*series())
    vector, sites = to_vector(STACKED), first_sites(STACKED)
    moved, bound = step(STACKED, sites, outputs, 0.0, jax.random.key(0))
    value, gradient = stacked_bound(beginning(STACKED), outputs)
    np.testing.assert_allclose(bound, value, rtol=1e-6)
    rise = (np.asarray(moved.scaled) - vector) * 60 / 1e-7
    np.testing.assert_allclose(rise, gradient.scaled, rtol=1e-5, atol=1e-5)


def nested(f, t):
    """One function that is called three times: at its own values, at equal inputs, and nearby."""
    return f["f"](t + 0.3 * f["f"](t)) - f["f"](jnp.where(t < 0.5, t, t + 0.02))


def thrice(**options):
    return sg.DeepGP({"f": layer(mean=0.0)}, nested, NOISE, **options)


def with_nodes():
    inner = sg.Layer(k.Matern32(variance=0.1, lengthscale=0.5), np.linspace(0.1, 0.9, 8))
    return sg.DeepGP.stack([inner, layer(mean=0.0)], NOISE, nodes=24)


@SHORT
def test_nodes_are_quadrature_over_the_inner_layer():
    """Against SciPy, with the moments of both functions; no key matters."""
    x, y = (values[::20] for values in series())
    posterior = sg.condition(with_nodes(), x, y, step_size=0.3, max_steps=5, optimiser=SLOW)
    model, functions = posterior.model, posterior.functions
    chains = deep_chains(model, posterior.sites, True)
    seen = {path: (prior, swept.marginals) for path, (prior, swept) in chains.items()}
    fits = [expected_fit(model, seen, output(x, y), jax.random.key(n)) for n in range(2)]
    assert fits[0] == fits[1]
    at = np.linspace(-8, 8, 2001)  # standard deviations
    expected = 0.0
    for mean, variance, target in zip(*functions["0"].predict_f(x), y, strict=True):
        last, spread = (np.asarray(v) for v in functions["1"].predict_f(mean + variance**0.5 * at))
        inside = stats.norm.logpdf(target, last, 0.1) - spread / 0.02
        expected += integrate.simpson(stats.norm.pdf(at) * inside, x=at)
    # What is left is the quadrature's error: f of Matérn-3/2 has kinks in its second derivative.
    np.testing.assert_allclose(fits[0], expected, rtol=1e-5)
    draws, shares = draws_of(model)
    nodes = np.asarray(draws(jax.random.key(0), (24, 1)))[:, 0]
    moments = [np.dot(shares, nodes**power) for power in range(7)]
    np.testing.assert_allclose(moments, [1, 0, 1, 0, 3, 0, 15], atol=1e-11)


def test_nodes_are_for_stacks():
    with pytest.raises(ValueError, match=r"nodes are for sg\.DeepGP\.stack"):
        thrice(nodes=4)
    with pytest.raises(ValueError, match="64 nodes for each of 3 inner layers are 262,144"):
        sg.DeepGP.stack([layer()] * 4, NOISE, nodes=64)
    model = with_nodes()
    assert (model.samples, model.with_layers({p: model.layer(p) for p in model.paths}).nodes) == (
        24,
        24,
    )
    with pytest.raises(ValueError, match="a number or an increasing array"):
        sg.Layer(k.Matern32(), sg.Learned(8))


@pytest.mark.parametrize("make", [two_layers, thrice, with_nodes])
def test_natural_steps_follow_the_natural_gradient_of_the_bound(make):
    """Along any change of the sites, the bound changes by ⟨direction, change of η⟩."""
    model, outputs, size = make(), output(*series()), 1e-3
    rng = np.random.default_rng(1)
    sites = {}
    for path, tight in first_sites(model).items():
        root = 0.3 * rng.standard_normal(tight.precision.shape)
        precision = 0.05 * np.asarray(tight.precision) + root @ root.mT
        linear = rng.standard_normal(tight.linear.shape)
        sites[path] = Sites(jnp.asarray(linear), jnp.asarray(precision))

    def take(sites):
        return step(model, sites, outputs, size, jax.random.key(3))

    @jax.jit
    def moments(sites):
        chains = deep_chains(model, sites, True)
        pairs = {path: swept.marginals for path, (_, swept) in chains.items()}
        return {
            path: (q.mean, q.covariance + q.mean[:, :, None] * q.mean[:, None, :])
            for path, q in pairs.items()
        }

    moved, _ = take(sites)
    assert all(int(count) == 0 for count in moved.replaced.values())
    way = jax.tree.map(lambda v: rng.standard_normal(v.shape), sites)
    low, high = (
        {
            path: Sites(
                jnp.asarray(sites[path].linear + side * w.linear),
                jnp.asarray(sites[path].precision + side * (w.precision + w.precision.mT)),
            )
            for path, w in way.items()
        }
        for side in (-1e-5, 1e-5)
    )
    rise = (float(take(high)[1]) - float(take(low)[1])) / 2e-5
    ends = jax.tree.map(np.asarray, (moments(low), moments(high)))
    changes = jax.tree.map(lambda a, b: (b - a) / 2e-5, *ends)
    expected = 0.0
    for path, (first, second) in changes.items():
        linear, precision = (
            (np.asarray(new) - np.asarray(old)) / size
            for new, old in zip(
                *map(jax.tree.leaves, (moved.sites[path], sites[path])), strict=True
            )
        )
        expected += np.vdot(linear, first) - np.vdot(precision, second) / 2
    np.testing.assert_allclose(rise, expected, rtol=1e-6)


@SHORT
def test_a_step_that_leads_to_no_gaussian_is_replaced_by_gauss_newton():
    """exp(f) is to be 20: at f = 0 the precision is negative, at the optimum it is not."""
    x = np.linspace(0, 1, 20)
    model = sg.DeepGP(
        {"inner": layer(mean=0.0)},
        lambda f, t: jnp.exp(jnp.asarray(f["inner"](t))),
        NOISE,
        samples=4,
    )
    posterior = sg.condition(model, x, np.full(20, 20.0), step_size=0.2, max_steps=60)
    np.testing.assert_allclose(posterior.predict_y(x)[0], 20.0, rtol=0.05)
    (remark,) = posterior.fit_result.remarks
    count = int(remark.split()[-3])
    assert "Gauss–Newton" in remark
    assert remark.endswith("of inner")
    assert 1 <= count < 40
    result = posterior.fit_result
    assert len(result.replaced) == len(result.trace)
    assert set(result.replaced) == {0, 1}
    assert sum(result.replaced[:-1]) == count  # the last step leads on from the posterior


def test_samples_cover_the_normal_distribution():
    """Pairs of opposite sign, one in each of the intervals of equal probability, in any order."""
    draws = np.asarray(stratified(jax.random.key(0), (8, 2000)))
    assert stats.kstest(draws[:4].ravel(), "norm").pvalue > 0.01
    np.testing.assert_array_equal(draws[4:], -draws[:4])
    places = np.floor(4 * (2 * stats.norm.cdf(np.abs(draws[:4])) - 1)).astype(int)
    np.testing.assert_array_equal(np.sort(places, axis=0), np.arange(4)[:, None] + 0 * places)
    assert len({tuple(column) for column in places.T}) == 24
    for row in draws:  # each sample by itself is a draw: means over samples have no bias
        assert stats.kstest(row, "norm").pvalue > 0.001
    odd = np.asarray(stratified(jax.random.key(0), (3, 5)))
    np.testing.assert_array_equal(odd[2], -odd[0])


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
    posterior = sg.fit(two_layers(), x, y, max_steps=60, step_size=0.2, optimiser=SLOW)
    at = np.array([0.2, 0.55, 0.9])
    samples = np.asarray(posterior.sample_f(0, at, 4000))
    mean, variance = posterior.predict_f(at, samples=4000)
    deviation = np.sqrt(np.asarray(variance))
    np.testing.assert_allclose(samples.mean(0), mean, atol=0.1 * deviation.max())
    np.testing.assert_allclose(samples.std(0), deviation, rtol=0.1)


def value(mean, variance, white):
    return Values().add(jnp.array([mean]), jnp.array([variance]), jnp.array([white]))


def test_sums_and_multiples_of_functions_stay_gaussian():
    a, b = value(1.0, 4.0, 0.5), value(2.0, 9.0, -1.0)
    total = 3.0 - 2.0 * a + b
    assert (float(total.mean[0]), float(total.variance[0])) == (3.0, 25.0)
    assert float((a / 2).variance[0]) == 1.0
    assert float((a + a).variance[0]) == 16.0
    assert [float((a - a).variance[0]), float((a - a).mean[0])] == [0.0, 0.0]
    assert float(((a - b) + b).variance[0]) == 4.0
    np.testing.assert_allclose(total.sample(), 3.0 - 2.0 * a.sample() + b.sample())
    np.testing.assert_allclose(jnp.asarray(a * b), a.sample() * b.sample())
    np.testing.assert_allclose(jnp.asarray(1 / a), 1 / a.sample())
    np.testing.assert_allclose(jnp.asarray(a / b), a.sample() / b.sample())
    np.testing.assert_allclose(a.sample(), [1.0 + 2.0 * 0.5])
    assert float((a + b).variance[0]) == 0.0  # both are known now
    np.testing.assert_allclose((a + b).mean, [2.0 - 1.0])


# --- a function that is called more than once ----------------------------------------------------

A = np.array([0.31, 0.31, 0.31, 0.05, -0.4, 1.3, 0.2, -0.4])
B = np.array([0.31, 0.35, 0.90, 0.05, -0.1, 1.1, 1.4, 1.3])  # equal, near, far, beyond both ends


def matern32(a, b):
    r = np.sqrt(3) * np.abs(a[:, None] - b) / 0.3
    return (1 + r) * np.exp(-r)


def dense_moments(x):
    """Of f given observations of sin(6z) at the inducing points: what q then is, without a state"""
    cross, C = matern32(x, Z), matern32(Z, Z) + 0.01 * np.eye(len(Z))
    return cross @ np.linalg.solve(C, np.sin(6 * Z)), matern32(x, x) - cross @ np.linalg.solve(
        C, cross.T
    )


def one_function(function):
    return sg.DeepGP({"f": layer(mean=0.0)}, function, NOISE)


def exact_sites():
    """q of that function, given these observations of the state on the left of an interval."""
    linear, precision = np.zeros((9, 4)), np.zeros((9, 4, 4))
    linear[1:, 0], precision[1:, 0, 0] = np.sin(6 * Z) / 0.01, 1 / 0.01
    return {("f", None): Sites(jnp.asarray(linear), jnp.asarray(precision))}


def test_arithmetic_with_arrays_and_lists_on_either_side():
    mean, variance = jnp.array([0.5, -1.0, 2.0]), jnp.array([0.1, 0.2, 0.3])
    numbers, z = np.array([1.0, 2.0, 4.0]), Values().add(mean, variance, jnp.ones(3))
    for gaussian, factor, shift in [
        (numbers * z, numbers, 0.0),
        (z * [1.0, 2.0, 4.0], numbers, 0.0),
        (z / numbers.tolist(), 1 / numbers, 0.0),
        (numbers + z, 1.0, numbers),
        (z - [1.0, 2.0, 4.0], 1.0, -numbers),
        ([1.0, 2.0, 4.0] - z, -1.0, numbers),
    ]:
        assert isinstance(gaussian, Latent)
        np.testing.assert_allclose(gaussian.mean, factor * mean + shift, rtol=1e-15)
        np.testing.assert_allclose(gaussian.variance, factor**2 * variance, rtol=1e-15)
    draw = np.asarray(mean + jnp.sqrt(variance))
    for numbers_drawn, expected in [
        (2**z, 2**draw),
        (z ** [1, 2, 3], draw ** np.array([1, 2, 3])),
        ([1.0, 2.0, 4.0] / z, numbers / draw),
        (abs(z), np.abs(draw)),
        (z > 0, draw > 0),
        (z <= 1, draw <= 1),
    ]:
        np.testing.assert_allclose(numbers_drawn, expected, rtol=1e-14)


def test_two_calls_of_a_function_have_the_covariance_of_a_dense_gp():
    model = one_function(lambda f, t: f["f"](t))

    @jax.jit
    def twice(sites):
        chains = deep_chains(model, sites, False)
        seen = {path: (prior, swept.marginals) for path, (prior, swept) in chains.items()}
        tape = Tape(model, seen, jax.random.key(0))
        a, b = (tape(("f", None), jnp.asarray(x)[None]) for x in (A, B))
        before = b.mean, (a - b).variance[0], (a + 2.0 * b).variance[0]
        drawn = a.sample()  # from here on the first value is known
        return before, drawn, b.mean, b.variance[0], b.sample()

    means, V = dense_moments(np.concatenate([A, B]))
    n = len(A)
    aa, bb, ab = np.diag(V)[:n], np.diag(V)[n:], np.diag(V[:n, n:])
    (mean, difference, total), drawn, moved, left, other = jax.tree.map(
        np.asarray, twice(exact_sites())
    )
    np.testing.assert_allclose(difference, aa + bb - 2 * ab, atol=1e-9)
    np.testing.assert_allclose(total, aa + 4 * bb + 4 * ab, rtol=1e-7)
    first = drawn - means[None, :n]
    np.testing.assert_allclose(mean[0], means[n:], atol=1e-8)
    np.testing.assert_allclose(left, bb - ab**2 / aa, atol=1e-9)
    np.testing.assert_allclose(moved - mean, first * ab / aa, atol=1e-8)
    same = A == B
    np.testing.assert_allclose(other[0][same], drawn[0][same], atol=1e-10)


def test_the_gradient_through_several_calls_is_right():
    x, y = series(20)
    model = thrice(samples=2)
    agrees_with_differences(bound_and_gradient(model), beginning(model), output(x, y))


def test_a_function_is_drawn_once():
    """Differences of one draw: their joint covariance is that of a dense GP."""

    def difference(f, t):
        return f["f"](t) - f["f"](t + 0.04)

    model = one_function(difference)
    posterior = DeepPosterior(model, exact_sites(), {}, 0.0, (len(Z),))
    at = np.array([0.9, -0.1, 0.3, 0.31, 1.2])
    draws = np.asarray(posterior.sample_f(0, at, 4000))
    _, V = dense_moments(np.concatenate([at, at + 0.04]))
    contrast = np.concatenate([np.eye(5), -np.eye(5)], axis=1)
    expected = contrast @ V @ contrast.T
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(scale, scale), expected / np.outer(scale, scale), atol=0.08
    )
    _, variance = posterior.predict_f(at, samples=10)
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-6)


@SHORT
def test_nested_calls_of_a_function_agree_between_samples_and_moments():
    x, y = series()
    posterior = sg.fit(thrice(), x, y, max_steps=30, step_size=0.1, optimiser=SLOW)
    at = np.array([0.2, 0.35, 0.55, 0.7, 0.9])
    draws = np.asarray(posterior.sample_f(0, at, 4000))
    mean, variance = posterior.predict_f(at, samples=4000)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.06 * np.sqrt(variance.max()))
    np.testing.assert_allclose(draws.std(0), np.sqrt(variance), rtol=0.06)


def test_whole_numbers_that_doubles_cannot_hold_are_refused():
    _, y = series(20)
    nanoseconds = 1_700_000_000_000_000_000 + np.arange(20)
    with pytest.raises(ValueError, match=r"beyond 2⁵³.*begin at 17.*subtract the first"):
        sg.condition(sg.DeepGP.stack([layer()], NOISE), nanoseconds, y)


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
