"""Whether the parts of a posterior that came from a file fit together."""

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from stategp._data import ORDER, GaussianSums, Observations, Sampled, Stretches, Summary, Table
from stategp._inference import ChainSites, NodeSites, no_group_sites
from stategp._posteriors._additive import AdditivePosterior, Training
from stategp._posteriors._deep import DeepPosterior
from stategp._posteriors._mixed import MixedPosterior
from stategp._posteriors._posterior import Posterior
from stategp._posteriors._prediction import Chain
from stategp.chain import PairMarginals
from stategp.kernels import Kernel


def check_observations(data: Observations) -> None:
    """Columns of one length, in order of x."""
    _equal_lengths("observations", x=data.x, y=data.y, extra=data.extra, weights=data.weights)
    x = np.asarray(data.x)
    if not np.all(np.isfinite(x)) or np.any(x[1:] < x[:-1]):
        raise ValueError("the x of its observations are not finite numbers in order")


def check_sampled(data: Sampled) -> None:
    """Columns of one length, in order of x, and stretches in order."""
    check_observations(data)
    if len(_check_stretches(data.stretches, data.where.number)) == 0 or data.rows < 1:
        raise ValueError("it has no observations")


def _check_stretches(stretches: Stretches, number: Any) -> np.ndarray:
    numbers = np.asarray(number)
    width = stretches.width
    if not (np.isfinite(width) and width > 0) or np.any(np.diff(numbers) <= 0):
        raise ValueError("its stretches are not numbers in increasing order with a width")
    return numbers


def check_summary(summary: Summary) -> None:
    """Stretches in order, and a row of sums for each."""
    number = _check_stretches(summary.stretches, summary.number)
    sums = summary.sums
    if isinstance(sums, GaussianSums):
        like = GaussianSums.nothing(len(number))
        shapes = [(a.shape, b.shape) for a, b in zip(sums.columns(), like.columns(), strict=True)]
    else:
        kinds = len(sums.statistics)
        shapes = [(sums.totals.shape, (len(number), 4))]
        shapes.append((sums.statistics.shape, (kinds, len(number), ORDER)))
    if any(found != expected for found, expected in shapes):
        raise ValueError("its sums do not fit to its stretches")
    if (summary.first is None) != (len(number) == 0) or (summary.last is None) != (
        summary.first is None
    ):
        raise ValueError("its range does not fit to its stretches")


def check_table(table: Table) -> None:
    """Columns of one length, which name nodes that there are."""
    inputs = {f"index {i}": index for i, index in enumerate(table.index)}
    _equal_lengths("rows", y=table.y, extra=table.extra, weights=table.weights, **inputs)
    if len(table.first) != len(table.index) + 1 or np.any(np.diff(table.first) < 0):
        raise ValueError("the inputs of its observations do not fit together")
    for index, count in zip(table.index, np.diff(table.first), strict=True):
        numbers = np.asarray(index)
        if np.any((numbers < 0) | (numbers >= count)):
            raise ValueError("its observations refer to values of inputs that are not there")


def check_training(training: Training) -> None:
    """A site for each node, or for each interval between inducing points."""
    nodes = training.table.first[-1]
    if not isinstance(training.sites, NodeSites):
        shapes = [group.inducing.shape for group in training.layout]
        found = [site.linear.shape[:2] for site in training.sites]
        if found != [(members, states + 1) for members, states in shapes]:
            raise ValueError(f"it has sites of shapes {found} for inducing points of {shapes}")
        return
    for part in (training.sites.linear, training.sites.precision):
        if part.shape != (nodes,):
            raise ValueError(f"it has sites of shape {part.shape} for {nodes} values of inputs")


def check_posterior(posterior: Posterior) -> None:
    """Inducing locations in order, and an entry of q for each interval between them."""
    _check_inducing(posterior.relative_inducing)
    _check_intervals(
        posterior.model.kernels,
        len(posterior.relative_inducing),
        posterior.sites,
        posterior.marginals,
    )


def check_chain(chain: Chain) -> None:
    """The same for a chain, whose last inducing location may be repeated."""
    _check_inducing(chain.inducing, repeated=True)
    _check_intervals(chain.model.kernels, len(chain.inducing), chain.sites, chain.marginals)


def check_additive(posterior: AdditivePosterior) -> None:
    """Everything that an input has, once for each."""
    parts = posterior.chains, posterior.centring, posterior.averages, posterior.origins
    for part in (*parts, posterior.states, posterior.training.table.index):
        if len(part) != len(posterior.model.names):
            raise ValueError(f"it has {len(part)} parts for {len(posterior.model.names)} inputs")


def check_mixed(posterior: MixedPosterior) -> None:
    """Inducing locations in order, an entry of q for each interval, and a place for each row."""
    _check_inducing(posterior.padded_inducing, repeated=True)
    states, model = len(posterior.padded_inducing), posterior.model
    if not 1 <= posterior.states <= states:
        raise ValueError(f"it counts {posterior.states} of {states} inducing locations")
    wanted = _shapes(no_group_sites(model, states))
    for name, part in (("sites", posterior.sites), ("marginals", posterior.marginals)):
        if _shapes(part) != wanted:
            raise ValueError(f"its {name} are not those of its processes and inducing locations")
    for column in jax.tree.leaves(posterior.places):
        _equal_lengths("observations", y=posterior.data.y, places=column)


def _shapes(parts: Any) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in jax.tree.leaves(parts)]


def check_deep(posterior: DeepPosterior) -> None:
    """A chain for each function of the model."""
    paths = set(posterior.model.paths)
    if set(posterior.sites) != paths or set(posterior.marginals) != paths:
        raise ValueError("its functions are not those of its model")
    for path in paths:
        layer = posterior.model.layer(path)
        if layer.locations is None:
            raise ValueError(f"layer {path[0]!r} has no inducing locations")
        _check_inducing(layer.locations)
        q = (posterior.sites[path],), (posterior.marginals[path],)
        _check_intervals((layer.kernel,), len(layer.locations), *q)


def _equal_lengths(what: str, **columns: Any) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"its {what} have columns of different lengths: {lengths}")


def _check_inducing(inducing: Any, *, repeated: bool = False) -> None:
    locations = np.asarray(inducing)
    gaps = np.diff(locations)
    ordered = np.all(gaps >= 0) if repeated else np.all(gaps > 0)
    if len(locations) == 0 or not np.all(np.isfinite(locations)) or not ordered:
        raise ValueError("its inducing locations are not finite numbers in increasing order")


def _check_intervals(
    kernels: Iterable[Kernel], states: int, sites: ChainSites, marginals: tuple[PairMarginals, ...]
) -> None:
    pairs = [2 * kernel.state_dim for kernel in kernels]
    if len(sites) != len(pairs) or len(marginals) != len(pairs):
        raise ValueError(f"it has {len(sites)} chains for {len(pairs)} latent functions")
    for pair, site, marginal in zip(pairs, sites, marginals, strict=True):
        vectors, matrices = (states + 1, pair), (states + 1, pair, pair)
        for name, part, shape in [
            ("sites.linear", site.linear, vectors),
            ("sites.precision", site.precision, matrices),
            ("marginals.mean", marginal.mean, vectors),
            ("marginals.covariance", marginal.covariance, matrices),
        ]:
            if part.shape != shape:
                raise ValueError(
                    f"{name} has shape {part.shape}, and {states} inducing locations need {shape}"
                )
