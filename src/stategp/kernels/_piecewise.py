"""Kernels that change at some inputs."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._linalg import symmetric, times, transpose
from stategp.kernels._base import Kernel, Matrix, State, Steps
from stategp.kernels._compose import Blockwise
from stategp.kernels._derivatives import derivative_rows
from stategp.kernels._located import Located, Matrices, places_of
from stategp.parameters import Parameter, Value


class Piecewise(Located, Blockwise):
    """A process whose kernel changes at some inputs: kernels[i] from changes[i − 1] on.

    There is one kernel more than there are changes. The process begins as the first kernel has it,
    long before the first change. With `continuous`, f and all derivatives that its state holds go
    on through a change, and only the law of what follows is another: after a change f takes about a
    lengthscale to reach its new variance. The kernels must then have states alike (as those of
    Matérn kernels of one order with other parameters, a `Matern32` and an `Oscillator`, or sums of
    such). Without it, f begins anew at every change, independent of what was before; the kernels
    need states of the same size.

    Changes are held fixed unless they are an `sg.parameter`. Learned changes (only with
    `continuous`) are moved from where they start, to a local optimum: start them near where they
    may be.

    >>> import stategp as sg
    >>> calm, wild = sg.kernels.Matern32(lengthscale=9.0), sg.kernels.Matern32(lengthscale=1.0)
    >>> kernel = sg.kernels.Piecewise([calm, wild], changes=[50.0])
    >>> kernel([0.0, 49.0], [1.0, 50.0]).round(3)
    Array([[0.984, 0.001],
           [0.001, 0.984]], dtype=float64)
    """

    kernels: tuple[Kernel, ...]
    changes: Parameter
    origin: Float[Array, ""]
    continuous: bool = eqx.field(static=True)

    def __init__(self, kernels: Sequence[Any], changes: Value, *, continuous: bool = True):
        self.kernels, self.continuous = tuple(kernels), bool(continuous)
        self.changes = places_of("changes", changes, learned=True)
        self.origin = jnp.zeros(())
        for kernel in self.kernels:
            if not isinstance(kernel, Kernel) or not kernel.homogeneous:
                raise ValueError(
                    f"the pieces are kernels that are the same everywhere, got {kernel!r}"
                )
        if len(self.kernels) != len(self.changes.value) + 1:
            raise ValueError(
                "there must be one kernel more than changes; got "
                f"{len(self.kernels)} kernels and {len(self.changes.value)} changes"
            )
        if self.changes.learned and not self.continuous:
            raise ValueError(
                "where f begins anew between two observations changes nothing, so that changes "
                "cannot be learned with continuous=False: fix them, and compare the bounds of fits"
            )
        _check_alike(self.kernels, self.continuous)

    def blocks(self) -> tuple[Kernel, ...]:
        changes = jnp.sort(self.changes.value) - self.origin
        pieces = zip(*(kernel.blocks() for kernel in self.kernels), strict=True)
        return tuple(PiecewiseBlock(block, changes, self.continuous) for block in pieces)

    def seen_from(self, origin: Any) -> "Piecewise":
        moved: Piecewise = eqx.tree_at(lambda k: k.origin, self, jnp.asarray(origin, dtype=float))
        return moved

    def parts(self) -> dict[str, Kernel]:
        return {f"piece{number}": kernel for number, kernel in enumerate(self.kernels, start=1)}

    def with_parts(self, parts: dict[str, Kernel]) -> "Piecewise":
        changed: Piecewise = eqx.tree_at(lambda k: k.kernels, self, tuple(parts.values()))
        return changed

    def __repr__(self) -> str:
        pieces = ", ".join(map(repr, self.kernels))
        ending = "" if self.continuous else ", continuous=False"
        return f"Piecewise([{pieces}], changes={self.changes!r}{ending})"


def _check_alike(kernels: tuple[Kernel, ...], continuous: bool) -> None:
    sizes = [[block.state_dim for block in kernel.blocks()] for kernel in kernels]
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "the pieces must have states of the same sizes, block by block; got "
            + ", ".join(f"{kernel!r}: {size}" for kernel, size in zip(kernels, sizes, strict=True))
        )
    for kernel in kernels if continuous else ():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(kernel)):
            return
        if any(block.smoothness < block.state_dim - 1 for block in kernel.blocks()):
            raise ValueError(
                f"{kernel!r} has a state that is more than f and its derivatives, so that it "
                "cannot go on through a change: use continuous=False"
            )


class PiecewiseBlock(Located):
    """One block of every piece, in the coordinates of the piece that it is in."""

    kernels: tuple[Kernel, ...]
    changes: Float[Array, " changes"]
    continuous: bool = eqx.field(static=True)

    @property
    def state_dim(self) -> int:
        return self.kernels[0].state_dim

    @property
    def deterministic(self) -> bool:
        return self.continuous and all(kernel.deterministic for kernel in self.kernels)

    def matrices_from(self, start: Steps, dt: Steps) -> Matrices:
        """The part of every step in each piece, one after another."""
        end, last = start + dt, len(self.kernels) - 1
        A, Q = self._inside(0, start, end)
        for number in range(1, last + 1):
            change = self.changes[number - 1]
            crossed = ((start < change) & (end >= change))[None, None]
            onward, fresh = (m.reshape(*m.shape, *[1] * dt.ndim) for m in self._across(number))
            A = jnp.where(crossed, times(onward, A), A)
            Q = jnp.where(crossed, _carried(onward, Q) + fresh, Q)
            A_next, Q_next = self._inside(number, start, end)
            A, Q = times(A_next, A), _carried(A_next, Q) + Q_next
        return A, symmetric(Q)

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        P = self.kernels[0].stationary_covariance()  # where the piece begins
        found = jnp.broadcast_to(P.reshape(*P.shape, *[1] * x.ndim), (*P.shape, *x.shape))
        for number in range(1, len(self.kernels)):
            change = self.changes[number - 1]
            if number > 1:
                A, Q = self.kernels[number - 1].step_matrices(change - self.changes[number - 2])
                P = A @ P @ A.T + Q
            onward, fresh = self._across(number)
            P = onward @ P @ onward.T + fresh
            A, Q = self.kernels[number].step_matrices(jnp.maximum(x - change, 0.0))
            here = _carried(A, P.reshape(*P.shape, *[1] * x.ndim)) + Q
            found = jnp.where((x >= change)[None, None], here, found)
        return found

    def _inside(self, number: int, start: Steps, end: Steps) -> Matrices:
        """The part of steps that lies in a piece."""
        low = self.changes[number - 1] if number > 0 else -jnp.inf
        high = self.changes[number] if number < len(self.changes) else jnp.inf
        length = jnp.clip(end, low, high) - jnp.clip(start, low, high)
        return self.kernels[number].step_matrices(length)

    def _across(self, number: int) -> tuple[Matrix, Matrix]:
        """What becomes of the state at a change, and what is added to it."""
        before, after = self.kernels[number - 1], self.kernels[number]
        nothing = jnp.zeros((self.state_dim, self.state_dim))
        if not self.continuous:
            return nothing, after.stationary_covariance()
        rows = [derivative_rows(kernel, self.state_dim - 1) for kernel in (after, before)]
        return _solve(*rows), nothing

    def emission(self) -> State:
        return self.kernels[0].emission()

    def emission_at(self, x: Steps) -> Float[Array, "dim *#steps"]:
        found = jnp.broadcast_to(self.kernels[0].emission_at(x), (self.state_dim, *x.shape))
        for change, kernel in zip(self.changes, self.kernels[1:], strict=True):
            found = jnp.where((x >= change)[None], kernel.emission_at(x), found)
        return found

    def feedback(self) -> Matrix:
        return self.kernels[0].feedback()

    def diffusion(self) -> Matrix:
        return self.kernels[0].diffusion()


def _carried(
    A: Float[Array, "dim dim *#steps"], P: Float[Array, "dim dim *#steps"]
) -> Float[Array, "dim dim *_"]:
    return times(A, times(P, transpose(A)))


def _solve(left: Matrix, right: Matrix) -> Matrix:
    """left⁻¹ right by elimination; of states of kernels, `left` is as good as triangular."""
    dim = len(left)
    for i in range(dim):
        pivot = left[i, i]
        left, right = left.at[i].divide(pivot), right.at[i].divide(pivot)
        others = (np.arange(dim) != i)[:, None] * left[:, i : i + 1]
        left, right = left - others * left[i : i + 1], right - others * right[i : i + 1]
    return right
