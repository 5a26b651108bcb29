"""The benchmark of forecasts: its scores, its choice of series, and processes that die."""

import json
import sys

import numpy as np
import pytest

from benchmarks import forecast_page, forecast_scores, forecast_targets
from benchmarks.forecast_series import chosen, share_of
from benchmarks.forecasts import worked
from benchmarks.peers.protocol import forecast_record

TRAIN, TEST = np.array([0.0, 2.0, 1.0, 3.0]), np.array([4.0, 3.0, 5.0])
LEVELS = 10


def record(series="A", method="stategp", shift=0.0, **more):
    mean = np.array([3.0, 3.0, 3.0]) + shift
    lower, upper = (np.tile(mean + side, (LEVELS, 1)) for side in (-1.0, 1.0))
    made = forecast_record(2.0, mean, mean, lower, upper)
    return {"series": series, "method": method, "first": False} | made | more


def test_scores_by_hand():
    """Errors 1, 0 and 2; the mean difference of the history is 5/3; one is missed, by 1."""
    found = forecast_scores.scores(record(), TRAIN, TEST, 1)
    assert found["mase"] == pytest.approx(1.0 / (5 / 3))
    assert found["smape"] == pytest.approx(200 * (1 / 7 + 0 + 2 / 8) / 3)
    assert found["msis"] == pytest.approx((2 + 40 / 3) / (5 / 3))
    assert found["coverage"] == pytest.approx(2 / 3)
    assert [found[third] for third in forecast_scores.THIRDS] == [1.0, 1.0, 0.0]


def test_what_is_no_forecast_is_an_error():
    assert "steps ahead" in forecast_scores.scores(record(), TRAIN, TEST[:2], 1)["error"]
    assert "never changes" in forecast_scores.scores(record(), np.ones(4), TEST, 1)["error"]
    assert forecast_scores.scores({"error": "no"}, TRAIN, TEST, 1) == {}
    assert forecast_record(1.0, [np.nan], [0.0], [[0.0]], [[0.0]]) == {"error": "not finite: mean"}


def test_the_table_counts_what_failed_and_leaves_it_out():
    made = [record(), record(method="B", shift=1.0), record("C", "B", error="it broke")]
    results = [one | forecast_scores.scores(one, TRAIN, TEST, 1) for one in made]
    summary = forecast_scores.summary(results, ("stategp", "B", "absent"))
    assert list(summary) == ["stategp", "B"]
    assert (summary["B"]["series"], summary["B"]["failures"]) == (2, 1)
    assert summary["B"]["mase"] == pytest.approx((0 + 1 + 1) / 3 / (5 / 3))
    assert summary["B"]["ours_better"] == 0.0
    run = {"groups": {"weekly": {"summary": summary, "results": results}}}
    lines = forecast_scores.table(run, ("stategp", "B")).splitlines()
    assert lines[0].startswith("|         | weekly (2): MASE")
    assert lines[2].startswith("| stategp | 0.600")
    json.dumps(forecast_scores.without_forecasts(run), allow_nan=False)


def test_fewer_series_are_the_first_of_more():
    series = {f"S{i}": i for i in range(20)}
    assert list(chosen(series, 3, 0)) == list(chosen(series, 8, 0))[:3]
    assert list(chosen(series, 8, 0)) != list(chosen(series, 8, 1))
    assert list(chosen(series, 3, 0, skip=2)) == list(chosen(series, 5, 0))[2:]
    assert sorted(chosen(series, None, 0)) == sorted(series)


def test_shares_are_all_of_the_series_once():
    series = {f"S{i}": i for i in range(7)}
    shares = [share_of(series, f"{number}/3") for number in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(series)
    for wrong in ("3/3", "1", "-1/2", "a/b"):
        with pytest.raises(SystemExit, match="--share is like 0/16"):
            share_of(series, wrong)


def test_shares_are_joined_and_compared_with_the_targets(tmp_path):
    def run(results, **about):
        scored = [one | forecast_scores.scores(one, TRAIN, TEST, 1) for one in results]
        groups = {"weekly": {"results": scored}}
        return {"seed": 0, "series": "all", "skip": 0, "levels": [0.95], "groups": groups} | about

    mine, theirs = [record(), record("C")], [record(method="B", shift=1.0), record("C", "B", 1.5)]
    runs = [run(mine[:1]), run(mine[1:] + theirs), run(mine[:1])]
    files = [tmp_path / f"{number}.json" for number in range(4)]
    for file, content in zip(files, [*runs, run([], seed=1)], strict=True):
        file.write_text(json.dumps(content))
    whole = forecast_targets.joined(files[:3])
    assert len(whole["groups"]["weekly"]["results"]) == 4
    # Errors of ours 1, 0, 2 of both series; of B 0, 1, 1 and ½, 3/2, ½.
    words = forecast_targets.targets(whole, ("stategp", "B", "absent"))
    assert f"weekly, 2 series: MASE 0.600, {1 / ((2 / 3 + 2.5 / 3) / 2):.3f} of B's" in words
    assert "(target 0.98: missed)" in words
    assert "inside the 95 % interval 66.7% (target 93% to 97%: missed)" in words
    assert "no forecasts to compare" in forecast_targets.targets(run(mine), ("stategp", "B"))
    with pytest.raises(SystemExit, match=r"3.json has seed 1, .*0.json has 0; only shares"):
        forecast_targets.joined(files)


def test_our_seconds_are_those_of_a_run_before(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast_page, "DOCS", tmp_path)
    before = {"date": "2026-01-01", "groups": {"weekly": {"results": [record()]}}}
    (tmp_path / forecast_page.DEVELOPED).write_text(json.dumps(before))
    mine, theirs = record() | {"seconds": 9.0}, record(method="B") | {"seconds": 3.0}
    run = {"date": "2026-02-02", "groups": {"weekly": {"results": [mine, theirs]}}}
    kept = forecast_page.with_seconds_kept(run)
    assert [one["seconds"] for one in kept["groups"]["weekly"]["results"]] == [2.0, 3.0]
    assert (kept["date"], kept["seconds_measured"]) == ("2026-02-02", "2026-01-01")
    assert run["groups"]["weekly"]["results"][0]["seconds"] == 9.0


SCRIPT = """
import json, os, sys
for one in json.load(open(sys.argv[1]))["todo"]:
    if one["series"] == "dies":
        os._exit(9)
    print(json.dumps(one | {"done": True}), flush=True)
"""


def test_a_process_that_dies_costs_one_series():
    todo = [{"series": name} for name in ("a", "dies", "b")]
    found = list(worked([sys.executable, "-c", SCRIPT], {}, todo, 60.0))
    assert [one["series"] for one in found] == ["a", "dies", "b"]
    assert [one.get("done", False) for one in found] == [True, False, True]
    assert "status 9" in found[1]["error"]
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        list(worked([sys.executable, "-c", "1 / 0"], {}, todo, 60.0))
