"""`checkpoint=`, `every=` and `resume=` of `fit`, checked; and what tells one fit from another."""

import dataclasses
import datetime
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np

from stategp._arguments import positive_number
from stategp._durations import days
from stategp._inference import Keeper
from stategp._runtime import in_all, is_first

_SECONDS = 86_400.0  # of a day
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function, another in each process


@dataclasses.dataclass(frozen=True)
class Checkpoints:
    """What the user asked for."""

    path: Path
    every: float  # seconds
    resume: bool

    def check(self) -> None:
        """Refuse what is no file, and one that is not to be gone on from."""
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"checkpoint must be the name of a file, and {self.path} is none")
        if self.path.exists() and not self.resume:
            raise FileExistsError(
                f"there is a checkpoint in {self.path} already: give resume=True to go on from it, "
                "another name, or remove the file"
            )

    def check_together(self) -> None:
        """The same where several processes do it: the file of the first one counts."""
        in_all(lambda: self.check() if is_first() else None, "begin with the checkpoint")

    def keeper(self) -> Keeper:
        """What remembers searches there."""
        return Keeper(self.path, self.every)


def as_checkpoints(checkpoint: Any, every: Any, resume: Any) -> Checkpoints | None:
    """The arguments, checked before anything else is done; the file is looked at later."""
    if not isinstance(resume, bool | np.bool_):
        raise ValueError(f"resume must be True or False, got {resume!r}")
    seconds = _seconds(every)
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs the file to go on from: give checkpoint=…")
        return None
    if not isinstance(checkpoint, str | os.PathLike):
        raise ValueError(f"checkpoint must be the name of a file, got {checkpoint!r}")
    return Checkpoints(Path(os.fsdecode(checkpoint)), seconds, bool(resume))


def _seconds(every: Any) -> float:
    if isinstance(every, datetime.timedelta | np.timedelta64):
        every = np.timedelta64(every) / np.timedelta64(1, "s")
    if isinstance(every, str):
        return days(every) * _SECONDS
    try:
        return positive_number("every", every)
    except ValueError as error:
        raise ValueError(f"{error} (seconds), or give a duration such as '5min'") from None


def fingerprint(part: Any) -> str:
    """Equal for equal numbers in an equal structure; functions count by their names."""
    leaves, structure = jax.tree.flatten(part)
    digest = hashlib.sha256(_ADDRESS.sub("", str(structure)).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf) if hasattr(leaf, "__array__") else None
        if array is not None and array.dtype.kind != "O":
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        else:
            digest.update(_ADDRESS.sub("", repr(leaf)).encode())
    return digest.hexdigest()
