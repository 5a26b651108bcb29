"""A complete analysis of simulated data: fit, forecast, certificate, figures, report."""

import time
from pathlib import Path
from typing import Any

import numpy as np

HORIZON = "7d"
SHAPE = 8.0  # of the negative binomial counts


def expected_visits(days: np.ndarray) -> np.ndarray:
    """The mean of the simulated counts: a trend and two seasons."""
    trend = 0.9 * np.sin(days / 13) + 0.01 * days
    daily = 0.8 * np.sin(2 * np.pi * (days - 0.3)) + 0.25 * np.cos(4 * np.pi * days)
    weekly = 0.35 * np.cos(2 * np.pi * days / 7)
    expected: np.ndarray = np.exp(1.8 + trend + daily + weekly)
    return expected


def simulate(seed: int = 0) -> dict[str, Any]:
    """Eight weeks of irregular counts: a trend, two seasons, a gap, missing values, outliers."""
    rng = np.random.default_rng(seed)
    days = np.sort(rng.uniform(0, 56, 3000))
    days = days[(days < 30) | (days > 34)]
    # From the model that is fitted. (Counts without overdispersion, beside a few outliers, would
    # make it learn intervals that are too wide for all the others.)
    rate = expected_visits(days) * rng.gamma(SHAPE, 1 / SHAPE, len(days))
    counts = rng.poisson(rate).astype(float)
    odd = rng.choice(len(days), 6, replace=False)
    counts[odd] = np.round(3 * counts[odd] + 25)
    counts[rng.random(len(days)) < 0.01] = np.nan
    start = np.datetime64("2026-03-02", "us")
    times = start + np.round(days * 86_400e6).astype("timedelta64[us]")
    return {"time": times, "visits": counts}


def run_demo(folder: Path) -> None:
    import pyarrow

    import stategp as sg
    from stategp._command._progress import Spinner
    from stategp._command._tables import write_table

    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    data = simulate()
    table = pyarrow.table(data)
    write_table(table, folder / "visits.csv")
    print(
        f"{len(data['time'])} irregular counts over eight weeks, with a gap of four days, a few "
        "missing values and six outliers"
    )
    # With a mean function that is given there is one model, and none that it is compared with.
    forecaster = sg.Forecaster(likelihood="negative-binomial", mean=sg.means.Constant())
    forecaster.fit(table, "time", "visits", progress=Spinner())
    posterior = forecaster.posterior
    result = posterior.fit_result
    if result is not None:
        print(f"fitted in {result.total_seconds:.1f} s, compilation included")
    print(f"  {forecaster.learned_kernel}")
    print(f"  {result}")
    print(f"  {posterior.certificate}\n")
    forecast = forecaster.forecast(HORIZON, every="6h")
    write_table(forecast, folder / "forecast.csv")
    print("forecast of the first day:")
    for row in forecast.slice(0, 4).to_pylist():
        print(
            f"  {row['time']:%a %d %b %H:%M}  {row['mean']:5.1f}, "
            f"95 % interval {row['lower_95']:.0f} to {row['upper_95']:.0f}"
        )
    flagged = forecaster.outliers(table).to_pydict()
    number = sum(flagged["outlier"])
    print(f"{number} observations are very improbable given all the others\n")
    _draw(forecaster, folder)
    forecaster.save(folder / "visits.stategp")
    print(f"\nfinished in {time.perf_counter() - began:.0f} s")
    print(f"open {folder / 'report.html'} in a browser, then try")
    print(f"  stategp describe {folder / 'visits.csv'}")
    print(
        f"  stategp fit {folder / 'visits.csv'} -l poisson -k "
        '"trend: matern32(1w) + daily: periodic(1d)" -o mine.stategp'
    )
    print("  stategp report mine.stategp --horizon 2w")


def _draw(forecaster: Any, folder: Path) -> None:
    from stategp import plots
    from stategp._runtime import replacing
    from stategp.report import write_report

    story = forecaster.story(horizon=HORIZON, title="Visits: eight weeks and the next")
    pictures: dict[str, Any] = {
        "series.png": plots.plot,
        "components.png": plots.plot_components,
        "checks.png": plots.plot_checks,
    }
    for name, draw in pictures.items():
        with replacing(folder / name) as file:
            draw(story).savefig(file, dpi=140, format="png")
        print(f"figure:  {folder / name}")
    write_report(story, folder / "report.html")
    print(f"report:  {folder / 'report.html'}")
