"""The series of `benchmarks.forecasts`: M4 hourly and weekly, M3 monthly, quarterly and yearly."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PEERS = ("AutoARIMA", "AutoETS", "DynamicOptimizedTheta", "MSTL", "SeasonalNaive", "Prophet")


@dataclass(frozen=True)
class Group:
    """Series of one kind, and what is asked of them."""

    horizon: int
    ahead: str  # the horizon as people write it
    season: int  # of MASE and MSIS, as the competitions have it
    start: str
    step: str  # of pandas' dates
    seasons: dict[str, list[int]]  # of the methods that are compared
    halved: bool = False  # whether every second series is left out: defaults were tried on those


def of_season(season, **others):
    return {name: [season] for name in PEERS} | others


GROUPS = {
    "hourly": Group(
        48, "48h", 24, "2015-01-05", "h",
        # AutoARIMA is left out for the time that seasons of 24 take it.
        {n: s for n, s in of_season(24, MSTL=[24, 168]).items() if n != "AutoARIMA"},
    ),
    "weekly": Group(
        13, "13w", 1, "1975-01-06", "7D", of_season(1, MSTL=[52], SeasonalNaive=[52])
    ),
    "monthly": Group(18, "18mo", 12, "1980-01-01", "MS", of_season(12)),
    "quarterly": Group(8, "24mo", 4, "1980-01-01", "QS", of_season(4), halved=True),
    "yearly": Group(6, "6y", 1, "1940-01-01", "YS", of_season(1), halved=True),
}  # fmt: skip
USUAL = ("hourly", "weekly", "monthly")
M3 = ("monthly", "quarterly", "yearly")


def series_of(group, file):
    """Training and test part of every series, by its name, from a file or as M4 came."""
    series = read_m4(group) if file is None else read_series(file)
    return dict(list(series.items())[1::2]) if GROUPS[group].halved else series


def read_series(file):
    """Arrays ID:train and ID:test."""
    with np.load(file) as arrays:
        names = sorted({name.split(":")[0] for name in arrays.files})
        return {name: (arrays[f"{name}:train"], arrays[f"{name}:test"]) for name in names}


def read_m4(group):
    import pyarrow.parquet

    folder = os.environ.get("STATEGP_DATA")
    if folder is None:
        sys.exit("forecasts: set STATEGP_DATA to the folder that has m4/m4_odd.parquet")
    table = pyarrow.parquet.read_table(Path(folder) / "m4/m4_odd.parquet")
    kinds, ids, parts, t, y = (table[n].to_numpy() for n in ("group", "id", "part", "t", "y"))
    series = {}
    for name in sorted(set(ids[kinds == group])):
        rows = (ids == name) & (kinds == group)
        halves = (rows & (parts == part) for part in ("train", "test"))
        series[name] = tuple(y[half][np.argsort(t[half])] for half in halves)
    return series


def chosen(series, count, seed, skip=0):
    """The first of them in a random order that the seed fixes, after some that are skipped."""
    names = np.random.default_rng(seed).permutation(sorted(series))[skip:]
    return {str(name): series[str(name)] for name in names[:count]}


def share_of(series, share):
    """Every so many-th of the series: "0/16" is the first of 16 shares."""
    number, _, shares = share.partition("/")
    if not (number.isdigit() and shares.isdigit() and int(number) < int(shares)):
        sys.exit(f"forecasts: --share is like 0/16, the first of 16 shares; got {share!r}")
    return dict(list(series.items())[int(number) :: int(shares)])
