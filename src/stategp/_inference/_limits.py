"""How small the noise may become in a search.

Where f can pass through every observation, the bound may rise for ever as the noise falls. It ends
at what the data can show: their rounding, if they were written down with few digits (a tenth of
its standard deviation is below anything that could be seen), and else a fixed ratio to their
variance, at which double precision still has the digits of the bound.
"""

import math
from typing import NamedTuple

import numpy as np

from stategp._models import GP, AdditiveGP
from stategp.parameters import all_parameters

_CLEAREST = 1e12  # variance of y over that of Gaussian noise
_CLEAREST_SWEEP = 1e8  # of other noise, where bounds come from a sweep
_VISIBLE = 0.1  # of the standard deviation of rounding
_DIGITS = 12  # decimals that are looked for


class Limits(NamedTuple):
    """The lowest value of each coordinate of the hyperparameter vector, and what to say there."""

    lowest: np.ndarray
    remark: str


def noise_limits(model: GP | AdditiveGP, y: np.ndarray) -> Limits:
    """−∞ where nothing is too low. A value given below the limit is a limit of its own."""
    ratio = _CLEAREST if model.likelihood.conjugate else _CLEAREST_SWEEP
    variance = max(
        float(np.var(y)) / ratio,
        (_VISIBLE * resolution(y)) ** 2 / 12,
        float(np.max(np.abs(y)) * np.finfo(float).eps) ** 2,
    )
    smallest = {"noise": variance, "scale": math.sqrt(variance)}
    lowest, said = [], ""
    of_likelihood = {id(p) for p in all_parameters(model.likelihood)}
    for parameter in all_parameters(model):
        if not parameter.learned:
            continue
        low = np.full(parameter.value.size, -np.inf)
        if parameter.role in smallest and id(parameter) in of_likelihood and variance > 0:
            least = min(smallest[parameter.role], float(parameter.value))
            low[:] = math.log(least)
            name = "variance" if parameter.role == "noise" else "scale"
            said = (
                f"the noise ran to the smallest that these data can show ({name} {least:.3g}): f can "
                "pass through every observation, and with less noise the bound would still rise"
            )
        lowest.append(low)
    return Limits(np.concatenate(lowest) if lowest else np.zeros(0), said)


def resolution(y: np.ndarray) -> float:
    """The decimal unit that all values are multiples of, 0 if none is visible: 0.01 for prices."""
    values = np.unique(y)
    largest = float(np.max(np.abs(values)))
    if len(values) < 2 or largest == 0:
        return 0.0
    top = math.floor(math.log10(largest)) + 1
    for power in range(top, top - _DIGITS, -1):
        multiples = values * 10.0**-power if power <= 0 else values / 10.0**power
        close = np.abs(multiples - np.round(multiples))
        if np.all(close <= 4 * np.finfo(float).eps * np.abs(multiples)):
            return float(10.0**power)
    return 0.0
