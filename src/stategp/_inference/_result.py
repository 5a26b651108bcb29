"""How a search ended, and what it leaves behind."""

import dataclasses
import enum
from typing import Any

from stategp._files import upgrade


class Outcome(enum.Enum):
    """How a search ended; the value says it in words.

    >>> import stategp as sg
    >>> sg.Outcome.out_of_steps.value
    'the limit of steps was reached; raise max_steps'
    """

    converged = "nothing is left to gain"
    interrupted = "interrupted: this is the best found until then"
    out_of_steps = "the limit of steps was reached; raise max_steps"
    no_better_step = "no step raises the bound any more, though its slope has not vanished"
    falling = "the bound falls: use smaller steps"
    not_finite = "the bound is not finite any more: use smaller steps"
    bad_start = "the bound is not finite at the starting values"
    sites_moving = (
        "the sites keep moving: try less damping (sg.PowerEP also less power), or method='natural'"
    )
    unresolved = "a kernel would need more terms than it may have"
    too_fast = "the search wants a faster kernel than the summary was made for"


@dataclasses.dataclass(frozen=True)
class FitResult:
    """The result of an optimisation.

    `outcome` says how it ended; `remarks` has further information. For each step, `trace` has the
    objective (the bound, plus the log prior if there is one), `step_sizes` the size of the step
    (NaN if the method has none) and `seconds` the time since this search began. `total_seconds` is
    the time of the whole call of `fit`, including other starts, the search for inducing points,
    their certificate and compilation. For natural gradients of a deep model, `replaced` has for
    each step how many of its layers took the precision of Gauss–Newton instead; for other searches
    it is empty.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> result = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x)).fit_result
    >>> result.outcome is sg.Outcome.converged, result.converged
    (True, True)
    """

    outcome: Outcome
    steps: int
    trace: tuple[float, ...]
    seconds: tuple[float, ...]
    step_sizes: tuple[float, ...] = ()
    remarks: tuple[str, ...] = ()
    total_seconds: float = float("nan")
    replaced: tuple[int, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether the search ended at an optimum."""
        return self.outcome is Outcome.converged

    @property
    def message(self) -> str:
        """How the search ended, in words, and every remark."""
        return "; ".join([self.outcome.value, *self.remarks])

    def with_remarks(self, *remarks: str, outcome: Outcome | None = None) -> "FitResult":
        """The same with more to say, and perhaps another verdict."""
        return dataclasses.replace(
            self, outcome=outcome or self.outcome, remarks=(*self.remarks, *remarks)
        )

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return f"{state} after {self.steps} steps: {self.message}"


# How messages of format 1 of files began, where they did not end well.
_OLD_MESSAGES = {
    "interrupted": Outcome.interrupted,
    "the limit of steps": Outcome.out_of_steps,
    "the bound falls": Outcome.falling,
    "the bound is not finite any more": Outcome.not_finite,
    "the bound is not finite": Outcome.bad_start,
    "the gradient of the bound is not finite": Outcome.bad_start,
    "the sites keep moving": Outcome.sites_moving,
}


@upgrade("FitResult", 1)
def _from_message(fields: dict[str, Any]) -> dict[str, Any]:
    """In files of format 1 a result was `converged` and a `message`, which becomes a remark."""
    rest = {name: value for name, value in fields.items() if name not in ("converged", "message")}
    message = str(fields["message"])
    outcome = Outcome.converged if fields["converged"] is True else Outcome.no_better_step
    for words, meant in _OLD_MESSAGES.items():
        if outcome is not Outcome.converged and message.startswith(words):
            outcome = meant
            break
    return {"outcome": outcome, "remarks": () if message == outcome.value else (message,)} | rest
