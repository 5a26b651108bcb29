"""Arguments and options that commands share, and what their help says."""

from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A CSV (.csv, .tsv, .csv.gz) or Parquet file.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `fit` wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for machines.")]
Levels = Annotated[
    list[float],
    typer.Option("--level", metavar="P", help="Probability of an interval; may be repeated."),
]
Horizon = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help="How far to forecast: 30d, 12h, 1y, until 2025-12-01; a number is in days, or in the "
        "unit of times that are numbers.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
]
TableOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .csv or .parquet file; standard output unless given.",
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
        "y, or plain numbers. Lengthscales are where learning starts; periods are kept "
        "(`learn(1d)` learns them, `fixed(3d)` keeps a lengthscale). A trend and the seasons that "
        "the data shows unless given.",
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
        metavar="N", help="`auto`, a number of inducing points, or `data` (the most exact)."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option("--sep", metavar="SIGN", help="Between columns: ; or tab. Guessed if absent."),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Before decimals: . or a comma. Guessed if absent."),
]
DateFormat = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="%d/%m/%Y, %m/%d/%y … Guessed if that is unambiguous."),
]
Zone = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Time zone of the times: Europe/Berlin, +01:00."),
]


def column(about: str) -> Any:
    return typer.Option(metavar="COLUMN", help=about)
