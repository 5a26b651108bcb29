"""Data alignment with a deep GP (paper, section 4.4): two series, each a warp of one function.

    stategp-experiments time-warp [--seeds 3] [--noise 0.05] [--quick]

y_k = g_k(f(a_k(t))) + noise, with a_1(t) = t, a_2(t) = t², g_1 = tanh, g_2 the identity; all five
functions are unknown, Matérn-3/2, M = 50, 100 and 50 inducing points, parts of both series are
missing. From a warp that starts as the identity the bound has a local optimum for every period by
which a warp can be wrong. So the second series is let in from its start, a little further each
time: its warp then only ever has to be extended. Meanwhile the noise is held at 0.2, four times
what it is: a prior that still counts for something keeps the warp from folding back at every peak.
The noise is learned at the end, from all observations.

Scores are those of the removed observations, beside a model that shares a function between the
series but cannot warp it.
"""

import dataclasses
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import optax

import stategp as sg
from stategp_experiments import figures

MISSING = ([(0.55, 0.6), (0.85, 0.9)], [(0.4, 0.5)])
ADAM = optax.adam(0.01)
NOISE = 0.2  # while the second series is let in
k = sg.kernels


def shared(x):
    return (0.75 * (1 - np.tanh(10 * 2 * np.pi * x / 15)) + 0.25) * np.sin(10 * 2 * np.pi * x)


def warps(t):
    return [t, t**2]


def distortions(v):
    return [np.tanh(v), v]


def simulate(seed: int, noise: float, count: int = 1000):
    """Inputs, observations, and which of them are removed, for both series."""
    rng = np.random.default_rng(seed)
    series = []
    for number in range(2):
        t = np.sort(rng.uniform(0, 1, count))
        y = distortions(shared(warps(t)[number]))[number] + noise * rng.standard_normal(count)
        gone = np.any([(t > low) & (t < high) for low, high in MISSING[number]], axis=0)
        series.append((t, y, gone))
    return series


def identity():
    return sg.means.Linear(intercept=sg.fixed(0.0), slope=sg.fixed(1.0))


def deep_model() -> sg.DeepGP:
    fixed = sg.fixed
    warp = k.Matern32(variance=fixed(1.0), lengthscale=fixed(4.0))
    distortion = k.Matern32(variance=fixed(0.03), lengthscale=fixed(3.0))
    layers = {
        "a": [sg.Layer(warp, 50, between=(-0.1, 1.1), mean=identity()) for _ in range(2)],
        "f": sg.Layer(k.Matern32(variance=1.0, lengthscale=0.1), 100, between=(-0.1, 1.1), mean=0),
        "g": [sg.Layer(distortion, 50, between=(-1.5, 1.5), mean=identity()) for _ in range(2)],
    }
    return sg.DeepGP(layers, composition, noisy(fixed(NOISE**2)), samples=3)


def noisy(variance) -> sg.likelihoods.Gaussian:
    return sg.likelihoods.Gaussian(variance=variance)


def composition(f, t, number):
    return f["g"][number](f["f"](f["a"][number](t)))


def plain_model() -> sg.DeepGP:
    """Shared and own functions of t, added: what a multi-output GP can do without warps."""
    layers = {
        "shared": sg.Layer(k.Matern32(variance=0.5, lengthscale=0.1), 100, mean=0),
        "own": [sg.Layer(k.Matern32(variance=0.5, lengthscale=0.1), 100, mean=0) for _ in range(2)],
    }
    likelihood = sg.likelihoods.Gaussian(variance=0.01)
    return sg.DeepGP(layers, addition, likelihood, samples=1)


def addition(f, t, number):
    return f["shared"](t) + f["own"][number](t)


def windows(quick: bool) -> np.ndarray:
    """How far the second series is let in: a quarter further each time, and by 0.05 at most."""
    ends = [0.05]
    while ends[-1] < 1:
        ends.append(ends[-1] + min(0.25 * ends[-1], 0.05))
    return np.array(ends[:3] if quick else ends)


def fit_deep(series, quick: bool) -> sg.DeepPosterior:
    x = [t[~gone] for t, _, gone in series]
    y = [values[~gone] for _, values, gone in series]
    posterior, steps = deep_model(), 5 if quick else 80
    for end in [0.0, *windows(quick)]:
        # Observations outside of the window count next to nothing.
        seen = [np.ones(len(x[0])), np.where(x[1] <= end, 1.0, 1e-6)]
        length = 4 * steps if end == 0 else steps
        posterior = sg.fit(
            posterior, x, y, weights=seen, max_steps=length, step_size=0.1, optimiser=ADAM
        )
    model = posterior.model
    model = sg.DeepGP(model.layers, composition, noisy(NOISE**2), samples=model.samples)
    posterior = dataclasses.replace(posterior, model=model)
    last = optax.exponential_decay(0.05, 500, 0.3)
    return sg.fit(posterior, x, y, max_steps=12 * steps, step_size=last, optimiser=ADAM)


def fit_plain(series, quick: bool) -> sg.DeepPosterior:
    x = [t[~gone] for t, _, gone in series]
    y = [values[~gone] for _, values, gone in series]
    return sg.fit(plain_model(), x, y, max_steps=10 if quick else 800, optimiser=ADAM)


def score(posterior, series):
    """RMSE and mean log density of the removed observations, both series together."""
    errors, densities = [], []
    for number, (t, y, gone) in enumerate(series):
        mean, _ = posterior.predict_y(t[gone], number)
        errors.append((np.asarray(mean) - y[gone]) ** 2)
        densities.append(np.asarray(posterior.log_density(t[gone], y[gone], number)))
    each = [float(np.sqrt(np.mean(e))) for e in errors]
    density = [float(np.mean(d)) for d in densities]
    return {
        "rmse": float(np.sqrt(np.mean(np.concatenate(errors)))),
        "log density": float(np.mean(np.concatenate(densities))),
        "rmse of each": each,
        "log density of each": density,
    }


def recovery(posterior):
    """How far the functions are from the truth, root mean square.

    f is known up to a change of its input that the warps undo and one of its output that the
    distortions undo; the warps start at the identity, so they are compared as they are, the shared
    function where the warps reach, and the distortions where its values are.
    """
    t, v = np.linspace(0.02, 0.98, 200), np.linspace(-0.9, 0.9, 100)
    functions = posterior.functions
    found = {}
    for number in range(2):
        mean, _ = functions["a"][number].predict_f(t)
        found[f"a{number + 1}"] = _distance(mean, warps(t)[number])
        mean, _ = functions["g"][number].predict_f(v)
        found[f"g{number + 1}"] = _distance(mean, distortions(v)[number])
    found["f"] = _distance(functions["f"].predict_f(t)[0], shared(t))
    return found


def _distance(found, truth) -> float:
    return float(np.sqrt(np.mean((np.asarray(found) - truth) ** 2)))


def draw(posterior, series, path) -> None:
    figure, axes = plt.subplots(5, 1, figsize=(8, 12), layout="constrained")
    t, v = np.linspace(0, 1, 400), np.linspace(-1.2, 1.2, 200)
    functions = posterior.functions
    for number, color in enumerate(["C0", "C1"]):
        for axis, name, at, truth in [
            (axes[0], "a", t, warps(t)[number]),
            (axes[2], "g", v, distortions(v)[number]),
        ]:
            figures.band(
                axis, at, *functions[name][number].predict_f(at), color, f"{name}{number + 1}"
            )
            axis.plot(at, truth, "k--", lw=0.8)
    for sample in functions["f"].sample_f(0, t, 10):
        axes[1].plot(t, sample, color="C2", lw=0.5, alpha=0.5)
    figures.band(axes[1], t, *functions["f"].predict_f(t), "C2", "f")
    axes[1].plot(t, shared(t), "k--", lw=0.8, label="truth")
    for number, (at, y, gone) in enumerate(series):
        axis = axes[3 + number]
        axis.plot(at[~gone], y[~gone], f"C{number}.", ms=2, label=f"series {number + 1}")
        axis.plot(at[gone], y[gone], "ko", ms=4, mfc="none", mew=0.6, label="removed")
        figures.band(axis, t, *posterior.predict_y(t, number), f"C{number}")
    for axis, title in zip(
        axes, ["warps", "shared function", "distortions", "series 1", "series 2"], strict=True
    ):
        axis.set_title(title, loc="left", fontsize=9)
        axis.legend(loc="upper right", fontsize=7, ncols=3)
    figures.save(figure, path)


def study(seeds: int, noise: float, quick: bool):
    results = []
    for seed in range(seeds):
        series = simulate(seed, noise, 200 if quick else 1000)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)  # stages are short on purpose
            deep = fit_deep(series, quick)
            seconds = time.perf_counter() - began
            plain = fit_plain(series, quick)
        row = {
            "seed": seed,
            "noise": noise,
            "seconds": seconds,
            "noise found": float(deep.model.likelihood.variance) ** 0.5,
            "deep": score(deep, series),
            "plain": score(plain, series),
            "distance": recovery(deep),
        }
        results.append(row)
        away = ", ".join(f"{name} {value:.3f}" for name, value in sorted(row["distance"].items()))
        print(
            f"seed {seed}: {seconds:4.0f} s, noise {row['noise found']:.4f}; removed observations: "
            f"RMSE {row['deep']['rmse']:.3f} (without warps {row['plain']['rmse']:.3f}), log "
            f"density {row['deep']['log density']:.2f} ({row['plain']['log density']:.2f}); "
            f"distance from the truth: {away}",
            flush=True,
        )
        name = f"time_warp_{noise:g}_{seed}{'_quick' if quick else ''}"
        draw(deep, series, figures.RESULTS / f"{name}.png")
    figures.write(results, figures.RESULTS / f"time_warp_{noise:g}.json")
    return results


def main(arguments: list[str]) -> None:
    parser = figures.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--noise", type=float, default=0.05)
    options = parser.parse_args(arguments)
    study(1 if options.quick else options.seeds, options.noise, options.quick)
