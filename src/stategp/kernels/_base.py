"""What a kernel is.

A kernel is a stationary linear stochastic differential equation, discretised. Its state s(x)
obeys s(x + Δ) = A(Δ) s(x) + noise of covariance Q(Δ), starts from N(0, P₀), and is seen through
f(x) = H s(x). States are dimensionless in x, so that P₀ is well scaled at every lengthscale.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._linalg import Entries
from stategp._modules import Module
from stategp.kernels._derivatives import derivative_rows, smoothness
from stategp.parameters import Parameter

Scalar = Float[Array, ""] | float
State = Float[Array, " dim"]
Matrix = Float[Array, "dim dim"]
Steps = Float[Array, "*steps"]


OSCILLATING = 5  # the order that stands for an oscillator


class ClosedForm(NamedTuple):
    """A Matérn process of some order that may turn: what compiled kernels need to know its steps.

    A = (that of the Matérn) ⊗ (a rotation by frequency · Δ) and Q = (that of the Matérn) ⊗ I, see
    `kernels/_matern.py`. Order 0 is a constant. Or an oscillator, which does not turn but obeys
    f″ + 2 · rate · f′ + frequency² · f = white noise, see `kernels/_oscillator.py`.
    """

    order: int
    turns: bool
    variance: Scalar
    rate: Scalar = 0.0
    frequency: Scalar = 0.0

    @property
    def swings(self) -> bool:
        """Whether it is an oscillator."""
        return self.order == OSCILLATING

    @property
    def kind(self) -> int:
        """The number of all such forms."""
        return 2 * self.order + self.turns

    @staticmethod
    def of_kind(kind: int, parameters: Float[Array, "3"]) -> "ClosedForm":
        """A form of that kind."""
        return ClosedForm(kind // 2, bool(kind % 2), *parameters)

    def parameters(self) -> Float[Array, "3"]:
        """The variance, rate and frequency."""
        return jnp.stack([jnp.asarray(number, float) for number in self[2:]])


class Kernel(Module):
    """A covariance function with a state-space form.

    ``kernel(x1, x2)`` is the covariance matrix between two sets of inputs. It is computed from the
    closed form, independently of the state space.

    >>> import jax.numpy as jnp, stategp as sg
    >>> sg.kernels.Matern12()(jnp.array([0.0, 1.0]), jnp.array([0.0])).shape
    (2, 1)
    """

    __array_ufunc__ = None  # `array * kernel` is for the kernel to refuse, not for NumPy to try

    @property
    @abc.abstractmethod
    def state_dim(self) -> int:
        """Number of components of the state."""

    @abc.abstractmethod
    def transition(self, dt: Scalar) -> Matrix:
        """A(Δ): the matrix that gives the expected state after a step Δ ≥ 0."""

    @abc.abstractmethod
    def process_noise(self, dt: Scalar) -> Matrix:
        """Q(Δ): the covariance that a step Δ ≥ 0 adds."""

    def steps(self, dt: Steps) -> tuple[Entries, Entries]:
        """A(Δ) and Q(Δ) of many steps at once: rows of entries, each an array like `dt`."""
        return _in_rows(self.step_matrices(dt))

    def step_matrices(
        self, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        """The same as matrices: slower, but quicker to compile."""
        A, Q = jax.vmap(self._one_step, out_axes=-1)(dt.reshape(-1))
        return A.reshape(*A.shape[:2], *dt.shape), Q.reshape(*Q.shape[:2], *dt.shape)

    def _one_step(self, dt: Scalar) -> tuple[Matrix, Matrix]:
        return self.transition(dt), self.process_noise(dt)

    @abc.abstractmethod
    def stationary_covariance(self) -> Matrix:
        """P₀: the covariance of the state at any single input."""

    @abc.abstractmethod
    def emission(self) -> State:
        """H: f(x) = H s(x)."""

    @abc.abstractmethod
    def feedback(self) -> Matrix:
        """F of the differential equation ds = F s dx + dβ."""

    @abc.abstractmethod
    def diffusion(self) -> Matrix:
        """L Q_c Lᵀ: the spectral density of dβ."""

    @abc.abstractmethod
    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """k(τ) in closed form, elementwise."""

    @property
    def deterministic(self) -> bool:
        """Whether the process noise is zero: the state at one input determines all others."""
        return False

    @property
    def steep(self) -> bool:
        """Whether Q of a step, scaled to unit diagonal, leaves less than half of all digits."""
        return False

    @property
    def homogeneous(self) -> bool:
        """Whether the process is the same at all inputs: P₀, and steps by their lengths alone."""
        return True

    @property
    def located(self) -> bool:
        """Whether it matters where steps are, also among those after the first observation."""
        return False

    def matrices_from(
        self, start: Steps, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        """A and Q of steps that begin at these inputs, measured from the first observation."""
        return self.step_matrices(dt)

    def steps_from(self, start: Steps, dt: Steps) -> tuple[Entries, Entries]:
        """The same as rows of entries."""
        if self.homogeneous:
            return self.steps(dt)
        return _in_rows(self.matrices_from(start, dt))

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        """The covariance of the state at these inputs, measured from the first observation."""
        P = self.stationary_covariance()
        return P.reshape(*P.shape, *[1] * x.ndim)

    def emission_at(self, x: Steps) -> Float[Array, "dim *#steps"]:
        """H at these inputs, measured from the first observation."""
        H = self.emission()
        return H.reshape(*H.shape, *[1] * x.ndim)

    def seen_from(self, origin: Any) -> "Kernel":
        """The same kernel, for inputs that are measured from this one of the user's."""
        return self

    @property
    def smoothness(self) -> int | float:
        """How often f can be differentiated (in mean square): 0, 1, …, or infinitely often.

        >>> import stategp as sg
        >>> k = sg.kernels
        >>> k.Matern12().smoothness, k.Matern52().smoothness, k.Cosine().smoothness
        (0, 2, inf)
        """
        self._check_derivatives()
        return smoothness(self)

    def derivatives(self, order: int = 1) -> Float[Array, "orders dim"]:
        """The matrix that turns the state into f and its derivatives: rows H, H F, …, H Fᵏ.

        >>> import stategp as sg
        >>> sg.kernels.Matern32(lengthscale=3**0.5).derivatives()  # f = s₀, f′ = λ (s₁ − s₀)
        Array([[ 1.,  0.],
               [-1.,  1.]], dtype=float64)
        """
        if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 0:
            raise ValueError(f"order must be a whole number of at least 0, got {order!r}")
        self._check_derivatives()
        most = self.smoothness
        if order > most:
            times = {0: "no derivative", 1: "a first derivative only"}.get(
                int(most), f"derivatives up to order {int(most)}"
            )
            raise ValueError(
                f"{self!r} has {times}: its paths are not smooth enough for order {order}; use "
                "a smoother kernel (Matern32 has one derivative, Matern52 two, Matern72 three), "
                "or a smooth component of a sum"
            )
        return derivative_rows(self, int(order))

    def _check_derivatives(self) -> None:
        if self.located:
            raise ValueError(
                f"{self!r} reads its state, or moves it, in other ways at other inputs, so that no "
                "matrix gives its derivatives; use a kernel that is the same everywhere"
            )

    def blocks(self) -> tuple["Kernel", ...]:
        """The independent parts that the state is made of, in order."""
        return (self,)

    def closed_form(self) -> ClosedForm | None:
        """This block in the form that compiled kernels know, up to the order of the state.

        f is then the first component of the state. None, as for all classes of your own: A and Q
        are computed by JAX.
        """
        return None

    def refined(self) -> "Kernel":
        """This kernel with its truncation order brought in line with its present parameters."""
        return self

    def parts(self) -> dict[str, "Kernel"]:
        """The kernels in a sum or a product, by name; empty for other kernels."""
        return {}

    def with_parts(self, parts: dict[str, "Kernel"]) -> "Kernel":
        """The same sum or product of other kernels."""
        return self

    def named_parameters(self) -> dict[str, Parameter]:
        """Every hyperparameter by name; in a sum or product, prefixed by the name of the part.

        >>> import stategp as sg
        >>> sg.kernels.Sum(trend=sg.kernels.Matern32(lengthscale=30.0)).named_parameters()
        {'trend__variance': 1, 'trend__lengthscale': 30}
        """
        from stategp.kernels._named import named_parameters

        return named_parameters(self)

    def with_parameters(self, **values: Any) -> "Kernel":
        """The same kernel with other hyperparameters, by the names of `named_parameters`.

        A number changes only the value: a fixed hyperparameter stays fixed, and priors are kept.

        >>> import stategp as sg
        >>> (sg.kernels.Matern32() + sg.kernels.Constant()).with_parameters(matern32__lengthscale=5)
        Matern32(variance=1, lengthscale=5) + Constant(variance=1)
        """
        from stategp.kernels._named import with_parameters

        return with_parameters(self, values)

    def __call__(self, x1: Any, x2: Any) -> Float[Array, "n m"]:
        """Covariance matrix between two one-dimensional arrays of inputs."""
        left, right = (jnp.asarray(x, dtype=float) for x in (x1, x2))
        if not self.homogeneous:
            return covariance_between(self, left, right)
        return self.covariance(jnp.abs(left[:, None] - right[None, :]))

    def __add__(self, other: Any) -> "Kernel":
        from stategp.kernels._compose import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> "Kernel":
        from stategp.kernels._compose import Product, scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return scaled(self, other) if _is_number(other) else NotImplemented

    def __rmul__(self, other: Any) -> "Kernel":
        return self * other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._repr_fields())})"

    def _repr_fields(self) -> list[str]:
        return [f"{name}={v!r}" for name, v in vars(self).items() if isinstance(v, Parameter)]


def _in_rows(matrices: tuple[Array, Array]) -> tuple[Entries, Entries]:
    rows = range(len(matrices[0]))
    A, Q = ([[matrix[i, j] for j in rows] for i in rows] for matrix in matrices)
    return A, Q


@eqx.filter_jit
def covariance_between(
    kernel: Kernel, left: Float[Array, " n"], right: Float[Array, " m"]
) -> Float[Array, "n m"]:
    """H A P Hᵀ from the earlier of two inputs to the later one, for a process of any kind."""
    first = jnp.minimum(left[:, None], right[None, :])
    last = jnp.maximum(left[:, None], right[None, :])
    A, _ = kernel.matrices_from(first, last - first)
    H_first, H_last = (
        jnp.broadcast_to(kernel.emission_at(x), (len(A), *first.shape)) for x in (first, last)
    )
    P = jnp.broadcast_to(kernel.covariance_at(first), A.shape)
    return jnp.einsum("inm,ijnm,jknm,knm->nm", H_last, A, P, H_first)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int | np.number | np.ndarray | jax.Array) and not isinstance(
        value, bool
    )
