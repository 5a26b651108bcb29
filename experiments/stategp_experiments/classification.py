"""Classification (paper, appendix): S²VGP against Laplace, EP and VB on the same chain.

    stategp-experiments classification [--repeats 10] [--labels sign|drawn]

x uniform on [0, 7], y = sign(6 sin(πx)/(πx + 1) + 0.05 ε), N = 5,000 to train and 1,000 to test,
Matérn-3/2 with fixed hyperparameters. S²VGP has 50 inducing points on a grid; the others have a
state at every observation, as in the paper. `--labels drawn` draws labels with probability
σ(6 sin(πx)/(πx + 1)) instead. Times are after a first run, which includes compilation.
"""

import time
from pathlib import Path

import numpy as np

import stategp as sg
from stategp_experiments import figures

KERNEL = sg.kernels.Matern32(variance=1.0, lengthscale=1.0)
MODEL = sg.GP(KERNEL, "bernoulli")
GRID = np.linspace(0, 7, 50)
METHODS = {
    "S²VGP (M = 50)": {"inducing": GRID, "method": "natural"},
    "S²VGP (M = 50, L-BFGS)": {"inducing": GRID, "method": "gradient", "max_steps": 2000},
    "S²VGP (M = N)": {"inducing": "data", "method": "natural"},
    "Laplace": {"inducing": "data", "method": "laplace"},
    "EP": {"inducing": "data", "method": "ep"},
    "VB": {"inducing": "data", "method": "vb"},
}


def truth(x: np.ndarray) -> np.ndarray:
    return 6 * np.sin(np.pi * x) / (np.pi * x + 1)


def simulate(seed: int, count: int, labels: str = "sign") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 7, count)
    if labels == "drawn":
        return x, (rng.uniform(size=count) < 1 / (1 + np.exp(-truth(x)))).astype(float)
    return x, (truth(x) + 0.05 * rng.standard_normal(count) > 0).astype(float)


def picture(path: Path) -> None:
    x, y = simulate(0, 5000)
    posterior = sg.condition(MODEL, x, y, inducing=GRID)
    at = np.linspace(-0.5, 7.5, 800)
    mean, variance = (np.asarray(v) for v in posterior.predict_f(at))
    plt = figures.plt
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    jitter = np.random.default_rng(0).normal(0, 0.12, 800)
    axis.plot(x[:800], 6 * y[:800] - 3 + jitter, "k.", ms=2, alpha=0.4, label="labels (some)")
    axis.plot(at[at >= 0], truth(at[at >= 0]), "C2--", label="truth before sign")
    figures.band(axis, at, mean, variance, color="C3", label="f, mean ± 2 sd")
    axis.plot(GRID, np.full(50, -4.3), "|", color="C0", label="inducing locations")
    axis.set(xlabel="x", ylabel="f", xlim=(-0.5, 7.5))
    axis.legend(frameon=False, ncols=4, loc="upper right")
    figures.save(figure, path)


def main(arguments: list[str]) -> None:
    parser = figures.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--labels", choices=["sign", "drawn"], default="sign")
    options = parser.parse_args(arguments)
    print(f"{'method':26}{'NLPD':>16}{'log evidence':>16}{'seconds':>18}  first run")
    numbers = {}
    for name, settings in METHODS.items():
        scores, seconds, evidence = [], [], []
        for repeat in range(options.repeats + 1):  # the first is for the compiler
            x, y = simulate(max(repeat - 1, 0), 6000, options.labels)
            began = time.perf_counter()
            posterior = sg.condition(MODEL, x[:5000], y[:5000], **settings)
            seconds.append(time.perf_counter() - began)
            if repeat:
                scores.append(-float(np.mean(posterior.log_density(x[5000:], y[5000:]))))
                evidence.append(posterior.elbo)
        compiled = np.asarray(seconds[1:])
        print(
            f"{name:26}{np.mean(scores):9.4f} ± {np.std(scores):.4f}{np.mean(evidence):16.2f}"
            f"{compiled.mean():10.3f} ± {compiled.std():.3f}{seconds[0]:11.1f}",
            flush=True,
        )
        numbers[name] = {"nlpd": scores, "seconds": seconds, "log_evidence": evidence}
    figures.write(numbers, options.output / "classification.json")
    picture(options.output / "classification.png")
