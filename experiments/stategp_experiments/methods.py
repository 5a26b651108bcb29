"""Methods of inference compared on data left out: variational, Laplace, EP, linearised smoothing.

    stategp-experiments methods [--folds 10] [--quick] [--output experiments/results]

Counts of coal-mining disasters (Poisson), accelerations of a motorcyclist's head (Student-t), and
labels drawn for this study (Bernoulli). Hyperparameters are learned once for each data set and fold
by natural gradients, without the rows left out, and are the same for all methods. NLPD is the
average negative log density of the rows left out; coverage is the share of them whose rank in the
predictive distribution lies between 5 % and 95 %, so that 90 % is right (a discrete y counts with
the share of its ranks inside; nothing is drawn). Seconds are those of `sg.condition`, compiled
before; they depend on what else the machine does. `quick` takes two folds.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import expit

import stategp as sg
from stategp_experiments import studies

METHODS = (
    "natural", "laplace", "ep", "posterior_linearisation", "unscented", "extended", "gauss_newton",
)  # fmt: skip


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
    converged: bool
    seconds: float


def cases() -> dict[str, Case]:
    """The data sets."""
    coal, motorcycle = sg.data.coal(), sg.data.motorcycle()
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 7, 300))
    labels = (rng.uniform(size=300) < expit(6 * np.sin(np.pi * x) / (np.pi * x + 1))).astype(float)
    smooth, level = sg.kernels.Matern52(), sg.means.Constant()
    scale = (motorcycle.y - motorcycle.y.mean()) / motorcycle.y.std()
    return {
        "coal": Case(coal.x, coal.y, sg.GP(smooth, "poisson", level)),
        "motorcycle": Case(
            motorcycle.x, scale, sg.GP(smooth, sg.likelihoods.StudentT(df=sg.fixed(4.0)))
        ),
        "labels": Case(x, labels, sg.GP(sg.kernels.Matern32(), "bernoulli", level)),
    }


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
    for method in METHODS:
        seconds, nlpd, coverage, converged = [], None, None, False
        for _ in range(2):  # the first compiles
            began = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    posterior = sg.condition(learned, x, y, inducing="data", method=method)
            except FloatingPointError:
                break
            seconds.append(time.perf_counter() - began)
        if seconds:
            nlpd = -float(np.mean(posterior.log_density(case.x[out], case.y[out])))
            coverage = inside(posterior, case.x[out], case.y[out])
            converged = posterior.fit_result is None or posterior.fit_result.converged
        rows.append(Row(name, method, fold, nlpd, coverage, converged, min(seconds, default=0.0)))
    return rows


def summaries(rows: list[Row]) -> list[dict]:
    """For each data set and method: averages over folds, and how many came to an end."""
    found = []
    for data in dict.fromkeys(row.data for row in rows):
        for method in METHODS:
            ours = [row for row in rows if (row.data, row.method) == (data, method)]
            ended = [row for row in ours if row.converged and row.nlpd is not None]
            found.append(
                {
                    "data": data,
                    "method": method,
                    "folds": len(ours),
                    "converged": len(ended),
                    "nlpd": float(np.mean([row.nlpd for row in ended])) if ended else None,
                    "coverage": float(np.mean([row.coverage for row in ended])) if ended else None,
                    "seconds": float(np.median([row.seconds for row in ours])),
                }
            )
    return found


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="two folds")
    parser.add_argument(
        "--folds", type=int, default=10, help="rows left out in turns (%(default)s)"
    )
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for name, case in cases().items():
        for fold in range(2 if options.quick else options.folds):
            rows += score(name, case, fold, options.folds)
        for line in summaries([row for row in rows if row.data == name]):
            nlpd, share = line["nlpd"], line["coverage"]
            shown = "no result" if nlpd is None else f"NLPD {nlpd:.4f}, {100 * share:.1f} % inside"
            ended = f"{line['converged']} of {line['folds']} converged"
            print(f"{name:12}{line['method']:26}{shown}, {ended}", flush=True)
    numbers = {"summaries": summaries(rows), "rows": [row._asdict() for row in rows]}
    studies.write(numbers, options.output / "methods.json")
