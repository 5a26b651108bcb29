"""From a kernel to text that `parse_kernel` reads."""

import re
from typing import Any

import numpy as np

from stategp._durations import days, describe
from stategp._expressions._vocabulary import BY_KERNEL, HELD, PARAMETERS, Kind, Word
from stategp.kernels import Constant, Harmonic, Kernel, Product, Sum
from stategp.parameters import Parameter

_LABEL = re.compile(r"[^\W\d]\w*")


def write_kernel(kernel: Kernel, *, dates: bool = False, digits: int | None = 6) -> str:
    """The expression that describes a kernel; `parse_kernel` reads it.

    With `dates`, lengthscales and periods are written as durations. Learned values are rounded to
    `digits` significant digits (None: all), and so are starts of trends; other fixed values keep
    all digits, because a small error in a period adds up over many periods. Values that a fit would
    choose from the data are omitted.

    >>> import stategp as sg
    >>> from stategp._expressions import write_kernel
    >>> trend, yearly = sg.kernels.Matern52(lengthscale=30), sg.kernels.Cosine(period="1y")
    >>> write_kernel(sg.kernels.Sum(trend=trend, yearly=yearly), dates=True)
    'trend: matern52(30d) + yearly: cosine(learn(1y))'
    """
    return _Writer(dates, digits).sum(kernel)


class _Writer:
    def __init__(self, dates: bool, digits: int | None):
        self.dates, self.digits = dates, digits

    def sum(self, kernel: Kernel) -> str:
        if not isinstance(kernel, Sum):
            return self.product(kernel)
        labels = _labels(kernel)
        # A sum within a sum is a component of its own: it needs its parentheses.
        written = (
            f"({self.sum(part)})" if isinstance(part, Sum) else self.product(part)
            for part in kernel.kernels
        )
        return " + ".join(label + part for label, part in zip(labels, written, strict=True))

    def product(self, kernel: Kernel) -> str:
        if not isinstance(kernel, Product):
            return self.one(kernel)
        return f"{self.left_factor(kernel.left)} * {self.right_factor(kernel.right)}"

    def left_factor(self, kernel: Kernel) -> str:
        if isinstance(kernel, Constant) and not kernel.variance.learned:
            return self.number(float(kernel.variance), "number", None)
        return f"({self.sum(kernel)})" if isinstance(kernel, Sum) else self.product(kernel)

    def right_factor(self, kernel: Kernel) -> str:
        nested = isinstance(kernel, Sum | Product)
        return f"({self.sum(kernel)})" if nested else self.one(kernel)

    def one(self, kernel: Kernel) -> str:
        word = BY_KERNEL.get(type(kernel))
        if word is None:
            raise ValueError(f"a kernel of type {type(kernel).__name__} cannot be written as text")
        arguments: list[str] = []
        for name, kind in word.arguments.items():
            value = self.argument(kernel, word, name, kind)
            if value is not None:
                # Only the very first argument may go without its name.
                named = arguments or name != word.first
                arguments.append(f"{name}={value}" if named else value)
        return f"{word.name}({', '.join(arguments)})" if arguments else word.name

    def argument(self, kernel: Kernel, word: Word, name: str, kind: Kind) -> str | None:
        if isinstance(kernel, Harmonic):
            value = _harmonic(kernel, name, self.dates)
        else:
            value = getattr(kernel, name)
        if kind not in PARAMETERS:
            follows = name == "order" and not getattr(kernel, "order_given", True)
            if value is None or follows or value == word.defaults.get(name):
                return None
            return str(value)
        if value is not None and value.prior is not None:
            raise ValueError(
                f"the prior of the {name} of {word.name}, {value.prior}, cannot be written as text"
            )
        if value is None or not value.given:
            return None
        digits = self.digits if value.learned or kind == "start" else None
        numbers = [self.number(float(v), kind, digits) for v in np.ravel(value.value)]
        written = f"[{', '.join(numbers)}]" if kind == "numbers" else numbers[0]
        if kind in HELD:
            return f"learn({written})" if value.learned else written
        return written if value.learned else f"fixed({written})"

    def number(self, value: float, kind: Kind, digits: int | None) -> str:
        if self.dates and kind in ("duration", "period"):
            return _exactly(value) if digits is None else describe(value, digits)
        return repr(value).removesuffix(".0") if digits is None else f"{value:.{digits}g}"


def _labels(total: Sum) -> list[str]:
    """The label of each summand with its colon; empty where it has the name it gets anyway."""
    usual_names = [type(part).__name__.lower() for part in total.kernels]
    needed = [
        isinstance(part, Sum) or not re.fullmatch(rf"{name}(_\d+)?", actual)
        for part, name, actual in zip(total.kernels, usual_names, total.names, strict=True)
    ]
    summands = [
        Sum(**{name: part}) if label else part
        for part, name, label in zip(total.kernels, total.names, needed, strict=True)
    ]
    if len(summands) == 1 or Sum(*summands).names != total.names:
        needed = [True] * len(summands)
    return [_label(name) if label else "" for name, label in zip(total.names, needed, strict=True)]


def _label(name: str) -> str:
    if _LABEL.fullmatch(name):
        return f"{name}: "
    quote = "'" if '"' in name else '"'
    if quote in name or not name.isprintable():
        raise ValueError(f"the component name {name!r} cannot be written as text")
    return f"{quote}{name}{quote}: "


def _harmonic(kernel: Harmonic, name: str, dates: bool) -> Any:
    """What this kernel has under other names: its period and the number of its terms.

    Of period and frequency one is written: with dates the period, else the shorter number.
    """
    frequency, terms = kernel.frequency, kernel.weights.value.size
    period = Parameter(
        1 / frequency.value,
        "positive",
        "period",
        frequency.learned,
        frequency.given,
        frequency.prior,
    )
    by_period = dates or len(repr(float(period))) < len(repr(float(frequency)))
    match name:
        case "period":
            return period if by_period else None
        case "frequency":
            return None if by_period else frequency
        case "terms":
            return terms if terms > 1 and not kernel.weights.given else None
        case _:
            return getattr(kernel, name)


def _exactly(value: float) -> str:
    """The shortest duration that is this number to its last digit."""
    candidates = (describe(value, digits) for digits in range(3, 18))
    return next((text for text in candidates if days(text) == value), f"{value!r}d")
