"""A sum of Gaussian processes, one for each input."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from stategp._models._gp import as_homogeneous, as_likelihood, as_mean
from stategp._modules import Module
from stategp.kernels import Kernel
from stategp.likelihoods import Likelihood
from stategp.means import Constant, Mean, Zero


class AdditiveGP(Module):
    """f(x) = mean + f₁(x₁) + f₂(x₂) + …, where every function has its own kernel.

    `kernels` is a list, one for each column of x, or a dictionary that names the columns; each is
    one of `sg.kernels` or an expression. The mean is a number; it is learned unless given.

    >>> import stategp as sg
    >>> model = sg.AdditiveGP({"age": sg.kernels.Matern32(), "hour": "periodic(24)"})
    >>> model.names
    ('age', 'hour')
    """

    kernels: tuple[Kernel, ...]
    likelihood: Likelihood
    mean: Mean
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, kernels: Any, likelihood: Any = None, mean: Any = None):
        if isinstance(kernels, Mapping):
            names, parts = tuple(map(str, kernels)), tuple(kernels.values())
        elif isinstance(kernels, list | tuple):
            names, parts = tuple(f"x{i}" for i in range(len(kernels))), tuple(kernels)
        else:
            raise ValueError(
                "kernels must be a list of kernels, one for each column of x, or a dictionary "
                f"that names them; got {kernels!r}"
            )
        if not parts:
            raise ValueError("kernels is empty: an additive model needs at least one")
        self.kernels = tuple(
            as_homogeneous(part, f"the kernel of {name!r}")
            for name, part in zip(names, parts, strict=True)
        )
        self.names = names
        self.likelihood = as_likelihood(likelihood)
        if self.likelihood.latents > 1:
            raise ValueError(
                "an additive model has one latent function, but "
                f"{type(self.likelihood).__name__} reads {self.likelihood.latents}"
            )
        if not (mean is None or isinstance(mean, int | float | Constant | Zero)):
            raise ValueError(f"the mean of an additive model is a number, got {mean!r}")
        self.mean = Constant() if mean is None else as_mean(mean, 0)

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {kernel!r}" for name, kernel in zip(self.names, self.kernels, strict=True)
        )
        return f"AdditiveGP({{{parts}}}, likelihood={self.likelihood!r}, mean={self.mean!r})"
