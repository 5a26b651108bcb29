"""What is fitted when no kernel is given: a trend, and the seasons that the data can show."""

import dataclasses

import numpy as np

from stategp import likelihoods, means
from stategp.data import distinct_inputs
from stategp.durations import describe
from stategp.inference import strongest_period
from stategp.kernels import Kernel
from stategp.parameters import Parameter, map_parameters
from stategp.priors import LogNormal

_SEASONS = {"daily": 1.0, "weekly": 7.0, "yearly": 365.25}  # in days
_HARMONICS = 2  # each takes two components of the state, and time grows with their cube
_SHARE = 0.2  # of the variance that a period nobody named must explain
_FEWEST_CYCLES = 4.0  # over which it must be seen
_SPREADS = {
    "amplitude": 1.5,
    "variance": 2.0,
    "frequency": 0.02,
}  # of the priors, in logarithms; others 1


def default_kernel(x: np.ndarray, f: np.ndarray, dates: bool) -> str:
    """A smooth trend, and a season for every period that x and f support.

    Dates: a day, a week, a year, where the data spans at least two of them and has at least four
    observations in each. Numbers: the strongest period of the spectrum, if it explains a fifth of
    what a smooth curve leaves. Lengthscales and variances are where learning starts.
    """
    order = np.argsort(x, kind="stable")
    x, f = np.asarray(x, dtype=float)[order], np.asarray(f, dtype=float)[order]
    distinct = distinct_inputs(x)
    if len(distinct) < 3:
        return "trend: matern52"
    span, spacing = float(distinct[-1] - distinct[0]), float(np.median(np.diff(distinct)))
    variance = float(np.var(f)) or 1.0
    reach = describe(span / 4) if dates else f"{span / 4:.6g}"
    parts = [f"trend: matern52({reach}, variance={variance / 2:.3g})"]
    if dates:
        for name, period in _SEASONS.items():
            if span >= 2 * period and spacing <= period / 4:
                parts.append(f"{name}: ({_cosines(period, variance)})")
    else:
        period, share = strongest_period(x, f, _FEWEST_CYCLES)
        if share > _SHARE:
            parts.append(f"season: periodic(learn({period:.6g}), variance={variance:.3g}, order=2)")
    return " + ".join(parts)


def _cosines(period: float, variance: float) -> str:
    """A pattern that repeats exactly: unlike one that changes, it takes no inducing points."""
    return " + ".join(
        f"cosine({describe(period / j)}, variance={variance / 4**j:.3g})"
        for j in range(1, _HARMONICS + 1)
    )


def with_weak_priors(kernel: Kernel) -> Kernel:
    """Every parameter that is learned is expected near its start, within a factor of ten or so.

    Without that, what the data does not show (a second harmonic, the decay of a season) is learned
    as zero or infinity, by way of many steps.
    """

    def expect(parameter: Parameter) -> Parameter:
        if not (parameter.learned and parameter.given):
            return parameter
        median = float(np.exp(np.mean(np.log(np.asarray(parameter.value)))))
        prior = LogNormal(median=median, spread=_SPREADS.get(parameter.role, 1.0))
        return dataclasses.replace(parameter, prior=prior)

    return map_parameters(expect, kernel)


def default_mean(likelihood: likelihoods.Likelihood) -> means.Mean:
    """A line where f is y itself, a constant behind a link."""
    direct = likelihoods.Gaussian | likelihoods.StudentT | likelihoods.Laplace
    return means.Linear() if isinstance(likelihood, direct) else means.Constant()
