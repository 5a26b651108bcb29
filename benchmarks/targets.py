"""What the measurements mean: ratios to the peers against the targets, and the scaling plots."""

import math

import numpy as np


def seconds(results, who, work, n=None, m=None, likelihood="gaussian", **job):
    """The time of one measurement, or NaN."""
    for one in reversed(results):
        same = one["who"] == who and one["work"] == work and (n is None or one["n"] == n)
        same = same and (m is None or one["m"] == m)
        apart = one["case"].startswith(("growth", "Matérn-3/2 as any equation"))
        same = same and (work == "sweep" or not apart)
        same = same and one["job"].get("likelihood", "gaussian") == likelihood
        same = same and all(one["job"].get(name) == value for name, value in job.items())
        if same and "seconds" in one:
            return one["seconds"]
    return math.nan


def field(results, work, name, case=""):
    for one in reversed(results):
        if one["who"] == "stategp" and one["work"] == work and case in one["case"] and name in one:
            return one[name]
    return math.nan


def slope(points):
    """Of log time against log size."""
    points = [(a, b) for a, b in points if np.isfinite(b)]
    if len(points) < 2:
        return math.nan
    size, time = np.log(np.array(points)).T
    return float(np.polyfit(size, time, 1)[0])


def growth(results, what, work, key):
    return sorted(
        (one[key], one["seconds"])
        for one in results
        if one["who"] == "stategp"
        and one["work"] == work
        and one["case"].startswith(f"growth with {what}")
        and "seconds" in one
    )


def rows(results):
    """(work, target, measured) for every line of the targets."""
    big = max(
        (one["n"] for one in results if one["work"] == "natural-step" and one["who"] == "stategp"),
        default=0,
    )
    mid = max(
        (one["n"] for one in results if one["work"] == "exact" and one["who"] == "stategp"),
        default=0,
    )

    def ratio(peer, theirs, ours, n, **job):
        return seconds(results, peer, theirs, n, **job) / seconds(results, "stategp", ours, n)

    found = []
    for work, least in (("natural-step", "≥ 40"), ("elbo+gradient", "≥ 40"), ("elbo", "")):
        for suffix, said in (("", "data summed up once"), ("/rows", "every pass over all data")):
            times = ratio("markovflow", work, work + suffix, big)
            found.append(
                (f"{work}, N={big:.0e}, against Markovflow; {said}", least, f"{times:.0f}×")
            )
    found.append(
        (
            f"collapsed bound + gradient, N={big:.0e}, against celerite2.jax exact + gradient",
            "≥ 5",
            f"{ratio('celerite2', 'exact+gradient', 'collapsed+gradient', big):.0f}×",
        )
    )
    for peer in ("gpflow", "gpytorch"):
        found.append(
            (
                f"elbo+gradient, N={mid:.0e}, against {peer}",
                "≥ 2000",
                f"{ratio(peer, 'elbo+gradient', 'elbo+gradient', mid):.0f}×",
            )
        )
    for d, kernel in ((2, "matern32"), (8, "four-matern32")):
        for work in ("exact", "exact+gradient"):
            for peer in ("celerite2", "tinygp"):
                theirs, ours = (
                    seconds(results, who, work, mid, kernel=kernel) for who in (peer, "stategp")
                )
                least = {(2, "celerite2"): "≥ 1.5", (8, "celerite2"): "≥ 1"}.get((d, peer), "≥ 1")
                name = f"{work.replace('exact', 'exact likelihood')}, N={mid:.0e}, d = {d}"
                found.append((f"{name}, against {peer}", least, f"{theirs / ours:.2f}×"))
    for m in (10**4, 10**5):
        per = seconds(results, "stategp", "sweep", m=m, kernel="matern52") / m * 1e6
        found.append((f"sweep, d = 3, M = {m:.0e}", "≤ 1.5 µs", f"{per:.2f} µs per state"))
    for what, work, key in (
        ("N", "pack", "n"),
        ("N", "elbo+gradient/rows", "n"),
        ("N", "elbo+gradient", "n"),
        ("M", "elbo+gradient", "m"),
    ):
        found.append(
            (
                f"growth of {work} with {what}",
                "slope ≤ 1.1",
                f"{slope(growth(results, what, work, key)):.2f}",
            )
        )
    found.append(
        (
            f"peak memory above the data, N={field(results, 'memory', 'n'):.0e}",
            "≤ 2 × the data",
            f"{field(results, 'memory', 'share'):.2f} ×",
        )
    )
    predicted = seconds(results, "stategp", "predict", mid)
    passed = seconds(results, "stategp", "elbo/rows", big)
    found.append(
        (
            f"mean and variance at {big:.0e} points, against a pass over as many data",
            "≤ 3",
            f"{predicted / passed:.1f}×",
        )
    )
    for state, most in (("empty cache", "≤ 15 s"), ("filled cache", "≤ 6 s")):
        taken = field(results, "first-fit", "process_seconds", state)
        found.append((f"process start to first posterior, {state}", most, f"{taken:.1f} s"))
    second, first = (field(results, "second-fit", name) for name in ("seconds", "first"))
    found.append(
        ("fit of a second data set of similar size, same process, empty cache", "",
         f"{second:.1f} s after {first:.1f} s")
    )  # fmt: skip
    step = seconds(results, "markovflow", "natural-step", mid, likelihood="bernoulli") / seconds(
        results, "stategp", "natural-step", mid, likelihood="bernoulli"
    )
    found.append(
        (f"natural-step, Bernoulli, N={mid:.0e}, against Markovflow", "≥ 20", f"{step:.1f}×")
    )
    return found + list(waits(results))


# What people wait for, and how many seconds they may: from the start of a process to the first
# answer, cache empty and filled, and for each later answer of the process.
WAITS = {
    "importing": ("`import stategp`", (1.5, 1.5, None)),
    "readme": ("README's example, N = 2,000; then 900 and 5,000", (10, 4, 1)),
    "total": ("`matern52(30) + periodic(6.28)`, N = 2,700; then 1,500", (15, None, 1)),
    "poisson": ("Poisson, Matérn-5/2, N = 2,700; then 1,500", (None, None, None)),
    "regressor": ("`GPRegressor`, N = 1,000; then 1,000 and 3,000", (None, None, None)),
    "forecaster_hourly": ("`Forecaster()`, 700 hourly values; then 700 and 820", (12, None, 1.5)),
    "forecaster_daily": ("`Forecaster()`, 800 daily values; then 800 and 960", (12, None, 1.5)),
    "demo": ("`stategp demo`", (20, 10, None)),
    "large_states": ("fit of 1,000 evenly spaced points, d = 25", (None, None, 1)),
    "command": ("`stategp fit`, a million rows", (None, 20, None)),
}


def answers(measured):
    """Seconds until each answer of a process."""
    found = {}
    for step in measured["steps"]:
        found[step["answer"]] = found.get(step["answer"], 0.0) + step["seconds"]
    return [found[number] for number in sorted(found)]


def waited(results):
    """For each work: what it is, seconds as in `WAITS`, the targets, and the largest memory in MB.

    Later answers are those of the process that began with an empty cache; the slowest counts.
    """
    runs = {(one["waiting"], one["cache"]): one for one in results if one.get("steps")}
    for work, (label, most) in WAITS.items():
        if (work, "empty") in runs and (work, "filled") in runs:
            empty, filled = (runs[work, state] for state in ("empty", "filled"))
            first, *later = answers(empty)
            taken = (first, answers(filled)[0], max(later, default=None))
            yield label, taken, most, max(empty["peak_mb"], filled["peak_mb"])


def waits(results):
    """The same as lines of the targets."""
    for label, taken, most, _ in waited([one for one in results if one["work"] == "waiting"]):
        how = ("cache empty", "cache filled", "same process")
        for state, seconds, target in zip(how, taken, most, strict=True):
            if seconds is not None:
                limit = "" if target is None else f"≤ {target} s"
                yield f"{label}: {state}", limit, f"{seconds:.2f} s"


def table(results):
    """The targets in Markdown, those that something was measured for."""
    lines = ["| work | target | measured |", "|---|---|---|"]
    for work, target, measured in rows(results):
        if "nan" not in measured:
            lines.append(f"| {work} | {target} | {measured} |")
    return "\n".join(lines).replace("e+0", "e")


def draw(results, folder):
    """Time against N, against M and against d, and time per point."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(17, 4), layout="constrained")
    names = {
        "pack": "sum up the data (once)",
        "elbo+gradient/rows": "bound + gradient, all data each time",
        "elbo+gradient": "bound + gradient, data summed up",
    }
    for work, label in names.items():
        points = growth(results, "N", work, "n")
        if points:
            axes[0].loglog(*zip(*points, strict=True), "o-", label=label)
    for peer, work, label in (
        ("markovflow", "elbo+gradient", "Markovflow bound + gradient"),
        ("celerite2", "exact+gradient", "celerite2.jax exact + gradient"),
        ("tinygp", "exact+gradient", "tinygp exact + gradient"),
    ):
        found = {
            one["n"]: one["seconds"]
            for one in results
            if one["who"] == peer
            and one["work"] == work
            and "seconds" in one
            and one["job"].get("likelihood", "gaussian") == "gaussian"
            and one["job"].get("kernel", "matern32") == "matern32"  # there are larger states, too
        }
        if found:
            axes[0].loglog(*zip(*sorted(found.items()), strict=True), "s--", label=label, alpha=0.7)
    axes[0].set(xlabel="observations N", ylabel="seconds", title="Gaussian, Matérn-3/2")
    axes[0].legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    points = growth(results, "M", "elbo+gradient", "m")
    if points:
        axes[1].loglog(*zip(*points, strict=True), "o-")
    axes[1].set(xlabel="inducing states M", ylabel="seconds", title="bound + gradient, N = 2M")
    dims = {"matern12": 1, "matern32": 2, "matern52": 3, "matern72": 4}
    dims |= {"harmonic8": 8, "harmonic16": 16}
    for m in sorted({one["m"] for one in results if one["work"] == "sweep"}):
        points = [
            (dims[one["job"]["kernel"]], 1e6 * one["seconds"] / m)
            for one in results
            if one["work"] == "sweep" and one["m"] == m and "seconds" in one
        ]
        if points:
            axes[2].loglog(*zip(*points, strict=True), "o-", label=f"M = {m:,}", base=2)
            axes[2].legend()
    axes[2].set(xlabel="dimension of the state d", ylabel="µs per state", title="sweep")
    points = sorted(
        (one["n"], one["peak_bytes"] / one["n"])
        for one in results
        if one["work"] == "memory" and "peak_bytes" in one
    )
    if points:
        axes[3].semilogx(*zip(*points, strict=True), "o-", label="peak above the data")
        axes[3].axhline(16, ls=":", color="gray", label="the data: x and y")
        axes[3].set_ylim(bottom=0)
        axes[3].legend()
    axes[3].set(xlabel="observations N", ylabel="bytes per observation", title="memory of a fit")
    for axis in axes:
        axis.grid(alpha=0.3)
    file = folder / "scaling.png"
    figure.savefig(file, dpi=110)
    plt.close(figure)
    return [file]
