"""Whether natural gradients end at an optimum of the bound of a deep model.

    stategp-experiments deep-optima [--quick] [--nodes] [--models NAME ...] [--output DIR]

Four deep models, ten data sets each: q is moved by natural gradients with decreasing steps, and
from there by a long run of Adam on the mean and the precision of every layer
(`method="gradient"`). At an optimum of the bound the second run has nothing to gain but the noise
of the estimate. The bound before and after is estimated 64 times with a hundred samples each, the
same ones for both; "noise" is the standard deviation of one such estimate, which is what
`posterior.elbo` has.

`--nodes` does the same for the stacks among the models by quadrature, without any noise: 8 nodes
for each inner layer in both runs, steps of one size, and the bound before and after with 8 nodes
and with 32.
"""

import functools
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stategp as sg
from stategp._inference import Output, deep_chains, estimate_bound
from stategp._models import Stack
from stategp_experiments import studies

k = sg.kernels
N = 60
RATE = 0.003  # of Adam, falling to zero


def step_function(seed):
    """Two layers and a jump."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1, 1, N))
    y = np.tanh(40 * x) + 0.1 * rng.standard_normal(N)
    inner = sg.Layer(k.Matern52(variance=0.5, lengthscale=0.5), np.linspace(-1.2, 1.2, 12))
    outer = sg.Layer(k.Matern52(), np.linspace(-2, 2, 12), mean=0.0)
    noise = sg.likelihoods.Gaussian(variance=0.01)
    return sg.DeepGP.stack([inner, outer], noise, samples=8), x, y


def three_layers(seed):
    """Three layers and a wave of growing frequency."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, N))
    y = np.sin(3 * (1 + x) ** 3) + 0.1 * rng.standard_normal(N)
    inner = sg.Layer(k.Matern32(variance=0.05, lengthscale=0.5), np.linspace(-0.1, 1.1, 10))
    between = sg.Layer(k.Matern32(variance=0.05, lengthscale=0.5), np.linspace(-0.3, 1.3, 10))
    outer = sg.Layer(k.Matern32(lengthscale=0.2), np.linspace(-0.3, 1.3, 24), mean=0.0)
    noise = sg.likelihoods.Gaussian(variance=0.01)
    return sg.DeepGP.stack([inner, between, outer], noise, samples=8), x, y


def difference(f, t):
    return f["f"](t + 0.3 * f["f"](t)) - f["f"](t - 0.1)


def one_function_twice(seed):
    """A function that is called at two places, one of them its own value."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, N))
    y = np.sin(6 * (x + 0.3 * np.sin(6 * x))) - np.sin(6 * (x - 0.1))
    y = y + 0.1 * rng.standard_normal(N)
    function = sg.Layer(k.Matern32(lengthscale=0.4), np.linspace(-0.5, 1.5, 20), mean=0.0)
    return (
        sg.DeepGP({"f": function}, difference, sg.likelihoods.Gaussian(variance=0.01), samples=8),
        x,
        y,
    )


def counts(seed):
    """Two layers below a Poisson likelihood."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1, 1, N))
    y = rng.poisson(np.exp(1 + 1.5 * np.tanh(10 * x)))
    inner = sg.Layer(k.Matern52(variance=0.5, lengthscale=0.5), np.linspace(-1.2, 1.2, 12))
    outer = sg.Layer(k.Matern52(), np.linspace(-2, 2, 12), mean=0.0)
    return sg.DeepGP.stack([inner, outer], sg.likelihoods.Poisson(), samples=8), x, y


class Schedule(NamedTuple):
    """Steps of one size, then as 1/n."""

    size: float
    constant: int
    steps: int

    def __call__(self, number):
        return self.size / max(1.0, number / self.constant)

    def shorter(self, times):
        """The same in fewer steps."""
        return Schedule(self.size, self.constant // times, self.steps // times)


MODELS = {
    "step": (step_function, Schedule(0.1, 1000, 4000)),
    "three layers": (three_layers, Schedule(0.3, 3000, 15000)),  # the layers share one slow way
    "one function twice": (one_function_twice, Schedule(0.1, 1000, 4000)),
    "counts": (counts, Schedule(0.1, 1000, 4000)),
}
GRADIENT = 6000  # steps


@functools.partial(jax.jit, static_argnames="count")
def bounds(model, sites, outputs, count):
    """Estimates of the bound, each from fresh samples; the same keys for every posterior."""
    chains = deep_chains(model, sites, True)
    keys = jax.random.split(jax.random.key(1), count)
    return jax.lax.map(lambda key: estimate_bound(model, sites, chains, outputs, key), keys)


def compare(name, seed, shorter=1):
    """One data set: the bound after natural gradients, and what Adam gains from there."""
    make, schedule = MODELS[name]
    model, x, y = make(seed)
    gradient = GRADIENT // shorter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        first = sg.condition(model, x, y, step_size=schedule, max_steps=schedule.steps // shorter)
        rate = optax.cosine_decay_schedule(RATE, gradient)
        then = sg.condition(
            first, x, y, method="gradient", optimiser=optax.adam(rate), max_steps=gradient
        )
    ones = jnp.ones(len(x))
    extra = model.likelihood.extra_default * ones
    outputs = (Output(jnp.asarray(x), jnp.asarray(y, float), extra, ones),)
    many = sg.DeepGP(model.layers, model.function, model.likelihood, samples=100)
    before, after = (bounds(many, q.sites, outputs, 64) for q in (first, then))
    gains = np.asarray(after - before)
    inner = next(iter(first.functions))
    spread = [np.sqrt(np.asarray(q.functions[inner].predict_f(x)[1])) for q in (first, then)]
    ratio = np.quantile(spread[1] / spread[0], [0.05, 0.5, 0.95])
    row = {
        "model": name,
        "seed": seed,
        "bound": float(np.mean(before)),
        "gained": float(gains.mean()),
        "error": float(gains.std(ddof=1) / np.sqrt(len(gains))),
        "noise": float(np.std(before, ddof=1)),
        "ratio": ratio.tolist(),
        "remarks": list(first.fit_result.remarks),
    }
    print(
        f"{name:20} {seed:4} {row['bound']:9.3f} {row['gained']:9.3f} {2 * row['error']:7.3f} "
        f"{row['noise']:7.3f}   " + ", ".join(f"{value:.3f}" for value in ratio),
        flush=True,
    )
    return row


def compare_by_quadrature(name, seed, shorter=1):
    """The same without noise; gains with both numbers of nodes."""
    model, x, y = MODELS[name][0](seed)
    gradient, (few, many) = GRADIENT // shorter, NODES
    ones = jnp.ones(len(x))
    extra = model.likelihood.extra_default * ones
    outputs = (Output(jnp.asarray(x), jnp.asarray(y, float), extra, ones),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        stack = sg.DeepGP(model.layers, model.function, model.likelihood, nodes=few)
        first = sg.condition(stack, x, y, step_size=SIZE, max_steps=STEPS // shorter)
        rate = optax.cosine_decay_schedule(RATE, gradient)
        then = sg.condition(
            first, x, y, method="gradient", optimiser=optax.adam(rate), max_steps=gradient
        )
    result = first.fit_result
    rising = result.trace[-1] - result.trace[len(result.trace) // 2]  # in the second half
    row = {"model": name, "seed": seed, "replaced": sum(result.replaced), "rising": rising}
    for nodes in (few, many):
        fine = sg.DeepGP(model.layers, model.function, model.likelihood, nodes=nodes)
        before, after = (float(bounds(fine, q.sites, outputs, 1)[0]) for q in (first, then))
        row |= {f"bound {nodes}": before, f"gained {nodes}": after - before}
    print(row, flush=True)
    return row


NODES = (8, 32)
SIZE, STEPS = 0.3, 20_000


def main(arguments: list[str]) -> None:
    quick = "2 data sets, short runs"
    parser = studies.parser(__doc__, quick)
    parser.add_argument("--nodes", action="store_true", help="quadrature instead of samples")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args(arguments)
    shorter, seeds = (20, 2) if options.quick else (1, 10)
    if options.nodes:
        rows = []
        for name in options.models:
            if isinstance(MODELS[name][0](0)[0].function, Stack):
                for seed in range(seeds):
                    rows.append(compare_by_quadrature(name, seed, shorter))
                    studies.write(rows, options.output / "deep_optima_nodes.json")
        return
    print("model                seed     bound    gained  2 s.e.   noise   sd of the first: ratio")
    rows = [compare(name, seed, shorter) for name in options.models for seed in range(seeds)]
    for name in options.models:
        gained = [row["gained"] for row in rows if row["model"] == name]
        print(f"{name}: gained {np.mean(gained):.3f} on average, {np.max(gained):.3f} at most")
    studies.write({"rows": rows}, options.output / "deep_optima.json")
