"""Predictions from full states: the states themselves, derivatives, joint covariances of f."""

import abc
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._modules import Module
from stategp._posteriors._covariance import joint_covariance
from stategp._posteriors._pointwise import Points, padded
from stategp._posteriors._prediction import Chain
from stategp._posteriors._states import (
    Strand,
    check_orders,
    mean_derivative,
    parts_of,
    row_moments,
    sample_rows,
)
from stategp._runtime import as_count, as_key, on_device
from stategp.kernels import Kernel


class TellsStates(Module):
    """Methods of posteriors that give states, derivatives and joint covariances."""

    @property
    @abc.abstractmethod
    def _chain(self) -> Chain:
        """What predictions need, padded to one of few sizes."""

    @abc.abstractmethod
    def _relative(self, name: str, x: Any) -> np.ndarray:
        """Points as given, from the origin."""

    @abc.abstractmethod
    def _points(self, x_new: Any) -> Points:
        """The same; JAX may be tracing them (but not the posterior)."""

    @property
    @abc.abstractmethod
    def _negative(self) -> bool:
        """Whether sites may have negative precision."""

    def predict_state(
        self, x_new: Any, *, component: str | None = None
    ) -> tuple[Float[Array, "points dim"], Float[Array, "points dim dim"]]:
        """Mean and covariance of the state, from which f and its derivatives are computed.

        The meaning of the entries depends on the kernel: the rows of `kernel.derivatives(order)`
        turn them into f, f′, f″ … (without the mean function). The states of the components of a
        kernel, and of several latent functions, are concatenated; `component` selects one by its
        name in `components`.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern52()), np.arange(3), [0.0, 1.0, 0.0])
        >>> mean, covariance = posterior.predict_state([0.5, 10.0])
        >>> mean.shape, covariance.shape
        ((2, 3), (2, 3, 3))
        """
        moments = []
        x = self._points(x_new)
        for part in parts_of(self._chain.model.kernels, component):
            wanted = part.rows(on_device(np.eye(part.kernel.state_dim)), self._dim(part.number))
            moments.append(self._moments(x, part.number, wanted))
        if len(moments) == 1:
            return moments[0]
        blocks = jax.vmap(jax.scipy.linalg.block_diag)(*(covariance for _, covariance in moments))
        return jnp.concatenate([mean for mean, _ in moments], axis=1), blocks

    def predict_derivative(
        self, x_new: Any, order: Any = 1, *, component: str | None = None
    ) -> tuple[Float[Array, "points *orders"], Float[Array, "points *pairs"]]:
        """Mean and variance of a derivative of f, in the unit of f per unit of x.

        With several orders, such as (0, 1, 2), the means have a second axis for the orders, and the
        covariances of these derivatives with each other a second and a third. The derivative of the
        mean function is included; `component` selects one component of the kernel by its name in
        `components`, without the mean function. `kernel.smoothness` is the number of derivatives:
        none for Matern12, one for Matern32, two for Matern52.

        >>> import numpy as np, stategp as sg
        >>> x = np.linspace(0, 6, 50)
        >>> model = sg.GP(sg.kernels.Matern52(), sg.likelihoods.Gaussian(variance=1e-4))
        >>> slope, variance = sg.condition(model, x, np.sin(x)).predict_derivative([3.0])
        >>> bool(abs(slope[0] - np.cos(3.0)) < 0.01)
        True
        """
        orders = check_orders(order)
        x, moments = self._points(x_new), []
        for part in parts_of(self._chain.model.kernels, component):
            derivatives = _of_orders(part.kernel.derivatives(max(orders)), orders)
            rows = part.rows(derivatives, self._dim(part.number))
            mean, covariance = self._moments(x, part.number, rows)
            if component is None:
                centre = self._chain.model.means[part.number]
                columns = [
                    mean_derivative(centre, padded(x) + self._chain.origin, k)[: len(x)]
                    for k in orders
                ]
                mean = mean + jnp.stack(columns, axis=1)
            moments.append((mean, covariance))
        mean, covariance = (
            parts[0] if len(parts) == 1 else jnp.stack(parts, axis=-1)
            for parts in zip(*moments, strict=True)
        )
        return (mean[:, 0], covariance[:, 0, 0]) if np.ndim(order) == 0 else (mean, covariance)

    def sample_state(
        self,
        key: PRNGKeyArray | int | Any,
        x_new: Any,
        num_samples: Any = 1,
        *,
        component: str | None = None,
    ) -> Float[Array, "samples points dim"]:
        """Joint samples of states at many points, in time linear in their number.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern52()), np.arange(3), [0.0, 1.0, 0.0])
        >>> states = posterior.sample_state(0, np.linspace(0, 5, 11), num_samples=4)
        >>> f, slope = np.moveaxis(states @ posterior.model.kernel.derivatives(1).T, -1, 0)
        >>> slope.shape
        (4, 11)
        """
        return self._draw_states(key, self._points(x_new), as_count(num_samples), component)

    def _draw_states(
        self, key: Any, x: Float[Array, " points"], count: int, component: str | None = None
    ) -> Float[Array, "samples points dim"]:
        """Those at points measured from the origin."""
        drawn = []
        for part in parts_of(self._chain.model.kernels, component):
            rows = part.rows(on_device(np.eye(part.kernel.state_dim)), self._dim(part.number))
            if count == 0 or len(x) == 0:
                drawn.append(jnp.zeros((count, len(x), len(rows))))
                continue
            strand = Strand.of(self._chain, part.number)
            seed = jax.random.fold_in(as_key(key), part.number)
            drawn.append(sample_rows(strand, seed, padded(x), rows, count, self._negative))
        return jnp.concatenate(drawn, axis=-1)[:, : len(x)]

    def covariance(
        self, x: Any, x2: Any = None, *, component: str | None = None
    ) -> Float[Array, "points others *latents"]:
        """The joint covariance of f at two sets of points (by default `x2` is the same as `x`).

        The cost is linear in the number of inducing points and in the number of entries.
        `component` selects one component of the kernel by its name in `components`.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern52()), np.arange(3), [0.0, 1.0, 0.0])
        >>> posterior.covariance([0.5, 1.0, 10.0], [0.7, 2.0]).shape
        (3, 2)
        """
        first = self._relative("x", x)
        second = first if x2 is None else self._relative("x2", x2)
        matrices = []
        for part in parts_of(self._chain.model.kernels, component):
            _check_reading(part.kernel, first, second)
            row = part.rows(part.kernel.emission()[None], self._dim(part.number))
            strand = Strand.of(self._chain, part.number)
            matrix = joint_covariance(strand, first, second, row, self._negative)
            matrices.append((matrix + matrix.T) / 2 if x2 is None else matrix)
        return matrices[0] if len(matrices) == 1 else jnp.stack(matrices, axis=-1)

    def _dim(self, number: int) -> int:
        return self._chain.model.kernels[number].state_dim

    def _moments(
        self, x: Points, number: int, rows: Float[Array, "rows dim"]
    ) -> tuple[Float[Array, "points rows"], Float[Array, "points rows rows"]]:
        strand = Strand.of(self._chain, number)
        mean, covariance = row_moments(strand, padded(x), rows, self._negative)
        return mean[: len(x)], covariance[: len(x)]


def _check_reading(kernel: Kernel, *points: np.ndarray) -> None:
    """Refuse kernels that read the state in other ways at other inputs."""
    for x in points if kernel.located else ():
        if np.any(
            np.asarray(kernel.emission()) != np.asarray(kernel.emission_at(jnp.asarray(x))).T
        ):
            raise ValueError(
                f"joint covariances are not available for {kernel!r}; draw joint samples "
                "(sample_f) instead"
            )


@partial(jax.jit, static_argnums=1)
def _of_orders(rows: Float[Array, "all dim"], orders: tuple[int, ...]) -> Float[Array, "some dim"]:
    return rows[np.asarray(orders)]
