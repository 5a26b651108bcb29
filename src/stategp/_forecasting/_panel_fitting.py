"""Fits a forecaster to many series: side by side where that is possible, else one by one."""

import dataclasses
import math
import warnings
from functools import partial
from typing import Any

import jax
import numpy as np

from stategp._data import Bundle, Observations, observe
from stategp._fitting import (
    Asked,
    Item,
    LearnedItem,
    NotConvergedWarning,
    Template,
    fit,
    goes_together,
    learn_many,
    moments_together,
)
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._candidates import Candidate
from stategp._forecasting._changes import with_changes
from stategp._forecasting._choosing import lately, standing, weigh
from stategp._forecasting._defaults import refuse_durations
from stategp._forecasting._foresight import mean_miss
from stategp._forecasting._learning import LEARNING, Series, left_out
from stategp._forecasting._lessons import shared_in_words
from stategp._forecasting._long import Long
from stategp._forecasting._panel import Light, Panel
from stategp._forecasting._reading import LongForm, Raw, read_series
from stategp._forecasting._single import Wish, chooses, fit_frame, plainly_normal
from stategp._forecasting._teaching import teach
from stategp._models import GP, as_likelihood
from stategp._posteriors import Posterior
from stategp._runtime import Progress
from stategp.means import Constant


@dataclasses.dataclass(eq=False)
class Entry:
    """A candidate for one series, and what becomes of it."""

    number: int  # of the series
    series: Series
    scale: int
    candidate: Candidate
    learned: Any = None
    evidence: float = -np.inf
    weight: float = 0.0
    expected: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    scores: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    @property
    def surprised(self) -> bool:
        """Whether it finds outliers among the observations."""
        return (
            len(self.scores) > 0
            and self.series.surprised(self.expected, self.scores) is not self.series
        )

    def missed(self) -> float:
        """By how much its forecasts miss the next observations, on average."""
        template, values = self.learned.template, self.learned.values
        if template is None:
            return math.nan
        model = jax.tree.unflatten(template.structure, template.numbers(values))
        noise = template.noise(values)
        return mean_miss(model.kernels[0], noise, self.candidate, self.series)


class PanelFit:
    """The state of a fit: what is known of every series so far."""

    def __init__(self, forecaster: Any, long: Long, wish: Wish, axis: TimeAxis | None):
        self.forecaster, self.long, self.wish = forecaster, long, wish
        self.form, self.raws = read_series(
            long, wish.time, wish.target, wish.columns, wish.date_format, axis,
            business=forecaster.kernel is None,
        )  # fmt: skip
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
        self.plain = self._is_plain()
        if wish.share != "none":
            self._check_sharing()

    def learn_first(self) -> bool:
        """What series share of the models that are compared, before any is fitted; or Ctrl-C."""
        if self.wish.share == "none" or self.forecaster.kernel is not None:
            return True
        try:
            clean = self._clean([number for number in self._good if self._chooses(number)])
            lessons = teach(list(clean.values()), self.wish.share, self.wish.progress)
        except KeyboardInterrupt:
            for number in self._good:
                self._fails(number, "interrupted before it was fitted")
            return False
        self.wish = self.wish._replace(lessons=lessons)
        return True

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

    def panel(self) -> Panel:
        """What is learned of every series."""
        self._fit()
        form: LongForm = self.form
        by = form.by[0] if len(form.by) == 1 else list(form.by)
        columns = f"time={form.time!r}, target={form.target!r}, by={by!r}"
        shared = "" if self.wish.share == "none" else f", share={self.wish.share!r}"
        call = f"{self.forecaster!r}.fit(frame, {columns}{shared})"
        return Panel(
            form, self.long.keys, tuple(self.problems), tuple(self.models), tuple(self.chosen),
            Bundle.of(self.series), self.alone, call, self._shared_in_words(),
        )  # fmt: skip

    def _shared_in_words(self) -> str:
        share, lessons, count = self.wish.share, self.wish.lessons, len(self._good)
        if lessons is not None:
            return lessons.words
        if share == "none" or self.forecaster.kernel is None or count < 2:
            return ""
        return shared_in_words(share, count)

    @property
    def _good(self) -> list[int]:
        """The series that nothing is known against."""
        return [number for number, data in enumerate(self.series) if data is not None]

    def _is_plain(self) -> bool:
        """Whether there is nothing but observations, and perhaps weights."""
        asked = self.forecaster
        extras = any(name != "weights" and c for name, c in self.wish.columns.items())
        limits = asked.floor is not None or asked.cap is not None
        effects = asked.regressors, asked.holidays, asked.events, asked.changepoints
        return not any((*effects, extras, limits))

    def _fit(self) -> None:
        good, plain, asked = self._good, self.plain, self.forecaster
        left: list[int] = good
        if plain and asked.kernel is None and not self.wish.options:
            together = self._compare([number for number in good if self._chooses(number)])
            left = [number for number in good if number not in together]
        elif plain and asked.kernel is not None:
            model = self._model()
            options = {"inducing": asked.inducing} | self.wish.options
            if isinstance(options["inducing"], str) and goes_together(model, options):
                self._learn(model, good, options)
                left = []
        self._one_by_one(left)

    def _check_sharing(self) -> None:
        """Refuse to share where series are not fitted side by side."""
        asked, share = self.forecaster, self.wish.share
        options = {"inducing": asked.inducing} | self.wish.options
        if asked.kernel is None:
            likely = self.plain and plainly_normal(self.likelihood) and asked.mean is None
            good = likely and options == {"inducing": "auto"}
        else:
            named = self.plain and isinstance(options["inducing"], str)
            good = named and goes_together(self._model(), options)
        if not good:
            raise ValueError(
                f"share={share!r} is for Gaussian observations with a state at every input, "
                "without regressors, holidays, events, limits and columns beside the target but "
                "weights, and for models that are compared without other options: with anything "
                "else use share='none'"
            )

    def _chooses(self, number: int) -> bool:
        data = self.series[number]
        assert data is not None
        plain = plainly_normal(self.likelihood)
        return plain and chooses(self.forecaster, self.likelihood, np.asarray(data.x))

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

        found, _ = learn_many(
            items, alone, share=self.wish.share, options=options, progress=self.wish.progress
        )
        for number, learned in zip(numbers, found, strict=True):
            if learned.template is None:
                self._fails(number, learned.problem)
            else:
                self.chosen[number] = (self._light(learned, 1.0, learned.log_evidence),)

    # --- models that are compared -------------------------------------------------------------

    def _compare(self, numbers: list[int]) -> set[int]:
        """The first model of y and of log y for all series, then the others, as `choose` does.

        Series that have outliers, on sight or by the better of the first models, or sudden changes
        need more turns and are left to be fitted one by one. The numbers of the others are
        returned.
        """
        clean = {
            number: dataclasses.replace(series, lessons=self.wish.lessons)
            for number, series in self._clean(numbers).items()
        }
        entries = [
            Entry(number, series, scale, some[0])
            for number, series in clean.items()
            for scale, some in enumerate(series.candidates())
        ]
        self._learn_entries(entries)
        best: dict[int, Entry] = {}
        for entry in entries:
            if entry.number not in best or entry.evidence > best[entry.number].evidence:
                best[entry.number] = entry
        if self.forecaster.robust:
            self._score(list(best.values()))
            best = {n: e for n, e in best.items() if not e.surprised}
        others = [
            Entry(number, entry.series, scale, candidate)
            for number, entry in best.items()
            for scale, some in enumerate(entry.series.candidates())
            for candidate in some[1:]
            if scale == entry.scale or candidate.everywhere
        ]
        self._learn_entries(others)
        by_number: dict[int, list[Entry]] = {number: [] for number in best}
        for entry in entries + others:
            if entry.number in by_number:
                by_number[entry.number].append(entry)
        weighed = [e for number, some in by_number.items() for e in self._weigh(some, best[number])]
        self._score([entry for entry in weighed if not len(entry.scores)])
        for entry in weighed:
            self.chosen[entry.number] += (self._chosen(entry),)
        return {n for n in best if not self.problems[n]} | {n for n in numbers if self.problems[n]}

    def _clean(self, numbers: list[int]) -> dict[int, Series]:
        """The series without outliers on sight and sudden changes."""
        clean: dict[int, Series] = {}
        for number in numbers:
            raw = self.raws[number]
            try:
                series = Series.of(
                    np.asarray(raw.x), np.asarray(raw.y), raw.extras.get("weights"),
                    dates=self.form.axis.dates, robust=self.forecaster.robust,
                )  # fmt: skip
                if not series.doubted.any() and with_changes(series, self.form.axis) is series:
                    clean[number] = series
            except (ValueError, FloatingPointError) as error:
                self._fails(number, str(error))
        return clean

    def _learn_entries(self, entries: list["Entry"]) -> None:
        """Fit these candidates to their series."""
        parts = [entry.series.part(entry.candidate, entry.series.latest) for entry in entries]
        items = [
            Item(
                entry.candidate.model,
                observe(part["x"], part["y"], entry.candidate.likelihood, weights=part["weights"]),
            )
            for entry, part in zip(entries, parts, strict=True)
        ]

        def alone(item: int) -> Posterior:
            model = entries[item].candidate.model
            posterior: Posterior = fit(model, **parts[item], **LEARNING, progress=False)
            return posterior

        found, _ = learn_many(
            items, alone, options=LEARNING, stretches=(1.0,), progress=self.wish.progress,
            what="models",
        )  # fmt: skip
        for entry, learned in zip(entries, found, strict=True):
            entry.learned = learned
            entry.evidence = entry.series.evidence(entry.candidate, learned.log_evidence)

    def _score(self, entries: list["Entry"]) -> None:
        """How far each observation lies from what a model expects of it, given all others."""
        entries = [entry for entry in entries if entry.learned.template is not None]
        queries = []
        for entry in entries:
            learned, series = entry.learned, entry.series
            part = series.part(entry.candidate, np.arange(len(series.y)))
            likelihood = entry.candidate.likelihood
            data = observe(part["x"], part["y"], likelihood, weights=part["weights"])
            queries.append(Asked(learned.template, learned.values, data, np.asarray(data.x)))
        for entry, query, moments in zip(entries, queries, moments_together(queries), strict=True):
            noise = query.template.noise(query.values)
            expected, entry.scores = left_out(*moments, query.data, noise)
            entry.expected = entry.candidate.scale.backward(expected)

    def _weigh(self, entries: list["Entry"], best: "Entry") -> list["Entry"]:
        """Those that matter, with their weights, the largest first."""
        scales: list[list[Entry]] = [[] for _ in range(1 + max(e.scale for e in entries))]
        for entry in entries:
            scales[entry.scale].append(entry)
        standings = [
            [standing(e.candidate, e.evidence, partial(Entry.missed, e)) for e in scale]
            for scale in scales
        ]
        weighed = []
        if any(np.isfinite(entry.evidence) for entry in entries):
            with np.errstate(invalid="ignore"):
                weights = weigh(standings, best.scale)
            for weight, scale, place in weights:
                entry = scales[scale][place]
                if entry.learned.template is not None:
                    entry.weight = weight
                    weighed.append(entry)
        if not weighed:
            self._fails(best.number, best.learned.problem or "no model could be fitted")
        total = sum(entry.weight for entry in weighed)
        for entry in weighed:
            entry.weight /= total
        return weighed

    def _chosen(self, entry: "Entry") -> Light:
        about, light = entry.candidate, self._light(entry.learned, entry.weight, entry.evidence)
        return light._replace(
            trend=about.trend, log=about.scale.log, spent=about.spent, lately=lately(entry.scores)
        )

    def _light(self, learned: LearnedItem, weight: float, evidence: float) -> Light:
        template = learned.template
        assert isinstance(template, Template)
        if template.kind not in self.kinds:
            self.kinds[template.kind] = len(self.models)
            self.models.append(template.model)
        values = np.concatenate([np.zeros(0), *(np.ravel(value) for value in learned.values)])
        which = self.kinds[template.kind]
        return Light(weight, which, values, evidence, "", False, 0.0, 1.0, learned.result)

    # --- one by one ---------------------------------------------------------------------------

    def _one_by_one(self, numbers: list[int]) -> None:
        show, quiet = Progress.of(self.wish.progress), self.wish._replace(progress=False)
        try:
            for done, number in enumerate(numbers):
                if show.visible:
                    show.shown = True
                    show.show(f"fitted {done:,} of {len(numbers):,} series")
                one = dataclasses.replace(self.forecaster, fitted=None, panel=None)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", NotConvergedWarning)
                        one._keep(fit_frame(one, self.long.part(number), quiet))
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
