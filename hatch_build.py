"""Builds the compiled kernels with the package, if there is a C++ compiler; without one, goes on.

`STATEGP_NATIVE=off` does not try, `STATEGP_NATIVE=require` makes a failure an error (for wheels).
`CXX` names the compiler. Results are kept in build/native by a hash of everything they depend on.
"""

import contextlib
import filecmp
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

FOLDER = "src/stategp/_native"
COMMON = ["-std=c++17", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]
COMMON += ["-ffp-contract=fast", "-pthread"]


class KernelsHook(BuildHookInterface):
    """Adds src/stategp/_native/kernels.native.so to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wish = os.environ.get("STATEGP_NATIVE", "").lower()
        if self.target_name != "wheel" or wish in ("off", "0", "no", "false"):
            return
        name = f"kernels.native.{'dylib' if platform.system() == 'Darwin' else 'so'}"
        target = Path(self.root, FOLDER, name)
        try:
            built = build(Path(self.root))
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            target.unlink(missing_ok=True)
            if wish == "require":
                raise
            words = getattr(error, "stderr", "") or str(error)
            self.app.display_warning(f"stategp without compiled kernels (slower): {words[:2000]}")
            return
        put(built, target)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["artifacts"].append(f"{FOLDER}/{name}")


def platform_tag() -> str:
    """That of this machine; auditwheel and delocate make it a portable one."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def headers() -> Path:
    """XLA's, which jaxlib brings along."""
    found = importlib.util.find_spec("jaxlib")
    if found is None or found.origin is None:
        raise RuntimeError("jaxlib, which has XLA's headers, is not installed")
    return Path(found.origin).parent / "include"


def build(root: Path) -> Path:
    """The compiled library, from build/native if it is there."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    compiler = compiler or shutil.which("clang++")
    if not compiler:
        raise RuntimeError("no C++ compiler found")
    source = root / FOLDER
    machine = platform.machine().lower()
    special = ["-march=x86-64-v3"] if machine in ("x86_64", "amd64") else []
    kernels = [*COMMON, *special, "-isystem", str(headers())]
    digest = hashlib.sha256(f"{compiler} {COMMON} {special} {machine}".encode())
    digest.update((headers() / "xla/ffi/api/c_api.h").read_bytes())
    for file in sorted(source.glob("*pp")):
        digest.update(file.read_bytes())
    kept = root / "build" / "native" / digest.hexdigest()[:16]
    kept.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(kept.parent / "lock"), tempfile.TemporaryDirectory() as temporary:
        if kept.exists():
            return kept
        objects = []
        for name, flags in (("probe", COMMON), ("kernels", kernels)):
            objects.append(f"{temporary}/{name}.o")
            run(compiler, *flags, "-c", str(source / f"{name}.cpp"), "-o", objects[-1])
        library = f"{temporary}/library"
        run(compiler, "-shared", "-pthread", *objects, "-o", library)
        aside = beside(kept)
        shutil.move(library, aside)
        aside.replace(kept)
    return kept


@contextlib.contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Others who build the same wait, and find it built."""
    with file.open("w") as lock:
        if fcntl:
            with contextlib.suppress(OSError):  # file systems that know no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def put(built: Path, target: Path) -> None:
    """A copy, at once or not at all: others may be reading the one that is there."""
    if target.exists() and filecmp.cmp(built, target, shallow=False):
        return
    copy = beside(built)
    shutil.copyfile(built, copy)
    copy.replace(target)


def beside(file: Path) -> Path:
    """A name of this process alone, in the same folder."""
    return file.with_name(f"{file.name}-{os.getpid()}")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
