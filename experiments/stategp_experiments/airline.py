"""Airline delays (paper, section 4.3): an additive model of eight inputs.

    stategp-experiments airline [--quick] [--sizes 10000 100000 1000000 all] [--repeats 10 3 3 3]
                                [--from FOLDER]

Repeat i of size n: seed n + i, all rows permuted, the first n taken, 2/3 to train and 1/3 to test;
y standardised and every input scaled to [0, 1] on the training rows. Matérn-3/2 for each input, all
hyperparameters learned: by Adam on everything and by Adam with natural gradients on q (as in the
paper: rates of 0.01, minibatches of 10,000 from a million rows on, else all rows), by the latter
with the library's own rates, by L-BFGS with all rows in every step (ours), and by variational
Fourier features. The paper's largest size is 6 million rows of the whole year, ours 2 million of
its first four months. Runs that are in the results file with the same settings are not repeated.
Then why Adam can fail (`airline_starts`). `--from` computes nothing: it collects the files of
single runs (`python -m stategp_experiments.airline_run`).
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import stategp as sg
from stategp_experiments import airline_starts, studies
from stategp_experiments.airline_methods import METHODS, Learned

PAPER = {  # MSE and NLPD, each with its standard deviation
    10_000: {
        "VFF": (0.89, 0.15, 1.36, 0.09),
        "Adam": (0.96, 0.13, 1.40, 0.07),
        "Adam + natural": (0.90, 0.12, 1.36, 0.07),
    },
    100_000: {
        "VFF": (0.82, 0.05, 1.32, 0.03),
        "Adam": (0.83, 0.07, 1.33, 0.04),
        "Adam + natural": (0.81, 0.07, 1.32, 0.04),
    },
    1_000_000: {
        "VFF": (0.83, 0.01, 1.336, 0.008),
        "Adam": (0.81, 0.02, 1.316, 0.010),
        "Adam + natural": (0.82, 0.02, 1.321, 0.010),
    },
    6_000_000: {
        "VFF": (0.827, 0.004, 1.324, 0.003),
        "Adam": (0.822, 0.006, 9.22, 20.4),
        "Adam + natural": (0.829, 0.006, 1.325, 0.004),
    },
}


def split(flights, count: int, repeat: int):
    """Training and test rows of one repeat, scaled on the training rows."""
    rows = np.random.default_rng(count + repeat).permutation(len(flights.y))[:count]
    x, y = flights.x[rows], flights.y[rows]
    train = 2 * count // 3
    low, high = x[:train].min(axis=0), x[:train].max(axis=0)
    x = (x - low) / np.where(high > low, high - low, 1.0)
    y = (y - y[:train].mean()) / y[:train].std()
    return x[:train], y[:train], x[train:], y[train:]


COLORS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#CC79A7")  # told apart by everyone
STEPPING = ("Adam", "Adam + natural", "our rates")
KEY = ("method", "rows", "repeat", "most_steps")


def run(flights, method: str, rows: int, repeat: int, most_steps: int) -> tuple[dict, Learned]:
    """One method on one split: its scores on the test rows."""
    x, y, x_test, y_test = split(flights, rows, repeat)
    learned = METHODS[method][0](flights.names, x, y, x_test, most_steps)
    scores = airline_starts.scores(learned.mean, learned.variance, learned.noise, y_test)
    row = {
        "method": method,
        "rows": rows,
        "repeat": repeat,
        "most_steps": most_steps,
        "noise": learned.noise,
        "least variance of f": float(learned.variance.min()),
        "bound": learned.bound,
        "steps": learned.steps,
        "seconds": learned.seconds,
    }
    return row | scores, learned


def study(flights, plan: list[tuple[int, int]], steps: dict[str, int], path: Path):
    """All methods at all sizes and repeats; their scores, and the last posterior."""
    rows, posterior = _before(path), None
    for count, repeats in plan:
        for repeat in range(repeats):
            for method in METHODS:
                key = dict(zip(KEY, (method, count, repeat, steps[method]), strict=True))
                if any(key.items() <= row.items() for row in rows):
                    continue
                row, learned = run(flights, **key)
                rows.append(row)
                posterior = learned.posterior or posterior
                print(
                    f"{count:>8} repeat {repeat} {method:15} MSE {row['mse']:.4f} "
                    f"NLPD {row['nlpd']:.4f}   {row['seconds']:6.1f} s, {row['steps']} steps",
                    flush=True,
                )
                studies.write(rows, path)
    wanted = {(m, c, r, steps[m]) for c, n in plan for r in range(n) for m in METHODS}
    own = [row for row in rows if tuple(row[name] for name in KEY) in wanted]
    return own, posterior


def _before(path: Path) -> list[dict]:
    return json.loads(path.read_text())["results"] if path.exists() else []


def papers(count: int) -> dict:
    return PAPER.get(count, PAPER[6_000_000] if count > 1_000_000 else {})


def table(rows: list[dict]) -> str:
    lines = [
        f"{'rows':>8} {'method':15} {'runs':>6}  {'MSE':15}  {'NLPD':15}  {'seconds':7}  "
        f"{'paper: MSE':13}  NLPD"
    ]
    for count, method in dict.fromkeys((row["rows"], row["method"]) for row in rows):
        own = [row for row in rows if (row["rows"], row["method"]) == (count, method)]
        scores = [[row[name] for row in own] for name in ("mse", "nlpd")]
        ours = "  ".join(f"{np.mean(v):6.4f} ± {np.std(v):6.4f}" for v in scores)
        paper = papers(count).get(method)
        said = "{:5.3f} ± {:5.3f}  {:5.3f} ± {:5.3f}".format(*paper) if paper else "-"
        seconds = np.mean([row["seconds"] for row in own])
        lines.append(f"{count:8} {method:15} {len(own):6}  {ours}  {seconds:7.1f}  {said}")
    return "\n".join(lines)


# --- the pictures ------------------------------------------------------------------------------


def boxes(rows: list[dict], path: Path) -> None:
    """Scores across splits for each size and method; the paper's means as crosses."""
    sizes = list(dict.fromkeys(row["rows"] for row in rows))
    figure, axes = plt.subplots(
        2, len(sizes), figsize=(3 * len(sizes) + 1, 6), layout="constrained", squeeze=False
    )
    for column, count in zip(axes.T, sizes, strict=True):
        for axis, score, place in zip(column, ("mse", "nlpd"), (0, 2), strict=True):
            for number, method in enumerate(METHODS):
                own = [r[score] for r in rows if (r["rows"], r["method"]) == (count, method)]
                color = COLORS[number]
                box = axis.boxplot([own], positions=[number], widths=0.6, patch_artist=True)
                box["boxes"][0].set(facecolor=color, alpha=0.4)
                box["medians"][0].set(color="black")
                paper = papers(count).get(method)
                if paper:
                    axis.plot(number, paper[place], "kx", ms=6)
            axis.set_xticks(range(len(METHODS)), METHODS, rotation=30, ha="right", fontsize=9)
            axis.grid(axis="y", alpha=0.3)
        column[0].set_title(f"{count:,} rows", fontsize=10)
        column[0].tick_params(labelbottom=False)
        _keep_in_view(column[1], [r["nlpd"] for r in rows if r["rows"] == count])
    axes[0, 0].set_ylabel("MSE")
    axes[1, 0].set_ylabel("NLPD")
    figure.legend(
        [plt.Line2D([], [], color="k", marker="x", ls="")],
        ["the paper's mean (6 million rows in place of our largest size)"],
        loc="outside lower center",
        frameon=False,
        fontsize=9,
    )
    studies.save(figure, path)


def _keep_in_view(axis, values: list[float]) -> None:
    """Scores fill the axis; a paper's mean far above is said in words instead."""
    top = max(values) + 2 * max(np.ptp(values), 0.01)
    outside = [
        line for line in axis.lines if line.get_marker() == "x" and line.get_ydata()[0] > top
    ]
    for line in outside:
        place, value = line.get_xdata()[0], line.get_ydata()[0]
        line.remove()
        axis.text(place, 0.97, f"× {value}\nabove", ha="center", va="top", fontsize=8,
                  transform=axis.get_xaxis_transform())  # fmt: skip
    if outside:
        others = [line.get_ydata()[0] for line in axis.lines if line.get_marker() == "x"]
        axis.set_ylim(min([*values, *others]) - 0.3 * (top - max(values)), top)


def effects(posterior: sg.AdditivePosterior) -> dict[str, dict]:
    """Mean and variance of the effect of every input, on a grid."""
    at = np.linspace(0, 1, 200)
    found = {name: posterior.components({name: at})[name] for name in posterior.model.names}
    return {name: {"at": at, "mean": m, "variance": v} for name, (m, v) in found.items()}


def draw(curves: dict[str, dict], path: Path) -> None:
    """The effect of every input."""
    figure, axes = plt.subplots(2, 4, figsize=(12, 5), layout="constrained", sharey=True)
    for axis, (name, curve) in zip(axes.flat, curves.items(), strict=True):
        studies.band(axis, curve["at"], curve["mean"], curve["variance"])
        axis.set_title(name, fontsize=9)
    figure.supxlabel("input, scaled")
    figure.supylabel("effect, in standard deviations of the delay")
    studies.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="10,000 rows, one repeat, few steps")
    parser.add_argument("--sizes", nargs="+", default=["10000", "100000", "1000000", "all"])
    parser.add_argument("--repeats", type=int, nargs="+", default=[10, 3, 3, 3])
    parser.add_argument("--from", type=Path, dest="folder", help="collect single runs")
    options = parser.parse_args(arguments)
    suffix = "_quick" if options.quick else ""
    if options.folder is not None:
        _collect(options.folder, options.output)
        return
    flights = sg.data.airline()
    plan, steps = _plan(flights, options)
    rows, posterior = study(flights, plan, steps, options.output / f"airline{suffix}.json")
    _finish(rows, options.output, suffix)
    if posterior is not None:
        draw(effects(posterior), options.output / f"airline{suffix}.png")
    count, looks = (10_000, [20, 60]) if options.quick else (100_000, airline_starts.STEPS)
    starts = airline_starts.study(flights.names, *split(flights, count, 0), steps=looks)
    studies.write(starts, options.output / f"airline_starts{suffix}.json")
    _finish_starts(starts, options.output, suffix)


def _plan(flights, options) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Sizes with their numbers of repeats, and how many steps each method may take."""
    if options.quick:
        return [(10_000, 1)], {"VFF": 30, "all rows": 20} | dict.fromkeys(STEPPING, 100)
    sizes = [len(flights.y) if size == "all" else int(float(size)) for size in options.sizes]
    repeats = options.repeats * len(sizes) if len(options.repeats) == 1 else options.repeats
    if len(repeats) < len(sizes):
        raise ValueError(f"{len(sizes)} sizes but {len(repeats)} numbers of repeats")
    steps = {method: most for method, (_, most) in METHODS.items()}
    return list(zip(sizes, repeats, strict=False)), steps


def _collect(folder: Path, output: Path) -> None:
    rows, about = studies.collect(folder)
    fits = _in_order([row for row in rows if "start" not in row])
    starts = _starts_in_order([row for row in rows if "start" in row])
    curves = [row.pop("effects") for row in fits if "effects" in row]
    studies.write([*fits, *starts], output / "airline.json", about)
    _finish(fits, output, "")
    if starts:
        _finish_starts(starts, output, "")
    if curves:
        draw(curves[-1], output / "airline.png")


def _finish(rows: list[dict], output: Path, suffix: str) -> None:
    print(table(rows))
    boxes(rows, output / f"airline_boxes{suffix}.png")


def _finish_starts(starts: list[dict], output: Path, suffix: str) -> None:
    print(airline_starts.table(starts))
    airline_starts.picture(starts, output / f"airline_starts{suffix}.png")


def _in_order(rows: list[dict]) -> list[dict]:
    names = list(METHODS)
    return sorted(rows, key=lambda row: (row["rows"], names.index(row["method"]), row["repeat"]))


def _starts_in_order(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: (row["method"] != "Adam", -row["start"], row["steps"]))
