"""CO₂ above Mauna Loa: the last ten years forecast from what came before, nothing chosen by hand.

    stategp-experiments co2 [--output experiments/results]

Fits the default kernel of `sg.Forecaster`, scores the forecast, cross-validates over earlier
origins, draws it.
"""

import time

import numpy as np
import pandas as pd

import stategp as sg
from stategp_experiments import studies


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__)
    parser.add_argument("--kernel", help="an expression, in place of the default kernel")
    parser.add_argument("--folds", type=int, default=3, help="origins of the cross-validation")
    given = parser.parse_args(arguments)
    data = sg.data.co2()
    frame = pd.DataFrame({"ds": pd.to_datetime(data.month), "co2": data.y})
    later = frame.ds >= frame.ds.max() - pd.DateOffset(years=10, months=-1)
    train, test = frame[~later], frame[later]

    began = time.perf_counter()
    forecaster = sg.Forecaster(given.kernel).fit(train, target="co2")
    seconds = time.perf_counter() - began
    print(forecaster.posterior)
    print(f"learned: {forecaster.learned_kernel}\n{seconds:.1f} s, compilation included")

    predicted = forecaster.predict(test)
    error = predicted["mean"].to_numpy() - test.co2.to_numpy()
    y = test.co2.to_numpy()
    inside = (predicted.lower_95.to_numpy() <= y) & (y <= predicted.upper_95.to_numpy())
    numbers = {
        "months held out": len(test),
        "RMSE (ppm)": float(np.sqrt(np.mean(error**2))),
        "coverage of the 95 % interval": float(inside.mean()),
        "mean width of it (ppm)": float((predicted.upper_95 - predicted.lower_95).mean()),
        "seconds": seconds,
    }
    for name, value in numbers.items():
        print(f"{name}: {value:.4g}")
    folds = forecaster.cross_validate(
        train, target="co2", horizon="10y", folds=given.folds, progress=False
    )
    print(folds.to_string(index=False))
    numbers["folds"] = folds.astype({"origin": str}).to_dict("list")

    figure = forecaster.plot(horizon="10y")
    axis = figure.axes[0]
    axis.plot(test.ds, test.co2, ".", color="C3", ms=3, label="held out")
    axis.set_ylabel("CO₂ (ppm)")
    axis.legend(loc="upper left", frameon=False, fontsize=8)
    studies.save(figure, given.output / "co2.png")
    studies.write(numbers, given.output / "co2.json")
