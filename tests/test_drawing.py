"""Minibatches from row groups: every row as likely as any other, few of them read at first."""

import numpy as np
import pytest

import stategp as sg
from stategp._streams import _drawing, _stream
from stategp._streams._drawing import Draws, Pool
from stategp._streams._sources import Piece

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

MODEL = sg.GP(
    sg.kernels.Matern32(lengthscale=2.0, variance=1.0), sg.likelihoods.Gaussian(variance=0.1)
)
RNG = np.random.default_rng(0)
X = np.linspace(0, 15, 600)  # in order, which is the hardest
Y = np.sin(X) + 0.3 * RNG.standard_normal(600)


def pool(seed, sizes=(5, 1, 9, 4, 4, 4, 0, 7)):
    """Rows numbered from 0 on, of which every third does not count; as y, the squares of them."""
    first = np.cumsum([0, *sizes])

    def read(piece):
        rows = np.arange(first[piece], first[piece + 1]).astype(float)
        for part in np.array_split(rows[rows % 3 > 0], 2):
            yield [part, part**2, 1 + part, 2 + 0 * part]

    return Pool(list(sizes), read, Draws(6, seed))


@pytest.mark.parametrize("step", [0, 40])
def test_sums_over_batches_and_samples_are_unbiased(step, monkeypatch):
    monkeypatch.setattr(_drawing, "FIRST", 3)
    monkeypatch.setattr(_drawing, "_HELD", 24)  # three rows of each row group
    rows = np.arange(34.0)
    rows = rows[rows % 3 > 0]
    for draw in (lambda one: one.draw(6, step), lambda one: one.sample(9, step)):
        sums = []
        for seed in range(400):
            one = pool(seed)
            x, y, extra, weights = draw(one)
            one.close()
            np.testing.assert_array_equal(y, x**2)
            np.testing.assert_array_equal(extra, 1 + x)
            sums.append([np.sum(weights), np.sum(weights * x), np.sum(weights * y)])
        expected = 2 * np.array([len(rows), rows.sum(), np.sum(rows**2)])
        spread = np.std(sums, axis=0) / np.sqrt(len(sums))
        np.testing.assert_array_less(np.abs(np.mean(sums, axis=0) - expected), 4 * spread)


def test_batches_depend_on_the_seed_and_the_step_alone(monkeypatch):
    monkeypatch.setattr(_drawing, "FIRST", 3)
    steady, resumed = pool(1), pool(1)
    walked = [steady.draw(6, step) for step in range(8)]
    np.testing.assert_array_equal(walked[-1], resumed.draw(6, 7))
    assert len(steady.numbers(0)) == 3
    assert len(steady.numbers(8)) == 8
    even = pool(1, [4] * 8)
    seen = {x // 4 for x in even.sample(100, 8)[0]}
    assert seen == set(range(8))  # in the end every row group is there
    for each in (steady, resumed, even):
        each.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Thirty row groups in three files."""
    monkeypatch.setattr(_stream, "FEW", 0)
    for number, rows in enumerate(np.array_split(np.arange(600), 3)):
        columns = {"t": X[rows], "v": Y[rows], "sensor": rows % 2}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet", row_group_size=20)
    return tmp_path


def test_few_row_groups_are_read_before_the_first_step(folder, monkeypatch):
    opened = []
    batches = Piece.batches
    monkeypatch.setattr(
        Piece, "batches", lambda piece, names: opened.append(piece) or batches(piece, names)
    )
    series = sg.stream(folder, time="t", target="v")
    options = {"inducing": 16, "batch_size": 50, "step_size": lambda step: 1 / (1 + step / 8)}
    with pytest.warns(sg.NotConvergedWarning):
        posterior = sg.condition(MODEL, series, max_steps=1, **options)
    assert len(opened) <= 10  # of thirty
    assert posterior.data.observed == 600
    assert posterior.data.x[-1] - posterior.data.x[0] == pytest.approx(15.0)
    posterior = sg.condition(MODEL, series, max_steps=400, **options)
    exact = sg.condition(MODEL, X, Y, inducing=posterior.inducing)
    at = np.linspace(0, 15, 40)
    (mean, variance), (best, spread) = posterior.predict_f(at), exact.predict_f(at)
    assert np.max(np.abs(mean - best) / np.sqrt(spread)) < 1
    np.testing.assert_allclose(variance, spread, rtol=0.5)
    again = sg.condition(MODEL, series, max_steps=400, **options)
    assert again.elbo == posterior.elbo
    assert "a sample of the rows" in posterior.fit_result.message


def test_filters_and_bad_rows(folder):
    some = pq.read_table(folder / "1.parquet").to_pydict()
    some["v"][3], some["v"][50] = np.inf, np.nan
    pq.write_table(pa.table(some), folder / "1.parquet", row_group_size=20)
    options = {"inducing": 16, "batch_size": 50, "max_steps": 30}

    def of(**more):
        return sg.stream(folder, time="t", target="v", **more)

    with pytest.raises(ValueError, match=r"1\.parquet: column 'v' must be finite.*row 3 of"):
        sg.condition(MODEL, of(), **options)
    dropping = of(bad="drop")
    assert sg.condition(MODEL, dropping, **options).data.observed == pytest.approx(600, abs=3)
    assert list(dropping.dropped.values()) == [1]
    odd = {"filter": pc.field("sensor") == 1, "bad": "drop"}
    assert sg.condition(MODEL, of(**odd), **options).data.observed == pytest.approx(300, abs=3)
    assert sg.condition(MODEL, of(**odd, rows=299), **options).data.observed == 299
    nothing = of(filter=pc.field("sensor") == 0.5)  # which their statistics do not rule out
    with pytest.raises(ValueError, match="has an observation"):
        sg.condition(MODEL, nothing, **options)
