"""Inducing locations, in time or in space, that are to be learned with the hyperparameters."""

import dataclasses
from typing import Any

import numpy as np

from stategp._arguments import as_whole


@dataclasses.dataclass(frozen=True)
class Learned:
    """``inducing=sg.Learned(60)``: so many inducing locations, learned with the hyperparameters.

    The search starts from locations as dense as the inputs, or from those given in place of a
    number. They keep their order and never meet. `posterior.inducing` has the locations found.
    `places=sg.Learned(20)` of an `sg.SpaceTimeGP` does the same for its inducing places.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 80)
    >>> y = np.where(x < 8, 0.1 * x, np.sin(9 * x))
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=0.5), sg.likelihoods.Gaussian(variance=0.01))
    >>> fixed = sg.condition(model, x, y, inducing=12)
    >>> learned = sg.condition(model, x, y, inducing=sg.Learned(12))
    >>> learned.elbo > fixed.elbo + 100  # they went where the function moves fast
    True
    """

    start: Any

    def __post_init__(self) -> None:
        count = as_whole(self.start)
        few = len(np.atleast_1d(np.asarray(self.start))) if count is None else count
        if isinstance(self.start, bool | str) or few < 2:
            raise ValueError(
                f"sg.Learned takes a number of at least 2 locations, or where they start, got "
                f"{self.start!r}"
            )
