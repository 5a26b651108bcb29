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


def additive(rows: Rows) -> str:
    """Scores and times of the default method."""
    lines = []
    for (count, method), own in _by_size(rows).items():
        if method == "all rows":
            scores = [[row[name] for row in own] for name in ("mse", "nlpd")]
            seconds = [row["seconds"] for row in own]
            repeats = f"{count:,}, {len(own)} repeats"
            cells = [f"{np.mean(values):.3f} ± {np.std(values):.3f}" for values in scores]
            lines.append([repeats, *cells, f"{np.mean(seconds):.0f} s ({seconds[0]:.0f} s)"])
    return table(["rows (2/3 to train)", "MSE", "NLPD", "time (of the first)"], lines)


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


def apart(
    groups: dict, count: int, one: str, other: str, score: str = "mse"
) -> tuple[float, float]:
    """How far the second is ahead of the first: the mean over splits, and its standard error."""
    scores = ({row["repeat"]: row[score] for row in groups[count, name]} for name in (one, other))
    first, second = scores
    differences = np.array([first[repeat] - second[repeat] for repeat in sorted(first)])
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def is_ahead(groups: dict, count: int, behind: str, ahead: str) -> bool:
    """The one standard of the page, for all sizes."""
    mean, error = apart(groups, count, behind, ahead)
    return mean > AHEAD * error


def sentences() -> list[Sentence]:
    rows = stored("airline")
    groups = _by_size(rows)
    sizes = sorted({count for count, _ in groups})
    mse, bound = (
        {key: float(np.mean([row[name] for row in own])) for key, own in groups.items()}
        for name in ("mse", "bound")
    )
    _check(groups, sizes, mse, bound)
    nlpd = [row["nlpd"] for row in groups[sizes[-1], "Adam"]]
    three = ("VFF", "Adam", "Adam + natural")
    few, many = ([f"{mse[count, name]:.3f}" for name in three] for count in (10_000, 1_000_000))
    gaps = {count: apart(groups, count, "VFF", "all rows") for count in sizes}
    clear = [gaps[count][0] for count in sizes if count != 100_000]
    split = [
        one["mse"] > other["mse"]
        for one, other in zip(groups[100_000, "VFF"], groups[100_000, "all rows"], strict=True)
    ]
    missing = {
        method: [
            f"{1.5 * (bound[count, 'all rows'] - bound[count, method]) / count:.3f}"
            for count in sizes
        ]
        for method in ("Adam", "Adam + natural")
    }
    above = [mse[count, "VFF"] - papers(count)["VFF"][0] for count in sizes[-2:]]
    low = [row for row in rows if row.get("start") == 0.001 and row["method"] == "Adam"]
    worst, last = max(row["nlpd"] for row in low), max(low, key=lambda row: row["steps"])
    theirs = papers(sizes[-1])["Adam"]
    one, second, noise = _what_fails()
    million, all_rows = (
        [papers(count)["VFF"][0] - papers(count)[name][0] for name in ("Adam", "Adam + natural")]
        for count in sizes[-2:]
    )
    return [
        ("MSE at 10⁴: VFF {}, Adam {}, Adam + natural {}; at 10⁶: {}, {}, {}.", few + many),
        (
            'Our own method ("all rows") is ahead of VFF by {} to {} at three of the sizes; at 10⁵ '
            "it is so in {} of {} splits, by {} with a standard error of {}: not shown |",
            [
                f"{min(clear):.3f}",
                f"{max(clear):.3f}",
                f"{sum(split)}",
                f"{len(split)}",
                *(f"{value:.4f}" for value in gaps[100_000]),
            ],
        ),
        (
            "MSE at 10⁴: {}, Adam {}; with rates of our own {} |",
            [few[2], few[1], f"{mse[10_000, 'our rates']:.3f}"],
        ),
        (
            "MSE at 10⁵ {}, Adam {}; at 10⁶ {} and {} |",
            [f"{mse[100_000, name]:.3f}" for name in ("Adam + natural", "Adam")] + many[:0:-1],
        ),
        (
            "| {} ± {} in {} runs; if one run in ten fails, {} runs show none with probability "
            "{} |",
            [
                f"{np.mean(nlpd):.3f}",
                f"{np.std(nlpd):.3f}",
                f"{len(nlpd)}",
                f"{len(nlpd)}",
                f"{0.9 ** len(nlpd):.2f}",
            ],
        ),
        ("NLPD of Adam at the largest size {} ± {} |", [f"{theirs[2]:g}", f"{theirs[3]:g}"]),
        ("exceeds {} times its standard error", [f"{AHEAD}"]),
        ("({} flights with a known aircraft)", [f"{sizes[-1]:,}"]),
        (
            'less than that of "all rows" by {}, {}, {} and {} nats for each training row (Adam: '
            "{}, {}, {} and {})",
            missing["Adam + natural"] + missing["Adam"],
        ),
        ("above the paper's by {} and {}", [f"{value:.3f}" for value in above]),
        (
            "ahead by {} and {} in MSE there;",
            [f"{gaps[count][0]:.3f}" for count in sizes[-2:]],
        ),
        (
            "S²VGP is ahead by {} to {} at 10⁶ rows, and between {} ahead and {} behind at 6 "
            "million",
            [f"{value:.2g}" for value in sorted(million)]
            + [f"{max(all_rows):.2g}", f"{-min(all_rows):.2g}"],
        ),
        (
            "needs one near {} (and perhaps a second near {}), and such an NLPD with such an MSE "
            "requires s near {}:",
            [f"{one:.0f}", f"{second:.0f}", f"{noise:.1g}"],
        ),
        ("None of these runs comes near {}.", [f"{one:.0f}"]),
        (
            "size has an MSE of {} and an NLPD of {} ± {}.",
            [f"{theirs[0]:g}", f"{theirs[2]:g}", f"{theirs[3]:g}"],
        ),
        ("a mean of {} with a deviation of {}", [f"{theirs[2]:g}", f"{theirs[3]:g}"]),
        (
            "From 0.001 the NLPD rises to {} and is {} after {} steps, with the mean in place all "
            "the while (an MSE of {})",
            [
                f"{worst:.1f}",
                f"{last['nlpd']:.1f}",
                f"{last['steps']:,}",
                f"{last['mse']:.2f}",
            ],
        ),
    ]


def _what_fails() -> tuple[float, float, float]:
    """NLPDs of two of the paper's ten runs that give its mean and deviation, and the noise
    variance that the first needs: with error m on average, the NLPD is near m/2s."""
    runs, paper = 10, papers(6_000_000)
    error, _, mean, deviation = paper["Adam"]
    sound = paper["Adam + natural"][2]
    one = sound + deviation * runs / np.sqrt(runs - 1)
    second = runs * mean - one - (runs - 2) * sound
    return one, second, error / 2 / one


AHEAD = 2  # standard errors of the mean difference on the same splits


def _check(groups: dict[tuple[int, str], Rows], sizes: list[int], mse: dict, bound: dict) -> None:
    """What the page's verdicts rest on."""
    for count in sizes[:2]:
        for method, (theirs, deviation, *_) in papers(count).items():
            near = abs(mse[count, method] - theirs) <= deviation
            said(near, f"{method} is within the paper's deviation at {count}")
    for count in sizes:
        ahead = is_ahead(groups, count, "VFF", "all rows")
        said(ahead == (count != 100_000), "all rows are ahead of VFF except at 10⁵")
        for name in ("Adam", "VFF"):
            last = is_ahead(groups, count, "Adam + natural", name)
            said(last, f"Adam + natural is behind {name}")
        first, second = ("VFF", "Adam") if count > 10_000 else ("Adam", "VFF")
        said(is_ahead(groups, count, first, second), "Adam passes VFF above 10⁴")
        nlpd = {name: np.mean([row["nlpd"] for row in groups[count, name]]) for name in METHODS}
        said(nlpd["all rows"] < min(nlpd.values()) + 5e-4, "the NLPD of all rows is the least")
    said(bound[10_000, "Adam + natural"] > bound[10_000, "Adam"], "its bound is above at 10⁴")
    said(is_ahead(groups, 10_000, "Adam", "our rates"), "our rates are ahead of Adam at 10⁴")
    said(max(row["nlpd"] for own in groups.values() for row in own) < 2, "no run of Adam fails")
