"""Compiled programs are dropped before memory maps run out; what was read leaves nothing behind."""

import jax
import jax.numpy as jnp
import numpy as np

import stategp as sg
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
