"""Sums over the observations of each stretch, which can be added.

Gaussian observations: with T_k the Chebyshev polynomials on a stretch, and y a reference (a
polynomial on every stretch) plus an excess e, the sums are Σ w T_k, Σ w e T_k and Σ w e². From one
reference to another e changes by a polynomial d = Σ d_j T_j, and since T_j T_k is half of
T_{j+k} + T_{|j−k|}, so do the sums, without a look at the data:

    Σ w (e + d) T_k = Σ w e T_k + Σ_j d_j G_jk,          G_jk = Σ w (T_{j+k} + T_{|j−k|}) / 2
    Σ w (e + d)²    = Σ w e² + 2 Σ_j d_j Σ w e T_j + Σ_jk d_j d_k G_jk

References follow y as more of it becomes known: what is summed up stays as small as the noise.
"""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from stategp._data._views import ORDER
from stategp._modules import Module

# Coefficients of a reference: its product with f, too, has to be a polynomial to rounding.
DEGREES = 4
_PLAIN = ORDER + DEGREES - 1  # of Σ w T_k: as many as a change of reference asks for
# Least squares as if each term but the level had been seen to be zero, by such a part of an
# observation: few, however close together, have a reference of ordinary size.
_RIDGE = 0.01
_HEAVIER = 3.0  # times the weight of the other from which on a reference stays as it is
_CANCELLED = 1e-6  # of Σ w e² that may be left after a change of reference: ten digits are right

Sum = Callable[[np.ndarray], np.ndarray]  # of a column over the observations of each stretch


def chebyshev_terms(t: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """T_0(t), T_1(t), …, one after another."""
    now, before = np.ones_like(t), t  # T_0 and T_{−1}
    for _ in range(count):
        yield now
        now, before = 2 * t * now - before, now


class GaussianSums(Module):
    """What Gaussian observations with equal noise say, a row for each stretch."""

    count: Float[np.ndarray, " stretches"]  # of observations
    plain: Float[np.ndarray, "stretches _"]  # Σ w T_k
    pull: Float[np.ndarray, "stretches _"]  # Σ w (y − reference) T_k
    square: Float[np.ndarray, " stretches"]  # Σ w (y − reference)²
    reference: Float[np.ndarray, "stretches _"]  # its coefficients

    @staticmethod
    def nothing(stretches: int) -> "GaussianSums":
        return GaussianSums(
            np.zeros(stretches),
            np.zeros((stretches, _PLAIN)),
            np.zeros((stretches, ORDER)),
            np.zeros(stretches),
            np.zeros((stretches, DEGREES)),
        )

    @staticmethod
    def of(
        number: np.ndarray, t: np.ndarray, y: np.ndarray, weights: np.ndarray, total: Sum
    ) -> "GaussianSums":
        """Sums from the mean of each stretch; `number` is that of every observation.

        Where y is so steep that a later change of reference would cancel most digits of Σ w e²,
        from a polynomial.
        """
        weight = total(weights)
        level = total(weights * y) / weight
        level += total(weights * (y - level[number])) / weight  # to the last digit
        excess = y - level[number]
        plain, pull = np.empty((len(weight), _PLAIN)), np.empty((len(weight), ORDER))
        for k, term in enumerate(chebyshev_terms(t, _PLAIN)):
            plain[:, k] = total(weights * term)
            if k < ORDER:
                pull[:, k] = total(weights * excess * term)
        reference = np.zeros((len(weight), DEGREES))
        reference[:, 0] = level
        square = total(weights * excess**2)
        sums = GaussianSums(total(np.ones_like(t)), plain, pull, square, reference)
        step = sums._step()
        if not np.any(sums._moved(reference + step).square < _CANCELLED * square):
            return sums
        for k, term in enumerate(chebyshev_terms(t, DEGREES)):
            excess -= step[number, k] * term
        pull = np.stack([total(weights * excess * k) for k in chebyshev_terms(t, ORDER)], axis=1)
        return GaussianSums(sums.count, plain, pull, total(weights * excess**2), reference + step)

    def _step(self) -> np.ndarray:
        """From the reference to the one of least squares."""
        gram = self._gram(DEGREES)
        ridge = _RIDGE * (self.weight / self.count)[:, None] * (np.arange(DEGREES) > 0)
        gram += ridge[:, :, None] * np.eye(DEGREES)
        return np.asarray(np.linalg.solve(gram, self.pull[:, :DEGREES, None])[..., 0])

    @property
    def weight(self) -> np.ndarray:
        return self.plain[:, 0]

    def spread(self, at: np.ndarray, size: int) -> "GaussianSums":
        """The same rows among others that are empty."""
        wide = GaussianSums.nothing(size)
        for old, new in zip(self.columns(), wide.columns(), strict=True):
            new[at] = old
        return wide

    def __add__(self, other: "GaussianSums") -> "GaussianSums":
        both = (self.weight > 0) & (other.weight > 0)
        one, two = self._rows(both), other._rows(both)
        kept = one.weight >= _HEAVIER * two.weight
        reference = np.where(kept[:, None], one.reference, two.reference)
        close = ~kept & (two.weight < _HEAVIER * one.weight)
        if close.any():
            a, b = one._rows(close), two._rows(close)
            middle = (a.reference + b.reference) / 2
            seen = zip(a._moved(middle).columns(), b._moved(middle).columns(), strict=True)
            reference[close] = middle + GaussianSums(*(x + y for x, y in seen))._step()
        added = [a + b for a, b in zip(self.columns(), other.columns(), strict=True)]
        moved = [sums._moved(reference).columns() for sums in (one, two)]
        for column, mine, theirs in zip(added[:-1], moved[0], moved[1], strict=False):
            column[both] = mine + theirs
        added[-1][both] = reference
        return GaussianSums(*added)

    def scaled(self, factor: float) -> "GaussianSums":
        """The same with so many times the weights."""
        plain, pull, square = (factor * sums for sums in (self.plain, self.pull, self.square))
        return GaussianSums(self.count, plain, pull, square, self.reference)

    def beginning(self, place: int) -> "GaussianSums":
        """The rows from a place on."""
        return self._rows(np.arange(len(self.count)) >= place)

    def columns(self) -> tuple[np.ndarray, ...]:
        return self.count, self.plain, self.pull, self.square, self.reference

    def _rows(self, which: np.ndarray) -> "GaussianSums":
        return GaussianSums(*(column[which] for column in self.columns()))

    def _gram(self, terms: int) -> np.ndarray:
        """Σ w T_j T_k for the terms of a reference and so many others."""
        j, k = np.indices((DEGREES, terms))
        return (self.plain[:, j + k] + self.plain[:, np.abs(j - k)]) / 2

    def _moved(self, reference: np.ndarray) -> "GaussianSums":
        """The same seen from another reference."""
        d = self.reference - reference
        change = np.einsum("cj,cjk->ck", d, self._gram(ORDER))
        along = np.einsum("cj,cj->c", d, 2 * self.pull[:, :DEGREES] + change[:, :DEGREES])
        pull, square = self.pull + change, self.square + along
        return GaussianSums(self.count, self.plain, pull, square, reference)


class Tallies(Module):
    """What observations say of which p(y | f) reads few numbers, a row for each stretch."""

    totals: Float[np.ndarray, "stretches 4"]  # Σ w, Σ w t, Σ w y, Σ w extra
    statistics: Float[np.ndarray, "_ stretches _"]  # Σ w statistic(y) T_k

    @staticmethod
    def of(
        t: np.ndarray,
        y: np.ndarray,
        extra: np.ndarray,
        weights: np.ndarray,
        statistics: np.ndarray,
        total: Sum,
    ) -> "Tallies":
        totals = [total(weights * column) for column in (np.ones_like(t), t, y, extra)]
        sums = [
            np.stack([total(weights * row * term) for row in statistics])
            for term in chebyshev_terms(t, ORDER)
        ]
        return Tallies(np.stack(totals, axis=1), np.stack(sums, axis=2))

    @property
    def weight(self) -> np.ndarray:
        return self.totals[:, 0]

    def spread(self, at: np.ndarray, size: int) -> "Tallies":
        """The same rows among others that are empty."""
        totals = np.zeros((size, self.totals.shape[1]))
        statistics = np.zeros((len(self.statistics), size, ORDER))
        totals[at], statistics[:, at] = self.totals, self.statistics
        return Tallies(totals, statistics)

    def __add__(self, other: "Tallies") -> "Tallies":
        return Tallies(self.totals + other.totals, self.statistics + other.statistics)

    def scaled(self, factor: float) -> "Tallies":
        """The same with so many times the weights."""
        return Tallies(factor * self.totals, factor * self.statistics)

    def beginning(self, place: int) -> "Tallies":
        """The rows from a place on."""
        return Tallies(self.totals[place:], self.statistics[:, place:])
