"""What the checks show, in sentences that a reader can act on.

If the model is right, the normal score of each observation, given all the others, is standard
normal. Every rule below compares a count with what that implies, and reports only deviations that
chance does not explain.
"""

import dataclasses
from typing import Literal

import numpy as np
from scipy.special import ndtr, ndtri

from stategp._story._checks import Checks
from stategp.likelihoods import Gaussian, HeteroscedasticGaussian, Likelihood, Poisson

_FEWEST = 20  # observations: fewer say nothing
_ALONE = 0.01  # expected number of observations beyond the limit, in all of the data
_MANY = 0.005  # share of outliers with which the noise itself is in doubt
_CHANCE = 3.5  # standard deviations of a share that are no chance
_ALIKE = 0.15  # correlation of residuals that matters
_HEAVY_TAILS = 'consider noise with heavy tails (likelihood="student_t")'
_HEAVIER: dict[type[Likelihood], str] = {  # tails that are too light, and what to take instead
    Gaussian: _HEAVY_TAILS,
    HeteroscedasticGaussian: _HEAVY_TAILS,
    Poisson: 'consider overdispersed counts (likelihood="negative_binomial")',
}


@dataclasses.dataclass(frozen=True)
class Remark:
    """One thing that the checks found."""

    kind: Literal["good", "look", "bad", "unknown"]
    text: str


def judge(checks: Checks, levels: tuple[float, ...], likelihood: Likelihood) -> tuple[Remark, ...]:
    """What a reader should know about how the model fits, the worst first."""
    if len(checks.residuals) < _FEWEST:
        few = f"Fewer than {_FEWEST} observations: too few to say whether the model fits."
        return (Remark("unknown", few),)
    remarks = [
        *_outliers(checks.residuals, likelihood),
        *_coverage(checks.ranks, levels, likelihood.discrete),
        *_autocorrelation(checks),
    ]
    if not remarks:
        fine = (
            "The intervals contain the expected share of observations, there are no implausible "
            "outliers, and the residuals are uncorrelated."
        )
        return (Remark("good", fine),)
    return tuple(sorted(remarks, key=lambda remark: remark.kind != "bad"))


def outlier_limit(count: int) -> float:
    """How far out an observation must lie to be beyond chance, in standard deviations.

    Beyond it, a hundredth of an observation is expected among all of them; rounded up to a half.

    >>> outlier_limit(100), outlier_limit(1_000_000)
    (4.0, 6.0)
    """
    return float(np.ceil(-2 * ndtri(_ALONE / 2 / count)) / 2)


def _outliers(residuals: np.ndarray, likelihood: Likelihood) -> list[Remark]:
    count, limit = len(residuals), outlier_limit(len(residuals))
    beyond = int(np.sum(np.abs(residuals) > limit))
    if beyond == 0:
        return []
    expected = 2 * count * ndtr(-limit)
    normal = isinstance(likelihood, Gaussian | HeteroscedasticGaussian)
    unit = "" if normal else " of a normal distribution"
    look = "look at it" if beyond == 1 else "look at them one by one"
    advice = _HEAVIER.get(type(likelihood), look)
    text = (
        f"{beyond:,} of {count:,} observations lie{'s' if beyond == 1 else ''} more than "
        f"{limit:g} standard deviations{unit} from what the others predict; the model expects "
        f"{expected:.1g}: {advice}."
    )
    many = beyond >= 3 and beyond >= _MANY * count
    return [Remark("bad" if many else "look", text)]


def _coverage(ranks: np.ndarray, levels: tuple[float, ...], discrete: bool) -> list[Remark]:
    """Whether central intervals contain their share of observations, up to chance.

    For counts, intervals with whole bounds contain more than their share; ranks drawn within a step
    do not.
    """
    remarks = []
    for wide in (True, False):
        findings, worst = [], False
        for level in levels:
            share = float(np.mean(np.abs(2 * ranks - 1) <= level))
            chance = _CHANCE * np.sqrt(level * (1 - level) / len(ranks))
            if abs(share - level) <= max(chance, 0.01) or (share > level) != wide:
                continue
            findings.append(
                f"the {100 * level:.4g} % interval contains {share:.1%} of the observations"
            )
            worst = worst or 1 - share > 2 * (1 - level)
        if findings:
            how = "wider than they need to be" if wide else "too narrow"
            parts = " (those on its bounds are counted in part)" if discrete else ""
            text = f"{', '.join(findings)}{parts}: intervals are {how}."
            remarks.append(Remark("bad" if worst else "look", text[0].upper() + text[1:]))
    return remarks


def _autocorrelation(checks: Checks) -> list[Remark]:
    """Residuals that are correlated: the model misses structure in time."""
    alike = checks.autocorrelation
    if len(alike) == 0:
        return []
    lag = int(np.argmax(alike)) + 1
    most = float(alike[lag - 1])
    if most <= max(_ALIKE, 4 / np.sqrt(checks.pairs)):
        return []
    apart = "Neighbouring residuals" if lag == 1 else f"Residuals {lag} observations apart"
    missing = "a shorter lengthscale or another component" if lag == 1 else "a season"
    text = (
        f"{apart} are correlated ({most:.2f}): the model misses structure in time, such as "
        f"{missing}."
    )
    return [Remark("look", text)]
