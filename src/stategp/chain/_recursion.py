"""Recursions along a chain: s_0 = start, s_{m+1} = step(s_m, e_m).

The elements e_m can be combined, e_m then e_{m+1} as one. That is what lets a recursion run faster
than one state after another: on devices with many cores as an associative scan, and on the CPU in
lanes, stretches of the chain that advance side by side. Everything lies along the last axis.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp

State = TypeVar("State")
Element = TypeVar("Element")
How = Literal["sequential", "lanes", "parallel"]

_SHORT = 1500  # chains that are not worth the longer compilation of lanes
_PER_LANE = 4.0  # lanes per square root of the length of the chain
_BLOCK = 8000  # states of few dimensions that fit into the cache
_FEW = 4  # such dimensions; for more, blocks are shorter and lanes do not pay


def recurse(
    step: Callable[[State, Element], State],
    combine: Callable[[Element, Element], Element],
    elements: Element,
    start: State,
    *,
    reverse: bool = False,
    how: How | None = None,
) -> State:
    """s_0 … s_{n−1}, what stands before each element (after it, if `reverse`)."""
    if reverse:
        flipped = jax.tree.map(lambda leaf: leaf[..., ::-1], elements)
        states = recurse(step, combine, flipped, start, how=how)
        return jax.tree.map(lambda leaf: leaf[..., ::-1], states)
    length = jax.tree.leaves(elements)[0].shape[-1]
    how = how or _fastest(length, jax.tree.leaves(elements)[0].shape[0])
    if how == "parallel":
        return _parallel(step, combine, elements, start)
    if how == "lanes":
        return _in_lanes(step, combine, elements, start, length)
    return _advance(step, elements, start)[1]


def blocks(length: int, dim: int) -> tuple[Callable[[Any], Any], Callable[..., Any]]:
    """To blocks of a chain that fit into the cache of a CPU, and back to the whole chain.

    A block that is not full ends in zeros: intervals in which nothing happens.
    """
    block = max(128, int(_BLOCK * min(1.0, (_FEW / dim) ** 3)))
    number = -(-length // block) if jax.default_backend() == "cpu" else 1
    size = -(-length // number)
    size += 8 * (number > 1 and size % 512 == 0)  # such strides fall on the same lines of a cache

    def cut(leaf: Any) -> Any:
        padding = [(0, number * size - length)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, padding).reshape(number, size, *leaf.shape[1:])

    def join(leaf: Any) -> Any:
        return leaf.reshape(number * size, *leaf.shape[2:])[:length]

    def to_blocks(tree: Any) -> Any:
        return jax.tree.map(cut, tree)

    def from_blocks(tree: Any) -> Any:
        return jax.tree.map(join, tree)

    return to_blocks, from_blocks


def over_blocks(step: Any, start: Any, inputs: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """`lax.scan` over blocks, without a loop if there is one only."""
    if jax.tree.leaves(inputs)[0].shape[0] > 1:
        return jax.lax.scan(step, start, inputs, reverse=reverse)
    last, outputs = step(start, jax.tree.map(lambda leaf: leaf[0], inputs))
    return last, jax.tree.map(lambda leaf: leaf[None], outputs)


def _fastest(length: int, dim: int) -> How:
    if jax.default_backend() != "cpu":
        return "parallel"
    return "sequential" if length <= _SHORT or dim > _FEW else "lanes"


def _advance(step: Any, elements: Any, start: Any) -> tuple[Any, Any]:
    """The last state, and all before it."""

    def carry_on(state: Any, element: Any) -> tuple[Any, Any]:
        return step(state, element), state

    along = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), elements)
    last, states = jax.lax.scan(carry_on, start, along)
    return last, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), states)


def _parallel(step: Any, combine: Any, elements: Any, start: Any) -> Any:
    # The scan wants the chain along the same axis of all arrays: lift them to one rank.
    leaves, structure = jax.tree.flatten(elements)
    shapes = [leaf.shape[:-1] for leaf in leaves]
    rank = max(leaf.ndim for leaf in leaves)

    def lift(whole: Any) -> list[Any]:
        return [
            leaf.reshape(*shape, *[1] * (rank - leaf.ndim), leaf.shape[-1])
            for leaf, shape in zip(jax.tree.leaves(whole), shapes, strict=True)
        ]

    def lower(lifted: list[Any]) -> Any:
        unlifted = [
            leaf.reshape(*shape, leaf.shape[-1]) for leaf, shape in zip(lifted, shapes, strict=True)
        ]
        return jax.tree.unflatten(structure, unlifted)

    def combine_lifted(first: list[Any], second: list[Any]) -> list[Any]:
        return lift(combine(lower(first), lower(second)))

    totals = lower(jax.lax.associative_scan(combine_lifted, lift(elements), axis=rank - 1))
    length = leaves[0].shape[-1]
    everywhere = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, length)), start
    )
    after = step(everywhere, totals)
    return jax.tree.map(
        lambda first, leaf: jnp.concatenate([first[..., :1], leaf[..., :-1]], axis=-1),
        everywhere,
        after,
    )


def _in_lanes(step: Any, combine: Any, elements: Any, start: Any, length: int) -> Any:
    """Combine each lane to one element, go from lane to lane, then go along all lanes at once."""
    lanes = int(_PER_LANE * length**0.5) // 16 * 16
    lanes = max(16, min(lanes, length // 8))
    depth = -(-length // lanes)

    def cut(leaf: Any) -> Any:
        """(…, length) → (depth, …, lanes). What is added at the end comes after all that counts."""
        padding = [(0, 0)] * (leaf.ndim - 1) + [(0, lanes * depth - length)]
        whole = jnp.pad(leaf, padding).reshape(*leaf.shape[:-1], lanes, depth)
        return jnp.moveaxis(whole, -1, 0)

    side_by_side = jax.tree.map(cut, elements)
    first = jax.tree.map(lambda leaf: leaf[0], side_by_side)
    rest = jax.tree.map(lambda leaf: leaf[1:], side_by_side)
    totals, _ = jax.lax.scan(lambda total, one: (combine(total, one), None), first, rest)
    _, starts = _advance(step, totals, start)
    _, states = jax.lax.scan(lambda at, one: (step(at, one), at), starts, side_by_side)

    def join(leaf: Any) -> Any:
        whole = jnp.moveaxis(leaf, 0, -1)
        return whole.reshape(*whole.shape[:-2], -1)[..., :length]

    return jax.tree.map(join, states)
