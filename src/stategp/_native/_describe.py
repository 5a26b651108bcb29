"""What stategp runs on, for users who wonder and for reports of faults."""

import dataclasses
import os
import platform

import jax

from stategp._native._kernels import problem as kernels_problem


@dataclasses.dataclass(frozen=True)
class Runtime:
    """What `sg.describe_runtime()` found."""

    jax: str  # version
    device: str
    kernels: str  # whether the compiled kernels are in use, and if not, why
    cache: str  # the folder of compiled programs
    machine: str

    def __str__(self) -> str:
        fields = dataclasses.asdict(self).items()
        return "\n".join(f"{name + ':':9s}{value}" for name, value in fields)


def describe_runtime() -> Runtime:
    """Which device and which kernels stategp uses, and where it keeps compiled programs.

    On a CPU the recursions along a chain are compiled kernels, if there was a C++ compiler when
    stategp was installed; otherwise JAX compiles them, which takes longer at first and runs slower.

    >>> import stategp as sg
    >>> print(sg.describe_runtime())  # doctest: +SKIP
    jax:     0.10.2
    device:  cpu
    kernels: compiled
    cache:   /home/me/.cache/stategp
    machine: x86_64, 8 cores, Python 3.12.1
    """
    problem = kernels_problem()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return Runtime(
        jax=jax.__version__,
        device=jax.devices()[0].device_kind,
        kernels=f"as JAX compiles them ({problem})" if problem else "compiled",
        cache=jax.config.values.get("jax_compilation_cache_dir") or "none",
        machine=machine,
    )
