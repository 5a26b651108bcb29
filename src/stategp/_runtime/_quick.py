"""Programs over few numbers, which run in an instant, compiled in less than half the time.

On a CPU, XLA's newer generators of code and LLVM's later passes make loops faster that pass over
millions of numbers, and take most of the time of compilation. A program over some thousand numbers
is waited for only while it is compiled. (What takes long in it are the recursions along a chain,
which are compiled kernels already.)
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any

import jax

from stategp._runtime._shapes import FEW

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # older versions of JAX
    from jax.core import get_opaque_trace_state

_SHORT = 2 * FEW  # rows, with some at the ends: up to here arrays have few sizes
_OPTIONS: dict[str, Any] = {
    "xla_backend_optimization_level": 1,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}
_TRACING_NOTHING = get_opaque_trace_state(convention="nnx")


def quick_jit(
    *,
    rows: str | Iterable[str],
    static_argnames: str | Iterable[str] = (),
    unless: Callable[..., bool] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Decorates functions that often see few numbers: `jax.jit`, compiled in less time.

    `rows` names the arguments whose arrays may be long. With one of more than 32,768 rows, or where
    `unless` says of the arguments that much is to be done with each row, and inside of other
    programs, it is `jax.jit` as usual.

    `function.beside(*rest)` is a function of the first argument alone, for many calls with the same
    others: a model is many small pieces, and they are collected once.
    """
    names = [rows] if isinstance(rows, str) else [*rows]

    def decorate(function: Callable[..., Any]) -> Any:
        thorough = jax.jit(function, static_argnames=static_argnames)
        order = list(inspect.signature(function).parameters)
        places = [(name, order.index(name)) for name in names]

        @functools.cache
        def quick() -> Any:
            options = _known_options()
            return jax.jit(function, static_argnames=static_argnames, compiler_options=options)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # JAX has options for whole programs only.
            alone = get_opaque_trace_state(convention="nnx") == _TRACING_NOTHING
            long = (kwargs[name] if name in kwargs else args[place] for name, place in places)
            if alone and _few(long) and not (unless is not None and unless(*args, **kwargs)):
                return quick()(*args, **kwargs)
            return thorough(*args, **kwargs)

        def in_pieces(first: Any, pieces: list[Any], structure: _Structure) -> Any:
            return function(first, *jax.tree.unflatten(structure.tree, pieces))

        @functools.cache
        def program(few: bool) -> Any:
            options = _known_options() if few else None
            return jax.jit(in_pieces, static_argnames="structure", compiler_options=options)

        def beside(*rest: Any) -> Callable[[Any], Any]:
            pieces, tree = jax.tree.flatten(rest)
            structure = _shared(tree)
            few = unless is None and _few(rest[place - 1] for _, place in places if place > 0)
            leads = any(place == 0 for _, place in places)

            def of_first(first: Any) -> Any:
                run = program(few and (not leads or _few([first])))
                return run(first, pieces, structure=structure)

            return of_first

        call.beside = beside  # type: ignore[attr-defined]
        return call

    return decorate


class _Structure:
    """How pieces belong together, compared and looked up as the object that it is."""

    def __init__(self, tree: Any):
        self.tree = tree


@functools.lru_cache(maxsize=1000)
def _shared(tree: Any) -> _Structure:
    """The same object for the same structure: programs are known by it."""
    return _Structure(tree)


def _few(arrays: Iterable[Any]) -> bool:
    return all(
        leaf.shape[0] <= _SHORT
        for tree in arrays
        for leaf in jax.tree.leaves(tree)
        if getattr(leaf, "shape", ())
    )


@functools.cache
def _known_options() -> dict[str, Any] | None:
    """Those that this version of XLA has and that nobody has chosen in XLA_FLAGS; on a CPU."""
    if jax.default_backend() != "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in _OPTIONS.items() if name not in flags}
    if _known(options):  # one program that tells, in most cases
        return options
    return {name: value for name, value in options.items() if _known({name: value})}


def _known(options: dict[str, Any]) -> bool:
    """JAX says what it knows only by refusing to compile what it does not."""
    try:
        jax.jit(lambda: 0.0, compiler_options=options)()
    except jax.errors.JaxRuntimeError:
        return False
    return True
