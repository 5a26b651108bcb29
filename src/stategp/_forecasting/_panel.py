"""Forecasts of many series: models as numbers, posteriors only when they are asked for."""

import dataclasses
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from stategp._data import Bundle, distinct_inputs, relative_inputs
from stategp._fitting import NOT_BEGUN, Asked, Template, condition, moments_together
from stategp._forecasting._answers import as_levels, distribution_columns, no_columns
from stategp._forecasting._averages import Average, Part, average_of
from stategp._forecasting._cautions import ForecastWarning
from stategp._forecasting._choosing import Choice, widening
from stategp._forecasting._frames import as_frame, number_column, time_column
from stategp._forecasting._learning import in_units_of_y
from stategp._forecasting._long import Key, as_failures, failure_frame, read_long, shown_key
from stategp._forecasting._long_answers import Answer, after, answer_frame, asked_rows, each_ahead
from stategp._forecasting._reading import LongForm
from stategp._forecasting._scales import Scale
from stategp._inference import FitResult, Outcome
from stategp._models import GP
from stategp._posteriors import Posterior


class Light(NamedTuple):
    """A fitted model as numbers, with its share in the forecasts of a series."""

    weight: float
    which: int  # of the models of the panel has its structure
    values: np.ndarray  # of all hyperparameters
    evidence: float
    trend: str  # in words; nothing for a kernel that was given
    log: bool
    spent: float
    lately: float
    result: FitResult | None


@dataclasses.dataclass(eq=False)
class Panel:
    """What a forecaster learned of many series."""

    form: LongForm
    keys: tuple[Key, ...]
    problems: tuple[str, ...]  # of series that could not be fitted
    models: tuple[GP, ...]  # one of each structure
    chosen: tuple[tuple[Light, ...], ...]  # for each series; none where it failed or stands alone
    data: Bundle
    alone: dict[int, Any]  # forecasters of series that have one of their own
    call: str
    shared: str = ""  # what series have in common, in words
    left_out: dict[int, str] = dataclasses.field(default_factory=dict)  # by the last update

    @cached_property
    def numbers(self) -> dict[Key, int]:
        """The number of each series."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def _templates(self) -> list[Template]:
        return [Template(model, model) for model in self.models]

    @property
    def failures(self) -> Any:
        """A frame with a row for each series that could not be fitted or updated, and why."""
        return failure_frame(self.form.kind, self.form.by, *self.failed)

    @property
    def failed(self) -> tuple[list[Key], list[str]]:
        """The series that could not be fitted or updated, and why."""
        problems = {number: problem for number, problem in enumerate(self.problems) if problem}
        return as_failures(self.keys, problems, self.left_out)

    def interrupted(self) -> bool:
        """Whether somebody asked the fit to end."""
        ends = [light.result for some in self.chosen for light in some]
        ends += [one.posterior.fit_result for one in self.alone.values()]
        ended = [result.outcome for result in ends if result is not None]
        return Outcome.interrupted in ended or NOT_BEGUN in self.problems

    def number(self, key: Any) -> int:
        """That of a series that was fitted."""
        number = self.numbers.get(key if isinstance(key, tuple) else (key,))
        if number is None:
            shown = [repr(shown_key(one)) for one in self.keys[:5]]
            some = ", ".join(shown) + (", …" * (len(self.keys) > 5))
            name = shown_key(key) if isinstance(key, tuple) else key
            raise KeyError(f"there is no series {name!r}; there are {some}")
        if self.problems[number]:
            raise ValueError(f"series {key!r} could not be fitted: {self.problems[number]}")
        return number

    def choices(self, number: int) -> tuple[Choice, ...]:
        """The models of one series with their posteriors, the one with the largest weight first."""
        return tuple(
            Choice(
                one.weight,
                self._posterior(number, one),
                one.trend,
                one.log,
                one.spent,
                lately=one.lately,
            )
            for one in self.chosen[number]
        )

    def _posterior(self, number: int, light: Light) -> Posterior:
        data = self.data[number]
        values = self._values(light)
        x, y = self.data.inputs(number), np.asarray(data.y)
        extra = np.asarray(data.extra)
        posterior: Posterior = condition(
            self._templates[light.which].with_values(values), x, np.log(y) if light.log else y,
            inducing="data", weights=np.asarray(data.weights), progress=False,
            noise_variance=extra if extra.any() else None,
        )  # fmt: skip
        posterior = dataclasses.replace(posterior, fit_result=light.result)
        if light.log:
            posterior = in_units_of_y(posterior, Scale(True), y)
        return eqx.tree_at(lambda tree: tree.elbo, posterior, light.evidence)

    def _values(self, light: Light) -> list[np.ndarray]:
        return self._templates[light.which].shaped(light.values)

    # --- answers -----------------------------------------------------------------------------

    def forecast(self, horizon: Any, every: Any, future: Any = None, **options: Any) -> Any:
        """A long frame of predictions from the end of each series up to the horizon."""
        form = self.form
        known = None if future is None else read_long(future, form.by, form.time, form.target)
        futures = {} if known is None else {k: known.part(n) for n, k in enumerate(known.keys)}

        def look(number: int) -> Any:
            if number not in self.alone:
                return self._after(number, horizon, every)
            ahead = {"every": every, "future": futures.get(self.keys[number])}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ForecastWarning)  # of each of many series
                return self._read(self.alone[number].forecast(horizon, **ahead, **options))

        good = [number for number, problem in enumerate(self.problems) if not problem]
        found = each_ahead(self.keys, good, look, depth=3)
        answers = {n: answer for n, answer in found.items() if n in self.alone}
        asked = {n: x for n, x in found.items() if n not in self.alone}
        answers |= self._answers(asked, **options)
        return answer_frame(form, self.keys, dict(sorted(answers.items())))

    def predict(self, frame: Any, **options: Any) -> Any:
        """A long frame of predictions for each row of another, by default of the data."""
        if frame is None:
            answers = {n: self._read(self.alone[n].predict(**options)) for n in self.alone}
            asked = {n: self.data.inputs(n) for n, some in enumerate(self.chosen) if some}
            answers |= self._answers(asked, **options)
            return answer_frame(self.form, self.keys, dict(sorted(answers.items())))
        long, x = asked_rows(self.form, frame)
        answers, asked, rows = {}, {}, {}
        for place, (key, where) in enumerate(long):
            if key not in self.numbers:
                self.number(key)  # says which there are
            number = self.numbers[key]
            rows[number] = where
            if number in self.alone:
                found = self.alone[number].predict(long.part(place), **options)
                answers[number] = self._read(found)
            elif self.problems[number]:
                levels = as_levels(options.get("levels", 0.95))
                answers[number] = x[where], no_columns(len(where), levels)
            else:
                asked[number] = x[where]
        return answer_frame(self.form, self.keys, answers | self._answers(asked, **options), rows)

    def _after(self, number: int, horizon: Any, every: Any) -> np.ndarray:
        data = self.data[number]
        x = distinct_inputs(np.asarray(data.x))
        return after(x, data.origin, self.form.axis, horizon, every)

    def _read(self, found: Any) -> Answer:
        """Times as numbers and columns of a frame that a forecaster gave."""
        form = self.form
        table = as_frame(found, form.time)
        instants = time_column(table, form.time, form.axis.zone, form.axis.layout)
        columns = {name: number_column(table, name) for name in table.columns if name != form.time}
        return form.axis.numbers(instants, "times"), columns

    def _answers(
        self,
        asked: dict[int, np.ndarray],
        *,
        levels: Any = 0.95,
        of: str = "observation",
        noise_variance: float = 0.0,
    ) -> dict[int, Answer]:
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        wanted = as_levels(levels)
        found = self._distributions(asked, of == "observation", noise_variance)
        return {n: (asked[n], distribution_columns(there, wanted)) for n, there in found.items()}

    def distributions(self, asked: dict[int, np.ndarray]) -> dict[int, Average]:
        """Of new observations at some times of series without a forecaster of their own."""
        return self._distributions(asked, True, 0.0)

    def _distributions(
        self, asked: dict[int, np.ndarray], noise: bool, known: float
    ) -> dict[int, Average]:
        """Of new observations (or of the function), for series without a forecaster of their own.

        `known` is noise beside that of the models.
        """
        owners, queries = [], []
        for number, x in asked.items():
            data = self.data[number]
            relative = relative_inputs("times", x, data.origin)
            for light in self.chosen[number]:
                y: Any = np.log(np.asarray(data.y)) if light.log else data.y
                seen = dataclasses.replace(data, y=y)
                template, values = self._templates[light.which], self._values(light)
                queries.append(Asked(template, values, seen, relative))
                owners.append((number, light))
        parts: dict[int, list[Part]] = {}
        moments = moments_together(queries)
        for (number, light), query, found in zip(owners, queries, moments, strict=True):
            mean, variance = found
            if noise:
                variance = variance + query.template.noise(query.values) + known
            learned = wide = np.sqrt(np.maximum(variance, 0.0))
            if light.trend:
                wide = learned * np.sqrt(widening(query.data, light.spent, light.lately, query.x))
            part = Part(light.weight, light.log, mean, wide, learned=learned)
            parts.setdefault(number, []).append(part)
        return {number: average_of(some) for number, some in parts.items()}


def check_panel(panel: Panel) -> None:
    """Refuse a file whose parts do not fit together."""
    count = len(panel.keys)
    if any(len(part) != count for part in (panel.problems, panel.chosen, panel.data)):
        raise ValueError("the file has another number of series than of answers")
    sizes = [sum(v.size for v in template.values) for template in panel._templates]
    for light in (light for some in panel.chosen for light in some):
        if not 0 <= light.which < len(sizes) or light.values.shape != (sizes[light.which],):
            raise ValueError("the file has hyperparameters that no model of it has")


def merged(panels: Sequence[Panel]) -> Panel:
    """The series of all panels, in their order."""
    kinds: dict[Any, int] = {}
    models: list[GP] = []
    chosen: list[tuple[Light, ...]] = []
    alone: dict[int, Any] = {}
    for panel in panels:
        places = []
        for template in panel._templates:
            if template.kind not in kinds:
                kinds[template.kind] = len(models)
                models.append(template.model)
            places.append(kinds[template.kind])
        alone |= {len(chosen) + number: one for number, one in panel.alone.items()}
        for some in panel.chosen:
            chosen.append(tuple(light._replace(which=places[light.which]) for light in some))
    return dataclasses.replace(
        panels[0],
        keys=tuple(key for panel in panels for key in panel.keys),
        problems=tuple(problem for panel in panels for problem in panel.problems),
        models=tuple(models), chosen=tuple(chosen),
        data=Bundle.joined([panel.data for panel in panels]), alone=alone,
    )  # fmt: skip


def reordered(panel: Panel, order: Sequence[int]) -> Panel:
    """Only these series, in this order."""
    there = panel.data.counts > 0
    return dataclasses.replace(
        panel,
        keys=tuple(panel.keys[n] for n in order),
        problems=tuple(panel.problems[n] for n in order),
        chosen=tuple(panel.chosen[n] for n in order),
        data=Bundle.of([panel.data[n] if there[n] else None for n in order]),
        alone={place: panel.alone[n] for place, n in enumerate(order) if n in panel.alone},
        left_out={place: panel.left_out[n] for place, n in enumerate(order) if n in panel.left_out},
    )
