"""Figures and reports of what people hold, drawn when they are asked for."""

from typing import Any

from stategp._modules import Module


class Shown(Module):
    """What can be looked at."""

    def plot(self, **options: Any) -> Any:
        """A figure: data, mean and intervals of a series; every effect or function of other models.

        Options are those of `sg.plots.plot`: with `until` (in the units of x) the figure of a
        series has a forecast.
        """
        from stategp import plots

        return plots.plot(self, **options)

    def plot_components(self, **options: Any) -> Any:
        """A figure of each component of the kernel; periodic ones are drawn over one period.

        For additive and deep models it is the same figure as `plot`.
        """
        from stategp import plots

        return plots.plot_components(self, **options)

    def report(self, path: Any, **options: Any) -> None:
        """Write a report as a single HTML file, which can be read offline."""
        from stategp.report import write_report

        write_report(self, path, **options)


class Mapped(Shown):
    """What is looked at as maps."""

    def plot(self, **options: Any) -> Any:
        """The figure of `plot_maps`."""
        return self.plot_maps(**options)

    def plot_maps(self, times: Any = None, **options: Any) -> Any:
        """A figure of maps for each time: of the mean and its uncertainty, or of classes.

        Options are those of `sg.plots.plot_maps`.
        """
        from stategp import plots

        return plots.plot_maps(self, times, **options)
