"""Summaries: the same answers as from the observations, sums that add up in any order."""

import itertools

import numpy as np
import pytest

import stategp as sg
from stategp._data import Summarised

k, noise = sg.kernels, sg.likelihoods.Gaussian(variance=0.1)
MODEL = sg.GP(k.Matern52(lengthscale=2.0, variance=1.0), noise)


def series(count=200, span=15.0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, span, count)
    return x, np.sin(x) + 0.3 * rng.standard_normal(count), rng


def assert_same(one, other, tolerance=1e-9):
    assert one.elbo == pytest.approx(other.elbo, rel=tolerance)
    at = np.linspace(-2, 20, 64)
    for a, b in zip(one.predict_f(at), other.predict_f(at), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=10 * tolerance)


def counts(x, rng, exposure):
    return rng.poisson(exposure * np.exp(np.sin(x))).astype(float)


X, Y, RNG = series()
EXPOSURE = RNG.uniform(0.5, 2.0, len(X))
KINDS = {
    "gaussian": (noise, Y, {}),
    "weighted": (noise, Y, {"weights": RNG.integers(0, 3, len(X))}),
    "known noise": (noise, Y, {"noise_variance": 0.05}),
    "noise of each": (
        sg.likelihoods.Gaussian(variance=sg.fixed(0.0)),
        Y,
        {"noise_variance": RNG.uniform(0.05, 0.5, len(X))},
    ),
    "poisson": (
        sg.likelihoods.Poisson(),
        counts(X, RNG, EXPOSURE),
        {"exposure": EXPOSURE, "weights": RNG.integers(1, 3, len(X))},
    ),
    "bernoulli": (sg.likelihoods.Bernoulli(), 1.0 * (Y > 0), {}),
    "gamma": (sg.likelihoods.Gamma(shape=2.0), np.exp(Y), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_are_those_of_the_observations(kind):
    likelihood, y, extras = KINDS[kind]
    model = sg.GP(k.Matern32(lengthscale=3.0, variance=1.0), likelihood, sg.means.Constant(0.2))
    y = np.where(np.arange(len(X)) == 7, np.nan, y)
    summary = sg.summarise(X, y, shortest=2.0, likelihood=likelihood, **extras)
    assert summary.rows == np.sum((np.arange(len(X)) != 7) & (extras.get("weights", 1) > 0))
    posterior = sg.condition(model, summary, inducing=20)
    assert_same(posterior, sg.condition(model, X, y, inducing=posterior.inducing, **extras))


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_learned_hyperparameters_are_the_same(kind):
    likelihood, y, extras = KINDS[kind]
    if kind == "gaussian":
        likelihood = sg.likelihoods.Gaussian()
    model = sg.GP(k.Matern32(), likelihood)
    summary = sg.summarise(X, y, shortest=1.0, likelihood=likelihood, **extras)
    posterior = sg.fit(model, summary, inducing=20)
    same = sg.fit(model, X, y, inducing=posterior.inducing, **extras)
    assert posterior.fit_result.converged
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)
    learned = [float(p.model.kernel.lengthscale) for p in (posterior, same)]
    assert learned[0] == pytest.approx(learned[1], rel=1e-3)


def test_the_number_of_inducing_points_can_be_chosen():
    posterior = sg.fit(MODEL, sg.summarise(X, Y, shortest=0.5))
    assert posterior.certificate.reached
    assert not posterior.certificate.exact
    exact = sg.condition(posterior.model, X, Y, inducing="data").elbo
    assert exact - posterior.elbo < 3 * posterior.certificate.tolerance


def test_parts_add_up_in_any_order():
    parts = [sg.summarise(X[i::4], Y[i::4], shortest=2.0) for i in range(4)]
    parts.append(sg.summarise([], [], shortest=2.0))
    whole = sg.condition(MODEL, sg.summarise(X, Y, shortest=2.0), inducing=20)
    for order in list(itertools.permutations(parts))[::17]:
        total = sum(order)
        assert (total.rows, total.first, total.last) == (len(X), X.min(), X.max())
        assert_same(sg.condition(MODEL, total, inducing=20), whole, 1e-12)
    (a, b), (c, d) = parts[:2], parts[2:4]
    assert_same(sg.condition(MODEL, (a + b) + (c + d), inducing=20), whole, 1e-12)


def test_sums_keep_their_digits_far_from_zero():
    """Σ w (y − p(x))² for a polynomial p near y, in extended precision and from the sums."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, 4000)
    y = 1e6 + 1e3 * x + 1e-2 * rng.standard_normal(len(x))
    parts = [sg.summarise(x[i::7], y[i::7], shortest=4.0) for i in range(7)]
    sums = sum(parts[1:], parts[0]).sums
    assert len(sums.square) == 1
    left = np.longdouble(y) - np.polynomial.chebyshev.chebval(
        2 * np.longdouble(x) - 1, np.longdouble(sums.reference[0])
    )
    np.testing.assert_allclose(sums.square[0], float(np.sum(left**2)), rtol=1e-8)
    assert sums.square[0] < 100 * 4000 * 1e-4  # the reference follows y


@pytest.mark.parametrize("origin", [0, 1_700_000_000_123_456_789])
def test_nanoseconds_lose_nothing(origin):
    first, unit = 1_700_000_000_000_000_007, 10**9
    whole = first + (X * unit).astype(np.int64)
    model = sg.GP(k.Matern52(lengthscale=2.0 * unit, variance=1.0), noise)
    summary = sg.summarise(whole, Y, shortest=2.0 * unit, origin=origin)
    posterior = sg.condition(model, summary, inducing=20)
    relative = np.asarray(posterior.relative_inducing) + (posterior.data.origin - int(whole.min()))
    same = sg.condition(model, whole - whole.min(), Y, inducing=relative)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)
    assert len(sg.condition(model, summary, inducing=summary.edges[::3]).inducing) > 5
    at = first + 5 * unit
    np.testing.assert_allclose(
        posterior.predict_f([at])[0], same.predict_f([at - int(whole.min())])[0], atol=1e-9
    )


@pytest.mark.parametrize("count", [1, 2])
def test_few_observations(count):
    x, y = np.full(count, 3.7), np.arange(float(count))
    posterior = sg.condition(MODEL, sg.summarise(x, y, shortest=2.0), inducing=3)
    assert_same(posterior, sg.condition(MODEL, x, y, inducing=posterior.inducing))


def test_gaps_and_far_apart_inputs_take_no_room():
    x = np.array([0.0, 1.0, 1e9, 1e9 + 1])
    summary = sg.summarise(x, np.ones(4), shortest=1.0)
    assert len(summary.number) == 4
    assert summary.nbytes < 3000


def test_files(tmp_path):
    for name, kind in {"a": "gaussian", "b": "poisson"}.items():
        likelihood, y, extras = KINDS[kind]
        summary = sg.summarise(X, y, shortest=2.0, likelihood=likelihood, **extras)
        summary.save(tmp_path / name)
        again = sg.load(tmp_path / name)
        assert repr(again) == repr(summary)
        doubled = again + summary
        assert doubled.rows == 2 * len(X)
    posterior = sg.condition(MODEL, sg.summarise(X, Y, shortest=2.0), inducing=20)
    posterior.save(tmp_path / "c")
    loaded = sg.load(tmp_path / "c")
    assert isinstance(loaded.data, Summarised)
    assert_same(loaded, posterior, 1e-15)


def test_what_cannot_be_added():
    one = sg.summarise(X, Y, shortest=2.0)
    for other, words in [
        (sg.summarise(X, Y, shortest=1.0), "same shortest, period and origin"),
        (sg.summarise(X, Y, shortest=2.0, origin=0.5), "same shortest, period and origin"),
        (sg.summarise(X, Y, shortest=2.0, period=3.0), "same shortest, period and origin"),
        (sg.summarise(X, Y, shortest=2.0, noise_variance=0.1), "noise_variance"),
        (sg.summarise(X, np.round(Y**2), shortest=2.0, likelihood="poisson"), "likelihood"),
    ]:
        with pytest.raises(ValueError, match=words):
            _ = one + other
    with pytest.raises(TypeError):
        _ = one + 1


def test_what_a_summary_does_not_know_is_said():
    summary = sg.summarise(X, Y, shortest=2.0)
    posterior = sg.condition(MODEL, summary, inducing=20)
    for call, words in [
        (lambda: sg.condition(MODEL, summary, inducing="data"), "does not hold the inputs"),
        (lambda: sg.condition(MODEL, summary, inducing=[0.1, 5.0]), r"inducing\[0\] = 0.1 lies"),
        (lambda: sg.condition(MODEL, summary, Y), "y is a part of the summary"),
        (lambda: sg.condition(MODEL, X), "y is missing"),
        (lambda: sg.condition(MODEL, summary, method="laplace"), "one by one"),
        (lambda: sg.fit(MODEL, summary, batch_size=10), "one by one"),
        (lambda: sg.condition(sg.GP("matern32", "poisson"), summary), "Gaussian observations"),
        (lambda: sg.condition(MODEL, sg.summarise([], [], shortest=1.0)), "summary is empty"),
        (posterior.log_marginal_likelihood, "needs the observations"),
        (lambda: posterior.leave_one_out(X, Y), "fit to the observations"),
        (posterior.plot, "single observations"),
        (lambda: posterior.update([16.0], [0.1], window=3.0), "beginning of a window"),
        (lambda: sg.summarise(X, Y, shortest=1.0, likelihood="student_t"), "cannot be summed up"),
        (lambda: sg.summarise(X, Y, shortest=-1.0), "shortest must be a positive number"),
        (lambda: sg.summarise(X, Y, shortest=1.0, origin="1970"), "origin must be a number"),
        (lambda: sg.summarise(X, Y[1:], shortest=1.0), "equal lengths"),
        (lambda: sg.summarise([1e300], [1.0], shortest=1e-9), "origin near the data"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    known = sg.summarise(X, Y, shortest=2.0, noise_variance=np.ones(len(X)))
    with pytest.raises(ValueError, match=r"sg\.fixed\(0\.0\)"):
        sg.condition(MODEL, known)
    assert posterior.leave_one_out(X, Y, weights=1.0, noise_variance=0.0)[0].shape == X.shape


def test_kernels_that_are_too_fast_are_refused():
    summary = sg.summarise(X, Y, shortest=20.0)
    with pytest.raises(ValueError, match=r"too fast for the summary.*again with shortest="):
        sg.condition(sg.GP(k.Matern52(lengthscale=0.5), noise), summary)
    summary = sg.summarise(X, Y, shortest=4.0)
    with pytest.warns(sg.NotConvergedWarning, match="faster kernel than the summary"):
        posterior = sg.fit(sg.GP(k.Matern32(), noise), summary, inducing=20)
    assert posterior.fit_result.outcome is sg.Outcome.too_fast
    assert "make it again with shortest=" in posterior.fit_result.message


def test_locations_of_inducing_points_are_edges():
    summary = sg.summarise(X, Y, shortest=2.0)
    edges = summary.edges
    chosen = edges[[0, 5, 9]]
    posterior = sg.condition(MODEL, summary, inducing=chosen)
    np.testing.assert_array_equal(posterior.inducing, chosen)
    outside = np.append(chosen, 40.3)  # where there are no observations
    assert len(sg.condition(MODEL, summary, inducing=outside).inducing) == 4
    at = sg.condition(MODEL, summary, inducing=11).inducing
    assert np.all(np.isin(at, edges))
    assert (at[0], at[-1]) == (edges[0], edges[-1])
