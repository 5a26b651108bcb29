"""Doubly stochastic inference for compositions of layers.

Every layer has a chain q of its own; they are independent. An observation passes samples through
the inner layers and meets the likelihood with the mean and variance of the last one. Every call of
a layer is seen through its mean at the inputs it got, m, to which zeros (taps) are added: the
derivative g of the expected log density in the taps is what the observation says about m there.
How certain it is comes from the curvature w of the last expectation, carried back through the
composition: precision J² w, where J is the derivative of the output in the tap (Gauss–Newton; exact
for the last layer, and never negative). From (g, precision) follow sites as in every other model:
linear term g + precision·m.

A function that is called more than once is one function, and its values are drawn jointly
(`_deep_tape`). The slopes of its calls add up, so that the means go where they should. What an
observation says about two of its values together is a factor across two intervals, which a chain
cannot hold: precisions are added call by call. `method="gradient"` follows the whole bound.

Hyperparameters move along the gradient of the bound at fixed q.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._inference._deep_tape import Tape
from stategp._inference._optimisers import move
from stategp._inference._xi import difference, logarithmic, prior_chain
from stategp._models import DeepGP, Latent, Path
from stategp.chain import (
    MeanCholesky,
    PairMarginals,
    Sites,
    Swept,
    expected_log_sites,
    kl_divergence,
    local_log_normaliser,
    prior_transitions,
    sweep,
)
from stategp.parameters import log_prior, with_vector

_CERTAIN = 1e-2  # the standard deviation of q at its start, in those of the prior


class Output(eqx.Module):
    """The observations of one output, and how often each counts."""

    x: Float[Array, " points"]
    y: Float[Array, " points"]
    extra: Float[Array, " points"]
    weights: Float[Array, " points"]

    def repeated(self, samples: int) -> tuple[Array, Array, Array]:
        """y, extra and weights for each of some samples."""
        shape = samples, len(self.y)
        y, extra, weights = (
            jnp.broadcast_to(v[None], shape) for v in (self.y, self.extra, self.weights)
        )
        return y, extra, weights


def run_output(
    model: DeepGP, tape: Tape, output: Output, number: int
) -> tuple[Float[Array, "samples points"], Float[Array, "samples points"]]:
    """Mean and variance of one output, for samples of everything before its last layer."""
    x = jnp.broadcast_to(output.x[None], (model.samples, len(output.x)))
    composed = model.compose(tape, x, number)
    if isinstance(composed, Latent):
        return composed.mean, composed.variance
    composed = jnp.asarray(composed)
    return composed, jnp.zeros_like(composed)


def trace_paths(
    model: DeepGP, outputs: tuple[Output, ...]
) -> list[list[tuple[Path, tuple[int, ...]]]]:
    """Which functions each output calls, and the shapes of their inputs."""
    return [trace_calls(model, number, len(output.x)) for number, output in enumerate(outputs)]


def trace_calls(model: DeepGP, number: int, points: int) -> list[tuple[Path, tuple[int, ...]]]:
    """The same for one output with some points."""
    visited: list[tuple[Path, tuple[int, ...]]] = []

    def visit(path: Path, inputs: Any) -> Latent:
        inputs = inputs.sample() if isinstance(inputs, Latent) else jnp.asarray(inputs)
        visited.append((path, inputs.shape))
        return Latent.known(inputs)

    def run(x: Array) -> Array:
        return jnp.asarray(model.compose(visit, x, number))

    out = jax.eval_shape(run, jnp.zeros((model.samples, points)))
    if out.shape != (model.samples, points):
        raise ValueError(
            "the function of a deep model must give one value for each input, got shape "
            f"{out.shape} for inputs of shape {(model.samples, points)}"
        )
    return visited


class DeepState(NamedTuple):
    """Hyperparameters (each in its own scale), what the optimiser remembers, and q."""

    scaled: Float[Array, " parameters"]
    memory: Any
    sites: dict[Path, Sites]


def first_sites(model: DeepGP) -> dict[Path, Sites]:
    """q starts near the mean functions, with little uncertainty."""
    sites_by_path = {}
    for path in model.paths:
        layer = model.layer(path)
        h, kernel = layer.kernel.emission(), layer.kernel
        variance = kernel.covariance(jnp.zeros(()))
        sites = Sites.zeros(layer.count + 1, kernel.state_dim)
        tight = h[:, None] * h[None] / (_CERTAIN**2 * variance)
        dim = kernel.state_dim
        precision = sites.precision.at[1:, :dim, :dim].set(tight[None])
        sites_by_path[path] = Sites(sites.linear, precision)
    return sites_by_path


def deep_chains(
    model: DeepGP, sites: dict[Path, Sites], indefinite: bool
) -> dict[Path, tuple[Any, Swept]]:
    """The prior of every layer, and q, whose sites may be negative if `indefinite`."""
    chains = {}
    for path in model.paths:
        layer = model.layer(path)
        prior = prior_transitions(layer.kernel, layer.inducing)
        prior_here, sites_here = jax.lax.stop_gradient((prior, sites[path]))
        chains[path] = prior, sweep(prior_here, sites_here, indefinite=indefinite)
    return chains


def deep_step(
    optimiser: Any,
    state: DeepState,
    model: DeepGP,
    outputs: tuple[Output, ...],
    scales: Float[Array, " parameters"],
    size: Float[Array, ""],
    key: PRNGKeyArray,
    *,
    indefinite: bool = False,
) -> tuple[DeepState, Float[Array, ""]]:
    """One step of every q along its natural gradient, and of the hyperparameters."""
    samples = model.samples
    shapes = [[shape for _, shape in visited] for visited in trace_paths(model, outputs)]
    zeros = [[jnp.zeros(shape) for shape in each] for each in shapes]
    paths: list[list[Path]] = []

    def run(scaled: Array, taps: Any) -> tuple[tuple[Array, Array], Any]:
        moved = with_vector(model, scaled * scales)
        chains = deep_chains(moved, state.sites, indefinite)
        seen = {path: (prior, swept.marginals) for path, (prior, swept) in chains.items()}
        fit, carried, calls = jnp.zeros(()), jnp.zeros(()), []
        paths.clear()
        for number, output in enumerate(outputs):
            tape = Tape(moved, seen, jax.random.fold_in(key, number), taps[number])
            mean, variance = run_output(moved, tape, output, number)
            y, extra, weights = output.repeated(samples)
            value = moved.likelihood.expected_log_density(y, mean, variance, extra)
            fit += jnp.sum(weights * value) / samples
            mean_here, variance_here = jax.lax.stop_gradient((mean, variance))
            _, _, curvature = moved.likelihood.expected_slopes(y, mean_here, variance_here, extra)
            root = jax.lax.stop_gradient(jnp.sqrt(jnp.maximum(-2 * curvature, 0.0)))
            carried += jnp.sum(root * mean)
            calls.append(tape.calls)
            paths.append(tape.paths)
        penalty = jnp.zeros(())
        local = jnp.zeros(())
        for path, (prior, swept) in chains.items():
            penalty += expected_log_sites(state.sites[path], swept.marginals) - swept.log_normaliser
            local += local_log_normaliser(prior, state.sites[path], swept.messages)
        partial = fit + local + log_prior(moved)
        bound = fit - penalty + log_prior(moved)
        bound = jax.lax.stop_gradient(bound) + partial - jax.lax.stop_gradient(partial)
        return (bound, carried), calls

    (bound, _), pull, calls = jax.vjp(run, state.scaled, zeros, has_aux=True)
    one, nothing = jnp.ones(()), jnp.zeros(())
    gradient, slopes = pull((one, nothing))
    _, carried = pull((nothing, one))
    targets = {
        path: Sites.zeros(model.layer(path).count + 1, model.layer(path).kernel.state_dim)
        for path in model.paths
    }
    for output, *of_calls in zip(outputs, paths, calls, slopes, carried, strict=True):
        for path, call, slope, root in zip(*of_calls, strict=True):
            precision = output.weights[None] * root**2 / samples
            linear = slope + precision * call.mean
            intervals = model.layer(path).count + 1
            gathered = call.projection.gather(linear.reshape(-1), precision.reshape(-1), intervals)
            targets[path] = jax.tree.map(jnp.add, targets[path], gathered)
    count = sum(jnp.sum(output.weights) for output in outputs)
    scaled, memory = move(optimiser, state, bound / count, gradient / count)
    sites = {path: state.sites[path].mix(targets[path], size) for path in model.paths}
    return DeepState(scaled, memory, sites), bound


def estimate_bound(
    model: DeepGP,
    sites: dict[Path, Sites],
    chains: dict[Path, tuple[Any, Swept]],
    outputs: tuple[Output, ...],
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """The bound at given sites, without the prior of the hyperparameters."""
    seen = {path: (prior, swept.marginals) for path, (prior, swept) in chains.items()}
    bound = _expected_fit(model, seen, outputs, key)
    for path, (_, swept) in chains.items():
        bound += swept.log_normaliser - expected_log_sites(sites[path], swept.marginals)
    return bound


def _expected_fit(
    model: DeepGP, seen: dict[Path, Any], outputs: tuple[Output, ...], key: PRNGKeyArray
) -> Float[Array, ""]:
    fit = jnp.zeros(())
    for number, output in enumerate(outputs):
        tape = Tape(model, seen, jax.random.fold_in(key, number))
        mean, variance = run_output(model, tape, output, number)
        y, extra, weights = output.repeated(model.samples)
        value = model.likelihood.expected_log_density(y, mean, variance, extra)
        fit += jnp.sum(weights * value) / model.samples
    return fit


# --- one optimiser on everything ---------------------------------------------------------------


class DeepEverything(NamedTuple):
    """Hyperparameters (each in its own scale) and ξ of every layer, without constraints."""

    scaled: Float[Array, " parameters"]
    xi: dict[Path, MeanCholesky]


@functools.partial(jax.jit, static_argnames="indefinite")
def first_xi(
    model: DeepGP, scaled: Float[Array, " parameters"], sites: dict[Path, Sites], indefinite: bool
) -> DeepEverything:
    """A start from sites, as mean and precision factor."""
    chains = deep_chains(model, sites, indefinite)
    return DeepEverything(
        scaled,
        {
            path: logarithmic(swept.marginals.to_mean_cholesky(), to_log=True)
            for path, (_, swept) in chains.items()
        },
    )


def deep_bound(
    everything: DeepEverything,
    model: DeepGP,
    outputs: tuple[Output, ...],
    scales: Float[Array, " parameters"],
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """An estimate of the bound, to be differentiated in everything."""
    moved = with_vector(model, everything.scaled * scales)
    chains, penalty = {}, jnp.zeros(())
    for path in model.paths:
        layer = moved.layer(path)
        prior = prior_transitions(layer.kernel, layer.inducing)
        xi = logarithmic(everything.xi[path], to_log=False)
        chains[path] = prior, PairMarginals.of(xi)
        penalty += kl_divergence(xi, prior_chain(prior))
    fit = _expected_fit(moved, chains, outputs, key)
    return fit - penalty + log_prior(moved)


def xi_chains(model: DeepGP, everything: DeepEverything) -> dict[Path, Sites]:
    """The same q of every layer as prior × sites."""
    sites = {}
    for path in model.paths:
        layer = model.layer(path)
        prior = prior_transitions(layer.kernel, layer.inducing)
        sites[path] = difference(logarithmic(everything.xi[path], to_log=False), prior)
    return sites


def place_layers(model: DeepGP, ranges: list[np.ndarray]) -> DeepGP:
    """Inducing locations for the layers that have none, from the inputs they get at the start."""
    lows: dict[Path, float] = {}
    highs: dict[Path, float] = {}
    for number, x in enumerate(ranges):

        def visit(path: Path, inputs: Any) -> Array:
            inputs = np.asarray(inputs)
            lows[path] = min(lows.get(path, np.inf), float(inputs.min()))
            highs[path] = max(highs.get(path, -np.inf), float(inputs.max()))
            return model.layer(path).mean(jnp.asarray(inputs))

        model.compose(visit, jnp.asarray(x), number)
    unseen = [path for path in model.paths if path not in lows]
    if unseen:
        raise ValueError(f"the function of the model never calls layer {unseen[0][0]!r}")
    layers = {}
    for path in model.paths:
        low, high = lows[path], highs[path]
        margin = 0.1 * (high - low) or 1.0
        layers[path] = model.layer(path).placed(low - margin, high + margin)
    return model.with_layers(layers)
