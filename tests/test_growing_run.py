"""docs/growing.md says what docs/growing-run.json and docs/kills-run.json hold."""

import json
import os

import pytest

from benchmarks import growing, kills
from benchmarks.blocks import block


def test_the_page_is_that_of_the_stored_run():
    stored = growing.STORED.exists()
    run = json.loads(growing.STORED.read_text()) if stored else None
    assert block("growing.md", "growing") == (growing.page(run) if run else "")


def test_a_step_takes_as_long_at_the_end_of_a_stream():
    if not growing.STORED.exists():
        return
    streams = json.loads(growing.STORED.read_text())["streams"]
    for name in dict.fromkeys(row["stream"] for row in streams):
        first, *_, last = [row for row in streams if row["stream"] == name]
        assert last["cpu_microseconds"] < 1.5 * first["cpu_microseconds"]
        assert last["bytes"] < 1.1 * first["bytes"]


def test_an_update_is_the_fit_of_all():
    rows = json.loads(growing.STORED.read_text())["updates"] if growing.STORED.exists() else []
    for row in rows:
        if "tolerance" in row:  # else it is of an old run, whose comparison was less exact
            assert row["difference"] <= 1e-8


@pytest.fixture
def killed():
    run = json.loads(kills.STORED.read_text()) if kills.STORED.exists() else {}
    return run if "steps_lost" in run.get("kills", [{}])[0] else None  # else it is an old one


def test_the_page_says_what_kills_cost(killed):
    assert block("growing.md", "kills") == (kills.page(killed) if killed else "")


def test_kills_lose_one_interval_and_the_step_under_way(killed):
    if killed is None:
        return
    assert len(killed["kills"]) >= 50
    assert killed["commit"]
    assert all(answer["the_same"] for answer in killed["answers"])
    for line in killed["kills"]:
        assert line["steps_after"] >= line["steps_before"]
        # A checkpoint that was due may not have been written to its end.
        if not line["killed_while_writing"]:
            assert line["seconds_of_them"] < killed["every"] + 0.1


def test_what_a_kill_loses_is_counted(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    checkpoint.write_bytes(b"")
    os.utime(checkpoint, (100.0, 100.0))
    checkpoint.with_suffix(".notes").write_text("98.5\n99.9\n100.1\n100.15\n")
    assert kills.lost(checkpoint, 90.0, 101.0) == {
        "steps_lost": 2, "seconds_of_them": 0.15, "seconds_under_way": 0.85, "stepping": True,
    }  # fmt: skip
    assert kills.lost(checkpoint, 100.5, 101.0)["steps_lost"] == 0
