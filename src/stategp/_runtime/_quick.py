"""Programs over few numbers, which run in an instant, compiled in less than half the time.

On a CPU, XLA's newer generators of code and LLVM's later passes make loops faster that pass over
millions of numbers, and take most of the time of compilation. A program over some thousand numbers
is waited for only while it is compiled. (What takes long in it are the recursions along a chain,
which are compiled kernels already.)
"""

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.extend.core import unsafe_am_i_under_a_jit_DO_NOT_USE as is_inside_a_program

from stategp._runtime._shapes import FEW

_SHORT = 2 * FEW  # rows, with some at the ends: up to here arrays have few sizes
_OPTIONS: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}


def quick_jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Iterable[str] = (),
    unless: Callable[..., bool] | None = None,
) -> Any:
    """`jax.jit` for functions that often see few numbers, also as a decorator.

    With an array of more than 32,768 rows, or where `unless` says of the arguments that much is to
    be done with each, all optimisations are made.
    """
    if function is None:
        return functools.partial(quick_jit, static_argnames=static_argnames, unless=unless)
    thorough = jax.jit(function, static_argnames=static_argnames)
    quick = functools.cache(
        lambda: jax.jit(
            function, static_argnames=static_argnames, compiler_options=_known_options()
        )
    )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _few((args, kwargs)) and not (unless is not None and unless(*args, **kwargs)):
            return quick()(*args, **kwargs)
        return thorough(*args, **kwargs)

    return call


def _few(arguments: Any) -> bool:
    """Whether no array is long, and nothing is traced: JAX has options for whole programs only."""
    if is_inside_a_program():
        return False
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, jax.core.Tracer):
            return False
        shape = getattr(leaf, "shape", ())
        if shape and shape[0] > _SHORT:
            return False
    return True


@functools.cache
def _known_options() -> dict[str, Any] | None:
    """Those that this version of XLA has and that nobody has chosen in XLA_FLAGS; on a CPU."""
    if jax.default_backend() != "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in _OPTIONS.items() if name not in flags and _known(name)}


def _known(name: str) -> bool:
    """JAX says what it knows only by refusing to compile what it does not."""
    try:
        jax.jit(lambda: 0.0, compiler_options={name: _OPTIONS[name]})()
    except jax.errors.JaxRuntimeError:
        return False
    return True
