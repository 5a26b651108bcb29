"""What the command `stategp` can do; each is thin over `sg.Forecaster`."""

import importlib.metadata
import json
import sys
import time as clock
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import stategp as sg
from stategp._command._demo import run_demo
from stategp._command._describe import describe_table, facts
from stategp._command._options import (
    Data,
    Horizon,
    Inducing,
    Json,
    Kernel,
    Levels,
    Likelihood,
    Model,
    Output,
    TableOutput,
    column,
)
from stategp._command._progress import Spinner
from stategp._command._tables import (
    TABLES,
    as_columns,
    check_path,
    check_table_path,
    choose_columns,
    read_table,
    write_table,
)
from stategp._runtime import replacing

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Gaussian processes for long series.

    Fit a table with a column of times and a column of numbers, then forecast, look, report:

    - `stategp fit visits.csv --time date --target visits --likelihood poisson`

    - `stategp forecast visits.stategp 30d --output next-month.csv`

    - `stategp report visits.stategp --horizon 30d`

    Try `stategp demo` for all of it on simulated data.""",
)


def _version(asked: bool) -> bool:
    if asked:
        print(importlib.metadata.version("stategp"))
        raise typer.Exit
    return asked


@app.callback()
def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    data: Data,
    time: Annotated[str | None, column("The times; guessed if absent.")] = None,
    target: Annotated[str | None, column("What to model; guessed if absent.")] = None,
    kernel: Kernel = None,
    likelihood: Likelihood = "gaussian",
    inducing: Inducing = "auto",
    exposure: Annotated[str | None, column("Counts: what their rate is multiplied by.")] = None,
    trials: Annotated[str | None, column("binomial: out of how many.")] = None,
    noise_variance: Annotated[str | None, column("gaussian: known variances.")] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The most steps of learning.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The model; DATA.stategp unless given."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a model from a table, and write it to a file.

    Times are dates (with or without time zone) or numbers, in any order, with gaps. An empty
    target is a missing observation.
    """
    target_file = data.with_suffix(".stategp") if output is None else output
    check_path(target_file, never=TABLES)
    time, target = choose_columns(data, time, target)
    extras = {"exposure": exposure, "trials": trials, "noise_variance": noise_variance}
    used = [time, target, *[column for column in extras.values() if column]]
    table = read_table(data, used)
    if table.num_rows == 0:
        raise ValueError(f"{data} has no rows")
    forecaster = sg.Forecaster(kernel, likelihood, inducing=_inducing(inducing))
    began = clock.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sg.NotConvergedWarning)
        forecaster.fit(
            table, time, target, progress=Spinner(), max_steps=max_steps,
            **{name: column for name, column in extras.items() if column},
        )  # fmt: skip
    result = forecaster.posterior.fit_result
    # What the report says too; where nothing was optimised, the time since the table was read.
    seconds = result.total_seconds if result else clock.perf_counter() - began
    if result is not None and result.outcome is sg.Outcome.interrupted:
        raise KeyboardInterrupt
    for warning in caught:
        print(f"stategp: warning: {warning.message}", file=sys.stderr)
    forecaster.save(target_file)
    if as_json:
        print(json.dumps(facts(forecaster) | {"model": str(target_file), "seconds": seconds}))
        return
    _say(facts(forecaster) | {"fitted in": f"{seconds:.1f} s", "written to": str(target_file)})
    name = target_file.name
    print(f"\nnext: stategp report {name}    stategp forecast {name} HORIZON", file=sys.stderr)


@app.command()
def predict(
    model: Model,
    times: Annotated[
        Path, typer.Argument(metavar="TIMES", help="A CSV or Parquet file with the times.")
    ],
    level: Levels = [0.95],  # noqa: B006
    function: Annotated[
        bool,
        typer.Option(
            "--function", help="Predict the function behind the observations, not a new one."
        ),
    ] = False,
    output: TableOutput = None,
    as_json: Json = False,
) -> None:
    """Predict at given times: mean and intervals."""
    check_table_path(output)
    forecaster = _load(model)
    of = "function" if function else "observation"
    _answer(forecaster.predict(read_table(times), levels=level, of=of), output, as_json)


@app.command()
def forecast(
    model: Model,
    horizon: Annotated[
        str,
        typer.Argument(metavar="HORIZON", help="30d, 12h, 1y, or a number if times are numbers."),
    ],
    every: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="The step; that of the data if absent.")
    ] = None,
    level: Levels = [0.95],  # noqa: B006
    output: TableOutput = None,
    as_json: Json = False,
) -> None:
    """Predict what comes after the end of the data."""
    check_table_path(output)
    forecaster = _load(model)
    step = None if every is None else _length(forecaster, every)
    table = forecaster.forecast(_length(forecaster, horizon), every=step, levels=level)
    _answer(table, output, as_json)


@app.command()
def plot(
    model: Model,
    horizon: Horizon = None,
    what: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="series, components, checks (residuals) or trace (learning)."
        ),
    ] = "series",
    output: Output = None,
) -> None:
    """Draw a picture (PNG, PDF or SVG)."""
    from stategp import plots

    drawn: dict[str, Any] = {
        "series": plots.plot,
        "components": plots.plot_components,
        "checks": plots.plot_checks,
        "trace": plots.plot_trace,
    }
    if what not in drawn:
        raise ValueError(f"--what must be one of {', '.join(drawn)}, got {what!r}")
    path = model.with_suffix(".png") if output is None else output
    check_path(path, (".png", ".pdf", ".svg"))
    forecaster = _load(model)
    figure = drawn[what](forecaster.story(horizon=_length(forecaster, horizon)))
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:].lower())
    print(path)


@app.command()
def report(model: Model, horizon: Horizon = None, output: Output = None) -> None:
    """Write one HTML file with everything: zoom in it, send it, open it offline."""
    path = model.with_suffix(".html") if output is None else output
    check_path(path, (".html", ".htm"))
    forecaster = _load(model)
    forecaster.report(path, horizon=_length(forecaster, horizon))
    print(path)


@app.command()
def describe(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A model file, or a CSV or Parquet file.")
    ],
    time: Annotated[str | None, column("The times (tables).")] = None,
    target: Annotated[str | None, column("What to model (tables).")] = None,
    as_json: Json = False,
) -> None:
    """Say what is in a model file, or what a table holds and what would be fitted to it."""
    if file.suffix.lower() in TABLES:
        found = describe_table(file, *choose_columns(file, time, target))
    else:
        found = facts(_load(file))
    if as_json:
        print(json.dumps(found))
    else:
        _say(found)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to put it all.")
    ] = Path("demo-output"),
) -> None:
    """Simulate a count series, fit it, forecast, draw and report: under a minute."""
    run_demo(output)


def _say(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in found.items():
        text = f"{value:,.6g}" if isinstance(value, float) else str(value)
        table.add_row(Text(name, style="bold"), Text(text, overflow="fold"))
    Console().print(table)


def _answer(table: Any, output: Path | None, as_json: bool) -> None:
    if output is not None:
        write_table(table, output)
        print(output, file=sys.stderr)
    if as_json:
        print(json.dumps(as_columns(table)))
    elif output is None:
        write_table(table, None)


def _load(path: Path) -> Any:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a file that `stategp fit` wrote")
    if path.is_file() and path.suffix.lower() in TABLES:
        raise ValueError(f"{path} is a table, not a model: run `stategp fit {path}` first")
    found = sg.load(path)
    if not isinstance(found, sg.Forecaster):
        raise ValueError(
            f"{path} holds a {type(found).__name__}; the command reads files written by "
            "`stategp fit` or Forecaster.save (open it in Python with sg.load)"
        )
    if found.fitted is None:
        raise ValueError(f"{path} holds a Forecaster that has not been fitted")
    found.fitted = _with_arrow(found.fitted)
    return found


def _with_arrow(fitted: Any) -> Any:
    """Answers are written through pyarrow, whatever kind of frame was fitted."""
    import dataclasses

    return dataclasses.replace(fitted, kind="pyarrow")


def _length(forecaster: Any, text: str | None) -> Any:
    """A length of time from the command line: a number where times are numbers."""
    if text is None or forecaster.fitted.axis.dates:
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"the times are numbers: give a number, not {text!r}") from None


def _inducing(text: str) -> Any:
    if text in ("auto", "data"):
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"--inducing must be auto, data or a number from 1 on, got {text!r}")
