"""Time warping with a deep GP (paper, section 4.4): two series, each a warp of one function.

    stategp-experiments time-warp [--noise 0.05 0.1] [--seeds 3] [--resume] [--quick]

y_k = g_k(f(a_k(t))) + noise, with a_1(t) = t, a_2(t) = t², g_1 = tanh, g_2 the identity; all five
functions are unknown, Matérn-3/2, M = 50, 100 and 50 inducing points, parts of both series are
missing. From a warp that starts as the identity the bound has a local optimum for every period by
which a warp can be wrong. So, other than in the paper, the second series is let in from its start,
a little further each time: its warp then only ever has to be extended. Meanwhile the noise is held
at 0.2, more than it is: a prior that still counts for something keeps the warp from folding back
at every peak. The noise is learned at the end, from all observations.

Scores are those of the removed observations, beside a model that shares a function between the
series but cannot warp it. `--resume` keeps what an earlier run has written.
"""

import dataclasses
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np
import optax

import stategp as sg
from stategp_experiments import studies

MISSING = ([(0.55, 0.6), (0.85, 0.9)], [(0.4, 0.5)])
ADAM = optax.adam(0.01)
HELD = 0.2  # the noise while the second series is let in
FUNCTIONS = ["a1", "a2", "f", "g1", "g2"]
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
        series.append((t, y, missing(t, number)))
    return series


def missing(t: np.ndarray, number: int) -> np.ndarray:
    return np.any([(t > low) & (t < high) for low, high in MISSING[number]], axis=0)


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
    return sg.DeepGP(layers, composition, noisy(fixed(HELD**2)), samples=3)


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
    return sg.DeepGP(layers, addition, noisy(0.01), samples=1)


def addition(f, t, number):
    return f["shared"](t) + f["own"][number](t)


def windows(quick: bool) -> list[float]:
    """How far the second series is let in: a quarter further each time, and by 0.05 at most."""
    ends = [0.05]
    while ends[-1] < 1:
        ends.append(ends[-1] + min(0.25 * ends[-1], 0.05))
    return ends[:2] if quick else ends


def fit_deep(series, quick: bool) -> sg.DeepPosterior:
    x, y = _observed(series)
    posterior, steps = deep_model(), 5 if quick else 80
    for end in [0.0, *windows(quick)]:
        # Observations outside of the window count next to nothing.
        seen = [np.ones(len(x[0])), np.where(x[1] <= end, 1.0, 1e-6)]
        length = 4 * steps if end == 0 else steps
        posterior = sg.fit(
            posterior, x, y, weights=seen, max_steps=length, step_size=0.1, optimiser=ADAM
        )
    if quick:  # another model is another minute for the compiler
        return posterior
    model = posterior.model
    model = sg.DeepGP(model.layers, composition, noisy(HELD**2), samples=model.samples)
    posterior = dataclasses.replace(posterior, model=model)
    last = optax.exponential_decay(0.05, 500, 0.3)
    return sg.fit(posterior, x, y, max_steps=12 * steps, step_size=last, optimiser=ADAM)


def fit_plain(series, quick: bool) -> sg.DeepPosterior:
    x, y = _observed(series)
    return sg.fit(plain_model(), x, y, max_steps=10 if quick else 800, optimiser=ADAM)


def _observed(series):
    return [t[~gone] for t, _, gone in series], [y[~gone] for _, y, gone in series]


def score(posterior: sg.DeepPosterior, series) -> dict:
    """RMSE and mean log density of the removed observations: of each series, and of both."""
    squares, densities = [], []
    for number, (t, y, gone) in enumerate(series):
        mean, _ = posterior.predict_y(t[gone], number)
        squares.append((np.asarray(mean) - y[gone]) ** 2)
        densities.append(np.asarray(posterior.log_density(t[gone], y[gone], number)))
    return {
        "rmse": float(np.sqrt(np.mean(np.concatenate(squares)))),
        "log density": float(np.mean(np.concatenate(densities))),
        "rmse of each": [float(np.sqrt(np.mean(one))) for one in squares],
        "log density of each": [float(np.mean(one)) for one in densities],
    }


def recovery(posterior: sg.DeepPosterior) -> dict:
    """How far each function is from the truth, root mean square.

    f is known up to a change of its input that the warps undo and one of its output that the
    distortions undo; the warps start at the identity, so all are compared as they are: the warps
    and the shared function between 0 and 1, the distortions where its values are.
    """
    t, v, functions = np.linspace(0.02, 0.98, 200), np.linspace(-0.9, 0.9, 100), posterior.functions
    found = {"f": _distance(functions["f"].predict_f(t)[0], shared(t))}
    for number in range(2):
        found[f"a{number + 1}"] = _distance(
            functions["a"][number].predict_f(t)[0], warps(t)[number]
        )
        found[f"g{number + 1}"] = _distance(
            functions["g"][number].predict_f(v)[0], distortions(v)[number]
        )
    return {name: found[name] for name in FUNCTIONS}


def _distance(found, truth) -> float:
    return float(np.sqrt(np.mean((np.asarray(found) - truth) ** 2)))


def claims(posterior: sg.DeepPosterior) -> dict:
    """What the paper says in words, as numbers."""
    t = np.linspace(0, 1, 401)
    late, early = np.linspace(0.6, 0.9, 300), np.linspace(0.0, 0.1, 100)  # whole periods of f
    f = posterior.functions["f"]

    def dampening(function) -> float:
        return float(np.std(function(late)) / np.std(function(early)))

    inside, outside = [], []
    for number in range(2):
        deviation = np.sqrt(np.asarray(posterior.predict_f(t, number)[1]))
        inside.append(deviation[missing(t, number)])
        outside.append(deviation[~missing(t, number)])
    deviations = [np.sqrt(np.asarray(a.predict_f(t)[1])) for a in posterior.functions["a"]]
    return {
        "sd inside / outside": float(
            np.mean(np.concatenate(inside)) / np.mean(np.concatenate(outside))
        ),
        "sd of the warps": float(np.mean(deviations)),
        "dampening": dampening(lambda x: np.asarray(f.predict_f(x)[0])),
        "true dampening": dampening(shared),
    }


def draw(posterior: sg.DeepPosterior, series, path: Path) -> None:
    """The paper's five panels."""
    figure, axes = studies.plt.subplots(5, 1, figsize=(8, 12), layout="constrained")
    t, v = np.linspace(0, 1, 400), np.linspace(-1.0, 1.0, 200)
    functions = posterior.functions
    for number, color in enumerate(["C0", "C1"]):
        for axis, name, at, truth in [(axes[0], "a", t, warps), (axes[2], "g", v, distortions)]:
            label = f"${name}_{number + 1}$"
            studies.band(axis, at, *functions[name][number].predict_f(at), color, label)
            axis.plot(at, truth(at)[number], "k--", lw=0.9, label="truth" if number else None)
    studies.band(axes[1], t, *functions["f"].predict_f(t), "C2", "$f$")
    for number, sample in enumerate(functions["f"].sample_f(0, t, 10)):
        axes[1].plot(t, sample, color="C2", lw=0.5, alpha=0.5, label=None if number else "samples")
    axes[1].plot(t, shared(t), "k--", lw=0.9, label="truth")
    for number, (at, y, gone) in enumerate(series):
        axis = axes[3 + number]
        axis.plot(at[~gone], y[~gone], f"C{number}.", ms=2, label="observed")
        studies.band(axis, t, *posterior.predict_y(t, number), f"C{number}", "mean ± 2 sd")
        axis.plot(at[gone], y[gone], "ko", ms=4, mfc="none", mew=0.7, label="removed")
        axis.set_ylabel(f"$y_{number + 1}$")
    titles = ["warps", "shared function", "distortions", "series 1", "series 2"]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("value of $f$" if axis is axes[2] else "$t$", labelpad=0)
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.25 * (high - low))  # room for the legend
        axis.legend(loc="upper right", fontsize=9, ncols=4, frameon=False)
    axes[1].set_xlabel("warped $t$", labelpad=0)
    studies.save(figure, path)


def one(noise: float, seed: int, quick: bool, path: Path) -> dict:
    """One data set, fitted with and without warps; the first of each noise level is drawn."""
    series = simulate(seed, noise, 200 if quick else 1000)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)  # stages are short on purpose
        deep = fit_deep(series, quick)
        seconds = time.perf_counter() - began
        plain = fit_plain(series, quick)
    if seed == 0:
        draw(deep, series, path)
    return {
        "noise": noise,
        "seed": seed,
        "seconds": seconds,
        "noise found": float(deep.model.likelihood.variance) ** 0.5,
        "deep": score(deep, series),
        "plain": score(plain, series),
        "distance": recovery(deep),
        "claims": claims(deep),
    }


def table(rows: list[dict]) -> str:
    lines = [
        "removed observations (in brackets: without warps), distance of the functions, claims",
        "noise seed  found    RMSE          log density  "
        + "".join(f"{name:>7}" for name in FUNCTIONS)
        + "   sd in/out  sd of a  dampening  seconds",
    ]
    for row in rows:
        deep, plain, said = row["deep"], row["plain"], row["claims"]
        lines.append(
            f"{row['noise']:5g} {row['seed']:4d} {row['noise found']:6.3f}"
            f"  {deep['rmse']:.3f} ({plain['rmse']:.3f})"
            f"  {deep['log density']:5.2f} ({plain['log density']:5.2f})"
            + "".join(f"{row['distance'][name]:7.3f}" for name in FUNCTIONS)
            + f"{said['sd inside / outside']:12.2f}{said['sd of the warps']:9.4f}"
            f"{said['dampening']:6.2f} ({said['true dampening']:.2f}){row['seconds']:7.0f}"
        )
    return "\n".join(
        [
            *lines,
            "the paper (figures, no numbers): the functions share the characteristics of the",
            "truth, f has the right dampening (in brackets: the truth's), more uncertainty where",
            "data are missing, almost none in the warps; at noise 0.1 functions are learned worse",
        ]
    )


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, quick="200 points, one run of few steps: no alignment")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--resume", action="store_true", help="keep the rows already written")
    options = parser.parse_args(arguments)
    suffix = "_quick" if options.quick else ""
    path = options.output / f"time_warp{suffix}.json"
    rows = json.loads(path.read_text())["results"] if options.resume and path.exists() else []
    done = {(row["noise"], row["seed"]) for row in rows}
    noises, seeds = (options.noise[:1], 1) if options.quick else (options.noise, options.seeds)
    for noise, seed in itertools.product(noises, range(seeds)):
        if (noise, seed) not in done:
            drawn = options.output / f"time_warp_{noise:g}{suffix}.png"
            rows = [*rows, one(noise, seed, options.quick, drawn)]
            print(table(rows[-1:]).splitlines()[2], flush=True)
            studies.write(rows, path)
    print(table(sorted(rows, key=lambda row: (row["noise"], row["seed"]))))
