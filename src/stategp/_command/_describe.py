"""What a model file holds; what a table holds, and what would be fitted to it."""

from typing import Any

import numpy as np

from stategp._command._tables import span_in_words
from stategp._durations import describe
from stategp._forecasting import (
    TimeAxis,
    as_frame,
    number_column,
    plan_in_words,
    shown_key,
    time_column,
)
from stategp._story import user_units


def facts(forecaster: Any) -> dict[str, Any]:
    """A summary of a fitted forecaster, as plain values."""
    if forecaster.panel is not None:
        return _facts_of_many(forecaster.panel)
    fitted = forecaster.fitted
    posterior, axis = fitted.posterior, fitted.axis
    x = user_units(posterior.data.x[[0, -1]], posterior.data.origin, 2)
    described: dict[str, Any] = {
        "target": fitted.target,
        "time": f"{fitted.time}, {span_in_words(axis, x)}",
        "observations": posterior.data.observed,
        "inducing points": len(posterior.relative_inducing),
        "kernel": forecaster.learned_kernel,
        "likelihood": repr(posterior.model.likelihood),
        "mean": repr(posterior.model.mean),
        "bound on log p(y)": posterior.elbo,
    }
    if posterior.certificate is not None:
        described["certificate"] = str(posterior.certificate)
    if posterior.fit_result is not None:
        described["converged"] = posterior.fit_result.converged
        described["fit"] = str(posterior.fit_result)
    for name, sentences in (("found", fitted.findings), ("careful", forecaster.cautions)):
        if sentences:
            described[name] = "; ".join(sentences)
    return described


def _facts_of_many(panel: Any) -> dict[str, Any]:
    failed = [f"{shown_key(key)}: {why}" for key, why in zip(*panel.failed, strict=True)]
    described = {
        "target": panel.form.target,
        "time": panel.form.time,
        "told apart by": ", ".join(panel.form.by),
        "series": len(panel.keys),
    }
    if panel.shared:
        described["shared"] = panel.shared.removeprefix("shared: ")
    return described | ({"problems": "; ".join(failed)} if failed else {})


def describe_table(content: Any, time: str, target: str) -> dict[str, Any]:
    table = as_frame(content)
    instants = time_column(table, time)
    axis = TimeAxis.of(instants)
    x = np.asarray(axis.numbers(instants, f"column {time!r}"), dtype=float)
    y = number_column(table, target)
    seen = np.isfinite(y)
    if not seen.any():
        raise ValueError(f"column {target!r} has no numbers")
    distinct = np.unique(x)
    spacing = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0
    widest = float(np.max(np.diff(distinct))) if len(distinct) > 1 else 0.0

    def length(value: float) -> str:
        return describe(value) if axis.dates and value > 0 else f"{value:g}"

    values = y[seen]
    whole = bool(np.all(values == np.round(values)) and values.min() >= 0)
    return {
        "rows": len(x),
        "time": f"{time}, {span_in_words(axis, distinct[[0, -1]])}",
        "usual step": length(spacing),
        "widest gap": length(widest),
        "repeated times": len(x) - len(distinct),
        "target": target,
        "missing": int((~seen).sum()),
        "smallest, median, largest": ", ".join(
            f"{v:.6g}" for v in (values.min(), np.median(values), values.max())
        ),
        "looks like": _looks_like(values, whole),
        **plan_in_words(x[seen], values, axis),
    }


def _looks_like(values: np.ndarray, whole: bool) -> str:
    if set(np.unique(values[:1000])) <= {0.0, 1.0} and set(np.unique(values)) <= {0.0, 1.0}:
        return "yes or no: --likelihood bernoulli"
    if whole and values.max() < 1e6:
        return "counts: --likelihood poisson (or negative-binomial)"
    if values.min() > 0 and values.max() > 100 * np.median(values):
        return "positive, with a long tail: --likelihood gamma"
    return "measurements: --likelihood gaussian"
