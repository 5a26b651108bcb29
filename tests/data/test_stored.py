"""Rows on disk: the answers of observations in memory, whatever their order, and nothing left."""

import signal

import numpy as np
import pytest

import stategp as sg
from stategp._data import Sample, Store

RNG = np.random.default_rng(0)
X = RNG.permutation(np.linspace(0, 15, 60))
Y = np.sin(X) + 0.3 * RNG.standard_t(3, 60)
Y[5] = np.nan
NOISE = RNG.uniform(0.05, 0.2, 60)
ROBUST = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Laplace())
EXACT = sg.GP(
    sg.kernels.Matern32(lengthscale=2.0, variance=1.0), sg.likelihoods.Gaussian(variance=0.1)
)


def batches(order):
    for rows in np.array_split(order, 4):
        yield {"t": X[rows], "v": Y[rows], "e": NOISE[rows], "w": 1 + rows % 3}


def of(order=None, **options):
    order = np.arange(60) if order is None else order
    given = {"time": "t", "target": "v", "shortest": 2.0} | options
    return sg.stream(lambda: batches(order), **given)


@pytest.fixture(scope="module")
def fitted():
    return sg.fit(ROBUST, of(), inducing=10)


def test_fits_are_those_of_memory(fitted):
    same = sg.fit(ROBUST, X, Y, inducing=fitted.inducing)
    assert fitted.elbo == pytest.approx(same.elbo, rel=1e-9)
    assert fitted.data.observed == 59
    for mine, theirs in zip(fitted.predict_f(X), same.predict_f(X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    fixed = sg.condition(fitted.model, X, Y, inducing=fitted.inducing)
    assert fitted.elbo == pytest.approx(fixed.elbo, rel=1e-9)
    np.testing.assert_allclose(fitted.predict_f(X)[0], fixed.predict_f(X)[0], atol=1e-9)


def test_order_does_not_matter(fitted):
    again = sg.fit(ROBUST, of(np.argsort(X)), inducing=10)
    assert again.elbo == pytest.approx(fitted.elbo, rel=1e-12)
    assert again.data.digest == fitted.data.digest


def test_columns_beside_the_observations_are_kept():
    options = {"noise_variance": "e", "weights": "w"}
    posterior = sg.condition(EXACT, of(**options), inducing=10)
    given = {"noise_variance": NOISE, "weights": 1 + np.arange(60) % 3}
    same = sg.condition(EXACT, X, Y, inducing=posterior.inducing, **given)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)
    assert not Store.opened


def test_minibatches_of_all_rows_are_those_of_memory():
    options = {"batch_size": 59, "max_steps": 5, "step_size": 0.5}
    with pytest.warns(sg.NotConvergedWarning):
        posterior = sg.fit(EXACT, of(), inducing=10, **options)
    with pytest.warns(sg.NotConvergedWarning):
        same = sg.fit(EXACT, X, Y, inducing=posterior.inducing, **options)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)


def test_batches_are_drawn_evenly(tmp_path):
    store = Store(2, tmp_path)
    number = np.repeat([7, 3, 9], [1, 50, 19])
    for part in np.array_split(RNG.permutation(70), 3):
        store.add(number[part], [np.zeros(len(part)), part.astype(float)])
    drawn, (_, which) = store.draw(70_000, np.random.default_rng(1))
    counts = np.bincount(which.astype(int), minlength=70)
    assert np.all(np.abs(counts - 1000) < 200)  # six standard deviations
    np.testing.assert_array_equal(drawn, number[which.astype(int)])
    everything = store.everything()
    np.testing.assert_array_equal(np.sort(everything[1][1]), np.arange(70))
    store.close()


def test_a_sample_does_not_depend_on_order():
    rows = [RNG.standard_normal(500) for _ in range(3)] + [np.full(500, 2.0)]
    found = []
    for order in (np.arange(500), RNG.permutation(500)):
        sample = Sample(most=100)
        for part in np.array_split(order, 7):
            sample.add([column[part] for column in rows])
        found.append((sample.ordered(), sample.digest))
    assert found[0][1] == found[1][1]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.sum(found[0][0][3]) == pytest.approx(1000.0)
    assert abs(np.mean(found[0][0][1]) - np.mean(rows[1])) < 0.5
    assert np.all(np.diff(found[0][0][0]) >= 0)


def test_fits_resume_from_checkpoints(fitted, tmp_path):
    options = {"inducing": 10, "checkpoint": tmp_path / "checkpoint", "every": 1e-3}
    whole = sg.fit(ROBUST, of(), **options)
    assert whole.elbo == pytest.approx(fitted.elbo, rel=1e-12)
    again = sg.fit(ROBUST, of(np.argsort(X)), **options, resume=True)
    assert again.fit_result.trace == whole.fit_result.trace
    with pytest.raises(ValueError, match="the data differs"):
        sg.fit(ROBUST, of(np.arange(50)), **options, resume=True)


def test_posteriors_are_saved_and_say_what_they_do_not_hold(fitted, tmp_path):
    fitted.save(tmp_path / "stream.stategp")
    again = sg.load(tmp_path / "stream.stategp")
    np.testing.assert_array_equal(again.predict_f([3.0])[0], fitted.predict_f([3.0])[0])
    assert again.data.observed == 59
    with pytest.raises(ValueError, match="stream of all rows"):
        again.update([16.0], [0.1])
    assert again.filter().update(16.0, 0.1).predict_f([17.0])[0].shape == (1,)


def test_what_cannot_be_done_is_said(tmp_path):
    for call, words in [
        (lambda: sg.fit(ROBUST, of(), method="laplace"), "one by one"),
        (lambda: sg.fit(ROBUST, of(), optimiser="adam"), "one by one.*or batch_size"),
        (lambda: of(scratch=tmp_path / "none"), "scratch must be a folder"),
        (lambda: sg.fit(ROBUST, of(exposure="e")), "exposure has no meaning"),
        (lambda: sg.fit(ROBUST, sg.stream([(X[:0], Y[:0])], shortest=1.0)), "at least one"),
        (lambda: sg.condition(ROBUST, of(shortest=400.0)), "too fast for the stream"),
        (lambda: sg.condition(ROBUST, of(), inducing=[0.1, 3.0]), "edges of stretches"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    assert not Store.opened


def test_ctrl_c_while_rows_are_read_keeps_what_was_found(fitted, monkeypatch, capfd):
    read, reads = Store.part, []

    def interrupted(store, start, size):
        reads.append(start)
        if len(reads) == 60:
            signal.raise_signal(signal.SIGINT)
        return read(store, start, size)

    monkeypatch.setattr(Store, "part", interrupted)
    with pytest.warns(sg.NotConvergedWarning, match="interrupted"):
        posterior = sg.fit(ROBUST, of(), inducing=10)
    assert posterior.fit_result.outcome is sg.Outcome.interrupted
    assert "Traceback" not in capfd.readouterr().err
    assert not Store.opened


def test_nothing_is_on_the_disk_that_a_kill_could_leave(tmp_path):
    store = Store(2, tmp_path)
    store.add(np.zeros(9, int), [np.zeros(9), np.ones(9)])
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_a_full_disk_is_named(tmp_path):
    with pytest.raises(OSError, match=r"do not fit on the disk.*scratch="):
        Store(2, tmp_path, expected=10**18)
