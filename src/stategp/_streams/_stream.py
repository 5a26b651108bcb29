"""`sg.stream`: a series in files or batches, read once and kept as sums, or as rows on disk."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp._data import (
    Drawn,
    Stored,
    Stretches,
    Summary,
    has_sums,
    make_stretches,
    summable,
    summarise_columns,
)
from stategp._durations import days
from stategp._runtime import Progress, give_back
from stategp._streams._ahead import ahead
from stategp._streams._columns import Batch, Calendar, Roles, faults, in_days
from stategp._streams._drawing import FEW, FIRST, Draws, drawn
from stategp._streams._keeping import checked_rows, keep
from stategp._streams._processes import Seen, own_share, together
from stategp._streams._sources import Source, open_source
from stategp._streams._watching import Watch
from stategp.likelihoods import Gaussian, Likelihood

LATEST = 64  # times at the end that are kept, for the rhythm that goes on
_NEAR = 1024  # rows among which these usually are
_HELD = 2**20  # rows that are summed up together
_MOST = 2**22  # stretches, whose sums take more than a gigabyte
_EXTRAS = ("noise_variance", "exposure", "trials")


class Stream:
    """A series that is read batch by batch, made by `sg.stream`.

    `sg.fit(model, stream)` and `sg.condition(model, stream)` take one in the place of x and y, and
    `sg.summarise(stream)` gives its sums. `dropped` counts rows with bad values by file.
    """

    def __init__(
        self,
        source: Source,
        roles: Roles,
        bad: str,
        shortest: Any = None,
        period: Any = None,
        origin: Any = 0,
        scratch: Any = None,
        rows: int | None = None,
    ):
        self._source, self._roles, self._bad = source, roles, bad
        self._shortest, self._period, self._origin = shortest, period, origin
        self._scratch, self._stated = scratch, rows
        self.dropped: dict[str, int] = {}
        self.latest = np.zeros(0, np.int64)  # the last times that were read and have an observation

    @property
    def stretches(self) -> Stretches | None:
        """Those that were stated."""
        if self._shortest is None:
            return None
        return make_stretches(self._shortest, self._period, self._origin)

    @property
    def time(self) -> str:
        """The column of times."""
        return self._roles.time

    @property
    def target(self) -> str:
        """The column of observations."""
        return self._roles.target

    @property
    def extras(self) -> dict[str, str]:
        """Columns that the likelihood reads beside the target, by the argument of `fit`."""
        return {name: c for name, c in self._roles.extras.items() if isinstance(c, str)}

    @property
    def calendar(self) -> Calendar:
        """Whether times are dates, which become days since 1970, and their time zone."""
        return self._source.calendar(self._roles.time)

    def ends(self) -> tuple[float, float]:
        """The first and the last time, from statistics of the files or a look at all times."""
        low, high = self._source.ends(self._roles.time)
        if not low <= high:
            raise ValueError("there are no rows with a time: at least one observation is needed")
        return low, high

    def numbers(self, times: Any) -> np.ndarray:
        """Dates as the model sees them, in days since 1970 (UTC).

        >>> import numpy as np, stategp as sg
        >>> sg.stream([(np.arange(3.0), np.ones(3))]).numbers(["1970-01-02", "1970-01-02T12:00"])
        array([1. , 1.5])
        """
        return in_days(np.asarray(times, dtype="datetime64[us]"))

    def summary(
        self,
        likelihood: Any = "gaussian",
        *,
        stretches: Stretches | None = None,
        progress: Any = None,
    ) -> Summary:
        """The sums of all rows, in one pass; `stretches` where they were not stated."""
        stretches = self.stretches or stretches
        if stretches is None:
            raise ValueError("state the shortest lengthscale: sg.stream(…, shortest=…)")
        kind, show = summable(likelihood), Progress.of(progress)
        self._begin(kind)
        total = together(lambda: self._read(kind, stretches, show))
        self._meet()
        if total.rows == 0:
            raise ValueError("there are no rows with an observation: at least one is needed")
        return total

    def sums_suffice(self, likelihood: Likelihood) -> bool:
        """Whether a fit needs no more of the rows than sums."""
        if not has_sums(likelihood):
            return False
        if not isinstance(likelihood, Gaussian) or "noise_variance" not in self.extras:
            return True
        return not likelihood.variance.learned and float(likelihood.variance) == 0

    def stored(
        self,
        likelihood: Likelihood,
        stretches: Stretches,
        progress: Any = None,
        *,
        single: bool = False,
    ) -> Stored:
        """All rows, on disk; the caller gives the disk back (`close`).

        Several processes keep their share each. `single`: they will be asked for one by one.
        """
        self._begin(likelihood)
        watch = Watch(self._rows, Progress.of(progress))
        rows = self._rows()
        where = self._scratch, None if rows is None else rows // own_share().every
        with self._reading(likelihood) as batches:
            kept = keep(batches, self._roles, likelihood, stretches, *where, watch, single=single)
        self._meet()
        return kept

    def drawn(
        self,
        likelihood: Likelihood,
        make_stretches: Callable[[float, float], Stretches],
        draws: Draws,
    ) -> Drawn | None:
        """Minibatches from row groups as they are read, where there are enough of them.

        `make_stretches` is given the first and the last time.
        """
        pieces = self._source.pieces(self._roles.names, self._roles.time)
        if pieces is None or len(pieces.pieces) <= FIRST:
            return None
        if sum(piece.rows for piece in pieces.pieces) <= FEW:
            return None
        self._begin(likelihood)
        known: set[int] = set()

        def read(number: int) -> Iterator[list[np.ndarray]]:
            first = number not in known
            known.add(number)
            for batch in pieces.pieces[number].batches(self._roles.names):
                good = self._sifted(batch, likelihood, count=first)
                yield checked_rows(good, self._roles, likelihood)

        return drawn(pieces, read, make_stretches, draws, self._stated)

    def _rows(self) -> int | None:
        """How many there are, if that is known."""
        return self._source.rows if self._stated is None else self._stated

    def _begin(self, likelihood: Likelihood) -> None:
        for name in self._roles.extras:
            if name != likelihood.extra:
                raise ValueError(f"{name} has no meaning for {type(likelihood).__name__}")
        self.dropped, self.latest = {}, np.zeros(0, np.int64)

    def _meet(self) -> None:
        """Let every process know what all of them have seen."""
        seen = Seen(self.dropped, self.latest.tolist()).with_others(LATEST)
        self.dropped, self.latest = seen.dropped, np.array(seen.latest)

    def _read(self, likelihood: Likelihood, stretches: Stretches, show: Progress) -> Summary:
        """The sums of the rows that this process reads."""
        total = _sum_up({}, self._roles, stretches, likelihood)  # of nothing
        watch = Watch(self._rows, show)
        with self._reading(likelihood) as batches:
            for columns, seen in batches:
                total = total + _sum_up(columns, self._roles, stretches, likelihood)
                if len(total.number) > _MOST:
                    raise ValueError(
                        f"more than {_MOST:,} stretches of {stretches.width:.3g} have "
                        "observations, and their sums would not fit into memory: state a longer "
                        "`shortest` (and `period`)"
                    )
                watch(seen)
        return total

    @contextlib.contextmanager
    def _reading(self, likelihood: Likelihood) -> Iterator[Iterator[Any]]:
        """Batches that are read ahead; at the end nothing of them is left in memory."""
        try:
            with contextlib.closing(ahead(self._gathered(likelihood))) as batches:
                yield batches
        finally:
            give_back()

    def _gathered(self, likelihood: Likelihood) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Good rows, many together, and how many rows were read."""
        held: list[dict[str, np.ndarray]] = []
        rows = seen = 0
        for batch in self._source.batches(self._roles.names, own_share()):
            seen += len(batch)
            held.append(self._sifted(batch, likelihood))
            rows += len(held[-1][self._roles.time])
            if rows >= _HELD:
                yield _joined(held), seen
                held, rows = [], 0
        if held:
            yield _joined(held), seen

    def _sifted(
        self, batch: Batch, likelihood: Likelihood, *, count: bool = True
    ) -> dict[str, np.ndarray]:
        """The rows of a batch without bad ones, which are counted or refused."""
        bad = np.zeros(len(batch), bool)
        for rows, name, rule in faults(batch, self._roles, likelihood):
            if self._bad == "refuse" and rows.any():
                at = int(np.argmax(rows))
                more = f" (and {int(rows.sum()) - 1} more in this batch)" if rows.sum() > 1 else ""
                raise ValueError(
                    f"{batch.place}: column {name!r} must {rule}: row {batch.start + at} of those "
                    f"read is {batch.columns[name][at]}{more}; bad='drop' leaves such rows out"
                )
            bad |= rows
        columns = batch.columns
        if bad.any():
            columns = {name: values[~bad] for name, values in columns.items()}
        if bad.any() and count:
            self.dropped[batch.place] = self.dropped.get(batch.place, 0) + int(bad.sum())
        seen = np.isfinite(columns[self.target].astype(float, copy=False))
        self.latest = latest_of(np.append(latest_of(columns[self.time][seen]), self.latest))
        return columns

    def __repr__(self) -> str:
        return f"Stream of {self.target!r} over {self.time!r}"


def latest_of(times: np.ndarray) -> np.ndarray:
    """The last of some times, different ones and in order."""
    near = times
    if len(times) > _NEAR:
        near = np.partition(times, len(times) - _NEAR)[-_NEAR:]
    found = np.unique(near)
    if len(found) < LATEST < len(near) < len(times):  # many rows at the same times
        found = np.unique(times)
    return found[-LATEST:]


def _joined(held: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Batches as one; times are whole numbers if all of them are."""
    return {name: np.concatenate([part[name] for part in held]) for name in held[0]}


def _sum_up(
    columns: dict[str, np.ndarray], roles: Roles, stretches: Stretches, likelihood: Likelihood
) -> Summary:
    nothing = np.zeros(0)

    def values(name: Any) -> Any:
        return columns.get(name, nothing) if isinstance(name, str) else name

    extras = {name: values(column) for name, column in roles.extras.items()}
    x, y = values(roles.time), values(roles.target)
    return summarise_columns(x, y, stretches, likelihood, extras, values(roles.weights))


def stream(
    source: Any,
    *,
    time: str = "ds",
    target: str = "y",
    filter: Any = None,
    shortest: Any = None,
    period: Any = None,
    origin: Any = 0,
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    bad: str = "refuse",
    scratch: Any = None,
    rows: Any = None,
) -> Stream:
    """A series in files larger than memory, for `sg.fit` and `sg.condition`.

    Rows are read once, in any order, and kept as sums over stretches of time, as `sg.summarise`
    makes them: memory does not grow with their number. For likelihoods that have no such sums
    (Student-t, negative binomial, …) rows are kept on disk during the fit, 16 bytes or more each,
    and every pass reads them from there. Minibatches come from row groups of Parquet files that
    are read as the steps go on; where there are few of them, and from batches, rows are kept.
    Timestamps and dates become days since 1970 (`stream.numbers`), and lengths can then be written
    "12h" or "30d".

    Arguments:
        source: a Parquet file, a folder of them (hive partitions, `year=2024/…`, are columns), a
            list of files, a pyarrow dataset, or batches: something that can be iterated over more
            than once, or a function that returns an iterator. Batches are pairs (x, y),
            dictionaries of arrays, tables or record batches of Arrow, or data frames.
        time: the column of times.
        target: the column of observations; null and NaN mean missing.
        filter: which rows to read, an expression of pyarrow's: `pc.field("sensor") == 3`. Files
            and parts of files without such rows are not read.
        shortest: the shortest lengthscale that a fit may want, as in `sg.summarise`. By default a
            2000th of the range, or a quarter of the lengthscale that a kernel is given.
        period: the shortest period; by default that of the kernel.
        origin: where stretches are counted from.
        noise_variance: a column, or a number for all rows, as in `sg.fit`; so are `exposure`,
            `trials` and `weights`.
        bad: what to do about rows with bad values (no time, infinite, a count that is none):
            "refuse" stops with the file and row of the first, "drop" leaves them out and counts
            them by file (`stream.dropped`).
        scratch: the folder whose disk holds rows during a fit, where that is needed; by default
            that of temporary files. Nothing is left there, however the process ends.
        rows: how many observations there are, where you know and the files do not say: after a
            filter, or in batches. Minibatches tell it from the row groups that they have seen.

    >>> import numpy as np, stategp as sg
    >>> batches = [{"t": np.arange(9.0), "v": np.sin(np.arange(9.0))}] * 2
    >>> series = sg.stream(batches, time="t", target="v", shortest=1.0)
    >>> sg.fit(sg.GP(sg.kernels.Matern32(lengthscale=2.0)), series, inducing=9).data.observed
    18
    """
    if time == target:
        raise ValueError(f"time and target are both column {time!r}; they must differ")
    if bad not in ("refuse", "drop"):
        raise ValueError(f"bad must be 'refuse' or 'drop', got {bad!r}")
    given = dict(zip(_EXTRAS, (noise_variance, exposure, trials), strict=True))
    for name, value in {**given, "weights": weights}.items():
        if not (value is None or isinstance(value, str | int | float)):
            raise ValueError(
                f"{name} must be the name of a column or one number, got {type(value).__name__}"
            )
    extras = {name: value for name, value in given.items() if value is not None}
    roles = Roles(time, target, extras, weights)
    shortest, period = (days(v) if isinstance(v, str) else v for v in (shortest, period))
    if scratch is not None and not Path(scratch).is_dir():
        raise ValueError(f"scratch must be a folder, and {scratch} is none")
    stated = None if rows is None else whole_number("rows", rows, least=1)
    options = shortest, period, origin, scratch, stated
    made = Stream(open_source(source, filter), roles, bad, *options)
    _ = made.stretches  # what is wrong with lengths is said at once
    return made
