"""Shapes and types are checked in the tests: of arguments, of results, and of both together."""

import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float, Int, TypeCheckError, jaxtyped

from stategp import chain, kernels
from tests.checking import check


@jaxtyped(typechecker=check)
def first_rows(
    matrix: Float[Array, "rows columns"], count: int, *, ret0: float = 1.0
) -> Float[Array, "some columns"]:
    if ret0 == 2.0:
        return matrix[0]
    return matrix[:count] if ret0 == 1.0 else matrix[:count].T


@jaxtyped(typechecker=check)
def total(x: Float[Array, " n"], y: Float[Array, " n"], *, shift: float = 0.0) -> float:
    return float(jnp.sum(x + y)) + shift if shift else jnp.sum(x + y)


@jaxtyped(typechecker=check)
def nothing(x: Float[Array, " n"]) -> None:
    return None if len(x) > 1 else x


def test_what_fits_passes():
    assert first_rows(jnp.ones((3, 4)), 2).shape == (2, 4)
    assert total(jnp.ones(3), jnp.ones(3), shift=1.0) == 7.0
    assert nothing(jnp.ones(3)) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: first_rows(jnp.ones(3), 2), "parameters of"),
        (lambda: first_rows(jnp.ones((3, 4)), "2"), "parameters of"),
        (lambda: first_rows(jnp.ones((3, 4)), 2, ret0="1"), "parameters of"),
        (lambda: first_rows(jnp.ones((3, 4), int), 2), "parameters of"),
        (lambda: first_rows(jnp.ones((3, 4)), 2, ret0=0.0), "return value"),  # 4 × 2, not 2 × 4
        (lambda: first_rows(jnp.ones((3, 4)), 2, ret0=2.0), "return value"),
        (lambda: total(jnp.ones(3), jnp.ones(2)), "parameters of"),
        (lambda: total(jnp.ones(3), jnp.ones(3), shift=None), "parameters of"),
        (lambda: total(jnp.ones(3), jnp.ones(3)), "return value"),  # an array, no float
        (lambda: nothing(jnp.ones(1)), "return value"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(TypeCheckError, match=words):
        call()


def test_functions_of_one_name_are_checked_each_by_its_own_types():
    def made(kind):
        @jaxtyped(typechecker=check)
        def inner(x: kind, *others: kind) -> kind:
            return x

        return inner

    row, matrix, whole = Float[Array, " n"], tuple[Float[Array, "n n"], ...], Int[Array, " n"]
    made(row)(jnp.ones(3))
    made(Float[Array, " n"])(jnp.ones(3), jnp.ones(3))
    made(matrix)((jnp.ones((3, 3)),))
    made(whole)(jnp.ones(3, int))
    for kind, wrong in [
        (row, jnp.ones((3, 3))),
        (row, jnp.ones(3, int)),
        (matrix, (jnp.ones((3, 2)),)),
        (matrix, (jnp.ones(3),)),
        (whole, jnp.ones(3)),
    ]:
        with pytest.raises(TypeCheckError, match="parameters of"):
            made(kind)(wrong)


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError, match="parameters of"):
        chain.prior_transitions(kernels.Matern32(), jnp.ones((2, 2)))
    with pytest.raises(TypeCheckError, match="parameters of"):
        chain.Sites(jnp.ones((3, 2)), jnp.ones((3, 2, 1)))
