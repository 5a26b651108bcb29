"""Kernels that depend on where they are: what is common to them, and a known factor of f."""

from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._modules import Module
from stategp.kernels._base import Kernel, Matrix, Scalar, State, Steps
from stategp.kernels._compose import Blockwise
from stategp.parameters import Parameter, Value, declare, fixed, positive

Matrices = tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]


class Located(Kernel):
    """A kernel that cannot do with the lengths of steps."""

    @property
    def homogeneous(self) -> bool:
        return False

    @property
    def located(self) -> bool:
        return True

    def transition(self, dt: Scalar) -> Matrix:
        return self._refuse()

    def process_noise(self, dt: Scalar) -> Matrix:
        return self._refuse()

    def step_matrices(self, dt: Steps) -> Matrices:
        return self._refuse()

    def stationary_covariance(self) -> Matrix:
        return self._refuse()

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"{type(self).__name__} kernels depend on where they are, and this needs one that is "
            "the same everywhere. They can be fitted with sg.fit and sg.condition, in an sg.GP, an "
            "sg.MultiOutputGP, an sg.JointGP or, over time, an sg.SpaceTimeGP; for covariances, "
            "call the kernel with two arrays of inputs"
        )


class StepFunction(Module):
    """A function that is constant between some places: values[i] from places[i − 1] on.

    There is one value more than there are places. Values that are an `sg.parameter` are learned.

    >>> import jax.numpy as jnp, stategp as sg
    >>> sg.kernels.StepFunction(places=[2.0], values=[1.0, 5.0])(jnp.array([0.0, 2.0, 9.0]))
    Array([1., 5., 5.], dtype=float64)
    """

    places: Parameter
    values: Parameter

    def __init__(self, places: Value, values: Value):
        self.places = places_of("places", places)
        given = values if isinstance(values, Parameter) else fixed(values)
        self.values = positive("values", given, default=np.ones(1), role="shape", ndim=1)
        if len(self.values.value) != len(self.places.value) + 1:
            raise ValueError(
                "a step function has one value more than places; got "
                f"{len(self.values.value)} values and {len(self.places.value)} places"
            )

    def __call__(self, x: Steps) -> Steps:
        """The value at each of some inputs."""
        passed = jnp.searchsorted(self.places.value, x.reshape(-1), side="right")
        return self.values.value[passed].reshape(x.shape)

    def __repr__(self) -> str:
        return f"StepFunction(places={self.places!r}, values={self.values!r})"


def places_of(name: str, value: Value, *, learned: bool = False) -> Parameter:
    """Increasing inputs; learned only if they are an `sg.parameter` and that is allowed."""
    given = value if isinstance(value, Parameter) else fixed(value)
    made = declare(name, given, default=np.zeros(0), constraint="real", role="change", ndim=1)
    if not isinstance(made.value, jax.core.Tracer) and np.any(np.diff(np.asarray(made.value)) <= 0):
        raise ValueError(f"{name} must be increasing, got {np.asarray(made.value)}")
    if made.learned and not learned:
        raise ValueError(f"{name} of a step function cannot be learned: give numbers")
    return made


class Function(Module):
    """A function of the user's, which JAX can trace, as the envelope of a `Scaled` kernel.

    >>> import jax.numpy as jnp, stategp as sg
    >>> sg.kernels.Function(jnp.sqrt)(jnp.array([4.0]))
    Array([2.], dtype=float64)
    """

    function: Callable[[Any], Any] = eqx.field(static=True)

    def __call__(self, x: Steps) -> Steps:
        """Its value at each of some inputs."""
        return jnp.broadcast_to(jnp.asarray(self.function(x), dtype=float), x.shape)

    def __repr__(self) -> str:
        return str(getattr(self.function, "__name__", self.function))


class Scaled(Located, Blockwise):
    """A kernel times a known function of x: f(x) = envelope(x) · g(x), g with the kernel given.

    `envelope` is a function of x that JAX can trace, in the user's units (it is applied to many x
    at once); a mean function from `sg.means`, whose parameters are then learned; or a
    `StepFunction`. A model with a function of your own cannot be saved, as with
    `sg.means.Function`.

    >>> import jax.numpy as jnp, stategp as sg
    >>> louder = sg.kernels.Scaled(sg.kernels.Matern32(), lambda x: 1 + x)
    >>> louder([0.0, 1.0], [1.0])  # k(1) and k(0), times 1 · 2 and 2 · 2
    Array([[0.96671545],
           [4.        ]], dtype=float64)
    """

    kernel: Kernel
    envelope: Any
    origin: Float[Array, ""]

    def __init__(self, kernel: Any, envelope: Any):
        if not isinstance(kernel, Kernel) or kernel.located:
            raise ValueError(
                f"Scaled takes a kernel that is the same everywhere, got {kernel!r}"
                + ("; scale its parts" if isinstance(kernel, Kernel) else "")
            )
        if not callable(envelope):
            raise ValueError(
                f"envelope must be a function of x, or sg.kernels.StepFunction; got {envelope!r}"
            )
        self.kernel, self.origin = kernel, jnp.zeros(())
        self.envelope = envelope if isinstance(envelope, eqx.Module) else Function(envelope)

    def blocks(self) -> tuple[Kernel, ...]:
        return tuple(ScaledBlock(b, self.envelope, self.origin) for b in self.kernel.blocks())

    def seen_from(self, origin: Any) -> "Scaled":
        moved: Scaled = eqx.tree_at(lambda k: k.origin, self, jnp.asarray(origin, dtype=float))
        return moved

    def refined(self) -> "Scaled":
        return self.with_parts({"kernel": self.kernel.refined()})

    def parts(self) -> dict[str, Kernel]:
        return {"kernel": self.kernel}

    def with_parts(self, parts: dict[str, Kernel]) -> "Scaled":
        changed: Scaled = eqx.tree_at(lambda k: k.kernel, self, parts["kernel"])
        return changed

    def __repr__(self) -> str:
        return f"Scaled({self.kernel!r}, {self.envelope!r})"


class ScaledBlock(Located):
    """One block of a kernel, read through the envelope."""

    kernel: Kernel
    envelope: Any
    origin: Float[Array, ""]

    @property
    def state_dim(self) -> int:
        return self.kernel.state_dim

    @property
    def deterministic(self) -> bool:
        return self.kernel.deterministic

    def matrices_from(self, start: Steps, dt: Steps) -> Matrices:
        return self.kernel.matrices_from(start, dt)

    def steps_from(self, start: Steps, dt: Steps) -> Any:
        return self.kernel.steps_from(start, dt)

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        return self.kernel.covariance_at(x)

    def emission(self) -> State:
        return self.kernel.emission()

    def emission_at(self, x: Steps) -> Float[Array, "dim *#steps"]:
        factor = self.envelope(x.reshape(-1) + self.origin).reshape(x.shape)
        return self.kernel.emission_at(x) * factor[None]

    def feedback(self) -> Matrix:
        return self.kernel.feedback()

    def diffusion(self) -> Matrix:
        return self.kernel.diffusion()
