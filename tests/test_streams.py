"""Streams: files and batches in any order, read once; bad rows and files are named."""

import threading
import warnings

import numpy as np
import pytest

import stategp as sg
from stategp._command import main
from stategp._fitting import usual_stretches
from stategp._forecasting._streamed import _to_choose_from, fine_enough
from stategp._streams._ahead import ahead

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")
pds = pytest.importorskip("pyarrow.dataset")

MODEL = sg.GP(
    sg.kernels.Matern32(lengthscale=2.0, variance=1.0), sg.likelihoods.Gaussian(variance=0.1)
)
RNG = np.random.default_rng(0)
X = RNG.permutation(np.linspace(0, 15, 200))
Y = np.sin(X) + 0.3 * RNG.standard_normal(200)
COUNTS = RNG.poisson(np.exp(np.sin(X)))


def whole(x=X, y=Y, **options):
    return sg.summarise(x, y, shortest=2.0, **options)


def assert_same(summary, other):
    assert (summary.rows, summary.first, summary.last) == (other.rows, other.first, other.last)
    np.testing.assert_array_equal(summary.number, other.number)
    elbos = [sg.condition(MODEL, each, inducing=16).elbo for each in (summary, other)]
    assert elbos[0] == pytest.approx(elbos[1], rel=1e-12)


@pytest.fixture
def folder(tmp_path):
    """Three unsorted files, with small row groups, in hive partitions."""
    for number in range(3):
        part = tmp_path / "data" / f"year={2020 + number}"
        part.mkdir(parents=True)
        rows = slice(number, None, 3)
        table = pa.table(
            {"t": X[rows], "v": Y[rows], "n": COUNTS[rows], "note": ["x"] * len(X[rows])}
        )
        pq.write_table(table, part / "part.parquet", row_group_size=20)
    return tmp_path / "data"


def of(source, **options):
    return sg.stream(source, **({"time": "t", "target": "v", "shortest": 2.0} | options))


def test_a_folder_is_as_good_as_arrays(folder):
    assert_same(sg.summarise(of(folder)), whole())
    files = sorted(folder.rglob("*.parquet"))
    assert_same(sg.summarise(of(files[::-1])), whole())
    assert_same(sg.summarise(of(pds.dataset(folder, partitioning="hive"))), whole())
    assert_same(sg.summarise(of(str(files[1]))), whole(X[1::3], Y[1::3]))
    assert_same(sg.summarise(of(pds.dataset(pa.table({"t": X, "v": Y})))), whole())


def test_fits_are_those_of_arrays(folder):
    model = sg.GP(sg.kernels.Matern32())
    posterior = sg.fit(model, of(folder, shortest=1.0), inducing=20)
    same = sg.fit(model, X, Y, inducing=posterior.inducing)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)
    counts = sg.GP(sg.kernels.Matern32(lengthscale=2.0, variance=1.0), "poisson")
    posterior = sg.condition(counts, of(folder, target="n"), inducing=20)
    same = sg.condition(counts, X, COUNTS, inducing=posterior.inducing)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)


@pytest.mark.parametrize("kernel", ["matern32", "matern32(8)", "matern32(8) + periodic(5)"])
def test_stretches_are_chosen_for_the_kernel(folder, kernel):
    posterior = sg.condition(sg.GP(kernel), of(folder, shortest=None), inducing=20)
    assert posterior.data.observed == len(X)
    assert posterior.data.summary.stretches.shortest <= 2.0


def test_filters_are_pushed_down(folder):
    (folder / "year=2022" / "part.parquet").write_bytes(b"never read")
    early, kept = pc.field("year") < 2022, np.arange(len(X)) % 3 < 2
    assert_same(sg.summarise(of(folder, filter=early)), whole(X[kept], Y[kept]))
    inside = (X > 3) & kept
    both = early & (pc.field("t") > 3)
    assert_same(sg.summarise(of(folder, filter=both)), whole(X[inside], Y[inside]))


def batches(kind):
    for rows in np.array_split(np.arange(len(X)), 7):
        columns = {"t": X[rows], "v": Y[rows]}
        if kind == "pairs":
            yield X[rows], Y[rows]
        elif kind == "dictionaries":
            yield columns
        elif kind == "tables":
            yield pa.table(columns)
        elif kind == "record batches":
            yield pa.record_batch(columns)
        else:
            yield pytest.importorskip(kind).DataFrame(columns)


@pytest.mark.parametrize(
    "kind", ["pairs", "dictionaries", "tables", "record batches", "pandas", "polars"]
)
def test_batches_of_any_kind(kind):
    assert_same(sg.summarise(of(lambda: batches(kind))), whole())
    assert_same(sg.summarise(of(list(batches(kind)))), whole())


def test_iterators_are_read_once():
    once = of(batches("pairs"))
    assert sg.summarise(once).rows == len(X)
    with pytest.raises(ValueError, match="only once"):
        sg.summarise(once)
    with pytest.raises(ValueError, match="only once"):
        sg.condition(MODEL, of(batches("pairs"), shortest=None))
    assert sg.condition(MODEL, of(lambda: batches("pairs"), shortest=None)).data.observed == len(X)


def test_dates_are_days(tmp_path):
    dates = np.datetime64("2024-01-01", "us") + (X * 86_400e6).astype("timedelta64[us]")
    days = dates.astype(np.int64) / 86_400e6
    for kind in (pa.timestamp("us"), pa.timestamp("ns", "Europe/London"), pa.timestamp("ms")):
        table = pa.table({"t": pa.array(dates).cast(kind, safe=False), "v": Y})
        pq.write_table(table, tmp_path / "dates.parquet")
        series = of(tmp_path / "dates.parquet", shortest="2d")
        summary = sg.summarise(series)
        assert summary.first == pytest.approx(days.min(), abs=1e-7)
        assert series.ends() == pytest.approx((days.min(), days.max()), abs=1e-7)
    np.testing.assert_array_equal(series.numbers(["1970-01-11"]), [10.0])
    plain = of([{"t": dates, "v": Y}], shortest="2d")
    assert_same(sg.summarise(plain), whole(days))


def test_whole_numbers_stay_whole():
    times = 1_700_000_000_000_000_000 + (X * 1e9).astype(np.int64)
    tables = [pa.table({"t": times, "v": Y})]
    summary = sg.summarise(of(tables, shortest=2e9))
    assert summary.first == int(times.min())
    assert summary.whole


def test_other_columns(folder):
    rng = np.random.default_rng(1)
    exposure, weights = rng.uniform(1, 2, len(X)), rng.integers(0, 3, len(X))
    columns = {"t": X, "n": COUNTS, "e": exposure, "w": weights}
    series = of([columns], target="n", exposure="e", weights="w")
    asked = {"likelihood": "poisson", "exposure": exposure, "weights": weights}
    one, other = sg.summarise(series, likelihood="poisson"), whole(y=COUNTS, **asked)
    np.testing.assert_allclose(one.sums.statistics, other.sums.statistics, rtol=1e-12)
    noise = of([columns | {"v": Y}], noise_variance="e")
    assert sg.summarise(noise).log_noise == pytest.approx(np.sum(np.log(exposure)))
    with pytest.raises(ValueError, match="exposure has no meaning for Gaussian"):
        sg.summarise(series)


def test_bad_rows_are_refused_or_counted_by_file(tmp_path):
    x, y = X.copy(), Y.copy()
    x[[3, 150]], y[[4, 5]], y[10] = np.nan, np.inf, np.nan  # the last is missing, not bad
    for name, rows in {"a": slice(100), "b": slice(100, None)}.items():
        pq.write_table(pa.table({"t": x[rows], "v": y[rows]}), tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: column 't' must be a number.*row 3 .*drop"):
        sg.summarise(of(tmp_path))
    series = of(tmp_path, bad="drop")
    good = np.isfinite(x) & ~np.isinf(y)
    assert_same(sg.summarise(series), whole(x[good], y[good]))
    counted = {path.rsplit("/", 1)[-1]: count for path, count in series.dropped.items()}
    assert counted == {"a.parquet": 3, "b.parquet": 1}
    counts = of([{"t": X, "n": COUNTS - 1.0}], target="n", bad="drop")
    assert sg.summarise(counts, likelihood="poisson").rows == np.sum(COUNTS > 0)
    with pytest.raises(ValueError, match="batch 0: column 'n' must be a count"):
        sg.summarise(of([{"t": X, "n": COUNTS - 1.0}], target="n"), likelihood="poisson")


def test_files_that_cannot_be_read_are_named(folder, tmp_path):
    last = sorted(folder.rglob("*.parquet"))[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"year=2022.part\.parquet cannot be read"):
        sg.summarise(of(folder))
    last.write_bytes(content)
    vanishing = of(folder)
    last.unlink()
    with pytest.raises(ValueError, match=r"year=2022.part\.parquet cannot be read"):
        sg.summarise(vanishing)
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        of(tmp_path / "nothing.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no Parquet files"):
        of(tmp_path / "empty")


@pytest.mark.parametrize("column", ["t", "v"])
def test_a_file_without_a_column_that_others_have_is_named(folder, column):
    first, *others = sorted(folder.rglob("*.parquet"))
    pq.write_table(pq.read_table(others[0]).drop_columns([column]), others[0])
    words = rf"year=2021.part\.parquet has no column '{column}', which other files have"
    for source in (folder, pds.dataset(folder, partitioning="hive")):
        with pytest.raises(ValueError, match=words):
            sg.summarise(of(source))
        with pytest.raises(ValueError, match=words):
            sg.summarise(of(source, filter=pc.field("year") < 2022, bad="drop"))
    series = of(folder, filter=pc.field("year") == 2020)  # which does not read that file
    assert sg.summarise(series).rows == pq.ParquetFile(first).metadata.num_rows


@pytest.mark.parametrize("chosen", [None, "filter"])
def test_pages_that_do_not_match_their_checksums_are_found(tmp_path, chosen):
    file, x = tmp_path / "part.parquet", np.arange(2000.0)
    plain = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(pa.table({"t": x, "v": np.sin(x)}), file, **plain)
    options = {} if chosen is None else {chosen: pc.field("t") >= 0}
    assert sg.summarise(of(file, **options)).rows == len(x)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1  # one bit of one number
    file.write_bytes(content)
    for likelihood in ("gaussian", sg.likelihoods.StudentT(df=4.0)):
        with pytest.raises(ValueError, match=r"part\.parquet cannot be read: .*CRC checksum"):
            sg.condition(sg.GP(MODEL.kernel, likelihood), of(file, **options), inducing=8)


def test_files_of_another_kind_are_named(tmp_path):
    (tmp_path / "visits.csv").write_text("t,v\n1,2\n")
    for source in (tmp_path, tmp_path / "visits.csv"):
        with pytest.raises(ValueError, match=r"visits\.csv cannot be read as Parquet: .*convert"):
            of(source)


@pytest.mark.parametrize("kind", [dict, pa.table, pa.record_batch, "pandas", "polars"])
def test_a_table_alone_is_one_batch(kind):
    make = pytest.importorskip(kind).DataFrame if isinstance(kind, str) else kind
    assert_same(sg.summarise(of(make({"t": X, "v": Y}))), whole())


def test_what_cannot_be_streamed_is_said(folder):
    for call, words in [
        (lambda: sg.summarise(of(folder, target="w")), "there is no column 'w'; the columns are t"),
        (lambda: sg.summarise(of(folder, target="note")), "must hold numbers or dates, not string"),
        (lambda: sg.summarise(of([{"t": X}])), "batch 0 has no column 'v'; the columns are t"),
        (lambda: sg.summarise(of([(X, Y, Y)])), "pairs"),
        (lambda: sg.summarise(of([(X, Y[1:])])), "different lengths"),
        (lambda: sg.summarise(of([])), "no rows with an observation"),
        (lambda: sg.condition(MODEL, of([], shortest=None)), "no rows with a time"),
        (lambda: sg.summarise(of([X, Y])), "batch 0 is a ndarray: give pairs"),
        (lambda: of(3), "a stream is made from a path"),
        (lambda: of(folder, bad="ignore"), "'refuse' or 'drop'"),
        (lambda: of([], filter=pc.field("t") > 3), "filter is for Parquet"),
        (lambda: of(folder, exposure=[1.0]), "the name of a column or one number"),
        (lambda: of(folder, shortest=0), "shortest must be a positive number"),
        (lambda: sg.summarise(of(folder, shortest=None)), "state the shortest"),
        (lambda: sg.summarise(of(folder), weights=2.0), "all else to sg.stream"),
        (lambda: sg.summarise(of(folder), shortest=2.0), "all else to sg.stream"),
        (lambda: of(folder, time="v"), "must differ"),
        (lambda: sg.fit(sg.AdditiveGP({"t": "matern32"}), of(folder)), "is for an sg.GP"),
        (lambda: sg.condition(MODEL, of(folder), Y), "y is a part of the stream"),
        (lambda: sg.condition(sg.GP("periodic"), of(folder, shortest=None)), "starting value"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_progress_tells_rows_and_time(folder, capsys):
    sg.condition(MODEL, of(folder), inducing=16, progress=True)
    shown = capsys.readouterr().err
    assert "read: 200 rows" in shown
    assert "rows/s" in shown


@pytest.fixture
def dated(tmp_path):
    """Two weeks with two observations an hour, in two files."""
    times = np.datetime64("2024-03-01", "us") + np.arange(672) * np.timedelta64(30, "m")
    y = np.sin(np.arange(672) / 48 * 2 * np.pi) + 0.1 * RNG.standard_normal(672)
    (tmp_path / "dated").mkdir()
    for name, rows in {"a": slice(300), "b": slice(300, None)}.items():
        times_there = pa.array(times[rows], pa.timestamp("us", "UTC"))
        table = pa.table({"ds": times_there, "y": y[rows]})
        pq.write_table(table, tmp_path / "dated" / f"{name}.parquet")
    return tmp_path / "dated"


def test_forecasters_take_streams(dated, tmp_path):
    asked = {"inducing": 20, "mean": sg.means.Zero()}
    forecaster = sg.Forecaster("matern32(1d)", **asked).fit(sg.stream(dated), progress=False)
    frame = forecaster.forecast("2h", every="1h")
    shown = [str(t)[:16] for t in frame["ds"].to_pylist()]
    assert shown == ["2024-03-15 00:30", "2024-03-15 01:30"]
    asked["inducing"] = forecaster.posterior.inducing - 19783  # days from 1970 to March 1, 2024
    same = sg.Forecaster("matern32(1d)", **asked)
    same.fit(pds.dataset(dated).to_table(), progress=False)
    expected = same.forecast("2h", every="1h")["mean"].to_numpy()
    np.testing.assert_allclose(frame["mean"].to_numpy(), expected, rtol=1e-4)
    forecaster.save(tmp_path / "model")
    assert sg.load(tmp_path / "model").forecast("2h", every="1h").equals(frame)
    chosen = sg.Forecaster(inducing=30).fit(sg.stream(dated), progress=False)
    assert " pattern of " in chosen.explain()
    summary = chosen.posterior.data.summary
    assert (summary.rows, summary.stretches.width) == (672, pytest.approx(13.98 / 8000, rel=1e-3))
    with pytest.raises(ValueError, match="without regressors"):
        sg.Forecaster("matern32(1d)", regressors=["z"]).fit(sg.stream(dated))
    with pytest.raises(ValueError, match="leave floor and cap out"):
        sg.Forecaster("matern32(1d)", floor=0).fit(sg.stream(dated))
    with pytest.raises(ValueError, match="said where it is made: give weights there"):
        sg.Forecaster("matern32(1d)").fit(sg.stream(dated), weights="w")


@pytest.mark.parametrize("likelihood", ["gaussian", sg.likelihoods.StudentT(df=4.0, scale=0.3)])
def test_forecasts_from_files_go_on_in_the_steps_of_their_rows(likelihood, tmp_path):
    """Neither in those of stretches nor of a sample, and at whole hours."""
    hours = np.datetime64("2025-01-01", "us") + np.arange(900) * np.timedelta64(1, "h")
    y = np.sin(np.arange(900) / 70) + 0.1 * RNG.standard_normal(900)
    order = RNG.permutation(800)
    parts = [{"ds": hours[some], "y": y[some]} for some in np.array_split(order, 4)]
    given = sg.Forecaster(sg.kernels.Matern32(lengthscale=5.0), likelihood=likelihood, inducing=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        found = given.fit(sg.stream(parts, shortest="2d"), progress=False, max_steps=2)

    def ahead(forecaster):
        return forecaster.forecast("3h")["ds"].to_numpy().astype("datetime64[us]")

    np.testing.assert_array_equal(ahead(found), hours[800:803])
    found.save(tmp_path / "model")
    np.testing.assert_array_equal(ahead(sg.load(tmp_path / "model")), hours[800:803])
    if likelihood == "gaussian":
        more = [{"ds": hours[800:850], "y": y[800:850]}]
        found.update(sg.stream(more, shortest="2d"), progress=False)
        np.testing.assert_array_equal(ahead(found), hours[850:853])
        found.update({"ds": hours[850:], "y": y[850:]}, progress=False)
        later = hours[-1] + np.arange(1, 4) * np.timedelta64(1, "h")
        np.testing.assert_array_equal(ahead(found), later)


def test_the_last_times_are_those_of_all_rows():
    often = np.repeat(np.arange(40.0), 3000)  # many rows at the same times
    for times in (X, RNG.permutation(np.arange(5000)), RNG.permutation(often)):
        y = np.ones(len(times))
        y[times == times.max()] = np.nan  # which is not observed
        parts = np.array_split(np.arange(len(times)), 3)
        series = of([(times[rows], y[rows]) for rows in parts], shortest=50.0)
        sg.summarise(series)
        np.testing.assert_array_equal(series.latest, np.unique(times)[:-1][-64:])


def test_a_kernel_is_chosen_from_stretches_that_show_its_seasons():
    """Of forty years, days would be too many; a fast kernel has the rows read again."""
    of_years = {0.01: 0.01 / 8000, 10: 1 / 32, 40: 7 / 32, 4000: 365.25 / 32}
    for years, width in of_years.items():
        times = np.datetime64("1970-01-01", "s") + (years * np.array([0.0, 365.0]) * 86_400).astype(
            "timedelta64[s]"
        )
        series = sg.stream([{"ds": times, "y": np.ones(2)}])
        found = _to_choose_from(series, dates=True).width
        assert found == pytest.approx(width if years > 1 else 365 * width, rel=1e-5)
    x = np.linspace(0, 100, 3000)
    series = sg.stream([{"ds": x, "y": np.sin(x)}])
    summary = series.summary(stretches=usual_stretches(0.0, 100.0))
    for lengthscale, same in ((1.0, True), (0.001, False)):
        kernel = sg.kernels.Matern32(lengthscale=lengthscale)
        assert (fine_enough(series, summary, sg.GP(kernel)) is summary) == same


def test_the_command_takes_folders(dated, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["stategp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    asked = "--kernel", "matern32(1d)", "--shortest", "6h", "--inducing", "20"
    assert run("fit", dated, *asked) == 0
    model = dated.with_suffix(".stategp")
    assert model.exists()
    assert "672" in capsys.readouterr().out
    assert run("forecast", model, "2h", "--every", "1h") == 0
    assert capsys.readouterr().out.count("2024-03-15") == 2
    assert run("fit", dated, "--inducing", "30") == 0
    assert "daily" in capsys.readouterr().err
    assert run("report", model) != 0
    assert "single observations" in capsys.readouterr().err


def test_readers_end_with_the_reading():
    def endless():
        number = 0
        while True:
            yield number
            number += 1

    before = threading.active_count()
    reading = ahead(endless())
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    reading.close()
    assert threading.active_count() == before

    def failing():
        yield 1
        raise KeyboardInterrupt

    reading = ahead(failing())
    assert next(reading) == 1
    with pytest.raises(KeyboardInterrupt):
        next(reading)
    assert threading.active_count() == before
