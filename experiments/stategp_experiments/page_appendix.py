"""What docs/experiments.md says of the studies of the paper's appendix, from stored runs."""

import numpy as np

from stategp_experiments import classification, complexity, natural_gradients
from stategp_experiments.page_parts import Rows, Sentence, milliseconds, said, stored, table

SHOWN = natural_gradients.SHOWN


def natural(rows: Rows) -> str:
    """Nats below the best bound, and the time to come near it: medians."""
    runs = [natural_gradients.Short(**row) for row in rows]
    lines = []
    for likelihood in natural_gradients.MODELS:
        for name, mine in natural_gradients.shown(runs, likelihood).items():
            below = [np.median([run.after(step) for run in mine]) for step in SHOWN]
            quick = fastest(runs, likelihood) if name in natural_gradients.ADAM else name
            near = _reach(runs, likelihood, quick)
            reached = milliseconds(near) if np.isfinite(near) else "not in 1,000 steps"
            if np.isfinite(near) and quick != name:
                reached += f" with {quick}"
            lines.append([f"{likelihood}: {name}", *map(_small, below), reached])
    heads = ["", *(f"step {step}" for step in SHOWN), "ms until within 0.1 nats"]
    return table(heads, lines)


def _reach(runs: list[natural_gradients.Short], likelihood: str, method: str) -> float:
    own = [run for run in runs if (run.likelihood, run.method) == (likelihood, method)]
    return float(np.median([run.near() for run in own]))


def fastest(runs: list[natural_gradients.Short], likelihood: str) -> str:
    """The rate of Adam that comes near the optimum first."""
    rates = [name for name in natural_gradients.ADAM if any(run.method == name for run in runs)]
    return min(rates, key=lambda name: _reach(runs, likelihood, name))


def _small(value: float) -> str:
    return (
        f"{value:.3g}" if 1 <= value < 1000 else f"{value:.2g}".replace("+0", "").replace("-0", "-")
    )


def _about_natural_gradients() -> list[Sentence]:
    runs = [natural_gradients.Short(**row) for row in stored("natural-gradients")]
    gaussian, heavy = (natural_gradients.shown(runs, name) for name in natural_gradients.MODELS)
    left = np.median([run.after(100) for run in gaussian["L-BFGS"]])
    ours, theirs = (_reach(runs, "Student-t", name) for name in ("natural gradients", "L-BFGS"))
    adam = _reach(runs, "Student-t", fastest(runs, "Student-t"))
    said(adam < theirs, "Adam at its fastest rate is faster than L-BFGS")
    steps = np.median([run.after(20) for run in heavy["natural gradients"]])
    said(steps < 1e-6, "natural gradients are at the optimum after some ten steps")
    first = np.median([run.after(1) for run in gaussian["natural gradients"]])
    said(first < 1e-6, "one step is enough in the conjugate case")
    return [
        ("one step; L-BFGS is {} nats away after 100 |", [f"{left:.1f}"]),
        (
            "some ten steps, {} times faster than L-BFGS and {} times faster than Adam at the best "
            "of its rates |",
            [f"{theirs / ours:.0f}", f"{adam / ours:.0f}"],
        ),
    ]


NAMES = {
    "S²VGP (M = 50)": "S²VGP (M = 50), natural gradients",
    "S²VGP (M = 50, L-BFGS)": "S²VGP (M = 50), L-BFGS as in the paper",
    "S²VGP (M = N)": "S²VGP (M = N), natural gradients",
}


def _of_labels(rows: Rows) -> dict[tuple[str, str], Rows]:
    groups: dict[tuple[str, str], Rows] = {}
    for row in rows:
        groups.setdefault((row["method"], row["labels"]), []).append(row)
    return groups


def labels(rows: Rows) -> str:
    """NLPD and seconds of every method, beside the paper's."""
    groups = _of_labels(rows)
    lines = []
    for method in classification.METHODS:
        both = [groups[method, kind] for kind in ("sign", "drawn")]
        scores = [np.array([row["nlpd"] for row in own]) for own in both]
        seconds = [f"{np.mean([row['seconds'] for row in own]):.2g}" for own in both]
        paper = classification.PAPER.get(method, "").split()
        theirs = [" ".join(paper[:3]), paper[3]] if paper else ["", ""]
        nlpd = [f"{score.mean():.4f} ± {score.std():.3f}" for score in scores]
        lines.append([NAMES.get(method, method), *nlpd, ", ".join(seconds), *theirs])
    heads = ["", "NLPD, sign", "NLPD, drawn", "seconds", "paper: NLPD", "seconds"]
    return table(heads, lines)


def _about_labels() -> list[Sentence]:
    groups = _of_labels(stored("paper-classification"))
    nlpd = {key: np.mean([row["nlpd"] for row in own]) for key, own in groups.items()}
    seconds = {
        method: f"{np.mean([row['seconds'] for row in groups[method, 'sign']]):.2g}"
        for method in classification.METHODS
    }
    papers_nlpd = classification.PAPER["Laplace"].split()[0]
    dense = [nlpd[name, "sign"] for name in ("Laplace", "EP", "VB")]
    ours = "S²VGP (M = 50)"
    quick, slow = float(seconds[ours]), float(seconds["S²VGP (M = 50, L-BFGS)"])
    said(quick < float(seconds["VB"]) / 2, "natural gradients are faster than EP and VB")
    said(slow > 0.9 * float(seconds["EP"]), "L-BFGS is as slow as EP")
    short = [
        best["evidence"] - stopped["evidence"]
        for kind in ("sign", "drawn")
        for best, stopped in zip(
            groups[ours, kind], groups["S²VGP (M = 50, L-BFGS)", kind], strict=True
        )
    ]
    return [
        (
            "| {} against {} to {} |",
            [f"{nlpd[ours, 'sign']:.4f}", f"{min(dense):.4f}", f"{max(dense):.4f}"],
        ),
        (
            "{} or {}, depending on how labels are drawn",
            [f"{nlpd[ours, 'sign']:.3f}", f"{nlpd[ours, 'drawn']:.3f}"],
        ),
        (
            "L-BFGS {} s (and not there: it is stopped after {} steps), natural gradients {} s; "
            "Laplace {}, EP {}, VB {} s",
            [
                seconds["S²VGP (M = 50, L-BFGS)"],
                f"{classification.METHODS['S²VGP (M = 50, L-BFGS)']['max_steps']}",
                seconds[ours],
                *(seconds[name] for name in ("Laplace", "EP", "VB")),
            ],
        ),
        (
            "its bound is then {} to {} nats below the optimum",
            [f"{min(short):.2f}", f"{max(short):.2f}"],
        ),
        ("| Classification: NLPD {} |", [papers_nlpd]),
        ("The value {} itself", [papers_nlpd]),
        (
            "(the best that any predictor could expect is {} and {})",
            [f"{classification.best_nlpd(kind):.3f}" for kind in ("sign", "drawn")],
        ),
    ]


GROWING = {
    "VGP (dense)": "VGP, dense",
    "VGP (banded)": "VGP, banded",
    "S²VGP (summed up)": "S²VGP, Gaussian data reduced to sums",
}


def exponents(rows: Rows) -> str:
    """How time and storage grow, beside the paper's exponents."""
    points = [complexity.Point(**row) for row in rows]
    lines = []
    for method, paper in complexity.PAPER.items():
        cells = [
            _exponent(complexity.along(points, method, ladder), what, told.get(ladder))
            for what, told in (
                ("seconds", paper.time_exponents),
                ("bytes", paper.storage_exponents),
            )
            for ladder in "NMd"
        ]
        theirs = f"{paper.time}, {paper.storage}" if paper.time != "-" else ""
        lines.append([GROWING.get(method, method), theirs, *cells])
    return table(
        ["", "paper: time, storage", "time in N", "in M", "in d", "storage in N", "in M", "in d"],
        lines,
    )


def _exponent(points: list[complexity.Point], what: str, told: str | None) -> str:
    if not points:
        return ""
    value = f"{round(complexity.exponent(points, what), 2) + 0.0:.2f}"
    return value + (f" ({told.replace('-', '–')})" if told else "")


def _about_complexity() -> list[Sentence]:
    points = [complexity.Point(**row) for row in stored("complexity")]
    found = {
        (method, ladder): complexity.exponent(complexity.along(points, method, ladder), "seconds")
        for method in ("SVGP", "VGP (banded)", "S²VGP")
        for ladder in "NMd"
        if complexity.along(points, method, ladder)
    }
    said(found["SVGP", "M"] < 2, "SVGP grows more slowly in M than M²")
    for method, ladder in (("S²VGP", "N"), ("S²VGP", "M"), ("VGP (banded)", "N")):
        said(0.8 < found[method, ladder] < 1.3, f"{method} is linear in {ladder}")
    in_d = sorted(found[method, "d"] for method in ("VGP (banded)", "S²VGP"))
    said(in_d[1] < 2.5, "the banded methods grow more slowly in d than d³")
    return [
        ("SVGP in M: {}; banded in d: {} and {} |", _two_digits(found["SVGP", "M"], *in_d)),
    ]


def _two_digits(*values: float) -> list[str]:
    return [f"{value:.2f}" for value in values]


def sentences() -> list[Sentence]:
    return [
        *_about_natural_gradients(),
        *_about_labels(),
        *_about_complexity(),
    ]
