"""The pieces of the page, as HTML: everything that came from outside is escaped."""

from collections.abc import Iterable, Sequence

import numpy as np

from stategp._story import (
    Account,
    Dots,
    Fill,
    Line,
    Panel,
    Portrait,
    Rug,
    Spans,
    Story,
    check_panels,
    component_panels,
    interval_name,
    outcome_in_words,
    seconds,
    series_panel,
    trace_panel,
)
from stategp.report._carried import carried, over_time
from stategp.report._maps import map_section
from stategp.report._svg import draw, keys
from stategp.report._text import aligned, escape, in_words, number, span_in_words, table, when

_MOST_ROWS = 400  # of the forecast table; all are in the file that can be saved


def about_fit(account: Account) -> dict[str, str]:
    """What every report says: how the fit went, what was learned, how it was made."""
    return {
        "badge": _badge(account),
        "hyperparameters": _hyperparameters(account),
        "outcome": escape(outcome_in_words(account)),
        "trace": draw(trace_panel(account)) if len(account.trace) > 1 else "",
        "call": f'<pre tabindex="0">{escape(account.call)}</pre>' if account.call else "",
        "model": escape(account.model),
        "versions": escape(" · ".join(f"{name} {at}" for name, at in account.versions.items())),
    }


def story_pieces(story: Story) -> dict[str, str]:
    """The pieces of the report of a series."""
    return {
        "carried": carried(story),
        "lead": escape(_lead(story)),
        "facts": _facts(story),
        "certificate": _certificate(story),
        "series": _series(story) + _components(story) + _forecast(story) + _checks(story),
        "scores": _section("scores", "Scores", _scores(story)),
    }


def portrait_pieces(portrait: Portrait) -> dict[str, str]:
    """The pieces of the report of several functions."""
    facts: list[tuple[str, ...]] = [("Observations", f"{portrait.observations:,}", "")]
    figures = "\n".join(map(_figure, portrait.panels))
    about = f'<p class="about">{escape(portrait.about)}</p>'
    quad = f'<div class="quad">{figures}</div>'
    maps = "" if portrait.maps is None else map_section(portrait.maps)
    return {
        "lead": escape(f"{_count(portrait.observations)}{portrait.lead}."),
        "facts": _listed([*facts, *_time(portrait)]),
        "certificate": "",
        "series": maps + _section("parts", "Functions", about + quad),
        "scores": "",
    }


def _section(name: str, title: str, content: str) -> str:
    return (
        f'<section aria-labelledby="{name}-heading"><h2 id="{name}-heading">{title}</h2>'
        f"{content}</section>"
    )


def _figure(panel: Panel) -> str:
    about = f"<p>{escape(panel.about)}</p>" if panel.about else ""
    return (
        f"<figure><figcaption>{escape(panel.title)}</figcaption>{keys(panel)}{draw(panel)}"
        f"{about}</figure>"
    )


# --- the head of the page -----------------------------------------------------------------------


def _count(number: int) -> str:
    return f"{number:,} observation{'' if number == 1 else 's'}"


def _lead(story: Story) -> str:
    first, last = in_words(story.x[[0, -1]])
    between = f"{_count(len(story.y))} of {story.y_label}, {first} to {last}"
    if len(story.gaps):
        between += f", with {len(story.gaps)} gap{'s' if len(story.gaps) > 1 else ''}"
    ahead = (
        f"; forecast until {in_words(story.curve.x[[0, -1]])[1]}" if len(story.forecast.x) else ""
    )
    return f"{between}{ahead}."


def _badge(account: Account) -> str:
    badges = []
    if account.converged is not None:
        words = "Fit converged" if account.converged else "Fit did not converge"
        badges.append(("good" if account.converged else "bad", words))
    if isinstance(account, Story):
        verdicts = {
            "good": "Model fits the data",
            "look": "Checks found something to look at",
            "bad": "Model does not fit the data",
            "unknown": "Too few data to judge the model",
        }
        kind = account.remarks[0].kind
        badges.append((kind, verdicts[kind]))
    return "\n".join(f'<p class="badge {kind}">{words}</p>' for kind, words in badges)


def _facts(story: Story) -> str:
    first, last = in_words(story.x[[0, -1]])
    facts: list[tuple[str, ...]] = [("Observations", f"{len(story.y):,}", "")]
    if story.has_dates:
        span = span_in_words(story.x[0], story.x[-1])
    else:
        span = number(float(story.x[-1] - story.x[0]))
    facts.append(("Span", span, f"{first} to {last}"))
    facts.append(("Inducing points", f"{len(story.inducing):,}", ""))
    interval = interval_name(story.widest)
    inside = story.scores[story.coverage[story.widest]]
    facts.append(("Coverage", f"{inside:.1%}", f"inside the {interval}", story.remarks[0].kind))
    return _listed([*facts, *_time(story)])


def _time(account: Account) -> list[tuple[str, ...]]:
    if account.converged is None:
        return []
    steps = max(len(account.trace) - 1, 0)
    return [("Time to fit", seconds(account), f"{steps} step{'' if steps == 1 else 's'}")]


def _listed(facts: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(
        f'<div><dt>{escape(name)}</dt><dd class="fact {" ".join(kind)}">{escape(value)}'
        f"{f'<small>{escape(more)}</small>' if more else ''}</dd></div>"
        for name, value, more, *kind in facts
    )


def _certificate(story: Story) -> str:
    if not story.certificate:
        return (
            '<p class="certificate none">The inducing points were given, so there is no '
            "certificate of how close the result is to that with more of them.</p>"
        )
    kind = "certificate" if story.certified else "certificate missed"
    return f'<p class="{kind}"><strong>Certificate.</strong> {escape(story.certificate)}.</p>'


# --- the charts and the forecast ----------------------------------------------------------------


def _series(story: Story) -> str:
    ahead = len(story.forecast.x) > 0
    label = escape(f"{series_panel(story).says}: {_lead(story)}")
    return f"""<section aria-labelledby="series-heading">
<div class="bar">
<h2 id="series-heading">{"Series and forecast" if ahead else "Series"}</h2>
<div class="tools" role="group" aria-label="Zoom">
<button type="button" data-act="left" aria-label="Move left" title="Move left">←</button>
<button type="button" data-act="right" aria-label="Move right" title="Move right">→</button>
<button type="button" data-act="in" aria-label="Zoom in" title="Zoom in">+</button>
<button type="button" data-act="out" aria-label="Zoom out" title="Zoom out">−</button>
<button type="button" data-act="recent">{"Forecast" if ahead else "Recent"}</button>
<button type="button" data-act="reset">All</button>
</div>
</div>
<div class="legend" role="group" aria-label="Shown in the chart">
{_legend(series_panel(story))}
</div>
{_chart("main-chart", "main", label, "hint shown")}
<div class="chart strip" id="overview"><canvas aria-label="The whole series, with the part that \
is shown" role="img"></canvas><div class="tooltip" hidden></div></div>
<p class="hint" id="hint">Scroll or pinch to zoom, drag to move or select, double-click for all. \
With the keyboard: + and −, arrows, Home. Names in the legend switch layers on and off.</p>
<p class="unseen" id="shown" aria-live="polite"></p>
<noscript><p class="notice">The charts of this page need JavaScript; the tables and checks below \
do not.</p></noscript>
{_notes(story)}
</section>
"""


def _chart(name: str, kind: str, label: str, described: str) -> str:
    return (
        f'<div class="chart {kind}" id="{name}"><canvas tabindex="0" role="img" '
        f'aria-label="{label}" aria-describedby="{described}"></canvas>'
        '<div class="tooltip" hidden></div></div>'
    )


def _legend(panel: Panel) -> str:
    kinds = {Dots: "dot", Line: "line", Fill: "band", Rug: "tick", Spans: "span"}
    return "\n".join(
        f'<button type="button" data-layer="{mark.key}" aria-pressed="{str(mark.shown).lower()}">'
        f'<i class="{kinds[type(mark)]} c-{mark.colour} {mark.key}"></i>{escape(mark.name)}'
        "</button>"
        for mark in panel.named
    )


def _notes(story: Story) -> str:
    if not story.notes:
        return ""
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in story.notes)}</ul>'


def _components(story: Story) -> str:
    if not story.several_components:
        return ""
    about = (
        f"What each part of the model adds to the function, with {interval_name(story.widest)}s. "
        "Zooming one chart zooms all. Periodic components are shown over one period."
    )
    along, seasons = over_time(story), [p for p in component_panels(story) if not p.along]
    charts = "".join(
        f"<h3>{escape(panel.title)}</h3>{_chart(panel.key, 'part', escape(panel.says), 'hint')}"
        for panel in along
    )
    quad = f'<div class="quad seasons">{"".join(map(_figure, seasons))}</div>' if seasons else ""
    return _section("parts", "Components", f'<p class="about">{about}</p>{charts}{quad}')


def _forecast(story: Story) -> str:
    forecast = story.forecast
    count = len(forecast.x)
    if count == 0:
        return ""
    every = -(-count // _MOST_ROWS)
    shown = forecast[every - 1 :: every]
    steps = f"{count:,} step{'' if count == 1 else 's'}"
    about = f"{steps} after the end of the data."
    if every > 1:
        nth = {2: "second", 3: "third"}.get(every, f"{every}th")
        about = f"Every {nth} of {steps} after the end of the data; the file has all of them."
    header, numbers = [story.x_label, "mean"], [shown.mean]
    for level, bounds in sorted(shown.intervals.items()):
        header += [f"{100 * level:.4g} % from", f"{100 * level:.4g} % to"]
        numbers += bounds
    columns = [when(shown.x), *aligned(np.stack(numbers))]
    rows = table(header, columns, set(range(1, len(header))), unbroken=True, tall=True)
    save = '<button type="button" id="save-forecast" hidden>Save as CSV</button>'
    head = f'<div class="bar"><h2 id="forecast-heading">Forecast</h2>{save}</div>'
    return (
        f'<section aria-labelledby="forecast-heading">{head}<p class="about">{about}</p>{rows}'
        "</section>"
    )


# --- checks and tables --------------------------------------------------------------------------


def _checks(story: Story) -> str:
    remarks = "".join(
        f'<li class="{remark.kind}">{escape(remark.text)}</li>' for remark in story.remarks
    )
    about = escape(
        f"{story.checks.about} If the model is right, the blue curves and dots stay within or "
        "near the range of chance (grey)."
    )
    figures = "\n".join(map(_figure, check_panels(story)))
    return _section(
        "checks",
        "Does the model fit?",
        f'<ul class="remarks">{remarks}</ul><p class="about">{about}</p>'
        f'<div class="quad">{figures}</div>',
    )


def _scores(story: Story) -> str:
    names, values = list(story.scores), list(story.scores.values())
    shares = set(story.coverage.values())
    texts = [
        f"{value:.1%}" if name in shares else number(value)
        for name, value in zip(names, values, strict=True)
    ]
    return table(["score", "value"], [names, texts], {1})


def _hyperparameters(account: Account) -> str:
    rows = account.hyperparameters
    columns: Sequence[Sequence[str]] = [
        [row.name for row in rows],
        [f"{row.value} {row.unit}".strip() for row in rows],
        [row.how for row in rows],
    ]
    return table(["name", "value", ""], columns, {1})
