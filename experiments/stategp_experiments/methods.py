"""Methods of inference compared on data left out: variational, Laplace, EP, linearised smoothing.

    stategp-experiments methods [--folds 10] [--quick] [--store] [--output experiments/results]

Counts of coal-mining disasters (Poisson), accelerations of a motorcyclist's head (Student-t), and
labels drawn for this study (Bernoulli). Hyperparameters are learned once for each data set and fold
by natural gradients, without the rows left out, and are the same for all methods. NLPD is the
average negative log density of the rows left out; coverage is the share of them whose rank in the
predictive distribution lies between 5 % and 95 %, so that 90 % is right (a discrete y counts with
the share of its ranks inside; nothing is drawn). The bound is the importance-weighted one of
log p(y) with 20 samples of q, whatever the method, in nats per row. Methods that came to an end in
at least half of the folds are averaged over the same folds, those in which all of them did; of
others there is only the difference from `natural`, fold by fold. Errors are standard errors over
folds. `vb`, the logistic bound, is for labels. Seconds are the median of `sg.condition`,
compiled before; they depend on what else the machine does. `quick` takes two folds. `--store`
writes docs/methods-run.json and the table of docs/inference.md, in a checkout.
"""

import math
import re
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit

import stategp as sg
from stategp_experiments import studies

SAMPLES = 20
DOCS = Path(__file__).parents[2] / "docs"
METHODS = {name: name for name in (
    "natural", "laplace", "ep", "posterior_linearisation", "unscented", "extended", "gauss_newton",
)} | {
    "variational, Gauss–Newton": sg.BayesNewton("variational", "gauss_newton"),
    "variational, differences": sg.BayesNewton("variational", "quasi_newton"),
    "variational, Riemann": sg.BayesNewton("variational", "riemann"),
    "variational, steady": sg.BayesNewton("variational", "exact", steady=True),
    "linearised, second order": sg.BayesNewton("linearised", "riemann"),
    "importance-weighted": sg.ImportanceWeighted(SAMPLES),
    "vb": "vb",
}  # fmt: skip
USUAL = "natural"
ONLY = {"vb": "labels"}  # methods that are for one of the data sets


class Case(NamedTuple):
    """A data set and its model."""

    x: np.ndarray
    y: np.ndarray
    model: sg.GP


class Row(NamedTuple):
    """One method on one fold."""

    data: str
    method: str
    fold: int
    nlpd: float | None  # None if the method found nothing
    coverage: float | None
    bound: float | None  # importance-weighted, of log p(y), for each row
    converged: bool
    seconds: float


DATA = ("coal", "motorcycle", "labels")  # the data sets


def methods_of(data: str) -> dict[str, object]:
    """Those that are for a data set."""
    return {name: way for name, way in METHODS.items() if ONLY.get(name, data) == data}


def cases() -> dict[str, Case]:
    """The data sets."""
    coal, motorcycle = sg.data.coal(), sg.data.motorcycle()
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 7, 300))
    labels = (rng.uniform(size=300) < expit(6 * np.sin(np.pi * x) / (np.pi * x + 1))).astype(float)
    smooth, level = sg.kernels.Matern52(), sg.means.Constant()
    scale = (motorcycle.y - motorcycle.y.mean()) / motorcycle.y.std()
    student = sg.likelihoods.StudentT(df=sg.fixed(4.0))
    of_each = (
        Case(coal.x, coal.y, sg.GP(smooth, "poisson", level)),
        Case(motorcycle.x, scale, sg.GP(smooth, student)),
        Case(x, labels, sg.GP(sg.kernels.Matern32(), "bernoulli", level)),
    )
    return dict(zip(DATA, of_each, strict=True))


def inside(posterior: sg.Posterior, x: np.ndarray, y: np.ndarray) -> float:
    """The share of rows whose rank lies between 5 % and 95 %.

    Of a discrete y the rank is anywhere between P(Y < y) and P(Y ≤ y): the share of that inside.
    """
    below, upto = (np.asarray(posterior.cdf(x, y, strict=strict)) for strict in (True, False))
    wide = upto - below > 1e-9
    overlap = np.clip(upto, 0.05, 0.95) - np.clip(below, 0.05, 0.95)
    share = overlap / np.where(wide, upto - below, 1.0)
    return float(np.mean(np.where(wide, share, (upto > 0.05) & (upto < 0.95))))


def score(name: str, case: Case, fold: int, count: int) -> list[Row]:
    """All methods, the rows of one fold left out."""
    out = np.arange(len(case.x)) % count == fold
    x, y = case.x[~out], case.y[~out]
    learned = sg.fit(case.model, x, y, inducing="data").model
    rows = []
    for method, way in methods_of(name).items():
        seconds, nlpd, coverage, bound, converged = [], None, None, None, False
        for _ in range(2):  # the first compiles
            began = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    posterior = sg.condition(learned, x, y, inducing="data", method=way)
            except FloatingPointError:
                break
            seconds.append(time.perf_counter() - began)
        if seconds:
            nlpd = -float(np.mean(posterior.log_density(case.x[out], case.y[out])))
            coverage = inside(posterior, case.x[out], case.y[out])
            bound = posterior.importance_weighted_bound(SAMPLES)[0] / len(x)
            converged = posterior.fit_result is None or posterior.fit_result.converged
        took = min(seconds, default=0.0)
        rows.append(Row(name, method, fold, nlpd, coverage, bound, converged, took))
    return rows


def summaries(rows: list[Row]) -> list[dict]:
    """For each data set and method: averages over folds, errors, and how many came to an end.

    `common` is the number of folds that are averaged, the same for all methods but those that came
    to an end in fewer than half: these are compared with `natural` in their own.
    """
    found = []
    for data in dict.fromkeys(row.data for row in rows):
        usual = {row.fold: row.nlpd for row in rows if (row.data, row.method) == (data, USUAL)}
        each = {
            method: [row for row in rows if (row.data, row.method) == (data, method)]
            for method in methods_of(data)
            if any((row.data, row.method) == (data, method) for row in rows)
        }
        ended_in = {
            method: {row.fold for row in ours if row.converged and row.nlpd is not None}
            for method, ours in each.items()
        }
        often = [folds for folds in ended_in.values() if 2 * len(folds) >= len(usual)]
        common = set(usual).intersection(*often)
        for method, ours in each.items():
            ended = [row for row in ours if row.fold in ended_in[method]]
            seldom = 2 * len(ended) < len(usual)
            ended = ended if seldom else [row for row in ended if row.fold in common]
            gaps = [row.nlpd - usual[row.fold] for row in ended if usual[row.fold] is not None]
            nlpd, error = _average([] if seldom else [row.nlpd for row in ended])
            gap, gap_error = _average(gaps)
            found.append(
                {
                    "data": data,
                    "method": method,
                    "folds": len(ours),
                    "converged": len(ended_in[method]),
                    "common": len(ended),
                    "nlpd": nlpd,
                    "nlpd_error": error,
                    "gap": gap,
                    "gap_error": gap_error,
                    "coverage": _average([] if seldom else [row.coverage for row in ended])[0],
                    "bound": _average([] if seldom else [row.bound for row in ended])[0],
                    "seconds": float(np.median([row.seconds for row in ours])),
                }
            )
    return found


def _average(values: list[float]) -> tuple[float | None, float | None]:
    """The mean and its standard error."""
    if not values:
        return None, None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return float(np.mean(values)), error


def table(lines: list[dict]) -> str:
    """Summaries as a table of Markdown."""
    shown = [
        "| data | method | NLPD | more than `natural` | inside | bound | seconds | converged |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        ended = f"{line['converged']} of {line['folds']}"
        cells = ["none"] * 5
        if line["gap"] is not None:
            gap = f"{line['gap']:.4f} ± {line['gap_error'] or 0:.4f}"
            cells = ["–", gap, "–", "–", f"{line['seconds']:.3f}"]
        if line["nlpd"] is not None:
            cells = [
                f"{line['nlpd']:.4f} ± {line['nlpd_error'] or 0:.4f}",
                "" if line["method"] == USUAL else gap,
                f"{100 * line['coverage']:.1f} %",
                f"{line['bound']:.4f}",
                f"{line['seconds']:.3f}",
            ]
        shown.append(f"| {line['data']} | `{line['method']}` | {' | '.join(cells)} | {ended} |")
    return "\n".join(shown)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="two folds")
    parser.add_argument(
        "--folds", type=int, default=10, help="rows left out in turns (%(default)s)"
    )
    parser.add_argument("--store", action="store_true", help="write the run and its table to docs")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name, case in cases().items():
        for fold in range(2 if options.quick else options.folds):
            rows += score(name, case, fold, options.folds)
        print(table(summaries([row for row in rows if row.data == name])), flush=True)
    numbers = {"summaries": summaries(rows), "rows": [row._asdict() for row in rows]}
    studies.write(numbers, options.output / "methods.json")
    if options.store:
        studies.write(numbers, DOCS / "methods-run.json")
        write_table(DOCS / "inference.md", numbers["summaries"])


def write_table(page: Path, lines: list[dict]) -> None:
    """Put the table in the place of the one that is there."""
    old = re.compile(r"\| data \| method \|.*?\n(?=\n)", re.DOTALL)
    text, count = old.subn(lambda _: table(lines) + "\n", page.read_text(encoding="utf-8"), count=1)
    if not count:
        raise ValueError(f"{page} has no table of methods")
    page.write_text(text, encoding="utf-8")
