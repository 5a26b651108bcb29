"""The posterior of a field over space and time."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import observe_in_space, relative_inputs, times_and_places
from stategp._models import SpaceTimeGP, bare
from stategp._posteriors._mixed import MixedPosterior
from stategp._posteriors._pointwise import Points, by_blocks, padded
from stategp._posteriors._shown import Mapped
from stategp._posteriors._white import (
    mean_at,
    prior_samples,
    read_at,
    root_of,
    sample_white,
    variance_at,
    white_at,
)
from stategp._posteriors._with_more import condition_all, rows_together
from stategp._runtime import (
    as_count,
    as_key,
    at_once,
    finishing_compilations,
    on_device,
    pad_last,
    refuse_traced,
)
from stategp.spatial import as_places, check_coordinates

_TIMES = 16  # at which the white processes are looked at together
_MOST_PLACES = 2000  # of joint samples, whose covariance is factorised


class Map(NamedTuple):
    """Mean and standard deviation of f, a row for each time and a column for each place."""

    mean: np.ndarray
    sd: np.ndarray


class SpaceTimePosterior(Mapped, MixedPosterior):
    """The posterior of f over places and times, as chains of states at inducing places.

    Returned by `sg.fit` and `sg.condition` for an `sg.SpaceTimeGP`. Where predictions are asked for
    is given as the data are: a pair (times, places) with one of each for every point, or a table
    with the time in the first column. Times before, between and after the data, and places that
    were never observed, are all allowed.
    """

    model: SpaceTimeGP = eqx.field(kw_only=True)

    def predict_f(self, x_new: Any) -> tuple[Points, Points]:
        """Mean and variance of f.

        >>> import numpy as np, stategp as sg
        >>> times, places = np.arange(10.0), [[0.0], [1.0], [2.0]]
        >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32())
        >>> posterior = sg.condition(model, (times, places), np.outer(np.sin(times), [1, 2, 3]))
        >>> mean, variance = posterior.predict_f(([4.5, 11.0], [[0.5], [0.5]]))
        """
        moments: tuple[Points, Points] = on_device(self._at_rows(*self._rows(x_new)))
        return moments

    def map(self, times: Any, places: Any) -> Map:
        """Mean and standard deviation of f at all places for each of the times.

        `posterior.plot_maps(times)` draws them.

        >>> import numpy as np, stategp as sg
        >>> times, places = np.arange(10.0), [[0.0], [1.0], [2.0]]
        >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32())
        >>> posterior = sg.condition(model, (times, places), np.outer(np.sin(times), [1, 2, 3]))
        >>> posterior.map([4.5, 11.0], np.linspace(0, 2, 50)).mean.shape
        (2, 50)
        """
        x = self._points("times", times)
        where = self._checked_places("places", places)
        both = np.repeat(x, len(where)), np.tile(where, (len(x), 1))
        mean, variance = self._at_rows(*both)
        shape = len(x), len(where)
        return Map(mean.reshape(shape), np.sqrt(variance).reshape(shape))

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of f over all the points; `key` is a JAX random key or an integer seed."""
        count = as_count(num_samples)
        x, places = self._rows(x_new)
        if count == 0 or len(x) == 0:
            return jnp.zeros((count, len(x)))
        times, when = np.unique(x, return_inverse=True)
        spots, which = np.unique(places, axis=0, return_inverse=True)
        if len(spots) > _MOST_PLACES:
            raise ValueError(
                f"joint samples are for at most {_MOST_PLACES} distinct places, got {len(spots)}"
            )
        g_key, rest_key = jax.random.split(as_key(key))
        processes = self._white_samples(g_key, times, count)
        rows, root, _ = self._reads(spots, joint=True)
        rest = self._rest(rest_key, times, count * len(spots)).reshape(count, len(spots), -1)
        field = np.einsum("pl,stl->spt", rows, processes) + np.einsum("pq,sqt->spt", root, rest)
        mean = self._offset(x)
        drawn: Float[Array, "samples points"] = on_device(field[:, which.reshape(-1), when] + mean)
        return drawn

    def _with_more(
        self, x_new: Any, y_new: Any, beside: dict[str, Any], options: dict[str, Any]
    ) -> "SpaceTimePosterior":
        model = self.model
        held = SpaceTimeGP(
            model.space, model.time, model.noise, places=self.inducing_places, q=model.q,
            mean=model.mean, names=model.columns,
        )  # fmt: skip
        new = observe_in_space(x_new, y_new, model.names, model.likelihood, **beside)
        rows = rows_together(self, *new)
        extra = model.likelihood.extra
        extras = {} if extra is None else {extra: rows.extra}
        found: SpaceTimePosterior = condition_all(
            held, (rows.x, rows.places), rows, extras, options
        )
        # Places that were learned or chosen by a share stay so if the model is fitted again.
        same = eqx.tree_at(lambda m: (m.time, m.mean), model, (found.model.time, found.model.mean))
        return dataclasses.replace(found, model=same)

    @property
    def inducing_places(self) -> np.ndarray:
        """The inducing places, a row of coordinates for each."""
        return np.asarray(self.model.where)

    @property
    def explained(self) -> float:
        """The share of the prior variance of f that inducing places explain: mean over the data.

        The rest is noise to the model: with a share well below one, more places help.
        """
        spots, counts = np.unique(np.asarray(self.places), axis=0, return_counts=True)
        return float(1 - np.average(self._reads(spots)[2], weights=counts))

    # --- how -----------------------------------------------------------------------------------

    def _rows(self, x_new: Any) -> tuple[np.ndarray, np.ndarray]:
        """Times measured from the origin, and places."""
        refuse_traced("the posterior", self)
        times, places = times_and_places("x_new", x_new, self.model.names)
        if len(times) != len(places):
            raise ValueError(
                f"x_new has {len(times)} times and {len(places)} places: give one of each for "
                "every point (posterior.map(times, places) takes all pairs)"
            )
        self._check("the places of x_new", places)
        return relative_inputs("the times of x_new", times, self.data.origin), places

    def _checked_places(self, name: str, places: Any) -> np.ndarray:
        array = as_places(name, places)
        self._check(name, array)
        return array

    def _check(self, name: str, places: np.ndarray) -> None:
        check_coordinates(name, places, self.model.space.metric)
        if places.shape[1] != self.inducing_places.shape[1]:
            raise ValueError(
                f"{name} have {places.shape[1]} coordinates, those of the data "
                f"{self.inducing_places.shape[1]}"
            )

    def _at_rows(self, x: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f: the white processes at each time, then the field they make."""
        times, when = np.unique(x, return_inverse=True)
        spots, which = np.unique(places, axis=0, return_inverse=True)
        rows, rest = self._reads(spots)[::2]
        mean, variance = np.empty(len(x)), np.empty(len(x))
        order = np.argsort(when, kind="stable")
        ends = np.searchsorted(when[order], np.arange(len(times) + 1))
        for start in range(0, len(times), _TIMES):
            means, spreads = self._white_at(times[start : start + _TIMES])
            for number, (m, S) in enumerate(zip(means, spreads, strict=True), start):
                here = order[ends[number] : ends[number + 1]]
                C = rows[which.reshape(-1)[here]]
                mean[here] = C @ m
                variance[here] = np.sum((C @ S if S.ndim == 2 else C * S) * C, axis=1)
        own = rest[which.reshape(-1)] * self._prior_variance(x)
        return mean + self._offset(x), np.maximum(variance, 0.0) + own

    def _white_at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means of the white processes at some times, and their covariances or variances."""
        whole = pad_last(x, _TIMES)
        with finishing_compilations(forget=False):
            both = at_once(
                lambda: white_at(bare(self.model), self.marginals[0], self.padded_inducing, whole)
            )
        mean, spread = (np.asarray(part)[: len(x)] for part in both)
        return mean, spread

    def _white_samples(self, key: PRNGKeyArray, times: np.ndarray, count: int) -> np.ndarray:
        """Joint samples of the white processes at times in order."""
        plain, chains = bare(self.model), (self.padded_inducing, self.sites[0])
        whole = padded(on_device(times))
        negative = not self.model.likelihood.log_concave
        with finishing_compilations(forget=False):
            drawn = at_once(lambda: sample_white(plain, *chains, key, whole, count, negative))
        return np.asarray(drawn)[:, : len(times)]

    def _reads(
        self, spots: np.ndarray, *, joint: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What f reads at places, a root of the covariance of the rest if asked for, its share."""
        plain = bare(self.model)
        rows, rest = by_blocks(lambda places: read_at(plain, places), spots)
        if not joint:
            return rows, np.zeros((0, 0)), rest
        covariance = np.asarray(self.model.space(spots, spots)) - rows @ rows.T
        return rows, root_of(covariance), rest

    def _rest(self, key: PRNGKeyArray, times: np.ndarray, count: int) -> np.ndarray:
        """Independent samples of the kernel over time."""
        whole, plain = padded(on_device(times)), bare(self.model.time)
        with finishing_compilations(forget=False):
            drawn = at_once(lambda: prior_samples(plain, key, whole, count))
        return np.asarray(drawn)[:, : len(times)]

    def _prior_variance(self, x: np.ndarray) -> np.ndarray:
        plain = bare(self.model)
        return np.asarray(by_blocks(lambda x: variance_at(plain, x), x))

    def _offset(self, x: np.ndarray) -> np.ndarray:
        plain, origin = bare(self.model), np.asarray(float(self.data.origin))
        return np.asarray(by_blocks(lambda x: mean_at(plain, x + origin), x))

    def __repr__(self) -> str:
        lines = [
            f"SpaceTimePosterior of {self.model!r}",
            f"  {self.data.observed} observations; {self.states} inducing times and "
            f"{len(self.inducing_places)} places, which explain {100 * self.explained:.4g} % of "
            "the variance of f at the data",
            f"  ELBO {self.elbo:.6g}",
        ]
        lines += [f"  fit {self.fit_result}"] * (self.fit_result is not None)
        return "\n".join(lines)


def check_space_time(posterior: SpaceTimePosterior) -> None:
    """Whether the parts of a posterior that came from a file fit together."""
    model, inducing = posterior.model, np.asarray(posterior.padded_inducing)
    places, anchors = np.asarray(posterior.places), model.where
    if anchors is None or anchors.ndim != 2 or not np.all(np.isfinite(np.asarray(anchors))):
        raise ValueError("it has no inducing places")
    if places.shape != (len(posterior.data), anchors.shape[1]):
        raise ValueError(f"it has places of shape {places.shape} for {len(posterior.data)} rows")
    if not np.all(np.diff(inducing) >= 0) or not 1 <= posterior.states <= len(inducing):
        raise ValueError("its inducing times are not in order")
    count, dim = len(anchors), model.time.state_dim
    joint = model.q == "joint"
    chains, pair = (1, 2 * count * dim) if joint else (count, 2 * dim)
    wanted = (chains, len(inducing) + 1, pair)
    if model.modes is not None and model.modes.shape != (count, count):
        raise ValueError("its processes do not fit to its inducing places")
    for parts in (posterior.sites, posterior.marginals):
        if len(parts) != 1 or {leaf.ndim for leaf in jax.tree.leaves(parts)} != {3, 4}:
            raise ValueError("its chains do not fit to its inducing places and times")
        shapes = [leaf.shape for leaf in jax.tree.leaves(parts)]
        if shapes != [wanted, (*wanted, pair)]:
            raise ValueError(f"it has chains of shape {shapes[0]} where {wanted} is needed")
