"""Draw the pictures of the forecasting page: python docs/figures/forecast.py"""

from pathlib import Path

import pandas as pd

import stategp as sg
from stategp._command._demo import simulate

IMAGES = Path(__file__).parent.parent / "images"


def main() -> None:
    frame = pd.DataFrame(simulate())
    forecaster = sg.Forecaster(likelihood="negative-binomial")
    forecaster.fit(frame, time="time", target="visits", seed=0)  # one model, not compared
    forecaster.plot("7d").savefig(IMAGES / "forecast.png", dpi=130)
    forecaster.plot_components(horizon="7d").savefig(IMAGES / "components.png", dpi=130)


if __name__ == "__main__":
    main()
