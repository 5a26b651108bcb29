"""The tables of docs/experiments.md that come from stored runs.

    python -m stategp_experiments.page

writes them anew, each between `<!-- NAME -->` and `<!-- end -->`. The runs are docs/NAME-run.json,
as the studies wrote them; a table whose run is not stored is left alone.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stategp_experiments.airline import papers
from stategp_experiments.airline_methods import METHODS
from stategp_experiments.time_warp_run import NAMES, PLAIN
from stategp_experiments.time_warp_scores import doing_nothing
from stategp_experiments.time_warp_truth import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "experiments.md"
LABELS = {
    "paper": "the paper's",
    "staged": "staged",
    "staged-all": "staged, then all learned",
    PLAIN: "no warps",
}
ALIGNED = 0.01  # distance of a warp that counts as recovered; a period of f is 0.1
Rows = list[dict]


def stored(name: str) -> Rows:
    """The results of a stored run."""
    results: Rows = json.loads((DOCS / f"{name}-run.json").read_text())["results"]
    return results


def table(heads: list[str], lines: list[list[str]]) -> str:
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def typical(values, digits: int = 3) -> str:
    """The median, and the largest in brackets."""
    return f"{np.median(values):.{digits}f} ({np.max(values):.{digits}f})"


def time_warp(rows: Rows) -> str:
    """Removed observations and distances from the truth, by noise and schedule."""
    heads = ["noise", "schedule", "noise found", "RMSE removed", "log density"]
    nothing = ["", "doing nothing", "", "", ""]
    lines = [[*nothing, *(f"{doing_nothing()[name]:.3f}" for name in FUNCTIONS)]]
    for (noise, schedule), own in _by_fit(rows).items():
        scores = [row["score"] for row in own]
        line = [
            f"{noise:g}",
            LABELS[schedule],
            f"{np.median([row['noise found'] for row in own]):.3f}",
            typical([score["rmse"] for score in scores]),
            f"{np.median([score['log density'] for score in scores]):.2f}".replace("-", "−"),
        ]
        distances = [
            "" if schedule == PLAIN else typical([row["distance"][name] for row in own])
            for name in FUNCTIONS
        ]
        lines.append([*line, *distances])
    return table([*heads, "a₁", "a₂", "f", "g₁", "g₂"], lines)


def time_warp_claims(rows: Rows) -> str:
    """What the paper says in words, as medians."""
    heads = ["noise", "schedule", "sd inside / outside gaps", "sd of the warps", "damping (truth)"]
    lines = []
    for (noise, schedule), own in _by_fit(rows).items():
        if schedule == PLAIN:
            continue
        said = {name: np.median([row["claims"][name] for row in own]) for name in own[0]["claims"]}
        lines.append(
            [
                f"{noise:g}",
                LABELS[schedule],
                f"{said['sd inside / outside']:.2f}",
                f"{said['sd of the warps']:.4f}",
                f"{said['dampening']:.2f} ({said['true dampening']:.2f})",
            ]
        )
    return table(heads, lines)


def _by_fit(rows: Rows) -> dict[tuple[float, str], Rows]:
    groups: dict[tuple[float, str], Rows] = {}
    for row in sorted(rows, key=lambda row: (row["noise"], NAMES.index(row["schedule"]))):
        groups.setdefault((row["noise"], row["schedule"]), []).append(row)
    return groups


def airline(rows: Rows) -> str:
    """Scores by size and method, the paper's in brackets."""
    lines = []
    for (count, method), own in _by_size(rows).items():
        paper = papers(count).get(method)
        cells = []
        for score, place in (("mse", 0), ("nlpd", 2)):
            values = [row[score] for row in own]
            said = f" ({paper[place]:g} ± {paper[place + 1]:g})" if paper else ""
            cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}{said}")
        lines.append([f"{count:,} ({len(own)})", method, *cells])
    return table(["rows (repeats)", "method", "MSE (paper)", "NLPD (paper)"], lines)


def _by_size(rows: Rows) -> dict[tuple[int, str], Rows]:
    names = list(METHODS)
    groups: dict[tuple[int, str], Rows] = {}
    fits = [row for row in rows if "repeat" in row]
    for row in sorted(fits, key=lambda row: (row["rows"], names.index(row["method"]))):
        groups.setdefault((row["rows"], row["method"]), []).append(row)
    return groups


def airline_starts(rows: Rows) -> str:
    """Where Adam ends, by the noise variance it starts from."""
    starts = [row for row in rows if "start" in row]
    ends: dict[tuple[str, float], dict] = {}
    for row in sorted(starts, key=lambda row: (row["method"] != "Adam", -row["start"])):
        key = row["method"], row["start"]
        if key not in ends or row["steps"] > ends[key]["steps"]:
            ends[key] = row
    names = {"Adam": "Adam", "all rows": "all rows, L-BFGS"}
    lines = [
        [f"{start:g}", names[method], f"{row['steps']:,}"]
        + [f"{row[name]:.3f}" for name in ("noise", "mse", "nlpd")]
        for (method, start), row in ends.items()
    ]
    return table(["noise starts at", "method", "steps", "noise learned", "MSE", "NLPD"], lines)


def solar(rows: Rows) -> str:
    """Every method beside the exact GP."""
    heads = ["", "M", "bound", "KL to p", "KL of f(x)", "RMS of mean", "NLPD"]
    lines = []
    for row in rows:
        exact = row["method"] == "exact"
        bound = f"{row['bound']:.2f}".replace("-", "−")
        distances = ["0", "0", "0"]
        if not exact:
            small = row["marginal_kl"]
            digits = 2 if small >= 1 else 3 if small >= 0.01 else 4
            distances = [f"{row['loss']:.1f}", f"{small:.{digits}f}", f"{row['mean_distance']:.3f}"]
        lines.append([row["method"], f"{row['inducing']}", bound, *distances, f"{row['nlpd']:.3f}"])
    return table(heads, lines)


def phrases() -> list[str]:
    """What the text says of stored runs, as it must stand there."""
    return [
        *_about_sun_spots(stored("solar")),
        *_about_the_gap(),
        *_about_warps(stored("time-warp")),
    ]


def _about_sun_spots(rows: Rows) -> list[str]:
    runs = {(row["method"], row["inducing"]): row for row in rows}
    ours, classic, exact = (
        runs[key] for key in (("S²VGP", 60), ("SVGP", 60), ("exact", rows[0]["inducing"]))
    )
    return [
        f"mean KL of f(x) from the exact GP {classic['marginal_kl']:.1f} against "
        f"{ours['marginal_kl']:.1f}",
        f"RMS distance of the means {ours['mean_distance']:.3f} "
        f"(SVGP {classic['mean_distance']:.3f}); {runs['S²VGP', 120]['mean_distance']:.3f} with "
        f"M = 120, {runs['S²VGP', 390]['mean_distance']:.3f} with 390",
        f"learned noise variance is {ours['noise']:.4f}, that of the exact GP {exact['noise']:.4f}",
    ]


def _about_warps(rows: Rows) -> list[str]:
    fits = _by_fit(rows)
    nothing = doing_nothing()
    recovered = {
        key: sum(row["distance"]["a2"] < ALIGNED for row in own)
        for key, own in fits.items()
        if key[1] != PLAIN
    }
    calm, loud = fits[0.05, "staged"], fits[0.1, "staged"]
    if recovered[0.05, "paper"] or recovered[0.1, "paper"]:
        raise ValueError("the page says that the paper's schedule recovers nothing")
    middle = {name: np.median([row["distance"][name] for row in calm]) for name in FUNCTIONS}
    spread = [row["claims"]["sd inside / outside"] for row in calm + loud]
    return [
        f"(0 of {len(calm) + len(loud)} data sets)",
        f"in {recovered[0.05, 'staged'] + recovered[0.1, 'staged']} of {len(calm) + len(loud)}",
        f"staged in {recovered[0.1, 'staged']} of {len(loud)} data sets, at 0.05 in "
        f"{recovered[0.05, 'staged']} of {len(calm)}",
        f"it is {max(row['distance']['a2'] for row in loud):.3f} from the truth "
        f"({nothing['a2']:.3f} for the identity)",
        f"a distance of {middle['g1']:.3f} at noise 0.05, {nothing['g1']:.3f} for the identity",
        f"is further from the truth ({middle['g2']:.3f}) than",
        f"sd {min(spread):.1f} to {max(spread):.1f} times that elsewhere (staged)",
    ]


def _about_the_gap() -> list[str]:
    gap: dict = json.loads((DOCS / "audio-gap-run.json").read_text())["results"]
    sd = gap["sd of f"]
    *fifths, elsewhere = (f"{value:.3f}" for value in sd.values())
    return [
        f"N = {gap['N']:,}, M = {gap['M']}",
        f"RMSE there is {gap['RMSE']:.3f} ({gap['RMSE of zero']:.3f} if one predicts zero) and the "
        f"NLPD {gap['NLPD']:.3f} ({gap['NLPD of zero']:.3f})",
        f"on average {', '.join(fifths)} in the fifths of the stretch, from the first to the last, "
        f"and {elsewhere} where nothing is missing",
        f"Mean sd of f in the fifths of the stretch: {', '.join(fifths)}; elsewhere {elsewhere}",
    ]


TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {  # name: the stored run, the table of it
    "time-warp": ("time-warp", time_warp),
    "time-warp-claims": ("time-warp", time_warp_claims),
    "airline": ("airline", airline),
    "airline-starts": ("airline", airline_starts),
    "solar": ("solar", solar),
}


def written(text: str) -> str:
    """The page with every table as the stored runs have it."""
    for name, (run, made) in TABLES.items():
        if not (DOCS / f"{run}-run.json").exists():
            continue
        place = re.compile(rf"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
        if len(place.findall(text)) != 1:
            raise ValueError(f"{PAGE.name} must have a place for the table {name!r} once")
        fresh = made(stored(run))
        text = place.sub(lambda _, fresh=fresh: fresh, text)
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
