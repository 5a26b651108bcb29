"""What many series taught: a table, predictions for all, and the posterior of each."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from stategp._data import Bundle, distinct_inputs, relative_inputs
from stategp._files import save
from stategp._fitting import Asked, Template, condition, moments_together
from stategp._forecasting import (
    Answer,
    Key,
    LongForm,
    after,
    answer_frame,
    as_failures,
    as_levels,
    asked_rows,
    distribution_columns,
    each_ahead,
    failure_frame,
    function_columns,
    long_frame,
    no_columns,
    normal_columns,
    shown_key,
    text_series,
)
from stategp._inference import FitResult
from stategp._many._names import names_of
from stategp._models import GP
from stategp._posteriors import Posterior, marginals_at


@dataclasses.dataclass(eq=False)
class ManyPosteriors:
    """The posteriors of many series, returned by `sg.fit_many`.

    A series is found by its key, the value of the column that tells series apart (a tuple if there
    are several): ``many["a"]`` is its posterior, as `sg.fit` would give it; times that are dates
    are days there, since the first of all series. `model` is for one more series: the model that
    was given, with the shared hyperparameters fixed (``share="all"``) or with the prior that was
    learned (``share="prior"``).

    >>> import numpy as np, stategp as sg
    >>> x = np.arange(30.0)
    >>> data = {"a": (x, np.sin(x / 3)), "b": (x, np.cos(x / 2)), "c": ([], [])}
    >>> model = sg.GP(sg.kernels.Matern52(), sg.likelihoods.Gaussian(variance=sg.fixed(0.01)))
    >>> many = sg.fit_many(model, data)
    >>> many, "a" in many, len(many)
    (ManyPosteriors(3 series: 2 converged, 1 failed), True, 3)
    >>> mean, variance = many["a"].predict_f([31.0])
    >>> many.failures["problem"].tolist()
    ['x and y are empty: at least one observation is needed']
    """

    model: GP
    source: LongForm
    share: str
    names: tuple[Key, ...]
    models: tuple[GP, ...]  # one of each structure
    which: np.ndarray  # of them belongs to each series; −1 where it failed
    values: np.ndarray  # of all hyperparameters of all series, one after another
    log_likelihoods: np.ndarray
    results: tuple[FitResult | None, ...]
    problems: tuple[str, ...]
    data: Bundle
    kept: dict[int, Posterior]
    left_out: dict[int, str] = dataclasses.field(default_factory=dict)  # by the last update

    @cached_property
    def numbers(self) -> dict[Key, int]:
        """The number of each series."""
        return {key: number for number, key in enumerate(self.names)}

    @cached_property
    def templates(self) -> list[Template]:
        """The models as numbers, one of each structure."""
        return [Template(model, model) for model in self.models]

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the hyperparameters of each series begin, and where the last end."""
        sizes = [sum(v.size for v in template.values) for template in self.templates]
        taken = [0 if which < 0 else sizes[which] for which in self.which.tolist()]
        return np.concatenate([[0], np.cumsum(taken)]).astype(int)

    # --- one series --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return (key if isinstance(key, tuple) else (key,)) in self.numbers

    def __getitem__(self, key: Any) -> Posterior:
        return self._posterior(self._number(key))

    def keys(self) -> list[Any]:
        """The keys of all series, in the order in which they came."""
        return [shown_key(key) for key in self.names]

    def _number(self, key: Any) -> int:
        number = self.numbers.get(key if isinstance(key, tuple) else (key,))
        if number is None:
            some = ", ".join(map(repr, self.keys()[:5])) + (", …" * (len(self) > 5))
            name = shown_key(key) if isinstance(key, tuple) else key
            raise KeyError(f"there is no series {name!r}; there are {some}")
        return number

    def _posterior(self, number: int) -> Posterior:
        if number in self.kept:
            return self.kept[number]
        if self.which[number] < 0:
            key = shown_key(self.names[number])
            raise ValueError(f"series {key!r} could not be fitted: {self.problems[number]}")
        data = self.data[number]
        model = self.templates[self.which[number]].with_values(self.values_of(number))
        name, extra = model.likelihood.extra, np.asarray(data.extra)
        extras: dict[str, Any] = {} if name is None else {name: extra}
        posterior: Posterior = condition(
            model, self.data.inputs(number), data.y, weights=np.asarray(data.weights),
            inducing="data", progress=False, **extras,
        )  # fmt: skip
        return dataclasses.replace(posterior, fit_result=self.results[number])

    def values_of(self, number: int) -> list[np.ndarray]:
        """The hyperparameters of a series."""
        flat = self.values[self.starts[number] : self.starts[number + 1]]
        return self.templates[self.which[number]].shaped(flat)

    # --- all series --------------------------------------------------------------------------

    @property
    def table(self) -> Any:
        """A frame with a row for each series: how its fit ended, and its hyperparameters.

        The columns `log_likelihood` (log p(y), or the bound on it), `status`, `converged` and
        `steps` are followed by one for each hyperparameter, which is empty for series that failed.
        """
        columns: dict[str, np.ndarray] = {}
        named = [names_of(model) for model in self.models]
        for names in named:
            columns |= {name: np.full(len(self), np.nan) for name in names if name not in columns}
        for number, which in enumerate(self.which.tolist()):
            if which >= 0:
                numbers = np.concatenate([np.ravel(v) for v in self.values_of(number)])
                for name, value in zip(named[which], numbers, strict=True):
                    columns[name][number] = value
        kind, by = self.form.kind, self.form.by
        words = [self._status(number) for number in range(len(self))]
        converged = [result is not None and result.converged for result in self.results]
        steps = np.array([0 if result is None else result.steps for result in self.results])
        first = {
            "observations": self.data.counts,
            "log_likelihood": self.log_likelihoods,
            "converged": np.array(converged),
            "steps": steps,
        }
        status = [text_series(kind, "status", words)]
        return long_frame(kind, by, self.names, status, first | columns)

    @property
    def failures(self) -> Any:
        """A frame with a row for each series that could not be fitted or updated, and why."""
        problems = {n: self.problems[n] for n in np.flatnonzero(self.which < 0).tolist()}
        found = as_failures(self.names, problems, self.left_out)
        return failure_frame(self.form.kind, self.form.by, *found)

    def predict(self, frame: Any = None, *, levels: Any = 0.95, of: str = "observation") -> Any:
        """A frame with the mean and an interval for each row of a long frame.

        The frame has the columns that tell series apart and the times; by default it is the data.
        Rows of series that could not be fitted are empty. Intervals are those of new observations
        without any known noise variance, or with `of="function"` those of the latent function.
        """
        if frame is None:
            asked = {n: self.data.inputs(n) for n in np.flatnonzero(self.which >= 0).tolist()}
            return answer_frame(self.form, self.names, self._answers(asked, levels, of))
        long, x = asked_rows(self.form, frame)
        rows = {self._number(key): where for key, where in long}
        asked = {number: x[where] for number, where in rows.items()}
        return answer_frame(self.form, self.names, self._answers(asked, levels, of), rows)

    def forecast(
        self, horizon: Any, *, every: Any = None, levels: Any = 0.95, of: str = "observation"
    ) -> Any:
        """A frame of predictions from the end of each series up to the horizon.

        Horizon and steps are those of `Forecaster.forecast`, for each series by itself. Series that
        could not be fitted, or end after the horizon, are left out; of the latter a warning tells.
        """
        good = np.flatnonzero(self.which >= 0).tolist()
        asked = each_ahead(self.names, good, lambda n: self._after(n, horizon, every), depth=2)
        return answer_frame(self.form, self.names, self._answers(asked, levels, of))

    def predict_f(self, x: Any) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of f by key, at points that are the same for all or given by key."""
        if isinstance(x, Mapping):
            points = {self._number(key): np.asarray(values) for key, values in x.items()}
        else:
            points = {n: np.asarray(x) for n in np.flatnonzero(self.which >= 0).tolist()}
        found = self._moments(points)
        return {shown_key(self.names[number]): found[number] for number in points}

    def update(
        self,
        data: Any,
        *,
        refine: bool = False,
        forget: Any = None,
        window: Any = None,
        progress: Any = None,
        **columns: str | None,
    ) -> "ManyPosteriors":
        """The same with more observations of some series, at their ends or anywhere.

        `data` has the form that `sg.fit_many` was given: a long frame with the same columns, or a
        dictionary or list of pairs (x, y); other columns (`noise_variance`, `exposure`, `trials`,
        `weights`) are given by name, as there. Hyperparameters stay as they are (and so does what
        `table` says of the fits); with `refine` those of series with more observations are learned
        again from their present values. `forget` and `window` are those of `posterior.update`, for
        each series by itself. Series that are new, or could not be fitted before, are fitted to
        `model`, as by `sg.fit_many` with its usual options. Observations that a series cannot take
        in (infinite ones, say) are left out, with a warning and a row in `failures`, and the series
        stays as it was.

        >>> import numpy as np, stategp as sg
        >>> x = np.arange(30.0)
        >>> model = sg.GP(sg.kernels.Matern52(), sg.likelihoods.Gaussian(variance=0.01))
        >>> many = sg.fit_many(model, {"a": (x, np.sin(x / 3)), "b": (x, np.cos(x / 2))})
        >>> len(many.update({"b": ([30.0], [-0.8])})["b"].data)
        31
        """
        from stategp._many._updating import updated

        for name in columns:
            if name not in ("noise_variance", "exposure", "trials", "weights"):
                raise TypeError(f"update has no option {name!r}")
        options: Any = {"refine": refine, "forget": forget, "window": window, "progress": progress}
        return updated(self, data, columns, **options)

    def save(self, path: Any) -> None:
        """Write everything to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def __repr__(self) -> str:
        words = {"converged": 0, "not converged": 0, "failed": 0}
        for number, result in enumerate(self.results):
            if self.which[number] < 0:
                words["failed"] += 1
            else:
                words["converged" if result is None or result.converged else "not converged"] += 1
        words["with new rows left out"] = len(self.left_out)
        counts = ", ".join(f"{count:,} {word}" for word, count in words.items() if count)
        return f"ManyPosteriors({len(self):,} series: {counts})"

    def _status(self, number: int) -> str:
        result = self.results[number]
        if self.which[number] < 0:
            return f"failed: {self.problems[number]}"
        return "converged: nothing was to be learned" if result is None else result.message

    @property
    def form(self) -> LongForm:
        """The columns of a frame; refused where no library of frames is installed."""
        if not self.source.kind:
            raise ImportError(
                "frames need narwhals, and pandas, polars or pyarrow: pip install them"
            )
        return self.source

    def _after(self, number: int, horizon: Any, every: Any) -> np.ndarray:
        data = self.data[number]
        x = distinct_inputs(np.asarray(data.x))
        return after(x, data.origin, self.source.axis, horizon, every)

    def _moments(self, asked: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Of f at points of series, all at once but for those whose posterior was kept."""
        together = [n for n in asked if self.which[n] >= 0 and n not in self.kept]
        queries = []
        for number in together:
            data = self.data[number]
            x = relative_inputs("x", asked[number], data.origin)
            template = self.templates[self.which[number]]
            queries.append(Asked(template, self.values_of(number), data, x))
        found = dict(zip(together, moments_together(queries), strict=True))
        for number in asked:
            if number not in found:
                mean, variance = self._posterior(number).predict_f(asked[number])
                found[number] = np.asarray(mean), np.asarray(variance)
        return found

    def _answers(self, asked: dict[int, np.ndarray], levels: Any, of: str) -> dict[int, Answer]:
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        wanted = as_levels(levels)
        together = {n: x for n, x in asked.items() if self.which[n] >= 0 and n not in self.kept}
        answers: dict[int, Answer] = {}
        for number, (mean, variance) in self._moments(together).items():
            if of == "observation":
                noise = self.templates[self.which[number]].noise(self.values_of(number))
                variance = variance + noise
            found = normal_columns("", mean, np.maximum(variance, 0.0), wanted)
            answers[number] = asked[number], found
        for number in asked:
            if number in self.kept:
                answers[number] = asked[number], self._kept(number, asked[number], wanted, of)
            elif self.which[number] < 0:
                answers[number] = asked[number], no_columns(len(asked[number]), wanted)
        return dict(sorted(answers.items()))

    def _kept(
        self, number: int, x: np.ndarray, levels: tuple[float, ...], of: str
    ) -> dict[str, np.ndarray]:
        posterior = self.kept[number]
        if of == "function":
            return function_columns(posterior, x, levels)
        likelihood, extra = posterior.model.likelihood, np.asarray(posterior.data.extra)
        name = likelihood.extra if likelihood.extra_of_new else None
        usual = {} if name in (None, "noise_variance") else {name: float(np.median(extra))}
        return distribution_columns(marginals_at(posterior, x, **usual), levels)
