"""Compiled programs are dropped before memory maps run out; what was read leaves nothing behind."""

import jax
import jax.numpy as jnp
import numpy as np

import stategp as sg
from stategp._runtime import _memory
from stategp._runtime._memory import make_room
from stategp._streams._drawing import Draws, Pool


def test_programs_are_dropped_when_there_are_many_maps_and_work_again():
    compiled = jax.jit(lambda x: x + 1)
    assert compiled(jnp.zeros(3)).sum() == 3
    assert not make_room(10**9)
    assert compiled._cache_size() == 1
    if make_room(1):  # Linux only
        assert compiled._cache_size() == 0
    assert compiled(jnp.zeros(3)).sum() == 3


def test_maps_are_counted_when_programs_were_compiled_that_may_have_many(monkeypatch):
    looks = []

    class Maps:
        def exists(self):
            return True

        def read_bytes(self):
            looks.append(True)
            return b"\n" * 900

    monkeypatch.setattr(_memory, "_MAPS", Maps())
    monkeypatch.setattr(_memory, "_maps", maps := _memory._Maps())
    for compiled, looked, many in [(2, 0, False), (1, 1, False), (0, 1, False), (1, 2, False)]:
        for _ in range(compiled):
            maps.note("/jax/core/compile/backend_compile_duration", 0.1)
        assert maps.at_least(1000) == many
        assert len(looks) == looked
    maps.note("/jax/core/compile/jaxpr_trace_duration", 0.1)
    assert not maps.at_least(1000)
    assert maps.at_least(900)


def test_streams_give_back_what_they_read_with(monkeypatch):
    given = []
    monkeypatch.setattr("stategp._streams._stream.give_back", lambda: given.append(True))
    x = np.linspace(0, 10, 30)
    assert sg.summarise(sg.stream([(x, np.sin(x))], shortest=1.0)).rows == 30
    assert given == [True]


def test_so_do_minibatches(monkeypatch):
    given = []
    monkeypatch.setattr("stategp._streams._drawing.give_back", lambda: given.append(True))
    pool = Pool([3, 3], lambda number: iter([[np.arange(3.0)] * 4]), Draws(2, 0))
    assert len(pool.draw(2, 0)[0]) == 2
    assert not given
    pool.close()
    assert given == [True]
    assert not pool.filled
