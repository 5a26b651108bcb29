"""Doubly stochastic inference for compositions of layers.

Every layer has a chain q of its own; they are independent. An observation passes samples through
the inner layers and meets the likelihood with the mean and variance of the last one. The expected
log density is a function of the means μ and covariances Σ of neighbouring states under every q. Its
derivatives there, G and H, are the natural gradient of the bound: a factor for each interval with
precision −2H and linear term G − 2Hμ (`site_target`). Samples come in pairs ±ε, without which
H would be mostly noise where q is narrow: what remains is a difference of two slopes; and they
cover the distribution (`stratified`). For a stack they can be the nodes of a quadrature
(`draws_of`).

Between two optima −2H can be so negative that a step would lead to no Gaussian, or nearly so. The
layer then takes the precision of Gauss–Newton, J²w, where w is the curvature of the last
expectation and J the derivative of the output in the value of the function (by zeros added to it,
the taps of `Tape`). It is never negative. Steps of that kind are counted.

Hyperparameters move along the gradient of the bound at fixed q.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from stategp._inference._deep_tape import Draws, Tape, draws_of
from stategp._inference._optimisers import move
from stategp._inference._xi import difference, logarithmic, prior_chain
from stategp._models import DeepGP, Latent, Path
from stategp._modules import Module
from stategp.chain import (
    MeanCholesky,
    PairMarginals,
    Sites,
    Swept,
    Transitions,
    expected_log_sites,
    kl_divergence,
    local_log_normaliser,
    prior_transitions,
    sweep,
)
from stategp.parameters import log_prior, to_vector, with_vector

_WIDER = 2.0  # in one step of q; more would throw its mean about
_CERTAIN = 1e-2  # the standard deviation of q at its start, in those of the prior


class Output(Module):
    """The observations of one output, and how often each counts."""

    x: Float[Array, " points"]
    y: Float[Array, " points"]
    extra: Float[Array, " points"]
    weights: Float[Array, " points"]

    def repeated(self, shares: Float[Array, " samples"]) -> tuple[Array, Array, Array]:
        """y, extra and weights for each of some samples, with their shares in the whole."""
        shape = len(shares), len(self.y)
        y, extra = (jnp.broadcast_to(v[None], shape) for v in (self.y, self.extra))
        return y, extra, shares[:, None] * self.weights[None]


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
    """Hyperparameters (each in its own scale), what the optimiser remembers, q, and how often a
    layer moved by Gauss–Newton."""

    scaled: Float[Array, " parameters"]
    memory: Any
    sites: dict[Path, Sites]
    replaced: dict[Path, Int[Array, ""]]

    @staticmethod
    def first(model: DeepGP, optimiser: Any, sites: dict[Path, Sites]) -> "DeepState":
        """Before the first step."""
        vector = to_vector(model)
        never = {path: jnp.zeros((), int) for path in model.paths}
        return DeepState(vector, optimiser.init(vector), sites, never)


@jax.jit
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
        prior = _prior(model, path)
        prior_here, sites_here = jax.lax.stop_gradient((prior, sites[path]))
        chains[path] = prior, sweep(prior_here, sites_here, indefinite=indefinite)
    return chains


def _prior(model: DeepGP, path: Path) -> Transitions:
    layer = model.layer(path)
    return prior_transitions(layer.kernel, layer.inducing)


def deep_step(
    optimiser: Any,
    state: DeepState,
    model: DeepGP,
    outputs: tuple[Output, ...],
    scales: Float[Array, " parameters"],
    size: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[DeepState, Float[Array, ""]]:
    """One step of every q along its natural gradient, and of the hyperparameters."""
    here = with_vector(model, state.scaled * scales)
    chains = deep_chains(here, state.sites, True)
    pairs = {path: swept.marginals for path, (_, swept) in chains.items()}

    def run(scaled: Array, pairs: Any, taps: Any) -> tuple[tuple[Array, Array], Any]:
        moved = with_vector(model, scaled * scales)
        priors = {path: _prior(moved, path) for path in moved.paths}
        seen = {path: (priors[path], pairs[path]) for path in moved.paths}
        fit, carried, calls = jnp.zeros(()), jnp.zeros(()), []
        for number, output in enumerate(outputs):
            draws, shares = draws_of(model)
            own = jax.random.fold_in(key, number)
            tape = Tape(moved, seen, own, taps[number], draws=draws)
            mean, variance = run_output(moved, tape, output, number)
            y, extra, weights = output.repeated(shares)
            value = moved.likelihood.expected_log_density(y, mean, variance, extra)
            fit += jnp.sum(weights * value)
            mean_here, variance_here = jax.lax.stop_gradient((mean, variance))
            _, _, curvature = moved.likelihood.expected_slopes(y, mean_here, variance_here, extra)
            root = jax.lax.stop_gradient(jnp.sqrt(jnp.maximum(-2 * curvature, 0.0)))
            carried += jnp.sum(root * mean)
            calls.append(tape.calls)
        local = jnp.zeros(())
        for path, (_, swept) in chains.items():
            local += local_log_normaliser(priors[path], state.sites[path], swept.messages)
        return (fit + local + log_prior(moved), carried), (fit, calls)

    visits = trace_paths(model, outputs)
    taps = [[jnp.zeros(shape) for _, shape in visited] for visited in visits]
    _, pull, (fit, calls) = jax.vjp(run, state.scaled, pairs, taps, has_aux=True)
    gradient, slopes, pushes = pull((jnp.ones(()), jnp.zeros(())))
    _, _, carried = pull((jnp.zeros(()), jnp.ones(())))
    bound = fit + log_prior(here) - _penalty(state.sites, chains)

    shares = draws_of(model)[1]
    safe = {path: Sites.zeros(len(q.mean), q.mean.shape[-1] // 2) for path, q in pairs.items()}
    for output, visited, *of_calls in zip(outputs, visits, calls, pushes, carried, strict=True):
        for (path, _), call, push, root in zip(visited, *of_calls, strict=True):
            precision = shares[:, None] * output.weights[None] * root**2
            linear = push + precision * call.mean
            gathered = call.projection.gather(
                linear.reshape(-1), precision.reshape(-1), len(safe[path].linear)
            )
            safe[path] = jax.tree.map(jnp.add, safe[path], gathered)
    sites, replaced = {}, {}
    for path, (prior, _) in chains.items():
        target = site_target(slopes[path], pairs[path])
        sites[path], other = _within_gaussians(
            prior, state.sites[path], pairs[path], target, safe[path], size
        )
        replaced[path] = state.replaced[path] + other
    count = sum(jnp.sum(output.weights) for output in outputs)
    scaled, memory = move(optimiser, state, bound / count, gradient / count)
    return DeepState(scaled, memory, sites, replaced), bound


def site_target(slopes: PairMarginals, pairs: PairMarginals) -> Sites:
    """Sites from the derivatives of the expected fit in the moments of neighbouring states."""
    precision = -(slopes.covariance + jnp.swapaxes(slopes.covariance, 1, 2))
    return Sites(slopes.mean + jnp.einsum("ijk,ik->ij", precision, pairs.mean), precision)


def _within_gaussians(
    prior: Transitions,
    sites: Sites,
    before: PairMarginals,
    target: Sites,
    safe: Sites,
    size: Float[Array, ""],
) -> tuple[Sites, Bool[Array, ""]]:
    """A step towards the target, or to the safe one if q would be no Gaussian, or nearly none.

    A safe step divides the precision of q by 1/(1 − size) at most. One that divides the precision
    of any entry of a state by `_WIDER` more is not taken.
    """
    moved, other = sites.mix(target, size), sites.mix(safe, size)
    after = sweep(jax.lax.stop_gradient(prior), moved, indefinite=True).marginals
    old, new = (jnp.diagonal(q.covariance, axis1=1, axis2=2) for q in (before, after))
    lost = ~jnp.all((1 - size) * new <= _WIDER * old)  # also where there are NaN
    return jax.tree.map(lambda a, b: jnp.where(lost, b, a), moved, other), lost


def _penalty(sites: dict[Path, Sites], chains: dict[Path, tuple[Any, Swept]]) -> Float[Array, ""]:
    """KL(q ‖ p) of all layers."""
    total = jnp.zeros(())
    for path, (_, swept) in chains.items():
        total += expected_log_sites(sites[path], swept.marginals) - swept.log_normaliser
    return total


def estimate_bound(
    model: DeepGP,
    sites: dict[Path, Sites],
    chains: dict[Path, tuple[Any, Swept]],
    outputs: tuple[Output, ...],
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """The bound at given sites, without the prior of the hyperparameters."""
    seen = {path: (prior, swept.marginals) for path, (prior, swept) in chains.items()}
    return expected_fit(model, seen, outputs, key) - _penalty(sites, chains)


def expected_fit(
    model: DeepGP,
    seen: dict[Path, Any],
    outputs: tuple[Output, ...],
    key: PRNGKeyArray,
    draws: Draws | None = None,
) -> Float[Array, ""]:
    """The expected log density of the data under the q of every layer.

    `draws` are used instead of those of the model.
    """
    fit = jnp.zeros(())
    for number, output in enumerate(outputs):
        usual, shares = draws_of(model)
        tape = Tape(model, seen, jax.random.fold_in(key, number), draws=draws or usual)
        mean, variance = run_output(model, tape, output, number)
        y, extra, weights = output.repeated(shares)
        value = model.likelihood.expected_log_density(y, mean, variance, extra)
        fit += jnp.sum(weights * value)
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
        prior = _prior(moved, path)
        xi = logarithmic(everything.xi[path], to_log=False)
        chains[path] = prior, PairMarginals.of(xi)
        penalty += kl_divergence(xi, prior_chain(prior))
    fit = expected_fit(moved, chains, outputs, key)
    return fit - penalty + log_prior(moved)


@jax.jit
def xi_chains(model: DeepGP, everything: DeepEverything) -> dict[Path, Sites]:
    """The same q of every layer as prior × sites."""
    sites = {}
    for path in model.paths:
        prior = _prior(model, path)
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
