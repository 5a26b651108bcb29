"""Fits a forecaster to many series: side by side where that is possible, else one by one."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Bundle, Observations, observe
from stategp._fitting import (
    Item,
    Learned,
    NotConvergedWarning,
    Template,
    fit,
    goes_together,
    learn_many,
)
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._candidates import Candidate
from stategp._forecasting._choosing import LEARNING, Contest, weigh
from stategp._forecasting._defaults import refuse_durations
from stategp._forecasting._long import Long
from stategp._forecasting._panel import Light, Panel
from stategp._forecasting._reading import LongForm, Raw, read_series
from stategp._models import GP, as_likelihood
from stategp._posteriors import Posterior
from stategp._runtime import Progress
from stategp.means import Constant


class Wish(NamedTuple):
    """What was asked of `Forecaster.fit` for many series."""

    time: str
    target: str
    columns: dict[str, str | None]  # that are read beside the target, by what they are for
    date_format: str | None
    progress: Any
    options: dict[str, Any]


class PanelFit:
    """The state of a fit: what is known of every series so far."""

    def __init__(self, forecaster: Any, long: Long, wish: Wish, axis: TimeAxis | None):
        self.forecaster, self.long, self.wish = forecaster, long, wish
        self.form, self.raws = read_series(
            long, wish.time, wish.target, wish.columns, wish.date_format, axis
        )
        self.likelihood = as_likelihood(forecaster.likelihood)
        self.problems = [raw.problem for raw in self.raws]
        self.series: list[Observations | None] = [
            self._observed(number, raw) for number, raw in enumerate(self.raws)
        ]
        count = len(self.raws)
        self.chosen: list[tuple[Light, ...]] = [()] * count
        self.alone: dict[int, Any] = {}
        self.kinds: dict[Any, int] = {}
        self.models: list[GP] = []
        self._fit()

    def _observed(self, number: int, raw: Raw) -> Observations | None:
        """The series, checked; or None, with the problem entered."""
        if raw.problem:
            return None
        extras = {name: value for name, value in raw.extras.items() if name != "weights"}
        weights = raw.extras.get("weights")
        try:
            return observe(raw.x, raw.y, self.likelihood, extras=extras, weights=weights)
        except ValueError as error:
            self.problems[number] = str(error)
            return None

    @property
    def panel(self) -> Panel:
        """What was learned."""
        form: LongForm = self.form
        by = form.by[0] if len(form.by) == 1 else list(form.by)
        columns = f"time={form.time!r}, target={form.target!r}, by={by!r}"
        call = f"{self.forecaster!r}.fit(frame, {columns})"
        return Panel(
            form, self.long.keys, tuple(self.problems), tuple(self.models), tuple(self.chosen),
            Bundle.of(self.series), self.alone, call,
        )  # fmt: skip

    def _fit(self) -> None:
        good = [number for number, data in enumerate(self.series) if data is not None]
        asked = self.forecaster
        effects = any((asked.regressors, asked.holidays, asked.events))
        extras = any(name != "weights" and c for name, c in self.wish.columns.items())
        left: list[int] = good
        if not effects and asked.kernel is None and not extras and not self.wish.options:
            together = [number for number in good if self._chooses(number)]
            self._compare(together)
            left = [number for number in good if number not in set(together)]
        elif not effects and not extras and asked.kernel is not None:
            model = self._model()
            options = {"inducing": asked.inducing} | self.wish.options
            plain = isinstance(options["inducing"], str)
            if plain and goes_together(model, options):
                self._learn(model, good, options)
                left = []
        self._one_by_one(left)

    def _chooses(self, number: int) -> bool:
        data = self.series[number]
        assert data is not None
        return bool(self.forecaster._chooses(self.likelihood, np.asarray(data.x)))

    def _model(self) -> GP:
        kernel, mean = self.forecaster.kernel, self.forecaster.mean
        if isinstance(kernel, str) and not self.form.axis.dates:
            refuse_durations(kernel)
        return GP(kernel, self.likelihood, Constant() if mean is None else mean)

    # --- a kernel that was given --------------------------------------------------------------

    def _learn(self, model: GP, numbers: list[int], options: dict[str, Any]) -> None:
        items = [Item(model, data) for n in numbers if (data := self.series[n]) is not None]

        def alone(item: int) -> Posterior:
            raw = self.raws[numbers[item]]
            posterior: Posterior = fit(model, raw.x, raw.y, **raw.extras, **options, progress=False)
            return posterior

        found, _ = learn_many(items, alone, options=options, progress=self.wish.progress)
        for number, learned in zip(numbers, found, strict=True):
            if learned.template is None:
                self._fails(number, learned.problem)
            else:
                self.chosen[number] = (self._light(learned, 1.0, learned.log_evidence),)

    # --- models that are compared -------------------------------------------------------------

    def _compare(self, numbers: list[int]) -> None:
        """The first model of y and of log y for all series, then the others of the better one."""
        contests: dict[int, Contest] = {}
        for number in numbers:
            raw = self.raws[number]
            try:
                contests[number] = Contest(
                    np.asarray(raw.x), np.asarray(raw.y),
                    dates=self.form.axis.dates, weights=raw.extras.get("weights"),
                )  # fmt: skip
            except (ValueError, FloatingPointError) as error:
                self._fails(number, str(error))
        fitted: dict[int, list[list[tuple[Candidate, Learned]]]] = {
            number: [[] for _ in contest.scales] for number, contest in contests.items()
        }
        first = [
            (number, scale, contest.scales[scale][0])
            for number, contest in contests.items()
            for scale in range(len(contest.scales))
        ]
        self._enter(first, contests, fitted)
        best = {}
        for number in contests:
            heights = [self._evidence(contests[number], *scale[0]) for scale in fitted[number]]
            best[number] = int(np.argmax(heights))
        others = [
            (number, best[number], candidate)
            for number, contest in contests.items()
            for candidate in contest.scales[best[number]][1:]
        ]
        self._enter(others, contests, fitted)
        for number, contest in contests.items():
            self._weigh(number, contest, fitted[number], best[number])

    def _enter(
        self,
        wanted: list[tuple[int, int, Candidate]],
        contests: dict[int, Contest],
        fitted: dict[int, list[list[tuple[Candidate, Learned]]]],
    ) -> None:
        """Fit these candidates to their series."""

        def part(item: int) -> dict[str, Any]:
            number, _, candidate = wanted[item]
            return contests[number].part(candidate, contests[number].latest)

        items = []
        for item, (_, _, candidate) in enumerate(wanted):
            some = part(item)
            data = observe(some["x"], some["y"], candidate.likelihood, weights=some["weights"])
            items.append(Item(candidate.model, data))

        def alone(item: int) -> Posterior:
            model = wanted[item][2].model
            posterior: Posterior = fit(model, **part(item), **LEARNING, progress=False)
            return posterior

        found, _ = learn_many(
            items, alone, options=LEARNING, stretches=(1.0,), progress=self.wish.progress,
            what="models",
        )  # fmt: skip
        for (number, scale, candidate), learned in zip(wanted, found, strict=True):
            fitted[number][scale].append((candidate, learned))

    def _evidence(self, contest: Contest, candidate: Candidate, learned: Learned) -> float:
        return contest.evidence(candidate, learned.log_evidence)

    def _weigh(
        self,
        number: int,
        contest: Contest,
        fitted: list[list[tuple[Candidate, Learned]]],
        best: int,
    ) -> None:
        evidences = [[self._evidence(contest, *model) for model in scale] for scale in fitted]
        if not any(np.isfinite(e) for scale in evidences for e in scale):
            self._fails(number, fitted[best][0][1].problem or "no model could be fitted")
            return
        with np.errstate(invalid="ignore"):
            weights = weigh(evidences, best)
        lights = []
        for weight, scale, place in weights:
            candidate, learned = fitted[scale][place]
            if learned.template is not None:
                light = self._light(learned, weight, evidences[scale][place])
                lights.append(
                    light._replace(trend=candidate.trend, log=candidate.log, spent=candidate.spent)
                )
        if not lights:
            self._fails(number, fitted[best][0][1].problem or "no model could be fitted")
            return
        total = sum(light.weight for light in lights)
        self.chosen[number] = tuple(light._replace(weight=light.weight / total) for light in lights)

    def _light(self, learned: Learned, weight: float, evidence: float) -> Light:
        template = learned.template
        assert isinstance(template, Template)
        if template.kind not in self.kinds:
            self.kinds[template.kind] = len(self.models)
            self.models.append(template.model)
        values = np.concatenate([np.zeros(0), *(np.ravel(value) for value in learned.values)])
        which = self.kinds[template.kind]
        return Light(weight, which, values, evidence, "", False, 0.0, learned.result)

    # --- one by one ---------------------------------------------------------------------------

    def _one_by_one(self, numbers: list[int]) -> None:
        wish, show = self.wish, Progress.of(self.wish.progress)
        try:
            for done, number in enumerate(numbers):
                if show.visible:
                    show.shown = True
                    show.show(f"fitted {done:,} of {len(numbers):,} series")
                one = dataclasses.replace(self.forecaster, fitted=None, panel=None)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", NotConvergedWarning)
                        one.fit(
                            self.long.part(number), wish.time, wish.target, progress=False,
                            date_format=wish.date_format, **wish.columns, **wish.options,
                        )  # fmt: skip
                except KeyboardInterrupt:
                    for other in numbers[done:]:
                        self._fails(other, "interrupted before it was fitted")
                    return
                except Exception as error:  # of one series, which must not stop the others
                    self._fails(number, str(error))
                    continue
                self.alone[number] = one
        finally:
            show.close()

    def _fails(self, number: int, problem: str) -> None:
        self.problems[number], self.series[number] = " ".join(problem.split()), None
