"""Functions of a deep model at the inputs that a composition gives them.

A function that is called once has a mean and a variance at every input. One that is called more
often is still one function: the covariance of its values in two calls is

    Cov(f(a), f(b)) = wₐᵀ Cov(vₐ, v_b) w_b + Cov(f(a), f(b) | u),

with v the pair of states around an input and w its weights. The second term is there when a and b
lie in one interval. With a ≤ b, and n₁, n₂, n₃ the noise on the steps left→a→b→right,

    f(a) − E[f(a) | u] = (h − p₂A_{a+}) n₁ − p₂ A_{b+} n₂ − p₂ n₃        (p₂ that of a)
    f(b) − E[f(b) | u] = (h − p₂A_{b+}) (A_{ab} n₁ + n₂) − p₂ n₃         (p₂ that of b).
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._linalg import apply, dot, transpose
from stategp._models import DeepGP, Latent, Layer, Path, Values
from stategp._projection import Projection, project
from stategp.chain import PairMarginals, psd_cholesky, psd_solve

Draws = Callable[[PRNGKeyArray, tuple[int, ...]], Array]


def stratified(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Standard normal samples that cover the distribution: along the first axis, pairs ±ε with
    |ε| in as many intervals of equal probability as there are pairs.

    Each is standard normal, so that means over samples are unbiased. For a function of one draw
    they are a quadrature with random nodes; in which interval a sample lies is drawn anew for every
    call, so that for several it is what depends on one draw alone that is integrated so well.
    """
    pairs = -(-shape[0] // 2)
    inside, sign, order = jax.random.split(key, 3)
    uniform = jax.random.uniform(inside, (pairs, *shape[1:]), minval=float(np.finfo(float).tiny))
    place = jnp.arange(pairs).reshape(-1, *(1,) * (len(shape) - 1))
    place = jax.random.permutation(
        order, jnp.broadcast_to(place, uniform.shape), axis=0, independent=True
    )
    lower = jax.scipy.special.ndtri((place + uniform) / (2 * pairs))  # never 0, which is −∞
    half = lower * jax.random.rademacher(sign, uniform.shape, dtype=lower.dtype)
    return jnp.concatenate([half, -half])[: shape[0]]


def draws_of(model: DeepGP) -> tuple[Draws, Float[Array, " samples"]]:
    """What a model passes through its layers for one output: draws, or nodes, and their weights.

    The nodes of a stack are those of a grid over its inner layers; the last is not sampled.
    """
    if model.nodes is None:
        return stratified, jnp.full(model.samples, 1 / model.samples)
    points, weights = np.polynomial.hermite_e.hermegauss(model.nodes)
    inner = len(model.paths) - 1
    grid, shares = (
        np.array([*itertools.product(each, repeat=inner)]).reshape(model.samples, inner)
        for each in (points, weights / weights.sum())
    )
    nodes = iter([*jnp.asarray(grid.T), jnp.zeros(len(grid))])

    def draws(_: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jnp.broadcast_to(next(nodes)[:, None], shape)

    return draws, jnp.asarray(np.prod(shares, axis=1))


class Call(NamedTuple):
    """A function at some inputs."""

    inputs: Float[Array, " points"]
    projection: Projection
    mean: Float[Array, "samples points"]  # without the mean function


class Tape:
    """Looks functions up in a chain for each layer, and remembers every call.

    `draws` makes the standard normal samples of a call, from a key and their shape.
    """

    def __init__(
        self,
        model: DeepGP,
        chains: dict[Path, Any],
        key: PRNGKeyArray,
        taps: Any = None,
        *,
        draws: Draws = jax.random.normal,
    ):
        self.model, self.chains, self.key, self.taps, self.draws = model, chains, key, taps, draws
        self.calls: list[Call] = []
        self.functions: dict[Path, _Function] = {}

    def __call__(self, path: Path, inputs: Any) -> Latent:
        inputs = inputs.sample() if isinstance(inputs, Latent) else jnp.asarray(inputs)
        layer, (prior, marginals) = self.model.layer(path), self.chains[path]
        flat = inputs.reshape(-1)
        seen = project(layer.kernel, layer.inducing, flat, prior)
        mean, variance = (v.reshape(inputs.shape) for v in seen.marginals(marginals))
        number = len(self.calls)
        if self.taps is not None:
            mean = mean + self.taps[number]
        call = Call(flat, seen, mean)
        self.calls.append(call)
        white = self.draws(jax.random.fold_in(self.key, number), inputs.shape)
        whole = layer.mean(flat).reshape(inputs.shape) + mean
        function = self.functions.setdefault(path, _Function(layer, marginals))
        function.calls.append(call)
        return function.values.add(whole, variance, white)


class _Function:
    """All calls of one function."""

    def __init__(self, layer: Layer, marginals: PairMarginals):
        self.layer, self.marginals = layer, marginals
        self.calls: list[Call] = []
        self.values = Values(self._covariance)
        self._joint: Array | None = None

    def _covariance(self, number: int, other: int) -> Array:
        if self._joint is None:  # only where a function is called more than once
            self._joint = joint_covariance(self.marginals)
        calls = self.calls[number], self.calls[other]
        if calls[0].inputs.shape != calls[1].inputs.shape:
            raise ValueError(
                "a function of a deep model was called at inputs of different shapes, "
                f"{calls[0].mean.shape} and {calls[1].mean.shape}, and the values were added"
            )
        return covariance_between(self.layer, self._joint, *calls).reshape(calls[0].mean.shape)


def joint_covariance(marginals: PairMarginals) -> Float[Array, "ends dim ends dim"]:
    """The covariance of all states with each other, a state that is zero added at both ends."""
    dim = marginals.mean.shape[-1] // 2
    left = marginals.covariance[:, :dim, :dim]
    cross = marginals.covariance[:, :dim, dim:]
    right = jnp.moveaxis(marginals.covariance[:, dim:, dim:], 0, -1)
    root = jax.lax.stop_gradient(psd_cholesky(right))
    gains = psd_solve(right, root, transpose(jnp.moveaxis(cross, 0, -1)))
    gains = jnp.moveaxis(transpose(gains), -1, 0)  # left = gain · right + …, interval by interval
    ends = len(gains) + 1
    start = jnp.zeros((dim, ends, dim))

    def step(later: Array, inputs: Any) -> tuple[Array, Array]:
        """From the covariance of a state with those after it to that of the one before."""
        gain, covariance, number = inputs
        row = jnp.einsum("ij,jkl->ikl", gain, later).at[:, number].set(covariance)
        return row, row

    numbers = jnp.arange(ends - 1)
    _, rows = jax.lax.scan(step, start, (gains, left, numbers), reverse=True)
    upper = jnp.concatenate([rows, start[None]])
    before = jnp.arange(ends)[:, None] > jnp.arange(ends)[None]
    lower = jnp.transpose(upper, (2, 3, 0, 1))
    return jnp.where(before[:, None, :, None], lower, upper)


def covariance_between(
    layer: Layer, joint: Float[Array, "ends dim ends dim"], first: Call, second: Call
) -> Float[Array, " points"]:
    """Cov(f(a), f(b)) of the inputs of two calls, one by one."""
    dim = joint.shape[1]
    rows = [call.projection.rows.reshape(2, dim, -1) for call in (first, second)]
    places = [call.projection.interval for call in (first, second)]
    total: Any = 0.0
    for i in range(2):
        for j in range(2):
            blocks = jnp.moveaxis(joint[places[0] + i, :, places[1] + j], 0, -1)
            total = total + dot(rows[0][i], apply(blocks, rows[1][j]))
    return total + jnp.where(places[0] == places[1], _bridge(layer, first, second), 0.0)


def _bridge(layer: Layer, first: Call, second: Call) -> Float[Array, " points"]:
    """Cov(f(a), f(b) | u) for inputs of one interval; for others it means nothing."""
    kernel, inducing = layer.kernel, layer.inducing
    dim, interval = kernel.state_dim, first.projection.interval
    swap = first.inputs > second.inputs
    low = jnp.where(swap, second.inputs, first.inputs)
    high = jnp.where(swap, first.inputs, second.inputs)
    ahead = [call.projection.rows[dim:] for call in (first, second)]
    p_low = jnp.where(swap[None], ahead[1], ahead[0])
    p_high = jnp.where(swap[None], ahead[0], ahead[1])
    left, right = interval > 0, interval < len(inducing)
    start = inducing[jnp.maximum(interval - 1, 0)]
    end = inducing[jnp.minimum(interval, len(inducing) - 1)]

    def steps(length: Array, real: Any = True) -> tuple[Array, Array]:
        return kernel.step_matrices(jnp.maximum(jnp.where(real, length, 0.0), 0.0))

    _, Q_before = steps(low - start, left)
    stationary = kernel.stationary_covariance()[..., None]
    Q_before = jnp.where(left[None, None], Q_before, stationary)
    A_between, Q_between = steps(high - low)
    A_after, Q_after = steps(end - high, right)
    A_low, _ = steps(end - low, right)
    # Beyond the last state there is no right neighbour, and p₂ is zero.
    h = kernel.emission()[:, None]
    w_low = h - apply(transpose(A_low), p_low)
    w_high = h - apply(transpose(A_after), p_high)
    carried = apply(transpose(A_between), w_high)
    between = apply(Q_between, w_high)
    return (
        dot(w_low, apply(Q_before, carried))
        - dot(apply(transpose(A_after), p_low), between)
        + dot(p_low, apply(Q_after, p_high))
    )
