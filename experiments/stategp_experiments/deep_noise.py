"""Natural gradients of deep models: how noisy are they, by the way their samples are drawn?

    stategp-experiments deep-noise [--quick] [--output experiments/results]

The four models of the study `deep-optima`, one data set each, at the q where natural gradients end
(shorter runs than there). From here the natural gradient of every layer is estimated many times
with 8 samples: drawn independently, in pairs of opposite sign, and in pairs that cover the
distribution (`stratified`, which the library uses). Its noise is δᵀFδ, with δ the difference from
the average of all estimates, as natural parameters, and F the Fisher information: twice the KL
divergence by which a step of size one would miss. For stacks of layers also Gauss–Hermite
quadrature with 8 nodes for each inner layer, which has no noise: what is there instead is its
distance from quadrature with 40 nodes, measured in the same way.
"""

import functools
import warnings

import jax
import jax.numpy as jnp

import stategp as sg
from stategp._inference import (
    Output,
    deep_chains,
    expected_fit,
    site_target,
    stratified,
)
from stategp.chain import sweep
from stategp_experiments import studies
from stategp_experiments.deep_optima import MODELS

SAMPLES, NODES, FINE = 8, 8, 40


def paired(key, shape):
    """Independent, and the same with the opposite sign."""
    half = jax.random.normal(key, (shape[0] // 2, *shape[1:]))
    return jnp.concatenate([half, -half])


DRAWS = {"independent": jax.random.normal, "pairs": paired, "pairs that cover": stratified}


def parts_of(model, sites):
    """The chains of a deep model, and its natural gradient from an expected fit."""
    chains = deep_chains(model, sites, True)
    priors = {path: prior for path, (prior, _) in chains.items()}
    pairs = {path: swept.marginals for path, (_, swept) in chains.items()}

    def towards(fit):
        """The natural gradient: the sites that the data ask for, less those there are."""

        def of(pairs):
            return fit({path: (priors[path], pairs[path]) for path in pairs})

        slopes = jax.grad(of)(pairs)
        wanted = {path: site_target(slopes[path], pairs[path]) for path in pairs}
        return jax.tree.map(jnp.subtract, wanted, sites)

    return priors, towards


def fisher(priors, sites, change):
    """δᵀFδ of a change of the natural parameters, as ⟨δ, dη⟩."""
    total = jnp.zeros(())
    for path, prior in priors.items():

        def expectations(own, prior=prior):
            q = sweep(prior, own, indefinite=True).marginals
            return q.mean, q.covariance + q.mean[:, :, None] * q.mean[:, None, :]

        own = change[path]
        _, (first, second) = jax.jvp(expectations, (sites[path],), (own,))
        total += jnp.sum(own.linear * first) - jnp.sum(own.precision * second) / 2
    return total


@functools.partial(jax.jit, static_argnames=("count", "draws"))
def noise_of(model, sites, outputs, count, draws):
    """The noise of the natural gradient, on average over so many estimates."""
    priors, towards = parts_of(model, sites)
    keys = jax.random.split(jax.random.key(0), count)
    all_of_them = jax.lax.map(
        lambda key: towards(lambda seen: expected_fit(model, seen, outputs, key, draws)), keys
    )
    middle = jax.tree.map(lambda leaf: jnp.mean(leaf, 0), all_of_them)
    apart = jax.tree.map(lambda leaf, mean: leaf - mean, all_of_them, middle)
    each = jax.lax.map(lambda change: fisher(priors, sites, change), apart)
    return jnp.sum(each) / (count - 1), middle


@functools.partial(jax.jit, static_argnames="nodes")
def by_quadrature(model, sites, outputs, nodes):
    """The natural gradient of a stack, with so many nodes for each inner layer."""
    fine = sg.DeepGP(model.layers, model.function, model.likelihood, nodes=nodes)
    _, towards = parts_of(fine, sites)
    return towards(lambda seen: expected_fit(fine, seen, outputs, jax.random.key(0)))


@jax.jit
def distance(model, sites, one, other):
    priors, _ = parts_of(model, sites)
    return fisher(priors, sites, jax.tree.map(jnp.subtract, one, other))


def measure(name, shorter, count):
    """One model: the noise of every way to draw samples."""
    make, schedule = MODELS[name]
    model, x, y = make(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        steps = schedule.steps // shorter
        end = sg.condition(model, x, y, step_size=schedule.shorter(shorter), max_steps=steps)
    ones = jnp.ones(len(x))
    extra = model.likelihood.extra_default * ones
    outputs = (Output(jnp.asarray(x), jnp.asarray(y, float), extra, ones),)
    row = {"model": name, "samples": SAMPLES, "estimates": count}
    for way, draws in DRAWS.items():
        row[way] = float(noise_of(model, end.sites, outputs, count, draws)[0])
    if len(model.paths) > 1:
        inner = len(model.paths) - 1
        few, many = (by_quadrature(model, end.sites, outputs, n) for n in (NODES, FINE))
        row["quadrature"] = float(distance(model, end.sites, few, many))
        row["evaluations"] = NODES**inner
    print(
        f"{name:20}" + "".join(f"{row[way]:14.3g}" for way in (*DRAWS, "quadrature") if way in row),
        flush=True,
    )
    return row


def main(arguments: list[str]) -> None:
    options = studies.parser(__doc__, "short runs, few estimates").parse_args(arguments)
    shorter, count = (40, 20) if options.quick else (4, 500)
    print(" " * 20 + "".join(f"{way:>14.14}" for way in (*DRAWS, "quadrature")))
    rows = [measure(name, shorter, count) for name in MODELS]
    studies.write(rows, options.output / "deep_noise.json")
