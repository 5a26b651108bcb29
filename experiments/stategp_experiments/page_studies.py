"""What docs/experiments.md says of the sun and the vowel, from stored runs."""

import re

import numpy as np

from stategp_experiments import solar as solar_study
from stategp_experiments.page_parts import (
    Rows,
    Sentence,
    milliseconds,
    said,
    stored,
    table,
    whole,
)

HARMONICS = (1, 2, 3, 4)
SHOWN = (16, 128, 512)  # inducing points of the audio table


def solar(rows: Rows) -> str:
    """Every method beside the exact GP."""
    heads = ["kernel", "", "M", "bound", "KL to p", "KL of f(x)", "RMS of mean", "NLPD"]
    lines = []
    for row in rows:
        exact = row["method"] == "exact"
        bound = f"{row['bound']:.2f}".replace("-", "−")
        distances = ["0", "0", "0"]
        if not exact:
            small = row["marginal_kl"]
            digits = 2 if small >= 1 else 3 if small >= 0.01 else 4
            distances = [f"{row['loss']:.1f}", f"{small:.{digits}f}", f"{row['mean_distance']:.3f}"]
        names = [row["kernel"], row["method"], f"{row['inducing']}"]
        lines.append([*names, bound, *distances, f"{row['nlpd']:.3f}"])
    return table(heads, lines)


def _about_the_sun() -> list[Sentence]:
    rows = stored("solar")
    own, other = (
        {(row["method"], row["inducing"]): row for row in rows if row["kernel"] == kernel}
        for kernel in solar_study.KERNELS
    )
    all_of_them = rows[0]["inducing"]
    ours, classic, exact = (own[key] for key in _of_60(all_of_them))
    smooth, values, whole_data = (other[key] for key in _of_60(all_of_them))
    for near, far in ((ours, classic), (smooth, values)):
        said(near["mean_distance"] < far["mean_distance"], "S²VGP is nearer than SVGP")
        said(near["marginal_kl"] < far["marginal_kl"] / 4, "S²VGP finds what SVGP misses")
    said(smooth["mean_distance"] < ours["mean_distance"], "with Matérn-5/2 it is nearer")
    few, more = stored("solar-locations")
    return [
        (
            "mean KL of f(x) from the exact GP {} against {}; Matérn-5/2: {} against {} |",
            [f"{row['marginal_kl']:.1f}" for row in (classic, ours, values, smooth)],
        ),
        (
            "RMS distance of the means {} (SVGP {}); {} with M = 120, {} with 390. Matérn-5/2, M = "
            "60: {} (SVGP {})",
            [
                f"{row['mean_distance']:.3f}"
                for row in (ours, classic, own["S²VGP", 120], own["S²VGP", 390], smooth, values)
            ],
        ),
        (
            "has a noise variance of {} with S²VGP and {} with the exact GP, and the mean KL of "
            "f(x) is {} instead of {}.",
            [
                *(f"{row['noise']:.4f}" for row in (smooth, whole_data)),
                *(f"{row['marginal_kl']:.2f}" for row in (smooth, ours)),
            ],
        ),
        (
            "learned noise variance is {}, that of the exact GP {}:",
            [f"{ours['noise']:.4f}", f"{exact['noise']:.4f}"],
        ),
        (
            "the bound from {} to {} nats, and 120 from {} to {}; the learned noise variance falls "
            "from {} to {} and from {} to {}.",
            [f"{run[name]:.1f}".replace("-", "−") for run in (few, more) for name in _BOUNDS]
            + [f"{run[name]:.4f}" for run in (few, more) for name in _NOISES],
        ),
        (
            "Neighbours are then between {} and {} years apart;",
            [f"{few['smallest_gap']:.1f}", f"{few['largest_gap']:.0f}"],
        ),
    ]


def _of_60(observations: int) -> list[tuple[str, int]]:
    return [("S²VGP", 60), ("SVGP", 60), ("exact", observations)]


_BOUNDS, _NOISES = ("grid", "learned"), ("noise_grid", "noise_learned")


# --- the vowel ---------------------------------------------------------------------------------


def nats(value: float) -> str:
    return f"{float(f'{value:.4g}'):,.0f}"


def _cells(results: dict) -> dict[tuple[str, int, int], dict]:
    return {(c["method"], c["harmonics"], c["inducing"]): c for c in results["cells"]}


def audio(results: dict) -> str:
    """KL and the time of one gradient, for every kernel."""
    cells = _cells(results)
    lines = []
    for harmonics in reversed(HARMONICS):
        for method in ("S²VGP", "SVGP"):
            own = [cells[method, harmonics, count] for count in SHOWN]
            line = [f"{nats(c['distance'])}, {milliseconds(c['seconds'])} ms" for c in own]
            name = f"J = {harmonics}, {method}"
            lines.append([name, *line, f"{own[-1]['parameters']:,}"])
    heads = ["", *(f"M = {count}" for count in SHOWN), "variational parameters at M = 512"]
    return table(heads, lines)


def by_variables(cells: dict, harmonics: int) -> dict[int, float]:
    """The distance of S²VGP in those of SVGP with as many variables, by their number.

    Where SVGP was not run with that many, its distance is interpolated between powers of two.
    """
    counts = sorted({inducing for _, j, inducing in cells if j == harmonics})
    classic = [np.log(cells["SVGP", harmonics, count]["distance"]) for count in counts]
    found = {}
    for count in counts:
        variables = 2 * harmonics * count
        if variables <= counts[-1]:
            other = np.exp(np.interp(np.log2(variables), np.log2(counts), classic))
            found[variables] = float(cells["S²VGP", harmonics, count]["distance"] / other)
    return found


def _weights(results: dict, harmonics: int) -> list[float]:
    """Of the harmonics of a learned kernel, which is stored as text."""
    inside = re.search(r"weights=\[(.*?)\]", results["kernels"][str(harmonics)])
    assert inside is not None
    return [float(weight) for weight in inside[1].split(",")]


def _about_the_vowel() -> list[Sentence]:
    results = whole("audio")["results"]
    cells = _cells(results)
    counts = sorted({inducing for _, _, inducing in cells})
    less = {  # by how much the distance of S²VGP is less, with as many inducing points
        j: [
            1 - cells["S²VGP", j, count]["distance"] / cells["SVGP", j, count]["distance"]
            for count in counts
        ]
        for j in HARMONICS
    }
    early = counts.index(128) + 1
    said(all(value > 0 for row in less.values() for value in row), "S²VGP is ahead by M everywhere")
    said(min(less[3] + less[4]) > 2 / 3, "for J = 3 and 4 the KL is less by two thirds or more")
    said(max(less[1][:early]) < 0.2, "for J = 1 and small M there is little between them")
    ahead = {j: by_variables(cells, j) for j in HARMONICS}
    said(max(v for n, v in ahead[1].items() if n <= 256) < 1.1, "J = 1: slightly, up to 256")
    said(min(ahead[2].values()) > 1.05, "J = 2: SVGP is ahead")
    said(max(ahead[4].values()) < 1, "J = 4: S²VGP is ahead")
    states, values = cells["S²VGP", 4, 64], cells["SVGP", 4, 512]
    for j in HARMONICS:
        ours, theirs = cells["S²VGP", j, 512], cells["SVGP", j, 512]
        fewer = ours["parameters"] < theirs["parameters"]
        said(fewer and ours["distance"] < theirs["distance"], "fewer parameters do for every J")
    growth = {
        method: [
            cells[method, j, 512]["seconds"] / cells[method, j, 16]["seconds"] for j in HARMONICS
        ]
        for method in ("S²VGP", "SVGP")
    }
    said(min(growth["SVGP"]) > 10 * max(growth["S²VGP"]), "SVGP's time grows far faster")
    slow = [cells[method, 4, 16]["seconds"] for method in ("S²VGP", "SVGP")]
    said(slow[0] > slow[1], "SVGP is faster for J = 4 and M = 16")
    three, four = _weights(results, 3), _weights(results, 4)
    said(max(three) == three[2] and sorted(four)[2:] == four[2:], "the last two weigh most")
    return [
        (
            "KL with M = 512 is less by a factor of {}, {}, {} and {} for J = 1 to 4; up to M = "
            "128 it is less by {} to {} % for J = 1 and by {} to {} % for J = 2 |",
            [f"{1 / (1 - less[j][-1]):.1f}" for j in HARMONICS]
            + [f"{100 * pick(less[j][:early]):.0f}" for j in (1, 2) for pick in (min, max)],
        ),
        (
            "J = 1: {} to {} times that of SVGP up to 256 variables, {} times with 512; J = 2: {}, "
            "{}, {} and {} times with 64, 128, 256 and 512; J = 3 (SVGP interpolated): {}, {} and "
            "{} times with 96, 192 and 384; J = 4: {}, {} and {} times with 128, 256 and 512",
            [
                *(f"{pick(v for n, v in ahead[1].items() if n <= 256):.2f}" for pick in (min, max)),
                f"{ahead[1][512]:.1f}",
                *(f"{ahead[2][n]:.1f}" for n in (64, 128, 256, 512)),
                *(f"{ahead[3][n]:.2f}" for n in (96, 192, 384)),
                *(f"{ahead[4][n]:.2f}" for n in (128, 256, 512)),
            ],
        ),
        (
            "J = 4: {} nats with {} parameters, SVGP {} with {}",
            [
                figure
                for cell in (states, values)
                for figure in (nats(cell["distance"]), f"{cell['parameters']:,}")
            ],
        ),
        (
            "with M = 512 it is {}, {}, {} and {} times that with 16 for J = 1 to 4, SVGP's {}, "
            "{}, {} and {} times",
            [f"{value:.1f}" for value in growth["S²VGP"]]
            + [f"{value:.0f}" for value in growth["SVGP"]],
        ),
        (
            "S²VGP is not always the faster: J = 4, M = 16 takes {} ms, SVGP {} ms |",
            [milliseconds(second) for second in slow],
        ),
        ("except f₀ ({} Hz)", [f"{results['f0']:.1f}"]),
        (
            "which weigh most where they are there ({} for the third with J = 3, {} and {} with "
            "J = 4)",
            [f"{three[2]:.2f}", f"{four[2]:.2f}", f"{four[3]:.2f}"],
        ),
    ]


def _about_the_gap() -> list[Sentence]:
    gap = whole("audio-gap")["results"]
    sd = [f"{value:.3f}" for value in gap["sd of f"].values()]
    scores = [f"{gap[name]:.3f}" for name in ("RMSE", "RMSE of zero", "NLPD", "NLPD of zero")]
    return [
        ("(N = {}, M = {}, as in the paper", [f"{gap['N']:,}", f"{gap['M']}"]),
        ("RMSE there is {} ({} if one predicts zero) and the NLPD {} ({})", scores),
        (
            "on average {}, {}, {}, {}, {} in the fifths of the stretch, from the first to the "
            "last, and {} where nothing is missing",
            sd,
        ),
        ("RMSE {}; {} when predicting zero", scores[:2]),
        ("Mean sd of f in the fifths of the stretch: {}, {}, {}, {}, {}; elsewhere {}", sd),
    ]


def sentences() -> list[Sentence]:
    return [
        *_about_the_sun(),
        *_about_the_vowel(),
        *_about_the_gap(),
    ]
