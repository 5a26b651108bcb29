"""Whether forecasts reach their targets, and runs that did a share of the series, joined."""

import json
import sys
from typing import NamedTuple

import numpy as np

from benchmarks import forecast_scores

RATIOS = {"hourly": 0.95, "weekly": 0.98, "monthly": 0.98}  # of the best peer's MASE, at most
COVERED = (0.93, 0.97)  # of the 95 % interval, in every group


def joined(files):
    """One run from the files of several, which must have asked the same; the last result counts.

    A stored run and a new one of some of its groups are joined, too.
    """
    runs = [json.loads(file.read_text()) for file in files]
    same = ("seed", "series", "skip", "levels")
    for file, run in zip(files, runs, strict=True):
        for name in same:
            if run.get(name) != runs[0].get(name):
                sys.exit(
                    f"forecasts: {file} has {name} {run.get(name)}, {files[0]} has "
                    f"{runs[0].get(name)}; only shares of the same series can be joined"
                )
    groups = {}
    for run in runs:
        for name, group in run["groups"].items():
            kept = groups.setdefault(name, group | {"results": {}})
            kept["results"] |= {(one["series"], one["method"]): one for one in group["results"]}
    for group in groups.values():
        group["results"] = list(group["results"].values())
    whole = {k: v for k, v in runs[0].items() if k not in ("groups", "share")}
    dates = {"date": max(run["date"] for run in runs)} if "date" in whole else {}
    return whole | dates | {"groups": groups}


def targets(run, methods):
    """A line for each group: ours against the best peer, on the series that both could forecast."""
    lines = ["Against the targets (each peer on the series that it and stategp could forecast):"]
    for name, group in run["groups"].items():
        mase, msis = (against_best(group["results"], methods, s) for s in ("mase", "msis"))
        if mase is None or msis is None:
            lines.append(f"- {name}: no forecasts to compare")
            continue
        mine = _scored(group["results"], methods[0]).values()
        covered = float(np.mean([one["coverage"] for one in mine]))
        limit = RATIOS.get(name, 1.0)
        lines.append(
            f"- {name}, {len(mine)} series: "
            f"MASE {mase.ours:.3f}, {mase.ratio:.3f} of {mase.peer}'s {mase.theirs:.3f} "
            f"(target {limit:g}: {_word(mase.ratio <= limit)}); "
            f"MSIS {msis.ours:.2f}, {msis.ratio:.3f} of {msis.peer}'s {msis.theirs:.2f} "
            f"(target 1: {_word(msis.ratio <= 1)}); "
            f"inside the 95 % interval {covered:.1%} "
            f"(target {COVERED[0]:.0%} to {COVERED[1]:.0%}: "
            f"{_word(COVERED[0] <= covered <= COVERED[1])})"
        )
    return "\n".join(lines)


def _scored(results, method):
    return {one["series"]: one for one in results if one["method"] == method and "mase" in one}


class Against(NamedTuple):
    """The peer that is best against ours, and means over the series that both could forecast."""

    peer: str
    ours: float
    ratio: float
    theirs: float


def against_best(results, methods, score="mase", our_score=None):
    """Our mean score against that of the best peer; None if there is nothing to compare."""
    scored = {method: _scored(results, method) for method in methods}
    ours, *peers = methods
    found = []
    for peer in peers:
        both = sorted(scored[ours].keys() & scored[peer].keys())
        if both:
            mine = np.mean([scored[ours][s][our_score or score] for s in both])
            theirs = np.mean([scored[peer][s][score] for s in both])
            found.append(Against(peer, float(mine), float(mine / theirs), float(theirs)))
    return max(found, key=lambda one: one.ratio, default=None)


def _word(reached):
    return "reached" if reached else "missed"


def summarised(run, methods):
    """The run with a summary of every group."""
    for group in run["groups"].values():
        group["summary"] = forecast_scores.summary(group["results"], methods)
    return run
