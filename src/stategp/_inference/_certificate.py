"""What `inducing="auto"` found, in numbers and in words."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Certificate:
    """How far the bound is from the best that any number of inducing points could reach.

    For Gaussian observations the best is log p(y). `error` is the distance, known exactly if
    `exact` is true, else estimated from how the bound rose when the number of inducing points was
    doubled; `tolerance` is the value requested, both in nats for all observations together.
    `history` has (inducing points, bound) of each fit.
    """

    inducing: int
    bound: float
    error: float
    tolerance: float
    exact: bool
    reached: bool
    history: tuple[tuple[int, float], ...]
    reason: str

    def __str__(self) -> str:
        verdict = "below" if self.reached else "NOT below"
        kind = "error" if self.exact else "estimated error"
        return (
            f"{self.inducing} inducing points: {kind} {self.error:.2g} nats, {verdict} the "
            f"tolerance of {self.tolerance:.2g}; {self.reason}"
        )
