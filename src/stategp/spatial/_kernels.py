"""The kernels over space: functions of distance divided by a lengthscale."""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._arguments import whole_number
from stategp._modules import Module
from stategp.parameters import Parameter, Value, positive
from stategp.spatial._metrics import METRICS, Places, distances, safe_root
from stategp.spatial._places import as_places


class Kernel(Module):
    """A correlation between places, 1 at distance zero.

    `kernel(places, others)` is the matrix of correlations. A kernel of your own is a subclass with
    `correlation`, a positive definite function of the scaled distance in as many dimensions as
    your places have. With `separable` it is a product of one such function for each coordinate,
    and for Matérn kernels not a function of the distance (lengthscales and all else as before).

    >>> import stategp as sg
    >>> sg.spatial.Matern12(lengthscale=2.0)([[0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]])
    Array([[1.        , 0.36787944]], dtype=float64)
    """

    lengthscale: Parameter
    metric: str = eqx.field(static=True)
    separable: bool = eqx.field(static=True, default=False)

    def __init__(
        self,
        *,
        lengthscale: Value = None,
        dimensions: int | None = None,
        metric: str = "euclidean",
        separable: bool = False,
    ):
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
        if metric == "great-circle" and not self.valid_along_the_surface():
            raise ValueError(
                f"{type(self).__name__} is no covariance of great-circle distances (of the Matérn "
                "family only Matern12 is): use metric='chordal', which differs little up to "
                "thousands of kilometres"
            )
        if separable and metric != "euclidean":
            raise ValueError(
                f"separable is for metric='euclidean', got metric={metric!r}: on the Earth a "
                "product over longitude and latitude would differ from place to place"
            )
        self.metric, self.separable = metric, bool(separable)
        self.lengthscale = _lengthscales(lengthscale, dimensions)
        if metric != "euclidean" and self.lengthscale.value.ndim == 1:
            raise ValueError(
                f"metric={metric!r} has one lengthscale, in kilometres; one for each dimension "
                "is for metric='euclidean'"
            )

    @abc.abstractmethod
    def correlation(self, distance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The correlation at a distance, in lengthscales."""

    @classmethod
    def valid_along_the_surface(cls) -> bool:
        """Whether this is positive definite as a function of great-circle distance."""
        return False

    def __call__(self, places: Any, others: Any) -> Float[Array, "n m"]:
        """The correlations between two sets of places, a row for each of the first."""
        left, right = (_as_array(p) for p in (places, others))
        if self.metric != "euclidean":
            return self.correlation(distances(left, right, self.metric) / self.lengthscale.value)
        scale = self.lengthscale.value
        if scale.ndim == 1 and len(scale) != left.shape[1]:
            raise ValueError(
                f"the kernel has {len(scale)} lengthscales, one for each dimension, but places "
                f"have {left.shape[1]} coordinates"
            )
        apart = (left[:, None] - right[None]) / (scale[None, None] if scale.ndim else scale)
        if self.separable:
            return jnp.prod(self.correlation(jnp.abs(apart)), axis=-1)
        return self.correlation(safe_root(jnp.sum(apart**2, axis=-1)))

    def __repr__(self) -> str:
        more = "" if self.metric == "euclidean" else f", metric={self.metric!r}"
        more += ", separable=True" if self.separable else ""
        return f"{type(self).__name__}(lengthscale={self.lengthscale!r}{more})"


def _lengthscales(value: Value, dimensions: int | None) -> Parameter:
    """One lengthscale, or one for each dimension."""
    if isinstance(value, str) or (isinstance(value, Parameter) and value.role == "duration"):
        raise ValueError(f"lengthscale of a kernel over space must be a number, got {value!r}")
    open_value = value is None or (isinstance(value, Parameter) and not value.given)
    if dimensions is None:
        given = value.value if isinstance(value, Parameter) else value
        ndim = 0 if open_value else min(np.ndim(given), 1)
        return positive("lengthscale", value, default=1.0, role="lengthscale", ndim=ndim)
    count = whole_number("dimensions", dimensions, least=1)
    made = positive("lengthscale", value, default=np.ones(count), role="lengthscale", ndim=1)
    if made.value.shape != (count,):
        raise ValueError(
            f"lengthscale must have one number for each of {count} dimensions, got {made.value}"
        )
    return made


def _as_array(places: Any) -> Places:
    if isinstance(places, jnp.ndarray) and places.ndim == 2:
        return places.astype(float)
    return jnp.asarray(as_places("places", places))


class Matern12(Kernel):
    """exp(−distance/lengthscale): continuous, and rough. The only one for great-circle distances.

    Without a value the lengthscale is learned from the data; `dimensions=2` gives each of two
    coordinates its own. With `metric="chordal"` places are longitude and latitude in degrees, and
    the lengthscale is in kilometres.

    >>> import stategp as sg
    >>> sg.spatial.Matern12(lengthscale=500.0, metric="great-circle")
    Matern12(lengthscale=500, metric='great-circle')
    """

    def correlation(self, distance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """exp(−r)."""
        return jnp.exp(-distance)

    @classmethod
    def valid_along_the_surface(cls) -> bool:
        """Yes."""
        return True


class Matern32(Kernel):
    """Matérn ν = 3/2: once differentiable. Arguments as for `Matern12`.

    >>> import stategp as sg
    >>> sg.spatial.Matern32(lengthscale=[1.0, 3.0])  # one for each coordinate
    Matern32(lengthscale=[1, 3])
    """

    def correlation(self, distance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """(1 + √3 r) exp(−√3 r)."""
        r = math.sqrt(3) * distance
        return (1 + r) * jnp.exp(-r)


class Matern52(Kernel):
    """Matérn ν = 5/2: twice differentiable. Arguments as for `Matern12`.

    >>> import stategp as sg
    >>> sg.spatial.Matern52(lengthscale=300.0, metric="chordal")  # kilometres
    Matern52(lengthscale=300, metric='chordal')
    """

    def correlation(self, distance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """(1 + √5 r + 5r²/3) exp(−√5 r)."""
        r = math.sqrt(5) * distance
        return (1 + r + r**2 / 3) * jnp.exp(-r)


class SquaredExponential(Kernel):
    """exp(−distance²/(2 lengthscale²)): infinitely smooth. Arguments as for `Matern12`.

    >>> import stategp as sg
    >>> sg.spatial.SquaredExponential(lengthscale=sg.fixed(2.0))
    SquaredExponential(lengthscale=fixed(2))
    """

    def correlation(self, distance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """exp(−r²/2)."""
        return jnp.exp(-(distance**2) / 2)
