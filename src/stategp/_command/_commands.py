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
from stategp._command._interrupts import Interrupted, was_interrupted
from stategp._command._joining import join
from stategp._command._models import (
    columns_in,
    future_of,
    length_of,
    load_forecaster,
    remember_layout,
)
from stategp._command._options import (
    Bad,
    By,
    Cap,
    Changepoints,
    Checkpoint,
    Coordinator,
    DataOrFolder,
    DateFormat,
    Decimal,
    Distributed,
    Events,
    Every,
    Filters,
    Floor,
    Future,
    Holidays,
    Horizon,
    Inducing,
    Json,
    KeepOutliers,
    Kernel,
    Levels,
    Likelihood,
    Model,
    Output,
    Patience,
    Process,
    Processes,
    Regressors,
    Resume,
    Scratch,
    Separator,
    Series,
    Share,
    Shortest,
    TableOutput,
    Zone,
    column,
)
from stategp._command._progress import Spinner
from stategp._command._streaming import (
    Reading,
    is_streamed,
    open_stream,
    open_whole,
    say_dropped,
    written_length,
)
from stategp._command._tables import (
    TABLES,
    as_columns,
    check_path,
    check_table_path,
    choose_columns,
    is_table,
    model_beside,
    open_table,
    read_columns,
    rows_of,
    write_table,
)
from stategp._command._updating import run_update
from stategp._command._writing import Writing
from stategp._runtime import replacing

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Gaussian processes for long series.

    Fit a table with a column of times and a column of numbers, then forecast, plot and report:

    - `stategp fit visits.csv --time date --target visits --likelihood poisson`

    - `stategp forecast visits.stategp 30d --output next-month.csv`

    - `stategp report visits.stategp --horizon 30d`

    `stategp demo` runs all steps on simulated data.""",
)


def _version(asked: bool) -> bool:
    if asked:
        print(importlib.metadata.version("stategp"))
        raise typer.Exit
    return asked


@app.callback()
def _everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def fit(
    data: DataOrFolder,
    time: Annotated[str | None, column("Column of times; guessed if absent.")] = None,
    target: Annotated[str | None, column("Column to model; guessed if absent.")] = None,
    by: By = [],  # noqa: B006
    share: Share = "none",
    kernel: Kernel = None,
    likelihood: Likelihood = "gaussian",
    inducing: Inducing = "auto",
    regressor: Regressors = [],  # noqa: B006
    holidays: Holidays = [],  # noqa: B006
    event: Events = [],  # noqa: B006
    changepoint: Changepoints = [],  # noqa: B006
    floor: Floor = None,
    cap: Cap = None,
    keep_outliers: KeepOutliers = False,
    exposure: Annotated[str | None, column("Column of exposures (counts).")] = None,
    trials: Annotated[str | None, column("Column of trials (binomial).")] = None,
    noise_variance: Annotated[str | None, column("Column of known variances (gaussian).")] = None,
    weights: Annotated[str | None, column("Column of how often each row counts.")] = None,
    lower: Annotated[str | None, column("Column of lower limits where TARGET is empty.")] = None,
    upper: Annotated[str | None, column("Column of upper limits where TARGET is empty.")] = None,
    sep: Separator = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    zone: Zone = None,
    shortest: Shortest = None,
    bad: Bad = None,
    filters: Filters = [],  # noqa: B006
    scratch: Scratch = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Maximum number of steps of learning.")
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = "5min",
    resume: Resume = False,
    distributed: Distributed = False,
    coordinator: Coordinator = None,
    process: Process = None,
    processes: Processes = None,
    patience: Patience = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Model file; by default DATA.stategp."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn a model from a table and write it to a file.

    Times are dates (with or without time zone) or numbers, in any order, with gaps. An empty
    target is a missing observation. Ctrl-C stops learning and keeps the model learned so far.
    """
    if by and distributed:
        raise ValueError("--distributed divides the rows of one series: leave --by out")
    joined = join(data, distributed, coordinator, process, processes, patience)
    target_file = model_beside(data) if output is None else output
    check_path(target_file, never=TABLES)
    extras = {"exposure": exposure, "trials": trials}
    extras |= {"noise_variance": noise_variance, "weights": weights}
    columns: dict[str, Any] = {name: column for name, column in extras.items() if column}
    limits = [name for name in (lower, upper) if name]
    file: Any
    table: Any
    reading = Reading(shortest, bad, filters, scratch)
    whole = bool(by or limits or regressor or holidays or event or changepoint)
    streamed = not by and is_streamed(data, reading, shared=distributed, needs_all=whole)
    if streamed:
        if limits:
            raise ValueError("--lower and --upper are for files; a folder is summed up")
        file, time, target, table = open_stream(data, time, target, columns, reading)
        columns = {}
    else:
        writing = Writing(sep, decimal, date_format, zone)
        file = open_whole(data, reading, writing) if by else open_table(data, writing)
        time, target = choose_columns(file, time, target)
        table = read_columns(file, time, [target, *columns.values(), *limits, *regressor], by)
        columns |= {"limits": (lower, upper)} if limits else {}
        columns |= {"by": by} if by else {}
    columns |= {} if share == "none" else {"share": share}
    forecaster = sg.Forecaster(
        kernel,
        likelihood,
        inducing=_inducing(inducing),
        regressors=regressor,
        holidays=[tuple(text.split(":", 1)) if ":" in text else text for text in holidays],
        events=[_event(text) for text in event],
        changepoints=changepoint,
        robust=not keep_outliers,
        floor=floor,
        cap=cap,
    )
    # With options of its own a forecaster does not compare models.
    options: dict[str, Any] = {} if max_steps is None else {"max_steps": max_steps}
    if checkpoint is not None:
        options |= {"checkpoint": checkpoint, "every": every, "resume": resume}
    elif resume:
        raise ValueError("--resume needs the file to go on from: give --checkpoint FILE")
    spinner, began = Spinner(), clock.perf_counter()
    shown: Any = spinner if joined.speaks else False
    try:
        with warnings.catch_warnings(record=True) as caught, rows_of(file):
            warnings.simplefilter("always", sg.NotConvergedWarning)
            warnings.simplefilter("always", sg.CheckpointWarning)
            forecaster.fit(table, time, target, progress=shown, **options, **columns)
    except KeyboardInterrupt:
        raise Interrupted("interrupted before anything was learned; nothing was written") from None
    finally:
        spinner.close()
    if not joined.speaks:
        joined.leave()
        return
    result = None if by else forecaster.posterior.fit_result
    # What the report says too; where nothing was optimised, the time since the table was read.
    seconds = result.total_seconds if result else clock.perf_counter() - began
    remember_layout(forecaster, file.layout)
    forecaster.save(target_file)
    joined.leave()
    say_dropped(table)
    _say_done("fitted", facts(forecaster), target_file, seconds, as_json)
    panel = forecaster.panel
    if was_interrupted(forecaster.posterior) if panel is None else panel.interrupted():
        rest = "" if checkpoint is None else f"; --resume goes on from {checkpoint}"
        raise Interrupted(f"interrupted; the model learned so far is in {target_file}{rest}")
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    for warning in caught:
        print(f"stategp: warning: {warning.message}", file=sys.stderr)
    if not as_json:
        name = target_file.name
        single = not by and not streamed
        report = f"stategp report {name}    " if single else ""  # of single observations
        print(f"\nnext: {report}stategp forecast {name} HORIZON", file=sys.stderr)


def _event(text: str) -> sg.Event:
    """sale=2025-03-01,2025-09-01"""
    name, equals, dates = text.partition("=")
    if not (name and equals and dates):
        raise ValueError(
            f"--event must be a name and dates, sale=2025-03-01,2025-09-01; got {text!r}"
        )
    return sg.Event(name, dates.split(","))


def _say_done(what: str, said: dict[str, Any], path: Path, seconds: float, as_json: bool) -> None:
    if as_json:
        print(json.dumps(said | {"model": str(path), "seconds": seconds}))
    else:
        _say(said | {f"{what} in": f"{seconds:.1f} s", "written to": str(path)})


@app.command()
def update(
    model: Model,
    data: DataOrFolder,
    refine: Annotated[
        bool,
        typer.Option("--refine", help="Learn the hyperparameters again, from where they stand."),
    ] = False,
    forget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="After so long (90d) rows count 37 % as much."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Drop rows that are further before the last one (90d)."),
    ] = None,
    sep: Separator = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    shortest: Shortest = None,
    bad: Bad = None,
    filters: Filters = [],  # noqa: B006
    scratch: Scratch = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Model file; by default MODEL itself."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add the rows of a table to a model, without starting over.

    The columns are those of the fit; rows may lie after the data, before or among them. Rows that
    the model has already seen are counted again. The file is replaced when all is done.
    """
    target_file = model if output is None else output
    writing = Writing(sep, decimal, date_format)
    options = {"refine": refine, "forget": written_length(forget), "window": written_length(window)}
    reading = Reading(shortest, bad, filters, scratch)
    said, seconds = run_update(model, data, writing, reading, target_file, **options)
    _say_done("updated", said, target_file, seconds, as_json)


@app.command()
def predict(
    model: Model,
    times: Annotated[
        Path, typer.Argument(metavar="TIMES", help="CSV or Parquet file with the times.")
    ],
    series: Series = [],  # noqa: B006
    level: Levels = [0.95],  # noqa: B006
    function: Annotated[
        bool,
        typer.Option("--function", help="Predict the latent function, not a new observation."),
    ] = False,
    sep: Separator = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    output: TableOutput = None,
    as_json: Json = False,
) -> None:
    """Predict the mean and intervals at given times."""
    check_table_path(output)
    forecaster = load_forecaster(model, series)
    fitted, axis = forecaster.fitted, forecaster.fitted.axis
    file = open_table(times, Writing(sep, decimal, date_format, axis.zone, axis.layout))
    extras = [column for column in fitted.extras.values() if column in file.names]
    wanted = [*([] if function else extras), *columns_in(forecaster, file)]
    table = read_columns(file, fitted.time, wanted)
    with rows_of(file):
        of = "function" if function else "observation"
        answer = forecaster.predict(table, levels=level, of=of)
    _answer(answer, output, as_json)


@app.command()
def forecast(
    model: Model,
    horizon: Annotated[
        str,
        typer.Argument(
            metavar="HORIZON",
            help="A duration (30d, 12h, 1y) or a date (2025-12-01). A number is in days or, if "
            "times are numbers, in their unit.",
        ),
    ],
    every: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Time step; by default that of the data.")
    ] = None,
    future: Future = None,
    series: Series = [],  # noqa: B006
    level: Levels = [0.95],  # noqa: B006
    output: TableOutput = None,
    as_json: Json = False,
) -> None:
    """Predict beyond the end of the data; of many series, for all or for one (--series)."""
    check_table_path(output)
    forecaster = load_forecaster(model, series, many=True)
    step = None if every is None else length_of(forecaster, every)
    length, known = length_of(forecaster, horizon), future_of(forecaster, future)
    table = forecaster.forecast(length, every=step, future=known, levels=level)
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
    future: Future = None,
    series: Series = [],  # noqa: B006
    output: Output = None,
) -> None:
    """Draw a figure (PNG, PDF or SVG)."""
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
    forecaster = load_forecaster(model, series)
    length, known = length_of(forecaster, horizon), future_of(forecaster, future)
    figure = drawn[what](forecaster.story(horizon=length, future=known))
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:].lower())
    print(path)


@app.command()
def report(
    model: Model,
    horizon: Horizon = None,
    future: Future = None,
    series: Series = [],  # noqa: B006
    output: Output = None,
) -> None:
    """Write a report as a single HTML file, with zoomable figures, that works offline."""
    path = model.with_suffix(".html") if output is None else output
    check_path(path, (".html", ".htm"))
    forecaster = load_forecaster(model, series)
    length, known = length_of(forecaster, horizon), future_of(forecaster, future)
    forecaster.report(path, horizon=length, future=known)
    print(path)


@app.command()
def describe(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A model file, or a CSV or Parquet file.")
    ],
    time: Annotated[str | None, column("Column of times (tables).")] = None,
    target: Annotated[str | None, column("Column to model (tables).")] = None,
    sep: Separator = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    as_json: Json = False,
) -> None:
    """Summarise a model file, or a table and the model that would be fitted to it."""
    if is_table(file):
        content = open_table(file, Writing(sep, decimal, date_format))
        time, target = choose_columns(content, time, target)
        table = read_columns(content, time, [target])
        with rows_of(content):
            described = describe_table(table, time, target)
    else:
        described = facts(load_forecaster(file, many=True))
    if as_json:
        print(json.dumps(described))
    else:
        _say(described)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the results.")
    ] = Path("demo-output"),
) -> None:
    """Simulate a series of counts, fit, forecast, plot and report, in under a minute."""
    run_demo(output)


def _say(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
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


def _inducing(text: str) -> Any:
    if text in ("auto", "data"):
        return text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"--inducing must be auto, data or a whole number of at least 1, got {text!r}")
