"""Rows that read several functions at once: what their states say, and what rows say of them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._projection import Projection
from stategp.chain import PairMarginals, Sites, Transitions

Several = Float[Array, "rows functions"]
Matrices = Float[Array, "rows functions functions"]


class SeveralStrand(NamedTuple):
    """One chain of the states of all functions, and what rows read of it."""

    transitions: Transitions  # along a first axis of one chain
    interval: Int[Array, " rows"]
    weights: Float[Array, "functions pair rows"]
    residual: Matrices  # of the functions, given the states

    @staticmethod
    def of(
        transitions: Transitions,
        projections: list[Projection],
        coefficients: Float[Array, "rows functions processes"] | None = None,
    ) -> "SeveralStrand":
        """From the projections of each process on its own states.

        Functions are mixtures of processes, or without coefficients the processes themselves.
        """
        halves = [jnp.split(projection.rows, 2) for projection in projections]

        def spread(parts: list[Any]) -> Array:
            """Each process reads its own part of the stacked state."""
            rows = [
                [part if i == j else jnp.zeros_like(part) for j, part in enumerate(parts)]
                for i in range(len(parts))
            ]
            return jnp.stack([jnp.concatenate(row) for row in rows])

        left, right = spread([h[0] for h in halves]), spread([h[1] for h in halves])
        residual = jnp.stack([sum(p.residual[1:], start=p.residual[0]) for p in projections])
        weights, left_over = jnp.concatenate([left, right], axis=1), residual.T
        interval = projections[0].interval
        if coefficients is None:
            own = jax.vmap(jnp.diag)(left_over)
            return SeveralStrand(transitions, interval, weights, own)
        mixed = jnp.einsum("nkl,lpn->kpn", coefficients, weights)
        own = (coefficients * left_over[:, None]) @ coefficients.mT
        return SeveralStrand(transitions, interval, mixed, own)

    def moments(self, pairs: PairMarginals) -> tuple[Several, Matrices]:
        """Mean and covariance of the functions in every row."""
        mean, covariance = pairs.mean[0][self.interval], pairs.covariance[0][self.interval]
        weights = jnp.moveaxis(self.weights, -1, 0)
        spread = weights @ covariance @ weights.mT
        return (weights @ mean[..., None])[..., 0], (spread + spread.mT) / 2 + self.residual

    def gather(self, linear: Several, precision: Matrices) -> Sites:
        """The sites that sum factors exp(linear·f − ½ f·precision·f) of all rows."""
        weights = jnp.moveaxis(self.weights, -1, 0)
        pulls = (linear[:, None] @ weights)[:, 0]
        squares = weights.mT @ precision @ weights
        intervals = self.transitions.A.shape[1]
        sums = [
            jax.ops.segment_sum(part, self.interval, num_segments=intervals)[None]
            for part in (pulls, squares)
        ]
        return Sites(*sums)
