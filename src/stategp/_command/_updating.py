"""`stategp update`: the rows of a table, added to a model file."""

import dataclasses
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import stategp as sg
from stategp._command._describe import facts
from stategp._command._interrupts import Interrupted, was_interrupted
from stategp._command._models import axis_of, columns_in, load_forecaster
from stategp._command._progress import Spinner
from stategp._command._streaming import (
    Reading,
    is_streamed,
    open_stream,
    open_whole,
    say_dropped,
)
from stategp._command._tables import TABLES, check_path, read_columns, rows_of
from stategp._command._writing import Writing
from stategp._data import Summarised


def run_update(
    model: Path, data: Path, writing: Writing, reading: Reading, output: Path, **options: Any
) -> tuple[dict[str, Any], float]:
    """Write the model with the rows of `data`; what is to be said of it, and the seconds."""
    check_path(output, never=TABLES)
    forecaster = load_forecaster(model, answering=False, many=True)
    many, axis = forecaster.panel is not None, axis_of(forecaster)
    told = forecaster.panel.form if many else forecaster.fitted
    writing = dataclasses.replace(writing, zone=axis.zone, layout=axis.layout)
    file: Any
    table: Any
    if not many and _streamed(forecaster, data, reading):
        asked = data, told.time, told.target, told.extras, reading
        file, _, _, table = open_stream(*asked)
    else:
        file = open_whole(data, reading, writing)
        columns = [told.target, *_extras(forecaster), *columns_in(forecaster, file)]
        table = read_columns(file, told.time, columns, told.by if many else ())
    stopped_before = many and forecaster.panel.interrupted()
    spinner, began = Spinner(), time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught, rows_of(file):
            warnings.simplefilter("always", sg.NotConvergedWarning)
            forecaster.update(table, **options, progress=spinner)
        stopped = forecaster.panel.interrupted() if many else was_interrupted(forecaster.posterior)
        if stopped and not stopped_before:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; nothing was written, and {model} is as it was") from None
    finally:
        spinner.close()
    forecaster.save(output)
    say_dropped(table)
    for warning in caught:
        print(f"stategp: warning: {warning.message}", file=sys.stderr)
    return facts(forecaster), time.perf_counter() - began


def _streamed(forecaster: Any, data: Path, reading: Reading) -> bool:
    """Whether rows are read batch by batch, as those of the model were."""
    summed = isinstance(forecaster.posterior.data, Summarised)
    return summed and is_streamed(data, reading, shared=False, needs_all=False)


def _extras(forecaster: Any) -> list[str]:
    """The columns that were read beside the target."""
    alone = [] if forecaster.panel is None else list(forecaster.panel.alone.values())
    fitted = [forecaster.fitted] if forecaster.panel is None else [one.fitted for one in alone]
    return list(dict.fromkeys(column for one in fitted for column in one.extras.values()))
