"""From text to a kernel.

sum      = summand {"+" summand}
summand  = [label ":"] product
product  = factor {"*" factor}
factor   = number | name ["(" argument {"," argument} ")"] | "(" sum ")"
argument = [name "="] value
value    = number | duration | "[" number {"," number} "]" | word
         | ("fixed" | "learn") "(" value ")"
"""

import math
import re
from typing import Any

from stategp._durations import days
from stategp._expressions._tokens import Token, error_at, shortened, tokenize
from stategp._expressions._vocabulary import (
    ENVELOPES,
    HELD,
    PARAMETERS,
    Kind,
    Word,
    advice,
    find,
    plain,
    suggestion,
)
from stategp.kernels import Kernel, Sum
from stategp.parameters import fixed, parameter

_DEEPEST = 20
_MOST_KERNELS = 100
_LARGEST_COUNT = 200
_OTHER_OPERATORS = ("-", "/", "^")
_NOTHING_ELSE = "; kernels can be added and multiplied, nothing else"
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def parse_kernel(text: str) -> Kernel:
    """The kernel that an expression describes.

    >>> from stategp._expressions import parse_kernel
    >>> parse_kernel("trend: matern52(30d) + yearly: periodic(1y)").names
    ('trend', 'yearly')
    """
    parser = _Parser(text)
    if parser.next.kind == "end":
        raise ValueError(
            "the kernel expression is empty; write for example matern52(30d) + periodic(1y)"
        )
    kernel = parser.sum(depth=0)
    if parser.next.kind != "end":  # all else that could follow has been refused before
        raise parser.error(parser.next, f"{parser.next} without an opening parenthesis")
    return kernel


class _Parser:
    def __init__(self, text: str):
        self.text, self.tokens, self.place, self.kernels = text, tokenize(text), 0, 0

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    @property
    def after_next(self) -> Token:
        return self.tokens[min(self.place + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.next
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def accept(self, symbol: str) -> bool:
        is_next = self.next.kind == "symbol" and self.next.text == symbol
        if is_next:
            self.take()
        return is_next

    def close(self, closing: str, opening: Token) -> None:
        if not self.accept(closing):
            raise self.error(
                self.next,
                f"expected {closing!r}, found {self.next}",
                f"; the {opening.text!r} at character {opening.position + 1} is not closed",
            )

    def error(self, token: Token, what: str, advice: str = "") -> ValueError:
        return error_at(self.text, token.position, what, advice)

    # --- kernels ---------------------------------------------------------------------------

    def sum(self, depth: int) -> Kernel:
        labels: dict[str, tuple[Token, Kernel]] = {}
        summands: list[Kernel] = []
        while True:
            label = self.label()
            kernel = self.product(depth)
            if label is None:
                summands.append(kernel)
            else:
                name = _name(label)
                if name in labels:
                    raise self.error(label, f"label {name!r} is used a second time")
                labels[name] = label, kernel
                summands.append(Sum(**{name: kernel}))
            if not self.accept("+"):
                break
        if len(summands) == 1:
            return summands[0]
        total = Sum(*summands)
        for name, (label, kernel) in labels.items():
            named = dict(zip(total.names, total.kernels, strict=True))
            if named.get(name) is not kernel:
                raise self.error(
                    label,
                    f"label {name!r} is also the name of a summand without a label,",
                    "; label that one, too",
                )
        return total

    def label(self) -> Token | None:
        if self.next.kind not in ("word", "quoted") or self.after_next.text != ":":
            return None
        label = self.take()
        if _name(label) in ("self", "cls") or not _name(label).strip():  # Python's own names
            raise self.error(label, f"{label} cannot be a label", "; choose another name")
        self.take()
        return label

    def product(self, depth: int) -> Kernel:
        start = self.next
        result = self.factor(depth)
        while self.accept("*"):
            token = self.next
            factor = self.factor(depth)
            try:
                # A number goes to the right, where the kernel's own method deals with it.
                result = factor * result if isinstance(result, float) else result * factor
            except ValueError as error:
                raise self.error(token, f"{error},") from None
        if self.next.kind != "end" and self.next.text not in ("+", ")"):
            hint = _NOTHING_ELSE if self.next.text in _OTHER_OPERATORS else ""
            raise self.error(self.next, f"expected + or * between kernels, found {self.next}", hint)
        if isinstance(result, float):
            raise self.error(
                start,
                f"{start} is a number, not a kernel,",
                f"; write constant({result:g}), or multiply a kernel by it",
            )
        return result

    def factor(self, depth: int) -> Kernel | float:
        before = self.tokens[self.place - 1] if self.place else None
        token = self.take()
        if token.kind == "number":
            if not _NUMBER.fullmatch(token.text):
                raise self.error(token, f"kernels are multiplied by plain numbers, got {token}")
            if not 0 < float(token.text) < math.inf:
                raise self.error(
                    token, f"kernels are multiplied by positive finite numbers, got {token}"
                )
            return float(token.text)
        if token.kind == "word":
            return self.kernel(token)
        if token.text == "(":
            if depth >= _DEEPEST:
                raise self.error(token, f"more than {_DEEPEST} nested parentheses")
            inner = self.sum(depth + 1)
            self.close(")", token)
            return inner
        after = f" after {before}" if before else ""
        hint = _NOTHING_ELSE if token.text in _OTHER_OPERATORS else ""
        raise self.error(token, f"expected a kernel{after}, found {token}", hint)

    def kernel(self, name: Token) -> Kernel:
        word = find(name.text)
        if word is None:
            raise self.error(name, f"unknown kernel {name.text[:50]!r}", advice(name.text[:50]))
        self.kernels += 1
        if self.kernels > _MOST_KERNELS:
            raise self.error(name, f"more than {_MOST_KERNELS} kernels")
        arguments: dict[str, Any] = {}
        opening = self.next
        if self.accept("(") and not self.accept(")"):
            self.argument(word, arguments)
            while self.accept(","):
                self.argument(word, arguments)
            self.close(")", opening)
        try:
            return word.make(**arguments)
        except ValueError as error:
            raise self.error(name, f"{error}, in {word.name}") from None

    # --- arguments -------------------------------------------------------------------------

    def argument(self, word: Word, arguments: dict[str, Any]) -> None:
        start, name = self.next, word.first
        if self.next.kind == "word" and self.after_next.text == "=":
            name = plain(self.take().text)
            self.take()
            if name not in word.arguments:
                raise self.error(
                    start,
                    f"{word.name} has no argument {start.text!r}",
                    f"; it takes {', '.join(word.arguments)}."
                    + suggestion(name, list(word.arguments)),
                )
        elif arguments:
            raise self.error(
                start,
                f"an argument without a name, {start},",
                f"; only the first, {name}, goes without: write name=value with a name from "
                + ", ".join(word.arguments),
            )
        if name in arguments:
            raise self.error(start, f"{name} is given a second time")
        arguments[name] = self.value(f"{name} of {word.name}", word.arguments[name])

    def value(self, of: str, kind: Kind) -> Any:
        start = self.next
        if start.kind != "word" or self.after_next.text != "(":
            learned, value = kind not in HELD, self.bare_value(of, kind)
            return value if learned or kind not in PARAMETERS else fixed(value)
        if plain(start.text) not in ("fixed", "learn"):
            raise self.error(
                start, f"expected a value for the {of}, found {start}", "; or fixed(...)"
            )
        if kind not in PARAMETERS:
            raise self.error(start, f"the {of} is never learned: write it without {start.text}")
        self.take()
        opening = self.take()
        value = self.bare_value(of, kind)
        self.close(")", opening)
        if plain(start.text) == "fixed":
            return fixed(value)
        return parameter(value) if kind == "start" else value

    def bare_value(self, of: str, kind: Kind) -> Any:
        opening = self.next
        if kind != "numbers" or not self.accept("["):
            return [self.scalar(of, "number")] if kind == "numbers" else self.scalar(of, kind)
        values = [self.scalar(of, "number")]
        while self.accept(","):
            values.append(self.scalar(of, "number"))
        self.close("]", opening)
        return values

    def scalar(self, of: str, kind: Kind) -> Any:
        """One number, duration or word; a duration may have spaces: ``1 day 12 hours``."""
        start = self.next
        negative = self.accept("-")
        first = self.place
        while self.next.kind in ("number", "word"):
            self.take()
        if self.place == first:
            raise self.error(self.next, f"expected a value for the {of}, found {self.next}")
        written = self.text[start.position : self.tokens[self.place - 1].end]
        shown = repr(shortened(written))
        if kind == "word":
            if plain(written) not in ENVELOPES:
                choices = ", ".join(ENVELOPES)
                raise self.error(start, f"the {of} must be one of {choices}, got {shown}")
            return plain(written)
        if negative:
            raise self.error(start, f"the {of} must be positive, got {shown}")
        if kind == "count":
            if not (written.isdecimal() and int(written) <= _LARGEST_COUNT):
                raise self.error(
                    start, f"the {of} must be a whole number up to {_LARGEST_COUNT}, got {shown}"
                )
            return int(written)
        is_number = _NUMBER.fullmatch(written)
        number = float(written) if is_number else self.duration(of, kind, start, written)
        if not 0 < number < math.inf:
            raise self.error(start, f"the {of} must be positive and finite, got {shown}")
        return number

    def duration(self, of: str, kind: Kind, start: Token, written: str) -> float:
        shown = repr(shortened(written))
        try:
            number = days(written)
        except ValueError as error:
            if kind in ("duration", "period") and start.kind == "number":
                message, _, hint = str(error).partition("; ")
                raise self.error(start, f"{of}: {message},", f"; {hint}" if hint else "") from None
            raise self.error(start, f"the {of} must be a number, got {shown}") from None
        if kind not in ("duration", "period"):
            hint = "; it is relative to the period" if of.startswith("lengthscale") else ""
            raise self.error(
                start, f"the {of} must be a plain number, got the duration {shown}", hint
            )
        return number


def _name(label: Token) -> str:
    return label.text[1:-1] if label.kind == "quoted" else label.text
