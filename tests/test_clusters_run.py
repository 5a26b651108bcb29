"""The stored run of `benchmarks.clusters`: every engine gave what one process gives."""

import json

import pytest

from benchmarks.blocks import block
from benchmarks.clusters import (
    BACKENDS,
    BEGIN,
    CLOSE,
    ROWS,
    SERIES,
    STORED,
    WORKERS,
    backends_page,
    lines_of,
    page,
)

RUN = json.loads(STORED.read_text())


def test_all_of_them_agree():
    assert list(RUN["engines"]) == list(BEGIN)
    assert list(RUN["backends"]) == list(BACKENDS)
    for one in RUN["engines"].values():
        assert one["rows"] == ROWS
        assert one["apart"] <= CLOSE
    for one in RUN["backends"].values():
        assert (one["series"], one["failed"]) == (SERIES + 1, 1)
        assert one["apart"] <= CLOSE
        assert one["workers"] == WORKERS


@pytest.mark.parametrize("engine", BEGIN)
def test_the_lines_of_the_page_are_found(engine):
    compile(lines_of(engine), "scaling.md", "exec")


def test_the_pages_say_what_was_found():
    assert block("scaling.md", "clusters") == page(RUN)
    assert block("many.md", "backends") == backends_page(RUN)
