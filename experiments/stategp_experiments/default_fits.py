"""Default fits of many series: none ends in an exception, and every bound is what it says it is.

    stategp-experiments default-fits [--quick] [--output experiments/results]

`sg.Forecaster()` with plain defaults on M4's hourly and weekly series (those of the data folder,
`STATEGP_DATA`). For each: the bound against log p(y) of a dense Cholesky factorisation with the
hyperparameters that were found, what the certificate says, and whether inducing points at the data
lead to a better optimum.
"""

import os
import time
import warnings
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import studies

STEPS = {"hourly": np.timedelta64(1, "h"), "weekly": np.timedelta64(7, "D")}


def series(group: str, count: int) -> dict[str, np.ndarray]:
    """Training parts of some series of a group, by number; the same ones each time."""
    import pyarrow.parquet

    folder = os.environ.get("STATEGP_DATA")
    path = Path(folder or ".") / "m4" / "m4_odd.parquet"
    if folder is None or not path.is_file():
        raise FileNotFoundError("this study reads m4/m4_odd.parquet in the folder STATEGP_DATA")
    table = pyarrow.parquet.read_table(path).to_pydict()
    columns = {name: np.asarray(values) for name, values in table.items()}
    wanted = (np.char.lower(columns["group"].astype(str)) == group) & (columns["part"] == "train")
    names = np.unique(columns["id"][wanted])
    chosen = np.random.default_rng(0).permutation(names)[:count]
    found = {}
    for name in chosen:
        rows = wanted & (columns["id"] == name)
        found[str(name)] = columns["y"][rows][np.argsort(columns["t"][rows])].astype(float)
    return found


def dense_log_evidence(posterior: sg.Posterior) -> float:
    """log p(y) by a dense Cholesky factorisation."""
    data, model = posterior.data, posterior.model
    x, y = np.asarray(data.x), np.asarray(data.y)
    noise = float(model.likelihood.variance)
    covariance = np.asarray(model.kernel(x, x)) + noise * np.eye(len(x))
    root = np.linalg.cholesky(covariance)
    residual = y - np.asarray(model.mean(x + float(data.origin)))
    white = np.linalg.solve(root, residual)
    spread = 2 * np.sum(np.log(np.diag(root))) + len(x) * np.log(2 * np.pi)
    return float(-(white @ white + spread) / 2)


def fit_one(y: np.ndarray, step: np.timedelta64) -> dict:
    """What a default fit of a series leads to."""
    import pandas

    times = np.datetime64("2015-01-05T00:00", "s") + np.arange(len(y)) * step
    frame = pandas.DataFrame({"time": times, "y": y})
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        posterior = sg.Forecaster().fit(frame, "time", "y").posterior
    seconds = time.perf_counter() - began
    try:
        dense = dense_log_evidence(posterior)
    except np.linalg.LinAlgError:
        dense = float("nan")
    return {
        "observations": len(y),
        "seconds": seconds,
        "noise": float(posterior.model.likelihood.variance),
        "bound": posterior.elbo,
        "dense": dense,
        "inducing": len(posterior.inducing),
        "certificate": float(posterior.certificate.error),
        "outcome": posterior.fit_result.outcome.name,
        "said": posterior.fit_result.message,
    }


def main(arguments: list[str]) -> None:
    options = studies.parser(__doc__, quick="six series of each group").parse_args(arguments)
    count = 6 if options.quick else 40
    rows: dict[str, list[dict]] = {}
    for group, step in STEPS.items():
        rows[group] = []
        for name, y in series(group, count).items():
            row = {"series": name} | fit_one(y, step)
            rows[group].append(row)
            print(
                f"{group:7} {name:>5}  N {row['observations']:5}  {row['seconds']:6.1f} s  "
                f"noise {row['noise']:8.2g}  bound {row['bound']:12.4f}  "
                f"minus dense {row['bound'] - row['dense']:9.2g}  {row['outcome']}",
                flush=True,
            )
        apart = [abs(row["bound"] - row["dense"]) for row in rows[group]]
        above = [row["bound"] - row["dense"] for row in rows[group]]
        print(
            f"{group}: {len(apart)} fits, none ended in an exception; the bound is at most "
            f"{np.nanmax(apart):.2g} nats from a dense log p(y) and at most {np.nanmax(above):.2g} "
            f"above it; median {np.median([row['seconds'] for row in rows[group]]):.1f} s a series"
        )
    studies.write(rows, options.output / "default_fits.json")
