"""A step that one stationary layer cannot follow: one layer against two.

    stategp-experiments step [--seeds 5]

200 observations of tanh(40 x) with noise 0.05, every second one held out.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import optax

import stategp as sg
from stategp_experiments import studies

k = sg.kernels


def simulate(seed: int):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 200)
    return x, np.tanh(40 * x) + 0.05 * rng.standard_normal(200), np.arange(200) % 2 == 0


def models():
    outer = sg.Layer(k.Matern52(variance=1.0, lengthscale=1.0), 20, between=(-2, 2), mean=0.0)
    inner = sg.Layer(k.Matern52(variance=0.5, lengthscale=0.5), 20)
    noise = sg.likelihoods.Gaussian(variance=0.05)
    return {
        "one layer": sg.DeepGP.stack([outer], noise),
        "two layers": sg.DeepGP.stack([inner, outer], noise),
    }


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(arguments)
    rows = []
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
    for seed in range(options.seeds):
        x, y, train = simulate(seed)
        for axis, (name, model) in zip(axes, models().items(), strict=True):
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sg.NotConvergedWarning)
                posterior = sg.fit(
                    model,
                    x[train],
                    y[train],
                    max_steps=1000,
                    step_size=0.1,
                    optimiser=optax.adam(0.02),
                )
            density = float(np.mean(posterior.log_density(x[~train], y[~train])))
            rows.append({"seed": seed, "model": name, "density": density, "elbo": posterior.elbo})
            seconds = time.perf_counter() - began
            print(f"seed {seed}, {name}: held-out log density {density:.3f}, {seconds:.0f} s")
            if seed == 0:
                at = np.linspace(-1, 1, 400)
                axis.plot(x[train], y[train], "k.", ms=3)
                studies.band(axis, at, *posterior.predict_y(at))
                axis.set_title(f"{name}: {density:.2f}", fontsize=9)
    for name in models():
        own = [row["density"] for row in rows if row["model"] == name]
        print(f"{name}: {np.mean(own):.3f} ± {np.std(own):.3f}")
    studies.save(figure, options.output / "step.png")
    studies.write(rows, options.output / "step.json")
