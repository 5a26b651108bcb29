"""One wording for arguments that are not what they have to be."""

import jax.numpy as jnp
import numpy as np
import pytest

from stategp._arguments import as_number, as_whole, positive_number, whole_number


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), jnp.asarray(3)])
def test_whole_numbers_of_every_kind(value):
    assert whole_number("n", value, least=3) == 3
    assert type(whole_number("n", value)) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, [3], np.array([3]), jnp.ones(1)])
def test_what_is_no_whole_number(value):
    assert as_whole(value) is None
    with pytest.raises(ValueError, match=r"^n must be a whole number of at least 0, got "):
        whole_number("n", value, least=0)


def test_numbers():
    assert whole_number("n", -7) == -7
    with pytest.raises(ValueError, match=r"^n must be a whole number of at least 1, got 0$"):
        whole_number("n", 0, least=1)
    assert positive_number("x", np.float32(0.5)) == 0.5
    assert as_number(10**400) == np.inf
    for wrong in (0, -1.0, np.nan, np.inf, 10**400, True, "1", None, 1j, np.ones(1)):
        with pytest.raises(ValueError, match=r"^x must be a positive number, got "):
            positive_number("x", wrong)
