"""Programs over few numbers are compiled quickly, and the algebra of optimisers has one thread."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl

from stategp._runtime import _quick, one_blas_thread, quick_jit

UNKNOWN = {"xla_no_such_option": 1}


@pytest.fixture
def squares(monkeypatch):
    """Where it is compiled quickly, it cannot be: that shows when it is."""
    monkeypatch.setattr(_quick, "_known_options", lambda: UNKNOWN)

    @quick_jit(
        rows=("x", "more"), static_argnames="power", unless=lambda x, more, power=2: power > 9
    )
    def squares(x, more, power=2):
        return jnp.sum(x**power) + jnp.sum(more["y"])

    return squares


def quickly(call):
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        call()
    return True


def test_few_rows_are_compiled_quickly_and_many_are_not(squares):
    few, many = jnp.ones(3), jnp.ones(40_000)
    assert quickly(lambda: squares(few, {"y": few}))
    assert quickly(lambda: squares(few, more={"y": few}, power=3))
    assert squares(many, {"y": few}) == 40_003
    assert squares(few, {"y": many}) == 40_003
    assert squares(few, {"y": few}, power=10) == 6  # `unless` says so


def test_inside_of_other_programs_it_is_a_part_of_them(squares):
    few = jnp.ones(3)
    assert jax.jit(lambda x: squares(x, {"y": x}))(few) == 6
    assert jax.jit(lambda x: x + squares(few, {"y": few}))(1.0) == 7  # nothing it sees is traced
    np.testing.assert_array_equal(jax.grad(lambda x: squares(x, {"y": few}))(few), [2.0, 2.0, 2.0])
    rows = jax.vmap(lambda x: squares(x, {"y": few}))(jnp.ones((2, 3)))
    np.testing.assert_array_equal(rows, [6.0, 6.0])


def test_others_of_the_arguments_can_be_collected_once():
    traced = []

    @quick_jit(rows="more", static_argnames="power")
    def scaled(x, model, more, power=2):
        traced.append(power)
        return x * model["by"] ** power + jnp.sum(more)

    few, many = jnp.ones(3), jnp.ones(40_000)
    calls = [scaled.beside({"by": by}, few) for by in (2.0, 3.0)]
    np.testing.assert_array_equal([call(x) for call in calls for x in (1.0, 2.0)], [7, 11, 12, 21])
    assert len(traced) == 1  # one program, as the models have the same structure
    assert scaled.beside({"by": jnp.full(2, 2.0)}, few)(np.ones(2)).tolist() == [7, 7]
    assert scaled.beside({"by": 2.0}, many)(1.0) == 40_004 == scaled(1.0, {"by": 2.0}, many)


def test_many_rows_beside_are_not_compiled_quickly(monkeypatch):
    monkeypatch.setattr(_quick, "_known_options", lambda: UNKNOWN)
    few, many = jnp.ones(3), jnp.ones(40_000)

    @quick_jit(rows=("x", "more"))
    def total(x, more):
        return jnp.sum(x) + jnp.sum(more)

    assert quickly(lambda: total.beside(few)(few))
    assert total.beside(few)(many) == total.beside(many)(few) == 40_003


def test_options_that_xla_does_not_have_or_that_are_chosen_stay_out(monkeypatch):
    monkeypatch.setattr(_quick, "_OPTIONS", UNKNOWN | {"xla_backend_optimization_level": 1})
    monkeypatch.setenv("XLA_FLAGS", "")
    options = _quick._known_options.__wrapped__
    assert options() == {"xla_backend_optimization_level": 1}
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    assert options() == {}


def test_one_thread():
    def threads():
        libraries = threadpoolctl.threadpool_info()
        return {one["num_threads"] for one in libraries if one["user_api"] == "blas"}

    with one_blas_thread():  # from the second time on the libraries are known
        pass
    with threadpoolctl.threadpool_limits(2, user_api="blas"):  # the tests' own setting is one
        if threads() != {2}:
            pytest.skip("this BLAS does not take two threads")
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}
