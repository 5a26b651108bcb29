"""What many series taught: a table, predictions for all, and the posterior of each."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from stategp._data import Observations, distinct_inputs, relative_inputs
from stategp._files import save
from stategp._fitting import Asked, Template, condition, moments_together
from stategp._forecasting import (
    Key,
    as_levels,
    continued,
    distribution_columns,
    failure_frame,
    function_columns,
    long_frame,
    normal_columns,
    read_long,
    shown_key,
    text_series,
    time_column,
    times_series,
)
from stategp._inference import FitResult
from stategp._many._names import names_of
from stategp._many._reading import LongForm
from stategp._models import GP
from stategp._posteriors import Posterior, marginals_at
from stategp._story import user_units


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
    counts: np.ndarray  # observations of each series
    origins: tuple[int | float, ...]
    columns: np.ndarray  # x (from the origin), y, extra and weights of all series, side by side
    kept: dict[int, Posterior]

    @cached_property
    def _numbers(self) -> dict[Key, int]:
        return {key: number for number, key in enumerate(self.names)}

    @cached_property
    def _templates(self) -> list[Template]:
        return [Template(model, model) for model in self.models]

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the hyperparameters of each series begin, and where the last end."""
        sizes = [sum(v.size for v in template.values) for template in self._templates]
        taken = [0 if which < 0 else sizes[which] for which in self.which.tolist()]
        return np.concatenate([[0], np.cumsum(taken)]).astype(int)

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(int)

    # --- one series --------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return (key if isinstance(key, tuple) else (key,)) in self._numbers

    def __getitem__(self, key: Any) -> Posterior:
        return self._posterior(self._number(key))

    def keys(self) -> list[Any]:
        """The keys of all series, in the order in which they came."""
        return [shown_key(key) for key in self.names]

    def _number(self, key: Any) -> int:
        number = self._numbers.get(key if isinstance(key, tuple) else (key,))
        if number is None:
            some = ", ".join(map(repr, self.keys()[:5])) + (", …" * (len(self) > 5))
            raise KeyError(f"there is no series {key!r}; there are {some}")
        return number

    def _posterior(self, number: int) -> Posterior:
        if number in self.kept:
            return self.kept[number]
        if self.which[number] < 0:
            key = shown_key(self.names[number])
            raise ValueError(f"series {key!r} could not be fitted: {self.problems[number]}")
        data = self._data(number)
        model = self._templates[self.which[number]].with_values(self._values(number))
        name, extra = model.likelihood.extra, np.asarray(data.extra)
        extras: dict[str, Any] = {} if name is None else {name: extra}
        x = user_units(np.asarray(data.x), data.origin, len(data))
        posterior: Posterior = condition(
            model, x, data.y, inducing="data", weights=np.asarray(data.weights),
            progress=False, **extras,
        )  # fmt: skip
        return dataclasses.replace(posterior, fit_result=self.results[number])

    def _data(self, number: int) -> Observations:
        rows = slice(self._rows[number], self._rows[number + 1])
        x, y, extra, weights = (np.array(column[rows]) for column in self.columns)
        made: Any = Observations
        data: Observations = made(x, y, extra, weights, self.origins[number])
        return data

    def _values(self, number: int) -> list[np.ndarray]:
        flat, position = self.values, self.starts[number]
        found = []
        for value in self._templates[self.which[number]].values:
            found.append(flat[position : position + value.size].reshape(value.shape))
            position += value.size
        return found

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
                numbers = np.concatenate([np.ravel(v) for v in self._values(number)])
                for name, value in zip(named[which], numbers, strict=True):
                    columns[name][number] = value
        kind, by = self._kind, self.source.by
        words = [self._status(number) for number in range(len(self))]
        converged = [result is not None and result.converged for result in self.results]
        steps = np.array([0 if result is None else result.steps for result in self.results])
        first = {
            "observations": self.counts,
            "log_likelihood": self.log_likelihoods,
            "converged": np.array(converged),
            "steps": steps,
        }
        status = [text_series(kind, "status", words)]
        return long_frame(kind, by, self.names, status, first | columns)

    @property
    def failures(self) -> Any:
        """A frame with a row for each series that could not be fitted, and the problem."""
        failed = np.flatnonzero(self.which < 0).tolist()
        keys, problems = [self.names[n] for n in failed], [self.problems[n] for n in failed]
        return failure_frame(self._kind, self.source.by, keys, problems)

    def predict(self, frame: Any = None, *, levels: Any = 0.95, of: str = "observation") -> Any:
        """A frame with the mean and an interval for each row of a long frame.

        The frame has the columns that tell series apart and the times; by default it is the data.
        Rows of series that could not be fitted are empty. Options are those of
        `Forecaster.predict`.
        """
        source = self.source
        if frame is None:
            asked = {n: self._user_x(n) for n in np.flatnonzero(self.which >= 0).tolist()}
            return self._frame(asked, *_one_after_another(asked), levels, of)
        long = read_long(frame, source.by, source.time, source.target)
        instants = time_column(long.table, source.time, source.axis.zone, source.axis.layout)
        x = source.axis.numbers(instants, f"column {source.time!r}")
        numbers = [self._number(key) for key in long.keys]
        rows = dict(zip(numbers, long.rows, strict=True))
        asked = {number: x[where] for number, where in rows.items()}
        return self._frame(asked, rows, len(x), levels, of)

    def forecast(
        self, horizon: Any, *, every: Any = None, levels: Any = 0.95, of: str = "observation"
    ) -> Any:
        """A frame of predictions from the end of each series up to the horizon.

        Horizon and steps are those of `Forecaster.forecast`, for each series by itself. Series that
        could not be fitted, or end after the horizon, are left out; of the latter a warning tells.
        """
        asked, problems = {}, []
        for number in np.flatnonzero(self.which >= 0).tolist():
            try:
                asked[number] = self._after(number, horizon, every)
            except ValueError as error:
                problems.append((shown_key(self.names[number]), str(error)))
        if problems and not asked:
            raise ValueError(problems[0][1])
        if problems:
            key, words = problems[0]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            warnings.warn(f"no forecast for series {key!r}{more}: {words}", stacklevel=2)
        return self._frame(asked, *_one_after_another(asked), levels, of)

    def predict_f(self, x: Any) -> dict[Any, tuple[np.ndarray, np.ndarray]]:
        """Mean and variance of f by key, at points that are the same for all or given by key."""
        if isinstance(x, Mapping):
            points = {self._number(key): np.asarray(values) for key, values in x.items()}
        else:
            points = {n: np.asarray(x) for n in np.flatnonzero(self.which >= 0).tolist()}
        found = self._moments(points)
        return {shown_key(self.names[number]): found[number] for number in points}

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
        counts = ", ".join(f"{count:,} {word}" for word, count in words.items() if count)
        return f"ManyPosteriors({len(self):,} series: {counts})"

    def _status(self, number: int) -> str:
        result = self.results[number]
        if self.which[number] < 0:
            return f"failed: {self.problems[number]}"
        return "converged: nothing was to be learned" if result is None else result.message

    @property
    def _kind(self) -> str:
        if not self.source.kind:
            raise ImportError(
                "frames need narwhals, and pandas, polars or pyarrow: pip install them"
            )
        return self.source.kind

    def _user_x(self, number: int) -> np.ndarray:
        data = self._data(number)
        return user_units(np.asarray(data.x), data.origin, len(data))

    def _after(self, number: int, horizon: Any, every: Any) -> np.ndarray:
        axis, data = self.source.axis, self._data(number)
        x = distinct_inputs(np.asarray(data.x))
        if axis.dates:
            return continued(x + float(data.origin), axis, horizon, every)
        steps = continued(x, axis, horizon, every)
        return user_units(steps, data.origin, len(steps) if np.all(steps % 1 == 0) else 0)

    def _moments(self, asked: dict[int, np.ndarray]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Of f at points of series, all at once but for those whose posterior was kept."""
        together = [n for n in asked if self.which[n] >= 0 and n not in self.kept]
        queries = []
        for number in together:
            data = self._data(number)
            x = relative_inputs("x", asked[number], data.origin)
            template = self._templates[self.which[number]]
            queries.append(Asked(template, self._values(number), data, x))
        found = dict(zip(together, moments_together(queries), strict=True))
        for number in asked:
            if number not in found:
                mean, variance = self._posterior(number).predict_f(asked[number])
                found[number] = np.asarray(mean), np.asarray(variance)
        return found

    def _frame(
        self,
        asked: dict[int, np.ndarray],
        rows: dict[int, np.ndarray],
        count: int,
        levels: Any,
        of: str,
    ) -> Any:
        if of not in ("observation", "function"):
            raise ValueError(f"of must be 'observation' or 'function', got {of!r}")
        wanted = as_levels(levels)
        good = {n: x for n, x in asked.items() if self.which[n] >= 0}
        columns: dict[str, np.ndarray] = {}
        x_all, keys = np.zeros(count), [self.names[0]] * count
        for number, where in rows.items():
            x_all[where] = asked[number]
            for row in where.tolist():
                keys[row] = self.names[number]
        for number, found in self._columns(good, wanted, of):
            for name, numbers in found.items():
                columns.setdefault(name, np.full(count, np.nan))[rows[number]] = numbers
        source = self.source
        whole = all(np.asarray(x).dtype.kind == "i" for x in asked.values())
        if whole and not source.axis.dates:
            x_all = x_all.astype(np.int64)
        times = times_series(self._kind, source.axis, source.time, x_all)
        return long_frame(self._kind, source.by, keys, [times], columns)

    def _columns(
        self, asked: dict[int, np.ndarray], levels: tuple[float, ...], of: str
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        together = {n: x for n, x in asked.items() if n not in self.kept}
        for number, (mean, variance) in self._moments(together).items():
            if of == "observation":
                variance = variance + self._noise(number)
            yield number, normal_columns("", mean, np.maximum(variance, 0.0), levels)
        for number in asked:
            if number in together:
                continue
            posterior = self.kept[number]
            if of == "function":
                yield number, function_columns(posterior, asked[number], levels)
                continue
            name, extra = posterior.model.likelihood.extra, np.asarray(posterior.data.extra)
            usual = {} if name in (None, "noise_variance") else {name: float(np.median(extra))}
            there = marginals_at(posterior, asked[number], **usual)
            yield number, distribution_columns(there, levels)

    def _noise(self, number: int) -> float:
        return self._templates[self.which[number]].noise(self._values(number))


def _one_after_another(asked: dict[int, np.ndarray]) -> tuple[dict[int, np.ndarray], int]:
    """The rows of each series in a frame of all, and their number."""
    ends = np.cumsum([len(x) for x in asked.values()]).astype(int)
    rows = {n: np.arange(end - len(asked[n]), end) for n, end in zip(asked, ends, strict=True)}
    return rows, int(ends[-1]) if len(ends) else 0
