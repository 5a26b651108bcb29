"""Reading: the header first, then the arrays, then the objects, each checked before the next.

A file is somebody else's until it has been read. It can name classes that are known and nothing
else; every array is named once, so that reading takes memory in proportion to the file.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax.numpy as jnp
import safetensors

from stategp._files._registry import (
    FORMAT,
    Fields,
    check,
    class_of,
    defaults,
    field_names,
    is_answer,
    is_registered,
    may_be_missing,
    name_in_files,
    upgraded,
)
from stategp._files._saving import DEEPEST, Tensors, checksum
from stategp._files._types import misfit

Kind = TypeVar("Kind")

# Brackets of JSON; text between quotation marks (or up to the end) is passed over.
_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)


def load(path: Any, *, function: Callable[..., Any] | None = None) -> Any:
    """The posterior, forecaster or summary that was saved in a file.

    Files of every earlier version of stategp can be read. Files cannot execute code. If a file
    contains classes of your own, register them first (`sg.register`). `function` is the composition
    of a deep model, which is not stored in the file (except for `DeepGP.stack`).

    >>> import numpy as np, stategp as sg, tempfile
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior.save(f"{folder}/model.stategp")
    ...     again = sg.load(f"{folder}/model.stategp")
    >>> again.elbo == posterior.elbo
    True
    """
    target, answer = _read(path, function)
    if not is_answer(answer):
        raise ValueError(f"{target} holds {_a(answer)}, not a posterior or Forecaster")
    return answer


def load_as(path: Any, kind: type[Kind]) -> Kind:
    """What was saved in a file, if it is of this kind."""
    target, found = _read(path, None)
    if not isinstance(found, kind):
        raise ValueError(f"{target} holds {_a(found)}, not a {kind.__name__}")
    return found


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _read(path: Any, function: Callable[..., Any] | None) -> tuple[Path, Any]:
    """The file and what it holds, all of it."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, not a file")
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {target}")
    with target.open("rb"):  # which says what is wrong if it may not be read
        pass
    content, tensors = _contents(target)
    try:
        reader = _Reader(content, tensors, {"function": function})
        answer = reader.build(content["tree"])
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{target} does not describe a posterior: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{target} cannot be read: {error}") from None
    if tensors:
        raise ValueError(f"{target} cannot be read: it holds arrays that nothing refers to")
    return target, answer


class _RefusedError(Exception):
    """Why a file is not read; the name of the file goes before it."""


def _contents(target: Path) -> tuple[dict[str, Any], Tensors]:
    """What the file says and its arrays: complete and unaltered."""
    try:
        with safetensors.safe_open(target, framework="numpy") as file:
            entry = _entry(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _unaltered(entry, tensors), tensors
    except _RefusedError as error:
        raise ValueError(f"{target} {error}") from None
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{target} is not a stategp file, or a damaged one: {error}") from None


def _entry(metadata: dict[str, str]) -> dict[str, Any]:
    """stategp's entry in the header, before anything else of the file is looked at."""
    if "stategp" not in metadata:
        raise _RefusedError("is a safetensors file, but was not written by stategp")
    try:
        entry = _parse(metadata["stategp"])
        _check_format(entry.get("format", 1))  # format 1 says so in its content only
        return {"content": entry["content"], "sha256": entry["sha256"]}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _RefusedError(f"is damaged: {error}") from None


def _unaltered(entry: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    try:
        if checksum(entry["content"], tensors) != entry["sha256"]:
            raise ValueError("its checksum does not match its content")
        content = _parse(entry["content"])
        _check_format(content["format"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _RefusedError(f"is damaged: {error}") from None
    return dict(content)


def _check_format(written: Any) -> None:
    if type(written) is int and 1 <= written <= FORMAT:
        return
    newer = type(written) is int and written > FORMAT
    reason = "was written by a newer version; install that one" if newer else "is damaged"
    raise _RefusedError(
        f"has format {written!r}, and this version of stategp reads formats 1 to {FORMAT}: it "
        f"{reason}"
    )


def _parse(text: str) -> Any:
    """JSON that is not nested deeper than anything that was saved."""
    depth = 0
    for match in _BRACKET.finditer(text):
        sign = text[match.start()]
        depth += (sign in "[{") - (sign in "]}")
        if depth > DEEPEST + 10:
            raise ValueError("its description is nested too deep")
    return json.loads(text)


class _Reader:
    """Makes the objects that a file describes."""

    def __init__(self, content: dict[str, Any], tensors: Tensors, outside: Fields):
        self.written: int = content["format"]
        self.author = str(content.get("written_by", "an early version of stategp"))
        self.tensors, self.outside = tensors, outside

    def build(self, node: Any) -> Any:
        if not isinstance(node, dict):
            if isinstance(node, int) and not -(2**63) <= node < 2**64:
                raise ValueError("a whole number of more than 64 bits")
            if node is None or isinstance(node, bool | int | float | str):
                return node
            raise ValueError(f"unexpected {type(node).__name__}")
        match node:
            case {"float": str(text)}:
                return float(text)
            case {"array": str(name), "host": bool(host)}:
                array = self._tensor(name)
                return array if host else jnp.asarray(array)
            case {"floats": str(name)}:
                numbers = self._tensor(name)
                if numbers.ndim != 1 or numbers.dtype != float:
                    raise ValueError(f"array {name!r} is no list of numbers")
                return tuple(numbers.tolist())
            case {"dict": list(items)}:
                return {self.build(key): self.build(value) for key, value in items}
            case {"tuple": list(items)}:
                return tuple(self.build(item) for item in items)
            case {"list": list(items)}:
                return [self.build(item) for item in items]
            case {"enum": str(name), "member": str(member)}:
                return self._member(name, member)
            case {"class": str(name), "fields": dict(fields)}:
                return self._object(name, {key: self.build(value) for key, value in fields.items()})
        raise ValueError(f"unexpected entries {sorted(node)}")

    def _tensor(self, name: str) -> Any:
        if name not in self.tensors:
            raise ValueError(f"array {name!r} is used twice, or is missing")
        return self.tensors.pop(name)

    def _member(self, name: str, member: str) -> Any:
        members: Any = getattr(class_of(name, self.written), "__members__", {})
        if member not in members:
            raise ValueError(f"{name} has no member {member!r} in this version of stategp")
        return members[member]

    def _object(self, name: str, fields: Fields) -> Any:
        cls: Any = class_of(name, self.written)
        name = name_in_files(cls) or name
        names = field_names(cls)
        if names is None:
            raise ValueError(f"{name} is not a class with fields")
        fields = self._completed(cls, name, names, upgraded(name, fields, self.written))
        wrong = misfit(cls, fields)
        if wrong:
            raise ValueError(f"a wrong value in {name}: {wrong}")
        if issubclass(cls, tuple):
            made = cls(**fields)
        else:
            made = object.__new__(cls)
            for field in names:
                object.__setattr__(made, field, fields[field])
        check(made)
        return made

    def _completed(self, cls: Any, name: str, names: tuple[str, ...], fields: Fields) -> Fields:
        """All fields of the class: those of the file, given to `load`, or by default."""
        unknown = sorted(set(fields) - set(names))
        if unknown:
            reason = (
                "it was saved with another definition of that class"
                if is_registered(name)
                else f"it was written by {self.author}; install that or a later version"
            )
            raise ValueError(f"{name} has no field {', '.join(unknown)} here: {reason}")
        for field in sorted(may_be_missing(cls) - set(fields)):
            if self.outside[field] is None:
                raise ValueError(
                    f"the {field} of a {name} is one of your own and not in the file; give it: "
                    f"sg.load(path, {field}=…)"
                )
            fields = fields | {field: self.outside[field]}
        fields = defaults(cls) | fields
        missing = [field for field in names if field not in fields]
        if missing:
            raise ValueError(f"{name} has no {', '.join(missing)}, which has no default")
        return fields
