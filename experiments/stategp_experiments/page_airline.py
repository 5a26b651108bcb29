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
    rows = stored("airline")
    groups = _by_size(rows)
    sizes = sorted({count for count, _ in groups})
    most = sizes[-1]
    mse = {key: float(np.mean([row["mse"] for row in own])) for key, own in groups.items()}
    nlpd = [row["nlpd"] for row in groups[most, "Adam"]]
    _check(groups, sizes)
    three = ("VFF", "Adam", "Adam + natural")
    few, many = ([f"{mse[count, name]:.3f}" for name in three] for count in (10_000, 1_000_000))
    ahead = [mse[count, "VFF"] - mse[count, "all rows"] for count in sizes]
    return [
        ("MSE at 10⁴: VFF {}, Adam {}, Adam + natural {}; at 10⁶: {}, {}, {}.", few + many),
        (
            'Our own method ("all rows") is ahead of VFF at every size, by {} to {}',
            [f"{min(ahead):.3f}", f"{max(ahead):.3f}"],
        ),
        ("MSE at 10⁴: {}, Adam {} |", [few[2], few[1]]),
        (
            "MSE at 10⁶: {}, Adam {}; all rows at once {}",
            [many[2], many[1], f"{mse[1_000_000, 'all rows']:.3f}"],
        ),
        ("| {} ± {}; how Adam can fail", [f"{np.mean(nlpd):.3f}", f"{np.std(nlpd):.3f}"]),
        ("({} flights with a known aircraft)", [f"{most:,}"]),
    ]


def _check(groups: dict[tuple[int, str], Rows], sizes: list[int]) -> None:
    """What the page's verdicts rest on."""
    mean = {key: np.mean([row["mse"] for row in own]) for key, own in groups.items()}
    for count in sizes:
        for method, (theirs, deviation, *_) in papers(count).items():
            near = abs(mean[count, method] - theirs) <= deviation
            if count <= 100_000:
                said(near, f"the table is within the paper's deviation at {count} ({method})")
    said(
        all(mean[count, "all rows"] < mean[count, "VFF"] for count in sizes),
        "all rows are ahead of VFF at every size",
    )
    said(
        mean[10_000, "Adam + natural"] < mean[10_000, "Adam"],
        "natural gradients are ahead of Adam at 10⁴",
    )
    said(
        max(row["nlpd"] for own in groups.values() for row in own) < 2,
        "no run of Adam fails",
    )
