"""Data sets of the studies, read from disk or downloaded."""

from stategp.data._loaders import (
    Counts,
    Flights,
    Folds,
    Monthly,
    Solar,
    Sound,
    aircraft,
    airline,
    co2,
    coal,
    motorcycle,
    solar,
    vowel,
)

__all__ = [
    "Counts",
    "Flights",
    "Folds",
    "Monthly",
    "Solar",
    "Sound",
    "aircraft",
    "airline",
    "co2",
    "coal",
    "motorcycle",
    "solar",
    "vowel",
]
