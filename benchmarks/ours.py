"""Times stategp by the same protocol as the peers: `python -m benchmarks.ours JOB.json`.

Gaussian data are summed up once, before the clock starts, as a fit does it ("pack" times that).
The works that end in "/rows" leave the data as they are and pass over all of them each time.
"""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

import stategp as sg
from benchmarks.peers import protocol
from stategp._data import WIDEST, cut_cells, observe, pack_rows
from stategp._inference import (
    Collapsed,
    Sight,
    evaluate,
    evidence,
    evidence_and_gradient,
    fastest_rate,
    geometry,
    infer,
    objective_and_gradient,
    pseudo_data,
    wanted_sites,
    with_gradient,
)
from stategp._runtime._shapes import pad_inducing
from stategp.parameters import to_vector, with_vector


def by_its_equation(variance=1.0, lengthscale=1.0):
    """Matérn-3/2 without its closed forms: through the matrix exponential, like any equation."""
    rate = np.sqrt(3) / lengthscale
    return sg.kernels.FromSDE(
        F=[[0, 1], [-(rate**2), -2 * rate]], L=[0, 1], Qc=[[4 * rate**3]], H=[1, 0],
        variance=variance,
    )  # fmt: skip


def harmonics(number):
    """Decaying harmonics, each with a state of two."""

    def kernel(variance=1.0, lengthscale=1.0):
        weights = np.full(number, np.sqrt(variance / number))
        return sg.kernels.Harmonic(weights=weights, frequency=0.1, lengthscale=lengthscale)

    return kernel


def four_materns(variance=1.0, lengthscale=1.0):
    """A sum with a state of eight."""
    parts = [
        sg.kernels.Matern32(variance=variance / 4, lengthscale=factor * lengthscale)
        for factor in (1, 2, 4, 8)
    ]
    return sum(parts[1:], start=parts[0])


KERNELS = {
    "four-matern32": four_materns,
    "matern32-sde": by_its_equation,
    "harmonic8": harmonics(4),
    "harmonic16": harmonics(8),
    "matern12": sg.kernels.Matern12,
    "matern32": sg.kernels.Matern32,
    "matern52": sg.kernels.Matern52,
    "matern72": sg.kernels.Matern72,
}


def model_of(job):
    kernel = KERNELS[job.kernel](variance=job.variance, lengthscale=job.lengthscale)
    gaussian = sg.likelihoods.Gaussian(variance=job.noise)
    return sg.GP(kernel, gaussian if job.gaussian else job.likelihood)


class Setting:
    """Model, view of the data, inducing locations and the best q, ready to be timed."""

    def __init__(self, job, rows=False, inducing=None):
        self.model = model_of(job)
        self.data = observe(job.x, job.y, self.model.likelihood)
        z = job.z - self.data.origin if inducing is None else inducing
        self.inducing = jnp.asarray(pad_inducing(np.asarray(z)))
        self.vector = jnp.asarray(to_vector(self.model))
        if rows:
            widest = WIDEST / (2 * fastest_rate(self.model))
            x, z = np.asarray(self.data.x), np.asarray(self.inducing)
            cells = cut_cells(x, z, widest, len(x))
            self.view, self.guess = pack_rows(self.data, cells, pseudo_data(self.model, self.data))
        else:
            self.view, self.guess = Sight(self.data, self.inducing)(self.model)
        self.sites = infer(self.model, self.data, self.inducing).q.sites

    def gradient(self, report, gradient):
        missing = [None] * (3 - len(gradient))  # likelihoods without parameters
        return report | {"gradient": [*np.asarray(gradient).tolist(), *missing]}


@jax.jit
def bound(model, view, inducing, sites):
    return evaluate(model, view, geometry(model, view.nodes, inducing), sites).elbo


@jax.jit
def bound_and_gradients(vector, model, view, inducing, sites):
    """The bound at any q, its gradient in the hyperparameters and the natural one in q."""

    def objective(vector):
        moved = with_vector(model, vector)
        shape = geometry(moved, view.nodes, inducing)
        still = jax.lax.stop_gradient((moved, shape))
        q = jax.lax.stop_gradient(evaluate(still[0], view, still[1], sites, learn=True))
        return with_gradient(moved, view, shape, q), (q, still[1])

    (value, (q, shape)), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    natural = jax.tree.map(lambda a, b: a - b, wanted(shape, q), sites)
    return value, gradient, natural


def wanted(shape, q):
    """The sites that the data would rather have than those of q, whatever the likelihood."""
    mean, _ = shape.projections[0].marginals(q.marginals[0])
    return wanted_sites(shape, mean, q.expected)


@jax.jit
def natural_step(model, view, inducing, sites, size):
    shape = geometry(model, view.nodes, inducing)
    target = wanted(shape, evaluate(model, view, shape, sites))
    return tuple(a.mix(b, size) for a, b in zip(sites, target, strict=True))


def elbo(job, rows=False):
    at = Setting(job, rows)
    value, times = protocol.timed(
        job, lambda: bound(at.model, at.view, at.inducing, at.sites).block_until_ready()
    )
    return {"value": float(value), **times, "view": type(at.view).__name__}


def elbo_and_gradient(job, rows=False):
    at = Setting(job, rows)
    arguments = (at.vector, at.model, at.view, at.inducing, at.sites)
    (value, gradient, _), times = protocol.timed(
        job, lambda: jax.block_until_ready(bound_and_gradients(*arguments))
    )
    report = {"value": float(value), **times, "view": type(at.view).__name__}
    return at.gradient(report, gradient)


def step(job, rows=False):
    at = Setting(job, rows)
    size = jnp.asarray(job.natural_step_size)
    arguments = (at.model, at.view, at.inducing, at.sites, size)
    sites, times = protocol.timed(job, lambda: jax.block_until_ready(natural_step(*arguments)))
    value = float(bound(at.model, at.view, at.inducing, sites))
    return {"value": value, **times, "view": type(at.view).__name__}


def pack(job):
    """From arrays to what every later step reads, once per data set."""
    model = model_of(job)
    inducing = jnp.asarray(pad_inducing(job.z - job.x.min()))

    def look():
        data = observe(job.x, job.y, model.likelihood)
        return jax.block_until_ready(Sight(data, inducing)(model)[0].nodes)

    _, times = protocol.timed(job, look)
    return times


def collapsed(job):
    """The bound at the best q for the hyperparameters, and its gradient in them."""
    at = Setting(job)
    nothing = jax.tree.map(jnp.zeros_like, at.sites)
    arguments = (at.vector, at.model, at.view, at.inducing, at.guess, nothing, False)
    (value, gradient, _), times = protocol.timed(
        job, lambda: jax.block_until_ready(objective_and_gradient(*arguments))
    )
    return at.gradient({"value": float(value), **times, "view": type(at.view).__name__}, gradient)


def exact(job):
    protocol.require_gaussian(job)
    at = Setting(job, inducing=np.unique(job.x) - job.x.min())
    run = jax.jit(evidence)
    arguments = (at.model, at.view, at.inducing)
    value, times = protocol.timed(job, lambda: run(*arguments).block_until_ready())
    return {"value": float(value), **times}


def exact_and_gradient(job):
    protocol.require_gaussian(job)
    at = Setting(job, inducing=np.unique(job.x) - job.x.min())
    arguments = (at.vector, at.model, at.view, at.inducing)
    (value, gradient), times = protocol.timed(
        job, lambda: jax.block_until_ready(evidence_and_gradient(*arguments))
    )
    return at.gradient({"value": float(value), **times}, gradient)


def posterior_of(job):
    return sg.condition(model_of(job), job.x, job.y, inducing=job.z)


def predict(job):
    posterior = posterior_of(job)
    (mean, variance), times = protocol.timed(
        job, lambda: jax.block_until_ready(posterior.predict_f(job.x_new))
    )
    return {**protocol.prediction(mean, variance), **times}


def sample(job):
    posterior = posterior_of(job)
    draws, times = protocol.timed(
        job, lambda: posterior.sample_f(0, job.x_new, job.samples).block_until_ready()
    )
    return {"shape": list(draws.shape), **times}


def fit(job):
    """The search that `sg.fit` does with given inducing points."""
    model = model_of(job)
    data = observe(job.x, job.y, model.likelihood)
    inducing = jnp.asarray(pad_inducing(job.z - data.origin))
    start = np.asarray(to_vector(model))
    watch = protocol.Fit(job, lambda: Collapsed(model, data, inducing)(start))

    def search():
        from scipy.optimize import minimize

        objective = Collapsed(model, data, inducing)

        def loss(vector):
            value, gradient = objective(vector)
            watch(value)
            return -value, -gradient

        minimize(loss, start, jac=True, method="L-BFGS-B")

    return watch.run(search) | {"method": "collapsed bound, L-BFGS"}


def sweep(job):
    """Filter, smoother and pair marginals of a chain with data everywhere."""
    model, states = model_of(job), len(job.z)
    dim = model.kernel.state_dim
    transitions = sg.chain.prior_transitions(model.kernel, jnp.asarray(job.z))
    rows = np.random.default_rng(0).standard_normal((states + 1, 2 * dim))
    rows[0, :dim] = rows[-1, dim:] = 0.0
    sites = sg.chain.Sites(jnp.asarray(3 * rows), jnp.asarray(rows[:, :, None] * rows[:, None]))
    run = jax.jit(sg.chain.sweep)
    swept, times = protocol.timed(job, lambda: jax.block_until_ready(run(transitions, sites)))
    return {"value": float(swept.log_normaliser), **times}


def memory(job):
    """The peak above the user's arrays while a posterior is found; compiled programs are there."""
    model = model_of(job)

    def condition():
        return sg.condition(model, job.x, job.y, inducing=job.z, progress=False).elbo

    condition()
    before = protocol.start_of_memory()
    seconds, value = protocol.seconds_of(condition)
    data = job.x.nbytes + job.y.nbytes
    found = protocol.memory_since(before)
    return {"value": value, "seconds": seconds, **found, "share": found["peak_bytes"] / data}


def first_fit(job):
    """Learn hyperparameters and predict, once; the driver counts from the start of the process."""
    began = time.perf_counter()
    posterior = sg.fit(model_of_open(job), job.x, job.y, inducing=job.z, progress=False)
    posterior.predict_f(job.x_new)
    return {"value": posterior.elbo, "seconds": time.perf_counter() - began}


def second_fit(job):
    """The same for other data of nearly the same size, in a process that has fitted the first."""
    first = first_fit(job)
    kept = np.random.default_rng(1).permutation(len(job.x))[: len(job.x) * 97 // 100]
    other = dataclasses.replace(job, x=np.sort(job.x[kept]) + 0.5, y=job.y[kept] ** 2)
    return first_fit(other) | {"first": first["seconds"]}


def model_of_open(job):
    return sg.GP(KERNELS[job.kernel](), job.likelihood)


WORKS = {
    "elbo": elbo,
    "elbo/rows": lambda job: elbo(job, rows=True),
    "elbo+gradient": elbo_and_gradient,
    "elbo+gradient/rows": lambda job: elbo_and_gradient(job, rows=True),
    "natural-step": step,
    "natural-step/rows": lambda job: step(job, rows=True),
    "collapsed+gradient": collapsed,
    "pack": pack,
    "exact": exact,
    "exact+gradient": exact_and_gradient,
    "predict": predict,
    "sample": sample,
    "fit": fit,
    "sweep": sweep,
    "memory": memory,
    "first-fit": first_fit,
    "second-fit": second_fit,
}

if __name__ == "__main__":
    protocol.main("stategp", WORKS, ["jax", "jaxlib", "equinox", "numpy", "scipy"])
