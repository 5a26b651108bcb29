"""Fields over space and time: `python -m benchmarks.fields` (minutes; `--quick`: seconds).

Seconds for one step of q against the number of places that were observed and of inducing places,
for both forms of q: counts on a grid of times and places, and, in the last rows, as many counts at
places and times that are all different. Hyperparameters are fixed. With `--store` the run goes to
docs/fields-run.json and its table to docs/space-time.md.
"""

import argparse
import datetime
import json
import warnings
from pathlib import Path

import numpy as np

import stategp as sg
from benchmarks.__main__ import machine
from benchmarks.blocks import write_block

STORED = Path(__file__).parent.parent / "docs" / "fields-run.json"
STEPS = 6
TIMES = 200
GRIDS = [  # places observed, inducing places, q
    *((columns, 25, q) for columns in (25, 100, 500) for q in ("joint", "product")),
    (200, 50, "joint"), (200, 50, "product"), (200, 100, "joint"), (200, 100, "product"),
    (200, 200, "product"),
]  # fmt: skip


def counts(columns: int, *, scattered: bool) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    times, places = np.arange(float(TIMES)), np.linspace(0, 100, columns)
    when, where = np.repeat(times, columns), np.tile(places, TIMES)
    if scattered:
        when, where = random.uniform(0, TIMES, when.size), random.uniform(0, 100, where.size)
    rate = 1 + np.sin(when / 9) * np.cos(where / 7 + when / 30)
    return (when, where[:, None]), random.poisson(rate).astype(float)


def timed(columns: int, inducing: int, q: str, *, scattered: bool = False) -> dict:
    """The median time of a step, after everything has been compiled."""
    x, y = counts(columns, scattered=scattered)
    anchors = (np.arange(inducing) + 0.5) * 100 / inducing
    model = sg.SpaceTimeGP(
        sg.spatial.Matern32(lengthscale=8.0),
        sg.kernels.Matern32(lengthscale=15.0),
        "poisson",
        places=anchors,
        q=q,
    )
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            posterior = sg.condition(model, x, y, max_steps=STEPS, inducing=TIMES)
    took = np.diff(posterior.fit_result.seconds)
    row = {
        "rows": len(y),
        "grid": None if scattered else [TIMES, columns],
        "inducing places": inducing,
        "q": q,
        "seconds": float(np.median(took)),
        "seconds of each": took.tolist(),
    }
    print(cells(row), flush=True)
    return row


def cells(row: dict) -> str:
    grid = "scattered" if row["grid"] is None else "{} × {}".format(*row["grid"])
    numbers = f"{row['rows']:,} | {grid} | {row['inducing places']} | {row['q']}"
    return f"| {numbers} | {row['seconds']:.3f} |"


def page(run: dict) -> str:
    """What docs/space-time.md says of a run."""
    about = run["machine"]
    lines = [
        f"On {about['cores']} cores of an {about['processor'].split(' Processor')[0]}, with "
        f"{TIMES} inducing times and Matérn-3/2 kernels (`python -m benchmarks.fields`, "
        "[numbers](fields-run.json)):",
        "",
        "| counts | times × places | inducing places | q | seconds per step |",
        "|---|---|---|---|---|",
    ]
    return "\n".join(lines + [cells(row) for row in run["results"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} and the page")
    arguments = parser.parse_args()
    grids = [(20, 5, q) for q in ("joint", "product")] if arguments.quick else GRIDS
    found = [timed(*grid) for grid in grids]
    last = (20, 5, "joint") if arguments.quick else (100, 25, "joint")
    found.append(timed(*last, scattered=True))
    about = {"date": datetime.date.today().isoformat(), "machine": machine()}
    run = about | {"version": sg.__version__, "results": found}
    print("\n" + page(run))
    if arguments.store:
        STORED.write_text(json.dumps(run, indent=1) + "\n")
        write_block("space-time.md", "fields", page(run))


if __name__ == "__main__":
    main()
