"""Kernels that are not the same at all inputs, against dense GPs and many digits.

The dense covariances come from integrals of the equations in f and its derivatives, by SciPy and
mpmath; no matrix of the package is repeated.
"""

import functools
import math
from collections.abc import Callable

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.linalg

import stategp as sg

k = sg.kernels
Dense = Callable[[np.ndarray, np.ndarray], np.ndarray]
NOISE = 0.01
X = np.sort(np.random.default_rng(0).uniform(1e6, 1e6 + 10, 24))
Y = np.sin(X) + 0.1 * np.random.default_rng(1).normal(size=24)
FIRST = X[0]
CHANGE = FIRST + 4.0
NEW = np.sort(FIRST + np.array([-2.0, -0.3, 0.0, 0.7, 3.9, 4.0, 4.1, 8.0, 9.0, 13.0]))


# --- dense covariances, in the user's inputs -------------------------------------------------


def step(F: np.ndarray, D: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """e^{FΔ} and the noise that it adds, by Van Loan's block matrix."""
    n = len(F)
    blocks = scipy.linalg.expm(np.block([[-F, D], [np.zeros((n, n)), F.T]]) * length)
    A = blocks[n:, n:].T
    return A, A @ blocks[:n, n:]


def from_first(F: np.ndarray, D: np.ndarray, start: np.ndarray) -> Dense:
    """A process that starts at the first observation and runs in both directions from there."""

    def covariance(a: float, b: float) -> float:
        near, far = sorted((a - FIRST, b - FIRST), key=abs)
        if near * far < 0:
            both = scipy.linalg.expm(F * near) @ start @ scipy.linalg.expm(F * far).T
            return float(both[0, 0])
        way = -F if far < 0 else F
        A, Q = step(way, D, abs(near))
        onward, _ = step(way, D, abs(far) - abs(near))
        return float((onward @ (A @ start @ A.T + Q))[0, 0])

    return np.vectorize(covariance, otypes=[float])


def companion(variance: float, lengthscale: float) -> tuple[np.ndarray, ...]:
    """Matérn-3/2 in f and f′: F and the stationary covariance."""
    rate = math.sqrt(3) / lengthscale
    F = np.array([[0.0, 1.0], [-(rate**2), -2 * rate]])
    return F, np.diag([variance, rate**2 * variance])


def at_rest(F: np.ndarray, P: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """The same of a process that would settle at P."""
    A = scipy.linalg.expm(F * length)
    return A, P - A @ P @ A.T


def two_pieces(first: tuple[float, float], second: tuple[float, float]) -> Dense:
    """f and f′ go on through the change; the process is at rest before it."""
    (F1, P1), (F2, P2) = companion(*first), companion(*second)

    def covariance(a: float, b: float) -> float:
        low, high = min(a, b), max(a, b)
        A2, Q2 = at_rest(F2, P2, max(low - CHANGE, 0.0))
        P = A2 @ P1 @ A2.T + Q2
        early, _ = at_rest(F1, P1, max(min(high, CHANGE) - min(low, CHANGE), 0.0))
        late, _ = at_rest(F2, P2, max(high, CHANGE) - max(low, CHANGE))
        return float((late @ early @ P)[0, 0])

    return np.vectorize(covariance, otypes=[float])


def apart(dense: list[k.Kernel]) -> Dense:
    """Pieces that know nothing of each other."""
    before, after = dense

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.broadcast_arrays(a, b)
        lag, early, late = np.abs(a - b), (a < CHANGE) & (b < CHANGE), (a >= CHANGE) & (b >= CHANGE)
        rates = [math.sqrt(3) / float(kernel.lengthscale) for kernel in (before, after)]
        each = [
            float(kernel.variance) * (1 + rate * lag) * np.exp(-rate * lag)
            for kernel, rate in zip((before, after), rates, strict=True)
        ]
        return np.where(early, each[0], np.where(late, each[1], 0.0))

    return covariance


def envelope(x: np.ndarray) -> np.ndarray:
    return 1.0 + 0.1 * (x - FIRST) ** 2


CALM, WILD = k.Matern32(variance=1.0, lengthscale=2.0), k.Matern32(variance=3.0, lengthscale=0.5)
SHIFT = np.eye(3, k=1)
GROWING = np.array([[0.0, 1.0], [0.06, -0.1]])  # one eigenvalue is positive
KERNELS: dict[str, tuple[k.Kernel, Dense]] = {
    "integrated Wiener": (
        k.IntegratedWiener(order=2, diffusivity=3.0, start=100.0, slope=10.0),
        from_first(SHIFT, np.diag([0.0, 0.0, 3.0]), np.diag([100.0, 10.0, 1.0])),
    ),
    "unstable": (
        k.FromSDE(GROWING, [0.0, 1.0], [[0.7]], [1.0, 0.0], initial=[1.5, 0.5], time_scale=2.0),
        from_first(GROWING / 2, np.diag([0.0, 0.35]), np.diag([1.5, 0.5])),
    ),
    "known start": (
        k.FromSDE([[0.0]], [[1.0]], [[2.0]], [1.0], initial=[0.0], variance=0.5),
        from_first(np.zeros((1, 1)), np.eye(1), np.zeros((1, 1))),
    ),
    "pieces": (k.Piecewise([CALM, WILD], [CHANGE]), two_pieces((1.0, 2.0), (3.0, 0.5))),
    "pieces apart": (
        k.Piecewise([CALM, WILD], [CHANGE], continuous=False),
        apart([CALM, WILD]),
    ),
    "scaled sum": (
        k.Scaled(CALM, envelope) + k.Scaled(WILD, k.StepFunction([CHANGE], [1.0, 2.0])),
        lambda a, b: (
            envelope(a) * envelope(b) * two_pieces((1.0, 2.0), (1.0, 2.0))(a, b)
            + np.where(a < CHANGE, 1, 2)
            * np.where(b < CHANGE, 1, 2)
            * two_pieces((3.0, 0.5), (3.0, 0.5))(a, b)
        ),
    ),
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def dense_posterior(dense: Dense) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance at the new points, and log p(y)."""
    K = dense(X[:, None], X[None]) + NOISE * np.eye(len(X))
    across, prior = dense(NEW[:, None], X[None]), dense(NEW[:, None], NEW[None])
    solved = np.linalg.solve(K, np.column_stack([Y, across.T]))
    fit = Y @ solved[:, 0] + np.linalg.slogdet(2 * math.pi * K)[1]
    return across @ solved[:, 0], prior - across @ solved[:, 1:], -fit / 2


@functools.cache
def posterior(name: str) -> sg.Posterior:
    model = sg.GP(KERNELS[name][0], sg.likelihoods.Gaussian(variance=NOISE))
    return sg.condition(model, X, Y)


@every_kernel
def test_inference_is_that_of_a_dense_process(name: str) -> None:
    """Forecasts, backcasts, and both sides of the change."""
    mean, covariance, evidence = dense_posterior(KERNELS[name][1])
    found_mean, found_variance = posterior(name).predict_f(NEW)
    scale = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose((found_mean - mean) / np.maximum(scale, 1e-3), 0, atol=1e-7)
    np.testing.assert_allclose(found_variance, scale**2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(posterior(name).elbo, evidence, atol=1e-6)


def test_joint_covariances() -> None:
    _, covariance, _ = dense_posterior(KERNELS["integrated Wiener"][1])
    deviation = np.sqrt(np.diagonal(covariance))
    found = posterior("integrated Wiener").covariance(NEW) / np.outer(deviation, deviation)
    np.testing.assert_allclose(found, covariance / np.outer(deviation, deviation), atol=1e-6)


def test_joint_samples() -> None:
    _, covariance, _ = dense_posterior(KERNELS["pieces"][1])
    samples = np.asarray(posterior("pieces").sample_f(0, NEW, num_samples=2000))
    np.testing.assert_allclose(samples.var(axis=0), np.diagonal(covariance), rtol=0.15)


@pytest.mark.parametrize("name", ["integrated Wiener", "pieces"])
def test_states_where_nothing_is_observed_change_nothing(name: str) -> None:
    """Also before the first observation."""
    model = sg.GP(KERNELS[name][0], sg.likelihoods.Gaussian(variance=NOISE))
    more = sg.condition(model, X, Y, inducing=np.union1d(X, NEW))
    np.testing.assert_allclose(more.elbo, posterior(name).elbo, atol=1e-6)
    expected = posterior(name).predict_f(NEW)
    np.testing.assert_allclose(more.predict_f(NEW), expected, rtol=1e-5, atol=1e-7)


MIX = np.array([[1.0, 0.3], [-0.5, 1.2]])


def test_several_outputs_read_kernels_that_depend_on_where_they_are() -> None:
    calm = two_pieces((1.0, 2.0), (1.0, 2.0))
    covariances = [KERNELS["pieces"][1], lambda a, b: envelope(a) * envelope(b) * calm(a, b)]
    kernels = [KERNELS["pieces"][0], k.Scaled(CALM, envelope)]
    noise = sg.likelihoods.Gaussian(variance=NOISE)
    model = sg.MultiOutputGP(kernels, noise, mixing=sg.fixed(MIX), mean=0.0)
    which = np.arange(len(X)) % 2
    found = sg.condition(model, (X, which), Y, inducing="data")

    def dense(a: np.ndarray, p: np.ndarray, b: np.ndarray, r: np.ndarray) -> np.ndarray:
        parts = [k(a[:, None], b[None]) for k in covariances]
        return sum(np.outer(MIX[p, i], MIX[r, i]) * part for i, part in enumerate(parts))

    K = dense(X, which, X, which) + NOISE * np.eye(len(X))
    second = np.ones(len(NEW), dtype=int)
    across = dense(NEW, second, X, which)
    solved = np.linalg.solve(K, np.column_stack([Y, across.T]))
    evidence = -(Y @ solved[:, 0] + np.linalg.slogdet(2 * math.pi * K)[1]) / 2
    np.testing.assert_allclose(found.elbo, evidence, atol=1e-6)
    mean, variance = found.predict_f(NEW, output=1)
    np.testing.assert_allclose(mean, across @ solved[:, 0], atol=1e-6)
    exact = np.diagonal(dense(NEW, second, NEW, second) - across @ solved[:, 1:])
    np.testing.assert_allclose(variance, exact, rtol=1e-6, atol=1e-8)
    samples = np.asarray(found.sample_f(0, NEW, 4000, output=1))
    np.testing.assert_allclose(samples.var(axis=0), exact, rtol=0.12)


# --- steps -----------------------------------------------------------------------------------

STEPS = np.logspace(-12, 3, 16)


@pytest.mark.parametrize("order", [2, 6, 10])
def test_steps_of_an_iterated_walk_to_the_last_digits(order: int) -> None:
    (block,) = k.IntegratedWiener(order=order, diffusivity=2.0, start=4.0, slope=4.0).blocks()
    A, Q = jax.jit(lambda dt: block.step_matrices(dt))(jnp.asarray(STEPS))
    with mpmath.workdps(80):
        for number, length in enumerate(map(mpmath.mpf, map(float, STEPS))):
            for i in range(order + 1):
                for j in range(i, order + 1):
                    carried = length ** (j - i) / mpmath.factorial(j - i)
                    assert abs(float(A[i, j, number]) / carried - 1) < 1e-14
                    power = 2 * order + 1 - i - j  # of ∫ u^(k−i) u^(k−j) du
                    factors = mpmath.factorial(order - i) * mpmath.factorial(order - j)
                    spread = length**power / (2 * power * factors)
                    assert abs(float(Q[i, j, number]) / spread - 1) < 1e-14


@functools.cache
def stepped(name: str) -> Callable[..., tuple[jax.Array, ...]]:
    kernel = KERNELS[name][0].seen_from(FIRST)

    @eqx.filter_jit
    def matrices(start: jax.Array, length: jax.Array) -> tuple[jax.Array, ...]:
        P = jnp.broadcast_to(
            kernel.covariance_at(start), (kernel.state_dim, kernel.state_dim, len(start))
        )
        return tuple(jnp.moveaxis(m, -1, 0) for m in (*kernel.matrices_from(start, length), P))

    return matrices


@every_kernel
@hypothesis.settings(max_examples=10, phases=[hypothesis.Phase.generate], deadline=None)
@hypothesis.given(start=st.floats(-9, 9), lengths=st.tuples(st.floats(-9, 1), st.floats(-9, 1)))
def test_two_steps_make_one(name: str, start: float, lengths: tuple[float, float]) -> None:
    """A(a→c) = A(b→c)A(a→b), the noise likewise, and P(b) = A P(a) Aᵀ + Q, before and after 0."""
    first, second = 10.0 ** np.array(lengths)
    places = np.array([start, start + first, start, start + first + second])
    steps = np.array([first, second, first + second, 0.0])
    A, Q, P = map(np.asarray, stepped(name)(jnp.asarray(places), jnp.asarray(steps)))
    scale = np.abs(A[1]) @ np.abs(A[0])
    assert np.all(np.abs(A[1] @ A[0] - A[2]) <= 1e-9 * np.maximum(scale, 1e-3))
    spread = np.sqrt(np.outer(np.diagonal(P[3]), np.diagonal(P[3])))
    assert np.all(np.abs(A[1] @ Q[0] @ A[1].T + Q[1] - Q[2]) <= 1e-9 * spread + 1e-300)
    assert np.all(np.abs(A[0] @ P[0] @ A[0].T + Q[0] - P[1]) <= 1e-9 * np.abs(P[1]).max())
    np.testing.assert_array_equal(A[3], np.eye(len(A[3])))
    np.testing.assert_array_equal(Q[3], 0.0)


@every_kernel
def test_calling_a_kernel_gives_its_covariances(name: str) -> None:
    kernel, dense = KERNELS[name]
    inputs = NEW if kernel.located else NEW - FIRST
    expected = dense(NEW[:, None], NEW[None])
    np.testing.assert_allclose(kernel(inputs, inputs), expected, rtol=1e-6, atol=1e-8)
    if kernel.located or not kernel.homogeneous:
        with pytest.raises(ValueError, match="two arrays of inputs"):
            (kernel.kernels[0] if isinstance(kernel, k.Sum) else kernel).covariance(jnp.zeros(1))


# --- use -------------------------------------------------------------------------------------


def test_polynomials_go_on_in_both_directions() -> None:
    x = np.linspace(100.0, 110.0, 24)
    polynomial = np.polynomial.Polynomial([1.0, 2.0, -3.0], domain=[100, 110])
    model = sg.GP(
        k.IntegratedWiener(order=2, diffusivity=1e-6), sg.likelihoods.Gaussian(variance=1e-4)
    )
    found = sg.condition(model, x, polynomial(x))
    ends = np.array([98.0, 112.0])
    np.testing.assert_allclose(found.predict_f(ends)[0], polynomial(ends), rtol=1e-2)


def test_fit_learns_changes() -> None:
    rng = np.random.default_rng(2)
    x = np.arange(24.0)
    y = np.where(x < 13.5, 0.1, 2.0) * rng.normal(size=24)
    pieces = [k.Matern12(variance=0.01), k.Matern12(variance=4.0)]
    start = k.Piecewise(pieces, changes=sg.parameter([10.2]))
    found = sg.fit(sg.GP(start), x, y).model.kernel
    assert 12 < float(found.changes.value[0]) < 15


def test_named_parameters_of_pieces() -> None:
    kernel = k.Piecewise([CALM, WILD], [3.0])
    moved = kernel.with_parameters(changes=[4.0], piece2__lengthscale=9.0)
    assert list(moved.named_parameters())[:2] == ["changes", "piece1__variance"]
    assert float(moved.changes.value[0]) == 4.0
    assert float(moved.kernels[1].lengthscale) == 9.0
    assert not moved.changes.learned
    assert list(k.Scaled(CALM, jnp.cos).named_parameters()) == [
        "kernel__variance",
        "kernel__lengthscale",
    ]


def test_posteriors_of_pieces_are_saved_and_updated(tmp_path) -> None:
    whole = posterior("pieces")
    model = sg.GP(KERNELS["pieces"][0], sg.likelihoods.Gaussian(variance=NOISE))
    grown = sg.condition(model, X[:20], Y[:20]).update(X[20:], Y[20:])
    np.testing.assert_allclose(grown.predict_f(NEW)[0], whole.predict_f(NEW)[0], atol=1e-7)
    whole.save(tmp_path / "file")
    again = sg.load(tmp_path / "file").predict_f(NEW)
    np.testing.assert_array_equal(again[0], whole.predict_f(NEW)[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.FromSDE([[1.0]], [1.0], [[1.0]], [1.0]), "initial="),
        (lambda: k.FromSDE([[1.0]], [1.0], [[1.0]], [1.0], initial=[-1.0]), "positive semi"),
        (lambda: k.FromSDE([[1.0]], [1.0], [[1.0]], [1.0], initial=[1.0, 2.0]), r"\(1, 1\)"),
        (lambda: k.FromSDE([[0.0]], [1.0], [[1.0]], [1.0], initial=[1.0], start=1.0), "not both"),
        (lambda: k.FromSDE([[-1.0]], [1.0], [[1.0]], [1.0], time_scale=0.0), "time_scale must be"),
        (lambda: k.IntegratedWiener(order=0), "sg.kernels.Wiener"),
        (lambda: k.IntegratedWiener(order=11), "between 1 and 10"),
        (lambda: k.IntegratedWiener(order=2) * k.Matern12(), "only by one that repeats"),
        (lambda: k.Piecewise([CALM, WILD], [1.0]) * k.Constant(), "multiply its parts"),
        (lambda: k.Piecewise([CALM, WILD], [1.0, 2.0]), "one kernel more than changes"),
        (lambda: k.Piecewise([CALM, WILD, CALM], [2.0, 1.0]), "increasing"),
        (
            lambda: k.Piecewise([CALM, WILD], sg.parameter([1.0]), continuous=False),
            "cannot be learned",
        ),
        (lambda: k.Piecewise([CALM, k.Matern12()], [1.0]), "same sizes"),
        (lambda: k.Piecewise([CALM, 3.0], [1.0]), "same everywhere, got 3.0"),
        (lambda: k.Piecewise([k.Cosine() * k.Matern12()] * 2, [1.0]), "continuous=False"),
        (lambda: k.Scaled(CALM, 3.0), "function of x"),
        (lambda: k.Scaled(k.Scaled(CALM, jnp.cos), jnp.cos), "scale its parts"),
        (lambda: k.StepFunction([1.0], [1.0]), "one value more"),
        (lambda: k.StepFunction([1.0], [1.0, -1.0]), "positive"),
        (lambda: sg.AdditiveGP([k.Scaled(CALM, jnp.cos)]), "only be used in an sg.GP"),
        (lambda: sg.Layer(k.IntegratedWiener(order=2)), "only be used in an sg.GP"),
        (lambda: k.LatentExponentiallyGenerated(N=[[1.0]]), "both N and R"),
        (lambda: k.LatentExponentiallyGenerated(N=[[1.0]], R=[[1.0]], size=1), "give size, or"),
        (lambda: k.LatentExponentiallyGenerated(N=[[1.0]], R=np.eye(2)), r"R \(d, d\)"),
        (lambda: posterior("pieces").filter(), "same everywhere"),
        (lambda: posterior("pieces").predict_derivative(NEW), "same everywhere"),
        (lambda: posterior("scaled sum").predict_derivative(NEW), "same everywhere"),
        (lambda: posterior("scaled sum").covariance(NEW), "sample_f"),
    ],
)
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_walk_that_begins_times_a_season() -> None:
    """Q of the product of a process that begins and one that repeats."""
    product = k.IntegratedWiener(order=2, diffusivity=3.0, start=100.0, slope=10.0) * k.Cosine(
        period=3.0, variance=0.5
    )
    x = NEW - FIRST
    wave = 0.5 * np.cos(2 * math.pi * np.subtract.outer(x, x) / 3.0)
    expected = wave * KERNELS["integrated Wiener"][1](NEW[:, None], NEW[None])
    np.testing.assert_allclose(product(x, x), expected, rtol=1e-6, atol=1e-6)


def test_filters_follow_a_process_that_begins() -> None:
    stream = posterior("integrated Wiener").filter()
    mean, variance = stream.predict_f(X[-1] + 3.0)
    expected = posterior("integrated Wiener").predict_f([X[-1] + 3.0])
    np.testing.assert_allclose([mean, variance], expected, rtol=1e-6)
