"""A likelihood that reads two functions together: q against a dense twin, predictions by draws."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm, qmc

import stategp as sg
from stategp._models import JointGP
from stategp._models._joint_likelihood import JointLikelihood
from stategp._posteriors._joint_outcomes import JointOutcomes
from tests.dense_inference import product_rule, variational_jointly

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


def given_the_noise(mean, covariance):
    """f₂ at nodes, f₁ given it in closed form."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    v2, c = covariance[:, 1, 1], covariance[:, 0, 1]
    total = 0.0
    for t, w in zip(nodes, weights / weights.sum(), strict=True):
        f2 = mean[:, 1] + jnp.sqrt(v2) * t
        centre = mean[:, 0] + c / jnp.sqrt(v2) * t
        square = (jnp.asarray(Y) - centre) ** 2 + covariance[:, 0, 0] - c**2 / v2
        total += w * jnp.sum(-square * jnp.exp(-f2) / 2 - f2 / 2 - np.log(2 * np.pi) / 2)
    return total


LABELS = np.array([0.0, 1.0, 2.0, 1.0, 0.0, 2.0])
THREE = (*KERNELS, sg.kernels.Matern12(variance=2.0, lengthscale=0.7))


CLASSES = sg.JointGP(THREE, sg.likelihoods.Softmax(classes=3), (0.0, 0.3, -0.2))


def product_of_two(y, f):
    return -((y - f[..., 0] * f[..., 1]) ** 2) / (2 * 0.2) - np.log(2 * np.pi * 0.2) / 2


def log_softmax(y, f):
    chosen = jnp.stack([y == number for number in range(3)], axis=-1)
    return jnp.sum(jnp.where(chosen, f, 0.0), -1) - jnp.log(jnp.sum(jnp.exp(f), -1))


TWINS = {
    "noise": (KERNELS, NOISE, (0.0, -0.5), Y, given_the_noise),
    "a change at a place": (
        (sg.kernels.Piecewise([KERNELS[0], KERNELS[1]], [101.5]), KERNELS[1]),
        NOISE,
        (0.0, -0.5),
        Y,
        given_the_noise,
    ),
    "product": (
        KERNELS,
        sg.likelihoods.Custom(product_of_two, latents=2, quadrature=12),
        (0.5, 1.0),
        Y,
        product_rule(product_of_two, Y, 2, 9),  # of a polynomial: exact
    ),
    "softmax": (
        THREE,
        sg.likelihoods.Softmax(classes=3),
        (0.0, 0.3, -0.2),
        LABELS,
        product_rule(log_softmax, LABELS, 3, 16),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_q_is_the_dense_one(name):
    kernels, likelihood, means, y, expected = TWINS[name]
    x = X + 100
    posterior = sg.condition(sg.JointGP(kernels, likelihood, means), x, y, inducing="data")
    dense = variational_jointly(kernels, means, x, expected)
    assert posterior.fit_result.converged
    np.testing.assert_allclose(posterior.elbo, dense.bound, atol=1e-6)
    np.testing.assert_allclose(posterior.predict_f(x)[0], dense.mean, atol=1e-3)
    covariance = np.asarray(posterior.covariance_f(x))
    np.testing.assert_allclose(covariance, dense.covariance, atol=1e-3)
    assert np.max(np.abs(covariance[:, 0, 1])) > 0.01  # else nothing was tested


def test_counts_in_two_stages_gain_nothing_by_a_joint_q():
    """Each stage has a term of its own, so that the best joint q is a product."""
    y = np.array([0.0, 2.0, 1.0, 0.0, 5.0, 3.0])
    stages = sg.likelihoods.HurdlePoisson()
    joint = sg.condition(sg.JointGP(KERNELS, stages, (0.1, 0.4)), X, y, inducing="data")
    apart = sg.condition(sg.GP(KERNELS, stages, (0.1, 0.4)), X, y, inducing="data")
    np.testing.assert_allclose(joint.elbo, apart.elbo, atol=1e-7)
    np.testing.assert_allclose(joint.predict_f(X)[0], apart.predict_f(X)[0], atol=1e-4)
    np.testing.assert_allclose(joint.predict_y(X), apart.predict_y(X), rtol=1e-3)


@pytest.mark.parametrize(("classes", "close"), [(3, 1e-4), (10, 3e-3)])
def test_classes_have_the_expectations_of_dependent_functions(classes, close):
    """By many points spread evenly, for standard deviations up to 2."""
    rng = np.random.default_rng(classes)
    half = rng.standard_normal((2, classes, classes))
    S = half @ half.transpose(0, 2, 1)
    size = np.sqrt(np.diagonal(S, axis1=1, axis2=2)).max(axis=1)
    S *= (np.array([0.5, 2.0]) / size)[:, None, None] ** 2
    m, y = rng.standard_normal((2, classes)), np.array([0.0, 2.0])
    likelihood = JointLikelihood(sg.likelihoods.Softmax(classes=classes))
    value, slope, _ = likelihood.expected_slopes(*map(jnp.asarray, (y, m, S)), jnp.zeros(2))
    chances = likelihood.outcome_probabilities(jnp.asarray(m), jnp.asarray(S), jnp.zeros(2))
    t = ndtri(qmc.Sobol(classes, rng=1).random_base2(17))
    t = np.concatenate([t, -t])
    for i in range(2):
        f = m[i] + t @ np.linalg.cholesky(S[i]).T
        top = f.max(axis=1, keepdims=True)
        p = np.exp(f - top)
        logs = f[:, int(y[i])] - top[:, 0] - np.log(p.sum(axis=1))
        p /= p.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(value[i], logs.mean(), atol=close)
        np.testing.assert_allclose(chances[i], p.mean(axis=0), atol=close)
        chosen = np.arange(classes) == y[i]
        np.testing.assert_allclose(slope[i], chosen - p.mean(axis=0), atol=close)


def test_classes_are_predicted_with_the_joint_distribution():
    posterior = sg.condition(CLASSES, X, LABELS, inducing="data")
    new = np.array([0.3, 1.5, 9.0])
    chances = np.asarray(posterior.predict_probabilities(new))
    for i in range(3):
        law = multivariate_normal(posterior.predict_f(new)[0][i], posterior.covariance_f(new)[i])
        f = law.rvs(200_000, random_state=0)
        shares = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(chances[i], shares.mean(axis=0), atol=0.005)
    labels = np.array([0.0, np.nan, 2.0])
    density = np.asarray(posterior.log_density(new, labels))
    np.testing.assert_allclose(density[[0, 2]], np.log([chances[0, 0], chances[2, 2]]))
    assert np.isnan(density[1])
    for ask in (
        lambda: posterior.predict_y(new),
        lambda: posterior.quantiles(new),
        lambda: posterior.cdf(new, np.ones(3)),
    ):
        with pytest.raises(ValueError, match=r"have no order.*predict_probabilities\(x_new\)"):
            ask()
    figure = posterior.plot(until=8.0)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Probability of each class", *(f"Function of class {k}" for k in range(3))]
    lines = figure.axes[0].get_lines()
    at = lines[0].get_xdata()
    for number in range(3):  # the curves, then a row of dots for the labels of each class
        np.testing.assert_allclose(
            lines[number].get_ydata(), posterior.predict_probabilities(at)[:, number], atol=1e-9
        )
        np.testing.assert_array_equal(lines[3 + number].get_xdata(), X[number == LABELS])
        assert np.all(lines[3 + number].get_ydata() > 1)


class Grades(sg.likelihoods.Softmax):
    """Outcomes with an order, of which several functions tell."""

    nominal = False


def test_outcomes_with_an_order_have_moments_and_quantiles():
    chances = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    there = JointOutcomes(Grades(classes=3), chances, np.zeros(2))
    np.testing.assert_allclose(there.moments(), [[1.6, 0.5], [0.44, 0.25]])
    np.testing.assert_allclose(there.cdf(np.array([1.0, np.nan])), [0.3, np.nan])
    np.testing.assert_allclose(there.cdf(np.array([1.0, 0.0]), strict=True), [0.1, 0.0])
    np.testing.assert_array_equal(there.quantiles([0.05, 0.6]), [[0, 0], [2, 1]])


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
    with pytest.raises(ValueError, match="at most 12"):
        sg.JointGP(sg.kernels.Matern32(), sg.likelihoods.Softmax(classes=13))
    many = sg.likelihoods.Custom(lambda y, f: -((y - f.sum(-1)) ** 2), latents=6)
    with pytest.raises(ValueError, match="quadrature=5 or less"):
        sg.JointGP(sg.kernels.Matern32(), many)
    with pytest.raises(ValueError, match="no few outcomes"):
        posterior.predict_probabilities(X)
    with pytest.raises(ValueError, match="CRPS is not available"):
        posterior.crps(X, Y)
