"""Scores of the forecasts of `benchmarks.forecasts`, their table, and pictures of the worst."""

import numpy as np

from stategp import metrics

ARRAYS = ("mean", "median", "lower", "upper")  # of a record: the forecast itself
SCORES = ("mase", "smape", "msis", "crps", "coverage")
THIRDS = ("coverage_first", "coverage_middle", "coverage_last")  # of the horizon
_DROPPED = {*ARRAYS, "asked", "versions"}  # of a record in the documentation
_LEVEL = 0.95  # the last of the levels
_SHOWN = 10  # series in a picture
_TAIL = 3  # horizons of the training part in it


def scores(record, train, test, season):
    """What a forecast is worth; an error if it is none. CRPS is scaled as MASE is."""
    if "error" in record:
        return {}
    mean, median, lower, upper = (np.asarray(record[name]) for name in ARRAYS)
    if mean.shape != test.shape:
        return {"error": f"{len(test)} steps ahead were asked for, {len(mean)} came"}
    scale = metrics.seasonal_scale(train, season)
    if not np.isfinite(scale):
        return {"error": "the training part never changes: there is no scale for MASE"}
    low, high = lower[-1], upper[-1]
    thirds = np.array_split(np.arange(len(test)), 3)
    covered = [metrics.coverage(test[at], low[at], high[at]) for at in thirds]
    quantiles = [*lower[-2::-1], median, *upper[:-1]]
    probabilities = np.linspace(0.05, 0.95, len(quantiles))
    return {
        "mase": metrics.mase(test, mean, train, season),
        "mase_median": metrics.mase(test, median, train, season),
        "smape": metrics.smape(test, mean),
        "msis": metrics.msis(test, low, high, train, season, _LEVEL),
        "crps": metrics.crps(test, quantiles, probabilities) / scale,
        "coverage": metrics.coverage(test, low, high),
    } | dict(zip(THIRDS, covered, strict=True))


def summary(results, methods):
    """Means over series of each method; series that failed are counted and left out.

    The first of the methods is ours.
    """
    ours, there = methods[0], {one["method"] for one in results}
    mine = {one["series"]: one["mase"] for one in results if _scored(one) and one["method"] == ours}
    found = {method: _of_method(results, method, mine) for method in methods if method in there}
    if ours in found:
        found[ours]["ours_better"] = None
    return found


def _of_method(results, method, mine):
    records = [one for one in results if one["method"] == method]
    there = [one for one in records if _scored(one)]
    found = {name: _mean([one[name] for one in there]) for name in (*SCORES, *THIRDS)}
    # The first of a process compiles, or loads what others do not have to.
    later = [one["seconds"] for one in there if not one["first"]]
    first = [one["seconds"] for one in there if one["first"]]
    both = [one for one in there if one["series"] in mine]
    found["seconds"] = float(np.median(later or first)) if there else None
    found["first_seconds"] = first[0] if first else None
    found["ours_better"] = _mean([mine[one["series"]] < one["mase"] for one in both])
    found |= {"series": len(records), "failures": len(records) - len(there)}
    return found


def _scored(record):
    return "mase" in record


def _mean(values):
    """None where there is nothing to average."""
    return float(np.mean(values)) if len(values) else None


def table(run, methods):
    """Two tables in Markdown: rows methods, columns groups and what is measured of them."""
    of_forecasts = {
        "MASE": "{mase:.3f}", "sMAPE": "{smape:.2f}", "MSIS": "{msis:.2f}", "CRPS": "{crps:.3f}",
        "95 %": "{coverage:.1%}",
    }  # fmt: skip
    of_intervals = {
        "95 %: first third": "{coverage_first:.1%}", "middle": "{coverage_middle:.1%}",
        "last": "{coverage_last:.1%}", "ours better": "{ours_better:.0%}",
        "s": "{seconds:.2f}", "first s": "{first_seconds:.2f}", "failed": "{failures}",
    }  # fmt: skip
    tables = [_table(run, of_forecasts, methods)]
    tables += [_table(run, of_intervals, methods, group) for group in run["groups"]]
    notes = (
        "Means over series. CRPS from 19 quantiles, scaled as MASE. 95 %: the share inside the "
        "interval.\nOurs better: the share of series where our MASE is smaller. Seconds: the "
        "median of a series; the first one of a process."
    )
    return "\n\n".join([*tables, notes])


def _table(run, columns, methods, only=None):
    groups = [only] if only else list(run["groups"])
    found = {group: run["groups"][group]["summary"] for group in groups}
    names = [method for method in methods if any(method in found[group] for group in groups)]
    count = {g: max((m["series"] for m in found[g].values()), default=0) for g in groups}
    titles = [
        f"{group} ({count[group]}): {title}" if at == 0 else title
        for group in groups
        for at, title in enumerate(columns)
    ]
    rows = [["", *titles]]
    for name in names:
        measured = [(found[group].get(name, {}), columns.values()) for group in groups]
        cells = [_cell(text, values) for values, texts in measured for text in texts]
        rows.append([name, *cells])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    lines = (" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text, values):
    """A number as the column writes it, a dash where there is none."""
    field = text.strip("{}").split(":")[0]
    return "–" if values.get(field) is None else text.format(**{field: values[field]})


def without_forecasts(run):
    """The run with scores and seconds only, versions said once: what the documentation keeps."""
    groups, versions = {}, {}
    for name, group in run["groups"].items():
        for one in group["results"]:
            who = "stategp" if one["method"] == "stategp" else "peers"
            versions |= {who: one.get("versions", versions.get(who))}
        kept = [{k: v for k, v in one.items() if k not in _DROPPED} for one in group["results"]]
        groups[name] = group | {"results": kept}
    return run | {"versions": versions, "groups": groups}


def draw(group, run, series, folder, ours):
    """The series with our largest MASE: data, truth, ours with its interval, the best peer."""
    from matplotlib.figure import Figure

    results = [one for one in run["groups"][group]["results"] if _scored(one)]
    mine = [one for one in results if one["method"] == ours]
    worst = sorted(mine, key=lambda one: -one["mase"])[:_SHOWN]
    if not worst:
        return None
    figure = Figure(figsize=(13, 2.6 * -(-len(worst) // 2)), layout="constrained")
    grid = figure.subplots(-(-len(worst) // 2), 2, squeeze=False).ravel()
    for axes in grid[len(worst) :]:
        axes.set_visible(False)
    for axes, one in zip(grid, worst, strict=False):
        others = [o for o in results if o["series"] == one["series"] and o["method"] != ours]
        others = [other for other in others if "mean" in other]  # not those whose scores were kept
        best = min(others, key=lambda o: o["mase"], default=None)
        _draw_one(axes, one, best, *series[one["series"]])
    named = grid[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside upper left", ncols=5, fontsize=8, frameon=False)
    kind = "all" if run["series"] == "all" else f"{run['series']}-of-each"
    file = folder / f"{run['date']}-forecasts-{group}-{kind}-worst.png"
    figure.savefig(file, dpi=110)
    return file


def _draw_one(axes, one, best, train, test):
    horizon = len(test)
    tail = train[-_TAIL * horizon :]
    ahead = np.arange(horizon)
    axes.plot(np.arange(-len(tail), 0), tail, color="0.3", lw=0.9, label="data")
    axes.plot(ahead, test, color="black", lw=1.4, label="what came")
    axes.plot(ahead, one["mean"], color="#0072B2", lw=1.3, label="stategp")
    axes.fill_between(
        ahead, one["lower"][-1], one["upper"][-1], color="#0072B2", alpha=0.18, lw=0, label="95 %"
    )
    title = f"{one['series']}: stategp {one['mase']:.2f}"
    if best:
        axes.plot(
            ahead, best["mean"], color="#D55E00", lw=1.1, ls="--", label="best peer, in hindsight"
        )
        title += f", {best['method']} {best['mase']:.2f}"
    axes.set_title(title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
