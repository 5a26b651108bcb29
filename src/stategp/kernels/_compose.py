"""How kernels add and multiply."""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from stategp.kernels._base import ClosedForm, Kernel, Matrix, Scalar, State, Steps
from stategp.kernels._deterministic import Constant, Cosine
from stategp.kernels._matern import Matern12, Matern32, Matern52, Matern72
from stategp.kernels._oscillator import Oscillator
from stategp.parameters import derived, fixed


def outlines_of(kernel: Kernel) -> tuple[Kernel, ...]:
    """The blocks of a kernel with shapes in the place of numbers: nothing is computed for them."""
    leaves, structure = jax.tree.flatten(kernel)
    shapes = tuple(jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    return _outlines(structure, shapes)


@functools.lru_cache(maxsize=1000)
def _outlines(structure: Any, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> tuple[Kernel, ...]:
    blocks: tuple[Kernel, ...] = jax.eval_shape(
        lambda kernel: kernel.blocks(), structure.unflatten(shapes)
    )
    return blocks


class Blockwise(Kernel):
    """A kernel whose state is a stack of independent parts: every matrix is block-diagonal."""

    @property
    def state_dim(self) -> int:
        return sum(block.state_dim for block in self.blocks())

    def transition(self, dt: Scalar) -> Matrix:
        return self._diagonal(lambda block: block.transition(dt))

    def process_noise(self, dt: Scalar) -> Matrix:
        return self._diagonal(lambda block: block.process_noise(dt))

    def stationary_covariance(self) -> Matrix:
        return self._diagonal(lambda block: block.stationary_covariance())

    def emission(self) -> State:
        return jnp.concatenate([block.emission() for block in self.blocks()])

    def feedback(self) -> Matrix:
        return self._diagonal(lambda block: block.feedback())

    def diffusion(self) -> Matrix:
        return self._diagonal(lambda block: block.diffusion())

    def _diagonal(self, matrix_of: Callable[[Kernel], Matrix]) -> Matrix:
        """One matrix per block, on the diagonal."""
        groups = [jax.vmap(matrix_of)(group) for group in group_blocks(self)]
        return block_diag(*(matrix for group in groups for matrix in group))

    @property
    def deterministic(self) -> bool:
        return all(block.deterministic for block in self.blocks())

    @property
    def steep(self) -> bool:
        return any(block.steep for block in outlines_of(self))

    def matrices_from(
        self, start: Steps, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        if self.homogeneous:
            return self.step_matrices(dt)
        pairs = [block.matrices_from(start, dt) for block in self.blocks()]
        A, Q = (_on_diagonal(list(matrices)) for matrices in zip(*pairs, strict=True))
        return A, Q

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        if self.homogeneous:
            return super().covariance_at(x)
        parts = [block.covariance_at(x) for block in self.blocks()]
        return _on_diagonal([jnp.broadcast_to(p, (*p.shape[:2], *x.shape)) for p in parts])

    def emission_at(self, x: Steps) -> Float[Array, "dim *#steps"]:
        if self.homogeneous:
            return super().emission_at(x)
        parts = [block.emission_at(x) for block in self.blocks()]
        return jnp.concatenate([jnp.broadcast_to(h, (len(h), *x.shape)) for h in parts])

    @abc.abstractmethod
    def blocks(self) -> tuple[Kernel, ...]: ...


def _on_diagonal(blocks: list[Float[Array, "_ _ *steps"]]) -> Float[Array, "dim dim *steps"]:
    """Blocks along the diagonal of matrices, the first two axes of each."""
    dims = [len(block) for block in blocks]
    whole = jnp.zeros((sum(dims), sum(dims), *blocks[0].shape[2:]))
    for end, dim, block in zip(np.cumsum(dims), dims, blocks, strict=True):
        whole = whole.at[end - dim : end, end - dim : end].set(block)
    return whole


def group_blocks(kernel: Kernel) -> list[Kernel]:
    """The kernel's blocks, with runs of the same kind stacked along a leading axis.

    What is computed for a run is then one `vmap`, not as many copies of the same program.
    """
    groups: list[list[Kernel]] = []
    for block in kernel.blocks():
        if groups and _same_kind(groups[-1][0], block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return [jax.tree.map(lambda *leaves: jnp.stack(leaves), *group) for group in groups]


def _same_kind(first: Kernel, second: Kernel) -> bool:
    kinds: list[Any] = [jax.tree.structure(first), jax.tree.structure(second)]
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(block)] for block in (first, second)]
    return bool(kinds[0] == kinds[1]) and shapes[0] == shapes[1]


class Sum(Blockwise):
    """A sum of independent processes: ``a + b``, or ``Sum(trend=a, daily=b)`` with names.

    >>> import stategp as sg
    >>> sg.kernels.Matern32() + sg.kernels.Constant()
    Matern32(variance=1, lengthscale=1) + Constant(variance=1)
    """

    kernels: tuple[Kernel, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, *kernels: Any, **named: Any):
        summands: list[tuple[str, Kernel]] = []
        for kernel in kernels:
            if isinstance(kernel, Sum):
                summands.extend(zip(kernel.names, kernel.kernels, strict=True))
            else:
                summands.append((type(kernel).__name__.lower(), kernel))
        summands.extend(named.items())
        if not summands:
            raise ValueError("a sum needs at least one kernel")
        _check_kernels(*(kernel for _, kernel in summands))
        self.kernels = tuple(kernel for _, kernel in summands)
        self.names = _distinct([name for name, _ in summands])

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return sum((k.covariance(lag) for k in self.kernels), start=jnp.zeros_like(lag))

    @property
    def state_dim(self) -> int:
        return sum(kernel.state_dim for kernel in self.kernels)

    def blocks(self) -> tuple[Kernel, ...]:
        return tuple(block for kernel in self.kernels for block in kernel.blocks())

    def refined(self) -> "Sum":
        return self.with_parts({name: part.refined() for name, part in self.parts().items()})

    @property
    def homogeneous(self) -> bool:
        return all(kernel.homogeneous for kernel in self.kernels)

    @property
    def located(self) -> bool:
        return any(kernel.located for kernel in self.kernels)

    def seen_from(self, origin: Any) -> "Sum":
        return self.with_parts({name: k.seen_from(origin) for name, k in self.parts().items()})

    def parts(self) -> dict[str, Kernel]:
        return dict(zip(self.names, self.kernels, strict=True))

    def with_parts(self, parts: dict[str, Kernel]) -> "Sum":
        return Sum(**parts)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))


def _check_kernels(*parts: Any) -> None:
    for part in parts:
        if not isinstance(part, Kernel):
            raise ValueError(f"sums and products are made of kernels, got {part!r}")


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Number the names that occur more than once: matern32, matern32_2, …"""
    seen: dict[str, int] = {}
    distinct: list[str] = []
    for name in names:
        stem = name.rsplit("_", 1)[0] if name.rsplit("_", 1)[-1].isdigit() else name
        name = name if name not in distinct else stem
        while name in distinct:
            seen[stem] = seen.get(stem, 1) + 1
            name = f"{stem}_{seen[stem]}"
        distinct.append(name)
    return tuple(distinct)


class Product(Blockwise):
    """The product of two kernels: the state is the Kronecker product of the two states.

    >>> import stategp as sg
    >>> 2.0 * sg.kernels.Matern32() * sg.kernels.Cosine(period=7.0)
    2 * Matern32(variance=1, lengthscale=1) * Cosine(variance=1, period=7)
    """

    left: Kernel
    right: Kernel

    def __check_init__(self) -> None:
        _check_kernels(self.left, self.right)
        for kernel, other in ((self.left, self.right), (self.right, self.left)):
            if kernel.located or not (kernel.homogeneous or other.deterministic):
                raise ValueError(
                    f"{kernel!r} is not the same at all inputs, and cannot be multiplied by "
                    f"{other!r}"
                    + (
                        ": multiply its parts"
                        if kernel.located
                        else ", only by one that repeats "
                        "exactly (Cosine, Periodic, Constant, a number)"
                    )
                )

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.left.covariance(lag) * self.right.covariance(lag)

    def blocks(self) -> tuple[Kernel, ...]:
        return tuple(Kronecker(a, b) for a in self.left.blocks() for b in self.right.blocks())

    @property
    def homogeneous(self) -> bool:
        return self.left.homogeneous and self.right.homogeneous

    def refined(self) -> "Product":
        return Product(self.left.refined(), self.right.refined())

    def parts(self) -> dict[str, Kernel]:
        factors = (self.left, self.right)
        names = _distinct([type(factor).__name__.lower() for factor in factors])
        return dict(zip(names, factors, strict=True))

    def with_parts(self, parts: dict[str, Kernel]) -> "Product":
        return Product(*parts.values())

    def __repr__(self) -> str:
        return " * ".join(_factor_repr(factor) for factor in (self.left, self.right))


def _factor_repr(kernel: Kernel) -> str:
    if isinstance(kernel, Constant) and not kernel.variance.learned:
        return repr(kernel.variance).removeprefix("fixed(").removesuffix(")")
    return f"({kernel!r})" if isinstance(kernel, Sum) else repr(kernel)


class Kronecker(Kernel):
    """The product of two kernels that are each one block."""

    left: Kernel
    right: Kernel

    @property
    def state_dim(self) -> int:
        return self.left.state_dim * self.right.state_dim

    @property
    def deterministic(self) -> bool:
        return self.left.deterministic and self.right.deterministic

    def transition(self, dt: Scalar) -> Matrix:
        return jnp.kron(self.left.transition(dt), self.right.transition(dt))

    @property
    def steep(self) -> bool:
        return self.left.steep or self.right.steep

    @property
    def homogeneous(self) -> bool:
        return self.left.homogeneous and self.right.homogeneous

    def matrices_from(
        self, start: Steps, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        """Of a process that begins, and one without noise whose covariance never changes."""
        if self.homogeneous:
            return self.step_matrices(dt)
        (A1, Q1), (A2, Q2) = (k.matrices_from(start, dt) for k in (self.left, self.right))
        if self.right.deterministic:
            Q2 = jnp.broadcast_to(self.right.covariance_at(start), A2.shape)
        else:
            Q1 = jnp.broadcast_to(self.left.covariance_at(start), A1.shape)
        return _kron_at(A1, A2), _kron_at(Q1, Q2)

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        if self.homogeneous:
            return super().covariance_at(x)
        first, second = (
            jnp.broadcast_to(P, (*P.shape[:2], *x.shape))
            for P in (self.left.covariance_at(x), self.right.covariance_at(x))
        )
        return _kron_at(first, second)

    def process_noise(self, dt: Scalar) -> Matrix:
        """Q = Q₁⊗P₂ + C₁⊗Q₂ = Q₁⊗C₂ + P₁⊗Q₂ with C = A P₀ Aᵀ: for each entry the one that adds.

        Where P₁ is zero (between an oscillator's position and velocity) C₁ = −Q₁, and the first
        would subtract.
        """
        p1, p2 = self.left.stationary_covariance(), self.right.stationary_covariance()
        if self.right.deterministic:
            return jnp.kron(self.left.process_noise(dt), p2)
        if self.left.deterministic:
            return jnp.kron(p1, self.right.process_noise(dt))
        q1, q2 = self.left.process_noise(dt), self.right.process_noise(dt)
        c1, c2 = _carried(self.left, dt, q1), _carried(self.right, dt, q2)
        uncorrelated = jnp.kron(p1, jnp.ones_like(p2)) == 0
        return jnp.where(uncorrelated, jnp.kron(q1, c2), jnp.kron(q1, p2) + jnp.kron(c1, q2))

    def stationary_covariance(self) -> Matrix:
        return jnp.kron(self.left.stationary_covariance(), self.right.stationary_covariance())

    def closed_form(self) -> ClosedForm | None:
        """At most one factor may turn, and at most one be a Matérn, unless both are of order 1.

        An oscillator has one with a constant only.
        """
        left, right = self.left.closed_form(), self.right.closed_form()
        if left is None or right is None or (left.turns and right.turns):
            return None
        if (left.swings and right.kind > 0) or (right.swings and left.kind > 0):
            return None
        if min(left.order, right.order) > 0 and max(left.order, right.order) > 1:
            return None
        return ClosedForm(
            max(left.order, right.order),
            left.turns or right.turns,
            left.variance * right.variance,
            left.rate + right.rate,
            left.frequency + right.frequency,
        )

    def emission(self) -> State:
        return jnp.kron(self.left.emission(), self.right.emission())

    def feedback(self) -> Matrix:
        """F₁⊗I + I⊗F₂."""
        f1, f2 = self.left.feedback(), self.right.feedback()
        return jnp.kron(f1, jnp.eye(len(f2))) + jnp.kron(jnp.eye(len(f1)), f2)

    def diffusion(self) -> Matrix:
        """D₁⊗P₂ + P₁⊗D₂."""
        p1, p2 = self.left.stationary_covariance(), self.right.stationary_covariance()
        return jnp.kron(self.left.diffusion(), p2) + jnp.kron(p1, self.right.diffusion())

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.left.covariance(lag) * self.right.covariance(lag)


def _kron_at(
    left: Float[Array, "a a *steps"], right: Float[Array, "b b *steps"]
) -> Float[Array, "_ _ *steps"]:
    """Kronecker products of matrices in the first two axes."""
    product = left[:, None, :, None] * right[None, :, None, :]
    dim = len(left) * len(right)
    return product.reshape(dim, dim, *left.shape[2:])


_MATERNS: dict[int, Callable[..., Kernel]] = {1: Matern12, 2: Matern32, 3: Matern52, 4: Matern72}


def kernel_in_closed_form(form: ClosedForm) -> Kernel:
    """A kernel that has this closed form."""
    variance = derived(jnp.asarray(form.variance))
    if form.swings:
        frequency, rate = jnp.asarray(form.frequency), jnp.asarray(form.rate)
        period, quality = derived(2 * math.pi / frequency), derived(frequency / (2 * rate))
        return Oscillator(variance=variance, period=period, quality=quality)
    steady: Kernel = Constant(variance=variance)
    if form.order > 0:
        lengthscale = math.sqrt(2 * form.order - 1) / jnp.asarray(form.rate)
        steady = _MATERNS[form.order](variance=variance, lengthscale=derived(lengthscale))
    if not form.turns:
        return steady
    period = derived(2 * math.pi / jnp.asarray(form.frequency))
    return Kronecker(steady, Cosine(variance=derived(jnp.ones(())), period=period))


def _carried(kernel: Kernel, dt: Scalar, noise: Matrix) -> Matrix:
    """A P₀ Aᵀ = P₀ − Q, which is −Q to the last digit where P₀ is zero."""
    start, A = kernel.stationary_covariance(), kernel.transition(dt)
    return jnp.where(start == 0, -noise, A @ start @ A.T)


def scaled(kernel: Kernel, scale: Any) -> Product:
    """The kernel times a number: a product with a constant kernel, which adds no state."""
    if np.ndim(scale) != 0 or not scale > 0:
        raise ValueError(f"a kernel can be multiplied by a positive number, got {scale!r}")
    return Product(Constant(variance=fixed(scale)), kernel)
