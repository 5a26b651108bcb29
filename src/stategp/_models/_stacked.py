"""A likelihood that reads several functions, each of which is a model of several inputs."""

from typing import Any

import equinox as eqx

from stategp._models._additive import AdditiveGP
from stategp._models._gp import as_likelihood
from stategp._models._space_time import SpaceTimeGP
from stategp._modules import Module
from stategp.likelihoods import Gaussian, Likelihood
from stategp.means import Zero
from stategp.parameters import fixed

Part = AdditiveGP | SpaceTimeGP


class StackedGP(Module):
    """Functions of several columns, or fields, that one likelihood reads together.

    Classes that depend on several columns, a count with a varying share of zeros over space: each
    function the likelihood reads is an `sg.AdditiveGP` or an `sg.SpaceTimeGP`, and all are
    independent under q. (For functions of one input there are `sg.GP` and `sg.JointGP`.)

    Arguments:
        part: the model of every function, or a list with one for each. Their own likelihoods are
            not used and stay what they are by default.
        likelihood: one of `sg.likelihoods` that reads several functions, such as `Softmax`.

    >>> import numpy as np, stategp as sg
    >>> part = sg.AdditiveGP([sg.kernels.Matern32(), sg.kernels.Matern32()])
    >>> model = sg.StackedGP(part, sg.likelihoods.Softmax(classes=3))
    >>> x = np.random.default_rng(0).uniform(size=(60, 2))
    >>> posterior = sg.condition(model, x, np.floor(3 * x[:, 0]))
    >>> posterior.predict_probabilities([[0.1, 0.5], [0.9, 0.5]]).argmax(axis=1).tolist()
    [0, 2]
    """

    parts: tuple[Part, ...]
    likelihood: Likelihood

    def __init__(self, part: Any, likelihood: Any):
        self.likelihood = as_likelihood(likelihood)
        count = self.likelihood.latents
        if count == 1:
            raise ValueError(
                f"{type(self.likelihood).__name__} reads one function: give it to the "
                "sg.AdditiveGP or sg.SpaceTimeGP itself"
            )
        listed = isinstance(part, list | tuple)
        parts = tuple(part) if listed else (part,) * count
        if len(parts) != count:
            raise ValueError(
                f"{type(self.likelihood).__name__} reads {count} functions, got {len(parts)} parts"
            )
        for one in parts:
            if not isinstance(one, AdditiveGP | SpaceTimeGP):
                raise ValueError(
                    "every part must be an sg.AdditiveGP or an sg.SpaceTimeGP, got "
                    f"{type(one).__name__}: {one!r}"
                )
            if not isinstance(one.likelihood, Gaussian):
                raise ValueError(
                    f"the likelihood belongs to the stack: leave {one.likelihood!r} out of its part"
                )
        if len({type(one) for one in parts}) > 1:
            raise ValueError("all parts must be of one kind, and read the same inputs")
        if self.likelihood.differences and not listed:
            # Only differences matter: the level of one of the functions says nothing.
            parts = (eqx.tree_at(lambda one: one.mean, parts[0], Zero()), *parts[1:])
        self.parts = parts

    def __repr__(self) -> str:
        return f"StackedGP([{', '.join(map(repr, self.parts))}], likelihood={self.likelihood!r})"


def seen_as_gaussian(part: Part) -> Part:
    """The same functions, observed with noise that is known."""
    return with_likelihood(part, Gaussian(variance=fixed(0.0)))


def with_likelihood(part: Part, likelihood: Likelihood) -> Part:
    """The same functions, observed otherwise."""
    if isinstance(part, SpaceTimeGP):
        seen: Part = eqx.tree_at(lambda one: one.noise, part, likelihood)
    else:
        seen = eqx.tree_at(lambda one: one.likelihood, part, likelihood)
    return seen
