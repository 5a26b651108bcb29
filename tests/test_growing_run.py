"""docs/growing.md says what docs/growing-run.json holds."""

import json

from benchmarks import growing
from benchmarks.blocks import block


def test_the_page_is_that_of_the_stored_run():
    stored = growing.STORED.exists()
    run = json.loads(growing.STORED.read_text()) if stored else None
    assert block("growing.md", "growing") == (growing.page(run) if run else "")


def test_a_step_takes_as_long_at_the_end_of_a_stream():
    if not growing.STORED.exists():
        return
    streams = json.loads(growing.STORED.read_text())["streams"]
    for name in growing.MODELS:
        first, *_, last = [row for row in streams if row["stream"] == name]
        assert last["cpu_microseconds"] < 1.5 * first["cpu_microseconds"]
        assert last["bytes"] < 1.1 * first["bytes"]
