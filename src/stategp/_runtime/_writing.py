"""Files that are there as a whole or not at all.

A file is written beside its place and moved there when it is complete: whoever is interrupted, or
killed, leaves what was there before. A killed writer also leaves the part it had written. It is
removed by the next one who writes to the same place, and told from the part of a writer at work by
a lock, which ends with the process that holds it.
"""

import contextlib
import hashlib
import importlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

# Not on Windows, where nobody can remove a file that is open.
_LOCKS: Any = importlib.import_module("fcntl") if os.name == "posix" else None
_ENDING = ".partial"


@contextlib.contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """A file to write to (bytes), which takes its place at the end if there was no exception.

    A new file has the mode that the umask gives, one that is replaced keeps its mode. A symbolic
    link stays: what it points to is replaced. Devices and pipes are written to as they are.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/letter") as file:
    ...         _ = file.write(b"dear reader")
    ...     pathlib.Path(folder, "letter").read_text()
    'dear reader'
    """
    target = _target(Path(path))
    before = target.stat() if target.exists() else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with target.open("wb") as file:
            yield file
        return
    stem = _stem(target)
    _remove_leftovers(target.parent, stem)
    partial, handle = _new_part(target.parent, stem, before)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if _LOCKS is not None:  # before the lock ends
                partial.replace(target)
        if _LOCKS is None:
            partial.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _target(path: Path) -> Path:
    """The file to be replaced: where links end."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise OSError(f"cannot write {path}: it is a symbolic link that leads back to itself")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {target.parent} does not exist")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"cannot write {path}: it is write-protected")
    return target


def _stem(target: Path) -> str:
    """How the names of all parts of one target begin: of one length, whatever its name."""
    return f".stategp-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _new_part(folder: Path, stem: str, before: os.stat_result | None) -> tuple[Path, int]:
    """A new file beside the target, locked, with the mode that the target is to have."""
    while True:
        partial = folder / f"{stem}{secrets.token_hex(8)}{_ENDING}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
        handle = os.open(partial, flags, 0o666 if before is None else 0o600)
        try:
            # Another writer may have taken it for a leftover before it was locked.
            if _locked(handle) is False or not partial.exists():
                os.close(handle)
                continue
            if before is not None:
                _take_over(handle, before)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(handle)
                partial.unlink(missing_ok=True)
            raise
        return partial, handle


def _take_over(handle: int, before: os.stat_result) -> None:
    """Owner (where that is allowed) and mode of the file that was there."""
    if hasattr(os, "fchown") and (before.st_uid, before.st_gid) != _owner(handle):
        with contextlib.suppress(OSError):
            os.fchown(handle, before.st_uid, before.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, stat.S_IMODE(before.st_mode))


def _owner(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_uid, status.st_gid


def _locked(handle: int) -> bool | None:
    """Whether the file is now locked by this process; None where there are no locks."""
    if _LOCKS is None:
        return None
    try:
        _LOCKS.flock(handle, _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _remove_leftovers(folder: Path, stem: str) -> None:
    """Remove parts that nobody is writing any more."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(stem)]  # noqa: PTH208
    except OSError:  # a folder that may be written to, but not looked into
        return
    for partial in (folder / name for name in names if name.endswith(_ENDING)):
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            if _LOCKS is None:
                partial.unlink()
                continue
            handle = os.open(partial, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _locked(handle):
                    partial.unlink()
            finally:
                os.close(handle)
