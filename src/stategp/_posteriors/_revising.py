"""The last observations of a stream, whose sites are revised when later ones come.

A site that is not Gaussian depends on q, and so on what comes after it. That influence fades along
the chain, as the kernel forgets. So the last observations are kept beside the state before them,
and their sites are found together, as those of a chain that begins with that state.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._inference import (
    Geometry,
    begin,
    columns,
    gather_sites,
    latent_moments,
    settle,
    stack,
)
from stategp._models import GP
from stategp._posteriors._stepping import FilterState, States, Stepper, model_of, seen
from stategp._projection import AtStates
from stategp._runtime import pad_last
from stategp.chain import Transitions, step_transitions
from stategp.kernels import Kernel
from stategp.means import Mean

_STEPS = 100
_TOLERANCE = 1e-21  # square of what a step may move f at the end, in deviations


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Recent:
    """The last observations, their sites, and what was known before the first of them."""

    before: States  # at the time of the first observation
    steps: np.ndarray  # from each observation to the next; the first is 0
    y: np.ndarray
    extra: np.ndarray
    weights: np.ndarray
    centre: np.ndarray  # the mean functions there, a column for each latent function
    linear: np.ndarray  # sites of f without the mean function, a column for each as well
    precision: np.ndarray

    @staticmethod
    def none(states: States) -> "Recent":
        """No observations yet, after these states."""
        row, table = np.zeros(0), np.zeros((0, len(states)))
        return Recent(states, row, row, row, row, table, table, table)

    def __len__(self) -> int:
        return len(self.steps)

    def with_more(
        self, stepper: Stepper, steps: np.ndarray, x: np.ndarray, y: np.ndarray, extra: np.ndarray
    ) -> "tuple[Recent, States]":
        """With later observations, all sites found together; and the states after the last."""
        before = self.before
        if len(self) == 0:
            before = stepper.advance(before, float(steps[0]), None)
            steps = np.append(0.0, steps[1:])
        none = np.zeros((len(y), len(before)))
        new = steps, y, extra, np.ones(len(y)), stepper.centres(x), none, none
        pairs = zip(self._rows(), new, strict=True)
        return Recent(before, *(np.concatenate(both) for both in pairs)).settled(stepper)

    def settled(self, stepper: Stepper) -> "tuple[Recent, States]":
        """With all sites at their optimum, and the states after the last observation."""
        count, size = len(self), _size(len(self))
        rows = [pad_last(row, size) for row in self._rows()]
        for fill in (0, 3, 5, 6):  # no steps, no weight, no sites
            rows[fill][count:] = 0.0
        linear, precision, states, fine = stepper.call(_revise, *rows, self.before)
        if not fine:  # negative sites from before may leave no normal distribution: from none
            rows[5:] = [np.zeros_like(row) for row in rows[5:]]
            linear, precision, states, fine = stepper.call(_revise, *rows, self.before)
        if not fine:
            raise FloatingPointError(
                f"the sites of the last {count} observations could not be found together: follow "
                "the stream without lag, or call posterior.update with all observations"
            )
        found = dataclasses.replace(self, linear=linear[:count], precision=precision[:count])
        return found, tuple(FilterState(mean, P) for mean, P in states)

    def without_first(self, stepper: Stepper, count: int) -> "Recent":
        """Without the first observations, which keep their sites for ever.

        Those from the first on stay too whose negative site would leave no normal distribution.
        """
        states = self.before
        rows = [self.steps.tolist(), self.linear.tolist(), self.precision.tolist()]
        for number, (step, linear, precision) in enumerate(zip(*rows, strict=True)):
            if number > 0:
                states = stepper.advance(states, step, None)
            sites = list(zip(states, stepper.emissions, linear, precision, strict=True))
            grown = [1 + weight * float(h @ state.covariance @ h) for state, h, _, weight in sites]
            if number == count or min(grown) <= 0:
                break
            states = tuple(
                seen(state, h, weight, pull - weight * float(h @ state.mean))
                for state, h, pull, weight in sites
            )
        kept = [row[number:] for row in self._rows()]
        kept[0] = np.append(0.0, kept[0][1:])
        return Recent(states, *kept)

    def _rows(self) -> list[np.ndarray]:
        """All columns."""
        beside = [self.y, self.extra, self.weights, self.centre]
        return [self.steps, *beside, self.linear, self.precision]


def _size(count: int) -> int:
    """One of few sizes: a power of two."""
    return max(8, 1 << (count - 1).bit_length())


class _Known(Mean):
    """A mean function by its values where it will be asked."""

    values: Float[Array, " points"]

    def __call__(self, x: Float[Array, " points"]) -> Float[Array, " points"]:
        return self.values


@functools.lru_cache(maxsize=64)
def _revise(structure: Any) -> Any:
    @jax.jit
    def program(
        leaves: Any,
        steps: Array,
        y: Array,
        extra: Array,
        weights: Array,
        centre: Array,
        linear: Array,
        precision: Array,
        before: States,
    ) -> Any:
        model, x = model_of(structure, leaves), jnp.cumsum(steps)
        # The mean that was known before goes into the mean functions, so that the chain has none.
        carried = [
            _means_of(kernel, x, mean)
            for kernel, (mean, _) in zip(model.kernels, before, strict=True)
        ]
        emissions = [kernel.emission() for kernel in model.kernels]
        shifts = [h @ m for h, m in zip(emissions, carried, strict=True)]
        means = tuple(_Known(centre[:, i] + shift) for i, shift in enumerate(shifts))
        chain = GP(model.kernels, model.likelihood, means)
        data = Observations(x, y, extra, weights, 0.0)
        shape = _geometry(chain.kernels, steps, before)
        known = jnp.stack(shifts, axis=1)
        start = linear - precision * known
        sites = gather_sites(shape, _latent(start), _latent(precision))
        state = settle(chain, data, shape, begin(chain, data, shape, sites), _STEPS, _TOLERANCE)
        q, expected = state.q, state.q.expected
        assert expected is not None
        mean, _ = latent_moments(shape.projections, q.marginals)
        wanted = jnp.stack(columns(-2 * expected.curvature), axis=1)
        pulls = jnp.stack(columns(expected.slope), axis=1)
        pulls = pulls + wanted * (jnp.stack(columns(mean), axis=1) + known)
        ends = []
        for pairs, m in zip(q.marginals, carried, strict=True):
            dim = len(m)
            ends.append((pairs.mean[-1, :dim] + m[:, -1], pairs.covariance[-1, :dim, :dim]))
        return pulls, wanted, tuple(ends), jnp.isfinite(q.elbo) & state.done

    return program


def _latent(table: Float[Array, "points latents"]) -> Array:
    return stack([table[:, i] for i in range(table.shape[1])])


def _means_of(kernel: Kernel, x: Array, mean: Any) -> Float[Array, "dim points"]:
    """The mean of the state at later times, from that at the first."""
    return jnp.einsum("ijn,j->in", kernel.step_matrices(x)[0], mean)


def _geometry(kernels: tuple[Kernel, ...], steps: Array, before: States) -> Geometry:
    """A state for each observation; the first one is known as it was before."""
    priors, at = [], []
    for kernel, (_, covariance) in zip(kernels, before, strict=True):
        moves = step_transitions(kernel, steps[1:])
        padded = jax.tree.map(lambda leaf: jnp.pad(leaf, ((0, 1), (0, 0), (0, 0))), moves)
        priors.append(Transitions(padded.A, padded.Q.at[0].set(covariance)))
        at.append(AtStates(jnp.arange(len(steps)), kernel.emission()))
    return Geometry(tuple(priors), tuple(at))
