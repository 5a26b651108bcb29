"""CSV files as people have them, through the doors of the command."""

import gzip

import numpy as np
import pytest

from stategp._command._tables import is_table, model_beside, open_table, read_columns, write_table
from stategp._command._writing import Writing

DAYS = np.array(["2025-12-31", "2026-01-01", "2026-01-02"], dtype="datetime64[us]")


@pytest.fixture
def read(tmp_path, monkeypatch, capsys):
    """Times, numbers, and what was said of a file with that content."""
    monkeypatch.chdir(tmp_path)

    def call(content, name="data.csv", encoding="utf-8", target=1, **said):
        data = content.encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        file = open_table((tmp_path / name).relative_to(tmp_path), Writing(**said))
        table = read_columns(file, file.names[0], [file.names[target]])
        times, numbers = (column.to_numpy() for column in table.columns)
        return times, numbers, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("d,y\n2025-12-31,1.5\n2026-01-01,\n2026-01-02,1234\n", ""),
        ("d;y\n31.12.2025;1,5\n01.01.2026;-\n02.01.2026;1.234,0\n",
         "columns separated by semicolons, dates as day.month.year, decimal comma, "
         "'-' as missing (1 row)"),
        ("d;y\n31.12.2025;1,5\n01.01.2026;\n02.01.2026;1.234,0\n;\n;\n",
         "columns separated by semicolons, 2 empty rows skipped, dates as day.month.year, "
         "decimal comma"),
        ('d,y\n12/31/2025,$1.50\n01/01/2026,n/a\n01/02/2026,"$1,234.00"\n',
         "dates as month/day/year, ',' between thousands, '$' dropped, 'n/a' as missing (1 row)"),
        ("sep=;\nd;y\n2025-12-31;1,5\n2026-01-01;\n2026-01-02;1234,0\n", "decimal comma"),
        ("d|y\n2025-12-31|1.5\n2026-01-01|\n2026-01-02|1234\n", "columns separated by bars"),
        ("d, y\n2025-12-31, 1.5\n2026-01-01,\n2026-01-02, 1234\n", ""),
        ("\nd,y\n\n2025-12-31,1.5\n2026-01-01,NA\n\n2026-01-02,1234\n", ""),
        ("d,y\n20251231,1.5\n20260101,\n20260102,1234\n", "dates as yearmonthday"),
        ('d;y, EUR\n2025-12-31;1,5\n2026-01-01;""\n2026-01-02;1234,0\n',
         "columns separated by semicolons, decimal comma"),
    ],
)  # fmt: skip
def test_ordinary_files(content, words, read):
    times, numbers, said = read(content)
    np.testing.assert_array_equal(times.astype("datetime64[us]"), DAYS)
    np.testing.assert_array_equal(numbers, [1.5, np.nan, 1234])
    assert said == (f"read data.csv: {words}\n" if words else "")


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "text in UTF-16"),
        ("cp1252", "text in Windows-1252 (not UTF-8)"),
    ],
)
@pytest.mark.parametrize("name", ["größe.csv", "größe.csv.gz", "größe.tsv"])
def test_letters(name, encoding, words, read):
    separator = "\t" if name.endswith("tsv") else ","
    content = "tag,größe,wort\n2025-12-31,1,süß\n2026-01-01,2,ß\n2026-01-02,3,\n"
    times, numbers, said = read(content.replace(",", separator), name, encoding)
    np.testing.assert_array_equal(times.astype("datetime64[us]"), DAYS)
    np.testing.assert_array_equal(numbers, [1, 2, 3])
    assert said == (f"read {name}: {words}\n" if words else "")


def test_bytes_that_windows_does_not_know(read):
    assert "Latin-1" in read("tag,n,w\n2025-12-31,1,\x81é\n", encoding="latin-1")[2]


@pytest.mark.parametrize(
    ("content", "said", "words"),
    [
        ("d,y\n03/04/2025,1\n", {}, "data.csv: row 2 is '03/04/2025': day or month first? No row "
         "decides it; say --date-format '%d/%m/%Y' or --date-format '%m/%d/%Y'"),
        ("d,y\n31/12/25,1\n", {}, "two-digit year"),
        ("d,y\n31/12/25,1\n", {"date_format": "%Y"}, "which is not of the form --date-format '%Y'"),
        ("d,y\n31/12/25,1\n", {"date_format": "dmy"}, "--date-format must consist of %d"),
        ("d;y\n2025-01-01;1.234\n", {}, "row 2 is '1.234': thousands or decimals? No row decides "
         "it; say --decimal '.' or --decimal ','"),
        ("d,y\n2025-01-01,1\n", {"decimal": "x"}, "--decimal must be"),
        ("d,y\n2025-01-01,1\n", {"separator": "xx"}, "--sep must be one character"),
        ("d,y\n\n2025-01-01,1\n\n2025-01-02,oops\n", {}, "column 'y' of data.csv: row 5 is 'oops'"),
        ('d,y,n\n2025-01-01,1,"a\nb"\n2025-01-02,oops,\n', {}, "row 3 is 'oops'"),
        (";\n;\nd;y\n", {}, "2 columns of data.csv have the same name, ''"),
        ("d;y\n;\n2025-01-01;1,5\n2025-01-02;oops\n", {}, "row 4 is 'oops'"),
        ("d,y\n2025-01-01,1\n,2\n", {}, "column 'd' of data.csv has no time in row 3"),
        ("d,y\n12:30,1\n", {}, "a time of day without a date"),
        ("d,y\n2025-01-01,2025-01-01\n", {}, "which is not a number"),
        ("d,y\n2025-01-01,1,5\n", {}, "row 2 has 3 cells, and its header has 2"),
        ("2025-01-01,1\n2025-01-02,1\n", {}, "should name its columns, but it is 2025-01-01, 1"),
        ("d,y\n", {}, "data.csv has no rows"),
        ("\n\n", {}, "data.csv is empty"),
        ("PK\x03\x04", {}, "is not a text file; save it as CSV first"),
        ("d,d\n2025-01-01,1\n", {}, "2 columns of data.csv have the same name, 'd'"),
    ],
)  # fmt: skip
def test_what_is_refused(content, said, words, read):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        read(content, **said)
    assert words in str(refused.value)


def test_a_file_that_only_says_it_is_compressed(tmp_path):
    (tmp_path / "data.csv.gz").write_text("d,y\n2025-01-01,1\n")
    with pytest.raises(ValueError, match=r"data\.csv\.gz is damaged, or not compressed"):
        open_table(tmp_path / "data.csv.gz")


def test_the_user_says_how_it_is_written(read):
    content = "d:y\n03/04/25:1,234\n"
    times, numbers, said = read(content, separator=":", decimal=",", date_format="%d/%m/%y")
    assert times.astype("datetime64[D]") == np.datetime64("2025-04-03")
    assert (numbers, said) == (1.234, "")
    assert read("d y\n1 2\n3 4\n", separator="space")[1].tolist() == [2, 4]


def test_times_that_are_numbers(read):
    assert read("t,y\n1,1\n2,2\n")[0].tolist() == [1, 2]
    times, _, said = read("t;y\n0,5;1\n1,25;2\n")
    assert times.tolist() == [0.5, 1.25]
    assert "decimal comma" in said
    assert read("t,y\n20251301,1\n20251302,2\n")[0].tolist() == [20251301, 20251302]


def test_zones(read, tmp_path):
    content = "t,y\n2024-03-30T00:00+01:00,1\n2024-04-01T00:00+02:00,2\n"
    assert "with several offsets: results in UTC (or give --zone)" in read(content)[2]
    assert read(content, zone="Europe/Berlin")[2] == ""
    file = open_table(tmp_path / "data.csv", Writing(zone="Europe/Berlin"))
    table = file.read("t", ["y"])
    assert str(table["t"].type) == "timestamp[us, tz=Europe/Berlin]"
    # What is written shows what a clock there shows, and reads as the same times.
    write_table(table, tmp_path / "again.tsv")
    assert "2024-03-30 00:00:00+01:00" in (tmp_path / "again.tsv").read_text()
    again = open_table(tmp_path / "again.tsv", Writing(zone="Europe/Berlin"))
    assert again.read("t", ["y"]).equals(table)
    read("t,y\n2024-03-30T00:00,1\n2024-03-31T12:00,2\n")
    local = file.read("t", ["y"])["t"].to_pylist()
    assert [str(moment)[-6:] for moment in local] == ["+01:00", "+02:00"]


def test_names_of_tables_and_models(tmp_path):
    for name in ("a.csv", "a.TSV", "a.csv.gz", "a.tsv.bz2", "a.parquet", "a.txt"):
        assert is_table(tmp_path / name)
        assert model_beside(tmp_path / name).name == "a.stategp"
    for name in ("a.stategp", "a.gz", "a", "csv"):
        assert not is_table(tmp_path / name)
