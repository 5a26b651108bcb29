"""Kernels that cannot be computed, or make no sense, are refused in words."""

import pytest

from stategp import kernels as k


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: k.FromSDE([[-1.0, 1.0], [0, -1e10]], [[0], [1.0]], [[1e10]], [1.0, 0]),
            "rates that differ by a factor",
        ),
        (lambda: k.Periodic(order=-1), "order must be a whole number of at least 0, got -1"),
        (lambda: k.Periodic(order=2.5), "order must be a whole number of at least 0, got 2.5"),
        (lambda: k.SquaredExponential(order=True), "order must be a whole number, got True"),
        (lambda: k.Harmonic(weights=[]), "weights is empty"),
        (lambda: k.Sum(1.0), "made of kernels, got 1.0"),
        (lambda: k.Sum(trend="matern"), "made of kernels, got 'matern'"),
        (lambda: k.Sum(), "at least one kernel"),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
