"""Posteriors in files: arrays as safetensors, everything else as JSON in its header.

A file holds numbers, strings and the names of classes of this package, nothing that could run. Only
classes listed here are made when it is read, their fields are checked by name, and a checksum over
the whole tells a file that was altered or cut short. Files are written beside their place and then
moved there, so that a write that is interrupted leaves what was there before.
"""

import dataclasses
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from stategp import chain, kernels, likelihoods, means, priors
from stategp._data import Observations, Table
from stategp._inference import Certificate, FitResult, Group, NodeSites
from stategp._models import GP, AdditiveGP, DeepGP, Layer, Stack
from stategp._posteriors._additive import AdditivePosterior, Training
from stategp._posteriors._deep import DeepPosterior
from stategp._posteriors._posterior import Posterior
from stategp._posteriors._prediction import Chain
from stategp.kernels import Kernel
from stategp.parameters import Parameter

_FORMAT = 1
_answers: list[type] = [Posterior, AdditivePosterior, DeepPosterior]
_others: list[type] = []  # classes of packages that build on this one


def allow(*classes: type, answers: tuple[type, ...] = ()) -> None:
    """Let files name these classes too, and hold `answers` as what was saved."""
    _others.extend([*classes, *answers])
    _answers.extend(answers)


def _known() -> dict[str, type]:
    """The classes that a file may name."""
    found: list[Any] = [Parameter, GP, AdditiveGP, DeepGP, Layer, Stack, Observations, Table]
    found += [Posterior, AdditivePosterior, DeepPosterior, Training, Group, NodeSites, Chain]
    found += [FitResult, Certificate, chain.Sites, chain.PairMarginals]
    found += _others
    for module, base in [
        (kernels, Kernel),
        (likelihoods, likelihoods.Likelihood),
        (means, means.Mean),
        (priors, object),
    ]:
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, base)
            and dataclasses.is_dataclass(value)
        ]
    return {own.__name__: own for own in found}


def save(posterior: Any, path: Any) -> None:
    """Write a posterior to a file; see `load`."""
    tensors: dict[str, np.ndarray] = {}
    tree = _describe(posterior, tensors, "posterior")
    text = json.dumps({"format": _FORMAT, "tree": tree})
    # One entry only: several would come in any order, and equal posteriors have equal files.
    header = json.dumps({"sha256": _checksum(text, tensors), "content": text})
    content = safetensors.numpy.save(tensors, metadata={"stategp": header})
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: the folder {target.parent} does not exist")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: Any, *, function: Callable[..., Any] | None = None) -> Any:
    """The posterior that was saved in a file.

    `function` is the composition of a deep model, which no file can hold (those of
    `DeepGP.stack` excepted).

    >>> import numpy as np, stategp as sg, tempfile
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior.save(f"{folder}/model.stategp")
    ...     again = sg.load(f"{folder}/model.stategp")
    >>> again.elbo == posterior.elbo
    True
    """
    target = Path(path)
    if not target.is_file():
        raise FileNotFoundError(f"there is no file {target}")
    try:
        with safetensors.safe_open(target, framework="numpy") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{target} is not a stategp file, or a damaged one: {error}") from None
    if "stategp" not in header:
        raise ValueError(f"{target} is a safetensors file, but not one of stategp")
    try:
        own = json.loads(header["stategp"])
        text, checksum = own["content"], own["sha256"]
        if _checksum(text, tensors) != checksum:
            raise ValueError("its checksum is not that of its content")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{target} is damaged: {error}") from None
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(
                f"it has format {content['format']}, and this version of stategp reads {_FORMAT}"
            )
        found = _Reader(_known(), tensors, function).build(content["tree"])
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{target} does not describe a posterior: {error!r}") from None
    except ValueError as error:
        raise ValueError(f"{target} cannot be read: {error}") from None
    if not isinstance(found, tuple(_answers)):
        raise ValueError(f"{target} holds a {type(found).__name__}, not a posterior or Forecaster")
    return found


def _checksum(text: str, tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tensor.shape}".encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()


def _describe(value: Any, tensors: dict[str, np.ndarray], where: str) -> Any:
    """A value as JSON; arrays go to the tensors."""

    def inside(part: Any, name: Any) -> Any:
        return _describe(part, tensors, f"{where}.{name}")

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        name = f"t{len(tensors)}"
        array = np.asarray(value)
        tensors[name] = np.ascontiguousarray(array).reshape(array.shape)
        return {"array": name, "host": not isinstance(value, jax.Array)}
    if isinstance(value, dict):
        return {"dict": [[inside(k, k), inside(v, k)] for k, v in value.items()]}
    own: Any = type(value)
    known: Any = _known().get(own.__name__)
    if known is own:
        names = own._fields if issubclass(own, tuple) else [f.name for f in dataclasses.fields(own)]
        if own is DeepGP and not isinstance(value.function, Stack):
            names = [name for name in names if name != "function"]
        return {"class": own.__name__, "fields": {n: inside(getattr(value, n), n) for n in names}}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [inside(part, i) for i, part in enumerate(value)]}
    raise ValueError(
        f"{where} is {value!r}, which a file cannot hold: models with functions of your own (a "
        "mean, a likelihood) cannot be saved"
    )


class _Reader:
    def __init__(self, known: dict[str, type], tensors: Any, function: Any):
        self.known, self.tensors, self.function = known, tensors, function

    def build(self, node: Any) -> Any:
        if not isinstance(node, dict):
            if node is None or isinstance(node, bool | int | float | str):
                return node
            raise ValueError(f"unexpected {type(node).__name__}")
        match node:
            case {"float": str(text)}:
                return float(text)
            case {"array": str(name), "host": bool(host)}:
                return self.tensors[name] if host else jnp.asarray(self.tensors[name])
            case {"dict": list(items)}:
                return {self.build(key): self.build(value) for key, value in items}
            case {"tuple": list(items)}:
                return tuple(self.build(item) for item in items)
            case {"list": list(items)}:
                return [self.build(item) for item in items]
            case {"class": str(name), "fields": dict(fields)}:
                return self._object(name, {key: self.build(value) for key, value in fields.items()})
        raise ValueError(f"unexpected entries {sorted(node)}")

    def _object(self, name: str, fields: dict[str, Any]) -> Any:
        if name not in self.known:
            raise ValueError(f"no class is called {name!r}")
        own: Any = self.known[name]
        if own is DeepGP and "function" not in fields:
            if self.function is None:
                raise ValueError(
                    "the function that composes a deep model is not in its file; give it: "
                    "sg.load(path, function=…)"
                )
            fields["function"] = self.function
        if issubclass(own, tuple):
            return own(**fields)
        expected = {field.name for field in dataclasses.fields(own)}
        if set(fields) != expected:
            odd = sorted(set(fields) ^ expected)
            raise ValueError(f"the fields of {name} do not match: {', '.join(odd)}")
        made = object.__new__(own)
        for key, value in fields.items():
            object.__setattr__(made, key, value)
        return made
