"""Writing: a tree of plain values as JSON, and the arrays beside it."""

import enum
import hashlib
import importlib.metadata
import json
import math
import sys
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from stategp._files._registry import FORMAT, field_names, may_be_missing, name_in_files
from stategp._files._types import misfit
from stategp._runtime import replacing

# Names of the kinds of numbers in safetensors.
_KINDS = {
    "float64": "F64", "float32": "F32", "float16": "F16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
DEEPEST = 200  # levels of JSON, one inside the other
_MANY = 16  # numbers in a tuple, from which on they are an array

Tensors = dict[str, np.ndarray]


def save(answer: Any, path: Any) -> None:
    """Write a posterior or a forecaster to a file, which is there when it is complete."""
    tensors: Tensors = {}
    content = {
        "format": FORMAT,
        "written_by": f"stategp {importlib.metadata.version('stategp')}",
        "tree": _describe(answer, tensors, type(answer).__name__.lower(), 1),
    }
    text = json.dumps(content)
    # One entry: several would come in any order, and equal answers have equal files.
    entry = {"format": FORMAT, "sha256": checksum(text, tensors), "content": text}
    with replacing(path) as file:
        for piece in _safetensors(tensors, {"stategp": json.dumps(entry)}):
            file.write(piece)


def checksum(text: str, tensors: Tensors) -> str:
    """SHA-256 of the text and of every array with its name, kind and shape, in order of names."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: np.ndarray) -> Any:
    """The bytes of an array, not a copy of them."""
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data


def _safetensors(tensors: Tensors, metadata: dict[str, str]) -> Iterable[Any]:
    """A safetensors file in pieces, so that no second copy of the arrays is made."""
    order = sorted(tensors, key=lambda name: -tensors[name].itemsize)  # which keeps all aligned
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        kind, shape = _KINDS[tensors[name].dtype.name], list(tensors[name].shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield _bytes(tensors[name])


def _describe(value: Any, tensors: Tensors, where: str, depth: int) -> Any:
    """A value as JSON; arrays go to the tensors. `where` is for error messages."""
    if depth > DEEPEST:
        raise ValueError(f"{where} is nested too deep for a file")

    def inside(part: Any, name: Any, deeper: int = 2) -> Any:
        return _describe(part, tensors, f"{where}.{name}", depth + deeper)

    if isinstance(value, enum.Enum):
        return {"enum": _name_of(value, where), "member": value.name}
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError(f"{where} is {value}, and a file holds whole numbers of 64 bits")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, jax.Array | np.ndarray):
        name = _keep(np.asarray(value), tensors, where)
        return {"array": name, "host": not isinstance(value, jax.Array)}
    if isinstance(value, dict):
        return {"dict": [[inside(k, k, 3), inside(v, k, 3)] for k, v in value.items()]}
    cls: Any = type(value)
    if name_in_files(cls) is None and cls in (tuple, list):
        if cls is tuple and len(value) >= _MANY and all(type(item) is float for item in value):
            return {"floats": _keep(np.array(value), tensors, where)}
        return {cls.__name__: [inside(part, number) for number, part in enumerate(value)]}
    name = _name_of(value, where)
    fields = {field: getattr(value, field) for field in field_names(cls) or ()}
    for field in may_be_missing(cls):
        if name_in_files(type(fields[field])) is None:
            del fields[field]
    wrong = misfit(cls, fields)
    if wrong:
        raise ValueError(f"{where} cannot be saved: the field {wrong}; correct its annotation")
    return {"class": name, "fields": {field: inside(part, field) for field, part in fields.items()}}


def _keep(array: np.ndarray, tensors: Tensors, where: str) -> str:
    if array.dtype.name not in _KINDS:
        raise ValueError(f"{where} is an array of {array.dtype}, which a file cannot hold")
    big = array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big")
    name = f"t{len(tensors)}"
    tensors[name] = array.astype(array.dtype.newbyteorder("<")) if big else array
    return name


def _name_of(value: Any, where: str) -> str:
    cls = type(value)
    name = name_in_files(cls)
    if name is not None:
        return name
    if field_names(cls) is None and not isinstance(value, enum.Enum):
        raise ValueError(
            f"{where} is {value!r}, which a file cannot hold: it holds numbers, text and objects "
            "of known classes. A function of your own can be saved as a class: a subclass of "
            "sg.means.Mean or sg.likelihoods.Likelihood, with sg.register"
        )
    raise ValueError(
        f"{where} is a {cls.__name__}, a class that is not registered: write @sg.register above "
        f"the class, or call sg.register({cls.__name__}), here and wherever the file is loaded"
    )
