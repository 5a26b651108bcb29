"""Ctrl-C that nobody has heard of is raised after the next step of a search."""

import signal

import pytest

from stategp._inference._search import Watch
from stategp._runtime import _interrupts, finishing_compilations


@pytest.fixture
def watch():
    return Watch(lambda number, value: None)


def test_one_that_waits_for_a_compilation(watch):
    with finishing_compilations():
        watch(0.0)
        (patience,) = _interrupts._patient
        patience.waiting = True
        with pytest.raises(KeyboardInterrupt):
            watch(1.0)
        watch(2.0)
    assert watch.trace == [0.0, 1.0, 2.0]
    assert not _interrupts._patient


def test_one_that_was_ignored(watch):
    with finishing_compilations():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            watch(0.0)
        watch(1.0)
