"""Trees in a rainforest: counts on a grid, one side taken as time and the other as space.

    stategp-experiments rainforest [--columns 20 50] [--folds 10] [--places 25] [--quick]
        [--q joint] [--from FOLDER] [--store docs] [--output experiments/results]

Counts of one species in a grid of 200 cells along 1000 m and so many along 500 m; Poisson,
Matérn-3/2 in both directions, hyperparameters learned from variance 1 and lengthscales of 10 m.
Prints the NLPD of the cells left out and the seconds that a step of q takes, draws the intensity.
`--from` takes what single runs (`python -m stategp_experiments.rainforest_run`) have written, and
`--store docs` adds the results to those of docs/rainforest-run.json and to the table of the page.
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import studies
from stategp_experiments.rainforest_run import SIDES, one

STEPS = 6
OF_A_GRID = ("rows", "columns", "places", "q")
LEARNED = ("explained", "lengthscale in space", "lengthscale in time", "variance")


def gathered(rows: list[dict]) -> list[dict]:
    """Single runs as one row for each grid and model: folds in order, means, standard errors."""
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in OF_A_GRID)].append(row)
    found = []
    for key, runs in sorted(groups.items()):
        row = dict(zip(OF_A_GRID, key, strict=True))
        folds = sorted((run for run in runs if "fold" in run), key=lambda run: run["fold"])
        if folds:
            row |= {"folds": [run["fold"] for run in folds], "nlpd": [run["nlpd"] for run in folds]}
            row |= {name: float(np.mean([run[name] for run in folds])) for name in LEARNED}
            row["converged"] = all(run["converged"] for run in folds)
        for run in runs:
            row |= {n: run[n] for n in ("seconds per step", "gigabytes", "map") if n in run}
        found.append(row)
    return found


def merged(stored: list[dict], found: list[dict]) -> list[dict]:
    """Rows of an earlier run with what was found since: folds come together, times are replaced."""
    rows = {tuple(row[name] for name in OF_A_GRID): dict(row) for row in stored}
    for new in found:
        key = tuple(new[name] for name in OF_A_GRID)
        old = rows.get(key, {})
        row = old | new
        if old.get("folds") and new.get("folds"):
            again = sorted(set(old["folds"]) & set(new["folds"]))
            if again:
                raise ValueError(f"folds {again} of {key} are stored already")
            scores = dict(zip(old["folds"] + new["folds"], old["nlpd"] + new["nlpd"], strict=True))
            row |= {"folds": sorted(scores), "nlpd": [scores[fold] for fold in sorted(scores)]}
            counts = [len(old["folds"]), len(new["folds"])]
            for name in LEARNED:
                row[name] = float(np.average([old[name], new[name]], weights=counts))
            row["converged"] = old["converged"] and new["converged"]
        rows[key] = row
    return [rows[key] for key in sorted(rows)]


def table(rows: list[dict]) -> str:
    """As docs/space-time.md has it."""
    lines = [
        "| cells | inducing places | q | folds | NLPD | seconds per step |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        folds = nlpd = seconds = "–"
        if "nlpd" in row:
            mean, error = mean_and_error(row["nlpd"])
            folds, nlpd = str(len(row["folds"])), f"{mean:.3f} ± {error:.3f}"
        if "seconds per step" in row:
            seconds = f"{row['seconds per step']:.2f}"
        grid = f"{row['rows']} × {row['columns']} | {row['places']} | {row['q']}"
        lines.append(f"| {grid} | {folds} | {nlpd} | {seconds} |")
    return "\n".join(lines)


def store(found: list[dict], about: dict, docs: Path) -> None:
    """Add results to docs/rainforest-run.json, and write the table of docs/space-time.md anew."""
    path, page = docs / "rainforest-run.json", docs / "space-time.md"
    whole = json.loads(path.read_text(encoding="utf-8"))
    before, whole["results"] = table(whole["results"]), merged(whole["results"], found)
    grids = [[row[name] for name in OF_A_GRID] for row in found]
    whole["added"] = [*whole.get("added", []), about | {"grids": grids}]
    text = page.read_text(encoding="utf-8")
    if before not in text:
        raise ValueError(f"{page} does not have the table of {path}")
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    page.write_text(text.replace(before, table(whole["results"])), encoding="utf-8")


def mean_and_error(scores: list[float]) -> tuple[float, float]:
    """The mean over folds and its standard error (NaN for a single one)."""
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan
    return float(np.mean(scores)), spread / math.sqrt(len(scores))


def line(row: dict) -> str:
    mean, error = mean_and_error(row["nlpd"]) if "nlpd" in row else (math.nan, math.nan)
    return (
        f"{row['rows']:5d} × {row['columns']:<4d} {row['places']:6d}  {row['q']:8}"
        f"{len(row.get('folds', [])):5d}  {mean:.4f} ± {error:.4f} "
        f"{row.get('seconds per step', math.nan):17.3f}"
    )


def picture(row: dict, folder: Path, path: Path) -> None:
    data = sg.data.rainforest(row["columns"], rows=row["rows"])
    with np.load(folder / row["map"]) as seen:
        mean, sd = seen["mean"].astype(float), seen["sd"].astype(float)
    cell = math.prod(SIDES) / math.prod(data.shape)
    intensity = np.exp(mean + sd**2 / 2) / cell * 1e4
    counted = data.y.reshape(data.shape) / cell * 1e4
    most = np.quantile(intensity, 0.998)
    figure, axes = studies.plt.subplots(3, 1, figsize=(7.5, 9.6), layout="constrained")
    panels = [
        (counted, "counted", "viridis", 0.0, most, "trees per hectare"),
        (intensity, "intensity", "viridis", 0.0, most, "trees per hectare"),
        (sd, "standard deviation of its logarithm", "magma", None, None, ""),
    ]
    for axis, (image, title, colours, low, high, label) in zip(axes, panels, strict=True):
        drawn = axis.imshow(
            image.T, origin="lower", extent=(0, SIDES[0], 0, SIDES[1]), vmin=low, vmax=high,
            cmap=colours, interpolation="nearest",
        )  # fmt: skip
        figure.colorbar(drawn, ax=axis, label=label, extend="max" if high else "neither", pad=0.02)
        axis.set_title(title, loc="left")
        axis.set_ylabel("m")
    axes[-1].set_xlabel("m, taken as time")
    studies.save(figure, path)


def runs(options: argparse.Namespace) -> list[dict]:
    """Every fold, the time of a step and the map of each grid, one after another."""
    found = []
    for columns in options.columns:
        grid = {"rows": options.rows, "columns": columns, "places": options.places, "q": options.q}
        nothing = {"fold": None, "steps": None, "map": False}
        out = options.output / f"rainforest-{columns}.json"
        tasks = [{"fold": fold} for fold in range(options.folds)]
        for task in [*tasks, {"steps": STEPS}, {"map": True}]:
            found.append(one(argparse.Namespace(**grid, **(nothing | task), out=out)))
            if "nlpd" in found[-1]:
                print(f"  fold {task['fold']}: NLPD {found[-1]['nlpd']:.4f}", flush=True)
    return found


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="a grid of 12 × 5 cells, one fold")
    parser.add_argument("--columns", type=int, nargs="+", default=[20, 50], help="%(default)s")
    parser.add_argument("--rows", type=int, default=200, help="%(default)s")
    parser.add_argument("--folds", type=int, default=10, help="how many of ten (%(default)s)")
    parser.add_argument("--places", type=int, default=25, help="at most (%(default)s)")
    parser.add_argument("--q", choices=["joint", "product"], default="joint")
    parser.add_argument("--from", dest="source", type=Path, metavar="FOLDER")
    parser.add_argument("--store", type=Path, metavar="DOCS", help="the folder docs of a checkout")
    options = parser.parse_args(arguments)
    if options.quick:
        options.columns, options.rows, options.folds, options.places = [5], 12, 1, 3
    options.output.mkdir(parents=True, exist_ok=True)
    rows, about = studies.collect(options.source) if options.source else (runs(options), None)
    results = gathered(rows)
    print("cells        places  q        folds  NLPD             seconds per step")
    print(*map(line, results), sep="\n")
    studies.write(results, options.output / "rainforest.json", about)
    if options.store:
        store(results, about or studies.machine(), options.store)
    for row in results:
        if "map" in row:
            name = f"rainforest-{row['rows']}x{row['columns']}.png"
            picture(row, options.source or options.output, options.output / name)
