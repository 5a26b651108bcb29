"""What docs/experiments.md says of the sun and the vowel, from stored runs."""

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


def _about_the_sun() -> list[Sentence]:
    rows = stored("solar")
    runs = {(row["method"], row["inducing"]): row for row in rows}
    ours, classic, exact = (
        runs[key] for key in (("S²VGP", 60), ("SVGP", 60), ("exact", rows[0]["inducing"]))
    )
    few, more = stored("solar-locations")
    return [
        (
            "mean KL of f(x) from the exact GP {} against {} |",
            [f"{classic['marginal_kl']:.1f}", f"{ours['marginal_kl']:.1f}"],
        ),
        (
            "RMS distance of the means {} (SVGP {}); {} with M = 120, {} with 390",
            [
                f"{row['mean_distance']:.3f}"
                for row in (ours, classic, runs["S²VGP", 120], runs["S²VGP", 390])
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
            "(gaps of up to {} years) and go to the turns of the cycle (down to {} years)",
            [f"{few['largest_gap']:.0f}", f"{few['smallest_gap']:.1f}"],
        ),
    ]


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


def _about_the_vowel() -> list[Sentence]:
    results = whole("audio")["results"]
    cells = _cells(results)

    def distance(method: str, harmonics: int, inducing: int) -> str:
        return nats(cells[method, harmonics, inducing]["distance"])

    ahead = {  # by the number of variables: SVGP's distance less ours
        j: cells["SVGP", j, 512]["distance"] - cells["S²VGP", j, 256 // j]["distance"]
        for j in (1, 2, 4)
    }
    said(ahead[1] < 0 and ahead[2] < 0 < ahead[4], "by variables SVGP is ahead for J = 1 and 2")
    states, values = cells["S²VGP", 4, 64], cells["SVGP", 4, 512]
    times = [
        [cells[method, j, count]["seconds"] for count in SHOWN]
        for method in ("S²VGP", "SVGP")
        for j in (1, 4)
    ]
    said(times[3][2] / times[3][0] > 4 * times[1][2] / times[1][0], "SVGP's time grows faster")
    return [
        (
            "J = 4, M = 512: {} nats against {} |",
            [distance("S²VGP", 4, 512), distance("SVGP", 4, 512)],
        ),
        (
            "J = 4, 512 variables: {} (S²VGP) and {} (SVGP); 128: {} and {}",
            [
                distance(method, 4, inducing)
                for method, inducing in (("S²VGP", 64), ("SVGP", 512), ("S²VGP", 16), ("SVGP", 128))
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
            "M = 16, 128, 512: {}, {}, {} ms (J = 1) and {}, {}, {} ms (J = 4); SVGP {}, {}, {} "
            "and {}, {}, {} ms",
            [milliseconds(second) for row in times for second in row],
        ),
        (
            "with M = 512 it is {} times that with 16 for J = 1 and {} times for J = 4, SVGP's {} "
            "and {} times",
            [f"{row[2] / row[0]:.1f}" for row in times[:2]]
            + [f"{row[2] / row[0]:.0f}" for row in times[2:]],
        ),
        ("except f₀ ({} Hz)", [f"{results['f0']:.1f}"]),
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
