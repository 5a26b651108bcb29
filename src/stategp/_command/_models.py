"""Model files, and what the command line says about their times."""

import dataclasses
from pathlib import Path
from typing import Any

import stategp as sg
from stategp._command._tables import is_table, open_table, read_columns
from stategp._command._writing import Writing


def load_forecaster(path: Path, *, answering: bool = True) -> Any:
    """A fitted forecaster; `answering`: with frames that can be written to files."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file that `stategp fit` wrote")
    if path.is_file() and is_table(path):
        raise ValueError(f"{path} is a table, not a model: run `stategp fit {path}` first")
    loaded = sg.load(path)
    if not isinstance(loaded, sg.Forecaster):
        raise ValueError(
            f"{path} holds a {type(loaded).__name__}; the command reads files written by "
            "`stategp fit` or Forecaster.save (open it in Python with sg.load)"
        )
    if loaded.fitted is None:
        raise ValueError(f"{path} holds a Forecaster that has not been fitted")
    if answering:
        loaded.fitted = _with_arrow(loaded.fitted)
    return loaded


def _with_arrow(fitted: Any) -> Any:
    """Answers are written through pyarrow, whatever kind of frame was fitted."""
    return dataclasses.replace(fitted, kind="pyarrow")


def columns_in(forecaster: Any, file: Any) -> list[str]:
    """The regressors that a file has."""
    return [effect.column for effect in forecaster.regressors or () if effect.column in file.names]


def future_of(forecaster: Any, path: Path | None) -> Any:
    """The table with future values of regressors, if there is one."""
    if path is None:
        return None
    axis = forecaster.fitted.axis
    file = open_table(path, Writing(zone=axis.zone, layout=axis.layout))
    return read_columns(file, forecaster.fitted.time, columns_in(forecaster, file))


def remember_layout(forecaster: Any, layout: str | None) -> None:
    """How dates were written in the file, for those that come later and do not show it."""
    axis = dataclasses.replace(forecaster.fitted.axis, layout=layout)
    forecaster.fitted = dataclasses.replace(forecaster.fitted, axis=axis)


def length_of(forecaster: Any, text: str | None) -> Any:
    """A length of time from the command line: a plain number is one of days, or of no unit."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        if forecaster.fitted.axis.dates:
            return text
        raise ValueError(f"the times are numbers: give a number, not {text!r}") from None
