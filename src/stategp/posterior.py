"""What the user holds after inference."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.chain import PairMarginals, Sites, prior_transitions, psd_cholesky, sample_states
from stategp.data import Observations, place_inducing, relative_inputs
from stategp.data import numbers as as_numbers
from stategp.inference import FitResult, infer
from stategp.kernels import Kernel, Sum
from stategp.models import GP
from stategp.projection import Projection, project

Points = Float[Array, " points"]
States = Float[Array, " states"]


class Posterior(eqx.Module):
    """The posterior of f, as a Gauss–Markov chain of states at the inducing locations.

    Made by `sg.condition` and `sg.fit`; predictions take inputs in any order, inside or outside
    the data.
    """

    model: GP
    data: Observations
    relative_inducing: States  # measured from the origin of the data
    sites: Sites
    marginals: PairMarginals
    elbo: float
    fit_result: FitResult | None = eqx.field(static=True)

    @property
    def inducing(self) -> np.ndarray:
        """The inducing locations, in the user's units."""
        return np.asarray(self.relative_inducing) + self.data.origin

    def predict_f(self, x_new: Any) -> tuple[Points, Points]:
        """Mean and variance of the latent function.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> mean, variance = posterior.predict_f([0.5, 10.0])
        """
        x = self._relative(x_new)
        mean, variance = _predict(self, _padded(x))
        return mean[: len(x)], variance[: len(x)]

    def predict_y(self, x_new: Any, *, noise_variance: Any = None) -> tuple[Points, Points]:
        """Mean and variance of a new observation.

        `noise_variance` is the known part of its noise, where observations come with one.
        """
        mean, variance = self.predict_f(x_new)
        known = _broadcast("noise_variance", noise_variance, len(mean), default=0.0)
        return self.model.likelihood.predict(mean, variance, known)

    def log_density(self, x_new: Any, y_new: Any, *, noise_variance: Any = None) -> Points:
        """Log predictive density of each new observation on its own (NaN where y is NaN)."""
        mean, variance = self.predict_f(x_new)
        known = _broadcast("noise_variance", noise_variance, len(mean), default=0.0)
        y = _broadcast("y_new", y_new, len(mean))
        return self.model.likelihood.log_predictive_density(y, mean, variance, known)

    def sample_f(
        self, key: PRNGKeyArray | int, x_new: Any, num_samples: int = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of the latent function at many points, in time linear in their number.

        `key` is a JAX random key or an integer seed.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> posterior.sample_f(0, np.linspace(0, 5, 11), num_samples=4).shape
        (4, 11)
        """
        if isinstance(key, int | np.integer):
            key = jax.random.key(int(key))
        x = self._relative(x_new)
        if num_samples < 1 or len(x) == 0:
            return jnp.zeros((max(num_samples, 0), len(x)))
        return _sample(self, key, _padded(x), num_samples)[:, : len(x)]

    def components(self, x_new: Any) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of each summand of the kernel, by name (the mean function apart)."""
        kernel = self.model.kernel
        summands = (
            dict(zip(kernel.names, kernel.kernels, strict=True))
            if isinstance(kernel, Sum)
            else {type(kernel).__name__.lower(): kernel}
        )
        x = self._relative(x_new)
        moments = _component_moments(self, _padded(x), tuple(summands.values()))
        return {
            name: (mean[: len(x)], variance[: len(x)])
            for name, (mean, variance) in zip(summands, moments, strict=True)
        }

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the model, exactly: inference with inducing points at the data."""
        exact = infer(self.model, self.data, jnp.asarray(place_inducing("data", self.data)))
        return float(exact.elbo)

    def kl_to_exact(self) -> float:
        """KL(q‖p(f | y)), the distance of this posterior from the exact one: log p(y) − ELBO."""
        return self.log_marginal_likelihood() - self.elbo

    def _relative(self, x_new: Any) -> Points:
        return jnp.asarray(relative_inputs("x_new", x_new, self.data.origin))

    def __repr__(self) -> str:
        lines = [
            f"Posterior of {self.model!r}",
            f"  {len(self.data)} observations, {len(self.relative_inducing)} inducing states of "
            f"dimension {self.model.kernel.state_dim}",
            f"  ELBO {self.elbo:.6g}",
        ]
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)


def _padded(x: Points) -> Float[Array, " padded"]:
    """Repeat the last point up to a power of two, so that few shapes are ever compiled."""
    size = max(16, 1 << max(len(x) - 1, 0).bit_length())
    return jnp.pad(x, (0, size - len(x)), mode="edge") if len(x) else jnp.zeros(size)


def _broadcast(name: str, value: Any, points: int, default: float | None = None) -> Points:
    if value is None and default is not None:
        return jnp.full(points, default)
    array = as_numbers(name, [value] * points if np.ndim(value) == 0 else value)
    if len(array) != points:
        raise ValueError(f"{name} must have one value per point, got {len(array)} for {points}")
    return jnp.asarray(array)


def _project(posterior: Posterior, x: Points) -> Projection:
    kernel, inducing = posterior.model.kernel, posterior.relative_inducing
    return project(kernel, inducing, x, prior_transitions(kernel, inducing))


@jax.jit
def _predict(posterior: Posterior, x: Points) -> tuple[Points, Points]:
    projection = _project(posterior, x)
    mean, variance = projection.marginals(posterior.marginals)
    return mean + posterior.model.mean(x + posterior.data.origin), variance


@jax.jit
def _component_moments(
    posterior: Posterior, x: Points, summands: tuple[Kernel, ...]
) -> list[tuple[Points, Points]]:
    """Each summand owns consecutive parts of the state: the weights of the others become zero."""
    projection = _project(posterior, x)
    moments, first_dim, first_block = [], 0, 0
    for kernel in summands:
        dims = np.arange(posterior.model.kernel.state_dim)
        own = (dims >= first_dim) & (dims < first_dim + kernel.state_dim)
        blocks = len(kernel.blocks())
        part = Projection(
            projection.interval,
            jnp.where(np.tile(own, 2)[None, :], projection.weights, 0.0),
            projection.residual[:, first_block : first_block + blocks],
        )
        moments.append(part.marginals(posterior.marginals))
        first_dim, first_block = first_dim + kernel.state_dim, first_block + blocks
    return moments


@jax.jit(static_argnames="num_samples")
def _sample(
    posterior: Posterior, key: PRNGKeyArray, x: Points, num_samples: int
) -> Float[Array, "samples points"]:
    """The paper's sampler: a prior sample, corrected by what the states say (appendix A.2)."""
    kernel, inducing = posterior.model.kernel, posterior.relative_inducing
    prior_key, posterior_key = jax.random.split(key)
    prior_f, prior_states = _sample_prior(kernel, prior_key, x, inducing, num_samples)
    transitions = prior_transitions(kernel, inducing)
    states = sample_states(transitions, posterior.sites, posterior_key, num_samples)
    projection = project(kernel, inducing, x, transitions)
    correction = projection.conditional_mean(states - prior_states)
    return prior_f + correction + posterior.model.mean(x + posterior.data.origin)[None, :]


def _sample_prior(
    kernel: Kernel, key: PRNGKeyArray, x: Points, inducing: States, num_samples: int
) -> tuple[Float[Array, "samples points"], Float[Array, "samples states dim"]]:
    """Joint prior samples of f at x and of the states at the inducing locations."""
    everywhere = jnp.concatenate([x, inducing])
    order = jnp.argsort(everywhere)
    transitions = prior_transitions(kernel, everywhere[order])
    A, roots = transitions.A[:-1], jax.vmap(psd_cholesky)(transitions.Q[:-1])
    noise = jax.random.normal(key, (len(everywhere), kernel.state_dim, num_samples))

    def step(
        state: Float[Array, "dim samples"],
        inputs: tuple[
            Float[Array, "dim dim"], Float[Array, "dim dim"], Float[Array, "dim samples"]
        ],
    ) -> tuple[Float[Array, "dim samples"], Float[Array, "dim samples"]]:
        A, root, white = inputs
        state = A @ state + root @ white
        return state, state

    start = jnp.zeros((kernel.state_dim, num_samples))
    _, path = jax.lax.scan(step, start, (A, roots, noise))
    states = jnp.zeros_like(path).at[order].set(path)  # back from sorted to given order
    f = jnp.einsum("d,nds->sn", kernel.emission(), states[: len(x)])
    return f, jnp.moveaxis(states[len(x) :], -1, 0)
