"""States, derivatives and joint covariances against dense GPs; kernels differentiated by hand."""

import functools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stategp as sg
from stategp import kernels as k
from stategp._posteriors import _states
from tests import dense
from tests.kernels.cases import COUPLED

NOISE = 0.05
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 5, 10))
Y = np.sin(2 * X) + np.sqrt(NOISE) * RNG.standard_normal(10)
# Any order, repeated, on and beside inducing points, two to an interval, outside on both sides.
X_NEW = np.array([4.0, -1.0, 0.5, 0.5, X[7], 6.5, 2.0, 2.05, X[3] + 1e-9])
SPARSE = np.array([0.5, 2.0, 4.0])

Derivatives = list[np.ndarray]  # of a function of the lag, of order 0, 1, 2 …


def of_product(one: Derivatives, other: Derivatives) -> Derivatives:
    """Leibniz."""
    return [
        sum(math.comb(n, i) * one[i] * other[n - i] for i in range(n + 1)) for n in range(len(one))
    ]


def of_exponential(exponent: Derivatives) -> Derivatives:
    """Of exp(g), whose derivative is that of g times itself."""
    made = [np.exp(exponent[0])]
    for n in range(1, len(exponent)):
        made.append(sum(math.comb(n - 1, i) * exponent[i + 1] * made[n - 1 - i] for i in range(n)))
    return made


def matern(coefficients: list[float], rate: float, r: np.ndarray, most: int) -> Derivatives:
    """Of a polynomial in r times exp(−rate · r)."""
    polynomial = np.polynomial.Polynomial(coefficients)
    made = []
    for _ in range(most + 1):
        made.append(polynomial(r) * np.exp(-rate * r))
        polynomial = polynomial.deriv() - rate * polynomial
    return made


def cosine(rate: float, r: np.ndarray, most: int) -> Derivatives:
    return [rate**n * np.cos(rate * r + n * math.pi / 2) for n in range(most + 1)]


def periodic(r: np.ndarray, most: int) -> Derivatives:
    """Of exp(−2 sin²(πr/2.5)/1.5²) = exp((cos(2πr/2.5) − 1)/1.5²)."""
    exponent = [each / 1.5**2 for each in cosine(2 * math.pi / 2.5, r, most)]
    return of_exponential([exponent[0] - 1 / 1.5**2, *exponent[1:]])


# k as a function of the lag r ≥ 0, written out here: smooth there, with derivatives at 0.
REFERENCES = {
    "matern32": lambda r, n: matern([1, math.sqrt(3)], math.sqrt(3), r, n),
    "matern52": lambda r, n: matern([1, math.sqrt(5), 5 / 3], math.sqrt(5), r, n),
    "matern72": lambda r, n: matern(
        [1, math.sqrt(7), 14 / 5, 7 * math.sqrt(7) / 15], math.sqrt(7), r, n
    ),
    "cosine": lambda r, n: [0.5 * each for each in cosine(2 * math.pi / 2.5, r, n)],
    "periodic": lambda r, n: [0.7 * each for each in periodic(r, n)],
}


def kernel_of(names: str) -> sg.kernels.Kernel:
    made = {
        "matern32": k.Matern32(),
        "matern52": k.Matern52(),
        "matern72": k.Matern72(),
        "cosine": k.Cosine(variance=0.5, period=2.5),
        "periodic": k.Periodic(variance=0.7, period=2.5, lengthscale=1.5, tolerance=1e-13),
    }
    first, *rest = names.replace("*", "+").split("+")
    total = made[first]
    for name in rest:
        total = total * made[name] if "*" in names else total + made[name]
    return total


def derivative_matrix(names: str, a: np.ndarray, b: np.ndarray, i: int, j: int) -> np.ndarray:
    """Cov(f⁽ⁱ⁾(a), f⁽ʲ⁾(b)) = (−1)ʲ k⁽ⁱ⁺ʲ⁾(a − b); k is even, so k⁽ⁿ⁾(−r) = (−1)ⁿ k⁽ⁿ⁾(r)."""
    lags = a[:, None] - b[None]
    parts = [REFERENCES[name](np.abs(lags), i + j) for name in names.replace("*", "+").split("+")]
    values = functools.reduce(of_product, parts)[-1] if "*" in names else sum(p[-1] for p in parts)
    return (-1) ** j * values * np.where(lags < 0, (-1) ** (i + j), 1)


KINDS = [
    ("matern32", 1),
    ("matern52", 2),
    ("matern72", 3),
    ("matern52+cosine", 2),
    ("matern72*cosine", 2),
    ("matern52+periodic", 1),
]


@pytest.mark.parametrize(("names", "most"), KINDS, ids=[names for names, _ in KINDS])
def test_derivatives_are_the_dense_ones(names, most):
    kernel = kernel_of(names)
    mean = sg.means.Function(lambda x: 0.1 * x**3)
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE), mean)
    posterior = sg.condition(model, X, Y, inducing="data")
    orders = tuple(range(most + 1))
    got_mean, got_covariance = posterior.predict_derivative(X_NEW, orders)
    C = derivative_matrix(names, X, X, 0, 0) + NOISE * np.eye(len(X))
    slopes = [0.1 * X_NEW**3, 0.3 * X_NEW**2, 0.6 * X_NEW, np.full(len(X_NEW), 0.6)]
    for i in orders:
        cross = derivative_matrix(names, X_NEW, X, i, 0)
        expected = cross @ np.linalg.solve(C, Y - 0.1 * X**3) + slopes[i]
        np.testing.assert_allclose(got_mean[:, i], expected, rtol=1e-9, atol=1e-9)
        for j in orders:
            other = derivative_matrix(names, X_NEW, X, j, 0)
            own = np.diag(derivative_matrix(names, X_NEW, X_NEW, i, j))
            expected = own - np.einsum("ni,in->n", cross, np.linalg.solve(C, other.T))
            np.testing.assert_allclose(got_covariance[:, i, j], expected, rtol=1e-9, atol=1e-9)
    one_mean, one_variance = posterior.predict_derivative(X_NEW, most)
    np.testing.assert_allclose(one_mean, got_mean[:, most], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one_variance, got_covariance[:, most, most], rtol=1e-10)


@pytest.fixture(scope="module")
def summed():
    kernel = k.Sum(trend=k.Matern52(), wave=k.Cosine(variance=0.5, period=2.5))
    return sg.condition(
        sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE), mean=0.3), X, Y, inducing="data"
    )


def test_derivatives_of_a_component(summed):
    C = derivative_matrix("matern52+cosine", X, X, 0, 0) + NOISE * np.eye(len(X))
    for component, name in [("trend", "matern52"), ("wave", "cosine")]:
        mean, variance = summed.predict_derivative(X_NEW, 2, component=component)
        cross = derivative_matrix(name, X_NEW, X, 2, 0)
        np.testing.assert_allclose(mean, cross @ np.linalg.solve(C, Y - 0.3), atol=1e-9)
        own = np.diag(derivative_matrix(name, X_NEW, X_NEW, 2, 2))
        expected = own - np.einsum("ni,in->n", cross, np.linalg.solve(C, cross.T))
        np.testing.assert_allclose(variance, expected, rtol=1e-8, atol=1e-8)
    states, covariances = summed.predict_state(X_NEW, component="wave")
    whole, _ = summed.predict_state(X_NEW)
    np.testing.assert_array_equal(states, whole[:, 3:])
    assert covariances.shape == (len(X_NEW), 2, 2)
    with pytest.raises(ValueError, match=r"component must be one of trend, wave; got \['trend'"):
        _states.parts_of(summed.model.kernels, ["trend"])
    with pytest.raises(ValueError, match="component must be one of trend, wave; got 'tide'"):
        summed.predict_state(X_NEW, component="tide")


def test_derivatives_that_are_not_there(summed):
    with pytest.raises(ValueError, match=r"has derivatives up to order 2: .* order 3"):
        summed.predict_derivative(X_NEW, 3)
    assert summed.predict_derivative(X_NEW, 3, component="wave")[0].shape == (len(X_NEW),)
    for order in (-1, 1.0, True, "one", ()):
        with pytest.raises(ValueError, match="order"):
            summed.predict_derivative(X_NEW, order)


def test_how_often_kernels_can_be_differentiated():
    orders = [
        (k.Matern12(), 0),
        (k.Matern32() + k.Periodic(), 1),
        (k.QuasiPeriodic(envelope="matern52"), 2),
        (k.Harmonic(weights=[1.0, 0.5]), 0),
        (k.Oscillator() * k.Matern72(lengthscale=1e-6), 1),
        (k.SquaredExponential(order=6), 5),
        (2.0 * k.Cosine(), math.inf),
        (COUPLED.kernel, 0),
    ]
    assert [kernel.smoothness for kernel, _ in orders] == [order for _, order in orders]
    F = np.array([[0, 1, 0], [0, 0, 1], [-8.0, -12.0, -6.0]])
    turn = np.random.default_rng(0).standard_normal((3, 3))  # a Matérn-5/2 in other coordinates
    other = k.FromSDE(
        turn @ F @ np.linalg.inv(turn),
        turn[:, 2:],
        [[1.0]],
        np.linalg.inv(turn)[0],
    )
    assert other.smoothness == 2
    with pytest.raises(ValueError, match=r"Matern12\(.*\) has no derivative: its paths are not sm"):
        k.Matern12().derivatives(1)


# --- states --------------------------------------------------------------------------------------


def exact_state(kernel, x, y, noise, x_new):
    """Mean and covariance of the state, from F and P₀ with eighty digits."""
    with mpmath.workdps(80):
        F, P, H = (
            mpmath.matrix(np.asarray(v))
            for v in (kernel.feedback(), kernel.stationary_covariance(), kernel.emission())
        )

        def shared(a: float, b: float) -> mpmath.matrix:
            lag = mpmath.mpf(float(a)) - mpmath.mpf(float(b))
            return mpmath.expm(F * lag) * P if lag >= 0 else P * mpmath.expm(-F * lag).T

        C = mpmath.matrix([[(H.T * shared(a, b) * H)[0] for b in x] for a in x])
        inverse = (C + noise * mpmath.eye(len(x))) ** -1
        means, covariances = [], []
        for at in x_new:
            cross = mpmath.matrix([list(shared(at, b) * H) for b in x]).T
            means.append(list(cross * inverse * mpmath.matrix(list(map(float, y)))))
            covariances.append((P - cross * inverse * cross.T).tolist())
        return np.array(means, dtype=float), np.array(covariances, dtype=float)


@pytest.mark.parametrize(
    ("rate", "noise"),
    [(1e-12, 0.1), (1e-5, 1e-6), (1e-3, 0.1), (0.1, 1e-8), (3.0, 1e-14)],
)
def test_states_keep_their_digits_at_any_step_and_any_noise(rate, noise):
    x, y = np.arange(5.0), np.array([0.3, -1.0, 0.4, 1.2, -0.2])
    x_new = np.array([1.3, 2.999, -1.5, 6.5, 3.0])
    kernel = k.Matern52(lengthscale=math.sqrt(5) / rate)
    posterior = sg.condition(
        sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise)), x, y, inducing="data"
    )
    mean, covariance = posterior.predict_state(x_new)
    expected_mean, expected = exact_state(kernel, x, y, noise, x_new)
    size = np.abs(expected_mean).max(axis=0)
    assert np.max(np.abs(mean - expected_mean) / size) < 1e-11
    deviation = np.sqrt(np.einsum("nii->ni", expected))
    spread = deviation[:, :, None] * deviation[:, None, :]
    assert np.max(np.abs(covariance - expected) / spread) < 1e-10


def test_a_state_on_an_inducing_point_is_its_marginal(summed):
    mean, covariance = summed.predict_state(X)
    pairs = summed.marginals[0]
    np.testing.assert_array_equal(mean, pairs.mean[1:, :5])
    expected = np.asarray(pairs.covariance[1:, :5, :5])
    np.testing.assert_array_equal(covariance, (expected + expected.transpose(0, 2, 1)) / 2)


@functools.cache
def poisson(inducing):
    counts = np.random.default_rng(3).poisson(np.exp(np.sin(X)))
    model = sg.GP(k.Matern32() + k.Cosine(variance=0.3, period=3.0), "poisson", mean=0.2)
    return sg.condition(model, X, counts, inducing=np.asarray(inducing))


@functools.cache
def student():
    y = Y.copy()
    y[4] += 8
    model = sg.GP(k.Matern52(lengthscale=2.0), sg.likelihoods.StudentT(df=3.0, scale=0.3))
    return sg.condition(model, X, y, inducing=SPARSE)


def dense_states(posterior, x):
    """Mean and covariance of f at x under prior × sites, with the sites' precision written out."""
    kernel, z = posterior.model.kernel, np.asarray(posterior.relative_inducing)
    relative = np.asarray(x) - posterior.data.origin
    Kuu, Ksu = dense.state_covariances(kernel, z, relative)
    d, sites = kernel.state_dim, posterior.sites[0]
    precision, linear = np.zeros_like(Kuu), np.zeros(len(Kuu))
    for m in range(len(z) + 1):
        own = np.arange((m - 1) * d, (m + 1) * d)
        inside = (own >= 0) & (own < len(Kuu))
        at = np.ix_(own[inside], own[inside])
        precision[at] += np.asarray(sites.precision[m])[np.ix_(inside, inside)]
        linear[own[inside]] += np.asarray(sites.linear[m])[inside]
    back = np.linalg.solve(np.eye(len(Kuu)) + precision @ Kuu, np.eye(len(Kuu)))
    prior = np.asarray(kernel(relative, relative))
    return Ksu @ back @ linear, prior - Ksu @ back @ precision @ Ksu.T


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: poisson(tuple(X)), id="Poisson, at the data"),
        pytest.param(lambda: poisson(tuple(SPARSE)), id="Poisson, sparse"),
        pytest.param(student, id="Student-t, sparse"),
    ],
)
def test_covariances_of_other_likelihoods(make):
    posterior = make()
    mean, covariance = dense_states(posterior, X_NEW)
    np.testing.assert_allclose(posterior.covariance(X_NEW), covariance, atol=1e-9)
    kernel = posterior.model.kernel
    states, _ = posterior.predict_state(X_NEW)
    np.testing.assert_allclose(states @ kernel.emission(), mean, atol=1e-9)


def test_covariances_of_gaussian_data_are_dense_ones(summed):
    expected = dense.gp(summed.model.kernel, X, Y - 0.3, NOISE, X_NEW).covariance
    np.testing.assert_allclose(summed.covariance(X_NEW), expected, atol=1e-12)
    few = summed.covariance(X_NEW, X_NEW[:2])
    np.testing.assert_allclose(few, expected[:, :2], atol=1e-12)
    np.testing.assert_allclose(summed.covariance(X_NEW[:2], X_NEW), few.T, atol=1e-15)
    apart = summed.covariance(X_NEW, component="wave")
    C = derivative_matrix("matern52+cosine", X, X, 0, 0) + NOISE * np.eye(len(X))
    cross = derivative_matrix("cosine", X_NEW, X, 0, 0)
    prior = derivative_matrix("cosine", X_NEW, X_NEW, 0, 0)
    np.testing.assert_allclose(apart, prior - cross @ np.linalg.solve(C, cross.T), atol=1e-12)
    assert summed.covariance([], X_NEW).shape == (0, len(X_NEW))


@given(points=st.lists(st.floats(-3, 9), min_size=1, max_size=16))
@settings(max_examples=15)
def test_covariances_are_what_covariances_are(points):
    x = np.array(points)
    for posterior in (poisson(tuple(X)), poisson(tuple(SPARSE))):
        C = np.asarray(posterior.covariance(x))
        np.testing.assert_allclose(np.diag(C), posterior.predict_f(x)[1], atol=1e-12)
        np.testing.assert_array_equal(C, C.T)
        assert np.linalg.eigvalsh(C).min() > -1e-12


@pytest.mark.parametrize("inducing", [tuple(X), tuple(SPARSE)], ids=["at the data", "sparse"])
def test_samples_of_states_have_their_mean_and_covariance(inducing):
    posterior = poisson(inducing)
    n, x = 20_000, X_NEW[[0, 1, 4, 5, 6, 7]]
    states = np.asarray(posterior.sample_state(0, x, n))
    mean, covariance = posterior.predict_state(x)
    deviation = np.sqrt(np.einsum("nii->ni", covariance))
    assert np.max(np.abs(states.mean(axis=0) - mean) / deviation) < 4.5 / np.sqrt(n)
    for at in range(len(x)):
        spread = np.sqrt(np.outer(deviation[at], deviation[at]) ** 2 + covariance[at] ** 2)
        assert np.all(np.abs(np.cov(states[:, at].T) - covariance[at]) < 4.5 * spread / np.sqrt(n))
    expected = np.asarray(posterior.covariance(x))
    f = states @ np.asarray(posterior.model.kernel.emission())
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2)
    assert np.all(np.abs(np.cov(f.T) - expected) < 4.5 * spread / np.sqrt(n))
    assert posterior.sample_state(0, [], 2).shape == (2, 0, 4)


def test_samples_before_the_data():
    kernel = k.Matern32() + k.Cosine(variance=0.5, period=2.5)
    model = sg.GP(kernel, mean=sg.means.Linear(intercept=1.0, slope=0.5))
    n = 20_000
    f = np.asarray(model.prior_sample(0, X_NEW, n))
    expected = derivative_matrix("matern32+cosine", X_NEW, X_NEW, 0, 0)
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2)
    assert np.all(np.abs(np.cov(f.T) - expected) < 4.5 * spread / np.sqrt(n))
    deviation = np.sqrt(np.diag(expected))
    assert np.max(np.abs(f.mean(axis=0) - 1 - 0.5 * X_NEW) / deviation) < 4.5 / np.sqrt(n)
    posterior = sg.condition(model, X, Y)
    np.testing.assert_array_equal(
        posterior.prior_sample(0, X_NEW, 3), model.prior_sample(0, X_NEW, 3)
    )
    with pytest.raises(ValueError, match="num_samples must be a whole number"):
        model.prior_sample(0, X_NEW, 2.5)


def test_several_latent_functions():
    model = sg.GP((k.Matern32(), k.Matern52()), sg.likelihoods.HeteroscedasticGaussian())
    posterior = sg.condition(model, X, Y, inducing="data")
    mean, variance = posterior.predict_f(X_NEW)
    states, covariances = posterior.predict_state(X_NEW)
    assert states.shape == (len(X_NEW), 5)
    assert not np.any(covariances[:, :2, 2:])
    again, spread = posterior.predict_derivative(X_NEW, 0)
    np.testing.assert_allclose(again, mean, atol=1e-10)
    np.testing.assert_allclose(spread, variance, atol=1e-10)
    C = posterior.covariance(X_NEW)
    assert C.shape == (len(X_NEW), len(X_NEW), 2)
    np.testing.assert_allclose(np.einsum("nnl->nl", C), variance, atol=1e-10)
    second, _ = posterior.predict_state(X_NEW, component="1.matern52")
    np.testing.assert_array_equal(second, states[:, 2:])
    assert posterior.sample_state(0, X_NEW, 3).shape == (3, len(X_NEW), 5)


def test_additive_and_deep_models():
    x = np.random.default_rng(0).uniform(size=(10, 2))
    additive = sg.condition(sg.AdditiveGP([k.Matern32(), k.Matern52()]), x, x[:, 0] - x[:, 1])
    C = np.asarray(additive.covariance(x))
    np.testing.assert_allclose(np.diag(C), additive.predict_f(x)[1], atol=1e-12)
    np.testing.assert_allclose(additive.covariance(x, x[:3]), C[:, :3], atol=1e-14)
    layers = {"f": sg.Layer(k.Matern52(lengthscale=2.0), inducing=5)}
    deep = sg.DeepGP(layers, lambda f, t: f["f"](t), sg.likelihoods.Gaussian(variance=NOISE))
    function = sg.condition(deep, X, Y, max_steps=20, tolerance=1.0).functions["f"]
    slope, variance = function.predict_derivative(X_NEW)
    away = 1e-5
    right, left = (function.predict_f(X_NEW + step)[0] for step in (away, -away))
    np.testing.assert_allclose(slope, (right - left) / (2 * away), atol=1e-7)
    assert np.all(variance > 0)


def test_many_points_come_in_blocks(summed, monkeypatch):
    x = np.random.default_rng(1).uniform(-1, 6, 20)  # a number that no other test has compiled
    monkeypatch.setattr(_states, "_ENTRIES", 500)
    mean, covariance = summed.predict_state(x)
    joint = np.asarray(summed.covariance(x))
    monkeypatch.undo()
    few_mean, few_covariance = summed.predict_state(x[-9:])
    np.testing.assert_allclose(mean[-9:], few_mean, atol=1e-13)
    np.testing.assert_allclose(covariance[-9:], few_covariance, atol=1e-13)
    np.testing.assert_allclose(joint[-9:, -9:], summed.covariance(x[-9:]), atol=1e-13)
