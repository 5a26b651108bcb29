"""The main job: a long irregular series with a gap, a trend and a season; fit, fill, forecast.

python examples/demo.py [--output demo-output]
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import stategp as sg


def simulate(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight years of irregular readings, nothing for a year in the middle, some missing."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 8, n))
    t = t[(t < 4.2) | (t > 5.2)]
    trend = 1.5 * np.sin(0.7 * t) + 0.3 * t
    season = np.sin(2 * np.pi * t) + 0.5 * np.cos(4 * np.pi * t + 1.0)
    y = 10 + trend + season + 0.6 * rng.standard_normal(len(t))
    y[rng.random(len(y)) < 0.02] = np.nan
    return t, y


def draw(posterior: sg.Posterior, t: np.ndarray, y: np.ndarray, path: Path) -> None:
    grid = np.linspace(0, 9.5, 2000)
    mean, variance = (np.asarray(v) for v in posterior.predict_f(grid))
    _, noisy = (np.asarray(v) for v in posterior.predict_y(grid))
    samples = np.asarray(posterior.sample_f(0, grid, num_samples=3))
    figure, axes = plt.subplots(
        3, 1, figsize=(10, 8), sharex=True, height_ratios=[2, 1, 1], layout="constrained"
    )
    top = axes[0]
    top.plot(t, y, ".", color="0.55", ms=2, label="observations", zorder=1)
    top.fill_between(
        grid, mean - 2 * noisy**0.5, mean + 2 * noisy**0.5, color="C0", alpha=0.12, lw=0,
        label="a new observation, ± 2 sd",
    )  # fmt: skip
    top.fill_between(
        grid, mean - 2 * variance**0.5, mean + 2 * variance**0.5, color="C0", alpha=0.35, lw=0,
        label="the function, ± 2 sd",
    )  # fmt: skip
    top.plot(grid, samples.T, color="C1", lw=0.6, alpha=0.9)
    top.plot(grid, mean, color="C0", lw=1.3, label="mean")
    top.plot([], [], color="C1", lw=0.8, label="joint samples")
    floor = np.nanmin(y) - 0.5
    z = posterior.inducing
    top.plot(z, np.full(len(z), floor), "|", color="0.3", ms=5, label="inducing states")
    top.axvline(8.0, color="0.6", lw=0.8, ls=":")
    top.legend(loc="upper left", ncols=3, fontsize=8, frameon=False)
    top.set_ylim(floor - 0.5, np.nanmax(y) + 3.0)
    top.set_ylabel("y")
    for axis, (name, (m, v)) in zip(axes[1:], posterior.components(grid).items(), strict=True):
        m, v = np.asarray(m), np.asarray(v)
        axis.fill_between(grid, m - 2 * v**0.5, m + 2 * v**0.5, color="C2", alpha=0.3, lw=0)
        axis.plot(grid, m, color="C2", lw=1.2)
        axis.set_ylabel(name)
    axes[-1].set_xlabel("years")
    axes[-1].set_xlim(grid[0], grid[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    output = parser.parse_args().output

    t, y = simulate()
    print(f"{np.sum(~np.isnan(y))} readings over eight years, with a gap of one year")
    model = sg.GP(
        kernel=sg.kernels.Sum(
            trend=sg.kernels.Matern52(),
            season=sg.kernels.Harmonic(weights=[1.0, 1.0], frequency=sg.fixed(1.0)),
        ),
        likelihood=sg.likelihoods.Gaussian(),
        mean=sg.means.Constant(),
    )
    began = time.perf_counter()
    posterior = sg.fit(model, t, y, inducing=60)
    print(f"fitted in {time.perf_counter() - began:.1f} s, compilation included\n")
    print(posterior)
    print(f"  KL to the exact posterior {posterior.kl_to_exact():.2g} nats\n")
    mean, variance = posterior.predict_y([8.25, 8.5, 9.0])
    for at, m, v in zip([8.25, 8.5, 9.0], mean, variance, strict=True):
        print(f"forecast at year {at}: {m:.2f} ± {2 * v**0.5:.2f}")
    draw(posterior, t, y, output / "demo.png")
    print(f"\npicture: {output / 'demo.png'}")
    print("next: change the kernel in examples/demo.py, or read README.md")


if __name__ == "__main__":
    main()
