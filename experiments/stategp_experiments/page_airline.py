"""What docs/experiments.md says of the airline study, from its stored run."""

import numpy as np

from stategp_experiments.airline import papers
from stategp_experiments.airline_methods import METHODS
from stategp_experiments.page_parts import Rows, Sentence, said, stored, table


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


def sentences() -> list[Sentence]:
    groups = _by_size(stored("airline"))
    sizes = sorted({count for count, _ in groups})
    mse, bound = (
        {key: float(np.mean([row[name] for row in own])) for key, own in groups.items()}
        for name in ("mse", "bound")
    )
    _check(groups, sizes, mse)
    nlpd = [row["nlpd"] for row in groups[sizes[-1], "Adam"]]
    three = ("VFF", "Adam", "Adam + natural")
    few, many = ([f"{mse[count, name]:.3f}" for name in three] for count in (10_000, 1_000_000))
    ahead = [mse[count, "VFF"] - mse[count, "all rows"] for count in sizes]
    missing = {
        method: [
            f"{1.5 * (bound[count, 'all rows'] - bound[count, method]) / count:.3f}"
            for count in sizes
        ]
        for method in ("Adam", "Adam + natural")
    }
    above = [mse[count, "VFF"] - papers(count)["VFF"][0] for count in sizes[-2:]]
    return [
        ("MSE at 10⁴: VFF {}, Adam {}, Adam + natural {}; at 10⁶: {}, {}, {}.", few + many),
        (
            'Our own method ("all rows") is ahead of VFF at every size, by {} to {} |',
            [f"{min(ahead):.3f}", f"{max(ahead):.3f}"],
        ),
        (
            "MSE at 10⁴: {}, Adam {}; with rates of our own {} |",
            [few[2], few[1], f"{mse[10_000, 'our rates']:.3f}"],
        ),
        (
            "MSE at 10⁵ {}, Adam {}; at 10⁶ {} and {} |",
            [f"{mse[100_000, name]:.3f}" for name in ("Adam + natural", "Adam")] + many[:0:-1],
        ),
        ("| {} ± {}; how Adam can fail", [f"{np.mean(nlpd):.3f}", f"{np.std(nlpd):.3f}"]),
        ("({} flights with a known aircraft)", [f"{sizes[-1]:,}"]),
        (
            'less than that of "all rows" by {}, {}, {} and {} nats for each training row (Adam: '
            "{}, {}, {} and {})",
            missing["Adam + natural"] + missing["Adam"],
        ),
        ("above the paper's by {} and {}", [f"{value:.3f}" for value in above]),
        (
            "ahead by {} and {} in MSE there;",
            [f"{value:.3f}" for value in ahead[-2:]],
        ),
    ]


def _check(groups: dict[tuple[int, str], Rows], sizes: list[int], mse: dict) -> None:
    """What the page's verdicts rest on."""
    for count in sizes[:2]:
        for method, (theirs, deviation, *_) in papers(count).items():
            near = abs(mse[count, method] - theirs) <= deviation
            said(near, f"{method} is within the paper's deviation at {count}")
    for count in sizes:
        ours = {name: mse[count, name] for name in METHODS}
        said(ours["all rows"] < ours["VFF"], "all rows are ahead of VFF at every size")
        said(ours["Adam + natural"] > max(ours["Adam"], ours["VFF"]), "Adam + natural is last")
        said((ours["Adam"] < ours["VFF"]) == (count > 10_000), "Adam passes VFF above 10⁴")
        nlpd = {name: np.mean([row["nlpd"] for row in groups[count, name]]) for name in METHODS}
        said(nlpd["all rows"] < min(nlpd.values()) + 5e-4, "the NLPD of all rows is the least")
    said(max(row["nlpd"] for own in groups.values() for row in own) < 2, "no run of Adam fails")
