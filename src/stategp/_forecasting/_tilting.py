"""What integrating over β adds to the objective of the hyperparameters.

log p(y) = log p(y | β̂) + log p(β̂) − ½ log |I + S½ H S½| + …, of which a fit with β at its mean
leaves out the determinant. Its slope at the last hyperparameters is given to the next fit, as if it
were a prior. Where the two agree the derivative of log p(y) vanishes. (Without the slope noise, for
one, would be underestimated, as by dividing a sum of squares by N.)
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._models import GP
from stategp.parameters import Parameter, all_parameters, map_parameters


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Tilted:
    """A prior, and a slope in the logarithm of the parameter, which ends some way from `centre`."""

    prior: Any
    slope: Any
    centre: Any

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        away = jnp.log(value) - jnp.log(self.centre)
        tilt = self.slope * away - jnp.abs(self.slope) * away**2 / 2
        return tilt if self.prior is None else tilt + self.prior.log_density(value)


def level(model: GP) -> GP:
    """The model with slopes of zero: what is compiled for it serves others, too."""
    return tilted(model, [np.zeros(p.value.shape) for p in all_parameters(model)])


def tilted(model: GP, slopes: list[np.ndarray]) -> GP:
    """The model with slopes, one for each of its parameters."""
    rest = iter(slopes)

    def tilt(parameter: Parameter) -> Parameter:
        slope = next(rest)
        if not parameter.learned or parameter.constraint != "positive":
            return parameter
        own = parameter.prior.prior if isinstance(parameter.prior, Tilted) else parameter.prior
        return dataclasses.replace(parameter, prior=Tilted(own, slope, parameter.value))

    return map_parameters(tilt, model)


def upright(model: GP) -> GP:
    """The model with its own priors."""

    def restore(parameter: Parameter) -> Parameter:
        if not isinstance(parameter.prior, Tilted):
            return parameter
        return dataclasses.replace(parameter, prior=parameter.prior.prior)

    return map_parameters(restore, model)


def short_of_slope(model: GP) -> float:
    """How much of the slopes the search has not seen, because it went away from their centres."""
    total = 0.0
    for parameter in all_parameters(model):
        prior = parameter.prior
        if isinstance(prior, Tilted):
            away = np.log(np.asarray(parameter.value) / np.asarray(prior.centre))
            total += float(np.sum(np.abs(prior.slope) * away**2))
    return total
