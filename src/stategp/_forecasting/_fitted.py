"""What a fit of a forecaster leaves behind."""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import distinct_inputs
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._choosing import Choice, averaged, refuse_extras
from stategp._forecasting._pooling import pooled_marginals, pools
from stategp._forecasting._regressors import knowing
from stategp._forecasting._scales import moved_inside
from stategp._posteriors import Posterior, marginals_at
from stategp._streams import LATEST

_ROUNDING = 1e-9  # relative, of times


@dataclasses.dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind."""

    posterior: Posterior
    axis: TimeAxis
    time: str
    target: str
    kind: str  # of data frame, by the name of its library
    extras: dict[str, str]  # columns that are read beside the target, by what they are for
    call: str
    choices: tuple[Choice, ...] = ()  # what was chosen from the data, the best first
    doubted: tuple[float, ...] = ()  # the times of outliers, as numbers
    findings: tuple[str, ...] = ()  # in words, as are cautions
    cautions: tuple[str, ...] = ()
    latest: tuple[float, ...] = ()  # times at the end, where the data do not hold all of them

    @property
    def last_times(self) -> np.ndarray:
        """The times whose rhythm goes on, from the origin of the data."""
        x, latest = distinct_inputs(np.asarray(self.posterior.data.x)), np.array(self.latest)
        known = len(latest) > 0 and latest[-1] >= x[-1] - _ROUNDING * abs(x[-1])
        return latest if known else x

    def grown(self, posterior: Posterior, times: np.ndarray) -> "Fitted":
        """With a posterior that has more observations, at these times."""
        if not self.latest:
            return dataclasses.replace(self, posterior=posterior)
        before, after = self.posterior.data.origin, posterior.data.origin
        known = np.array(self.latest) + float(before - after)
        together = np.union1d(known, (times - after).astype(float))[-LATEST:]
        return dataclasses.replace(self, posterior=posterior, latest=tuple(together.tolist()))

    @property
    def read_extras(self) -> dict[str, str]:
        """Those of the columns that predictions read, too: not limits of what was observed."""
        if not self.posterior.model.likelihood.extra_of_new:
            return {}
        return self.extras

    @property
    def pools(self) -> bool:
        """Whether models were compared that have a likelihood of their own."""
        return bool(self.choices) and (bool(self.extras) or pools(self.choices[0]))

    def knowing(self, frame: Any, x: np.ndarray | None) -> "Fitted":
        """The same with the values of regressors in a frame, which must suffice for x."""

        def known(posterior: Posterior) -> Posterior:
            return knowing(posterior, self.axis, self.time, frame, x)

        choices = tuple(c._replace(posterior=known(c.posterior)) for c in self.choices)
        posterior = choices[0].posterior if choices else known(self.posterior)
        return dataclasses.replace(self, posterior=posterior, choices=choices)

    def as_modelled(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """y as the first model has it: inside limits, outliers without a logarithm left out."""
        if not self.choices:
            return y
        choice = self.choices[0]
        inside = moved_inside(y, choice.floor, choice.cap)
        return np.where(np.isin(x, self.doubted) & ~choice.scale.takes(inside), np.nan, inside)

    def distribution(self, x: np.ndarray, extras: dict[str, Any], *, noise: bool = True) -> Any:
        """The distribution of a new observation (or, without noise, of the function) at x."""
        if not self.choices:
            return marginals_at(self.posterior, x, **extras)
        if self.pools:
            return pooled_marginals(self.choices, x, extras)
        refuse_extras(extras)
        return averaged(self.choices, x, noise=noise)
