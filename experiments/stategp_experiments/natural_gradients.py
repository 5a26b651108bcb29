"""Natural gradients against Adam and L-BFGS (paper, appendix): ten data sets, two likelihoods.

    stategp-experiments natural-gradients [--datasets 10] [--output experiments/results]

1,000 points on [0, 1], Matérn-3/2 with lengthscale 0.1, 50 inducing points on a grid, all
hyperparameters at their true values. q starts as the prior for every optimiser.
"""

import jax.numpy as jnp
import numpy as np
import optax

import stategp as sg
from stategp.data import observe
from stategp.inference import evaluate_all, no_sites, pseudo_data, starting_state, take_steps
from stategp_experiments import figures

X = np.linspace(0, 1, 1000)
Z = np.linspace(0, 1, 50)
KERNEL = sg.kernels.Matern32(variance=1.0, lengthscale=0.1)
STEPS = 100
MODELS = {
    "Gaussian noise": sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.01)),
    "Student-t noise, one degree of freedom": sg.GP(
        KERNEL, sg.likelihoods.StudentT(df=1.0, scale=1.0)
    ),
}


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    covariance = np.asarray(KERNEL(X, X)) + 1e-10 * np.eye(len(X))
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(len(X))
    return f + 0.1 * rng.standard_normal(len(X)), f + rng.standard_t(1.0, len(X))


def natural(model: sg.GP, y: np.ndarray) -> list[float]:
    """The bound after each natural-gradient step from the prior."""
    data, inducing = observe(X, y, model.likelihood), jnp.asarray(Z)
    prior = no_sites(model, inducing)
    guess = jnp.asarray(pseudo_data(model, data))
    trace = [float(evaluate_all(model, data, inducing, prior, indefinite=False).elbo)]
    start = None if model.likelihood.conjugate else prior  # conjugate: one step lands on the end
    shape, state = starting_state(model, data, inducing, guess, start)
    for step in range(STEPS):
        if bool(state.done):
            break
        state = take_steps(model, data, shape, state, 1, 1e-12)
        if step or model.likelihood.conjugate:
            trace.append(float(state.q.elbo))
    return trace


def by_gradient(model: sg.GP, y: np.ndarray, optimiser) -> list[float]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        posterior = sg.condition(
            model,
            X,
            y,
            inducing=Z,
            method="gradient",
            optimiser=optimiser,
            max_steps=STEPS,
            tolerance=1e-12,
        )
    return list(posterior.fit_result.trace)


METHODS = {
    "natural gradients": natural,
    "L-BFGS": lambda model, y: by_gradient(model, y, "lbfgs"),
    "Adam (0.1)": lambda model, y: by_gradient(model, y, ADAM),
}
ADAM = optax.adam(0.1)


def main(arguments: list[str]) -> None:
    parser = figures.parser(__doc__)
    parser.add_argument("--datasets", type=int, default=10)
    options = parser.parse_args(arguments)
    plt = figures.plt
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axis, (title, model), which in zip(axes, MODELS.items(), [0, 1], strict=True):
        gaps: dict[str, list] = {name: [] for name in METHODS}
        for seed in range(options.datasets):
            y = simulate(seed)[which]
            best = sg.condition(model, X, y, inducing=Z).elbo
            for number, (name, method) in enumerate(METHODS.items()):
                gap = np.maximum(best - np.asarray(method(model, y)), 1e-8)
                gaps[name].append(gap)
                axis.plot(gap, color=f"C{number}", lw=0.9, alpha=0.7, label=None if seed else name)
        axis.set(title=title, xlabel="step", yscale="log", xlim=(-1, STEPS))
        axis.set_ylabel("nats below the best bound")
        axis.legend(frameon=False)
        print(f"\n{title}: nats below the best bound, median of {options.datasets} data sets")
        print("step                " + "".join(f"{s:>12}" for s in [1, 5, 20, STEPS - 1]))
        for name, traces in gaps.items():
            row = [
                np.median([t[min(s, len(t) - 1)] for t in traces]) for s in [1, 5, 20, STEPS - 1]
            ]
            print(f"{name:20}" + "".join(f"{value:12.3g}" for value in row))
    figures.save(figure, options.output / "natural_gradients.png")
