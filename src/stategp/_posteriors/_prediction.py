"""From a chain of states to f at new points: moments, summands, joint samples."""

import abc
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import extra_values
from stategp._files import save
from stategp._inference import ChainSites, geometry
from stategp._models import GP, bare, prior_states
from stategp._posteriors._marginals import as_targets, marginals_at
from stategp._posteriors._pointwise import Latent, Points, check_levels, padded
from stategp._posteriors._shown import Shown
from stategp._runtime import (
    as_key,
    at_once,
    finishing_compilations,
    is_traced,
    on_device,
    pad_last,
    padded_size,
    quick_jit,
)
from stategp.chain import PairMarginals, sample_states
from stategp.kernels import Kernel, Sum
from stategp.likelihoods import Likelihood

States = Float[Array, " states"]

_CHEAP = 100_000  # values of f that are drawn in no time


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

    def update(self, *_: Any, **__: Any) -> Any:
        """The posterior with more observations, where there is such a way."""
        raise NotImplementedError(
            f"a {type(self).__name__} has no update: give all of the data to "
            "sg.condition(posterior.model, x, y)"
        )

    def filter(self, *_: Any, **__: Any) -> Any:
        """What forecasts need of the posterior of an `sg.GP`, kept up to date one by one."""
        raise NotImplementedError(
            f"a {type(self).__name__} has no filter, which is for an sg.GP: give all of the data "
            "to sg.condition(posterior.model, x, y)"
        )

    def save(self, path: Any) -> None:
        """Write the posterior to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def predict_y(self, x_new: Any, **extras: Any) -> tuple[Points, Points]:
        """Mean and variance of a new observation.

        Other quantities that the likelihood needs are given by name, as for `fit`: `noise_variance`
        (the known part), `exposure` or `trials`.
        """
        return marginals_at(self, x_new, **extras).moments()

    def predict_probabilities(self, x_new: Any) -> Float[Array, "points outcomes"]:
        """The probability of each label, level or class of a new observation.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Softmax(classes=3))
        >>> posterior = sg.condition(model, np.arange(6), [0, 0, 1, 1, 2, 2])
        >>> posterior.predict_probabilities([0.5, 4.5]).argmax(axis=1).tolist()
        [0, 2]
        """
        return marginals_at(self, x_new).probabilities()

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
        f_key, y_key = _two_keys(as_key(key))
        f = self.sample_f(f_key, x_new, num_samples)
        extra = np.broadcast_to(self._extra(f.shape[1], extras)[None], f.shape[:2])
        return observe_samples(self.model.likelihood, y_key, f, extra)

    def _targets(self, y_new: Any, points: int) -> np.ndarray:
        return as_targets(y_new, points)

    def _extra(self, points: int, extras: dict[str, Any]) -> np.ndarray:
        return np.asarray(extra_values(self.model.likelihood, points, extras))


@jax.jit
def _two_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    one, other = jax.random.split(key)
    return one, other


def observe_samples(
    likelihood: Likelihood, key: PRNGKeyArray, f: Array, extra: np.ndarray
) -> Float[Array, "samples points"]:
    """An observation for every sample of f, drawn for few sizes as the samples are."""
    if is_traced((key, f)) or f.size == 0:
        return likelihood.sample(key, f, jnp.asarray(extra))
    points = padded_size(f.shape[1])
    shape = (samples_to_draw(len(f), points), points)
    more = [(0, shape[0] - f.shape[0]), (0, shape[1] - f.shape[1])]
    whole = np.pad(np.asarray(f), [*more, *[(0, 0)] * (f.ndim - 2)], mode="edge")
    with finishing_compilations(forget=False):
        drawn = at_once(
            lambda: _draw(bare(likelihood), key, whole, np.pad(extra, more, mode="edge"))
        )
    observations: Float[Array, "samples points"] = on_device(
        np.asarray(drawn)[: f.shape[0], : f.shape[1]]
    )
    return observations


@quick_jit(rows="f")
def _draw(likelihood: Likelihood, key: PRNGKeyArray, f: Array, extra: Array) -> Array:
    return likelihood.sample(key, f, extra)


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
        least: int = 1,
    ) -> "Chain":
        """A chain padded to one of few sizes, `least` or more."""
        states = len(inducing)
        size = padded_size(max(states, least))
        # The interval after the last state stays last; those put in before it are never read.
        places = np.minimum(np.arange(size + 1), states)
        counts = (np.arange(size + 1) < states) | (np.arange(size + 1) == size)

        def longer(leaf: Any) -> np.ndarray:
            return np.asarray(leaf)[places]

        def blank(leaf: Any) -> np.ndarray:
            return np.where(counts.reshape(-1, *[1] * (leaf.ndim - 1)), longer(leaf), 0.0)

        numbers = (
            pad_last(inducing, size),
            np.asarray(float(origin)),
            jax.tree.map(blank, sites),
            jax.tree.map(longer, marginals),
        )
        return Chain(model, *on_device(numbers))

    @property
    def bare(self) -> "Chain":
        """Without what changes no computation, so that models that differ in it share programs."""
        return self._replace(model=bare(self.model))


def sample(
    chain: Chain, key: PRNGKeyArray, x: Points, num_samples: int, indefinite: bool
) -> Float[Array, "samples points *latents"]:
    """Joint samples of f at points in any order."""
    whole, plain = padded(x), chain.bare
    count = samples_to_draw(num_samples, len(whole))
    if is_traced((key, x)):
        return _sample(plain, key, whole, count, indefinite)[:num_samples, : len(x)]
    with finishing_compilations(forget=False):
        drawn = np.asarray(at_once(lambda: _sample(plain, key, whole, count, indefinite)))
    functions: Float[Array, "samples points *latents"] = on_device(drawn[:num_samples, : len(x)])
    return functions


def samples_to_draw(wanted: int, points: int) -> int:
    """One of few numbers, if samples are cheap: 1, 4, 16, 64, …"""
    enough = 4 ** math.ceil(math.log(max(wanted, 1), 4) - 1e-9)
    return enough if enough * points <= _CHEAP else wanted


@quick_jit(rows=("chain", "x"), static_argnames=("num_samples", "indefinite"))
def _sample(
    chain: Chain, key: PRNGKeyArray, x: Points, num_samples: int, indefinite: bool
) -> Float[Array, "samples points *latents"]:
    """The paper's sampler: a prior sample, corrected by what the states say (appendix A.2)."""
    model, inducing = chain.model, chain.inducing
    shape = geometry(model, x, inducing)
    functions = []
    for number, kernel in enumerate(model.kernels):
        prior_key, posterior_key = jax.random.split(jax.random.fold_in(key, number))
        points = (x, inducing, num_samples)
        prior_f, prior_states = sample_prior_with_states(kernel, prior_key, *points)
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


def sample_prior_with_states(
    kernel: Kernel, key: PRNGKeyArray, x: Points, inducing: States, num_samples: int
) -> tuple[Float[Array, "samples points"], Float[Array, "samples states dim"]]:
    """Joint prior samples of f at x and of the states at the inducing locations."""
    states = prior_states(kernel, key, jnp.concatenate([x, inducing]), num_samples)
    f = jnp.sum(kernel.emission_at(x)[:, None] * states[..., : len(x)], axis=0)
    return f, jnp.transpose(states[..., len(x) :], (1, 2, 0))
