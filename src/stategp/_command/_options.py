"""Arguments and options that commands share, and what their help says."""

from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV (.csv, .tsv, .csv.gz) or Parquet file.")
]
DataOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="CSV (.csv, .tsv, .csv.gz) or Parquet file, or a folder of Parquet files. Folders and "
        "Parquet files of 1 GB and more are read batch by batch, and may be larger than memory.",
    ),
]
Shortest = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help="Of rows read batch by batch: the shortest lengthscale that may be learned (6h, or a "
        "number). By default a quarter of those that the kernel has, or a 2000th of the range.",
    ),
]
Bad = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="What to do about bad rows (no time, infinite, a count that is none) of what is read "
        "batch by batch: `refuse` (the default) or `drop`, which counts them by file.",
    ),
]
Filters = Annotated[
    list[str],
    typer.Option(
        "--filter",
        metavar="CONDITION",
        help="Read only such rows: `year >= 2024`, `sensor == 3`; may be repeated. Files and parts "
        "of files without such rows are not read.",
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Whose disk holds rows during a fit, for likelihoods that need them; by default that "
        "of temporary files.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `fit`.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Levels = Annotated[
    list[float],
    typer.Option("--level", metavar="P", help="Probability of the interval; may be repeated."),
]
Horizon = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help="How far to forecast: a duration (30d, 12h, 1y) or a date (2025-12-01). A number is "
        "in days or, if times are numbers, in their unit.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file.")]
TableOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .csv or .parquet file; by default standard output.",
    ),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        "-k",
        metavar="TEXT",
        help="An expression: `matern52(30d) + periodic(1d) * matern32(2w)`, "
        "`trend: matern52 + yearly: harmonic(1y, terms=3)`. Lengths are in s, min, h, d, w, mo, "
        "y, or plain numbers. Lengthscales are starting values; periods are fixed "
        "(`learn(1d)` learns them, `fixed(3d)` fixes a lengthscale). By default a trend and the "
        "seasons that the data show.",
    ),
]
Likelihood = Annotated[
    str,
    typer.Option(
        "--likelihood",
        "-l",
        metavar="NAME",
        help="gaussian, student-t (outliers), poisson or negative-binomial (counts), bernoulli "
        "(yes or no), binomial, exponential, gamma, weibull, beta, laplace, heteroscedastic.",
    ),
]
Inducing = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="Number of inducing points, `auto`, or `data` (one at every input: most accurate).",
    ),
]
Share = Annotated[
    str,
    typer.Option(
        metavar="prior|all",
        help="With --by: learn a prior of hyperparameters from all series, so that short ones "
        "borrow (prior); or one value for all (all).",
    ),
]
By = Annotated[
    list[str],
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Column that tells many series in one table apart (unique_id); may be repeated. Each "
        "gets a model, all in one file.",
    ),
]
Series = Annotated[
    list[str],
    typer.Option(
        "--series",
        metavar="KEY",
        help="Which of many series (`fit --by`): a value for each column that tells them apart.",
    ),
]
Regressors = Annotated[
    list[str],
    typer.Option(
        "--regressor",
        metavar="COLUMN",
        help="Column that the target depends on, known in advance; may be repeated.",
    ),
]
Holidays = Annotated[
    list[str],
    typer.Option(
        "--holidays",
        metavar="COUNTRY",
        help="Public holidays, each with an effect: DE, or DE:BY for a state; may be repeated.",
    ),
]
Events = Annotated[
    list[str],
    typer.Option(
        "--event",
        metavar="NAME=DATES",
        help="Dates on which something happens, with an effect: sale=2025-03-01,2025-09-01; may be "
        "repeated.",
    ),
]
Changepoints = Annotated[
    list[str],
    typer.Option(
        "--changepoint",
        metavar="DATE",
        help="A date at which the slope of the trend changes; may be repeated.",
    ),
]
Floor = Annotated[
    float | None,
    typer.Option(metavar="Y", help="Forecasts keep above it: 0 for what cannot be negative."),
]
Cap = Annotated[float | None, typer.Option(metavar="Y", help="Forecasts keep below it.")]
KeepOutliers = Annotated[
    bool,
    typer.Option(
        "--keep-outliers", help="Take the data as they are; by default outliers get little weight."
    ),
]
Future = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="CSV or Parquet file with the future values of the regressors."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--sep", metavar="CHAR", help="Column separator: ; or tab. Guessed if absent."),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="CHAR", help="Decimal separator: . or a comma. Guessed if absent."),
]
DateFormat = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT", help="Date format: %d/%m/%Y, %m/%d/%y … Guessed if unambiguous."
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Time zone of the times: Europe/Berlin, +01:00."),
]


def column(about: str) -> Any:
    return typer.Option(metavar="COLUMN", help=about)


Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Remember how far a long fit is, so that --resume can go on after whatever ended it; "
        "removed when the model is written.",
    ),
]
Every = Annotated[
    str, typer.Option(metavar="LENGTH", help="How often the checkpoint is written: 5min, 30s.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="One of several processes that share the reading of a folder: started by srun or "
        "mpirun, in Kubernetes, or with --coordinator.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Where process 0 is to be found, without a scheduler."),
]
Process = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Which process this is, from 0.")
]
Processes = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many there are.")]
Patience = Annotated[
    float | None,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="Without a sign of life of a process for so long the others stop; 30 by default.",
    ),
]
