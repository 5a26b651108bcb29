"""A forecaster for sktime: `from stategp.sktime import StateGPForecaster`."""

from typing import Any

import numpy as np

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster
except ImportError as error:
    raise ImportError('stategp.sktime needs sktime: pip install "stategp[sktime]"') from error

from stategp._forecasting import Forecaster

__all__ = ["StateGPForecaster"]


class StateGPForecaster(BaseForecaster):  # type: ignore[misc]  # it has no types
    """`sg.Forecaster` as sktime has forecasters, with intervals, quantiles and variances.

    Values may be missing, and times be numbers, dates or periods; a period counts as its first
    instant. With dates or periods, durations in a kernel are "30d" or "1y". Fitted values are those
    of the fit to all data, not one step ahead. Variances (`predict_var`) are sktime's from the
    quartiles, exact for Gaussian observations. Each column of X has a linear effect. `forecaster_`
    is the fitted `sg.Forecaster`.

    Arguments:
        kernel, likelihood, mean, inducing: as for `sg.Forecaster`.
        holidays, events, robust, floor, cap, changepoints: as for `sg.Forecaster`.
        options: a dictionary of further arguments of `sg.fit`.

    >>> import numpy as np, pandas as pd
    >>> from stategp.sktime import StateGPForecaster
    >>> months = pd.period_range("2020-01", periods=48, freq="M")
    >>> y = pd.Series(np.sin(np.arange(48.0)), index=months)
    >>> forecaster = StateGPForecaster("matern32(60d)").fit(y, fh=[1, 2, 3])
    >>> forecaster.predict_interval(coverage=0.9).shape
    (3, 2)
    """

    _tags = {  # noqa: RUF012
        "authors": "stategp contributors",
        "maintainers": "stategp contributors",
        "y_inner_mtype": "pd.Series",
        "requires-fh-in-fit": False,
        "X_inner_mtype": "pd.DataFrame",
        "capability:exogenous": True,
        "capability:insample": True,
        "capability:missing_values": True,
        "capability:multivariate": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
    }

    def __init__(
        self,
        kernel: Any = None,
        likelihood: Any = "gaussian",
        mean: Any = None,
        inducing: Any = "auto",
        options: dict[str, Any] | None = None,
        holidays: Any = None,
        events: Any = None,
        robust: bool = True,
        floor: float | None = None,
        cap: float | None = None,
        changepoints: Any = None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = mean
        self.inducing = inducing
        self.options = options
        self.holidays = holidays
        self.events = events
        self.robust = robust
        self.floor = floor
        self.cap = cap
        self.changepoints = changepoints
        super().__init__()

    def _fit(self, y: pd.Series, X: Any = None, fh: Any = None) -> "StateGPForecaster":
        forecaster = Forecaster(
            self.kernel,
            self.likelihood,
            self.mean,
            self.inducing,
            regressors=list(_columns(X)),
            holidays=self.holidays,
            events=self.events,
            robust=self.robust,
            floor=self.floor,
            cap=self.cap,
            changepoints=self.changepoints,
        )
        frame = _frame(y.index, X).assign(y=y.to_numpy(dtype=float))
        self.name_ = y.name
        self.forecaster_ = forecaster.fit(frame, progress=False, **(self.options or {}))
        return self

    def _predict(self, fh: Any, X: Any = None) -> pd.Series:
        index = fh.to_absolute_index(self.cutoff)
        mean = self.forecaster_.predict(_frame(index, X))["mean"]
        return pd.Series(mean.to_numpy(), index=index, name=self.name_)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> pd.DataFrame:
        index = fh.to_absolute_index(self.cutoff)
        levels = {a: round(abs(1 - 2 * a), 12) for a in alpha}  # of intervals that end there
        frames = {
            level: self.forecaster_.predict(_frame(index, X), levels=level or 0.5)
            for level in set(levels.values())
        }

        def quantile(a: float) -> np.ndarray:
            frame = frames[levels[a]]
            if levels[a] == 0:
                return frame["median" if "median" in frame else "mean"].to_numpy()
            return frame.iloc[:, -1 if a > 0.5 else -2].to_numpy()  # upper, lower

        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        values = np.column_stack([quantile(a) for a in alpha])
        return pd.DataFrame(values, index=index, columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Parameters for sktime's tests, which fit hundreds of times: searches end early."""
        early = {"max_steps": 3}
        return [
            {"kernel": "matern12", "inducing": "data", "options": early},
            {"kernel": "wiener", "options": early},
        ]


def _frame(index: pd.Index, X: pd.DataFrame | None) -> pd.DataFrame:
    """Times, and the rows of X at them."""
    times = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    return pd.DataFrame({"ds": times} | _columns(None if X is None else X.loc[index]))


def _columns(X: pd.DataFrame | None) -> dict[str, np.ndarray]:
    """By names that neither time nor target has."""
    if X is None:
        return {}
    return {f"X.{name}": X[name].to_numpy(dtype=float) for name in X.columns}
