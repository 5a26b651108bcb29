"""docs/forecasting.md says what docs/forecasts-run.json and docs/co2-run.json hold."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import forecast_page

DOCS = Path(__file__).parents[2] / "docs"


TABLES = (forecast_page.DEVELOPED, forecast_page.FRESH, forecast_page.LAST)


@pytest.mark.parametrize("name", [*TABLES, forecast_page.YEARS])
def test_forecasts_against_other_libraries(name) -> None:
    run = json.loads((DOCS / name).read_text())
    page = (DOCS / "forecasting.md").read_text()
    assert forecast_page.stored_as(run) == DOCS / name
    assert forecast_page.with_table(page, run) == page


def test_fresh_series_are_no_others() -> None:
    """None of those that are skipped: the first ones of the same random order."""
    runs = [json.loads((DOCS / name).read_text()) for name in TABLES]
    assert len({run["seed"] for run in runs}) == 1
    for group in runs[0]["groups"]:
        several = [{one["series"] for one in run["groups"][group]["results"]} for run in runs]
        assert all(several)
        assert len(set.union(*several)) == sum(map(len, several))


def test_all_tables_together() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    counts, ours, peers, shares, msis, widest, inside = ([] for _ in range(7))
    for group in ("hourly", "weekly", "monthly"):
        scores: dict[str, list[list[float]]] = {}
        for name in TABLES:
            for one in json.loads((DOCS / name).read_text())["groups"][group]["results"]:
                row = [one["mase"], one["msis"], one["coverage"]]
                scores.setdefault(one["method"], []).append(row)
        counts.append(f"{len(scores['stategp'])}")
        assert {len(rows) for rows in scores.values()} == {len(scores["stategp"])}
        means = {method: np.mean(rows, axis=0) for method, rows in scores.items()}
        own = means.pop("stategp")
        best = min(means, key=lambda method: means[method][0])
        ours.append(f"{own[0]:.3f}")
        peers.append(f"{means[best][0]:.3f} ({best})")
        shares.append(f"{own[0] / means[best][0]:.3f}")
        msis.append(f"{own[1]:.1f}")
        widest.append(f"{min(scores[1] for scores in means.values()):.1f}")
        inside.append(f"{100 * own[2]:.1f}")

    def listed(values: list[str]) -> str:
        return f"{values[0]}, {values[1]} and {values[2]}"

    assert f"Over all three tables, {listed(counts)} series, our MASE is {listed(ours)}" in page
    assert f"and that of the best peer of each kind {listed(peers)}: shares of" in page
    assert (
        f"shares of {listed(shares)}; the MSIS is {listed(msis)} against {listed(widest)}" in page
    )
    assert f"and {listed(inside)} % lie inside the 95 % intervals." in page


def test_steps_longer_than_a_month() -> None:
    """What the page says beside the table."""
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    groups = json.loads((DOCS / forecast_page.YEARS).read_text())["groups"]

    def means(group: str, score: str) -> dict[str, float]:
        rows = groups[group]["results"]
        methods = {one["method"] for one in rows}
        return {m: float(np.mean([r[score] for r in rows if r["method"] == m])) for m in methods}

    for score in ("mase", "msis"):
        assert min(means("quarterly", score).items(), key=lambda each: each[1])[0] == "stategp"
    inside = [means(group, "coverage")["stategp"] for group in ("quarterly", "yearly")]
    theta, msis = "DynamicOptimizedTheta", means("yearly", "msis")
    assert means("yearly", "mase")[theta] < means("yearly", "mase")["stategp"]
    assert msis[theta] / msis["stategp"] > 2
    assert f"MASE and MSIS, with {100 * inside[0]:.1f} % inside; of yearly ones Theta has" in page
    assert f"the better MASE, with {100 * means('yearly', 'coverage')[theta]:.1f} % inside" in page
    assert f"and ours hold {100 * inside[1]:.1f} %." in page


def test_co2() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "co2-run.json").read_text())["results"]
    inside, width = run["coverage of the 95 % interval"], run["mean width of it (ppm)"]
    assert f"root mean squared error is {run['RMSE (ppm)']:.1f} ppm" in page
    assert f"{100 * inside:.1f} % of the months lie inside" in page
    assert f"which is {width:.1f} ppm wide" in page
    folds = [f"{100 * share:.0f} %" for share in run["folds"]["coverage_95"]]
    assert f"finds {folds[0]}, {folds[1]} and {folds[2]} of the months" in page


def test_what_was_tried() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())
    rows = run["changes"]["results"]
    weekly = [row for row in rows if row["series"].startswith("W")]
    hourly = [row for row in rows if row["series"].startswith("H")]
    used = [row for row in weekly if row["used"]]
    recent = [row for row in used if row["since"] <= 60]

    def means(rows, which):
        return np.mean([row[which] for row in rows], axis=0)

    (mase, msis, inside), before = means(used, "with"), means(used, "without")
    assert f"found at {len(weekly)} origins and used at {len(used)}" in page
    assert f"where the MASE is {mase:.2f} with and {before[0]:.2f} without them" in page
    assert f"the MSIS {msis:.1f} and {before[1]:.1f}, and {100 * inside:.1f} % and " in page
    assert f"{100 * before[2]:.1f} % lie inside" in page
    (mase, msis, _), before = means(recent, "with"), means(recent, "without")
    assert f"({len(recent)} of them), the MASE is {mase:.2f} with and {before[0]:.2f}" in page
    assert f"without, the MSIS {msis:.1f} and {before[1]:.1f}." in page
    origins = run["changes"]["origins"]["hourly"]
    assert f"Of {origins} origins in hourly series, {sum(r['used'] for r in hourly)} use" in page
    ours, theta = run["theta"]["stategp"], run["theta"]["DynamicOptimizedTheta"]
    assert f"At the {theta['origins']} origins" in page
    assert f"MASE of {theta['mase']:.2f} and an MSIS of {theta['msis']:.1f}, our models" in page
    assert f"our models {ours['mase']:.2f} and {ours['msis']:.1f}:" in page
    tried = run["candidates"]
    assert f"for {tried['as they are']['origins']} origins in the weekly series" in page
    like = tried["level and half the drift, a quarter of the weight"]["mase"]
    assert f"from {tried['as they are']['mase']:.2f} to {like:.2f}; equal weights" in page
    assert f"equal weights make it {tried['equal weights']['mase']:.2f}." in page
    scales = run["scales"]
    usual, third = scales["y and log y"]["msis"], scales["all three"]
    assert f"MASE stays at {third['mase']:.2f} and the MSIS goes from {usual:.1f} to" in page
    two = scales["the two likeliest of y, its root and log y"]["msis"]
    assert f"to {third['msis']:.1f}; with the two likeliest of the three it is {two:.1f}." in page
    alone = scales["the root alone"]
    assert f"alone has a MASE of {alone['mase']:.2f}, an MSIS of {alone['msis']:.1f} and" in page
    assert f"and {100 * alone['coverage']:.1f} % inside." in page
    one, average = (run["hyperparameters"][name] for name in ("at the optimum", "Laplace"))
    assert f"{100 * average['coverage']:.1f} % instead of {100 * one['coverage']:.1f} %" in page
    assert f"MSIS of {average['msis']:.1f} instead of {one['msis']:.1f}." in page
    before, now = (
        run["weights"][f"the slope that {which}"]
        for which in ("stays first, a quarter", "comes and goes first, a third")
    )
    mase, msis = ([one[name] for one in (before, now)] for name in ("mase", "msis"))
    assert f"At {now['origins']} of these origins" in page
    assert "the MASE goes from {:.2f} to {:.2f} and".format(*mase) in page
    assert "and the MSIS from {:.1f} to {:.1f}.".format(*msis) in page


def test_weights_by_errors_of_forecasts() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())["foresight"]
    weekly, monthly = run["weekly"], run["monthly"]
    before, now = weekly["evidence"], weekly["errors"]
    changes = [[100 * c for c in run[name]["change of log mase"].values()] for name in run]
    assert f"at all {weekly['origins']} origins (on which" in page
    assert f"the MASE goes from {before['mase']:.2f} to {now['mase']:.2f}, the MSIS from " in page
    assert f"the MSIS from {before['msis']:.1f} to {now['msis']:.1f}, and a typical" in page
    words = ["{:+.1f} ± {:.1f} %".format(*change).replace("-", "−") for change in changes][::-1]
    assert f"changes by {words[0]}. At {monthly['origins']} origins in monthly" in page
    assert f"in monthly series it changes by {words[1]}. They are used for days" in page


def changes(found: dict[str, dict[str, float]], score: str = "mase") -> str:
    """How a typical score changes, in percent."""
    mean, error = found[f"change of log {score}"].values()
    change = 100 * np.expm1(mean), 100 * error
    return "{:+.1f} ± {:.1f} %".format(*change).replace("-", "−")


def test_trends_of_months() -> None:
    page = (DOCS / "forecasting.md").read_text()
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())["trends of months"]
    kinds = {kind: f for kind, f in run.items() if isinstance(f, dict) and "origins" in f}
    assert len(kinds) == 8
    for kind, found in kinds.items():
        before, now = found["before"], found["now"]
        cells = [kind, f"{found['origins']}"]
        for score, digits in (("mase", 2), ("msis", 1)):
            cells += [f"{before[score]:.{digits}f}, {now[score]:.{digits}f}", changes(found, score)]
        assert f"| {' | '.join(cells)} |" in page


def test_means_of_log_y() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())["means"]
    m3, m1, weekly = run["M3"], run["M1"], run["weekly"]
    before, now, median = m3["mase"].values()
    assert f"at {m3['origins']} origins in monthly series of M3" in page
    assert f"MASE of means goes from {before:.3f} to {now:.3f} (that of medians is" in page
    assert f"(that of medians is {median:.3f}), and a typical one changes by {changes(m3)}" in page
    before, now, _ = m3["that changes most"].values()
    assert f"is one series, from {before:.1f} to {now:.1f}. At {m1['origins']} origins" in page
    assert f"origins in M1 a typical MASE changes by {changes(m1)}, at" in page
    assert f"{weekly['origins']} origins in weekly series by {changes(weekly)}. The 0.45" in page


def test_smaller_seasons() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())["seasons of months"]
    assert f"at {run['origins']} origins in monthly series of M1, M3 and the tourism" in page
    assert f"a typical MASE changes by {changes(run)} and a typical MSIS by" in page
    assert f"a typical MSIS by {changes(run, 'msis')}. They are not used." in page


def test_the_model_without_comparison() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "forecast-trials-run.json").read_text())["one model"]
    for kind, found in run.items():
        before, now = found["falls back"], found["goes on"]
        assert (
            f"({kind}, {found['origins']} origins) from {before['mase']:.2f} to {now['mase']:.2f}, "
            f"the MSIS from {before['msis']:.1f} to {now['msis']:.1f}"
        ) in page
    change = run["hourly"]["change of log mase"]
    assert (
        f"a typical hourly MASE changes by {_percent(change['mean'])} ± "
        f"{100 * change['standard error']:.0f} %"
    ) in page


def _percent(change: float) -> str:
    return f"{100 * change:.0f}".replace("-", "−")
