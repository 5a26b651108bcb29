"""log p(y) of many series at once: Gaussian observations of different numbers, side by side.

Series are padded to a common size with observations that count nothing, which the compiled kernel
passes over (`_native/evidence.hpp`); its threads share the series. Every observation has a state of
its own, those at the same input being zero apart. Series of one batch have models of the same
structure, each with its own numbers.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stategp._data import Observations, distinct_steps
from stategp._inference._exact import TRUSTED, if_within
from stategp._models import GP
from stategp._runtime import padded_size
from stategp.chain import Sites, kernel_evidence, prior_transitions, sweep
from stategp.likelihoods import Gaussian
from stategp.parameters import log_prior, with_vector

_STEPS = (8, 64)  # numbers of different steps that share a program; beyond, one for each state
_FEW = 16_384  # observations up to which sizes are far apart: what fills up costs next to nothing
_ENTRIES = 4_000_000  # numbers in one of the large arrays of a batch, at most
_SLOTS = (4, 16, 64)
_NEXT_TO_NOTHING = 1e-60  # of the precision of an observation


class Rows(NamedTuple):
    """A series, filled up; or a batch of them, with an axis in front."""

    x: Any  # as the user gave it, for the mean function
    y: Any
    extra: Any
    weights: Any
    lengths: Any  # of the steps between observations, each of them once
    which: Any  # of them leads to each observation; 0, from nothing, to the first


class Size(NamedTuple):
    """How many observations and different steps a series is filled up to."""

    points: int
    steps: int


def columns_of(data: Observations, few: int = _FEW) -> tuple[Rows, Size]:
    """A series, and one of few sizes that it is filled up to; from `few` on, an eighth at most."""
    lengths, which = distinct_steps(np.asarray(data.x))
    points = padded_size(len(data), few=few)
    steps = next((steps for steps in _STEPS if len(lengths) <= steps), points)
    x = np.asarray(data.x) + float(data.origin)
    y, extra, weights = np.asarray(data.y), np.asarray(data.extra), np.asarray(data.weights)
    lengths = lengths if len(lengths) else np.zeros(1)
    return Rows(x, y, extra, weights, lengths, which), Size(points, min(steps, points))


def empty_rows(size: Size, slots: int) -> Rows:
    """Those of a batch."""
    x, y, extra, weights = np.zeros((4, slots, size.points))
    which = np.zeros((slots, size.points), dtype=np.int32)
    return Rows(x, y, extra, weights, np.zeros((slots, size.steps)), which)


def fill(batch: Rows, slot: int, columns: Rows) -> None:
    """Put a series there: its last entries fill it up, and count nothing."""
    for whole, part in zip(batch, columns, strict=True):
        whole[slot, : len(part)] = part
        whole[slot, len(part) :] = part[-1]
    batch.weights[slot, len(columns.weights) :] = 0.0


def rows_of(data: Observations, few: int = _FEW) -> tuple[Rows, Size]:
    """A series, filled up."""
    columns, size = columns_of(data, few)
    batch = empty_rows(size, 1)
    fill(batch, 0, columns)
    return Rows(*(whole[0] for whole in batch)), size


def slots_for(size: Size, dim: int, series: int, entries: int = _ENTRIES) -> int:
    """How many series a batch of this size holds: few programs, bounded memory."""
    most = max(1, entries // ((size.steps + 1) * dim**2 + size.points))
    fitting = [slots for slots in _SLOTS if slots <= most]
    if not fitting:
        return 1
    enough = [slots for slots in fitting if slots >= series]
    return enough[0] if enough else fitting[-1]


@jax.jit
def batched_evidence(
    vectors: Float[Array, "series parameters"], models: Any, rows: Rows
) -> tuple[Float[Array, " series"], Float[Array, " series"], Float[Array, "series parameters"]]:
    """log p(y) plus the log prior of the hyperparameters, the latter alone, and the gradient.

    `models` is a GP whose every number has an axis in front.
    """

    def objective(vector: Any, model: GP, rows: Rows) -> tuple[Any, Any]:
        moved = with_vector(model, vector)
        prior = log_prior(moved)
        return _evidence(moved, rows) + prior, jnp.asarray(prior)

    differentiated = jax.value_and_grad(objective, has_aux=True)
    (values, priors), gradients = jax.vmap(differentiated)(vectors, models, rows)
    return values, priors, gradients


def _evidence(model: GP, rows: Rows) -> Float[Array, ""]:
    value, precision, scale = _seen(model, rows)
    log_density, rounding = _filtered(model, rows, value, precision)
    return if_within(TRUSTED, log_density - scale / 2, rounding, jnp.sum(rows.weights))


def _filtered(model: GP, rows: Rows, value: Any, precision: Any) -> tuple[Any, Any]:
    (kernel,) = model.kernels
    return kernel_evidence(kernel, rows.lengths, value, precision, which=rows.which)


def _seen(model: GP, rows: Rows) -> tuple[Any, Any, Any]:
    """y without the mean function, precisions, and Σ w log 2π noise."""
    assert isinstance(model.likelihood, Gaussian)
    noise = model.likelihood.variance.value + rows.extra
    scale = jnp.sum(rows.weights * jnp.log(2 * math.pi * noise))
    return rows.y - model.means[0](rows.x), rows.weights / noise, scale


@jax.jit
def batched_moments(
    models: Any, rows: Rows, relative: Float[Array, "series points"]
) -> tuple[Float[Array, "series points"], Float[Array, "series points"]]:
    """Mean and variance of f at every point of the rows, given those that count.

    `relative` are the points, in order, as differences from an origin.
    """

    def one(model: GP, rows: Rows, relative: Any) -> tuple[Any, Any]:
        (kernel,) = model.kernels
        h, dim = kernel.emission(), kernel.state_dim
        value, precision, _ = _seen(model, rows)
        # The observation of a state is in the site of the interval to its left.
        pair = jnp.concatenate([jnp.zeros(dim), h])
        linear = jnp.pad((precision * value)[:, None] * pair[None], ((0, 1), (0, 0)))
        square = precision[:, None, None] * (pair[:, None] * pair[None])[None]
        sites = Sites(linear, jnp.pad(square, ((0, 1), (0, 0), (0, 0))))
        pairs = sweep(prior_transitions(kernel, relative), sites).marginals
        mean = pairs.mean[:-1, dim:] @ h + model.means[0](rows.x)
        return mean, jnp.einsum("i,mij,j->m", h, pairs.covariance[:-1, dim:, dim:], h)

    return jax.vmap(one)(models, rows, relative)


@jax.jit
def batched_ahead(
    models: Any, rows: Rows, ahead: Bool[Array, "series points"]
) -> tuple[Float[Array, "series points"], Float[Array, "series points"]]:
    """Mean and variance of f at the points `ahead`, which come after all that count.

    For an observation v of precision j that is next to nothing, log p(y) has the slopes
    j (mean − v) in v and −½ ((v − mean)² + variance) in j. So the filter and its adjoint give both,
    in far less time than a sweep; the variance, with v at the mean, without cancellation.
    """

    def one(model: GP, rows: Rows, ahead: Any) -> tuple[Any, Any]:
        assert isinstance(model.likelihood, Gaussian)
        value, precision, _ = _seen(model, rows)
        next_to_nothing = _NEXT_TO_NOTHING / model.likelihood.variance.value
        precision = jnp.where(ahead, next_to_nothing, precision)

        def slopes(value: Any) -> tuple[Any, Any]:
            def log_density(value: Any, precision: Any) -> Any:
                return _filtered(model, rows, value, precision)[0]

            return jax.grad(log_density, argnums=(0, 1))(value, precision)

        near = jnp.where(ahead, slopes(jnp.where(ahead, 0.0, value))[0] / next_to_nothing, value)
        in_value, in_precision = slopes(near)
        apart = in_value / next_to_nothing
        return near + apart + model.means[0](rows.x), -2 * in_precision - apart**2

    return jax.vmap(one)(models, rows, ahead)
