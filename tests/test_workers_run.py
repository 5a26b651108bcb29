"""The stored run of `benchmarks.workers`: whoever was killed, the others stopped in time."""

import json

import pytest

from benchmarks.workers import STORED

if not STORED.exists():
    pytest.skip("`python -m benchmarks.workers --store` writes it", allow_module_level=True)

RUN = json.loads(STORED.read_text())
STARTING = 15  # seconds from the start of a program until it waits for the others


def test_both_kinds_of_process_were_killed_at_both_times():
    cases = {(run["killed"], run["when"]) for run in RUN["runs"]}
    times = ("before all had met", "during the search")
    assert cases == {(victim, when) for victim in (0, 1) for when in times}


@pytest.mark.parametrize("run", RUN["runs"])
def test_the_others_stopped_and_a_restart_gave_the_same(run):
    assert run["stopped"]
    assert run["message"]
    assert run["the_same"]
    allowed = RUN["patience_seconds"]
    if run["when"] == "before all had met":
        allowed += RUN["meeting_seconds"] + STARTING
    assert run["seconds_until_all_stopped"] <= allowed
