"""A random walk integrated several times, without any pull: closed forms in powers of the step.

With v_i = start · (slope/start)ⁱ the variance of the i-th derivative at the first observation, the
state is f⁽ⁱ⁾/√v_i, and r = Δ √(slope/start) the step without its unit. Then P = I and

    A_ij = r^(j−i) / (j−i)!      Q_ij = κ r^n / (n (k−i)! (k−j)!),  n = 2k+1−i−j

where k is the order and κ = diffusivity / (v_k √(slope/start)): one term each, nothing cancels.
"""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.kernels._base import Matrix, Scalar, State, Steps
from stategp.kernels._beginning import Beginning, Matrices
from stategp.parameters import Parameter

# Q of a step, scaled to unit diagonal, has a condition number of 2e8 at order 6, half of the digits
# of double precision, and about 30 times more with each further one: at the highest, nearly all.
_STEEP = 6
HIGHEST_ORDER = 10


class IteratedWiener(Beginning):
    """The block that an `IntegratedWiener` of order 2 or more is made of."""

    diffusivity: Parameter
    start: Parameter
    slope: Parameter
    order: int = eqx.field(static=True)

    @property
    def homogeneous(self) -> bool:
        return False

    @property
    def steep(self) -> bool:
        return self.order >= _STEEP

    @property
    def state_dim(self) -> int:
        return self.order + 1

    @property
    def rate(self) -> Float[Array, ""]:
        """√(slope/start)."""
        return jnp.sqrt(self.slope.value / self.start.value)

    @property
    def strength(self) -> Float[Array, ""]:
        """κ."""
        last = self.start.value * self.rate ** (2 * self.order)
        return self.diffusivity.value / (last * self.rate)

    def transition(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[1]

    def step_matrices(self, dt: Steps) -> Matrices:
        return self._matrices(self.rate * dt, self.strength)

    def back_matrices(self, dt: Steps) -> Matrices:
        # Backwards every odd power of the step changes its sign, and so does dβ.
        return self._matrices(-self.rate * dt, -self.strength)

    def _matrices(self, r: Steps, strength: Float[Array, ""]) -> Matrices:
        rows = range(self.order + 1)
        powers = [r**n for n in range(2 * self.order + 2)]
        zero = jnp.zeros_like(r)

        def noise(i: int, j: int) -> Steps:
            n = 2 * self.order + 1 - i - j
            return strength * powers[n] / _divisor(self.order, i, j)

        A = [
            [powers[j - i] / math.factorial(j - i) if j >= i else zero for j in rows] for i in rows
        ]
        Q = [[noise(i, j) for j in rows] for i in rows]
        return (
            jnp.stack([jnp.stack(row) for row in A]),
            jnp.stack([jnp.stack(row) for row in Q]),
        )

    def stationary_covariance(self) -> Matrix:
        return jnp.eye(self.state_dim)

    def emission(self) -> State:
        return jnp.zeros(self.state_dim).at[0].set(jnp.sqrt(self.start.value))

    def feedback(self) -> Matrix:
        return self.rate * jnp.asarray(np.eye(self.state_dim, k=1))

    def diffusion(self) -> Matrix:
        zeros = jnp.zeros((self.state_dim, self.state_dim))
        return zeros.at[-1, -1].set(self.strength * self.rate)


def _divisor(order: int, i: int, j: int) -> float:
    n = 2 * order + 1 - i - j
    return float(n * math.factorial(order - i) * math.factorial(order - j))
