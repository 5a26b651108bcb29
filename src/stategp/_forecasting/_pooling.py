"""Forecasts of several models that have a likelihood of their own: their functions are averaged.

With every model the same normal variable z makes f large or small: f = Σ weight · f(z) is normal,
and the likelihood, with the geometric means of what the models learned of it, makes y of it.
"""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import extra_values
from stategp._forecasting._choosing import Choice
from stategp._posteriors import Marginals, observe_samples
from stategp._runtime import as_key, on_device
from stategp.likelihoods import Likelihood
from stategp.parameters import Parameter, all_parameters, map_parameters


def pools(choice: Choice) -> bool:
    """Whether a model has another likelihood than that of a normal y on some scale."""
    likelihood = choice.posterior.model.likelihood
    known = np.any(np.asarray(choice.posterior.data.extra) != 0)
    return type(likelihood) is not type(choice.scale.likelihood(1.0)) or bool(known)


def pooled(choices: tuple[Choice, ...], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at x."""
    mean, deviation = np.zeros(len(x)), np.zeros(len(x))
    for choice in choices:
        f, variance = (np.asarray(v) for v in choice.posterior.predict_f(x))
        mean += choice.weight * f
        deviation += choice.weight * np.sqrt(np.maximum(variance, 0.0) * choice.widening(x))
    return mean, deviation**2


def pooled_marginals(choices: tuple[Choice, ...], x: np.ndarray, extras: Any) -> Marginals:
    """The distribution of new observations at x; extras are those of `predict_y`."""
    likelihood = pooled_likelihood(choices)
    extra = np.asarray(extra_values(likelihood, len(x), extras))
    return Marginals(likelihood, *on_device((*pooled(choices, x), extra)))


def pooled_likelihood(choices: tuple[Choice, ...]) -> Likelihood:
    """That of the models, with averages of its parameters: of logarithms, if they are positive."""
    likelihoods = [choice.posterior.model.likelihood for choice in choices]
    weights = [choice.weight for choice in choices]
    alike = zip(*(all_parameters(likelihood) for likelihood in likelihoods), strict=True)

    def average(first: Parameter) -> Parameter:
        values = [np.asarray(parameter.value) for parameter in next(alike)]
        if not first.learned:
            return first
        positive = first.constraint == "positive"
        seen = [np.log(value) for value in values] if positive else values
        mean = np.asarray(sum(w * v for w, v in zip(weights, seen, strict=True)))
        return dataclasses.replace(first, value=on_device(np.exp(mean) if positive else mean))

    likelihood: Likelihood = map_parameters(average, likelihoods[0])
    return likelihood


def draw_pooled(
    choices: tuple[Choice, ...], seed: int, x: np.ndarray, num_samples: int, extras: Any
) -> np.ndarray:
    """Joint samples of new observations, from each model as often as its weight says."""
    random = np.random.default_rng(seed)
    counts = random.multinomial(num_samples, [choice.weight for choice in choices])
    functions = []
    for number, (choice, count) in enumerate(zip(choices, counts, strict=True)):
        centre = np.asarray(choice.posterior.predict_f(x)[0])
        away = np.asarray(choice.posterior.sample_f(seed + number, x, int(count))) - centre
        functions.append(centre + away * np.sqrt(choice.widening(x)))
    f, likelihood = np.concatenate(functions), pooled_likelihood(choices)
    extra = np.broadcast_to(np.asarray(extra_values(likelihood, len(x), extras)), f.shape)
    return np.asarray(observe_samples(likelihood, as_key(seed), on_device(f), extra))
