"""Real data sets for experiments and examples.

A loader looks in the folder given, else in the one named by the environment variable
``STATEGP_DATA``, else in the user's cache, into which it downloads the file (checked by its
SHA-256) when the network allows.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

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


def _locate(source: _Source, folder: Folder | None) -> Path:
    given = folder or os.environ.get("STATEGP_DATA")
    if given is not None:
        path = Path(given) / source.path
        if not path.is_file():
            where = "the folder given" if folder else "STATEGP_DATA"
            raise FileNotFoundError(f"{path} does not exist ({where} is {given})")
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
