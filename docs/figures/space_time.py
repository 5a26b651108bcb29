"""Draw the maps of the page on space and time: python docs/figures/space_time.py"""

from pathlib import Path

import numpy as np

import stategp as sg

IMAGES = Path(__file__).parent.parent / "images"


def main() -> None:
    rng = np.random.default_rng(0)
    times, stations = np.arange(24.0), rng.uniform(0, 10, size=(40, 2))
    centre = np.stack([2 + 0.25 * times, 5 + 2 * np.sin(times / 5)], axis=1)
    distance = np.linalg.norm(stations[None] - centre[:, None], axis=2)
    y = 2 * np.exp(-(distance**2) / 8) + 0.2 * rng.standard_normal((24, 40))
    y[rng.uniform(size=y.shape) < 0.5] = np.nan
    model = sg.SpaceTimeGP(sg.spatial.Matern52(), sg.kernels.Matern32(), places=16)
    figure = sg.fit(model, (times, stations), y).plot_maps()
    figure.savefig(IMAGES / "space_time.png", dpi=110)


if __name__ == "__main__":
    main()
