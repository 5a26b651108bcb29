"""Learning additive models."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stategp._data import Observed, Table
from stategp._fitting._learn import STUCK, check_finite, reaches, unpadded, with_result
from stategp._fitting._settings import Settings
from stategp._inference import (
    FitResult,
    Layout,
    Q,
    Recorder,
    Settling,
    additive_bound,
    additive_infer,
    additive_objective,
    additive_scales,
    averages,
    has_settled,
    lay_out,
    learn_additive_in_minibatches,
    maximise,
    no_node_sites,
    noise_limits,
)
from stategp._models import GP, AdditiveGP
from stategp._posteriors import AdditivePosterior, Training
from stategp._posteriors._prediction import Chain
from stategp._runtime import Progress
from stategp.chain import PairMarginals, Sites
from stategp.likelihoods import Gaussian
from stategp.means import Zero
from stategp.parameters import to_vector, with_vector


def learn_additive(
    model: AdditiveGP,
    observed: Observed,
    inducing: list[np.ndarray],
    settings: Settings,
    show: Progress,
) -> AdditivePosterior:
    """The posterior with hyperparameters learned, if any are open."""
    task = _Task(observed, inducing, settings, show, *lay_out(model, observed, inducing))
    learned: FitResult | None = None
    if settings.batch_size is not None:
        model, q, learned = _in_minibatches(model, task)
        result = None
    else:
        if len(to_vector(model)) > 0:
            model, task, found, learned = _climb(model, task)
        else:
            warm, most = no_node_sites(task.table), settings.inference_steps
            found = additive_infer(model, task.table, task.layout, warm, most, settings.settling)
        q, result = found.q, _said(model, task.table, found, settings, show)
    check_finite(model, q.elbo)
    posterior = _as_posterior(model, observed, inducing, task.layout, task.table, q, result)
    return posterior if learned is None else with_result(posterior, learned)


class _Task(NamedTuple):
    observed: Observed
    inducing: list[np.ndarray]
    settings: Settings
    show: Progress
    layout: Layout
    table: Table


def _in_minibatches(model: AdditiveGP, task: _Task) -> tuple[AdditiveGP, Q, FitResult]:
    scales, settings = additive_scales(model, task.observed), task.settings
    assert settings.batch_size is not None
    scaled, sites, learned = learn_additive_in_minibatches(
        model,
        task.table,
        task.layout,
        np.asarray(to_vector(model)) / scales,
        scales,
        len(task.observed),
        settings.optimiser,
        batch_size=settings.batch_size,
        step_size=settings.step_size,
        seed=settings.seed,
        max_steps=settings.max_steps,
        tolerance=settings.tolerance,
        report=task.show,
    )
    model = with_vector(model, jnp.asarray(scaled * scales))
    return model, additive_bound(model, task.table, task.layout, sites), learned


def _climb(model: AdditiveGP, task: _Task) -> tuple[AdditiveGP, _Task, Settling, FitResult]:
    """L-BFGS, repeated if a kernel's truncation has to follow its new parameters."""
    settings = task.settings
    while True:
        scales = additive_scales(model, task.observed)
        limits = noise_limits(model, np.asarray(task.observed.y))
        objective = _Objective(model, task.table, task.layout, scales)
        best, _, learned = maximise(
            objective,
            np.asarray(to_vector(model)) / scales,
            observations=len(task.observed),
            reach=reaches(model),
            max_steps=settings.max_steps,
            report=task.show,
            flat=settings.tolerance or 1e-5,
            gtol=settings.tolerance or 1e-6,
            lowest=limits.lowest / scales,
            remark=limits.remark,
        )
        objective(best)
        model = with_vector(model, jnp.asarray(best * scales))
        try:
            kernels = [kernel.refined() for kernel in model.kernels]
        except ValueError as error:  # more harmonics than anyone would want
            message = f"{learned.message}; {error}"
            learned = dataclasses.replace(learned, converged=False, message=message)
            return model, task, objective.found, learned
        pairs = zip(kernels, model.kernels, strict=True)
        if not learned.converged or all(new.state_dim <= old.state_dim for new, old in pairs):
            return model, task, objective.found, learned
        names = dict(zip(model.names, kernels, strict=True))
        model = AdditiveGP(names, model.likelihood, model.mean)
        layout, table = lay_out(model, task.observed, task.inducing)
        task = task._replace(layout=layout, table=table)


class _Objective:
    """The bound as a function of the scaled hyperparameters; q starts from the last one found."""

    def __init__(self, model: AdditiveGP, table: Table, layout: Layout, scales: np.ndarray):
        self.model, self.table, self.layout, self.scales = model, table, layout, scales
        self.nothing = self.warm = no_node_sites(table)
        self.found: Any = None

    def __call__(self, scaled: np.ndarray) -> tuple[float, np.ndarray]:
        vector = jnp.asarray(scaled * self.scales)
        for warm in (self.warm, self.nothing):
            value, gradient, self.found = additive_objective(
                vector, self.model, self.table, self.layout, warm
            )
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                self.warm = self.found.q.sites[0]
                break
        return float(value), np.asarray(gradient) * self.scales


def _said(
    model: AdditiveGP, table: Table, found: Settling, settings: Settings, show: Progress
) -> FitResult | None:
    """What there is to say about a search for q."""
    if model.likelihood.conjugate:
        return None
    settled = has_settled(model, table, found, settings.tolerance)
    record = Recorder(show)
    record(float(found.q.elbo), float(found.step_size))
    message = "the bound stopped rising" if settled else STUCK[bool(found.done)]
    return record.result(settled, message)


def _as_posterior(
    model: AdditiveGP,
    observed: Observed,
    inducing: list[np.ndarray],
    layout: Layout,
    table: Table,
    q: Q,
    result: FitResult | None,
) -> AdditivePosterior:
    sites = q.sites[0]
    about = averages(model, table, layout, sites)
    chains: dict[int, Chain] = {}
    centring: dict[int, Chain] = {}
    moments: dict[int, tuple[float, float]] = {}
    number = 0
    for group, linear, marginals, shared in zip(
        layout, about.sites, q.marginals, about.covariances, strict=True
    ):
        for j, i in enumerate(group.members):

            def chain(
                pairs: PairMarginals, i: int = i, j: int = j, linear: Sites = linear
            ) -> Chain:
                site, pair = jax.tree.map(lambda leaf: leaf[j], (linear, pairs))
                kept = unpadded(site, pair, len(inducing[i]))
                gp = GP(model.kernels[i], Gaussian(), Zero())
                origin = observed.inputs[i].origin
                return Chain.padded(gp, inducing[i], origin, (kept[0],), (kept[1],))

            chains[i], centring[i] = chain(marginals), chain(shared)
            moments[i] = float(about.mean[number]), float(about.variance[number])
            number += 1
    order = range(len(model.kernels))
    return AdditivePosterior(
        model,
        tuple(chains[i] for i in order),
        tuple(centring[i] for i in order),
        tuple(moments[i] for i in order),
        tuple(own.origin for own in observed.inputs),
        Training(table, layout, sites),
        float(q.elbo),
        len(observed),
        tuple(len(places) for places in inducing),
        result,
    )
