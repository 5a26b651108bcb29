"""How small the noise may become in a search, and how light its tails.

Where f can pass through every observation, the bound may rise for ever as the noise falls. It ends
at what the data can show: their rounding, if they were written down with few digits (a tenth of
its standard deviation is below anything that could be seen), and else a fixed ratio to their
variance, at which double precision still has the digits of the bound. Without outliers the tails of
a Student-t become lighter for ever; they end where a Gaussian would not be told from it.
"""

import math
from typing import NamedTuple

import numpy as np

from stategp._models import GP, AdditiveGP, MixedGP
from stategp.parameters import all_parameters

_CLEAREST = 1e12  # variance of y over that of Gaussian noise on one series: the careful way
_CLEAREST_SWEEP = 1e8  # of other noise and of additive models, where bounds come from a sweep
LIGHTEST_TAILS = 1e4  # degrees of freedom at which a Student-t is as good as a Gaussian
_VISIBLE = 0.1  # of the standard deviation of rounding
_DIGITS = 12  # decimals that are looked for


class Limits(NamedTuple):
    """The lowest and highest value of each coordinate of the hyperparameter vector."""

    lowest: np.ndarray
    highest: np.ndarray


def search_limits(
    model: GP | AdditiveGP | MixedGP, y: np.ndarray, *, swept: bool = False
) -> Limits:
    """Infinite where there is none. A value given beyond a limit is a limit of its own.

    `swept`: the bound of a search comes from a sweep even if the careful way were possible.
    """
    smallest = smallest_noise(model, y, swept)
    likelihood = {id(parameter) for parameter in all_parameters(model.likelihood)}
    lowest, highest = [np.zeros(0)], [np.zeros(0)]
    for parameter in all_parameters(model):
        if not parameter.learned:
            continue
        low, high = -np.inf, np.inf
        if parameter.role in smallest and id(parameter) in likelihood:
            low = math.log(min(smallest[parameter.role], float(parameter.value)))
        if parameter.role == "tails":
            high = math.log(max(LIGHTEST_TAILS, float(parameter.value)))
        lowest.append(np.full(parameter.value.size, low))
        highest.append(np.full(parameter.value.size, high))
    return Limits(np.concatenate(lowest), np.concatenate(highest))


def smallest_noise(
    model: GP | AdditiveGP | MixedGP, y: np.ndarray, swept: bool = False
) -> dict[str, float]:
    """By the role of the parameter; nothing where y² has no size at all, or no end."""
    careful = model.likelihood.conjugate and isinstance(model, GP) and not swept
    ratio = _CLEAREST if careful else _CLEAREST_SWEEP
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        candidates = [
            np.var(y) / ratio,
            np.square(_VISIBLE * resolution(y)) / 12,
            np.square(np.max(np.abs(y)) * np.finfo(float).eps),
        ]
    variance = float(np.max(candidates))
    usable = 0 < variance < math.inf  # squares of extreme numbers overflow or vanish
    return {"noise": variance, "scale": math.sqrt(variance)} if usable else {}


def resolution(y: np.ndarray) -> float:
    """The decimal unit that all values are multiples of, 0 if none is visible: 0.01 for prices."""
    values = np.unique(y)
    largest = float(np.max(np.abs(values)))
    if len(values) < 2 or largest == 0:
        return 0.0
    top = math.floor(math.log10(largest)) + 1
    for power in range(top, top - _DIGITS, -1):
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            unit = float(np.power(10.0, power))
            multiples = values * np.power(10.0, -power) if power <= 0 else values / unit
            close = np.abs(multiples - np.round(multiples))
            visible = np.all(close <= 4 * np.finfo(float).eps * np.abs(multiples))
        if visible:
            return unit
    return 0.0
