"""Classes in no order: the probability of each along x, and which of them were observed."""

import numpy as np

from stategp._story._charts import Axis, Dots, Line, Mark, Panel

_COLOURS = 6
_MOST_LABELS = 500  # of each class, drawn one by one
_RATHER, _ALL = 0.07, 0.4  # the height of a row of labels, and of all rows at most
_SHARES = tuple((share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))


def class_lines(x: np.ndarray, shares: np.ndarray) -> tuple[Line, ...]:
    """The probability of each class; `shares` has a column for each."""
    return tuple(
        Line(_colour(number), x, share, key=f"class{number}", name=f"class {number}")
        for number, share in enumerate(np.asarray(shares).T)
    )


def class_panel(
    key: str,
    title: str,
    across: str,
    x: np.ndarray,
    shares: np.ndarray,
    seen: tuple[np.ndarray, np.ndarray],
    more: list[Mark],
) -> Panel:
    """The probability of each class, and above them a row of dots for the labels of each.

    `seen` are the inputs and the labels of the observations, as they are drawn along the axis.
    """
    classes = shares.shape[1]
    room = min(_RATHER, _ALL / classes)
    rows: list[Mark] = []
    for number in range(classes):
        mine = seen[0][seen[1] == number]
        mine = mine[:: max(1, -(-len(mine) // _MOST_LABELS))]
        height = np.full(len(mine), 1 + (number + 1) * room)
        rows.append(Dots(_colour(number), mine, height, key=f"seen{number}"))
    up = Axis("Probability", (-0.02, 1 + (classes + 1) * room), _SHARES)
    marks = (*class_lines(x, shares), *rows, *more)
    about = "Dots above the curves are observations, with a row for each class."
    return Panel(key, title, Axis(across), up, marks, says=title, about=about, along=False)


def _colour(number: int) -> str:
    return f"part{number % _COLOURS}"
