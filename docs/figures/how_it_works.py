"""Draw inducing states and the matrices behind them: python docs/figures/how_it_works.py"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import stategp as sg

IMAGES = Path(__file__).parent.parent / "images"
BLUE, VERMILION = "#0072B2", "#D55E00"
KERNEL = sg.kernels.Matern52(variance=1.0, lengthscale=2.0)


def main() -> None:
    draw_states()
    draw_matrices()


def draw_states() -> None:
    """Data, posterior, and the state at each inducing location as the parabola that it is."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, 160))
    x = x[(x < 5.6) | (x > 7.4)]
    y = np.sin(1.3 * x) * np.exp(-0.05 * x) + 0.25 * rng.standard_normal(len(x))
    model = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.06))
    posterior = sg.condition(model, x, y, inducing=np.linspace(0, 10, 7))
    grid = np.linspace(-0.5, 11.5, 600)
    mean, variance = (np.asarray(v) for v in posterior.predict_f(grid))
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    axes = figure.subplots()
    axes.plot(x, y, ".", color="0.6", ms=4, label="observations")
    width = 2 * np.sqrt(variance)
    axes.fill_between(grid, mean - width, mean + width, color=BLUE, alpha=0.18, lw=0)
    axes.plot(grid, mean, color=BLUE, lw=1.4, label="posterior of f, ± 2 sd")
    draw_parabolas(axes, posterior)
    axes.set(xlim=(-0.5, 11.5), ylim=(-1.9, 1.9), xlabel="x")
    axes.legend(loc="lower left", ncols=3, fontsize=9, frameon=False)
    tidy(axes)
    figure.savefig(IMAGES / "inducing_states.png", dpi=130)


def draw_parabolas(axes: Axes, posterior: sg.Posterior) -> None:
    """Two draws of (f, f′, f″) at every inducing location, which is what the chain stores."""
    z, h = posterior.inducing, 1e-2
    around = np.concatenate([z - h, z, z + h])
    near = np.linspace(-0.45, 0.45, 40)
    for path in np.asarray(posterior.sample_f(0, around, num_samples=2)):
        before, here, after = path.reshape(3, -1)
        slope, bend = (after - before) / (2 * h), (after - 2 * here + before) / h**2
        for at, f, df, ddf in zip(z, here, slope, bend, strict=True):
            axes.plot(at + near, f + df * near + ddf * near**2 / 2, color=VERMILION, lw=1.6)
            axes.plot(at, f, "o", color=VERMILION, ms=4)
    axes.plot([], [], "o-", color=VERMILION, ms=4, label="states at seven places, two draws")


def draw_matrices() -> None:
    """The covariance of eight states, and its inverse."""
    covariance = states_covariance(np.linspace(0, 6, 8))
    scale = np.sqrt(np.diagonal(covariance))
    covariance = covariance / scale[:, None] / scale
    figure = Figure(figsize=(8, 4.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    show(left, covariance, "covariance of eight states")
    show(right, np.linalg.inv(covariance), "its inverse, the precision")
    figure.savefig(IMAGES / "precision.png", dpi=130)


def states_covariance(z: np.ndarray) -> np.ndarray:
    """Cov(s(zᵢ), s(zⱼ)) = P₀ A(zⱼ − zᵢ)ᵀ for i ≤ j."""
    stationary, d = np.asarray(KERNEL.stationary_covariance()), KERNEL.state_dim
    whole = np.zeros((len(z) * d, len(z) * d))
    for i, a in enumerate(z):
        for j, b in enumerate(z[i:], start=i):
            block = stationary @ np.asarray(KERNEL.transition(b - a)).T
            whole[i * d : (i + 1) * d, j * d : (j + 1) * d] = block
            whole[j * d : (j + 1) * d, i * d : (i + 1) * d] = block.T
    return whole


def show(axes: Axes, matrix: np.ndarray, title: str) -> None:
    shade = np.abs(matrix) / np.abs(matrix).max()
    shade = np.where(shade > 1e-9, 0.12 + 0.88 * np.cbrt(shade), 0.0)  # rounding is zero
    axes.imshow(shade, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    edges = np.arange(0, len(matrix) + 1, 3) - 0.5
    axes.hlines(edges, -0.5, len(matrix) - 0.5, color="0.85", lw=0.6)
    axes.vlines(edges, -0.5, len(matrix) - 0.5, color="0.85", lw=0.6)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set(xticks=[], yticks=[])


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
