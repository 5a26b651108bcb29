"""The model of several targets together.

Levels are random walks whose steps are correlated: with as many independent walks as targets, what
targets read of them is a full matrix. So are short-term deviations. Slopes and seasons are each
target's own, as in the models of a single one (`_candidates`). The noise has a full covariance
matrix.
"""

from typing import Any, NamedTuple

import numpy as np

from stategp._data import distinct_inputs
from stategp._forecasting._candidates import Candidate, candidates, typical_change
from stategp._forecasting._learning import Series
from stategp._forecasting._scales import Scale
from stategp._models import MultiOutputGP
from stategp.kernels import Constant, Kernel, Sum, Wiener
from stategp.likelihoods import MultivariateGaussian
from stategp.parameters import fixed

_WALKS, _SHORT = 0.3, 0.7  # shares of a typical change, to start from
_BELIEVED = 0.5  # of the correlation of changes


class Target(NamedTuple):
    """What one target looks like on its own."""

    series: Series
    candidate: Candidate
    change: float  # typical, from one observation to the next

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, *, dates: bool, robust: bool) -> "Target":
        """From a column, in which NaN is missing."""
        series = Series.of(x, y, None, dates=dates, robust=robust)
        known = candidates(series.x, series.outline, [(Scale(), series.cleaned)])[0]
        walking = [one for one in known if _walk_of(one) is not None]
        simple = min(walking, key=lambda one: one.kernel.state_dim)
        change = typical_change(series.cleaned - simple.fitted, series.outline)
        return Target(series, simple, change)

    @property
    def parts(self) -> dict[str, Any]:
        """The kernels of its model by their names."""
        return _named(self.candidate.kernel)

    def own(self, *, everything: bool) -> Kernel:
        """What it does not share: unless everything, a level that begins somewhere, and seasons."""
        parts = self.parts
        if not everything:
            walk = _walk_of(self.candidate)
            assert walk is not None
            trend = parts["trend"]
            rest = {n: k for n, k in _named(trend).items() if k is not walk}
            parts.pop("short", None)
            parts["trend"] = Sum(**rest) if rest else Constant(variance=fixed(walk.start.value))
        return Sum(**parts)


def _named(kernel: Any) -> dict[str, Any]:
    """The summands of a kernel by their names."""
    return dict(zip(kernel.names, kernel.kernels, strict=True)) if isinstance(kernel, Sum) else {}


def _walk_of(candidate: Candidate) -> Wiener | None:
    """The random walk in its trend, if there is one."""
    trend = _named(candidate.kernel)["trend"]
    walks = (one for one in (trend, *_named(trend).values()) if isinstance(one, Wiener))
    return next(walks, None)


def joint_model(
    x: np.ndarray, y: np.ndarray, targets: list[Target], names: list[str], shared: int
) -> MultiOutputGP:
    """With so many walks, and as many deviations; y has a column for each target."""
    step = float(np.median(np.diff(distinct_inputs(np.sort(x)))))
    walk: Kernel = Wiener(diffusivity=fixed(1 / step), start=fixed(1.0))  # a typical step of one
    changes = np.array([target.change for target in targets])
    correlated = (changes[:, None] * _factor(x, y))[:, :shared]
    kernels, mixing = [walk] * shared, [_WALKS * correlated]
    short = next((target.parts["short"] for target in targets if "short" in target.parts), None)
    if short is not None:
        unit = type(short)(variance=fixed(1.0), lengthscale=short.lengthscale)
        kernels, mixing = kernels + [unit] * shared, [*mixing, _SHORT * correlated]
    model = MultiOutputGP(
        kernels,
        MultivariateGaussian(),
        mixing=np.concatenate(mixing, axis=1),
        own=[target.own(everything=shared < len(targets)) for target in targets],
        outputs=names,
        mean=[target.candidate.mean for target in targets],
    )
    noise = tuple(target.candidate.likelihood for target in targets)
    return model.replaced(likelihoods=noise)


def _factor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The Cholesky factor of the correlations of changes, half of which are believed."""
    steps = np.diff(y[np.argsort(x, kind="stable")], axis=0)
    ranks = np.argsort(np.argsort(np.nan_to_num(steps), axis=0), axis=0)  # outliers do not matter
    varies = np.ptp(np.nan_to_num(steps), axis=0) > 0
    found = np.eye(y.shape[1])
    if len(steps) > 2 and np.any(varies):
        which = np.flatnonzero(varies)
        found[np.ix_(which, which)] = np.corrcoef(ranks[:, which].T).reshape(len(which), -1)
    return np.linalg.cholesky(_BELIEVED * found + (1 - _BELIEVED) * np.eye(len(found)))
