"""Real data sets for experiments and examples.

A loader looks in the folder given, else in the one named by the environment variable
``STATEGP_DATA``, else in the user's cache, into which it downloads the file (checked by its
SHA-256) when the network allows.
"""

import csv
import os
import wave
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stategp._arguments import whole_number

Folder = str | os.PathLike[str]


class _Source(NamedTuple):
    path: str  # below the data folder
    url: str
    sha256: str


_SOLAR = _Source(
    "solar/solar_data.txt",
    "https://raw.githubusercontent.com/jameshensman/VFF/459be5b/experiments/solar/solar_data.txt",
    "add9ca356f906bd64893e0701786d2c9906d38ce8abb756a83cb3cb8c5879aa9",
)

_NEWTON = "https://raw.githubusercontent.com/AaltoML/BayesNewton/f72ae9a"
_COAL = _Source(
    "coal/binned.csv",
    f"{_NEWTON}/experiments/coal/binned.csv",
    "0a094b348e132e7c769e0f5be28552c4e1acd7d6aeef4d8768337909a5e4016f",
)
_COAL_FOLDS = _Source(
    "coal/cvind.csv",
    f"{_NEWTON}/experiments/coal/cvind.csv",
    "f90f93a959189f127f7a931a7854f16771dd7bcf747661ffbec219df48d6a1ca",
)
_MOTORCYCLE = _Source(
    "motorcycle/mcycle.csv",
    f"{_NEWTON}/data/mcycle.csv",
    "4f2e476d877576b72928eae324709503d6b2f2dadf8e6adfb58f8dfbfbbf3c20",
)
_MOTORCYCLE_FOLDS = _Source(
    "motorcycle/cvind.csv",
    f"{_NEWTON}/experiments/motorcycle/cvind.csv",
    "cf49fb2e736e4758b9dc7e79641397ca087566d0278790c63d677cc0ed6d500d",
)
_AIRCRAFT = _Source(
    "aircraft/aircraft_accidents.txt",
    f"{_NEWTON}/experiments/aircraft/aircraft_accidents.txt",
    "229b4594f4d5ee34bb644870a38bf2e9f2c1c9d875baa88ad5f027e855578e7e",
)

_CO2 = _Source(
    "co2/CO2_data.csv",
    "https://raw.githubusercontent.com/STOR-i/GaussianProcesses.jl/c887cdf/notebooks/data/"
    "CO2_data.csv",
    "60e7e61164b1d517138ca5b9162d16db2f1cefd451d89010e6cff784b1ef75c6",
)
_VOWEL = _Source(
    "vowel/o.wav",
    "https://raw.githubusercontent.com/ProjectMOSAIC/mosaicCalc/a50ff03/inst/data_raw/Vowels/o.wav",
    "afbcd2fc3b09c2eb94e52981cdc60a0c15a6ba3dfdce5406048bf521895a7934",
)
_RAINFOREST = _Source(
    "rainforest/TRI2TU-data.csv",
    f"{_NEWTON}/data/TRI2TU-data.csv",
    "47364ce183d1e8c6e0adab706b6b5ffa4c832a3b7b731606643d1633be1789b2",
)


def _locate(source: _Source, folder: Folder | None) -> Path:
    data_folder = folder or os.environ.get("STATEGP_DATA")
    if data_folder is not None:
        path = Path(data_folder) / source.path
        if not path.is_file():
            where = "the folder given" if folder else "STATEGP_DATA"
            raise FileNotFoundError(f"{path} does not exist ({where} is {data_folder})")
        return path
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "downloading data needs pooch: pip install 'stategp[data]' "
            "(or set STATEGP_DATA to a folder that holds the files)"
        ) from None
    name = Path(source.path)
    cached = pooch.retrieve(
        source.url,
        known_hash=f"sha256:{source.sha256}",
        fname=name.name,
        path=pooch.os_cache("stategp") / name.parent,
    )
    return Path(cached)


class Solar(NamedTuple):
    """Yearly solar irradiance 1610–2000, standardised; five intervals are kept for testing."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def solar(folder: Folder | None = None) -> Solar:
    """The solar-irradiance reconstruction (Lean 2004), with the paper's split: 281 and 110 rows."""
    rows = np.loadtxt(_locate(_SOLAR, folder), comments="#", delimiter=",")
    year, irradiance = rows[:, 0], rows[:, 2]
    standard = (irradiance - irradiance.mean()) / irradiance.std()
    held_out = np.zeros(len(year), dtype=bool)
    for start, end in [(1620, 1650), (1700, 1720), (1780, 1800), (1850, 1870), (1930, 1950)]:
        held_out |= (start < year) & (year < end)
    return Solar(year[~held_out], standard[~held_out], year[held_out], standard[held_out])


class Folds(NamedTuple):
    """A series with ten sets of rows to leave out in turn."""

    x: np.ndarray
    y: np.ndarray
    folds: tuple[np.ndarray, ...]


def coal(folder: Folder | None = None) -> Folds:
    """British coal-mining disasters 1851–1962: 191 of them, counted in 333 bins; x in years."""
    rows = np.loadtxt(_locate(_COAL, folder))
    return Folds(rows[:, 0], rows[:, 1], _ten_folds(_locate(_COAL_FOLDS, folder)))


def motorcycle(folder: Folder | None = None) -> Folds:
    """Head acceleration (g) in a simulated motorcycle crash, 133 rows; x in milliseconds."""
    rows = np.loadtxt(_locate(_MOTORCYCLE, folder), delimiter=",")
    return Folds(rows[:, 1], rows[:, 2], _ten_folds(_locate(_MOTORCYCLE_FOLDS, folder)))


def _ten_folds(path: Path) -> tuple[np.ndarray, ...]:
    """Ten equal parts of the given order; the few rows left over are never left out."""
    order = np.loadtxt(path).astype(int)
    size = len(order) // 10
    return tuple(order[i * size : (i + 1) * size] for i in range(10))


class Flights(NamedTuple):
    """Flights: the delay on arrival in minutes, and eight inputs for each."""

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]


_FLIGHTS = (
    "https://raw.githubusercontent.com/TrivadisPF/platys-modern-data-platform/44ebced/"
    "test-data/flight-data"
)
_COVARIATES = (
    "age", "distance", "air time", "departure", "arrival", "day of week", "day of month", "month"
)  # fmt: skip


def airline(folder: Folder | None = None) -> Flights:
    """US flights of January–April 2008 by aircraft of known age: 2,055,733 of them.

    The inputs are the age of the aircraft (years), distance (miles), air time, departure and
    arrival (minutes after midnight), day of the week, day of the month, and month.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "reading Parquet files needs pyarrow: pip install 'stategp[data]'"
        ) from None
    listed = (Path(__file__).parent / "airline.sha256").read_text().splitlines()
    wanted = ("airTime", "depTime", "arrTime", "dayOfWeek", "dayOfMonth", "distance", "arrDelay")
    built: dict[str, int] = {}
    parts = []
    for sha256, path in (line.split() for line in listed):
        file = _locate(_Source(f"airline/{path}", f"{_FLIGHTS}/{path}", sha256), folder)
        if path.endswith(".csv"):  # the aircraft come first
            with file.open(newline="", encoding="utf-8") as lines:  # many hold the number alone
                planes = [(row["tailnum"], row["year"] or "") for row in csv.DictReader(lines)]
            built = {tail: int(year) for tail, year in planes if year.isdigit() and int(year)}
            continue
        month = int(path.split("month=")[1].split("/")[0])
        # Opened as a file: its folder's name would be read as one more column.
        table = pyarrow.parquet.ParquetFile(file).read([*wanted, "tailNum"])
        columns = {name: table[name].to_numpy().astype(float) for name in wanted}
        tails = table["tailNum"].to_pylist()
        columns["year"] = np.array([built.get(tail, np.nan) for tail in tails], dtype=float)
        columns["month"] = np.full(len(tails), float(month))
        rows = np.column_stack(list(columns.values()))
        parts.append(rows[np.all(np.isfinite(rows), axis=1)])
    rows = np.concatenate(parts)
    air, leave, arrive, weekday, day, distance, delay, year, month = rows.T
    leave, arrive = (60 * (v // 100) + v % 100 for v in (leave, arrive))
    x = np.column_stack([2008 - year, distance, air, leave, arrive, weekday, day, month])
    return Flights(x, delay, _COVARIATES)


class Counts(NamedTuple):
    """Counts by day; `x` numbers the days from the first one."""

    x: np.ndarray
    y: np.ndarray
    first: np.datetime64


def aircraft(folder: Folder | None = None) -> Counts:
    """Commercial aircraft accidents 1919–2017: 1,210 of them, counted in 35,959 days."""
    dates = np.loadtxt(_locate(_AIRCRAFT, folder), dtype="datetime64[D]")
    day = (dates - dates.min()).astype(int)
    counts = np.bincount(day).astype(float)
    return Counts(np.arange(len(counts), dtype=float), counts, dates.min())


class Monthly(NamedTuple):
    """A value for each month."""

    month: np.ndarray  # datetime64[D], the first of it
    y: np.ndarray


def co2(folder: Folder | None = None) -> Monthly:
    """CO₂ in the air above Mauna Loa, in parts per million: monthly means, 1958–2014."""
    rows = np.loadtxt(_locate(_CO2, folder), delimiter=",")
    months = np.floor((rows[:, 0] - 1970) * 12).astype("datetime64[M]")  # given: mid-month
    return Monthly(months.astype("datetime64[D]"), rows[:, 1])


class Sound(NamedTuple):
    """A recording, standardised; `x` in seconds from its start."""

    x: np.ndarray
    y: np.ndarray


def vowel(folder: Folder | None = None) -> Sound:
    """A spoken "o", 0.45 seconds at 16 kHz: 7,192 samples, a pitch near 147 Hz."""
    with wave.open(str(_locate(_VOWEL, folder)), "rb") as recording:
        rate = recording.getframerate()
        samples = np.frombuffer(recording.readframes(recording.getnframes()), dtype="<i2")
    y = samples.astype(float)
    return Sound(np.arange(len(y)) / rate, (y - y.mean()) / y.std())


class Grid(NamedTuple):
    """Counts in the cells of a grid, with ten sets of cells to leave out in turn."""

    x: np.ndarray  # the middle of each cell: along the first side, which is "time", and the second
    y: np.ndarray
    folds: tuple[np.ndarray, ...]
    shape: tuple[int, int]


_FOREST = (1000.0, 500.0)  # metres


def rainforest(columns: int = 20, folder: Folder | None = None, *, rows: int = 200) -> Grid:
    """12,929 trees of one species in a rainforest, 1000 by 500 metres, counted in a grid.

    The long side has `rows` cells and the short one `columns`. The folds are ten parts of a
    permutation of the cells (NumPy's generator of 1.x, seed 99).
    """
    shape = whole_number("rows", rows, least=1), whole_number("columns", columns, least=1)
    trees = np.loadtxt(_locate(_RAINFOREST, folder), delimiter=",")
    edges = [np.linspace(0, side, cells + 1) for side, cells in zip(_FOREST, shape, strict=True)]
    counts, *_ = np.histogram2d(trees[:, 0], trees[:, 1], bins=edges)
    middles = np.meshgrid(*((edge[1:] + edge[:-1]) / 2 for edge in edges), indexing="ij")
    x = np.stack([middle.reshape(-1) for middle in middles], axis=1)
    order = np.random.RandomState(99).permutation(len(x))
    return Grid(x, counts.reshape(-1), tuple(np.array_split(order, 10)), shape)
