"""From a chain of states to f at new points: moments, summands, joint samples."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import extra_values
from stategp._files import save
from stategp._inference import ChainSites, geometry, latent_moments, prior_mean
from stategp._models import GP, prior_states
from stategp._posteriors._marginals import as_targets, marginals_at
from stategp._posteriors._pointwise import BLOCK, check_levels
from stategp._posteriors._pointwise import padded as padded
from stategp._posteriors._pointwise import per_point as per_point
from stategp._posteriors._shown import Shown
from stategp._projection import Projection
from stategp._runtime import as_key, pad_last, padded_size
from stategp.chain import PairMarginals, sample_states
from stategp.kernels import Kernel, Sum

Points = Float[Array, " points"]
Latent = Float[Array, "points *latents"]  # one column per latent function if there are several
States = Float[Array, " states"]


class Predicts(Shown):
    """Methods shared by all posteriors that predict f at new points."""

    model: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def predict_f(self, x_new: Any) -> tuple[Latent, Latent]:
        """Mean and variance of the latent function."""

    @abc.abstractmethod
    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of the latent function."""

    def save(self, path: Any) -> None:
        """Write the posterior to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def predict_y(self, x_new: Any, **extras: Any) -> tuple[Points, Points]:
        """Mean and variance of a new observation.

        Other quantities that the likelihood needs are given by name, as for `fit`: `noise_variance`
        (the known part), `exposure` or `trials`.
        """
        return marginals_at(self, x_new, **extras).moments()

    def log_density(self, x_new: Any, y_new: Any, **extras: Any) -> Points:
        """Log predictive density of each new observation separately (NaN where y is NaN)."""
        return marginals_at(self, x_new, **extras).log_density(y_new)

    def quantiles(
        self, x_new: Any, levels: Any = (0.025, 0.5, 0.975), **extras: Any
    ) -> Float[Array, "levels points"]:
        """Quantiles of a new observation at each point: the smallest y with P(Y ≤ y) ≥ level.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> low, median, high = posterior.quantiles([0.5, 10.0])
        """
        wanted = check_levels(levels)
        return marginals_at(self, x_new, **extras).quantiles(wanted)

    def cdf(self, x_new: Any, y_new: Any, *, strict: Any = False, **extras: Any) -> Points:
        """P(Y ≤ y) of each new observation, or P(Y < y) if `strict` (NaN where y is NaN).

        The two differ for counts and labels; for observations from the model, a number drawn
        uniformly between them is uniformly distributed (the randomised PIT).
        """
        return marginals_at(self, x_new, **extras).cdf(y_new, strict=strict)

    def crps(self, x_new: Any, y_new: Any, **extras: Any) -> Points:
        """Continuous ranked probability score of each new observation (NaN where y is NaN).

        It is in the unit of y, and smaller is better. For a prediction without uncertainty it is
        the distance from y; it rewards predictions whose uncertainty matches their errors. Exact
        for Gaussian observations, accurate to about 1 % for others.
        """
        return marginals_at(self, x_new, **extras).crps(y_new)

    def sample_y(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1, **extras: Any
    ) -> Float[Array, "samples points"]:
        """New observations, for joint samples of the latent function.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> posterior.sample_y(0, [0.5, 10.0], num_samples=3).shape
        (3, 2)
        """
        f_key, y_key = jax.random.split(as_key(key))
        f = self.sample_f(f_key, x_new, num_samples)
        extra = jnp.broadcast_to(self._extra(f.shape[1], extras)[None], f.shape[:2])
        return self.model.likelihood.sample(y_key, f, extra)

    def _targets(self, y_new: Any, points: int) -> np.ndarray:
        return as_targets(y_new, points)

    def _extra(self, points: int, extras: dict[str, Any]) -> Points:
        return jnp.asarray(extra_values(self.model.likelihood, points, extras))


def summands_of(kernel: Kernel) -> dict[str, Kernel]:
    if isinstance(kernel, Sum):
        return dict(zip(kernel.names, kernel.kernels, strict=True))
    return {type(kernel).__name__.lower(): kernel}


class Chain(NamedTuple):
    """What predictions need of a posterior."""

    model: GP
    inducing: States
    origin: Float[Array, ""]
    sites: ChainSites
    marginals: tuple[PairMarginals, ...]

    @staticmethod
    def padded(
        model: GP,
        inducing: np.ndarray,
        origin: int | float,
        sites: ChainSites,
        marginals: tuple[PairMarginals, ...],
    ) -> "Chain":
        """A chain padded to one of few sizes."""
        states = len(inducing)
        size = padded_size(states)
        # The interval after the last state stays last; those put in before it are never read.
        places = np.minimum(np.arange(size + 1), states)
        sites, marginals = jax.tree.map(lambda leaf: leaf[places], (sites, marginals))
        counts = (np.arange(size + 1) < states) | (np.arange(size + 1) == size)
        sites = jax.tree.map(
            lambda leaf: jnp.where(counts.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0.0), sites
        )
        longer = jnp.asarray(pad_last(inducing, size))
        return Chain(model, longer, jnp.asarray(float(origin)), sites, marginals)


@jax.jit
def predict(chain: Chain, x: Points) -> tuple[Latent, Latent]:
    """In blocks, so that memory beyond the answer stays bounded."""

    def block(x: Points) -> tuple[Latent, Latent]:
        shape = geometry(chain.model, x, chain.inducing)
        mean, variance = latent_moments(shape.projections, chain.marginals)
        return mean + prior_mean(chain.model, x + chain.origin), variance

    if len(x) <= BLOCK:
        return block(x)
    moments = jax.lax.map(block, x.reshape(-1, BLOCK))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), moments)


@jax.jit
def component_moments(
    chain: Chain,
    x: Points,
    summands: tuple[tuple[Kernel, ...], ...],
) -> list[list[tuple[Points, Points]]]:
    shape = geometry(chain.model, x, chain.inducing)
    return [
        _split(projection, q, kernels)
        for projection, q, kernels in zip(shape.projections, chain.marginals, summands, strict=True)
    ]


def _split(
    projection: Projection, marginals: PairMarginals, summands: tuple[Kernel, ...]
) -> list[tuple[Points, Points]]:
    """Each summand owns consecutive parts of the state: the weights of the others become zero."""
    dims = np.arange(len(projection.weights) // 2)
    moments, first_dim, first_block = [], 0, 0
    for kernel in summands:
        in_summand = (dims >= first_dim) & (dims < first_dim + kernel.state_dim)
        blocks = len(kernel.blocks())
        part = Projection(
            projection.interval,
            tuple(
                projection.weights[i] if mine else jnp.zeros_like(projection.weights[i])
                for i, mine in enumerate(np.tile(in_summand, 2))
            ),
            projection.residual[first_block : first_block + blocks],
        )
        moments.append(part.marginals(marginals))
        first_dim, first_block = first_dim + kernel.state_dim, first_block + blocks
    return moments


@jax.jit(static_argnames=("num_samples", "indefinite"))
def sample(
    chain: Chain,
    key: PRNGKeyArray,
    x: Points,
    num_samples: int,
    indefinite: bool,
) -> Float[Array, "samples points *latents"]:
    """The paper's sampler: a prior sample, corrected by what the states say (appendix A.2)."""
    model, inducing = chain.model, chain.inducing
    shape = geometry(model, x, inducing)
    functions = []
    for number, kernel in enumerate(model.kernels):
        prior_key, posterior_key = jax.random.split(jax.random.fold_in(key, number))
        prior_f, prior_states = _sample_prior(kernel, prior_key, x, inducing, num_samples)
        states = sample_states(
            shape.transitions[number],
            chain.sites[number],
            posterior_key,
            num_samples,
            indefinite=indefinite,
        )
        correction = shape.projections[number].conditional_mean(states - prior_states)
        mean = model.means[number](x + chain.origin)
        functions.append(prior_f + correction + mean[None, :])
    return functions[0] if len(functions) == 1 else jnp.stack(functions, axis=-1)


def _sample_prior(
    kernel: Kernel, key: PRNGKeyArray, x: Points, inducing: States, num_samples: int
) -> tuple[Float[Array, "samples points"], Float[Array, "samples states dim"]]:
    """Joint prior samples of f at x and of the states at the inducing locations."""
    states = prior_states(kernel, key, jnp.concatenate([x, inducing]), num_samples)
    f = jnp.einsum("d,dsn->sn", kernel.emission(), states[..., : len(x)])
    return f, jnp.transpose(states[..., len(x) :], (1, 2, 0))
