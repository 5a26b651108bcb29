"""The hyperparameters of many series: together where they can be, else one by one."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting._automatic import EXACT_STRETCHES, exact_is_cheaper
from stategp._fitting._counter import Counter
from stategp._fitting._methods import find_method
from stategp._fitting._parts import NOT_BEGUN
from stategp._fitting._remarks import FAR, remarks_at
from stategp._fitting._requests import NotConvergedWarning
from stategp._fitting._settings import Settings, choose_settings
from stategp._fitting._shared_prior import share_prior
from stategp._fitting._sharing import Limits, climber, share_values
from stategp._fitting._task import larger_kernels
from stategp._fitting._templates import Template, Values
from stategp._fitting._together import Member, member_at, member_of
from stategp._inference import End, FitResult, Outcome
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress, finishing_compilations
from stategp.kernels import Kernel
from stategp.likelihoods import Gaussian

_FEW = 256  # observations that are always fitted exactly, as by `fit`
SHARES = ("none", "all", "prior")
_FIT_OPTIONS = {
    "optimiser": None, "batch_size": None, "step_size": None, "starts": 1, "seed": 0,
    "max_steps": None, "tolerance": None,
}  # fmt: skip


class LearnedItem(NamedTuple):
    """What was learned of one series, or why nothing was."""

    template: Template | None
    values: Values
    log_evidence: float
    result: FitResult | None
    problem: str = ""
    posterior: Posterior | None = None  # where it cannot be had again from the values

    @staticmethod
    def of(posterior: Posterior) -> "LearnedItem":
        """From a posterior that is kept."""
        template, result = Template(posterior.model, posterior.model), posterior.fit_result
        return LearnedItem(template, template.values, posterior.elbo, result, posterior=posterior)


class Item(NamedTuple):
    """A series with a model of its own, and how `fit` would take it."""

    model: GP
    data: Observations


def goes_together(model: GP, options: dict[str, Any]) -> bool:
    """Whether series of this model can be fitted side by side: exact, with one state for each."""
    plain = set(options) <= {"max_steps", "tolerance", "inducing"}
    inducing = options.get("inducing", "auto")
    exact = isinstance(inducing, str) and inducing in ("auto", "data")
    alone = len(model.kernels) == 1 and not model.kernels[0].located
    return plain and exact and type(model.likelihood) is Gaussian and alone


def check_share(share: Any, n_jobs: Any) -> None:
    """Refuse what series cannot share, and what they cannot share in several processes."""
    if share not in SHARES:
        raise ValueError(f"share must be {', '.join(map(repr, SHARES))}, got {share!r}")
    if share != "none" and n_jobs is not None:
        raise ValueError(
            f"share={share!r} learns from all series together, in one process and on all its "
            "cores: leave n_jobs out, or use share='none'"
        )


def settings_of(model: GP, options: dict[str, Any]) -> Settings:
    """The options of `fit`, checked as there."""
    chosen = _FIT_OPTIONS | {k: v for k, v in options.items() if k in _FIT_OPTIONS}
    method = options.get("method", "natural")
    return choose_settings(
        lambda regime: find_method(model, method, regime), stochastic=False, **chosen
    )


def limits_of(model: GP, options: dict[str, Any]) -> Limits:
    """When searches end, by the options of `fit`."""
    settings = settings_of(model, options)
    slope = getattr(settings.method, "slope", 1e-7)
    return Limits(settings.learning_steps, settings.tolerance or 1e-5, settings.tolerance or slope)


def learn_many(
    items: Sequence[Item],
    alone: Callable[[int], Posterior],
    *,
    share: str = "none",
    options: dict[str, Any] | None = None,
    stretches: Sequence[float] = EXACT_STRETCHES,
    progress: Any = None,
    what: str = "series",
) -> tuple[list[LearnedItem], GP | None]:
    """What was learned of each series; and, if they share something, a model for another one.

    `alone(number)` fits a series in the usual way, where side by side does not do. What goes wrong
    with one series is said in its place. After Ctrl-C the others are what they were until then.
    `what` names the items in the line of progress.
    """
    options = options or {}
    show = Progress.of(progress)
    count = Counter(show, len(items), what)
    try:
        with finishing_compilations():
            return _Learning(items, alone, share, options, stretches, count)()
    finally:
        show.close()


class _Suits:
    """Whether a series is fitted side by side with others."""

    def __init__(self, share: str, options: dict[str, Any]):
        self.options = options
        self.always = share == "all" or options.get("inducing", "auto") == "data"
        self.most: dict[int, int] = {}  # inputs, by model

    def __call__(self, item: Item) -> bool:
        if not goes_together(item.model, self.options):
            return False
        if self.always:
            return True
        if id(item.model) not in self.most:
            settings = settings_of(item.model, self.options)
            sizes = [_FEW, *(2**power for power in range(9, 15)), 20_000]
            cheap = [size for size in sizes if exact_is_cheaper(item.model, size, settings)]
            self.most[id(item.model)] = max(cheap, default=_FEW)
        return len(item.data) <= self.most[id(item.model)]


class _Learning:
    def __init__(
        self,
        items: Sequence[Item],
        alone: Callable[[int], Posterior],
        share: str,
        options: dict[str, Any],
        stretches: Sequence[float],
        count: Counter,
    ):
        self.items, self.alone, self.share, self.stretches = items, alone, share, stretches
        self.options, self.count = options, count
        self.found: list[LearnedItem | None] = [None] * len(items)
        self.stopped = False

    def __call__(self) -> tuple[list[LearnedItem], GP | None]:
        suits = _Suits(self.share, self.options)
        together = [n for n, item in enumerate(self.items) if suits(item)]
        model = self._learn_together(together) if together else None
        for number in range(len(self.items)):
            if self.found[number] is None:
                self.found[number] = self._learn_alone(number)
        return [learned for learned in self.found if learned is not None], model

    def _learn_together(self, numbers: list[int]) -> GP | None:
        limits = limits_of(self.items[numbers[0]].model, self.options)
        members = members_of([self.items[number] for number in numbers], self.stretches)
        if self.share == "none" or len(members[0].scales) == 0:
            self._climb(numbers, members, limits)
            return None
        if self.share == "all":
            shared = share_values(members, limits, self.count.show, self.count)
        else:
            self.count.words = "learning the prior:"
            shared = share_prior(members, limits, self.count.rounds(len(members)))
        for number, member, end in zip(numbers, shared.members, shared.ends, strict=True):
            self.found[number] = self._learned(member, end, shared.result)
        return shared.model

    def _climb(self, numbers: list[int], members: list[Member], limits: Limits) -> None:
        """Search, again where a kernel's truncation has to follow its new parameters."""
        while numbers:
            ends, stopped = climber(limits, self.count)(members)
            again: list[tuple[int, Member]] = []
            for number, member, end in zip(numbers, members, ends, strict=True):
                if not stopped and self._needs_care(end):
                    continue  # it is fitted alone
                learned = self._learned(member, end, None)
                try:
                    larger = None if stopped else _larger(member, end)
                except ValueError as error:  # more harmonics than anyone would want
                    larger = None
                    learned = _unresolved(learned, str(error))
                if larger is not None:
                    again.append((number, larger))
                    self.count.done -= 1
                else:
                    self.found[number] = learned
            self.stopped = stopped
            numbers, members = [n for n, _ in again], [member for _, member in again]

    def _needs_care(self, end: End | None) -> bool:
        """Whether the signal may be so far above the noise that only the careful way gets there."""
        if end is not None and end.blind and end.outcome is not Outcome.converged:
            self.count.done -= 1
            return True
        return False

    def _learned(self, member: Member, end: End | None, shared: FitResult | None) -> LearnedItem:
        if end is None:
            return LearnedItem(None, [], np.nan, None, NOT_BEGUN)
        if not np.isfinite(end.value):
            return LearnedItem(None, [], np.nan, None, f"{end.outcome.value}")
        values = member.found(end)
        value = end.value - end.aside
        remarks = _remarks(member, values, end)
        steps = max(len(end.trace) - 1, 0)
        result = FitResult(end.outcome, steps, (), (), remarks=tuple(remarks))
        if shared is not None:
            worst = shared.outcome if end.outcome is Outcome.converged else end.outcome
            result = dataclasses.replace(result, outcome=worst, steps=shared.steps)
        return LearnedItem(member.template, values, value, result)

    def _learn_alone(self, number: int) -> LearnedItem:
        if self.stopped:
            return LearnedItem(None, [], np.nan, None, NOT_BEGUN)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConvergedWarning)
                posterior = self.alone(number)
        except KeyboardInterrupt:
            self.stopped = True
            return LearnedItem(None, [], np.nan, None, NOT_BEGUN)
        except Exception as error:  # of one series, which must not stop the others
            self.count(1)
            return LearnedItem(None, [], np.nan, None, " ".join(str(error).split()))
        self.count(1)
        result = posterior.fit_result
        if result is not None and result.outcome is Outcome.interrupted:
            self.stopped = True
        return LearnedItem.of(posterior)


def members_of(items: Sequence[Any], stretches: Sequence[float]) -> list[Member]:
    """Series with their searches; those whose models differ only in numbers share a template."""
    flat: dict[int, tuple[Any, list[np.ndarray]]] = {}  # models are often the same object
    templates: dict[Any, Template] = {}
    members = []
    for item in items:
        if id(item.model) not in flat:
            leaves, structure = jax.tree.flatten(item.model)
            flat[id(item.model)] = structure, [np.asarray(leaf) for leaf in leaves]
        structure, numbers = flat[id(item.model)]
        if structure not in templates:
            templates[structure] = Template.of(item.model, item.data)
        members.append(member_of(templates[structure], item.data, stretches, numbers))
    return members


def _remarks(member: Member, values: Values, end: End) -> list[str]:
    """What there is to say, seldom anything."""
    x, template = np.asarray(member.data.x), member.template
    span = float(x[-1] - x[0])
    long = np.isin(template.roles, "lengthscale")
    longest = float(np.max(template.vector(values)[long], initial=-np.inf))
    if not end.edges.any() and not (span > 0 and longest > np.log(FAR * span)):
        return []
    return remarks_at(template.model, values, end.edges, span)


def _unresolved(learned: LearnedItem, remark: str) -> LearnedItem:
    assert learned.result is not None
    result = learned.result.with_remarks(remark, outcome=Outcome.unresolved)
    return learned._replace(result=result)


def _larger(member: Member, end: End | None) -> Member | None:
    """The same series with a kernel that follows its parameters, if it needs a larger state."""
    if end is None or end.outcome is not Outcome.converged:
        return None
    kernels = member.template.model.kernels
    if not any(_adapts(kernel) for kernel in kernels):
        return None
    model = member.template.with_values(member.found(end))
    refined = larger_kernels(model.kernels)
    if refined is None:
        return None
    moved = GP(tuple(refined), model.likelihood, model.means)
    template = Template(moved, moved)
    moved_member = member._replace(template=template, leaves=template.leaves)
    return member_at(moved_member, template.values)


def _adapts(kernel: Kernel) -> bool:
    """Whether its truncation depends on its parameters."""
    parts = kernel.parts()
    if parts:
        return any(_adapts(part) for part in parts.values())
    return type(kernel).refined is not Kernel.refined
