"""What can be looked at of a fitted forecaster: figures and a report."""

import abc
import dataclasses
import re
from functools import partial
from typing import Any

import numpy as np

from stategp._forecasting._answers import as_levels
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._frames import clock_times
from stategp._forecasting._pooling import pools
from stategp._story import Portrait, Remark, Story, tell


class Pictured(abc.ABC):
    """Figures and reports, drawn when they are asked for."""

    @property
    @abc.abstractmethod
    def _fitted(self) -> Any:
        """What the fit left behind."""

    joint: Any

    @property
    @abc.abstractmethod
    def cautions(self) -> tuple[str, ...]:
        """Why forecasts should be trusted less."""

    @abc.abstractmethod
    def _knowing(self, frame: Any, x: np.ndarray | None) -> Fitted:
        """What was fitted, with the values of regressors in a frame, which must suffice for x."""

    @abc.abstractmethod
    def _usual_extras(self) -> dict[str, float]:
        """Defaults for other quantities that the likelihood needs."""

    @abc.abstractmethod
    def _after(self, horizon: Any, every: Any) -> np.ndarray:
        """Times after the data, up to a horizon."""

    def story(
        self,
        *,
        horizon: Any = None,
        future: Any = None,
        levels: Any = (0.5, 0.95),
        **options: Any,
    ) -> Story | Portrait:
        """The content of figures and reports; with a horizon, the forecast too.

        `future` has the values of regressors, as for `forecast`.
        """
        if self.joint is not None:
            return self.joint.portrait(horizon, max(as_levels(levels)))
        fitted, axis = self._fitted, self._fitted.axis
        ahead = None if horizon is None else self._after(horizon, None)
        known, usual = self._knowing(future, ahead), self._usual_extras()
        story = tell(
            known.posterior,
            until=None if ahead is None else float(ahead[-1]),
            forecast_at=ahead,
            levels=as_levels(levels),
            to_time=partial(clock_times, fitted.kind, axis) if axis.dates else None,
            unit="days" if axis.dates else "",
            call=fitted.call,
            names=(f"{fitted.time} ({axis.zone})" if axis.zone else fitted.time, fitted.target),
            distribution=partial(known.distribution, extras=usual) if fitted.choices else None,
            **options,
        )
        careful = tuple(Remark("look", _sentence(text)) for text in self.cautions)
        found = tuple(_sentence(text) for text in fitted.findings)
        told = dataclasses.replace(
            story, notes=(*found, *story.notes), remarks=(*story.remarks, *careful)
        )
        if not fitted.choices or pools(fitted.choices[0]):
            return told
        scale = fitted.choices[0].scale.name
        return dataclasses.replace(told, modelled=re.sub(r"\by\b", lambda _: fitted.target, scale))

    def plot(self, horizon: Any = None, *, future: Any = None, levels: Any = (0.5, 0.95)) -> Any:
        """A figure of the data, the mean and its intervals."""
        from stategp import plots

        return plots.plot(self.story(horizon=horizon, future=future, levels=levels))

    def plot_components(self, horizon: Any = None, *, future: Any = None) -> Any:
        """A figure of each component of the kernel, and of each effect."""
        from stategp import plots

        return plots.plot_components(self.story(horizon=horizon, future=future))

    def plot_checks(self) -> Any:
        """A figure that shows whether the model fits: calibration and residuals."""
        from stategp import plots

        return plots.plot_checks(self.story())

    def plot_backtest(
        self, frame: Any, time: str = "ds", target: str = "y", *, forecasts: Any = None,
        **options: Any,
    ) -> Any:  # fmt: skip
        """A figure of forecasts from several origins, with their intervals, and of what came.

        Options are those of `cross_validate` (`horizon=`, `folds=`); `forecasts` takes the frame
        that it gives with `by="observation"`, and nothing is fitted.
        """
        from stategp import plots
        from stategp._forecasting._backtests import backtest_panel

        return plots.plot_panel(backtest_panel(self, frame, time, target, forecasts, **options))

    def report(self, path: Any, *, horizon: Any = None, **options: Any) -> None:
        """Write a report as a single HTML file, which can be read offline."""
        from stategp.report import write_report

        write_report(self.story(horizon=horizon, **options), path)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
