"""The tables of docs/forecasting.md, written from the runs that are stored beside it."""

import json
import sys
from pathlib import Path

import numpy as np

from benchmarks import forecast_targets
from benchmarks.forecast_scores import THIRDS
from benchmarks.forecast_series import PEERS, USUAL
from stategp._runtime import replacing

TIMES = ("seconds", "fit_seconds", "import_seconds")
DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "forecasting.md"
METHODS = ("stategp", *PEERS)
DEVELOPED, FRESH = "forecasts-run.json", "forecasts-fresh-run.json"
LAST, YEARS = "forecasts-last-run.json", "forecasts-years-run.json"
_SKIPPED = {0: DEVELOPED, 40: FRESH}


def stored_as(run):
    """The file of a run: series that were skipped when others were made are fresh ones."""
    if not set(run["groups"]) & set(USUAL):
        return DOCS / YEARS
    return DOCS / _SKIPPED.get(run.get("skip", 0), LAST)


def peers_kept(run, name):
    """Scores of peers for a group of the stored run; it must have asked the same."""
    file = stored_as(run | {"groups": [name]})
    stored = json.loads(file.read_text())
    for what in ("seed", "series", "skip", "levels"):
        if stored.get(what) != run[what]:
            sys.exit(
                f"forecasts: {file.name} has {what} {stored.get(what)}, not {run[what]}: peers can "
                "be kept for the same series only; leave --keep-peers out"
            )
    used = {"versions": stored["versions"]["peers"]}
    results = stored["groups"].get(name, {}).get("results", [])
    return [one | used for one in results if one["method"] in PEERS]


def with_seconds_kept(run):
    """The run with our seconds of the stored one, for a machine that is busy with other things."""
    stored = json.loads(stored_as(run).read_text())
    ours = METHODS[0]
    seconds = {
        (name, one["series"]): {k: one[k] for k in TIMES if k in one}
        for name, group in stored["groups"].items()
        for one in group["results"]
        if one["method"] == ours
    }
    groups = {}
    for name, group in run["groups"].items():
        results = [
            one | seconds[name, one["series"]] if one["method"] == ours else one
            for one in group["results"]
        ]
        groups[name] = group | {"results": results}
    measured = stored.get("seconds_measured", stored["date"])
    return run | {"seconds_measured": measured, "groups": groups}


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
    for name, score in (("our MASE", "mase"), ("that of our median", "mase_median")):
        best = [
            forecast_targets.against_best(group["results"], METHODS, our_score=score)
            for group in groups.values()
        ]
        rows.append(
            [f"{name}, in that of the best peer"]
            + [f"{found.ratio:.3f} ({found.peer})" if found else "–" for found in best]
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
    thirds = ", ".join(f"{100 * np.mean([one[third] for one in found]):.0f}" for third in THIRDS)
    return f"{mase:.2f}, {100 * inside:.1f} % ({thirds}), {msis:.1f}, {seconds:.2g} s"
