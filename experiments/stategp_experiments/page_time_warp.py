"""What docs/experiments.md says of the time-warp study, from its stored run."""

import numpy as np

from stategp_experiments.page_parts import Rows, Sentence, said, stored, table
from stategp_experiments.time_warp_run import NAMES, PLAIN
from stategp_experiments.time_warp_scores import doing_nothing
from stategp_experiments.time_warp_truth import FUNCTIONS

LABELS = {
    "paper": "the paper's",
    "staged": "staged",
    "staged-all": "staged, then all learned",
    PLAIN: "no warps",
}
ALIGNED = 0.01  # distance of a warp that counts as recovered
PERIOD = 0.1  # of f


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


def sentences() -> list[Sentence]:
    fits = _by_fit(stored("time-warp"))
    nothing = doing_nothing()
    recovered = {
        key: sum(row["distance"]["a2"] < ALIGNED for row in own)
        for key, own in fits.items()
        if key[1] != PLAIN
    }
    calm, loud = fits[0.05, "staged"], fits[0.1, "staged"]
    said(
        not recovered[0.05, "paper"] and not recovered[0.1, "paper"],
        "the paper's schedule recovers nothing",
    )
    middle = {name: np.median([row["distance"][name] for row in calm]) for name in FUNCTIONS}
    papers = fits[0.05, "paper"] + fits[0.1, "paper"]
    for row in papers:
        far = min(row["distance"]["a1"], row["distance"]["a2"]) > PERIOD
        said(far, "with the paper's schedule both warps are more than a period away")
        said(row["distance"]["f"] > nothing["f"], "and f is further from the truth than zero")
        alone = fits[row["noise"], PLAIN][row["seed"]]
        said(row["score"]["rmse"] > alone["score"]["rmse"], "and predicts worse than no warps")
        said(row["noise found"] > row["noise"], "and finds too much noise")
    found = [row for row in calm + loud if row["distance"]["a2"] < ALIGNED]
    warps = max(row["distance"][name] for row in found for name in ("a1", "a2"))
    shared = [row["distance"]["f"] / nothing["f"] for row in found]
    off = max(abs(row["noise found"] - row["noise"]) for row in found)
    (lost,) = (row for row in calm + loud if row not in found)
    plain = fits[lost["noise"], PLAIN][lost["seed"]]
    said(lost["score"]["rmse"] > plain["score"]["rmse"], "the eighth predicts worse than no warps")
    said(middle["g2"] > nothing["g2"] == 0, "g₂ is further from the truth than the identity")
    sd = {
        (noise, schedule): float(np.median([row["claims"]["sd of the warps"] for row in own]))
        for (noise, schedule), own in fits.items()
        if schedule != PLAIN
    }
    spread = [row["claims"]["sd inside / outside"] for row in calm + loud]
    both = f"{len(calm) + len(loud)}"
    quiet, noisy = recovered[0.05, "staged"], recovered[0.1, "staged"]
    return [
        ("(0 of {} data sets)", [both]),
        ("and f in {} of {}, the distortions", [f"{quiet + noisy}", both]),
        (
            "staged in {} of {} data sets, at 0.05 in {} of {}",
            [f"{noisy}", f"{len(loud)}", f"{quiet}", f"{len(calm)}"],
        ),
        (
            "it is {} from the truth ({} for the identity)",
            [f"{max(row['distance']['a2'] for row in loud):.3f}", f"{nothing['a2']:.3f}"],
        ),
        (
            "a distance of {} at noise 0.05, {} for the identity",
            [f"{middle['g1']:.3f}", f"{nothing['g1']:.3f}"],
        ),
        ("is further from the truth ({}) than", [f"{middle['g2']:.3f}"]),
        (
            "Of the saturation of g₁ = tanh {} % is found",
            [f"{100 * (1 - middle['g1'] / nothing['g1']):.0f}"],
        ),
        (
            "A data set counts as recovered where the second warp is within {} of the truth; a "
            "period of f is {}.",
            [f"{ALIGNED:g}", f"{PERIOD:g}"],
        ),
        ("more than a period of f ({}) away", [f"{PERIOD:g}"]),
        (
            "in {} of the {}: warps to within {}, f to within {} % of its own size with its "
            "damping, the noise to within {},",
            [
                f"{len(found)}",
                both,
                f"{warps:.3f}",
                f"{100 * max(shared):.0f}",
                f"{off:.3f}",
            ],
        ),
        ("In the other (noise {}, seed {})", [f"{lost['noise']:g}", f"{lost['seed']}"]),
        (
            "found at all: in {} of {} data sets, at 0.05 in {} of {}.",
            [f"{noisy}", f"{len(loud)}", f"{quiet}", f"{len(calm)}"],
        ),
        (
            "sd of the warps at 0.05 and 0.1: {} and {} with the paper's schedule, {} and {} "
            "staged",
            [f"{sd[noise, name]:.4f}" for name in ("paper", "staged") for noise in (0.05, 0.1)],
        ),
        (
            "sd of the warps {} to {} (a period of f is 0.1) |",
            [f"{pick(sd.values()):.4f}" for pick in (min, max)],
        ),
        (
            "sd {} to {} times that elsewhere (staged)",
            [f"{min(spread):.1f}", f"{max(spread):.1f}"],
        ),
    ]
