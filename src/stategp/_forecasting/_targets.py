"""Several targets in columns of one frame: the same as many series in a long one."""

from typing import Any

from stategp._forecasting._frames import (
    as_frame,
    column,
    column_of,
    frames,
    kind_of,
    number_column,
    text_series,
)

TARGET, VALUE = "target", "y"


def target_names(targets: Any, time: str) -> list[str]:
    """The columns of the targets, which must be different ones."""
    names = list(targets)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"target must be a column or a list of columns, got {targets!r}")
    if len(set(names)) < len(names) or time in names:
        raise ValueError(
            f"targets must be different columns, and none of them {time!r}, got {', '.join(names)}"
        )
    return names


def melted(frame: Any, time: str, targets: Any, by: Any) -> tuple[Any, Any, str]:
    """A long frame with the name of the target in each row, what tells series apart, and y."""
    names = target_names(targets, time)
    table = as_frame(frame, time)
    for name in names:
        column(table, name)
    kept = [name for name in table.columns if name not in names]
    for name in (TARGET, VALUE):
        if name in kept:
            raise ValueError(
                f"with several targets the column {name!r} is made by fit: rename that of the frame"
            )
    kind = kind_of(table)
    parts = [
        table.select(kept).with_columns(
            text_series(kind, TARGET, [name] * len(table)),
            column_of(kind, VALUE, number_column(table, name)),
        )
        for name in names
    ]
    others = [] if by is None else [by] if isinstance(by, str) else list(by)
    return frames().concat(parts).to_native(), [*others, TARGET], VALUE
