"""Values that XLA computes once.

XLA for CPUs computes a cheap value again in every fused loop that reads it, and drops
`jax.lax.optimization_barrier` before it fuses. Where a long chain of cheap operations has many
readers (the entries of small matrices and their derivatives), the program becomes many times
longer, and slower to compile. A call of a kernel that does nothing is a barrier that holds.
Programs for GPUs are faster without any.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from stategp._native._kernels import problem

_hold = Primitive("stategp_hold")
_hold.multiple_results = True
_hold.def_impl(lambda *values: list(values))
_hold.def_abstract_eval(lambda *shapes: list(shapes))


def hold(values: Any) -> Any:
    """The same values, on a CPU not to be computed by each of their readers."""
    leaves, structure = jax.tree.flatten(values)
    return jax.tree.unflatten(structure, _hold.bind(*leaves))


def _jvp(values: Sequence[Any], tangents: Sequence[Any]) -> Any:
    moves = [ad.instantiate_zeros(tangent) for tangent in tangents]
    return _hold.bind(*values), _hold.bind(*moves)


def _transpose(cotangents: Sequence[Any], *_: Any) -> Any:
    return _hold.bind(*(ad.instantiate_zeros(each) for each in cotangents))


def _batch(values: Sequence[Any], axes: Sequence[Any]) -> Any:
    return _hold.bind(*values), axes


def _lower(context: Any, *values: Any) -> Any:
    if problem():
        return _barrier(context, *values)
    aliases = {number: number for number in range(len(values))}
    return jax.ffi.ffi_lowering("stategp_hold", operand_output_aliases=aliases)(context, *values)


_barrier = mlir.lower_fun(lambda *v: jax.lax.optimization_barrier(list(v)), multiple_results=True)
ad.primitive_jvps[_hold] = _jvp
ad.primitive_transposes[_hold] = _transpose
batching.primitive_batchers[_hold] = _batch
mlir.register_lowering(_hold, _lower, platform="cpu")
mlir.register_lowering(_hold, mlir.lower_fun(lambda *values: list(values), multiple_results=True))
