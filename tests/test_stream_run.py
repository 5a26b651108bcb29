"""docs/scaling.md says what docs/stream-run.json holds, and memory did not grow with the rows."""

import json

from benchmarks import stream
from benchmarks.blocks import block

RUN = json.loads(stream.STORED.read_text())


def test_the_page_has_the_numbers():
    assert block("scaling.md", "streams") == stream.page(RUN)


def test_a_hundred_million_rows():
    few, many = RUN["runs"]
    assert [run["rows"] for run in (*few, *many)] == [10**7, 10**7, 10**8, 10**8]
    others = [RUN[name] for name in ("robust", "minibatches") if name in RUN]
    pairs = [*zip(few, many, strict=True), *others]
    for before, after in pairs:
        assert after["rows"] == 10 * before["rows"]
        assert abs(after["peak_bytes"] / before["peak_bytes"] - 1) < 0.1
