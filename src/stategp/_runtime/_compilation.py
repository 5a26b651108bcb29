"""Compiled programs that outlive the process.

Compiling is most of what a first fit waits for. JAX can keep what it compiled on disk; unless the
user has told it where (or `STATEGP_CACHE=off`), it keeps it in the user's cache folder.

JAX's own limit on the size of that folder, `jax_compilation_cache_max_size`, needs the package
filelock, makes every process wait for one lock, and fails on entries that were written without
it. So the oldest entries are removed here, once a process, and nothing but JAX's entries.
"""

import contextlib
import os
import re
import stat
from pathlib import Path

import jax

_WORTH_KEEPING = 0.1  # seconds of compilation
_MOST = 2**30  # bytes
# JAX's name for an entry: that of the program and a SHA-256, and when it was last used.
_ENTRY = re.compile(r".+-[0-9a-f]{64}-(cache|atime)")


def keep_compiled_programs() -> Path | None:
    """Turn on JAX's compilation cache, if nobody else has; where it is, if that was done here."""
    wish = os.environ.get("STATEGP_CACHE", "")
    if wish.lower() in ("off", "0", "no", "false") or jax.config.values.get(
        "jax_compilation_cache_dir"
    ):
        return None
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(wish) if wish else Path(caches) / "stategp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or none that can be written to: compile anew
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)
    with contextlib.suppress(OSError):  # a folder that cannot be read is no reason not to start
        _forget_the_oldest(folder, _MOST)
    return folder


def _forget_the_oldest(folder: Path, most: int) -> None:
    """Keep the folder from growing for ever: over the limit, the older half of the entries goes.

    Files of other kinds neither count nor are touched.
    """
    files = []
    for path in folder.iterdir():
        if not _ENTRY.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):  # another process may have removed it
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    if total <= most:
        return
    for _, size, path in sorted(files, key=lambda file: file[0]):
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
        if total <= most // 2:
            return
