"""`sg.summarise`: observations as sums that add up."""

from typing import Any

from stategp._data import Summary, make_stretches, summable, summarise_columns
from stategp._streams._stream import Stream


def summarise(
    x: Any,
    y: Any = None,
    *,
    shortest: Any = None,
    period: Any = None,
    origin: Any = 0,
    likelihood: Any = "gaussian",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
) -> Summary:
    """What a fit needs of the data: sums over stretches of x, which add up.

    The stretches are the same for all parts of the data that have the same `shortest`, `period`
    and `origin`. A fit cannot use lengthscales and periods below these: choose them once, rather
    too short than too long (half the length takes twice the memory).

    Arguments:
        x: inputs, one-dimensional, in any order. Or a stream (`sg.stream`) alone, which knows
            everything but the likelihood.
        y: observations; NaN means missing. A part may be empty.
        shortest: the shortest lengthscale that a fit may want. There are four stretches to it, at
            whose edges inducing points can be.
        period: the shortest period, if there are any.
        origin: where stretches are counted from; any number will do.
        likelihood: "gaussian", or another (by name or object) of which p(y | f) reads few numbers:
            Poisson, Bernoulli, binomial, exponential, gamma, ordinal.
        noise_variance: Gaussian observations: known noise variances. One number adds to that of
            the likelihood; one per observation needs a likelihood with `variance=sg.fixed(0.0)`.
        exposure: counts: what the rate is multiplied by, one number or one per observation.
        trials: binomial observations: the number of trials, one number or one per observation.
        weights: the number of times each observation counts, by default once.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 100, 5000)
    >>> summary = sg.summarise(x, np.sin(x) + 0.1 * np.cos(40 * x), shortest=2.0)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), summary, inducing=50)
    >>> mean, variance = posterior.predict_f([50.0])
    """
    if isinstance(x, Stream):
        given = y, shortest, period, noise_variance, exposure, trials, weights
        if origin != 0 or any(value is not None for value in given):
            raise ValueError("of a stream only the likelihood is given here: all else to sg.stream")
        return x.summary(likelihood)
    if y is None:
        raise ValueError("y is missing: give x and y, or a stream (sg.stream) alone")
    stretches = make_stretches(shortest, period, origin)
    extras = {"noise_variance": noise_variance, "exposure": exposure, "trials": trials}
    return summarise_columns(x, y, stretches, summable(likelihood), extras, weights)
