"""The charts of a story: which curves, bands and dots, and what is written beside them."""

import numpy as np
from scipy.special import ndtri

from stategp._story._account import Account
from stategp._story._charts import (
    Axis,
    Dots,
    Fill,
    Line,
    Mark,
    Panel,
    Rug,
    Rule,
    Spans,
    Stems,
    interval_name,
)
from stategp._story._story import Band, Season, Story

_PARTS = 6  # colours of components
_SHADES = (0.18, 0.24, 0.3)  # of intervals, from the widest inwards


def series_panel(story: Story) -> Panel:
    """Data, mean and intervals, inducing points, gaps, and where the forecast begins."""
    x, curve = story.curve.x, story.curve
    marks: list[Mark] = [*_gaps(story)]
    for at, level in enumerate(sorted(curve.intervals, reverse=True)):
        lower, upper = curve.intervals[level]
        marks.append(
            Fill(
                "model", x, lower, upper, _SHADES[min(at, 2)],
                name=interval_name(level), key=f"interval{at}", shown=not story.two_valued,
            )
        )  # fmt: skip
    if story.function is not None:
        # of labels 0 and 1, the probability says more than the interval of a new one
        what = "probability" if story.two_valued else "expected value"
        marks.append(
            Fill(
                "inducing", x, story.function.lower, story.function.upper, 0.4,
                name=f"{what}, {100 * story.widest:.4g} %", key="function", shown=story.two_valued,
            )
        )  # fmt: skip
    marks += [
        Dots("data", story.x, story.y, name=_count(len(story.y), "observation"), key="data"),
        Line("model", x, curve.mean, name="mean", key="mean"),
        *_end(story),
        Rug(
            "inducing", story.inducing,
            name=_count(len(story.inducing), "inducing point"), key="inducing",
        ),
    ]  # fmt: skip
    return Panel(
        "series",
        story.title,
        Axis(story.x_label),
        Axis(story.y_label),
        tuple(marks),
        says=f"{story.y_label} along {story.x_label}",
        room=0.6,
    )


def component_panels(story: Story) -> list[Panel]:
    """Each component: along x, over one period if it repeats, both if its level moves as well."""
    panels = []
    for at, (name, band) in enumerate(story.components.items()):
        season = story.seasons.get(name)
        if season is None or season.drifts:
            panels.append(_component_panel(story, at, name, band))
        if season is not None:
            panels.append(_season_panel(story, at, name, season))
    return panels


def _component_panel(story: Story, at: int, name: str, band: Band) -> Panel:
    marks = (*_gaps(story), *_banded(_part(at), story.curve.x, band), *_end(story))
    return Panel(
        f"component-{at}",
        _words(name),
        Axis(story.x_label),
        Axis(f"Contribution to {story.modelled}"),
        marks,
        says=f"Component {_words(name)} along {story.x_label}",
    )


def _season_panel(story: Story, at: int, name: str, season: Season) -> Panel:
    plan, about = season.plan, season.plan.about
    levels = season.averages if season.drifts else [0.0] * len(season.cycles)
    if season.drifts:
        between = " and ".join(f"{level:.4g}" for level in levels)
        about = f"The first and the last {plan.noun} of the data, minus their averages {between}."
    marks: list[Mark] = []
    for number, (cycle, period) in enumerate(zip(season.cycles, plan.names, strict=True)):
        colour = _part(at) if number == len(season.cycles) - 1 else "before"
        marks += _banded(colour, plan.phase, cycle - levels[number], period)
    return Panel(
        f"season-{at}",
        _words(name) + (f" within the {plan.noun}" if season.drifts else ""),
        Axis(plan.label, (0.0, float(plan.phase[-1])), plan.ticks),
        Axis(f"Contribution to {story.modelled}"),
        tuple(marks),
        says=f"Component {_words(name)} over one {plan.noun}",
        about=about,
        along=False,
    )


def _banded(colour: str, x: np.ndarray, band: Band, name: str = "") -> list[Mark]:
    return [
        Fill(colour, x, band.lower, band.upper, key="band", name=""),
        Line(colour, x, band.mean, key="mean", name=name),
    ]


def check_panels(story: Story) -> list[Panel]:
    """Calibration, autocorrelation of the residuals, residuals along x, and their quantiles."""
    return [_calibration(story), _autocorrelation(story), _residuals(story), _quantiles(story)]


def _calibration(story: Story) -> Panel:
    nominal, actual = story.checks.nominal, story.checks.actual
    chance = 1.96 * np.sqrt(nominal * (1 - nominal) / max(len(story.checks.ranks), 1))
    lower, upper = (nominal - chance).clip(0), (nominal + chance).clip(0, 1)
    worst = float(np.max(np.abs(actual - nominal)))
    shares = tuple((share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))
    ends = np.array([0.0, 1.0])
    return Panel(
        "calibration",
        "Calibration",
        Axis("Level of the interval", (0.0, 1.0), shares),
        Axis("Observations inside", (0.0, 1.0), shares),
        (
            Fill("chance", nominal, lower, upper, 1.0),
            Line("expected", ends, ends),
            Line("model", nominal, actual),
        ),
        says=f"Calibration curve; at most {worst:.1%} away from the diagonal",
        about="Above the diagonal, intervals are too wide; below it, too narrow.",
    )


def _autocorrelation(story: Story) -> Panel:
    correlation = story.checks.autocorrelation
    title, about = (
        "Autocorrelation of residuals",
        "Long runs above the grey band mean that the model misses structure in time.",
    )
    axes = Axis("Lag (observations)", (0.0, len(correlation) + 1.0), whole=True)
    if len(correlation) == 0:
        why = "Too few observations"
        return Panel("autocorrelation", title, axes, Axis("Correlation"), (), instead=why)
    bound = 1.96 / np.sqrt(story.checks.pairs)
    reach = max(1.2 * float(np.abs(correlation).max()), 3 * bound, 0.05)
    ends = np.array([0.0, len(correlation) + 1.0])
    outside = int(np.sum(np.abs(correlation) > bound))
    return Panel(
        "autocorrelation",
        title,
        axes,
        Axis("Correlation", (-reach, reach)),
        (
            Fill("chance", ends, np.full(2, -bound), np.full(2, bound), 1.0),
            Line("expected", ends, np.zeros(2)),
            Stems("model", np.arange(1.0, len(correlation) + 1), correlation),
        ),
        says=f"Autocorrelation at {len(correlation)} lags, {outside} of them beyond chance",
        about=about,
    )


def _residuals(story: Story) -> Panel:
    x, y = story.checks.x, story.checks.residuals
    reach = max(3.0, 1.08 * float(np.abs(y).max()))
    ends, outside = x[[0, -1]], float(np.mean(np.abs(y) > 1.96))
    return Panel(
        "residuals",
        "Residuals",
        Axis(story.x_label),
        Axis("Normal score", (-reach, reach)),
        (
            Fill("chance", ends, np.full(2, -1.96), np.full(2, 1.96), 1.0),
            Line("expected", ends, np.zeros(2)),
            Dots("model", x, y, faint=True),
        ),
        says=f"Residuals along the series, {outside:.1%} of them beyond 1.96",
        about="By chance, one in twenty lies outside the grey band, and hardly any beyond ±4.",
    )


def _quantiles(story: Story) -> Panel:
    ordered = np.sort(story.checks.residuals)
    expected = ndtri((np.arange(len(ordered)) + 0.5) / len(ordered))
    reach = 1.05 * max(float(np.abs(ordered).max()), float(np.abs(expected).max()), 2.0)
    ends = np.array([-reach, reach])
    return Panel(
        "quantiles",
        "Normal quantiles of residuals",
        Axis("Normal quantile", (-reach, reach)),
        Axis("Residual quantile", (-reach, reach)),
        (Line("expected", ends, ends), Dots("model", expected, ordered)),
        says="Quantiles of the residuals against those of a normal distribution",
        about="Ends that bend away from the line indicate outliers, or tails that are too light.",
    )


def trace_panel(account: Account) -> Panel:
    """The objective at each step of the fit."""
    values, steps = account.trace, np.arange(float(len(account.trace)))
    across = Axis("Step", (0.0, max(len(values) - 1.0, 1.0)), whole=True)
    title = "Objective at each step"
    if len(values) == 0 or not np.any(np.isfinite(values)):
        why = outcome_in_words(account)
        return Panel("trace", title, across, Axis("Objective (nats)"), (), instead=why)
    seen = values[np.isfinite(values)]
    low, high = float(seen.min()), float(seen.max())
    if len(seen) > 4:  # first steps may start far below: show where it ended
        low = min(float(np.quantile(seen, 0.1)), float(seen[-1]))
    room = 0.08 * (high - low) or 1.0
    return Panel(
        "trace",
        title,
        across,
        Axis("Objective (nats)", (low - room, high + room)),
        (Line("model", steps, values), Dots("model", steps, values)),
        says=f"Objective over {len(values) - 1} steps, ending at {values[-1]:.6g}",
    )


def outcome_in_words(account: Account) -> str:
    """How the fit went and how long it took."""
    if not account.outcome:
        return "Nothing was optimised: the hyperparameters were used as given."
    return f"{account.outcome[0].upper()}{account.outcome[1:]}. {seconds(account)} in total."


def seconds(account: Account) -> str:
    """How long the fit took, for reading: the same words wherever it is said."""
    return f"{account.total_seconds:,.1f} s"


def _gaps(story: Story) -> list[Mark]:
    return [Spans("gap", story.gaps, name="no data", key="gaps")] if len(story.gaps) else []


def _end(story: Story) -> list[Mark]:
    if len(story.forecast.x) == 0:
        return []
    return [Rule("forecast", np.array([story.end]), name="forecast")]


def _part(at: int) -> str:
    return f"part{at % _PARTS}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
