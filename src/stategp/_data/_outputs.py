"""Observations of several outputs at the door: as columns, as a list for each, or as rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stategp._data._observations import (
    Observations,
    inputs_as_given,
    numbers,
    observe,
    relative_inputs,
)
from stategp._data._table import column_names
from stategp._data._views import Origin
from stategp._runtime import refuse_traced
from stategp.likelihoods import Likelihood


class Outputs(NamedTuple):
    """What was seen of several outputs, checked."""

    series: tuple[Observations | None, ...]  # of each output; None if there is nothing
    data: Observations  # all of them in order of x
    places: np.ndarray  # the number of the output in each row
    given_rows: np.ndarray | None  # numbers of the rows, where all outputs were given in one table


class _Given(NamedTuple):
    """What the user gave for one output."""

    x: Any
    y: Any
    extras: dict[str, Any]
    weights: Any


def observe_several(
    names: tuple[str, ...],
    likelihoods: tuple[Likelihood, ...],
    x: Any,
    y: Any,
    *,
    extras: Mapping[str, Any],
    weights: Any,
) -> Outputs:
    """Check what the user gave; drop what is NaN.

    y has a column for each output (an array, a dictionary or a data frame), or is a list of arrays,
    one for each output, with x a list as well or one array for all (dictionaries do, too), or it is
    a single column and x is a pair: the inputs, and the name or number of the output in each row.
    """
    refuse_traced("the data", (x, y))
    named = {key: by_output(key, names, value, likelihoods) for key, value in extras.items()}
    given = _for_each_output(names, x, y, named, by_output("weights", names, weights))
    checked: list[tuple[np.ndarray, Observations, np.ndarray] | None] = []
    for name, likelihood, one in zip(names, likelihoods, given, strict=True):
        inputs = _prefixed(name, inputs_as_given, "x", one.x)
        targets = _prefixed(name, numbers, "y", one.y)
        if len(inputs) != len(targets):
            raise ValueError(
                f"output {name!r}: x and y must have equal lengths, got {len(inputs)} and "
                f"{len(targets)}"
            )
        if not np.any(~np.isnan(targets)):
            checked.append(None)
            continue
        own = {
            key: value
            for key, value in one.extras.items()
            if value is not None and (key == likelihood.extra or not _taken(key, likelihoods))
        }
        options = {"extras": own, "weights": one.weights}
        # The rows are numbered and go through the checks of a single series; its x says who stayed.
        rows = np.arange(len(targets))
        kept = _prefixed(name, observe, rows, targets, likelihood, **options)
        stayed = np.asarray(kept.x).astype(int) + int(kept.origin)
        checked.append((inputs[stayed], kept, stayed))
    if not any(checked):
        raise ValueError("no output has observations: at least one is needed")
    origin = min(one[0].min().item() for one in checked if one is not None)
    ordered = [one if one is None else _in_order(*one, origin) for one in checked]
    series = tuple(one if one is None else one[0] for one in ordered)
    stayed = np.concatenate([one[1] for one in ordered if one is not None])
    data, places, stayed = _joined(series, stayed, origin)
    in_table = all(one.x is given[0].x for one in given)
    return Outputs(series, data, places, stayed if in_table else None)


def _in_order(
    inputs: np.ndarray, kept: Observations, stayed: np.ndarray, origin: Origin
) -> tuple[Observations, np.ndarray]:
    """The observations of one output, measured from the origin of all, and their numbers."""
    x = relative_inputs("x", inputs, origin)
    order = np.argsort(x, kind="stable")
    columns: Any = [np.asarray(v)[order] for v in (x, kept.y, kept.extra, kept.weights)]
    columns.append(origin)
    return Observations(*columns), stayed[order]


def _taken(extra: str, likelihoods: tuple[Likelihood, ...]) -> bool:
    """Whether an argument has a meaning for some output."""
    return any(likelihood.extra == extra for likelihood in likelihoods)


def _prefixed(name: str, function: Any, *arguments: Any, **options: Any) -> Any:
    """What a check says, with the name of the output."""
    try:
        return function(*arguments, **options)
    except ValueError as error:
        raise ValueError(f"output {name!r}: {error}") from None


def _joined(
    series: tuple[Observations | None, ...], stayed: np.ndarray, origin: Origin
) -> tuple[Observations, np.ndarray, np.ndarray]:
    seen = [(number, data) for number, data in enumerate(series) if data is not None]
    columns: Any = [
        np.concatenate([np.asarray(part) for part in parts])
        for parts in zip(
            *((data.x, data.y, data.extra, data.weights) for _, data in seen), strict=True
        )
    ]
    places = np.concatenate([np.full(len(data), number) for number, data in seen])
    order = np.argsort(columns[0], kind="stable")
    rows: Any = (*(column[order] for column in columns), origin)
    return Observations(*rows), places[order], stayed[order]


# --- the forms in which data come --------------------------------------------------------------


def _for_each_output(
    names: tuple[str, ...], x: Any, y: Any, extras: dict[str, Any], weights: Any
) -> list[_Given]:
    if y is None:
        raise ValueError("y is missing: give x, and y with a column for each output")
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        x, y = ([part.get(name, ()) for name in names] for part in (x, y))
        return _from_lists(names, x, y, extras, weights)
    if _is_pair(x) and not _is_several(y) and np.ndim(y) == 1:
        return _from_rows(names, x, y, extras, weights)
    if isinstance(y, list | tuple) and _is_several(y):
        return _from_lists(names, x, y, extras, weights)
    return _from_columns(names, x, y, extras, weights)


def _is_pair(x: Any) -> bool:
    return isinstance(x, tuple | list) and len(x) == 2 and np.ndim(x[0]) == np.ndim(x[1]) == 1


def _is_several(y: Any) -> bool:
    """Whether y is a list of arrays, or has columns with names."""
    if isinstance(y, list | tuple):
        return bool(len(y)) and all(np.ndim(part) == 1 and hasattr(part, "shape") for part in y)
    return column_names(y) is not None


def _from_columns(
    names: tuple[str, ...], x: Any, y: Any, extras: dict[str, Any], weights: Any
) -> list[_Given]:
    inputs = inputs_as_given("x", x)
    columns = _columns("y", names, y, len(inputs))
    each = {key: _columns_or_one(key, names, v, len(inputs)) for key, v in extras.items()}
    counts = _columns_or_one("weights", names, weights, len(inputs))
    return [
        _Given(inputs, columns[i], {key: v[i] for key, v in each.items()}, counts[i])
        for i in range(len(names))
    ]


def _columns(what: str, names: tuple[str, ...], values: Any, length: int) -> list[Any]:
    known = column_names(values)
    if known is not None:
        missing = [name for name in names if name not in known]
        if missing and (len(known) != len(names) or names != _numbered(len(names))):
            raise ValueError(
                f"{what} has no column {missing[0]!r}; it has {', '.join(map(repr, known))}"
            )
        columns = [values[name] for name in (known if missing else names)]
    else:
        array = np.asarray(values)
        if array.ndim == 1 and len(names) == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ValueError(
                f"{what} must have a column for each of {len(names)} outputs "
                f"({', '.join(names)}), got shape {array.shape}; outputs observed at different "
                "times are lists of arrays, or x=(inputs, outputs) and y with a number for each row"
            )
        columns = list(array.T)
    for name, column in zip(names, columns, strict=True):
        if len(column) != length:
            raise ValueError(
                f"x and {what} must have equal lengths, got {length} and {len(column)} for output "
                f"{name!r}"
            )
    return columns


def _columns_or_one(what: str, names: tuple[str, ...], values: Any, length: int) -> list[Any]:
    """One for each output, or the same for all: a number, or one for each x."""
    if isinstance(values, ByOutput):
        return list(values)
    if values is None or np.ndim(values) < 2:
        return [values] * len(names)
    return _columns(what, names, values, length)


def _from_lists(
    names: tuple[str, ...], x: Any, y: Any, extras: dict[str, Any], weights: Any
) -> list[_Given]:
    several = isinstance(x, list | tuple) and all(np.ndim(part) == 1 for part in x)
    inputs = list(x) if several else [x] * len(names)
    for what, parts in (("y", y), ("x", inputs)):
        if len(parts) != len(names):
            raise ValueError(
                f"{what} must be a list of arrays, one for each of {len(names)} outputs "
                f"({', '.join(names)}), got {len(parts)}"
            )

    def each(what: str, value: Any) -> list[Any]:
        if isinstance(value, ByOutput):
            return list(value)
        if not isinstance(value, list | tuple):
            return [value] * len(names)
        if len(value) != len(names):
            raise ValueError(f"{what} must have an entry for each of {len(names)} outputs")
        return list(value)

    parts = {key: each(key, value) for key, value in extras.items()}
    counts = each("weights", weights)
    return [
        _Given(inputs[i], y[i], {key: v[i] for key, v in parts.items()}, counts[i])
        for i in range(len(names))
    ]


def _from_rows(
    names: tuple[str, ...], x: Any, y: Any, extras: dict[str, Any], weights: Any
) -> list[_Given]:
    inputs, targets = inputs_as_given("x[0]", x[0]), numbers("y", y)
    outputs = output_numbers(names, x[1])
    if not len(inputs) == len(outputs) == len(targets):
        raise ValueError(
            "inputs, outputs and y must have equal lengths, got "
            f"{len(inputs)}, {len(outputs)} and {len(targets)}"
        )

    def part(value: Any, mine: np.ndarray, number: int) -> Any:
        if isinstance(value, ByOutput):
            return value[number]
        return value if value is None or np.ndim(value) == 0 else np.asarray(value)[mine]

    return [
        _Given(
            inputs[outputs == i],
            targets[outputs == i],
            {key: part(value, outputs == i, i) for key, value in extras.items()},
            part(weights, outputs == i, i),
        )
        for i in range(len(names))
    ]


class ByOutput(tuple[Any, ...]):
    """An entry for each output; None stands for the default."""


def by_output(
    what: str,
    names: tuple[str, ...],
    values: Any,
    likelihoods: tuple[Likelihood, ...] | None = None,
) -> Any:
    """The entries of a dictionary or data frame, in the order of the outputs; others unchanged.

    Outputs that are not named have the default. With `likelihoods`, only those can be named whose
    likelihood reads what this is.
    """
    known = column_names(values)
    if known is None:
        return values
    if names == _numbered(len(names)) and len(known) == len(names) and not {*known} & {*names}:
        return ByOutput(values[column] for column in known)
    entries: list[Any] = [None] * len(names)
    for column in known:
        if column not in names and column not in range(len(names)):
            raise ValueError(
                f"{what} has an entry for {column!r}, which is none of the {len(names)} outputs "
                f"({', '.join(names)})"
            )
        number = names.index(column) if column in names else int(column)
        if likelihoods is not None and likelihoods[number].extra != what:
            readers = [n for n, one in zip(names, likelihoods, strict=True) if one.extra == what]
            raise ValueError(
                f"{what} has an entry for output {names[number]!r}, but "
                f"{type(likelihoods[number]).__name__} does not read it: "
                + (f"leave it to {', '.join(readers)}" if readers else "no output does")
            )
        entries[number] = values[column]
    return ByOutput(entries)


def output_numbers(names: tuple[str, ...], outputs: Any) -> np.ndarray:
    """Which output is meant in every row, by numbers or by names."""
    values = np.asarray(outputs)
    if values.ndim != 1:
        raise ValueError(f"outputs must be one-dimensional, got shape {values.shape}")
    if values.dtype.kind in "iu":
        wrong = (values < 0) | (values >= len(names))
        found = np.where(wrong, 0, values).astype(int)
    else:
        table = {name: number for number, name in enumerate(names)}
        known = [table.get(str(value), -1) for value in values.tolist()]
        found = np.asarray(known, dtype=int)
        wrong = found < 0
    if np.any(wrong):
        at = int(np.argmax(wrong))
        raise ValueError(
            f"outputs[{at}] = {values[at]} is none of the {len(names)} outputs ({', '.join(names)})"
        )
    return found


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))
