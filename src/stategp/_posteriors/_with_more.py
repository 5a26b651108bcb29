"""Posteriors of several processes with more observations: all rows together, as they were given."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Observations, more_inducing, relative_inputs


class Rows(NamedTuple):
    """Old and new rows as `sg.condition` takes them, one after the other."""

    x: np.ndarray
    places: Any
    y: np.ndarray
    extra: np.ndarray
    weights: np.ndarray
    inducing: np.ndarray  # those that were there, and more where new rows need them


def rows_together(old: Any, new: Observations, places: Any) -> Rows:
    """`old` is the posterior; places are those of the new rows."""
    x = in_units(np.asarray(new.x), new.origin)
    states = np.asarray(old.padded_inducing)[: old.states]
    where = np.sort(relative_inputs("x_new", x, old.data.origin))
    states = more_inducing(states, np.asarray(old.data.x), where)

    def both(name: str) -> np.ndarray:
        return np.concatenate([np.asarray(getattr(data, name)) for data in (old.data, new)])

    return Rows(
        np.concatenate([in_units(np.asarray(old.data.x), old.data.origin), x]),
        None if places is None else np.concatenate([np.asarray(old.places), places]),
        both("y"),
        both("extra"),
        both("weights"),
        in_units(states, old.data.origin),
    )


def in_units(relative: np.ndarray, origin: int | float) -> np.ndarray:
    """Inputs as the user has them: whole numbers if the origin is one and they are."""
    whole = np.rint(relative)
    if isinstance(origin, int) and np.all((whole == relative) & (np.abs(whole) < 2.0**62)):
        return whole.astype(np.int64) + np.int64(origin)
    return relative + float(origin)


def condition_all(
    model: Any, x: Any, rows: Rows, extras: Mapping[str, Any], options: dict[str, Any]
) -> Any:
    """The posterior of all rows; `options` are those of `update` that were given."""
    from stategp._fitting import condition

    wanted = {"inducing": rows.inducing} | {k: v for k, v in options.items() if v is not None}
    return condition(model, x, rows.y, weights=rows.weights, **extras, **wanted)
