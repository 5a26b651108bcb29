"""Data that grow: `update` is `condition` with all observations, wherever the new ones are."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._data import more_inducing, observe
from stategp._fitting import _extending, _updating
from stategp._fitting._methods import closeness
from tests import dense

RANDOM = np.random.default_rng(0)
X = np.sort(RANDOM.uniform(0, 10, 30))
NOISE = 0.1
KERNEL = sg.kernels.Matern32(variance=1.0, lengthscale=1.5)
GAUSSIAN = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=NOISE), mean=0.2)
NEW = {
    "at the end": RANDOM.uniform(10, 13, 6),
    "in between": RANDOM.uniform(0, 10, 4),
    "before the start": RANDOM.uniform(-4, 0, 5),
    "again": np.array([X[3], X[3], X[-1], 11.0, 11.0]),
    "just one": np.array([10.7]),
}
WHERE = np.linspace(-6, 16, 23)


def draw(likelihood, x):
    """Observations of a sine, as some likelihood has them."""
    f = np.sin(x)
    if isinstance(likelihood, sg.likelihoods.Poisson):
        return RANDOM.poisson(np.exp(f)).astype(float)
    if isinstance(likelihood, sg.likelihoods.Bernoulli):
        return (RANDOM.uniform(size=len(x)) < 1 / (1 + np.exp(-2 * f))).astype(float)
    return f + np.sqrt(NOISE) * RANDOM.standard_normal(len(x))


Y = draw(None, X)


def same(one, other, tolerance=1e-8):
    for a, b in zip(one.predict_f(WHERE), other.predict_f(WHERE), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.elbo, other.elbo, rtol=1e-9)


@pytest.fixture(scope="module")
def exact():
    return sg.condition(GAUSSIAN, X, Y)


@pytest.mark.parametrize("where", NEW)
def test_an_exact_posterior_is_that_of_a_dense_gp(exact, where):
    x_new = NEW[where]
    y_new = draw(None, x_new)
    updated = exact.update(x_new, y_new)
    x, y = np.append(X, x_new), np.append(Y, y_new)
    expected = dense.gp(KERNEL, x, y - 0.2, NOISE, WHERE)
    mean, variance = updated.predict_f(WHERE)
    np.testing.assert_allclose(mean, expected.mean + 0.2, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, atol=1e-8)
    assert len(updated.inducing) == len(np.unique(x))
    np.testing.assert_allclose(updated.elbo, sg.condition(GAUSSIAN, x, y).elbo, rtol=1e-10)


@pytest.mark.parametrize(
    "likelihood",
    [sg.likelihoods.Gaussian(variance=NOISE), sg.likelihoods.Poisson(), sg.likelihoods.Bernoulli()],
)
def test_a_sparse_posterior_is_that_of_condition(likelihood):
    model = sg.GP(KERNEL, likelihood)
    x_new = np.concatenate(list(NEW.values()))
    y, y_new = draw(likelihood, X), draw(likelihood, x_new)
    updated = sg.condition(model, X, y, inducing=10).update(x_new, y_new)
    every = np.append(X, x_new), np.append(y, y_new)
    same(updated, sg.condition(model, *every, inducing=updated.inducing, tolerance=1e-18), 1e-9)
    assert 10 < len(updated.inducing) < 30
    assert updated.inducing[0] <= x_new.min() <= x_new.max() <= updated.inducing[-1]


@pytest.mark.parametrize("inducing", ["data", 10])
def test_gaussian_observations_at_the_end_need_no_pass_over_the_others(inducing, monkeypatch):
    start = sg.condition(GAUSSIAN, X, Y, inducing=inducing)
    x_new = np.concatenate([NEW["at the end"], [X[-1], 12.0, 12.0]])
    y_new, known = draw(None, x_new), np.linspace(0.1, 2.0, len(x_new))
    weights = np.linspace(0.5, 3.0, len(x_new))

    def refused(*_):
        raise AssertionError("all observations were looked at")

    monkeypatch.setattr(_updating, "_found", refused)
    updated = start.update(x_new, y_new, noise_variance=known, weights=weights)
    again = updated.update(x_new + 3.5, y_new)
    counts = np.concatenate([np.ones(len(X)), weights, np.ones(len(x_new))])
    noise = np.concatenate([np.zeros(len(X)), known, np.zeros(len(x_new))])
    every = np.concatenate([X, x_new, x_new + 3.5]), np.concatenate([Y, y_new, y_new])
    options = {"inducing": again.inducing, "weights": counts, "noise_variance": noise}
    same(again, sg.condition(GAUSSIAN, *every, **options))
    if inducing == 10:  # among states that are there
        inside = np.mean(again.inducing[-3:-1])
        among = sg.condition(
            GAUSSIAN, np.append(every[0], inside), np.append(every[1], 0.3),
            inducing=again.inducing, weights=np.append(counts, 1.0),
            noise_variance=np.append(noise, 0.0),
        )  # fmt: skip
        same(again.update([inside], [0.3]), among)
    else:
        with pytest.raises(AssertionError, match="all observations"):
            again.update([4.2], [0.3])


def test_long_chains_with_few_observations_to_a_state_are_conditioned(monkeypatch):
    """A pass over all observations takes less time there, and gives the same."""
    monkeypatch.setattr(_extending, "_LONG", 8)
    passes, found = [], _updating._found
    monkeypatch.setattr(_updating, "_found", lambda *given: passes.append(1) or found(*given))
    for inducing, expected in (("data", 1), (10, 0)):
        passes.clear()
        longer = sg.condition(GAUSSIAN, X, Y, inducing=inducing).update([12.0], [0.3])
        assert len(passes) == expected
        every = np.append(X, 12.0), np.append(Y, 0.3)
        same(longer, sg.condition(GAUSSIAN, *every, inducing=longer.inducing))
        assert longer.settled


def test_sites_that_are_not_at_the_optimum_are_found_again():
    model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())
    with pytest.warns(sg.NotConvergedWarning):
        rough = sg.fit(model, X, Y, inducing=8, batch_size=10, max_steps=3, progress=False)
    assert not rough.settled
    updated = rough.update([10.5], [0.2])
    assert updated.settled
    every = np.append(X, 10.5), np.append(Y, 0.2)
    same(updated, sg.condition(rough.model, *every, inducing=updated.inducing))


@pytest.mark.parametrize(("weight", "nats"), [(1.0, 2e-18), (5e3, 1e-14), (5e7, 1e-14)])
def test_many_observations_do_not_loosen_when_q_is_settled(weight, nats):
    """The square root of the nats is how far off the mean of f is, in standard deviations."""
    data = observe([0.0, 1.0], [1.0, 2.0], sg.likelihoods.Poisson(), weights=[weight, weight])
    assert closeness(data) * float(data.total) == pytest.approx(nats, rel=1e-12)


def test_all_at_once_or_in_parts(exact):
    first, second = NEW["at the end"], NEW["before the start"]
    parts = exact.update(first, np.sin(first)).update(second, np.sin(second))
    together = np.append(first, second)
    same(parts, exact.update(together, np.sin(together)))


LATER = np.array([10.5, 11.5, 14.0])


@pytest.mark.parametrize("inducing", ["data", 12])
def test_forgetting_is_a_fit_with_weights(inducing):
    start = sg.condition(GAUSSIAN, X, Y, inducing=inducing)
    forgetful = start.update(LATER[:2], [0.5, 0.7], forget=6.0).update(
        LATER[2:], [0.9], forget=6.0, weights=[2.0]
    )
    age = LATER[-1] - np.append(np.full(len(X), X[-1]), LATER)
    weights = np.exp(-age / 6.0) * np.append(np.ones(len(X) + 2), 2.0)
    x, y = np.append(X, LATER), np.append(Y, [0.5, 0.7, 0.9])
    same(forgetful, sg.condition(GAUSSIAN, x, y, weights=weights, inducing=forgetful.inducing))
    assert len(start.update([X[-1] + 1e4], [0.5], forget=6.0).data) == 1  # nothing else is left


def test_forgetting_what_stays_for_ever_is_that_of_a_filter():
    level = sg.GP(sg.kernels.Constant(variance=4.0), sg.likelihoods.Gaussian(variance=NOISE))
    start = sg.condition(level, X, Y)
    updated, kept = start, start.filter(forget=6.0)
    for x, y in zip(LATER.tolist(), [0.5, 0.7, 0.9], strict=True):
        updated, kept = updated.update([x], [y], forget=6.0), kept.update(x, y)
    for a, b in zip(updated.predict_f(LATER[-1:]), kept.predict_f(LATER[-1:]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


ROBUST = sg.likelihoods.StudentT(scale=0.3, df=4.0)


@pytest.mark.parametrize(
    "likelihood", [sg.likelihoods.Poisson(), sg.likelihoods.Bernoulli(), ROBUST]
)
def test_later_observations_revise_the_end_only(likelihood, monkeypatch):
    x = np.sort(np.random.default_rng(3).uniform(0, 100, 640))
    y, model = draw(likelihood, x), sg.GP(KERNEL, likelihood)
    posterior = sg.condition(model, x[:600], y[:600], inducing=np.linspace(0, 101, 120))
    assert not posterior.settled  # q stands where a search usually stops
    looked_at_all = []
    found = _updating._found
    monkeypatch.setattr(
        _updating, "_found", lambda *given: looked_at_all.append(1) or found(*given)
    )
    for part in (slice(600, 610), slice(610, 620), slice(620, 640)):
        posterior = posterior.update(x[part], y[part])
    assert not looked_at_all
    same_model = {"inducing": posterior.inducing, "tolerance": 1e-18}
    whole = sg.condition(model, x, y, **same_model)
    for a, b in zip(posterior.predict_f(x), whole.predict_f(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
    assert posterior.elbo == pytest.approx(whole.elbo, rel=1e-9)
    assert posterior.data.observed == 640
    posterior.update([3.0], y[:1])  # far from the end
    assert looked_at_all


def test_what_is_never_forgotten_is_revised_from_the_start(monkeypatch):
    x = np.linspace(0, 100, 640)
    model = sg.GP(KERNEL + sg.kernels.Cosine(variance=0.3, period=7.0), sg.likelihoods.Poisson())
    y = draw(model.likelihood, x)
    options = {"inducing": np.linspace(0, 101, 120), "tolerance": 1e-18}
    updated = sg.condition(model, x[:639], y[:639], **options).update(x[639:], y[639:])
    same(updated, sg.condition(model, x, y, **options))


@pytest.mark.parametrize(("likelihood", "inducing"), [("gaussian", "data"), ("poisson", 12)])
def test_a_window_is_a_fit_to_what_it_holds(likelihood, inducing):
    model = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=NOISE), mean=0.2)
    model = model if likelihood == "gaussian" else sg.GP(KERNEL, likelihood)
    y, y_new = draw(model.likelihood, X), draw(model.likelihood, LATER)
    recent = sg.condition(model, X, y, inducing=inducing).update(LATER, y_new, window=8.0)
    x, y = np.append(X, LATER), np.append(y, y_new)
    inside = x >= LATER[-1] - 8.0
    assert len(recent.data) == inside.sum() < len(x)
    assert recent.inducing[1] > LATER[-1] - 8.0
    options = {"inducing": recent.inducing, "tolerance": 1e-18}
    same(recent, sg.condition(model, x[inside], y[inside], **options))


def test_sums_take_in_sums():
    x, y = np.sort(RANDOM.uniform(0, 50, 600)), RANDOM.standard_normal(600)
    kinds = {"gaussian": y, "poisson": RANDOM.poisson(1.0, 600).astype(float)}
    for likelihood, values in kinds.items():
        model = sg.GP(sg.kernels.Matern32(lengthscale=4.0), likelihood)
        parts = [
            sg.summarise(x[some], values[some], shortest=2.0, likelihood=likelihood)
            for some in (slice(100, 450), slice(450, None), slice(0, 100))
        ]
        start = sg.condition(model, parts[0], inducing=20)
        updated = start.update(parts[1]).update(x[:100], values[:100])
        options = {"inducing": updated.inducing, "tolerance": 1e-18}
        whole = sg.condition(model, sum(parts), **options)
        assert updated.data.observed == 600
        assert len(updated.inducing) > 20
        for a, b in zip(updated.predict_f([1.0, 25.0, 49.0, 60.0]),
                        whole.predict_f([1.0, 25.0, 49.0, 60.0]), strict=True):  # fmt: skip
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
        np.testing.assert_allclose(updated.elbo, whole.elbo, rtol=1e-9)
    frame = pd.DataFrame({"ds": x[450:], "y": kinds["poisson"][450:]})
    batches = sg.stream(lambda: iter([frame]), time="ds", target="y")
    streamed = start.update(batches)
    np.testing.assert_allclose(streamed.elbo, start.update(parts[1]).elbo, rtol=1e-12)
    assert start.update([], []) is start
    with pytest.raises(ValueError, match="cannot be divided at the beginning of a window"):
        start.update(x[450:], values[450:], window=3.0)
    with pytest.raises(ValueError, match="cannot be weighed by their age"):
        start.update(parts[1], forget=3.0)
    with pytest.raises(ValueError, match="y is a part of the summary"):
        start.update(parts[1], values[450:])
    other = sg.summarise(x, kinds["poisson"], shortest=3.0, likelihood="poisson")
    with pytest.raises(ValueError, match="different stretches"):
        start.update(other)


@pytest.mark.parametrize(("likelihood", "noise"), [("gaussian", 0.2), ("poisson", None)])
def test_sums_fade_as_observations_do(likelihood, noise):
    """Twice; the third time nothing is left of them, and neither stretches nor states are."""
    x = np.sort(RANDOM.uniform(0, 50, 300))
    y = RANDOM.poisson(1.0, 300).astype(float)
    known = {} if noise is None else {"noise_variance": np.full(300, noise)}
    fixed = sg.likelihoods.Gaussian(variance=sg.fixed(0.0))
    model = sg.GP(
        sg.kernels.Matern32(variance=1.0, lengthscale=4.0),
        likelihood if noise is None else fixed,
    )

    def summary(some, **options):
        extras = {name: column[some] for name, column in known.items()} | options
        return sg.summarise(x[some], y[some], shortest=2.0, likelihood=likelihood, **extras)

    faded = sg.condition(model, summary(slice(0, 100)), inducing=15)
    for some in (slice(100, 220), slice(220, 300)):
        extras = {name: column[some] for name, column in known.items()}
        faded = faded.update(x[some], y[some], forget=9.0, weights=np.full(len(x[some]), 2.0),
                             **extras)  # fmt: skip
    age = np.exp(-(x[-1] - np.where(np.arange(300) < 100, x[99], x)) / 9.0)
    weights = np.where(np.arange(300) < 100, 1.0, 2.0) * age
    options = {"inducing": faded.inducing, "tolerance": 1e-18}
    whole = sg.condition(model, summary(slice(None), weights=weights), **options)
    places = [1.0, 25.0, 49.0, 60.0]
    for a, b in zip(faded.predict_f(places), whole.predict_f(places), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
    np.testing.assert_allclose(faded.elbo, whole.elbo, rtol=1e-9)
    later = faded.update([500.0], [1.0], forget=9.0, **{name: [noise] for name in known})
    assert later.data.summary.first == 500.0 == later.data.x[0] + later.data.origin
    assert len(later.data.summary.number) == 1
    assert len(later.inducing) <= 3


def test_nothing_new(exact):
    assert exact.update([], []) is exact
    assert exact.update([11.0, 12.0], [np.nan, np.nan]) is exact
    some = exact.update([11.0, 12.0, 13.0], [np.nan, 0.3, np.nan])
    same(some, exact.update([12.0], [0.3]))


def test_of_one_observation():
    updated = sg.condition(GAUSSIAN, [3.0], [1.0]).update([4.0], [2.0])
    expected = dense.gp(KERNEL, np.array([3.0, 4.0]), np.array([0.8, 1.8]), NOISE, WHERE)
    np.testing.assert_allclose(updated.predict_f(WHERE)[0], expected.mean + 0.2, atol=1e-10)


def test_what_observations_bring_with_them(exact):
    x_new = NEW["at the end"]
    y_new, known = draw(None, x_new), np.linspace(0.1, 2.0, len(x_new))
    weights = np.arange(1.0, 7.0)
    updated = exact.update(x_new, y_new, noise_variance=known, weights=weights)
    noise = np.append(np.zeros(len(X)), known)
    counts = np.append(np.ones(len(X)), weights)
    x, y = np.append(X, x_new), np.append(Y, y_new)
    same(updated, sg.condition(GAUSSIAN, x, y, noise_variance=noise, weights=counts))


def test_whole_numbers_stay_exact():
    start = 10**18
    x = start + np.arange(20) * 10**9
    model = sg.GP(sg.kernels.Matern32(lengthscale=3e9), sg.likelihoods.Gaussian(variance=NOISE))
    y = np.sin(np.arange(20))
    updated = sg.condition(model, x[5:15], y[5:15]).update(
        np.append(x[15:], x[:5]), np.append(y[15:], y[:5])
    )
    assert isinstance(updated.data.origin, int)
    assert set(np.diff(np.asarray(updated.data.x))) == {1e9}
    whole = sg.condition(model, x, y)
    np.testing.assert_allclose(updated.predict_f(x)[0], whole.predict_f(x)[0], atol=1e-10)
    mixed = sg.condition(model, [1, 2, 3], [0.0, 1.0, 0.0]).update([2.5], [1.0])
    assert mixed.data.origin == 1.0
    assert isinstance(mixed.data.origin, float)


def test_hyperparameters_stay_or_are_refined():
    model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())
    fitted = sg.fit(model, X, Y, inducing=12)
    x_new = NEW["at the end"]
    y_new = draw(None, x_new)
    kept = fitted.update(x_new, y_new)
    assert kept.model == fitted.model
    assert kept.fit_result == fitted.fit_result
    refined = fitted.update(x_new, y_new, refine=True)
    again = sg.fit(model, np.append(X, x_new), np.append(Y, y_new), inducing=refined.inducing)
    assert refined.fit_result.converged
    assert refined.elbo > kept.elbo
    np.testing.assert_allclose(refined.elbo, again.elbo, atol=1e-5)


def test_several_outputs_are_those_of_all_rows():
    """Counts with exposures beside Gaussian observations, whole numbers as inputs, gaps."""
    x = np.arange(16)
    days = 1.0 + x % 3
    y = np.stack([np.sin(x / 3), np.where(x == 4, np.nan, x % 3)], axis=1)
    kernels = [sg.kernels.Matern32(lengthscale=3.0), sg.kernels.Matern12()]
    mixing = sg.fixed([[1.0, 0.3], [0.0, 1.0]])
    model = sg.MultiOutputGP(kernels, ["gaussian", "poisson"], mixing=mixing, outputs=["a", "n"])

    def known(part):
        return {"exposure": {"n": days[part]}}

    old, new = np.r_[0:6, 8:14], np.r_[14:16, 6:8]
    posterior = sg.condition(model, x[old], y[old], inducing=5, **known(old))
    updated = posterior.update(x[new], y[new], **known(new))
    whole = sg.condition(model, x, y, inducing=updated.inducing, **known(slice(None)))
    assert set(posterior.inducing) < set(updated.inducing)
    assert isinstance(updated.data.origin, int)
    np.testing.assert_allclose(updated.elbo, whole.elbo, rtol=1e-9)
    for one, other in zip(updated.predict_f(WHERE), whole.predict_f(WHERE), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    with pytest.raises(NotImplementedError, match=r"no filter, which is for an sg\.GP"):
        posterior.filter()


def test_functions_that_one_likelihood_reads_are_those_of_all_observations():
    model, labels = sg.JointGP(KERNEL, sg.likelihoods.Softmax(classes=2)), np.floor(X / 3) % 2
    posterior = sg.condition(model, X[:20], labels[:20], inducing="data")
    updated = posterior.update(X[20:], labels[20:], weights=np.full(len(X) - 20, 2.0))
    weights = np.repeat([1.0, 2.0], [20, len(X) - 20])
    whole = sg.condition(model, X, labels, inducing="data", weights=weights)
    np.testing.assert_array_equal(updated.inducing, whole.inducing)
    np.testing.assert_allclose(updated.elbo, whole.elbo, rtol=1e-9)


@pytest.mark.parametrize("q", ["joint", "product"])
def test_fields_are_those_of_all_rows_with_the_places_that_were_there(q):
    rng = np.random.default_rng(0)
    times, places = np.arange(6.0), rng.uniform(0, 3, (4, 2))
    y = np.sin(times)[:, None] * places[:, 0]
    space, kernel = sg.spatial.Matern32(), sg.kernels.Matern12()
    model = sg.SpaceTimeGP(space, kernel, places=0.6, q=q)
    start = sg.condition(model, (times[:4], places), y[:4])
    updated = start.update((times[4:], places), y[4:])
    held = sg.SpaceTimeGP(space, kernel, places=start.inducing_places, q=q)
    whole = sg.condition(held, (times, places), y)
    np.testing.assert_allclose(updated.elbo, whole.elbo, rtol=1e-9)
    assert updated.model.share == 0.6
    where = np.array([2.5, 7.0]), rng.uniform(0, 3, (2, 2))
    for one, other in zip(updated.predict_f(where), whole.predict_f(where), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_posteriors_without_an_update_say_what_to_do():
    additive = sg.condition(sg.AdditiveGP([KERNEL]), X[:, None], Y, inducing=4)
    with pytest.raises(NotImplementedError, match=r"give all of the data to sg\.condition"):
        additive.update(X[:, None], Y)


def test_other_methods_are_named():
    model = sg.GP(KERNEL, sg.likelihoods.Poisson())
    y = draw(model.likelihood, X)
    posterior = sg.condition(model, X[:20], y[:20], inducing=8, method="laplace")
    with pytest.raises(ValueError, match="give update\\(…, method=…\\)"):
        posterior.update(X[20:], y[20:])
    updated = posterior.update(X[20:], y[20:], method="laplace")
    whole = sg.condition(model, X, y, inducing=updated.inducing, method="laplace")
    same(updated, whole, 1e-7)
    assert not updated.is_bound


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([1.0, 2.0], [1.0]), {}, "x_new and y_new must have equal lengths, got 2 and 1"),
        ((["a"], [1.0]), {}, "x_new must hold numbers"),
        (([np.nan], [1.0]), {}, "x_new must be finite"),
        (([1.0], ["much"]), {}, "y_new must hold numbers"),
        (([1.0], [np.inf]), {}, "y must be finite"),
        (([[1.0]], [1.0]), {}, "x_new must be one-dimensional"),
        (([1.0], [1.0]), {"exposure": 2.0}, "exposure has no meaning for Gaussian"),
        (([1.0],), {}, "y_new is missing"),
        ((sg.summarise([1.0], [1.0], shortest=1.0),), {}, "holds its observations one by one"),
        (([1.0], [1.0]), {"forget": 1.0, "window": 1.0}, "give one of them"),
        (([1.0], [1.0]), {"window": -1.0}, "window must be a positive number"),
        (([1.0], [1.0]), {"refine": "yes"}, "refine must be True or False"),
        (([1.0], [1.0]), {"inducing": "auto"}, "inducing='auto' starts over"),
        (([1.0], [1.0]), {"weights": [1.0, 2.0]}, "weights must have one value per observation"),
    ],
)
def test_errors_say_what_was_wrong(exact, arguments, options, words):
    with pytest.raises(ValueError, match=words):
        exact.update(*arguments, **options)


def test_states_where_there_were_none():
    states = np.array([0.0, 1.0, 2.0, 8.0])
    old = np.array([0.1, 0.9, 1.9, 8.0])
    far, near = np.array([10.6, 20.2]), np.array([0.5, 2.0])
    assert list(more_inducing(states, old, near)) == [0, 1, 2, 8]
    assert list(more_inducing(states, old, far)) == [0, 1, 2, 8, 10, 11, 20, 21]
    assert list(more_inducing(states, old, np.array([-2.5]))) == [-3, -2, 0, 1, 2, 8]
    assert list(more_inducing(states, old, np.array([4.5]))) == [0, 1, 2, 4, 5, 8]
    one_by_one = states
    for x in far:
        one_by_one = more_inducing(one_by_one, old, np.array([x]))
    assert list(one_by_one) == list(more_inducing(states, old, far))
    assert list(more_inducing(old, old, far)) == [*old, *far]


DAYS = pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin")
FRAME = pd.DataFrame({"ds": DAYS, "y": np.sin(np.arange(60) / 5) + 3, "on": np.arange(60) % 7 == 0})


def test_a_forecaster_takes_in_new_rows():
    forecaster = sg.Forecaster("matern32(10d)", inducing="data").fit(FRAME[:50], progress=False)
    learned = forecaster.posterior.model
    assert forecaster.update(FRAME[50:].iloc[::-1], progress=False) is forecaster
    x = np.arange(60.0)
    whole = sg.condition(learned, x, FRAME["y"].to_numpy(), inducing="data")
    np.testing.assert_allclose(
        forecaster.posterior.predict_f(x)[0], whole.predict_f(x)[0], atol=1e-8
    )
    assert forecaster.forecast("1d")["ds"][0] == DAYS[-1] + pd.Timedelta(days=1)
    before = forecaster.fitted
    with pytest.raises(ValueError, match="without a time zone"):
        forecaster.update(FRAME.assign(ds=DAYS.tz_localize(None)))
    with pytest.raises(ValueError, match="there is no column 'y'"):
        forecaster.update(FRAME[["ds"]])
    assert forecaster.fitted is before
    with pytest.raises(ValueError, match="has not been fitted"):
        sg.Forecaster().update(FRAME)


def test_effects_learn_from_new_rows():
    forecaster = sg.Forecaster("matern32(10d)", regressors=["on"])
    frame = FRAME.assign(on=1.0 * FRAME["on"], y=FRAME["y"] + 2.0 * FRAME["on"])
    forecaster.fit(frame[:45], progress=False)
    before = forecaster.posterior
    forecaster.update(frame[45:], progress=False)
    after = forecaster.posterior
    assert after.model == before.model
    assert len(after.data) == 60
    assert after.effect_covariance[0, 0] < before.effect_covariance[0, 0]
    with pytest.raises(ValueError, match=r"forecaster\.update\(frame\)"):
        after.update([70.0], [1.0])
    with pytest.raises(ValueError, match="a filter is for a Gaussian process alone"):
        after.filter()


def test_models_that_were_chosen_keep_their_weights():
    frame = pd.DataFrame({"ds": DAYS, "y": 20 + np.sin(np.arange(60) / 4)})
    forecaster = sg.Forecaster().fit(frame[:55], progress=False)
    before = forecaster.fitted.choices
    after = forecaster.update(frame[55:], progress=False).fitted.choices
    assert [choice.weight for choice in after] == [choice.weight for choice in before]
    assert all(len(choice.posterior.data) == 60 for choice in after)
    assert forecaster.posterior is after[0].posterior
    if any(choice.log for choice in after):
        with pytest.raises(ValueError, match="chosen from the data: fit again"):
            forecaster.update(frame[55:].assign(y=-1.0))


def test_a_posterior_that_was_saved_goes_on(exact, tmp_path):
    exact.save(tmp_path / "model")
    again = sg.load(tmp_path / "model").update([11.0], [0.5])
    same(again, exact.update([11.0], [0.5]), 1e-12)
    again.save(tmp_path / "model")
    assert dataclasses.asdict(sg.load(tmp_path / "model").data)["y"].shape == (31,)
