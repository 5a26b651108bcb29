"""Model files, and what the command line says about their times."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stategp as sg
from stategp._command._tables import is_table, open_table, read_columns
from stategp._command._writing import Writing


def load_forecaster(
    path: Path, series: Sequence[str] = (), *, answering: bool = True, many: bool = False
) -> Any:
    """A fitted forecaster; `answering`: with frames that can be written to files.

    Of many series the one with the key `series`, or all of them if `many` will do.
    """
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
    if loaded.panel is None and series:
        raise ValueError(f"{path} holds one series: leave --series out")
    if loaded.panel is not None:
        if many and not series:
            if answering:
                loaded.panel.form = loaded.panel.form._replace(kind="pyarrow")
            return loaded
        loaded = _one_of(loaded, path, series)
    if loaded.fitted is None:
        raise ValueError(f"{path} holds a Forecaster that has not been fitted")
    if answering:
        loaded.fitted = _with_arrow(loaded.fitted)
    return loaded


def _one_of(forecaster: Any, path: Path, series: Sequence[str]) -> Any:
    """One of many series, by its key as texts."""
    keys = {tuple(map(str, key)): key for key in forecaster.panel.keys}
    if tuple(series) in keys:
        return forecaster[keys[tuple(series)]]
    some = "; ".join(" ".join(f"--series {part}" for part in key) for key in list(keys)[:3])
    raise ValueError(
        f"{path} holds {len(keys):,} series: say which, such as {some}"
        if not series
        else f"{path} has no series {', '.join(series)}; it has, for example, {some}"
    )


def axis_of(forecaster: Any) -> Any:
    """How times are measured."""
    return forecaster.fitted.axis if forecaster.panel is None else forecaster.panel.form.axis


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
    axis, panel = axis_of(forecaster), forecaster.panel
    file = open_table(path, Writing(zone=axis.zone, layout=axis.layout))
    time, by = (forecaster.fitted.time, ()) if panel is None else (panel.form.time, panel.form.by)
    return read_columns(file, time, columns_in(forecaster, file), by)


def remember_layout(forecaster: Any, layout: str | None) -> None:
    """How dates were written in the file, for those that come later and do not show it."""
    axis = dataclasses.replace(axis_of(forecaster), layout=layout)
    if forecaster.panel is None:
        forecaster.fitted = dataclasses.replace(forecaster.fitted, axis=axis)
    else:
        forecaster.panel.form = forecaster.panel.form._replace(axis=axis)


def length_of(forecaster: Any, text: str | None) -> Any:
    """A length of time from the command line: a plain number is one of days, or of no unit."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        if axis_of(forecaster).dates:
            return text
        raise ValueError(f"the times are numbers: give a number, not {text!r}") from None
