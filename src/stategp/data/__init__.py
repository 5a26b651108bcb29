"""Data sets of the studies, read from disk or downloaded."""

from stategp.data._loaders import (
    Counts,
    Flights,
    Folds,
    Grid,
    Monthly,
    Solar,
    Sound,
    aircraft,
    airline,
    co2,
    coal,
    motorcycle,
    rainforest,
    solar,
    vowel,
)

__all__ = [
    "Counts",
    "Flights",
    "Folds",
    "Grid",
    "Monthly",
    "Solar",
    "Sound",
    "aircraft",
    "airline",
    "co2",
    "coal",
    "motorcycle",
    "rainforest",
    "solar",
    "vowel",
]
