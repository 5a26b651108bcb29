"""Starting values and scales of the hyperparameters of several outputs, from their data."""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import Observations, Outputs
from stategp._inference._limits import Limits, search_limits
from stategp._inference._starting_values import search_scales, starting_model
from stategp._models import GP, Loadings, MultiOutputGP
from stategp._runtime import on_device
from stategp.kernels import Kernel, Matern32
from stategp.likelihoods import Gaussian, Likelihood
from stategp.means import Zero
from stategp.parameters import (
    Parameter,
    all_parameters,
    fixed,
    map_parameters,
    to_vector,
    with_value,
)

_GRID = 512  # points at which outputs are compared
_TIES = 1e3  # no more of ties: correlations then differ from one by a millionth


def starting_outputs(model: MultiOutputGP, seen: Outputs, stretch: float = 1.0) -> MultiOutputGP:
    """The model with every hyperparameter that was not given set from the data."""
    alone = [
        starting_model(_alone(model, number), data, stretch)
        for number, data in enumerate(_each_or_any(seen))
    ]
    likelihoods = tuple(gp.likelihood for gp in alone)
    means = tuple(mean for gp in alone for mean in gp.means)
    if model.mixing is None:
        kernels = tuple(kernel for gp in alone for kernel in gp.kernels)
        return model.replaced(kernels=kernels, likelihoods=likelihoods, means=means)
    x, matrix, processes = _factors(model, seen)
    mixing = model.mixing
    if isinstance(mixing, Parameter) and not mixing.given:
        mixing = with_value(mixing, on_device(matrix))
    started: list[Kernel] = []
    for kernel, values in zip(model.kernels[: model.shared], processes.T, strict=True):
        if mixing.learned:
            kernel = _of_unit_size(kernel)
        started.append(starting_model(_process(kernel), _as_series(x, values), stretch).kernels[0])
    if model.shared < len(model.kernels):
        started += [kernel for gp in alone for kernel in gp.kernels]
    return model.replaced(
        kernels=tuple(started), likelihoods=likelihoods, means=means, mixing=mixing
    )


def outputs_scales(model: MultiOutputGP, seen: Outputs) -> np.ndarray:
    """The natural size of a step in each coordinate of the hyperparameter vector."""
    series = _each_or_any(seen)
    each = [
        _parts(_alone(model, i), search_scales(_alone(model, i), d)) for i, d in enumerate(series)
    ]
    kernels, mixing = [part[0] for part in each], np.zeros(0)
    if model.mixing is not None:
        x, _, processes = _factors(model, seen)
        kernels = [
            search_scales(_process(kernel), _as_series(x, values))
            for kernel, values in zip(model.kernels[: model.shared], processes.T, strict=True)
        ] + kernels
        if model.mixing.learned:
            sizes = [_sizes(model.likelihoods[i], data) for i, data in enumerate(series)]
            mixing = np.repeat(np.concatenate(sizes), model.shared)
    ties = np.ones(len(to_vector(model.ties)))
    return np.concatenate([*kernels, *(p[1] for p in each), *(p[2] for p in each), mixing, ties])


def outputs_limits(model: MultiOutputGP, seen: Outputs) -> Limits:
    """How low and how high each coordinate of the hyperparameter vector may go."""
    each = []
    for number, data in enumerate(_each_or_any(seen)):
        gp = _alone(model, number)
        limits = search_limits(gp, np.asarray(data.y), swept=True)
        each.append([_parts(gp, ends) for ends in limits])
    ends = []
    for side, free in enumerate((-np.inf, np.inf)):
        kernels = [part[side][0] for part in each]
        mixing = np.zeros(0)
        if model.mixing is not None:
            shared = model.kernels[: model.shared]
            kernels = [np.full(len(to_vector(shared)), free), *kernels]
            mixing = np.full(len(to_vector(model.mixing)), free)
        likelihoods, means = ([part[side][k] for part in each] for k in (1, 2))
        ties = np.full(len(to_vector(model.ties)), np.copysign(_TIES, free))
        ends.append(np.concatenate([*kernels, *likelihoods, *means, mixing, ties]))
    return Limits(*ends)


# --- one output, or one process, as a model of its own -----------------------------------------


def _alone(model: MultiOutputGP, number: int) -> GP:
    """An output without the others."""
    mine, likelihood = model.functions_of(number), model.likelihoods[number]
    held: Kernel = Matern32(variance=fixed(1.0), lengthscale=fixed(1.0))
    kernels: tuple[Kernel, ...] = (held,) * likelihood.latents
    if model.shared < len(model.kernels):
        kernels = model.kernels[model.shared :][mine]
    return GP(kernels, likelihood, model.means[mine])


def _process(kernel: Kernel) -> GP:
    return GP(kernel, Gaussian(variance=fixed(1.0)), Zero())


def _parts(gp: GP, vector: np.ndarray) -> list[np.ndarray]:
    """What belongs to the kernels, the likelihood and the mean functions."""
    parts: tuple[Any, ...] = (gp.kernels, gp.likelihood, gp.means)
    return np.split(vector, np.cumsum([len(to_vector(part)) for part in parts])[:-1])


def _each_or_any(seen: Outputs) -> list[Observations]:
    """The data of every output; of one that was never seen, those of the first that was."""
    first = next(data for data in seen.series if data is not None)
    return [first if data is None else data for data in seen.series]


def _of_unit_size(kernel: Kernel) -> Kernel:
    """The kernel with one open variance held: its size is that of the mixing matrix."""
    open_sizes = sum(p.role == "variance" and not p.given for p in all_parameters(kernel))
    held = False

    def hold(parameter: Parameter) -> Parameter:
        nonlocal held
        if held or parameter.given or not parameter.learned or parameter.role != "variance":
            return parameter
        held = True
        share = on_device(np.full(parameter.value.shape, 1 / open_sizes))
        return dataclasses.replace(parameter, value=share, learned=False, given=True)

    return map_parameters(hold, kernel)


# --- what the outputs have in common -----------------------------------------------------------


def _factors(model: MultiOutputGP, seen: Outputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A grid of x, a mixing matrix, and rough values of each process on the grid.

    The matrix is that of the model if it was given, else of principal components, which are scaled
    to unit variance.
    """
    x = np.asarray(seen.data.x)
    grid = np.linspace(x[0], x[-1], min(_GRID, max(len(x), 2)))
    columns, sizes = [], []
    for number, data in enumerate(_each_or_any(seen)):
        sizes.append(_sizes(model.likelihoods[number], data))
        for f in (_pseudo(model.likelihoods[number], data) / sizes[-1]).T:
            there = _averaged(np.asarray(data.x), f - np.mean(f), len(grid))
            columns.append(np.interp(grid, *there))
    F, size = np.stack(columns, axis=1), np.concatenate(sizes)
    count = model.shared
    if model.mixing is not None and model.mixing.given:
        weights = _weights(model.mixing, grid)
        values = (np.linalg.pinv(weights) @ (F * size)[..., None])[..., 0]
        return grid, weights[0], values
    U, s, V = np.linalg.svd(F, full_matrices=False)
    known = min(count, len(s))
    matrix = 0.1 * np.random.default_rng(0).standard_normal((len(size), count))
    matrix[:, :known] = V[:known].T * s[:known] / np.sqrt(len(grid))
    values = np.sqrt(len(grid)) * U[:, np.arange(count) % known]
    return grid, size[:, None] * matrix, values


def _weights(mixing: Parameter | Loadings, grid: np.ndarray) -> np.ndarray:
    """At each x of a grid, or, if they stay, one matrix for all."""
    if isinstance(mixing, Loadings):
        return np.asarray(mixing(on_device(grid)))
    return np.asarray(mixing.value)[None]


def _averaged(x: np.ndarray, f: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """A long series as the means of neighbours."""
    parts = np.array_split(np.arange(len(x)), min(most, len(x)))
    return (
        np.asarray([np.mean(x[part]) for part in parts]),
        np.asarray([np.mean(f[part]) for part in parts]),
    )


def _pseudo(likelihood: Likelihood, data: Observations) -> np.ndarray:
    """What observations say of the functions that they read, a column for each."""
    guess = likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
    return guess.reshape(len(guess), likelihood.latents)


def _sizes(likelihood: Likelihood, data: Observations) -> np.ndarray:
    """The standard deviations of what an output says of its functions."""
    spread = [
        float(np.std(f)) or float(np.max(np.abs(f))) or 1.0 for f in _pseudo(likelihood, data).T
    ]
    return np.asarray(spread)


def _as_series(x: np.ndarray, values: np.ndarray) -> Observations:
    columns: Any = (x, values, np.zeros(len(x)), np.ones(len(x)), 0.0)
    return Observations(*columns)
