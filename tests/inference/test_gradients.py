"""The envelope gradient is the gradient of the collapsed bound."""

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._data import observe, place_inducing
from stategp._inference import Collapsed, infer
from stategp.parameters import log_prior, to_vector, with_vector

MODELS = {
    "matern52 + linear mean": sg.GP(
        k.Matern52(lengthscale=0.7), sg.likelihoods.Gaussian(variance=0.2), sg.means.Linear()
    ),
    "quasiperiodic + constant": sg.GP(
        k.QuasiPeriodic(period=2.0, order=2) + k.Constant(), sg.likelihoods.Gaussian(variance=0.2)
    ),
    "oscillator at critical damping": sg.GP(
        k.Oscillator(period=2.0, quality=0.5), sg.likelihoods.Gaussian(variance=0.2)
    ),
    "squared exponential": sg.GP(
        k.SquaredExponential(lengthscale=0.7, order=3), sg.likelihoods.Gaussian(variance=0.2)
    ),
    "poisson": sg.GP(k.Matern32(lengthscale=0.7), "poisson", 0.3),
    "student t": sg.GP(k.Matern32(lengthscale=0.7), "student_t"),
    "two latents": sg.GP(k.Matern12(lengthscale=0.7), "heteroscedastic"),
    "prior on the lengthscale": sg.GP(
        k.Matern32(lengthscale=sg.parameter(0.7, prior=sg.priors.LogNormal(2.0, 0.3))),
        sg.likelihoods.Gaussian(variance=sg.fixed(0.2)),
    ),
}


@pytest.mark.parametrize(
    ("name", "inducing"),
    [(name, "data" if "quasiperiodic" in name else 6) for name in MODELS],
)
def test_against_finite_differences_of_the_bound(name, inducing):
    model = MODELS[name]
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, 25)
    y = np.sin(3 * x) + 0.3 * rng.standard_normal(25)
    y[::6] += 2.0  # outliers, for those that mind
    if isinstance(model.likelihood, sg.likelihoods.Poisson):
        y = np.abs(np.round(2 * y))
    data = observe(x, y, model.likelihood)
    z = jnp.asarray(place_inducing(inducing, data))
    start = to_vector(model)

    def objective(vector):
        changed = with_vector(model, vector)
        return infer(changed, data, z).q.elbo + log_prior(changed)

    value, gradient = Collapsed(model, data, z)(start)
    np.testing.assert_allclose(value, objective(start), rtol=1e-12)
    step = 1e-5
    for i in range(len(start)):
        shift = jnp.zeros_like(start).at[i].set(step)
        slope = (objective(start + shift) - objective(start - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-6, atol=1e-6)


def test_gradients_stay_finite_at_extreme_lengthscales():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, 25)
    data = observe(x, np.sin(3 * x))
    z = jnp.asarray(place_inducing("data", data))
    for lengthscale in [1e-6, 1e-3, 1e3, 1e6, 1e9]:
        model = sg.GP(k.Matern52(lengthscale=lengthscale), sg.likelihoods.Gaussian(variance=0.01))
        value, gradient = Collapsed(model, data, z)(to_vector(model))
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient))
