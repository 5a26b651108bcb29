"""One step of a filter at a time, in NumPy: a call of a compiled program would take longer.

A step goes from the state at one time to the state at a later one, and takes in one observation.
What needs JAX is kept (the matrices of a step, by its length), or is small: the site of an
observation that is not Gaussian.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._inference import prior_mean
from stategp._models import GP, bare
from stategp._posteriors._single_site import variational_site
from stategp._runtime import finishing_compilations, on_device, pad_last, padded_size
from stategp.likelihoods import Gaussian
from stategp.means import Constant, Mean, Zero

_KEPT = 512  # lengths of steps whose matrices are kept
_SMALL = 1e-6  # share of noise in what is seen, below which covariances are updated with more care

States = tuple["FilterState", ...]  # one for each latent function
Matrices = tuple[tuple[np.ndarray, np.ndarray], ...]  # A and Q for each latent function


class FilterState(NamedTuple):
    """The state of one latent function: a normal distribution."""

    mean: np.ndarray
    covariance: np.ndarray


class Stepper:
    """The steps of one model."""

    def __init__(self, model: GP):
        plain = bare(model)
        leaves, self.structure = jax.tree.flatten(plain)
        self.leaves = tuple(leaves)
        self.kept: dict[float, Matrices] = {}
        self.ready: set[Any] = set()  # programs that have been compiled
        self.emissions = tuple(np.asarray(kernel.emission()) for kernel in plain.kernels)
        self.prior = tuple(
            FilterState(np.zeros(len(h)), np.asarray(kernel.stationary_covariance()))
            for h, kernel in zip(self.emissions, plain.kernels, strict=True)
        )
        likelihood = model.likelihood
        self.noise = float(likelihood.variance) if isinstance(likelihood, Gaussian) else None
        self.extra = likelihood.extra_default if likelihood.extra else 0.0
        self.valid = likelihood.valid
        self.levels = _levels(model.means)

    def accepts(self, y: int | float) -> bool:
        """Whether this can be observed."""
        if self.noise is not None:
            return self.noise > 0 and math.isfinite(y)
        return math.isfinite(y) and bool(self.valid(np.array([y]), np.array([self.extra]))[0])

    def advance(self, states: States, step: float, memory: float | None) -> States:
        """The states after a step; with a memory they fade as it passes."""
        if step == 0:
            return states
        pairs = zip(states, self.matrices(step), strict=True)
        after = tuple(moved(state, A, Q) for state, (A, Q) in pairs)
        if memory is None:
            return after
        share = math.exp(-step / memory)
        both = zip(after, self.prior, strict=True)
        return tuple(faded(state, prior.covariance, share) for state, prior in both)

    def take(self, states: States, x: int | float, y: float, extra: float) -> States:
        """The states after an observation at their time."""
        centre = self.levels if self.levels is not None else self.centres(np.array([float(x)]))[0]
        if self.noise is not None:
            (state,), h = states, self.emissions[0]
            precision = 1 / (self.noise + extra)
            return (seen(state, h, precision, precision * (y - centre[0] - h @ state.mean)),)
        pairs = list(zip(states, self.emissions, strict=True))
        mean = np.array([h @ state.mean for state, h in pairs]) + centre
        variance = np.array([h @ state.covariance @ h for state, h in pairs])
        pulls, precisions = self.site(y, mean, np.maximum(variance, 0.0), extra)
        sites = zip(pairs, precisions.tolist(), pulls.tolist(), strict=True)
        return tuple(seen(state, h, precision, pull) for (state, h), precision, pull in sites)

    def centres(self, x: np.ndarray) -> np.ndarray:
        """The mean functions at some points, a row for each."""
        if self.levels is not None or len(x) == 0:
            return np.zeros((len(x), len(self.emissions))) + (
                0.0 if self.levels is None else self.levels
            )
        whole = pad_last(x, padded_size(len(x)) if len(x) > 1 else 1)
        means: np.ndarray = self.call(_means, on_device(whole))
        return means.reshape(len(whole), -1)[: len(x)]

    def matrices(self, step: float) -> Matrices:
        """A and Q of a step, for each latent function."""
        found = self.kept.get(step)
        if found is None:
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            found = self.kept[step] = self._apart(self.call(_matrices, np.asarray(step)))
        return found

    def _apart(self, together: np.ndarray) -> Matrices:
        """A and Q of each latent function, from all of their entries in one array."""
        own, pairs, begin = together.copy(), [], 0
        for h in self.emissions:
            end = begin + 2 * len(h) ** 2
            A, Q = own[begin:end].reshape(2, len(h), len(h))
            pairs.append((A, Q))
            begin = end
        return tuple(pairs)

    def all_matrices(self, steps: np.ndarray) -> Matrices:
        """The same for many steps together, along the first axis."""
        whole = pad_last(steps, padded_size(len(steps)))
        found = self.call(_all_matrices, on_device(whole))
        return tuple((A[: len(steps)], Q[: len(steps)]) for A, Q in found)

    def prepare(self, steps: np.ndarray) -> None:
        """Compute the matrices of steps to come together."""
        new = np.array([step for step in np.unique(steps) if step > 0 and step not in self.kept])
        if 1 < len(new) <= _KEPT:
            if len(self.kept) + len(new) > _KEPT:
                self.kept.clear()
            found = self.all_matrices(new)
            for number, step in enumerate(new.tolist()):
                self.kept[step] = tuple((A[number], Q[number]) for A, Q in found)

    def site(
        self, y: float, mean: np.ndarray, variance: np.ndarray, extra: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The pull and the precision that an observation adds to f, which was normal before it."""
        numbers = [np.asarray(y), mean, variance, np.asarray(extra)]
        found: tuple[np.ndarray, np.ndarray] = self.call(_site, *numbers)
        return found

    def slopes(
        self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, extra: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the expected log density of observations in the moments of f.

        A row for each, a column for each latent function.
        """
        size = padded_size(len(y))
        rows = [pad_last(column, size) for column in (y, mean, variance, extra)]
        found = self.call(_slopes, *rows)
        slope, curvature = (part.reshape(size, -1)[: len(y)] for part in found)
        return slope, curvature

    def call(self, program: Any, *arguments: Any) -> Any:
        """What a program for this structure of models says of this one."""
        compiled = program(self.structure)
        key = program, arguments[0].shape
        if key not in self.ready:
            with finishing_compilations(forget=False):
                compiled(self.leaves, *arguments)
            self.ready.add(key)
        return jax.tree.map(np.asarray, compiled(self.leaves, *arguments))


def _levels(means: tuple[Mean, ...]) -> np.ndarray | None:
    """The mean functions, if they are constants."""
    levels = []
    for mean in means:
        if isinstance(mean, Constant):
            levels.append(float(mean.value))
        elif isinstance(mean, Zero):
            levels.append(0.0)
        else:
            return None
    return np.array(levels)


def moved(state: FilterState, A: np.ndarray, Q: np.ndarray) -> FilterState:
    """The state after a step."""
    covariance = A @ state.covariance @ A.T
    covariance += Q
    return FilterState(A @ state.mean, covariance)


def faded(state: FilterState, prior: np.ndarray, share: float) -> FilterState:
    """The state if only a share of what is known beyond the prior still counted.

    The precision becomes share · P⁻¹ + (1 − share) · P₀⁻¹, without an inverse.
    """
    mean, P = state
    gone = 1 - share
    mix = share * prior + gone * P
    size = np.sqrt(np.maximum(np.diagonal(mix), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = mix * scale[:, None] * scale
    np.fill_diagonal(scaled, 1.0)  # directions without any variance stay as they are
    try:
        X = (np.linalg.solve(scaled, scale[:, None] * P) * scale[:, None]).T
    except np.linalg.LinAlgError:
        X = (np.linalg.pinv(scaled, hermitian=True) @ (scale[:, None] * P) * scale[:, None]).T
    covariance = P + gone * (X @ (prior - P))
    return FilterState(mean - gone * (X @ mean), (covariance + covariance.T) / 2)


def seen(state: FilterState, h: np.ndarray, precision: float, pull: float) -> FilterState:
    """The state after something was seen of f: a precision, and a pull away from its mean."""
    mean, P = state
    shared = P @ h
    variance = float(h @ shared)
    grown = 1 + precision * variance
    gain = shared / grown
    if precision * variance * _SMALL < 1:
        covariance = P - (precision * gain)[:, None] * shared
    else:  # the sum of two positive matrices (Joseph)
        keep = np.eye(len(h)) - (precision * gain)[:, None] * h
        covariance = keep @ P @ keep.T + (precision * gain)[:, None] * gain
        covariance = (covariance + covariance.T) / 2
    return FilterState(mean + pull * gain, covariance)


def even(states: States) -> States:
    """The same with covariances that rounding has not made uneven."""
    return tuple(FilterState(m, (P + P.T) / 2) for m, P in states)


def log_normal(error: float, variance: float) -> float:
    """The log density of an error."""
    return -(math.log(2 * math.pi * variance) + error * error / variance) / 2


def model_of(structure: Any, leaves: Any) -> GP:
    """The model that was taken apart for a program."""
    model: GP = jax.tree.unflatten(structure, leaves)
    return model


@functools.lru_cache(maxsize=64)
def _matrices(structure: Any) -> Any:
    @jax.jit
    def program(leaves: Any, step: Float[Array, ""]) -> Any:
        # In one array: each that JAX returns takes some microseconds.
        steps = [kernel.step_matrices(step[None]) for kernel in model_of(structure, leaves).kernels]
        return jnp.concatenate([matrix.reshape(-1) for pair in steps for matrix in pair])

    return program


@functools.lru_cache(maxsize=64)
def _all_matrices(structure: Any) -> Any:
    @jax.jit
    def program(leaves: Any, steps: Float[Array, " steps"]) -> Any:
        pairs = [kernel.step_matrices(steps) for kernel in model_of(structure, leaves).kernels]
        return tuple((jnp.moveaxis(A, -1, 0), jnp.moveaxis(Q, -1, 0)) for A, Q in pairs)

    return program


@functools.lru_cache(maxsize=64)
def _means(structure: Any) -> Any:
    @jax.jit
    def program(leaves: Any, x: Float[Array, " points"]) -> Any:
        return prior_mean(model_of(structure, leaves), x)

    return program


@functools.lru_cache(maxsize=64)
def _site(structure: Any) -> Any:
    @jax.jit
    def program(leaves: Any, y: Array, mean: Array, variance: Array, extra: Array) -> Any:
        return variational_site(model_of(structure, leaves).likelihood, y, mean, variance, extra)

    return program


@functools.lru_cache(maxsize=64)
def _slopes(structure: Any) -> Any:
    @jax.jit
    def program(leaves: Any, y: Array, mean: Array, variance: Array, extra: Array) -> Any:
        likelihood = model_of(structure, leaves).likelihood
        return likelihood.expected_slopes(y, mean, variance, extra)[1:]

    return program
