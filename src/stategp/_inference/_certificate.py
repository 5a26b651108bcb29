"""What `inducing="auto"` found, in numbers and in words."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Certificate:
    """How far the bound is from what any number of inducing points could reach.

    For Gaussian observations that is log p(y). `error` is the distance where it is known exactly
    (`exact`), else an estimate from how the bound rose when the inducing points were doubled;
    `tolerance` is what was asked for, both in nats for all observations together. `history` has
    (inducing points, bound) of each fit.
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
