"""Posteriors of models whose observations read mixtures of several processes."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import Observations, relative_inputs
from stategp._inference import (
    Certificate,
    FitResult,
    GroupSites,
    chain_members,
    mixed_moments,
    mixed_priors,
    mixed_shape,
    processes_strand,
)
from stategp._models import MixedGP, bare
from stategp._posteriors._pointwise import Points, by_blocks, padded
from stategp._posteriors._prediction import (
    Predicts,
    States,
    sample_prior_with_states,
    samples_to_draw,
)
from stategp._projection import project
from stategp._runtime import (
    at_once,
    finishing_compilations,
    on_device,
    refuse_traced,
)
from stategp.chain import PairMarginals, prior_transitions, sample_states

Processes = Float[Array, "samples points processes"]


class MixedPosterior(Predicts):
    """The posterior of several processes, as chains of states at shared inducing locations.

    With q="joint" there is one chain, of all their states; else one for each process. Sites and
    marginals have a first axis for chains whose states are of one size.
    """

    model: Any  # a `MixedGP`
    data: Observations  # all rows, in order of x
    places: Any  # of the rows
    padded_inducing: States  # measured from the origin, the last repeated up to one of few sizes
    sites: GroupSites
    marginals: tuple[PairMarginals, ...]
    elbo: float
    states: int = eqx.field(static=True)  # how many inducing locations there are
    fit_result: FitResult | None = eqx.field(static=True, default=None)
    certificate: Certificate | None = eqx.field(static=True, default=None)
    indefinite: bool = eqx.field(static=True, default=False)  # whether sites may subtract precision

    def update(
        self,
        x_new: Any,
        y_new: Any,
        *,
        inducing: Any = None,
        weights: Any = None,
        method: Any = None,
        progress: Any = None,
        **extras: Any,
    ) -> Any:
        """The posterior with more observations, at the end of the others or anywhere.

        Hyperparameters stay as they are. The answer is that of `sg.condition` with all observations
        and the same inducing points, and with more of them where new inputs lie beyond or in gaps
        between them; all observations are looked at again. Data come in the forms that
        `sg.condition` takes.

        Arguments:
            x_new: where the new observations are.
            y_new: observations; NaN means missing.
            inducing: other inducing points for all, as for `sg.condition`.
            weights: the number of times each new observation counts.
            method: how q is found, by default "natural".
            progress: whether to show the bound on standard error.
            extras: `noise_variance`, `exposure`, `trials` or `censored` of the new observations.

        >>> import numpy as np, stategp as sg
        >>> model = sg.MultiOutputGP(sg.kernels.Matern32(), outputs=["a", "b"])
        >>> posterior = sg.condition(model, np.arange(3), [[0, 1], [1, np.nan], [0, 1]])
        >>> posterior.update([3.0], [[0.5, 2.0]]).data.observed
        7
        """
        refuse_traced("the posterior", self)
        options = {"inducing": inducing, "method": method, "progress": progress}
        return self._with_more(x_new, y_new, {"extras": extras, "weights": weights}, options)

    @abc.abstractmethod
    def _with_more(
        self, x_new: Any, y_new: Any, beside: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """The posterior of these observations too; `beside` has what comes with them."""

    @property
    def inducing(self) -> np.ndarray:
        """The inducing locations, in the user's units."""
        return np.asarray(self.padded_inducing)[: self.states] + self.data.origin

    def _points(self, name: str, x: Any) -> np.ndarray:
        """Inputs measured from the origin."""
        refuse_traced("the posterior", self)
        return relative_inputs(name, x, self.data.origin)

    def _moments_at(self, x: np.ndarray, places: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f in rows; x is measured from the origin."""
        plain, origin = bare(self.model), np.asarray(float(self.data.origin))
        leaves, structure = jax.tree.flatten(places)

        def block(x: Any, *leaves: Any) -> Any:
            there = jax.tree.unflatten(structure, leaves)
            return _moments(plain, self.marginals, self.padded_inducing, origin, x, there)

        mean, variance = by_blocks(block, x, *leaves)
        return mean, variance

    def _offsets_at(self, x: np.ndarray, places: Any) -> np.ndarray:
        """The mean functions in rows."""
        plain, origin = bare(self.model), np.asarray(float(self.data.origin))
        leaves, structure = jax.tree.flatten(places)
        offsets: np.ndarray = by_blocks(
            lambda x, *part: _offsets(plain, origin, x, jax.tree.unflatten(structure, part)),
            x,
            *leaves,
        )
        return offsets

    def _processes_at(self, key: PRNGKeyArray, x: np.ndarray, count: int) -> np.ndarray:
        """Joint samples of all processes; x is measured from the origin."""
        whole = padded(on_device(x))
        chains = self.padded_inducing, self.sites
        negative = self.indefinite or not self.model.concave
        several = samples_to_draw(count, len(whole))
        with finishing_compilations(forget=False):
            drawn = at_once(
                lambda: _sample_processes(bare(self.model), *chains, key, whole, several, negative)
            )
        return np.asarray(drawn)[:count, : len(x)]

    def _processes_moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each process, a column for each."""
        plain = bare(self.model)
        mean, variance = by_blocks(
            lambda x: _process_moments(plain, self.marginals, self.padded_inducing, x), x
        )
        return mean, variance

    def _processes_together(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of all processes at each point."""
        plain = bare(self.model)
        if self.model.q == "product":
            mean, variance = self._processes_moments(x)
            return mean, variance[:, :, None] * np.eye(len(self.model.kernels))
        mean, covariance = by_blocks(
            lambda x: _joint_moments(plain, self.marginals, self.padded_inducing, x), x
        )
        return mean, covariance

    def _told(self, what: str) -> str:
        """A few lines for people."""
        dims = [
            sum(self.model.kernels[i].state_dim for i in members)
            if self.model.q == "joint"
            else self.model.kernels[members[0]].state_dim
            for members in chain_members(self.model)
            for _ in ([0] if self.model.q == "joint" else members)
        ]
        lines = [
            what,
            f"  {self.data.observed} observations, {self.states} inducing states of dimension "
            + " and ".join(map(str, dims)),
            f"  ELBO {self.elbo:.6g}",
        ]
        lines += [f"  {self.certificate}"] * (self.certificate is not None)
        lines += [f"  fit {self.fit_result}"] * (self.fit_result is not None)
        return "\n".join(lines)


@jax.jit
def _moments(
    model: MixedGP,
    marginals: tuple[PairMarginals, ...],
    inducing: States,
    origin: Float[Array, ""],
    x: Points,
    places: Any,
) -> tuple[Float[Array, "points *functions"], Float[Array, "points ..."]]:
    mean, variance = mixed_moments(mixed_shape(model, x, places, inducing), marginals)
    return mean + model.offset(x + origin, places), variance


@jax.jit
def _offsets(
    model: MixedGP, origin: Float[Array, ""], x: Points, places: Any
) -> Float[Array, "points *functions"]:
    return model.offset(x + origin, places)


def _of_each(model: MixedGP, groups: Any) -> list[Any]:
    """What belongs to each process: the number of its group, its chain there, and its states."""
    found: dict[int, tuple[Any, int, slice]] = {}
    for group, members in zip(groups, chain_members(model), strict=True):
        start = 0
        for chain, number in enumerate(members):
            dim = model.kernels[number].state_dim
            if model.q == "joint":
                found[number] = group, 0, slice(start, start + dim)
                start += dim
            else:
                found[number] = group, chain, slice(0, dim)
    return [found[number] for number in range(len(model.kernels))]


@jax.jit
def _process_moments(
    model: MixedGP, marginals: tuple[PairMarginals, ...], inducing: States, x: Points
) -> tuple[Float[Array, "points processes"], Float[Array, "points processes"]]:
    columns = []
    for kernel, (pairs, chain, span) in zip(model.kernels, _of_each(model, marginals), strict=True):
        whole = pairs.mean.shape[-1] // 2
        inside = np.arange(whole)[span]
        at = np.concatenate([inside, inside + whole])
        own = PairMarginals(
            pairs.mean[chain][:, at], pairs.covariance[chain][:, at[:, None], at[None]]
        )
        projection = project(kernel, inducing, x, prior_transitions(kernel, inducing))
        columns.append(projection.marginals(own))
    mean, variance = (jnp.stack(list(those), axis=-1) for those in zip(*columns, strict=True))
    return mean, variance


@jax.jit
def _joint_moments(
    model: MixedGP, marginals: tuple[PairMarginals, ...], inducing: States, x: Points
) -> tuple[Float[Array, "points processes"], Float[Array, "points processes processes"]]:
    return processes_strand(model, x, inducing).moments(marginals[0])


@jax.jit(static_argnames=("num_samples", "indefinite"))
def _sample_processes(
    model: MixedGP,
    inducing: States,
    sites: GroupSites,
    key: PRNGKeyArray,
    x: Points,
    num_samples: int,
    indefinite: bool,
) -> Processes:
    """Prior samples of every process, corrected by what posterior samples of the states say."""
    drawn = []
    priors = mixed_priors(model, inducing)
    for number, (prior, site) in enumerate(zip(priors, sites, strict=True)):
        keys = jax.random.split(jax.random.fold_in(key, number), len(prior.A))
        drawn.append(
            jax.vmap(lambda p, s, k: sample_states(p, s, k, num_samples, indefinite=indefinite))(
                prior, site, keys
            )
        )
    functions = []
    for number, (kernel, (states, chain, span)) in enumerate(
        zip(model.kernels, _of_each(model, drawn), strict=True)
    ):
        own_key = jax.random.fold_in(key, len(drawn) + number)
        g, then = sample_prior_with_states(kernel, own_key, x, inducing, num_samples)
        projection = project(kernel, inducing, x, prior_transitions(kernel, inducing))
        functions.append(g + projection.conditional_mean(states[chain][..., span] - then))
    return jnp.stack(functions, axis=-1)
