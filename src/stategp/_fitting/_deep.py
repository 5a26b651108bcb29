"""Learning deep models."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import Observations, observe
from stategp._fitting._learn import check_finite
from stategp._fitting._settings import Settings
from stategp._inference import (
    Batches,
    DeepEverything,
    DeepState,
    FitResult,
    Output,
    ascend,
    checked,
    deep_bound,
    deep_chains,
    deep_step,
    estimate_bound,
    first_sites,
    first_xi,
    place_layers,
    xi_chains,
)
from stategp._models import DeepGP, Path
from stategp._posteriors import DeepPosterior
from stategp._runtime import Progress
from stategp.chain import PairMarginals, Sites
from stategp.parameters import to_vector, with_vector

_SAMPLES = 100  # through the layers, for predictions and the final bound


def observe_outputs(
    model: DeepGP, x: Any, y: Any, extras: Mapping[str, Any], weights: Any
) -> list[Observations]:
    """One series for each output."""
    if not model.takes_number:
        return [observe(x, y, model.likelihood, extras=extras, weights=weights)]
    if not isinstance(y, list | tuple):
        raise ValueError(
            "the function of this model takes the number of an output, so y must be a list with "
            "an array for each output, and x a list of inputs or one array for all"
        )
    inputs = x if isinstance(x, list | tuple) else [x] * len(y)
    if len(inputs) != len(y):
        raise ValueError(f"x and y must be lists of equal lengths, got {len(inputs)} and {len(y)}")
    each: dict[str, list[Any]] = {}
    for name, given in {**extras, "weights": weights}.items():
        each[name] = list(given) if isinstance(given, list | tuple) else [given] * len(y)
        if len(each[name]) != len(y):
            raise ValueError(f"{name} must be a list with one entry for each of {len(y)} outputs")
    counts = each.pop("weights")
    return [
        observe(
            inputs[i],
            y[i],
            model.likelihood,
            extras={name: given[i] for name, given in each.items()},
            weights=counts[i],
        )
        for i in range(len(y))
    ]


def _in_user_units(data: Observations) -> np.ndarray:
    """The inputs that the user's function sees, if double precision can hold them."""
    relative, origin = np.asarray(data.x), data.origin
    ends = [origin, origin + int(relative[-1])] if isinstance(origin, int) else []
    if any(abs(end) > 2**53 for end in ends):
        raise ValueError(
            "the inputs of a deep model are whole numbers beyond 2⁵³, which the function of the "
            f"model cannot tell apart (they begin at {origin}); subtract the first of them"
        )
    return relative + float(origin)


def learn_deep(
    model: DeepGP,
    series: list[Observations],
    settings: Settings,
    show: Progress,
    begin: DeepPosterior | None,
) -> DeepPosterior:
    """Hyperparameters, if any are open, and every q, by stochastic steps from `begin`, if given."""
    outputs = tuple(
        Output(
            jnp.asarray(_in_user_units(data)),
            *(jnp.asarray(np.asarray(v)) for v in (data.y, data.extra, data.weights)),
        )
        for data in series
    )
    model = place_layers(model, [np.asarray(output.x) for output in outputs])
    scaled, key = to_vector(model), jax.random.key(settings.seed)
    scales = jnp.ones(len(scaled))
    optimiser = checked(settings.optimiser)
    sizes = [min(settings.batch_size or len(data), len(data)) for data in series]
    batches = [
        Batches(len(data), size, settings.seed + number)
        for number, (data, size) in enumerate(zip(series, sizes, strict=True))
    ]
    full = settings.batch_size is None
    total = sum(len(data) for data in series)

    def chosen() -> Any:
        return None if full else tuple(jnp.asarray(batch.next()) for batch in batches)

    natural = settings.method == "natural"
    first = first_sites(model) if begin is None else begin.sites
    negative = begin is not None and begin.indefinite
    if natural:
        start: Any = DeepState(scaled, optimiser.init(scaled), first)
        take = _natural_step(optimiser, negative)
    else:
        everything = first_xi(model, scaled, first, negative)
        start = everything, optimiser.init(everything)
        take = _gradient_step(optimiser)

    def step(state: Any, number: int) -> tuple[Any, Any, Any]:
        size = jnp.asarray(settings.step_size(number), dtype=float)
        own = jax.random.fold_in(key, number)
        new, value = take(state, model, outputs, chosen(), scales, size, own)
        return new, value, size if natural else jnp.nan

    end, result = ascend(
        step,
        start,
        max_steps=settings.max_steps,
        window=max(1, min(200, settings.max_steps // 3)),
        enough=(settings.tolerance or 1e-4) * total,
        noisy=True,
        stop_early=settings.tolerance is not None,
        report=show,
    )
    if natural:
        model, sites = with_vector(model, end.scaled * scales), end.sites
    else:
        model = with_vector(model, end[0].scaled * scales)
        sites, negative = xi_chains(model, end[0]), True
    return _as_posterior(model, sites, outputs, result, key, negative)


def _take(outputs: tuple[Output, ...], at: Any) -> tuple[Output, ...]:
    if at is None:
        return outputs
    return tuple(
        Output(o.x[i], o.y[i], o.extra[i], o.weights[i] * (len(o.x) / len(i)))
        for o, i in zip(outputs, at, strict=True)
    )


@functools.lru_cache(maxsize=16)
def _natural_step(optimiser: optax.GradientTransformation, indefinite: bool) -> Any:
    @jax.jit
    def step(
        state: DeepState, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[DeepState, Float[Array, ""]]:
        own = _take(outputs, at)
        return deep_step(optimiser, state, model, own, scales, size, key, indefinite=indefinite)

    return step


@functools.lru_cache(maxsize=16)
def _gradient_step(optimiser: Any) -> Any:
    @jax.jit
    def step(
        state: Any, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[Any, Float[Array, ""]]:
        everything, memory = state
        value, gradient = jax.value_and_grad(deep_bound)(
            everything, model, _take(outputs, at), scales, key
        )
        down = jax.tree.map(lambda leaf: -leaf, gradient)
        updates, memory = optimiser.update(down, memory, everything, value=-value, grad=down)
        moved: DeepEverything = optax.apply_updates(everything, updates)
        return (moved, memory), value

    return step


def _as_posterior(
    model: DeepGP,
    sites: dict[Path, Sites],
    outputs: tuple[Output, ...],
    result: FitResult,
    key: PRNGKeyArray,
    indefinite: bool,
) -> DeepPosterior:
    many = DeepGP(model.layers, model.function, model.likelihood, samples=_SAMPLES)
    marginals, elbo = _final(many, sites, outputs, key, indefinite)
    check_finite(model, elbo)
    counts = tuple(len(output.x) for output in outputs)
    return DeepPosterior(model, sites, marginals, float(elbo), counts, result, indefinite)


@functools.partial(jax.jit, static_argnames="indefinite")
def _final(
    model: DeepGP,
    sites: dict[Path, Sites],
    outputs: tuple[Output, ...],
    key: PRNGKeyArray,
    indefinite: bool,
) -> tuple[dict[Path, PairMarginals], Float[Array, ""]]:
    chains = deep_chains(model, sites, indefinite)
    marginals = {path: q.marginals for path, (_, q) in chains.items()}
    return marginals, estimate_bound(model, sites, chains, outputs, key)
