"""The evidence of scalar observations by the compiled kernel of `_native/evidence.hpp`.

It takes the steps of a chain block by block. A block is given as matrices, or, if the kernel has a
closed form (`Kernel.closed_form`), by the lengths of the steps and a few numbers: A and Q are then
computed where they are used, and the derivatives in those numbers are summed up on the way back.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp import _native
from stategp.chain._filter import filtered_evidence
from stategp.chain._sites import Transitions, step_transitions
from stategp.kernels import ClosedForm, Kernel, Sum, group_blocks, kernel_in_closed_form

_GIVEN = -1


class BlockSteps(NamedTuple):
    """The steps of a chain; the first leads from nothing to a first state."""

    A: Float[Array, "steps entries"]  # of the blocks that are given, row by row
    Q: Float[Array, "steps entries"]
    lengths: Float[Array, " steps"]
    forms: Float[Array, "forms 3"]  # variance, rate and frequency of the others
    emission: Float[Array, " dim"]


class Layout(NamedTuple):
    """The blocks in order: sizes, and kinds, those of their forms if they are closed."""

    sizes: tuple[int, ...]
    kinds: tuple[int, ...]

    @property
    def closed(self) -> bool:
        """Whether all blocks have closed forms: f is then their sum, whatever the parameters."""
        return _GIVEN not in self.kinds


def given_steps(
    steps: Transitions, emission: Float[Array, " dim"], sizes: tuple[int, ...]
) -> tuple[BlockSteps, Layout]:
    """Blocks of these sizes from the diagonals of matrices."""
    ends = np.cumsum(sizes)
    places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    A, Q = (
        jnp.concatenate([leaf[:, at, at].reshape(len(leaf), -1) for at in places], axis=1)
        for leaf in (steps.A, steps.Q)
    )
    nothing = jnp.zeros(len(steps.A)), jnp.zeros((0, 3))
    return BlockSteps(A, Q, *nothing, emission), Layout(sizes, (_GIVEN,) * len(sizes))


def kernel_steps(kernel: Kernel, lengths: Float[Array, " steps"]) -> tuple[BlockSteps, Layout]:
    """The blocks of a kernel, in closed form where there is one."""
    blocks = kernel.blocks()
    forms = [block.closed_form() for block in blocks]
    given = [block for block, form in zip(blocks, forms, strict=True) if form is None]
    kinds = [_GIVEN if form is None else form.kind for form in forms]
    layout = Layout(tuple(block.state_dim for block in blocks), tuple(kinds))
    rows = [form.parameters() for form in forms if form is not None]
    whole = jnp.concatenate([jnp.zeros(1), lengths])
    A, Q = _entries(given, lengths)
    emissions = [
        block.emission() if form is None else np.eye(1, block.state_dim)[0]
        for block, form in zip(blocks, forms, strict=True)
    ]
    return BlockSteps(
        A, Q, whole, jnp.stack(rows) if rows else jnp.zeros((0, 3)),
        jnp.asarray(np.concatenate(emissions)) if layout.closed else jnp.concatenate(emissions),
    ), layout  # fmt: skip


def _entries(blocks: list[Kernel], lengths: Float[Array, " steps"]) -> tuple[Array, Array]:
    """A and Q of blocks at steps of these lengths, row by row, block after block."""
    if not blocks:
        return (jnp.zeros((len(lengths) + 1, 0)),) * 2
    parts = [
        jax.vmap(lambda block: step_transitions(block, lengths), out_axes=1)(group)
        for group in group_blocks(Sum(*blocks))
    ]
    rows = [[leaf.reshape(len(leaf), -1) for leaf in (part.A, part.Q)] for part in parts]
    return (
        jnp.concatenate([A for A, _ in rows], axis=1),
        jnp.concatenate([Q for _, Q in rows], axis=1),
    )


@partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def compiled_evidence(
    steps: BlockSteps, value: Any, precision: Any, which: Any, layout: Layout, steady: bool
) -> Any:
    """The log evidence and its possible rounding error."""
    inputs = _inputs(steps, value, precision, which)
    return tuple(_native.call("evidence", [(), ()], *inputs, **_attributes(layout, steady)))


@compiled_evidence.defjvp
def _jvp(layout: Layout, steady: bool, primals: Any, tangents: Any) -> Any:
    log_density, rounding, *slopes = _slopes(*primals, layout, steady)
    steps, value, precision, _ = tangents
    moved = steps._replace(emission=steps.emission[:0]) if layout.closed else steps
    changes = [
        jnp.sum(slope * change)
        for slope, change in zip(slopes, [*moved, value, precision], strict=True)
    ]
    return (log_density, rounding), (sum(changes, start=jnp.zeros(())), jnp.zeros(()))


@partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _slopes(
    steps: BlockSteps, value: Any, precision: Any, which: Any, layout: Layout, steady: bool
) -> Any:
    """The evidence, its rounding error, and its derivatives in all numbers it depends on."""
    emission = (0,) if layout.closed else steps.emission.shape
    shapes = [*(leaf.shape for leaf in steps[:-1]), emission, value.shape, precision.shape]
    inputs = _inputs(steps, value, precision, which)
    attributes = _attributes(layout, steady)
    return tuple(_native.call("evidence_gradient", [(), (), *shapes], *inputs, **attributes))


@_slopes.defjvp
def _slopes_jvp(layout: Layout, steady: bool, primals: Any, tangents: Any) -> Any:
    """Second derivatives are those of the twin."""
    which = primals[3]

    def evidence(steps: BlockSteps, value: Any, precision: Any) -> Any:
        matrices = _matrices(steps, layout)
        chain = Transitions(matrices.A[which], matrices.Q[which])
        return filtered_evidence(chain, steps.emission, value, precision)

    def twin(*inputs: Any) -> Any:
        differentiated = jax.value_and_grad(evidence, argnums=(0, 1, 2), has_aux=True)
        (log_density, rounding), (steps, *rest) = differentiated(*inputs)
        moved = steps._replace(emission=steps.emission[:0]) if layout.closed else steps
        return (log_density, jax.lax.stop_gradient(rounding), *moved, *rest)

    return jax.jvp(twin, primals[:3], tangents[:3])


def _inputs(steps: BlockSteps, value: Any, precision: Any, which: Any) -> tuple[Any, ...]:
    return (*steps[:-1], which, steps.emission, value, precision)


def _attributes(layout: Layout, steady: bool) -> dict[str, Any]:
    numbers = {name: np.asarray(part, np.int64) for name, part in layout._asdict().items()}
    return numbers | {"steady": steady}


def _matrices(steps: BlockSteps, layout: Layout) -> Transitions:
    """The same steps as matrices, as JAX computes them."""
    count, dim = len(steps.A), sum(layout.sizes)
    whole = Transitions(jnp.zeros((count, dim, dim)), jnp.zeros((count, dim, dim)))
    row, entry, form = 0, 0, 0
    for size, kind in zip(layout.sizes, layout.kinds, strict=True):
        if kind == _GIVEN:
            part = slice(entry, entry + size**2)
            block = Transitions(
                steps.A[:, part].reshape(count, size, size),
                steps.Q[:, part].reshape(count, size, size),
            )
            entry += size**2
        else:
            closed = ClosedForm.of_kind(kind, steps.forms[form])
            block = step_transitions(kernel_in_closed_form(closed), steps.lengths[1:])
            form += 1
        at = slice(row, row + size)
        whole = jax.tree.map(lambda all, one, at=at: all.at[:, at, at].set(one), whole, block)
        row += size
    return whole
