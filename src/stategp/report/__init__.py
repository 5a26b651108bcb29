"""One HTML file that shows everything and needs nothing else: no network, no installation.

What came from outside (titles, names, calls) is escaped as text. A content security policy lets
the page run its own script, known by its hash, and load nothing.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from importlib import resources
from typing import Any

import numpy as np

from stategp._runtime import replacing
from stategp._story import Curve, Story
from stategp.report import _svg
from stategp.report._carried import carried
from stategp.report._text import aligned, escape, in_words, number, span_in_words, table, when

__all__ = ["render", "write_report"]

_SCRIPTS = ("series.js", "view.js", "chart.js", "gestures.js", "page.js")


def write_report(story: Story, path: Any) -> None:
    """Write the report to a file, which appears when it is complete.

    >>> import numpy as np, stategp as sg, tempfile
    >>> from stategp._story import tell
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(tell(posterior, points=50), f"{folder}/report.html")
    """
    with replacing(path) as file:
        file.write(render(story).encode())


def render(story: Story) -> str:
    """The report as text."""
    read = resources.files("stategp.report").joinpath
    script = "\n".join(read(name).read_text("utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n{script}'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    ahead = len(story.forecast.x) > 0
    pieces = {
        "version": escape(story.versions["stategp"]),
        "script_hash": f"sha256-{digest}",
        "style": read("report.css").read_text("utf-8"),
        "script": script,
        "carried": carried(story),
        "title": escape(story.title),
        "lead": escape(_lead(story)),
        "badge": _badge(story),
        "facts": _facts(story),
        "certificate": _certificate(story),
        "series_heading": "Series and forecast" if ahead else "Series",
        "legend": _legend(story),
        "recent": "Forecast" if ahead else "Recent",
        "main_label": escape(f"{story.y_label} along {story.x_label}: {_lead(story)}"),
        "notes": _notes(story),
        "components": _components(story),
        "forecast": _forecast(story),
        "about_checks": escape(
            f"{story.checks.about} If the model is right, the blue curves and dots stay within or "
            "near what chance allows (grey)."
        ),
        "checks": _checks(story),
        "scores": _scores(story),
        "hyperparameters": _hyperparameters(story),
        "outcome": escape(_outcome(story)),
        "trace": _svg.trace(story),
        "call": f'<pre tabindex="0">{escape(story.call)}</pre>' if story.call else "",
        "model": escape(story.model),
        "versions": escape(" · ".join(f"{name} {at}" for name, at in story.versions.items())),
    }
    template = read("template.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: pieces[match[1]], template)


# --- the head of the page -----------------------------------------------------------------------


def _lead(story: Story) -> str:
    first, last = in_words(story.x[[0, -1]])
    count = f"{len(story.y):,} observation{'s' if len(story.y) > 1 else ''}"
    between = f"{count} of {story.y_label}, {first} to {last}"
    if len(story.gaps):
        between += f", with {len(story.gaps)} gap{'s' if len(story.gaps) > 1 else ''}"
    ahead = (
        f"; forecast until {in_words(story.curve.x[[0, -1]])[1]}" if len(story.forecast.x) else ""
    )
    return f"{between}{ahead}."


def _badge(story: Story) -> str:
    if not story.outcome:
        return ""
    good = not story.outcome.startswith("NOT")
    words = "Fit converged" if good else "Fit did not converge"
    return f'<p class="badge {"good" if good else "bad"}">{words}</p>'


def _facts(story: Story) -> str:
    first, last = in_words(story.x[[0, -1]])
    facts = [("Observations", f"{len(story.y):,}", "")]
    if story.has_dates:
        facts.append(("Span", span_in_words(story.x[0], story.x[-1]), f"{first} to {last}"))
    else:
        facts.append(("Span", number(float(story.x[-1] - story.x[0])), f"{first} to {last}"))
    facts.append(("Inducing points", f"{len(story.inducing):,}", ""))
    for name, value in story.scores.items():
        if name.startswith(f"coverage of the {100 * story.widest:.4g} %"):
            held = "held by the " + f"{100 * story.widest:.4g} % interval"
            facts.append(("Coverage", f"{value:.1%}", held))
            break
    if len(story.seconds):
        facts.append(
            ("Time to fit", f"{story.seconds[-1]:,.1f} s", f"{len(story.trace) - 1} steps")
        )
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}"
        f"{f'<small>{escape(more)}</small>' if more else ''}</dd></div>"
        for name, value, more in facts
    )


def _certificate(story: Story) -> str:
    if not story.certificate:
        return (
            '<p class="certificate none">The number of inducing points was given, so there is no '
            "certificate of how close the answer is to that of more of them.</p>"
        )
    kind = "certificate missed" if "NOT below" in story.certificate else "certificate"
    return f'<p class="{kind}"><strong>Certificate.</strong> {escape(story.certificate)}.</p>'


# --- the chart and what belongs to it -----------------------------------------------------------


def _legend(story: Story) -> str:
    levels = sorted(story.curve.intervals, reverse=True)
    layers = [("data", "dot", "observations"), ("mean", "line", "mean")]
    layers += [
        (f"interval{at}", f"band{min(at, 2)}", f"{100 * level:.4g} % interval")
        for at, level in enumerate(levels)
    ]
    if story.function is not None:
        layers.append(("function", "function", f"expected value, {100 * story.widest:.4g} %"))
    layers.append(("inducing", "tick", "inducing points"))
    return "\n".join(
        f'<button type="button" data-layer="{layer}" aria-pressed="true">'
        f'<i class="{mark}"></i>{escape(name)}</button>'
        for layer, mark, name in layers
    )


def _notes(story: Story) -> str:
    if not story.notes:
        return ""
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in story.notes)}</ul>'


def _components(story: Story) -> str:
    if not story.several_components:
        return ""
    about = (
        f"What each part of the model adds to the function, with {100 * story.widest:.4g} % "
        "intervals. Zooming one chart zooms all."
    )
    return (
        '<section aria-labelledby="parts-heading"><h2 id="parts-heading">Components</h2>'
        f'<p class="about">{about}</p>{_component_charts(story.components)}</section>'
    )


def _component_charts(names: Iterable[str]) -> str:
    return "".join(
        f'<h3>{escape(name)}</h3><div class="chart part" id="component-{at}"><canvas tabindex="0" '
        f'role="img" aria-label="Component {escape(name)}" aria-describedby="hint"></canvas>'
        '<div class="tooltip" hidden></div></div>'
        for at, name in enumerate(names)
    )


def _forecast(story: Story) -> str:
    if len(story.forecast.x) == 0:
        return ""
    return (
        '<section aria-labelledby="forecast-heading"><h2 id="forecast-heading">Forecast</h2>'
        f"{_forecast_table(story.forecast, story.x_label)}</section>"
    )


def _forecast_table(forecast: Curve, label: str) -> str:
    header, numbers = [label, "mean"], [forecast.mean]
    for level, bounds in sorted(forecast.intervals.items()):
        header += [f"{100 * level:.4g} % from", f"{100 * level:.4g} % to"]
        numbers += bounds
    columns = [when(forecast.x), *aligned(np.stack(numbers))]
    return table(header, columns, set(range(1, len(header))), unbroken=True)


# --- checks and tables --------------------------------------------------------------------------


def _checks(story: Story) -> str:
    charts = [
        ("Calibration", _svg.calibration(story), "Above the diagonal, intervals are too wide."),
        (
            "Autocorrelation of residuals",
            _svg.autocorrelation(story),
            "Long runs outside the grey band mean that the model misses structure in time.",
        ),
        ("Residuals", _svg.residuals(story), "One in twenty lies outside the grey band by chance."),
        (
            "Normal quantiles of residuals",
            _svg.quantiles(story),
            "Ends that bend away from the line mean outliers or tails that are too light.",
        ),
    ]
    return "\n".join(
        f"<figure><figcaption>{name}</figcaption>{chart}<p>{about}</p></figure>"
        for name, chart, about in charts
    )


def _scores(story: Story) -> str:
    names, values = list(story.scores), list(story.scores.values())
    texts = [
        f"{value:.1%}" if name.startswith("coverage") else number(value)
        for name, value in zip(names, values, strict=True)
    ]
    return table(["score", "value"], [names, texts], {1})


def _hyperparameters(story: Story) -> str:
    rows = story.hyperparameters
    values = [f"{row.value} {row.unit}".strip() for row in rows]
    return table(
        ["name", "value", ""], [[row.name for row in rows], values, [row.how for row in rows]], {1}
    )


def _outcome(story: Story) -> str:
    if not story.outcome:
        return "Nothing was optimised: the hyperparameters were taken as given."
    return f"{story.outcome[0].upper()}{story.outcome[1:]}, {story.seconds[-1]:,.1f} seconds."
