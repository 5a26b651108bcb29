"""Adam, L-BFGS on everything, minibatches: all lead to the bound that natural gradients find."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stategp as sg
from stategp import kernels as k
from stategp import likelihoods as lik
from stategp._data import observe
from stategp._fitting._methods._natural_first_order import take_batch
from stategp._inference import Limits, Moving, checked, evaluate, geometry, move
from stategp._inference._bound import starting_sites, with_gradient

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, 120))
Y = RNG.poisson(np.exp(1 + np.sin(X))).astype(float)
START = sg.GP(k.Matern32(variance=1.0, lengthscale=1.0), "poisson")
Z = np.linspace(0, 10, 9)
ADAM = optax.adam(0.1)  # one object: every other one compiles anew


@pytest.fixture(scope="module")
def best():
    return sg.fit(START, X, Y, inducing=Z)


@pytest.fixture(scope="module")
def conditioned():
    return sg.condition(START, X, Y, inducing=Z)


def test_adam_on_the_hyperparameters(best):
    fitted = sg.fit(START, X, Y, inducing=Z, optimiser=ADAM, max_steps=300)
    np.testing.assert_allclose(fitted.elbo, best.elbo, atol=1e-3)
    assert fitted.fit_result.converged


def test_lbfgs_on_everything(best, conditioned):
    fitted = sg.fit(START, X, Y, inducing=Z, method="gradient", max_steps=2000)
    np.testing.assert_allclose(fitted.elbo, best.elbo, atol=1e-3)
    fixed = sg.condition(START, X, Y, inducing=Z, method="gradient", max_steps=2000)
    np.testing.assert_allclose(fixed.elbo, conditioned.elbo, atol=1e-4)
    assert repr(fixed.model) == repr(START)
    np.testing.assert_allclose(fixed.predict_f(X)[0], conditioned.predict_f(X)[0], atol=0.01)


def test_adam_on_everything(conditioned):
    with pytest.warns(sg.NotConvergedWarning):
        short = sg.condition(
            START, X, Y, inducing=Z, method="gradient", optimiser=ADAM, max_steps=5
        )
    fixed = sg.condition(START, X, Y, inducing=Z, method="gradient", optimiser=ADAM, max_steps=1500)
    assert len(fixed.fit_result.trace) == len(fixed.fit_result.seconds) <= 1500
    assert short.elbo < fixed.elbo < conditioned.elbo + 1e-9
    np.testing.assert_allclose(fixed.elbo, conditioned.elbo, atol=0.05)


def test_minibatches(best):
    first, again = (sg.fit(START, X, Y, inducing=Z, batch_size=30, max_steps=600) for _ in range(2))
    assert best.elbo - 0.005 * abs(best.elbo) < first.elbo <= best.elbo + 1e-6
    assert again.elbo == first.elbo  # the same seed, the same batches


def test_a_batch_estimates_the_bound_its_gradient_and_its_sites_without_bias():
    data = observe(X[:60], Y[:60], START.likelihood)
    inducing = jnp.asarray(Z)
    guess = jnp.asarray(START.likelihood.guess(np.asarray(data.y), np.asarray(data.extra)))

    @jax.jit
    def everything(part, sites):
        shape = geometry(START, part.x, inducing)
        q = evaluate(START, part, shape, sites, project=True)
        target = (q.target[0].linear.ravel(), q.target[0].precision.ravel())
        values = jnp.stack([q.elbo, with_gradient(START, part, shape, q)])
        return jnp.concatenate([values, *target])

    @jax.jit
    def begin(data):
        return starting_sites(START, data, geometry(START, data.x, inducing), guess)

    sites, take = begin(data), jax.jit(take_batch)
    parts = [take(data, jnp.asarray(np.arange(start, 60, 6))) for start in range(6)]
    average = np.mean([everything(part, sites) for part in parts], axis=0)
    np.testing.assert_allclose(average, everything(data, sites), rtol=1e-9, atol=1e-9)


def test_minibatches_of_heavy_tails_stay_finite():
    y = np.sin(X) + 0.1 * RNG.standard_normal(120)
    y[::17] = 1e3
    model = sg.GP(k.Matern32(), "student_t")
    posterior = sg.fit(model, X, y, inducing=Z, batch_size=20, max_steps=300)
    clean = np.delete(np.arange(120), np.arange(0, 120, 17))
    mean, variance = posterior.predict_f(X[clean])
    assert np.isfinite(posterior.elbo)
    np.testing.assert_allclose(mean, np.sin(X[clean]), atol=0.35)
    assert np.all(np.asarray(variance) > 0)


@pytest.mark.parametrize("batch_size", [20, 120])
def test_minibatches_of_heavy_tails_reach_the_optimum(batch_size):
    """Outliers make f less certain, in minibatches as with all data at once."""
    y = np.sin(X) + 0.3 * np.random.default_rng(1).standard_cauchy(120)
    likelihood = sg.likelihoods.StudentT(df=sg.fixed(1.0), scale=sg.fixed(0.3))
    kernel = k.Matern32(variance=sg.fixed(1.0), lengthscale=sg.fixed(2.0))
    model, schedule = sg.GP(kernel, likelihood), optax.exponential_decay(0.2, 200, 0.1)
    best = sg.condition(model, X, y, inducing=Z)
    batches = sg.condition(
        model, X, y, inducing=Z, batch_size=batch_size, max_steps=600, step_size=schedule
    )
    exact = batch_size == 120
    np.testing.assert_allclose(batches.elbo, best.elbo, atol=1e-9 if exact else 1e-3)
    mean, variance = best.predict_f(X)
    moved, width = batches.predict_f(X)
    shift = np.max(np.abs(moved - mean) / np.sqrt(variance))
    assert shift < (1e-5 if exact else 0.03)
    np.testing.assert_allclose(width, variance, rtol=1e-5 if exact else 0.02)


def test_any_optax_optimiser_and_schedule():
    schedule = optax.exponential_decay(0.3, 50, 0.5)
    posterior = sg.fit(
        START,
        X,
        Y,
        inducing=Z,
        method="natural",
        batch_size=40,
        optimiser=optax.chain(optax.clip(1.0), optax.rmsprop(1e-2)),
        step_size=schedule,
        max_steps=100,
        seed=3,
    )
    np.testing.assert_allclose(posterior.fit_result.step_sizes[:3], [schedule(i) for i in range(3)])
    assert len(posterior.fit_result.trace) == 100


def test_adam_learns_gaussian_observations_to_the_same_optimum():
    y = np.sin(X) + 0.3 * RNG.standard_normal(120)
    model = sg.GP(k.Matern32(variance=3.0, lengthscale=5.0), lik.Gaussian(variance=2.0))
    best = sg.fit(model, X, y, inducing=Z)
    adam = sg.fit(model, X, y, inducing=Z, optimiser=ADAM, max_steps=400)
    np.testing.assert_allclose(adam.elbo, best.elbo, atol=1e-3)
    assert adam.elbo == sg.condition(adam.model, X, y, inducing=Z).elbo


def test_optimisers_that_need_more_than_gradients():
    with pytest.raises(ValueError, match="needs more than values and gradients"):
        sg.fit(START, X, Y, inducing=Z, optimiser=optax.lbfgs())


def test_gaussian_minibatches_agree_with_the_exact_answer():
    y = np.sin(X) + 0.3 * RNG.standard_normal(120)
    model = sg.GP(k.Matern32(lengthscale=2.0), lik.Gaussian(variance=0.09))
    exact = sg.condition(model, X, y, inducing=Z)
    batches = sg.condition(model, X, y, inducing=Z, batch_size=40, max_steps=600)
    np.testing.assert_allclose(batches.elbo, exact.elbo, atol=0.3)


def test_steps_end_at_the_limits():
    optimiser, start = optax.sgd(1.0), jnp.array([0.0, 1.0])
    state = Moving(start, optimiser.init(start), None)
    limits = Limits(np.array([-2.0, -np.inf]), np.array([np.inf, 3.0]))
    value, gradient = jnp.zeros(()), jnp.array([-5.0, 1.5])
    moved, _ = move(checked(optimiser), state, value, gradient, limits)
    np.testing.assert_array_equal(moved, [-2.0, 2.5])


def test_noise_that_vanishes_ends_where_a_sweep_has_digits():
    x = np.repeat(np.linspace(0, 10, 30), 2)  # observations that agree: the bound has no maximum
    y = np.sin(x)
    kernel = k.Matern12(variance=sg.fixed(1.0), lengthscale=sg.fixed(1.0))
    start = sg.GP(kernel, lik.Gaussian(variance=1e-7), mean=sg.means.Zero())
    with pytest.warns(sg.NotConvergedWarning):
        fitted = sg.fit(start, x, y, inducing="data", optimiser=optax.sgd(5.0), max_steps=6)
    assert float(fitted.model.likelihood.variance) == pytest.approx(np.var(y) / 1e8)


def test_minibatches_far_above_the_noise_keep_what_was_learned():
    x = np.linspace(0, 10, 30)
    model = sg.GP(k.Matern12(lengthscale=1.0), lik.Gaussian(variance=1e-13), mean=sg.means.Zero())
    exact = sg.condition(model, x, np.sin(x), inducing="data")
    with pytest.warns(sg.NotConvergedWarning):
        batches = sg.condition(model, x, np.sin(x), inducing="data", batch_size=10, max_steps=3)
    assert batches.elbo == pytest.approx(exact.elbo, rel=1e-9)
