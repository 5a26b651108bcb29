"""A Gaussian process over space and time, whose kernel is a product of one over each.

With inducing places Z and their correlations K = B Bᵀ, the field at the places is B v(t), where the
processes v_1 … v_L are independent and all have the kernel over time. At any other place s

    f(s, t) = mean(t) + C(s) v(t) + rest,    C(s) = k(s, Z) B⁻ᵀ,

and the rest has the share 1 − |C(s)|² of the variance.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._arguments import as_whole
from stategp._models._bare import bare
from stategp._models._gp import as_kernel, as_likelihood, as_mean
from stategp._models._learned import Learned
from stategp._models._mixed import Family, MixedGP, check_family
from stategp._modules import Module
from stategp._runtime import on_device
from stategp.kernels import Kernel
from stategp.likelihoods import Likelihood
from stategp.means import Constant, Mean
from stategp.parameters import Parameter, with_value
from stategp.spatial import (
    Anchors,
    as_places,
    check_coordinates,
    choose_places,
    places_explaining,
    principal_modes,
)
from stategp.spatial import Kernel as SpatialKernel

_AXES = ("x", "y", "z")
Rows = Float[Array, " rows"]


class Spots(Module):
    """The places of rows. Each run of `width` rows lies between the same two inducing times.

    On a grid rows are all pairs of some times and some places, time by time, and the places are
    written down once.
    """

    coordinates: Float[Array, "places dim"]
    width: int = eqx.field(static=True, default=1)
    grid: bool = eqx.field(static=True, default=False)

    def to_rows(self, values: Float[Array, " places"], rows: int) -> Rows:
        """What places have, for every row."""
        return jnp.tile(values, rows // len(values)) if self.grid else values


class SpaceTimeGP(MixedGP):
    """f(place, time) with covariance k_space(place, place′) · k_time(time, time′).

    Arguments:
        space: one of `sg.spatial`. It has no variance: that is the business of `time`.
        time: one of `sg.kernels` or an expression.
        likelihood: how f is observed, by default with Gaussian noise.
        places: the inducing places: their number (they are then chosen among those of the data), an
            array with a row of coordinates for each, or the share of the variance of f at the data
            that they are to explain, such as 0.99 (`"auto"` means that): then there are as many as
            that takes at the lengthscale that is learned, at most 100 (400 for "product"), and if
            it is learned at least ten. The state at one time has as many parts as there are places,
            and the cost of a step grows with the cube of their number. `sg.Learned(20)`, or
            `sg.Learned(array)`: `sg.fit` moves them, with the hyperparameters, from where they
            would be otherwise to where the bound is highest; `sg.condition` leaves them there.
        q: "joint", the processes that make up the field are dependent in the posterior, or
            "product", they are not: less accurate, and linear in the number of places.
        mean: a number or a function of time; by default a constant that is learned.
        names: the columns of data frames, the time first; by default "time" and "x", "y", "z", or
            "longitude" and "latitude".

    Data are given to `sg.fit` as a pair of times and places, `sg.fit(model, (times, places), y)`,
    or as a table with the time in the first column and the coordinates in the others. If y has two
    axes, it is a grid: a row for each time and a column for each place.

    >>> import numpy as np, stategp as sg
    >>> rng = np.random.default_rng(0)
    >>> times, places = np.arange(20.0), rng.uniform(size=(8, 2))
    >>> y = np.sin(times / 3)[:, None] * places[:, 0] + 0.1 * rng.standard_normal((20, 8))
    >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32(), places=4)
    >>> posterior = sg.condition(model, (times, places), y)
    >>> mean, variance = posterior.predict_f(([19.0, 22.0], [[0.5, 0.5], [0.1, 0.9]]))
    """

    space: SpatialKernel
    time: Kernel
    noise: Likelihood
    mean: Mean
    anchors: Float[Array, "anchors dim"] | Parameter | None  # None: to be chosen
    modes: Float[Array, "anchors anchors"] | None  # of the field at the anchors, for "product"
    number: int | float | None = eqx.field(static=True)  # below one: the share to explain
    q: Family = eqx.field(static=True)
    columns: tuple[str, ...] | None = eqx.field(static=True)
    moving: bool = eqx.field(static=True, default=False)  # whether `fit` learns the places

    def __init__(
        self,
        space: Any,
        time: Any,
        likelihood: Any = None,
        *,
        places: Any = None,
        q: Any = "joint",
        mean: Any = None,
        names: Sequence[str] | None = None,
    ):
        if not isinstance(space, SpatialKernel):
            raise ValueError(
                "space must be a kernel over space, such as sg.spatial.Matern32(), got "
                f"{type(space).__name__}: {space!r}"
            )
        self.space, self.time = space, as_kernel(time, "the kernel over time")
        self.noise = as_likelihood(likelihood)
        if self.noise.latents > 1:
            raise ValueError(
                "a model over space and time has one latent function, but "
                f"{type(self.noise).__name__} reads {self.noise.latents}"
            )
        self.mean = Constant() if mean is None else as_mean(mean, 0)
        self.q = check_family(q)
        self.moving = isinstance(places, Learned)
        self.number, where = _given_places(places.start if self.moving else places, space)
        self.anchors = _as_anchors(where, moving=self.moving)
        self.modes = None
        self.columns = _checked_names(names)

    @property
    def likelihood(self) -> Likelihood:
        """How f is observed."""
        return self.noise

    @property
    def places(self) -> np.ndarray | int | float | None:
        """The inducing places, or how many there are to be, or what they are to explain."""
        where = self.where
        return self.number if where is None else np.asarray(where)

    @property
    def where(self) -> Float[Array, "anchors dim"] | None:
        """The inducing places, None before they have been chosen."""
        return self.anchors.value if isinstance(self.anchors, Parameter) else self.anchors

    @property
    def share(self) -> float | None:
        """Of the variance at the data that the inducing places are to explain, if that was said."""
        return self.number if isinstance(self.number, float) else None

    @property  # type: ignore[misc]  # equinox lets a property stand for an abstract variable
    def kernels(self) -> tuple[Kernel, ...]:  # type: ignore[override]  # likewise
        """The kernel over time, once for each inducing place."""
        where = self.where
        if where is None:
            raise ValueError("the inducing places of this model have not been chosen yet")
        return (self.time,) * len(where)

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "SpaceTimeGP":
        """The same model with another kernel over time."""
        moved: SpaceTimeGP = eqx.tree_at(lambda model: model.time, self, kernels[0])
        return moved

    def names(self, dimensions: int) -> tuple[str, ...]:
        """The columns of a data frame with so many coordinates."""
        if self.columns is not None:
            return self.columns
        if self.space.metric != "euclidean":
            return ("time", "longitude", "latitude")
        return ("time", *_AXES[:dimensions])

    def placed(self, places: np.ndarray, *, seed: int = 0, least: int = 1) -> "SpaceTimeGP":
        """The model with inducing places, chosen among these unless they were given.

        If they are to explain a share of the variance they are chosen anew, by the kernel as it is,
        and there are at least `least`.
        """
        where = self.where
        if self.share is not None:
            most = MOST_CHOSEN[self.q]
            kernel = bare(self.space)
            chosen = places_explaining(kernel, places, self.share, least=least, most=most)
            where = on_device(chosen)
        elif where is None:
            number = DEFAULT if self.number is None else int(self.number)
            chosen = choose_places(places, number, seed=seed, metric=self.space.metric)
            where = on_device(chosen)
        elif where.shape[1] != places.shape[1]:
            raise ValueError(
                f"the inducing places have {where.shape[1]} coordinates, the places of the data "
                f"{places.shape[1]}"
            )
        anchors = _as_anchors(where, moving=self.moving)
        moved: SpaceTimeGP = eqx.tree_at(
            lambda m: (m.anchors, m.modes), self, (anchors, None), is_leaf=_is_none
        )
        return moved

    def standing(self) -> "SpaceTimeGP":
        """The same model with inducing places that do not move for now."""
        anchors = _as_anchors(self.where, moving=self.moving, learned=False)
        moved: SpaceTimeGP = eqx.tree_at(lambda m: m.anchors, self, anchors)
        return moved

    def turned_back(self, places: np.ndarray) -> "SpaceTimeGP":
        """The same model with learned longitudes in the turn around the Earth of these places."""
        if self.space.metric == "euclidean" or not isinstance(self.anchors, Parameter):
            return self
        where = np.array(self.anchors.value)
        middle = (places[:, 0].min() + places[:, 0].max()) / 2
        turns = np.round((where[:, 0] - middle) / 360)
        if not turns.any():
            return self
        where[:, 0] -= 360 * turns
        anchors = with_value(self.anchors, on_device(where))
        moved: SpaceTimeGP = eqx.tree_at(lambda m: m.anchors, self, anchors)
        return moved

    def in_modes(self) -> "SpaceTimeGP":
        """For q="product": the processes are the patterns of the field that vary most, and so on.

        With all places observed at all times, and Gaussian noise, these stay independent.
        """
        where = self.where
        if self.q == "joint" or where is None:
            return self
        modes = principal_modes(bare(self.space), where)
        moved: SpaceTimeGP = eqx.tree_at(lambda m: m.modes, self, modes, is_leaf=_is_none)
        return moved

    def like(self, given: "SpaceTimeGP") -> "SpaceTimeGP":
        """This model with the hyperparameters as they were given: learned or fixed."""
        anchors = _as_anchors(self.where, moving=self.moving)
        moved: SpaceTimeGP = eqx.tree_at(
            lambda m: (m.space, m.time, m.noise, m.mean, m.anchors),
            self,
            (given.space, given.time, given.noise, given.mean, anchors),
        )
        return moved

    def likelihood_at(self, places: Any) -> Likelihood:
        """The same everywhere."""
        return self.noise

    def coefficients(self, x: Rows, places: Spots) -> Float[Array, "places latents"]:
        """C(s)."""
        return self.reads(places)[0]

    def extra_variance(self, x: Rows, places: Spots) -> Rows:
        """The variance that the inducing places do not explain."""
        return places.to_rows(self.unexplained(places), len(x)) * self.variance_at(x)

    def unexplained(self, places: Spots) -> Float[Array, " places"]:
        """The share of the variance that the inducing places leave."""
        return self.reads(places)[1]

    def variance_at(self, x: Rows) -> Rows:
        """The prior variance of f at these times, measured from the first, at any place."""
        h, P = self.time.emission_at(x), self.time.covariance_at(x)
        spread = jnp.sum(h[:, None] * P * h[None], axis=(0, 1))
        return jnp.broadcast_to(spread, x.shape)

    def seen_from(self, origin: Any) -> "SpaceTimeGP":
        """The same model for times that are measured from this one, if that matters to `time`."""
        moved: SpaceTimeGP = eqx.tree_at(
            lambda model: model.time, self, self.time.seen_from(float(np.asarray(origin)))
        )
        return moved if self.time.located else self

    def offset(self, x: Rows, places: Any) -> Rows:
        """The mean function, of time."""
        return self.mean(x)

    def reads(
        self, places: Spots
    ) -> tuple[Float[Array, "places latents"], Float[Array, " places"]]:
        """C(s), and the share of the variance that the inducing places leave."""
        where = self.where
        assert where is not None
        anchors = Anchors.of(self.space, where, self.modes)
        return anchors.coefficients(self.space, places.coordinates)

    def __repr__(self) -> str:
        count = self.number if self.where is None else len(self.where)
        places = f"Learned({count})" if self.moving else count
        return (
            f"SpaceTimeGP(space={self.space!r}, time={self.time!r}, likelihood={self.noise!r}, "
            f"places={places}, q={self.q!r}, mean={self.mean!r})"
        )


DEFAULT = 25  # inducing places, unless the data have fewer
AUTOMATIC = 0.99  # of the variance
MOST_CHOSEN = {"joint": 100, "product": 400}  # places to explain a share


def _is_none(value: Any) -> bool:
    return value is None


def _as_anchors(where: Any, *, moving: bool, learned: bool = True) -> Any:
    """Inducing places as numbers, or, if they may move, as a hyperparameter."""
    if where is None or not moving:
        return where
    return Parameter(where, "real", "place", learned=learned)


def _given_places(places: Any, space: SpatialKernel) -> tuple[int | float | None, Any]:
    """Their number or the share that they are to explain, or where they are."""
    if places is None:
        return None, None
    if isinstance(places, str) and places == "auto":
        return AUTOMATIC, None
    count = as_whole(places)
    if count is not None:
        if count < 1:
            raise ValueError(f"places must be at least 1, got {count}")
        return count, None
    if np.ndim(places) == 0:
        if isinstance(places, float | np.floating) and 0 < places < 1:
            return float(places), None
        raise ValueError(
            "places must be the number of inducing places, the share of the variance that they are "
            f"to explain (0.99, or 'auto'), or an array with a row for each, got {places!r}"
        )
    array = as_places("places", places)
    if len(array) == 0:
        raise ValueError("places is empty: at least one inducing place is needed")
    check_coordinates("places", array, space.metric)
    return None, on_device(array)


def _checked_names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not 2 <= len(tuple(names)) <= 4 or len(set(names)) < len(names):
        raise ValueError(
            "names must list the column of the time and those of one to three coordinates, each "
            f"once, got {names!r}"
        )
    return tuple(str(name) for name in names)
