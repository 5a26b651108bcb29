"""A likelihood that reads two functions together: q against a dense twin, predictions by draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

import stategp as sg
from stategp._models import JointGP
from stategp._models._joint_likelihood import JointLikelihood

X = np.array([0.0, 0.6, 1.1, 1.9, 2.4, 3.0])
Y = np.array([0.2, 1.4, 0.3, -1.1, -0.2, 0.9])
KERNELS = (
    sg.kernels.Matern32(variance=1.0, lengthscale=1.0),
    sg.kernels.Matern32(variance=0.8, lengthscale=2.0),
)
NOISE = sg.likelihoods.HeteroscedasticGaussian()
MODEL = sg.JointGP(KERNELS, NOISE, (0.0, -0.5))


@pytest.fixture(scope="module")
def posterior():
    return sg.condition(MODEL, X, Y, inducing="data")


def dense_bound():
    """The best Gaussian q over both functions at the data, by a general optimiser."""
    n = len(X)
    K = np.zeros((2 * n, 2 * n))
    K[:n, :n], K[n:, n:] = (np.asarray(kernel(X, X)) for kernel in KERNELS)
    prior = jnp.asarray(np.repeat([0.0, -0.5], n))
    inverse, log_det = jnp.asarray(np.linalg.inv(K)), np.linalg.slogdet(K)[1]
    rows, columns = np.tril_indices(2 * n)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = weights / weights.sum()

    @jax.jit
    @jax.value_and_grad
    def loss(vector):
        m = vector[: 2 * n]
        L = jnp.zeros((2 * n, 2 * n)).at[rows, columns].set(vector[2 * n :])
        S = L @ L.T
        v1, v2, c = jnp.diag(S)[:n], jnp.diag(S)[n:], jnp.diag(S[:n, n:])
        total = 0.0
        for t, w in zip(nodes, weights, strict=True):  # f₂ at nodes, f₁ given it
            f2 = m[n:] + jnp.sqrt(v2) * t
            mean, variance = m[:n] + c / jnp.sqrt(v2) * t, v1 - c**2 / v2
            square = (jnp.asarray(Y) - mean) ** 2 + variance
            total += w * jnp.sum(-square * jnp.exp(-f2) / 2 - f2 / 2 - np.log(2 * np.pi) / 2)
        away = m - prior
        kl = jnp.trace(inverse @ S) + away @ inverse @ away - 2 * n + log_det
        return (kl - jnp.linalg.slogdet(S)[1]) / 2 - total

    start = np.concatenate([np.asarray(prior), np.linalg.cholesky(K)[rows, columns]])
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    end = minimize(lambda v: [np.asarray(p) for p in loss(jnp.asarray(v))], start, jac=True,
                   method="L-BFGS-B", options=options)  # fmt: skip
    L = np.zeros((2 * n, 2 * n))
    L[rows, columns] = end.x[2 * n :]
    return -end.fun, end.x[: 2 * n], L @ L.T


def test_q_is_the_dense_one(posterior):
    bound, mean, S = dense_bound()
    n = len(X)
    assert posterior.fit_result.converged
    np.testing.assert_allclose(posterior.elbo, bound, atol=1e-6)
    found = np.asarray(posterior.predict_f(X)[0])
    np.testing.assert_allclose(found.T.ravel(), mean, atol=1e-3)
    covariance = np.asarray(posterior.covariance_f(X))
    np.testing.assert_allclose(covariance[:, 0, 1], np.diag(S[:n, n:]), atol=1e-3)
    assert np.max(np.abs(covariance[:, 0, 1])) > 0.01  # else nothing was tested


OTHER_WAYS = [
    {"method": "gradient", "tolerance": 1e-4},
    {"batch_size": 3, "step_size": lambda step: 0.5 / (1 + step / 40), "max_steps": 600},
]


@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
@pytest.mark.parametrize("options", OTHER_WAYS, ids=["gradient", "minibatches"])
def test_other_ways_end_at_the_same_q(posterior, options):
    other = sg.condition(MODEL, X, Y, inducing="data", **options)
    assert posterior.elbo - 2e-3 < other.elbo < posterior.elbo + 1e-7
    for one, two in [(other.predict_f(X)[0], posterior.predict_f(X)[0]),
                     (other.covariance_f(X), posterior.covariance_f(X))]:  # fmt: skip
        np.testing.assert_allclose(one, two, atol=0.05)
    assert np.all(np.isfinite(other.sample_f(0, X, 2)))


def test_expectations_by_quadrature_are_the_closed_form():
    class Plain(sg.likelihoods.HeteroscedasticGaussian):
        expected_jointly = property()  # hides the closed form

    rng = np.random.default_rng(0)
    mean = jnp.asarray(rng.standard_normal((3, 2)))
    half = rng.standard_normal((3, 2, 2))
    covariance = jnp.asarray(0.2 * half @ half.transpose(0, 2, 1))
    columns = jnp.asarray(Y[:3]), mean, covariance, jnp.zeros(3)
    closed = JointLikelihood(NOISE).expected_slopes(*columns)
    nodes = JointLikelihood(Plain()).expected_slopes(*columns)
    for one, other in zip(closed, nodes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)


def test_predictions_are_those_of_the_joint_distribution(posterior):
    new = np.array([0.8, 2.0])
    mean, covariance = posterior.predict_f(new)[0], posterior.covariance_f(new)
    y = np.array([0.5, -2.0])
    density, below = posterior.log_density(new, y), posterior.cdf(new, y)
    low, high = np.asarray(posterior.quantiles(new, [0.1, 0.9]))
    np.testing.assert_allclose(posterior.cdf(new, low), 0.1, atol=1e-6)
    np.testing.assert_allclose(posterior.cdf(new, high), 0.9, atol=1e-6)
    moments = posterior.predict_y(new)
    for i in range(2):
        f = multivariate_normal(np.asarray(mean[i]), np.asarray(covariance[i])).rvs(
            200_000, random_state=0
        )
        at = norm(f[:, 0], np.exp(f[:, 1] / 2))
        np.testing.assert_allclose(density[i], np.log(np.mean(at.pdf(y[i]))), atol=0.01)
        np.testing.assert_allclose(below[i], np.mean(at.cdf(y[i])), atol=0.005)
        np.testing.assert_allclose(moments[0][i], np.mean(f[:, 0]), atol=0.01)
        spread = np.var(f[:, 0]) + np.mean(np.exp(f[:, 1]))
        np.testing.assert_allclose(moments[1][i], spread, rtol=0.05)
    drawn = np.asarray(posterior.sample_f(0, new, 4096))
    crossed = np.mean((drawn - drawn.mean(0))[..., 0] * (drawn - drawn.mean(0))[..., 1], axis=0)
    np.testing.assert_allclose(crossed, np.asarray(covariance)[:, 0, 1], atol=0.05)


def test_hyperparameters_are_learned_and_files_hold_it(tmp_path):
    x = np.linspace(0, 6, 60)
    y = np.sin(x) + np.exp(-1.5 + 0.5 * x / 2) * np.random.default_rng(1).standard_normal(60)
    fitted = sg.fit(JointGP(sg.kernels.Matern32(), NOISE), x, y, inducing=8)
    assert fitted.fit_result.converged
    variance = np.asarray(fitted.predict_y(x)[1])
    assert variance[-1] > 4 * variance[0]
    fitted.save(tmp_path / "joint.stategp")
    again = sg.load(tmp_path / "joint.stategp")
    np.testing.assert_array_equal(again.predict_f(x)[0], fitted.predict_f(x)[0])
    assert len(fitted.plot().axes) == 3


def test_what_makes_no_sense_is_refused(posterior):
    with pytest.raises(ValueError, match="reads one function"):
        sg.JointGP(sg.kernels.Matern32(), "poisson")
    with pytest.raises(ValueError, match="CRPS is not available"):
        posterior.crps(X, Y)
