"""Time warping with a deep GP (paper, section 4.4): two series, each a warp of one function.

    stategp-experiments time-warp [--noise 0.05 0.1] [--seeds 4] [--schedules paper staged]
                                  [--resume] [--from FOLDER] [--quick]

y_k = g_k(f(a_k(t))) + noise, with a_1(t) = t, a_2(t) = t², g_1 = tanh, g_2 the identity; all five
functions are unknown, Matérn-3/2, M = 50, 100 and 50 inducing points, parts of both series are
missing. The model is fitted as the paper does and as we do (`time_warp_schedules`), beside a model
that shares a function between the series but cannot warp it. Scores are those of the removed
observations; the functions are compared with the truth, and with doing nothing: the identity for
warps and distortions, zero for f.

`--resume` keeps what an earlier run has written. `--from` computes nothing: it collects the files
of single runs (`python -m stategp_experiments.time_warp_run`).
"""

import itertools
import json
from pathlib import Path

from stategp_experiments import studies, time_warp_truth
from stategp_experiments.time_warp_run import NAMES, PLAIN, one
from stategp_experiments.time_warp_scores import doing_nothing
from stategp_experiments.time_warp_truth import FUNCTIONS, simulate

KEY = ("noise", "seed", "schedule")
DRAWN = ("paper", "staged")


def table(rows: list[dict]) -> str:
    lines = [
        "removed observations, distance of the functions from the truth, claims",
        f"noise seed {'schedule':11}found   RMSE  density   "
        + "".join(f"{name:>7}" for name in FUNCTIONS)
        + "   sd in/out  sd of a  dampening  seconds",
        f"{'doing nothing':42}" + "".join(f"{doing_nothing()[name]:7.3f}" for name in FUNCTIONS),
    ]
    for row in rows:
        score = row["score"]
        line = (
            f"{row['noise']:5g} {row['seed']:4d} {row['schedule']:10}{row['noise found']:6.3f}"
            f"{score['rmse']:7.3f}{score['log density']:9.2f}   "
        )
        if row["schedule"] != PLAIN:
            said = row["claims"]
            line += "".join(f"{row['distance'][name]:7.3f}" for name in FUNCTIONS)
            line += f"{said['sd inside / outside']:12.2f}{said['sd of the warps']:9.4f}"
            line += f"{said['dampening']:6.2f} ({said['true dampening']:.2f})"
        lines.append(line + f"{row['seconds']:7.0f}")
    return "\n".join(
        [
            *lines,
            "the paper (figures, no numbers): the functions share the characteristics of the",
            "truth, f has the right dampening (in brackets: the truth's), more uncertainty where",
            "data are missing, almost none in the warps; at noise 0.1 functions are learned worse",
        ]
    )


def draw(rows: list[dict], noise: float, path: Path) -> None:
    """The paper's five panels of the first data set, a column for each of two schedules."""
    own = [row for row in rows if row["noise"] == noise and row["schedule"] in DRAWN]
    columns = [row for row in own if row.get("curves")]
    if not columns:
        return
    size = 6.5 * len(columns) + 1, 12
    figure, axes = studies.plt.subplots(
        5, len(columns), figsize=size, layout="constrained", squeeze=False
    )
    for column, row in zip(axes.T, columns, strict=True):
        _draw_functions(column[:3], row["curves"])
        _draw_series(column[3:], row)
        titles = ["warps", "shared function", "distortions", "series 1", "series 2"]
        for axis, title in zip(column, titles, strict=True):
            axis.set_title(f"{title} ({row['schedule']})", loc="left", fontsize=10)
            axis.set_xlabel("value of $f$" if axis is column[2] else "$t$", labelpad=0)
            low, high = axis.get_ylim()
            axis.set_ylim(low, high + 0.25 * (high - low))  # room for the legend
            axis.legend(loc="upper right", fontsize=9, ncols=4, frameon=False)
        column[1].set_xlabel("warped $t$", labelpad=0)
    studies.save(figure, path)


def _draw_functions(axes, curves: dict) -> None:
    truths = {"a": time_warp_truth.warps, "g": time_warp_truth.distortions}
    for axis, name in ((axes[0], "a"), (axes[2], "g")):
        for number, color in enumerate(["C0", "C1"]):
            at = _band(axis, curves[f"{name}{number + 1}"], color, f"${name}_{number + 1}$")
            truth = truths[name](at)[number]
            axis.plot(at, truth, "k--", lw=0.9, label="truth" if number else None)
    at = _band(axes[1], curves["f"], "C2", "$f$")
    axes[1].plot(at, time_warp_truth.shared(at), "k--", lw=0.9, label="truth")


def _draw_series(axes, row: dict) -> None:
    series = simulate(row["seed"], row["noise"], 200 if row["quick"] else 1000)
    for number, (axis, (at, y, gone)) in enumerate(zip(axes, series, strict=True)):
        axis.plot(at[~gone], y[~gone], f"C{number}.", ms=2, label="observed")
        _band(axis, row["curves"][f"y{number + 1}"], f"C{number}", "mean ± 2 sd")
        axis.plot(at[gone], y[gone], "ko", ms=4, mfc="none", mew=0.7, label="removed")
        axis.set_ylabel(f"$y_{number + 1}$")


def _band(axis, curve: dict, color: str, label: str):
    at, mean, deviation = (studies.np.asarray(curve[name]) for name in ("at", "mean", "sd"))
    studies.band(axis, at, mean, deviation**2, color, label)
    return at


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="200 points, one run of few steps: no alignment")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--schedules", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--resume", action="store_true", help="keep the rows already written")
    parser.add_argument("--from", type=Path, dest="folder", help="collect single runs")
    options = parser.parse_args(arguments)
    suffix = "_quick" if options.quick else ""
    path = options.output / f"time_warp{suffix}.json"
    if options.folder is None:
        rows = _compute(options, path)
    else:
        rows, about = studies.collect(options.folder)
        rows = _in_order(rows)
        studies.write(_without_curves(rows), path, about)
    for noise in dict.fromkeys(row["noise"] for row in rows):
        draw(rows, noise, options.output / f"time_warp_{noise:g}{suffix}.png")
    print(table(rows))


def _compute(options, path: Path) -> list[dict]:
    rows = json.loads(path.read_text())["results"] if options.resume and path.exists() else []
    done = {tuple(row[name] for name in KEY) for row in rows}
    noises, seeds = (options.noise[:1], 1) if options.quick else (options.noise, options.seeds)
    schedules = ["staged", PLAIN] if options.quick else options.schedules
    for key in itertools.product(noises, range(seeds), schedules):
        if key not in done:
            rows = [*rows, one(*key, options.quick)]
            print(table(rows[-1:]).splitlines()[3], flush=True)
            studies.write(rows, path)
    return _in_order(rows)


def _in_order(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: (row["noise"], NAMES.index(row["schedule"]), row["seed"]))


def _without_curves(rows: list[dict]) -> list[dict]:
    return [{name: v for name, v in row.items() if name != "curves"} for row in rows]
