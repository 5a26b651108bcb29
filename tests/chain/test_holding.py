"""Values that are computed once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp._native import hold, problem

X = np.linspace(-1, 1, 5)


def squares(x, keep):
    held = keep({"sine": jnp.sin(x), "twice": (2 * x, jnp.arange(3))})
    return held["sine"] ** 2 + held["twice"][0] + jnp.sum(held["twice"][1])


@pytest.mark.parametrize("jit", [jax.jit, lambda function: function], ids=["compiled", "eager"])
def test_values_and_derivatives_are_those_without(jit):
    ours, plain = (jit(lambda x, keep=keep: squares(x, keep)) for keep in (hold, lambda x: x))
    np.testing.assert_allclose(ours(X), plain(X), rtol=1e-15)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(ours)(X), np.diag(np.sin(2 * X) + 2), atol=1e-14)
    many = np.stack([X, X + 1])
    np.testing.assert_allclose(jax.vmap(ours)(many), np.stack([plain(x) for x in many]), rtol=1e-15)


def test_a_value_with_many_readers_is_in_the_program_once():
    if problem():
        pytest.skip(problem())

    def readers(x, keep):
        kept = keep(jnp.tanh(x) * x + 1)
        return [jnp.flip(kept), jnp.cumsum(kept), kept[::2] * 3, kept * x]

    text = jax.jit(lambda x: readers(x, hold)).lower(X).compile().as_text()
    assert text.count("stategp_hold") >= 1
    assert text.count(" tanh(") == 1
