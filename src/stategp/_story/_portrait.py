"""Models of several functions: the effect of each input, outputs, the functions of a deep model."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from stategp._posteriors import (
    AdditivePosterior,
    DeepPosterior,
    JointPosterior,
    MultiOutputPosterior,
    Posterior,
    SpaceTimePosterior,
    StackedPosterior,
)
from stategp._story._account import Account, account
from stategp._story._charts import Axis, Fill, Line, Panel, Rug, interval_name
from stategp._story._maps import Maps, report_maps
from stategp._story._outputs import function_panels, output_panels
from stategp._story._places import outcome_panels, place_panels
from stategp._story._seasons import cycle_of, plan_season
from stategp._story._story import Band

_POINTS = 241
_PARTS = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Portrait(Account):
    """Functions on axes of their own, one panel each. Made by `portray`."""

    panels: tuple[Panel, ...]
    about: str  # what is shown, in a sentence
    observations: int
    lead: str  # what follows their number in the first sentence
    maps: Maps | None = None  # of a field


def portray(
    posterior: Any,
    *,
    level: Any = 0.95,
    until: Any = None,
    times: Any = None,
    at: Any = None,
    output: Any = None,
    title: str | None = None,
    call: str | None = None,
    to_time: Callable[[np.ndarray], np.ndarray] | None = None,
    x_label: str = "x",
) -> Portrait:
    """The content of figures and reports of posteriors of several functions or outputs.

    Arguments:
        posterior: from `sg.fit` or `sg.condition`.
        level: probability of the intervals.
        until: where the forecast along one input ends, in the units of x; by default there is
            none.
        times: those of the maps of a field over space and time; by default 24, from the first to
            the last of the data.
        at: the slice of a field of which there are maps, such as {"z": 1.0}.
        output: which of several outputs are shown, one or a list of names or numbers; by default
            all.
        title: title of figures and report.
        call: the call that made the posterior, shown in the report.
        to_time: along one input, what inputs are drawn as, such as dates.
        x_label: along one input, what the inputs are called.

    >>> import numpy as np, stategp as sg
    >>> x = np.random.default_rng(0).uniform(size=(50, 2))
    >>> model = sg.AdditiveGP({"age": sg.kernels.Matern32(), "dose": sg.kernels.Matern32()})
    >>> posterior = sg.condition(model, x, np.sin(6 * x[:, 0]) + x[:, 1])
    >>> [panel.title for panel in portray(posterior).panels]
    ['Effect of age', 'Effect of dose']
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95; got {level!r}")
    if until is not None and not isinstance(
        posterior, MultiOutputPosterior | JointPosterior | Posterior
    ):
        raise ValueError("until is for posteriors along one input, which have forecasts")
    if times is not None and not isinstance(posterior, SpaceTimePosterior | StackedPosterior):
        raise ValueError("times are those of maps, which only fields over space and time have")
    if at is not None and not isinstance(posterior, SpaceTimePosterior | StackedPosterior):
        raise ValueError("at is the slice of maps, which only fields over space and time have")
    if output is not None and not isinstance(posterior, MultiOutputPosterior):
        raise ValueError("output is for posteriors of several outputs (sg.MultiOutputGP)")
    lead, maps, axis = "", None, (to_time or np.asarray, x_label)
    if isinstance(posterior, MultiOutputPosterior):
        chosen = _chosen(posterior, output)
        panels = output_panels(posterior, float(level), until, *axis, chosen)
        observations = posterior.data.observed
        name = "Outputs"
        kinds = {posterior.model.likelihoods[number].nominal for number in chosen}
        about = f"Observations of each output, with {_new_ones(kinds, level)}."
        lead = f", {posterior.model.outputs} outputs"
    elif isinstance(posterior, JointPosterior | Posterior):
        panels = function_panels(posterior, float(level), until, *axis)
        observations = posterior.data.observed
        name = "Observations and functions"
        shown = _new_ones({posterior.model.likelihood.nominal}, level)
        about = f"Observations with {shown}, and the functions that they depend on."
        lead = f", {posterior.model.likelihood.latents} functions"
    elif isinstance(posterior, SpaceTimePosterior):
        panels, maps = place_panels(posterior, float(level)), report_maps(posterior, times, at)
        observations = posterior.data.observed
        name = "A field over space and time"
        about = (
            f"The function along time at some of the {len(posterior.inducing_places)} inducing "
            f"places, which explain {100 * posterior.explained:.4g} % of its variance at the data, "
            f"with {interval_name(level)}s."
        )
        lead = f" at {_distinct(posterior.places)} places and {_distinct(posterior.data.x)} times"
    elif isinstance(posterior, StackedPosterior):
        panels, maps = outcome_panels(posterior, float(level)), report_maps(posterior, times, at)
        field = posterior.parts[0]
        observations = field.data.observed
        name = "Fields that one likelihood reads"
        chances = posterior.model.likelihood.outcomes is not None
        what = "Probabilities" if chances else f"Mean and {interval_name(level)} of observations"
        about = f"{what} along time at some of the inducing places of the first function."
        lead = f" at {_distinct(field.places)} places and {_distinct(field.data.x)} times"
    elif isinstance(posterior, AdditivePosterior):
        panels = _effects(posterior, float(level))
        observations = posterior.observations
        name = "Effects of the inputs"
        about = (
            f"What each input adds to the function, whose average is {posterior.level:.5g}, with "
            f"{interval_name(level)}s. Each effect is zero on average over the data."
        )
    elif isinstance(posterior, DeepPosterior):
        panels = _functions(posterior, float(level))
        observations = sum(posterior.observations)
        name = "Functions of the deep model"
        about = (
            f"Each function over the range of its inducing points (small marks), with "
            f"{interval_name(level)}s. The inputs of inner layers are values of the layer before."
        )
    else:
        raise ValueError(
            "portray needs a posterior of several functions (sg.AdditivePosterior, "
            f"sg.MultiOutputPosterior, sg.DeepPosterior), got {type(posterior).__name__}"
        )
    title = name if title is None else title
    shared = account(posterior, title=title, unit="", notes=(), call=call)
    return Portrait(
        **shared,
        panels=tuple(panels),
        about=about,
        observations=observations,
        lead=lead or f", {len(panels)} functions",
        maps=maps,
    )


def _chosen(posterior: MultiOutputPosterior, output: Any) -> list[int]:
    """The numbers of the outputs that are shown."""
    if output is None:
        return list(range(posterior.model.outputs))
    several = output if isinstance(output, list | tuple) else [output]
    return [posterior.model.number_of(one) for one in several]


def _new_ones(kinds: set[bool], level: float) -> str:
    """What is shown of new observations, where some are classes in no order, some are not."""
    usual, classes = f"the mean and the {interval_name(level)} of new ones", "the probability of"
    if kinds == {True}:
        return f"{classes} each class"
    return f"{usual}, or {classes} each class" if True in kinds else usual


def _distinct(rows: Any) -> str:
    return f"{len(np.unique(np.asarray(rows), axis=0)):,}"


def _effects(posterior: AdditivePosterior, level: float) -> list[Panel]:
    panels = []
    for at, name in enumerate(posterior.model.names):
        inducing = posterior.inducing[name]
        first, last = float(inducing[0]), float(inducing[-1])
        plan = plan_season(cycle_of(posterior.model.kernels[at]), (first, last), 0.0, None, name)
        if plan is None or len(plan.starts) > 1:
            x = shown = np.linspace(first, last, _POINTS)
            across, marked = Axis(name), inducing
        else:
            x, shown = plan.x, plan.phase
            across, marked = Axis(plan.label, (0.0, plan.period), plan.ticks), None
        band = Band.of(*posterior.components({name: x})[name], level)
        panels.append(
            _panel(at, f"Effect of {name}", (across, Axis("Effect")), shown, band, marked)
        )
    return panels


def _functions(posterior: DeepPosterior, level: float) -> list[Panel]:
    panels: list[Panel] = []
    for name, functions in posterior.functions.items():
        several = isinstance(functions, list)
        for number, function in enumerate(functions if several else [functions]):
            title = f"{name} {number + 1}" if several else name
            inducing = np.unique(function.inducing)
            x = np.linspace(inducing[0], inducing[-1], _POINTS)
            mean, variance = function.predict_f(x)
            band = Band.of(mean, variance, level)
            at = len(panels)
            axes = Axis("Input"), Axis("Value")
            panels.append(_panel(at, f"Function {title}", axes, x, band, inducing))
    return panels


def _panel(
    at: int,
    title: str,
    axes: tuple[Axis, Axis],  # of x, and of the values
    x: np.ndarray,
    band: Band,
    inducing: np.ndarray | None,
) -> Panel:
    colour = f"part{at % _PARTS}"
    marks = (
        Fill(colour, x, band.lower, band.upper, key="band"),
        Line(colour, x, band.mean, key="mean"),
        *([] if inducing is None else [Rug("inducing", inducing)]),
    )
    return Panel(f"component-{at}", title, *axes, marks, says=title, along=False)
