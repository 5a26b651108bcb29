"""A hostile fit for likelihoods that other tests do not fit; `make hostile` does a hundred."""

import zlib

import numpy as np
import pytest

from stategp_experiments.hostile import one_fit

NAMES = ["laplace", "binomial", "negative_binomial", "weibull", "ordinal"]


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_finite_or_an_error_in_words(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    what, wrong = one_fit(rng, name, sizes=(1, 12))
    assert wrong is None, f"{what}: {wrong}"
