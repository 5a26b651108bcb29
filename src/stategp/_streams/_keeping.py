"""Rows of a stream on disk, for likelihoods that read single observations, and for minibatches."""

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from stategp._data import Occupied, Sample, Store, Stored, Stretches, check_columns, merge, repeat
from stategp._runtime import shared
from stategp._streams._columns import Roles
from stategp.likelihoods import Likelihood

_MOST = 2**20  # stretches, whose nodes take some hundred megabytes

Columns = dict[str, np.ndarray]


def keep(
    batches: Iterator[tuple[Columns, int]],
    roles: Roles,
    likelihood: Likelihood,
    stretches: Stretches,
    folder: Any,
    expected: int | None,
    watch: Callable[[int], None],
    *,
    single: bool,
) -> Stored:
    """Good rows, many together, written to a file without a name; what a fit knows of them.

    `expected`: how many there will be, if that is known. `single`: they will be asked for one by
    one; else rows that are equal become one with a weight, where that pays. Several processes keep
    a file each, with rows of the same width, and know the same of all rows.
    """
    keeping = _Keeping(roles, likelihood, stretches, single=single)
    try:
        found = [
            np.frombuffer(message, np.int64)
            for message in shared(lambda: keeping.begin(batches, folder, expected, watch))
        ]
        width, repeated = np.max(found, axis=0).tolist()
        keeping.agree(width, merging=bool(repeated))
        return keeping.stored(shared(lambda: keeping.go_on(batches, watch)))
    except BaseException:
        keeping.close()
        raise


class _Keeping:
    """Rows on their way to the disk."""

    store: Store
    held: list[np.ndarray] | None = None  # of the first batch

    merging = False

    def __init__(self, roles: Roles, likelihood: Likelihood, stretches: Stretches, *, single: bool):
        self.roles, self.likelihood, self.stretches = roles, likelihood, stretches
        self.single = single
        self.own = [isinstance(name, str) for name in (_extra_of(roles, likelihood), roles.weights)]
        self.sample, self.number = Sample(), np.zeros(0, np.int64)
        self.ends, self.beside = np.zeros(0, np.int64), np.full(2, np.nan)

    def close(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    def begin(
        self, batches: Iterator[Any], folder: Any, expected: int | None, watch: Callable[..., None]
    ) -> bytes:
        """Look at the first rows: the width that would suit them, and whether many are equal."""
        self.store = Store(2 + sum(self.own), folder, expected)
        for columns, seen in batches:
            checked = checked_rows(columns, self.roles, self.likelihood)
            watch(seen)
            if len(checked[0]):
                self.held = checked
                repeated = not self.single and repeat(checked)
                kept = merge(checked) if repeated else checked
                width = Store.best_width(self.stretches.locate(kept[0])[0])
                return np.array([width, repeated], np.int64).tobytes()
        return np.zeros(2, np.int64).tobytes()

    def agree(self, width: int, *, merging: bool) -> None:
        """What all processes do."""
        self.merging = merging
        self.own[1] = self.own[1] or merging
        self.store.width, self.store.columns = width, 2 + sum(self.own)

    def go_on(self, batches: Iterator[Any], watch: Callable[..., None]) -> bytes:
        """Keep all rows; what the others must know of them."""
        if self.held is not None:
            self._add(*self.held)
            self.held = None
        for columns, seen in batches:
            self._add(*checked_rows(columns, self.roles, self.likelihood))
            watch(seen)
        sample = self.sample
        totals = np.array([sample.rows, sample.digest, self.store.rows])
        found = [self.number, self.ends, self.beside, totals, np.array(sample.weight)]
        return _packed([*found, sample.hashes, *sample.columns])

    def _add(self, x: np.ndarray, y: np.ndarray, extra: np.ndarray, weights: np.ndarray) -> None:
        if len(x) == 0:
            return
        self.sample.add([x, y, extra, weights])
        if self.merging:
            x, y, extra, weights = merge([x, y, extra, weights])
        of_each = list(zip(self.own, (extra, weights), strict=True))
        self.beside = np.array([np.nan if has else values[0] for has, values in of_each])
        at, t = self.stretches.locate(x)
        self.store.add(at, [t, y, *(values for has, values in of_each if has)])
        self.number = np.union1d(self.number, at)
        ends = np.append(self.ends, [x.min(), x.max()])
        self.ends = np.array([ends.min(), ends.max()])
        self._check_stretches()

    def _check_stretches(self) -> None:
        if len(self.number) > _MOST:
            raise ValueError(
                f"more than {_MOST:,} stretches of {self.stretches.width:.3g} have observations: "
                "state a longer `shortest` (and `period`)"
            )

    def stored(self, messages: list[bytes]) -> Stored:
        """The rows of this process, and what is known of those of all."""
        self.sample = Sample()
        for message in messages:
            number, ends, beside, totals, weight, hashes, *columns = _unpacked(message)
            rows, digest, kept = totals.tolist()
            if rows == 0:
                continue
            self.number = np.union1d(self.number, number)
            self.ends, self.beside = np.append(self.ends, ends), beside
            self.sample.take_in(columns, hashes, rows, float(weight), digest)
            self.store.most = max(self.store.most, kept)
        if self.sample.rows == 0:
            raise ValueError("there are no rows with an observation: at least one is needed")
        self._check_stretches()
        where = Occupied(self.stretches, self.number, self.ends.dtype.kind == "i")
        first_and_last = self.ends.min().item(), self.ends.max().item()
        extra, weights = (
            None if has else float(value) for has, value in zip(self.own, self.beside, strict=True)
        )
        return Stored.of(self.store, self.sample, where, first_and_last, (extra, weights))


def _packed(arrays: list[np.ndarray]) -> bytes:
    with io.BytesIO() as file:
        np.savez(file, *arrays)
        return file.getvalue()


def _unpacked(content: bytes) -> list[np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return [found[f"arr_{number}"] for number in range(len(found.files))]


def _extra_of(roles: Roles, likelihood: Likelihood) -> str | float | None:
    """The column of what the likelihood reads beside y, or one number for all."""
    return roles.extras.get(likelihood.extra or "")


def checked_rows(columns: Columns, roles: Roles, likelihood: Likelihood) -> list[np.ndarray]:
    """x, y, what is read beside it, and weights, of the rows that count."""

    def values(name: Any) -> Any:
        return columns[name] if isinstance(name, str) else name

    extras = {name: values(column) for name, column in roles.extras.items()}
    checked = check_columns(
        values(roles.time), values(roles.target), likelihood, extras, values(roles.weights)
    )
    counted = checked[3] > 0
    return checked if counted.all() else [column[counted] for column in checked]
