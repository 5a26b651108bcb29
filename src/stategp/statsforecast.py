"""A model for statsforecast: `from stategp.statsforecast import StateGP`."""

import copy
import os
from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp._forecasting import Forecaster
from stategp.parameters import Parameter, map_parameters

__all__ = ["StateGP"]

_HARMONICS = 6  # at most, of a season
_CYCLES = 2  # of a season that the data must have for it to be learned

# The steps that usually have seasons of so many: how many, of which unit.
_STEPS = {
    4: (3, "M"), 7: (1, "D"), 12: (1, "M"), 24: (1, "h"), 48: (30, "m"),
    52: (7, "D"), 96: (15, "m"), 168: (1, "h"), 365: (1, "D"),
}  # fmt: skip
_PROCESS = os.getpid()

Answers = dict[str, np.ndarray]


class StateGP:
    """A Gaussian process among the models of statsforecast.

    ``StatsForecast(models=[StateGP(season_length=12)], freq="MS")`` fits one to every series. The
    models are those of `sg.Forecaster()`, for steps that usually have such a season: twelve are
    months of a year, 24 and 168 hours of a day and a week, 7 and 365 days. With another season, or
    with a kernel, times are the numbers of the observations. Intervals are the process's own, not
    conformal. Fitted values are those of the fit to all data, not one step ahead. Each exogenous
    column has a linear effect. Leave `n_jobs` at 1: JAX does not work in forked processes, which
    statsforecast makes of more.

    Arguments:
        season_length: observations in a season; 1 for none.
        kernel: an expression or one of `sg.kernels`; by default models are compared, or with an
            unusual season a damped trend and, if there are two of them, a season that repeats.
        likelihood, mean: as for `sg.Forecaster`.
        alias: the name of the columns.
        options: a dictionary of further arguments of `sg.fit`.
        robust, floor, cap: as for `sg.Forecaster`.

    >>> import numpy as np
    >>> from stategp.statsforecast import StateGP
    >>> y = 10 + np.arange(40) + np.tile([0.0, 2.0, 1.0, -3.0], 10)
    >>> forecast = StateGP(season_length=4).forecast(y, h=4, level=[90])
    >>> list(forecast)
    ['mean', 'lo-90', 'hi-90']
    >>> bool(np.all(np.abs(forecast["mean"] - [50, 53, 53, 50]) < 0.6))
    True
    """

    uses_exog = True
    prediction_intervals = None  # statsforecast's conformal ones, which it sets

    def __init__(
        self,
        season_length: int = 1,
        kernel: Any = None,
        likelihood: Any = "gaussian",
        mean: Any = None,
        alias: str = "StateGP",
        options: dict[str, Any] | None = None,
        robust: bool = True,
        floor: float | None = None,
        cap: float | None = None,
    ):
        self.season_length = whole_number("season_length", season_length, least=1)
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = mean
        self.alias = alias
        self.options = options
        self.robust = robust
        self.floor = floor
        self.cap = cap

    def __repr__(self) -> str:
        return self.alias

    def new(self) -> "StateGP":
        """A copy that can be fitted to another series."""
        return copy.copy(self)

    def fit(self, y: Any, X: Any = None) -> "StateGP":
        """Learn from one series."""
        if os.getpid() != _PROCESS:
            raise RuntimeError(
                "StateGP runs on JAX, which does not work in forked processes: use "
                "StatsForecast(n_jobs=1)"
            )
        if self.prediction_intervals is not None:
            raise ValueError(
                "StateGP has intervals of its own: leave prediction_intervals out, or give them to "
                "the other models"
            )
        values = np.asarray(y, dtype=float)
        kernel = self.kernel
        if kernel is None and self.season_length > 1 and self.season_length not in _STEPS:
            kernel = self._default(len(values))
        self.compares_ = kernel is None
        self.columns_ = _columns(X)
        frame = {"ds": self._times(np.arange(len(values))), "y": values, **self.columns_}
        forecaster = Forecaster(
            kernel,
            self.likelihood,
            self.mean,
            regressors=list(self.columns_),
            robust=self.robust,
            floor=self.floor,
            cap=self.cap,
        )
        self.model_ = forecaster.fit(frame, progress=False, **(self.options or {}))
        self.count_ = len(values)
        return self

    def predict(self, h: int, X: Any = None, level: Any = None) -> Answers:
        """Forecasts of the next `h` observations, with intervals of the levels (in percent)."""
        known = _columns(X)
        if list(known) != list(self.columns_):
            raise ValueError(
                f"the model was fitted with {len(self.columns_)} exogenous columns, and forecasts "
                f"need as many: X has {len(known)}"
            )
        return self._at(self.count_ + np.arange(whole_number("h", h, least=1)), level, known)

    def predict_in_sample(self, level: Any = None) -> Answers:
        """The same at the data, under the names that statsforecast has for them."""
        answers = self._at(np.arange(self.count_), level, self.columns_)
        return {
            "fitted" if name == "mean" else f"fitted-{name}": value
            for name, value in answers.items()
        }

    def forecast(
        self,
        y: Any,
        h: int,
        X: Any = None,
        X_future: Any = None,
        level: Any = None,
        fitted: bool = False,
    ) -> Answers:
        """Fit and predict, without keeping the fit."""
        model = self.new().fit(y, X)
        answers = model.predict(h, X_future, level=level)
        return {**answers, **model.predict_in_sample(level)} if fitted else answers

    def forward(
        self,
        y: Any,
        h: int,
        X: Any = None,
        X_future: Any = None,
        level: Any = None,
        fitted: bool = False,
    ) -> Answers:
        """Forecasts of another series with the hyperparameters learned from the first.

        If models were compared on the first, they are compared again.
        """
        model = self.new()
        if self.compares_:
            return model.forecast(y, h, X, X_future, level, fitted)
        held = map_parameters(_held, self.model_.posterior.model)
        model.kernel, model.likelihood, model.mean = held.kernels[0], held.likelihood, held.means[0]
        return model.forecast(y, h, X, X_future, level, fitted)

    def _default(self, count: int) -> str:
        season, trend = self.season_length, "trend: damped_trend"
        if season == 1 or count < _CYCLES * season:
            return trend
        order = min(max(season // 2, 1), _HARMONICS)
        return f"{trend} + season: periodic({season}, order={order})"

    def _times(self, numbers: np.ndarray) -> np.ndarray:
        """The times of observations: their numbers, or dates with the usual step."""
        if not self.compares_ or self.season_length == 1:
            return numbers.astype(float)
        count, unit = _STEPS[self.season_length]
        first = np.array("2001-01-01", dtype=f"datetime64[{unit}]")  # a Monday
        return (first + count * numbers).astype("datetime64[us]")

    def _at(self, numbers: np.ndarray, level: Any, known: dict[str, np.ndarray]) -> Answers:
        levels = sorted(level) if level is not None else []
        at = {"ds": self._times(numbers), **known}
        frame = self.model_.predict(at, levels=[each / 100 for each in levels] or 0.5)
        columns = [np.asarray(frame[name]) for name in frame.columns]
        bounds = columns[len(columns) - 2 * len(levels) :] if levels else []
        answers = {"mean": np.asarray(frame["mean"])}
        for i, each in enumerate(levels):
            answers |= {f"lo-{each}": bounds[2 * i], f"hi-{each}": bounds[2 * i + 1]}
        return answers


def _columns(X: Any) -> dict[str, np.ndarray]:
    """Exogenous values by column; statsforecast gives a matrix."""
    if X is None or np.size(X) == 0:
        return {}
    return {f"x{number}": column for number, column in enumerate(np.asarray(X, dtype=float).T)}


def _held(parameter: Parameter) -> Parameter:
    return Parameter(parameter.value, parameter.constraint, parameter.role, learned=False)
