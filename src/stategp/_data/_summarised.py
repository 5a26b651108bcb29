"""A summary where observations are expected: a few that stand for each stretch, and its sums."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data._on_stretches import OnStretches, from_end_to_end
from stategp._data._stretches import Occupied
from stategp._data._summary import Summary
from stategp._data._sums import DEGREES, GaussianSums, Tallies
from stategp._data._views import (
    ORDER,
    Expected,
    InCells,
    Latent,
    Moments,
    positive_precision,
    slopes_in_parameters,
    to_coefficients,
)
from stategp._runtime import pad_last
from stategp.likelihoods import Gaussian, Likelihood

_ACCURACY = 1e-9  # share of E[log p(y | f)] that may be lost before there is no bound


class Summarised(OnStretches):
    """What a fit knows of a summary.

    Gaussian observations are represented by two for each stretch, one standard deviation above
    and below their mean. Others by one, with all counts and exposures of its stretch or, if there
    is no such thing, their mean. The first and the last are where those of the data were.
    """

    summary: Summary
    source: ClassVar[str] = "summary"

    @staticmethod
    def of(summary: Summary) -> "Summarised":
        _, start, origin = summary.occupied().ends()
        width, sums = summary.stretches.width, summary.sums
        low = (summary.number - summary.number[0]) * width + start
        ends = summary.first, summary.last
        if isinstance(sums, GaussianSums):
            weight, x = sums.weight, low + (1 + sums.plain[:, 1] / sums.weight) * width / 2
            level, deviation = _level_and_deviation(sums)
            y = np.stack([level - deviation, level + deviation], axis=1).ravel()
            usual = summary.weight / np.sum(weight)  # noise, where it is a part of the weights
            extra = np.full(len(y), usual if summary.noise is None else summary.noise)
            weights = np.repeat(weight * usual / 2, 2)
            pairs: Any = from_end_to_end(np.repeat(x, 2), ends, origin), y, extra, weights
            return Summarised(pairs[0], pairs[1], pairs[2], pairs[3], origin, summary)
        weight, times, y, extra = sums.totals.T
        x = low + (1 + times / weight) * width / 2
        y = y if np.any(extra) else y / weight
        places: Any = from_end_to_end(x, ends, origin)
        return Summarised(places, y, extra.copy(), weight.copy(), origin, summary)

    @property
    def observed(self) -> int:
        return self.summary.rows

    def occupied(self) -> Occupied:
        return self.summary.occupied()

    def view(self, likelihood: Likelihood) -> tuple[InCells, np.ndarray]:
        """What inference asks, and what the observations point at, at every node."""
        self.check(likelihood)
        sums = self.summary.sums
        common = {
            "cell_nodes": self.cell_nodes(),
            "total_weight": jax.device_put(np.asarray(self.summary.weight)),
            "origin": self.origin,
        }
        if isinstance(sums, GaussianSums):
            return _moments(self.summary, sums, common), np.zeros(())
        guess = likelihood.guess(np.asarray(self.y), np.asarray(self.extra))
        guess = np.repeat(pad_last(guess, len(common["cell_nodes"])), ORDER)
        statistics = [_at_nodes(kind, len(common["cell_nodes"])) for kind in sums.statistics]
        return Tallied(**common, statistics=jnp.stack(statistics)), guess

    def check(self, likelihood: Likelihood) -> None:
        """Refuse likelihoods that the summary is not for."""
        name = type(likelihood).__name__
        if name != self.summary.likelihood:
            raise ValueError(
                f"the summary is one of {self.summary.likelihood} observations, and the model has "
                f"a {name} likelihood: make it with sg.summarise(…, likelihood=…) for that"
            )
        if not isinstance(likelihood, Gaussian):
            assert isinstance(self.summary.sums, Tallies)
            kinds = (
                len(self.summary.sums.statistics),
                len(likelihood.statistics(self.y, self.extra)),
            )
            if kinds[0] != kinds[1]:
                raise ValueError(
                    f"the summary has {kinds[0]} outcomes, and the likelihood {kinds[1]}"
                )
            return
        variance = likelihood.variance
        if self.summary.noise is None and (variance.learned or float(variance) != 0):
            raise ValueError(
                "in this summary each observation has its own noise_variance, and sums cannot "
                "follow noise that is added to it: use sg.likelihoods.Gaussian(variance="
                "sg.fixed(0.0)), or summarise with one noise_variance for all"
            )


def _level_and_deviation(sums: GaussianSums) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of y on each stretch."""
    weight, reference = sums.weight, sums.reference
    excess = sums.pull[:, 0] / weight
    curve = np.einsum("ck,ck->c", reference, sums.plain[:, :DEGREES]) / weight
    j, k = np.indices((DEGREES, DEGREES))
    gram = (sums.plain[:, j + k] + sums.plain[:, np.abs(j - k)]) / 2
    away = reference - np.eye(1, DEGREES) * curve[:, None]
    variance = sums.square + np.einsum("cj,cjk,ck->c", away, gram, away)
    variance += 2 * np.einsum("cj,cj->c", away, sums.pull[:, :DEGREES])
    return curve + excess, np.sqrt(np.maximum(variance / weight - excess**2, 0.0))


def _at_nodes(sums: np.ndarray, size: int) -> Array:
    """Σ w T_k of every stretch → Σ w ℓ(x), where ℓ is the interpolating polynomial of a node."""
    padded = np.zeros((size, ORDER))
    padded[: len(sums)] = sums[:, :ORDER] @ to_coefficients()
    return jax.device_put(padded.reshape(-1))


def _moments(summary: Summary, sums: GaussianSums, common: dict[str, Any]) -> Moments:
    size = len(common["cell_nodes"])
    offset = float(np.average(sums.reference[:, 0], weights=sums.weight))
    reference = np.zeros((size, ORDER))
    reference[: len(sums.reference), :DEGREES] = sums.reference
    reference[: len(sums.reference), 0] -= offset
    moments: dict[str, Any] = {
        "weights": _at_nodes(sums.plain, size),
        "excess": _at_nodes(sums.pull, size),
        "reference": jax.device_put((reference @ np.linalg.inv(to_coefficients()).T).reshape(-1)),
        "offset": jax.device_put(np.asarray(offset)),
        "spread": jax.device_put(np.asarray(np.sum(sums.square))),
        "extra": jax.device_put(np.asarray(1.0 if summary.noise is None else summary.noise)),
    }
    if summary.noise is None:
        return KnownMoments(
            **common, **moments, log_noise=jax.device_put(np.asarray(summary.log_noise))
        )
    return Moments(**common, **moments)


class KnownMoments(Moments):
    """Gaussian observations whose noise is known for each of them, and weighs as its inverse."""

    log_noise: Float[Array, ""]  # Σ w log of the variances

    def highest(self, likelihood: Any) -> Float[Array, ""]:
        return -(self.total_weight * math.log(2 * math.pi) + self.log_noise) / 2


class Tallied(InCells):
    """Labels, levels, counts and durations as sums over each stretch, and nothing else.

    As in `Pooled`, but without observations for stretches on which E[feature(f)] is no polynomial:
    there is no bound for such a q.
    """

    statistics: Float[Array, "_ nodes"]  # Σ w statistic(y) ℓ(x)

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        value, slope, curvature = likelihood.expected_features(mean, variance)
        known = self._knows(value) & self._knows(slope) & self._knows(curvature)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        value, slope, curvature = (
            jnp.sum(self.statistics * part, axis=0) for part in (value, slope, curvature)
        )
        return Expected(jnp.where(known, jnp.sum(value), jnp.nan), slope, curvature)

    def _knows(self, features: Float[Array, "_ nodes"]) -> Array:
        """Whether sums of these functions are known: the nodes interpolate them closely enough.

        What interpolation leaves out is about as large as the last coefficients.
        """
        cells = features.reshape(len(features), -1, ORDER)
        last = jnp.einsum("kj,fcj->fck", to_coefficients()[-2:], cells)
        weight = jnp.abs(jnp.sum(self.statistics.reshape(cells.shape), axis=-1))
        lost = jnp.sum(weight * jnp.max(jnp.abs(last), axis=-1))
        size = jnp.sum(weight * jnp.max(jnp.abs(cells), axis=-1))
        return lost <= _ACCURACY * jnp.maximum(size, self.total_weight)

    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        return slopes_in_parameters(
            lambda moved: jnp.sum(self.statistics * moved.expected_features(mean, variance)[0]),
            likelihood,
        )

    def start(self, likelihood: Likelihood, guess: Array, shift: Latent) -> tuple[Latent, Latent]:
        uncertain = likelihood.guess_variance(guess)
        _, slope, curvature = likelihood.expected_features(guess, uncertain)
        # Sums at a node may be negative: precisions are made positive before they are summed up.
        precision = jnp.sum(self.statistics * positive_precision(likelihood, curvature), axis=0)
        slope = jnp.sum(self.statistics * slope, axis=0)
        return slope + precision * (guess - shift), precision

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        return jnp.zeros(()) if likelihood.discrete else jnp.asarray(jnp.inf)
