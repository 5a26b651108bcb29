"""The tables of docs/forecasting.md, written from the runs that are stored beside it."""

from pathlib import Path

import numpy as np

from benchmarks import forecast_targets
from benchmarks.forecast_series import PEERS
from stategp._runtime import replacing

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "forecasting.md"
METHODS = ("stategp", *PEERS)
DEVELOPED, FRESH = "forecasts-run.json", "forecasts-fresh-run.json"


def stored_as(run):
    """The file of a run: series that were skipped when another was made are fresh ones."""
    return DOCS / (FRESH if run.get("skip") else DEVELOPED)


def rewrite(run):
    """The page with the table of this run in the place of the one before."""
    text = with_table(PAGE.read_text(), run)
    with replacing(PAGE) as written:
        written.write(text.encode())


def with_table(text, run):
    """The text of the page with the table of a run between the marks that name its file."""
    before, after = marks(run)
    start, end = text.index(before) + len(before), text.index(after)
    return f"{text[:start]}\n\n{table(run)}\n\n{text[end:]}"


def marks(run):
    name = stored_as(run).name
    return f"<!-- {name} -->", f"<!-- end of {name} -->"


def table(run):
    """A row for each method; how our MASE compares with that of the best peer below."""
    groups = run["groups"]
    heads = [f"{name}, {_count(group)} series" for name, group in groups.items()]
    rows = [["", *heads], ["---"] * (len(heads) + 1)]
    for method in METHODS:
        rows.append([method, *(_cell(group["results"], method) for group in groups.values())])
    best = [forecast_targets.against_best(group["results"], METHODS) for group in groups.values()]
    rows.append(
        ["our MASE, in that of the best peer"]
        + [f"{found.ratio:.2f} ({found.peer})" if found else "–" for found in best]
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _count(group):
    return len({one["series"] for one in group["results"]})


def _cell(results, method):
    found = [one for one in results if one["method"] == method and "mase" in one]
    if not found:
        return "–"
    mase, inside, msis = (np.mean([one[n] for one in found]) for n in ("mase", "coverage", "msis"))
    seconds = np.median([one["seconds"] for one in found])
    return f"{mase:.2f}, {100 * inside:.1f} %, {msis:.1f}, {seconds:.2g} s"
