"""Integrals over f by brute force, and log densities from SciPy: nothing of the package in here."""

import numpy as np
from scipy import special, stats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def panels(mean, variance, *centres):
    """Nodes and weights of Gauss–Legendre panels that shrink towards each of the centres."""
    deviation = np.sqrt(variance)
    sides = deviation * np.concatenate([np.linspace(0, 12, 49)[1:], np.geomspace(1e-7, 50, 80)])
    edges = [mean + sides, mean - sides, [mean]]
    for centre in centres:
        edges += [[centre], centre + sides, centre - sides]
    edges = np.unique(np.concatenate(edges))
    half = np.diff(edges)[:, None] / 2
    nodes = edges[:-1, None] + half * (1 + _NODES)
    return nodes.ravel(), (half * _WEIGHTS).ravel()


def log_normal(f, mean, variance):
    return -((f - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2


def expectation(log_density, y, mean, variance, kink=None):
    """E[log p(y | f)] and its derivatives in mean and variance: those of the normal density."""
    f, weights = panels(mean, variance, *([] if kink is None else [kink]))
    weights = weights * np.exp(log_normal(f, mean, variance))
    with np.errstate(all="ignore"):
        values = np.where(weights > 1e-300, log_density(y, f), 0.0)
    values = np.where(weights > 0, values, 0.0)
    t = (f - mean) / np.sqrt(variance)
    base = values[np.argmin(np.abs(t))]  # a constant has no derivatives: less to cancel
    return np.array(
        [
            np.sum(weights * values),
            np.sum(weights * (values - base) * t) / np.sqrt(variance),
            np.sum(weights * (values - base) * (t**2 - 1)) / (2 * variance),
        ]
    )


def tilted(log_density, y, mean, variance, power=1.0, kink=None):
    """log ∫ p(y | f)^power N(f; mean, variance) df, and the mean and variance of the integrand."""
    f, weights = panels(mean, variance, *([] if kink is None else [kink]))
    with np.errstate(all="ignore"):
        logs = power * log_density(y, f) + log_normal(f, mean, variance)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    peak = np.max(logs)
    mass = weights * np.exp(logs - peak)
    total = np.sum(mass)
    centre = mean + np.sum(mass * (f - mean)) / total
    return np.array([np.log(total) + peak, centre, np.sum(mass * (f - centre) ** 2) / total])


def student_t(df, scale):
    return lambda y, f: stats.t.logpdf(y, df, loc=f, scale=scale)


def laplace(scale):
    return lambda y, f: stats.laplace.logpdf(y, loc=f, scale=scale)


def gaussian(variance):
    return lambda y, f: stats.norm.logpdf(y, loc=f, scale=np.sqrt(variance))


def bernoulli(link):
    logs = special.log_expit if link == "logit" else special.log_ndtr
    return lambda y, f: logs(f) if y == 1 else logs(-f)


def binomial(link, trials):
    logs = special.log_expit if link == "logit" else special.log_ndtr

    def log_density(y, f):
        return np.log(special.comb(trials, y)) + y * logs(f) + (trials - y) * logs(-f)

    return log_density


def poisson(exposure):
    return lambda y, f: stats.poisson.logpmf(y, exposure * np.exp(f))


def negative_binomial(shape, exposure):
    def log_density(y, f):
        return (
            special.gammaln(y + shape)
            - special.gammaln(shape)
            - special.gammaln(y + 1)
            - shape * np.log1p(exposure * np.exp(f) / shape)
            - y * np.log1p(shape * np.exp(-f) / exposure)
        )

    return log_density


def with_zeros(share, counts):
    def log_density(y, f):
        plain = np.log1p(-share) + counts(y, f)
        return np.logaddexp(np.log(share), plain) if y == 0 else plain

    return log_density


def gamma(shape):
    return lambda y, f: stats.gamma.logpdf(y, shape, scale=np.exp(f) / shape)


def positive_normal(variance):
    return lambda y, f: stats.lognorm.logpdf(y, np.sqrt(variance), scale=np.exp(f))


def logit_normal(variance):
    def log_density(y, f):
        odds = np.log(y) - np.log1p(-y)
        return stats.norm.logpdf(odds, f, np.sqrt(variance)) - np.log(y) - np.log1p(-y)

    return log_density


def weibull(shape):
    return lambda y, f: stats.weibull_min.logpdf(y, shape, scale=np.exp(f))


def beta(precision):
    def log_density(y, f):
        a, b = precision * special.expit(f), precision * special.expit(-f)
        return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - special.betaln(a, b)

    return log_density


def ordinal(link, cutpoints):
    logs = special.log_expit if link == "logit" else special.log_ndtr
    cuts = np.concatenate([[-np.inf], cutpoints, [np.inf]])

    def log_density(y, f):
        lower, upper = cuts[int(y)] - f, cuts[int(y) + 1] - f
        flip = lower + upper > 0  # to the left tail, where logarithms keep their digits
        lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        return logs(upper) + np.log1p(-np.exp(logs(lower) - logs(upper)))

    return log_density
