"""What a series has beside its observations: effects, a likelihood, and what that reads."""

import dataclasses

import numpy as np

from stategp._data import extra_values
from stategp._forecasting._coefficients import roughly_without
from stategp._forecasting._design import Design
from stategp.likelihoods import Likelihood


@dataclasses.dataclass(frozen=True, eq=False)
class Beside:
    """What the user gave, or the data showed, that every model to be compared has."""

    design: Design | None = None  # of effects
    likelihood: Likelihood | None = None  # None: observations are normal, on one of some scales
    extras: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def normal(self) -> bool:
        """Whether observations are normal on a scale, all of them with the same noise."""
        return self.likelihood is None and not self.extras

    @property
    def without_changes(self) -> "Beside":
        """The same, as if nothing were known of changes of level."""
        if self.design is None or not self.design.changes:
            return self
        return dataclasses.replace(self, design=dataclasses.replace(self.design, changes=()))

    def of(self, rows: np.ndarray) -> "Beside":
        """The same for some of the rows."""
        extras = {name: column[rows] for name, column in self.extras.items()}
        return dataclasses.replace(self, extras=extras)

    def pointed_at(self, y: np.ndarray) -> np.ndarray:
        """The values of f that observations point at."""
        if self.likelihood is None:
            return y
        extra = extra_values(self.likelihood, len(y), self.extras)
        return np.asarray(self.likelihood.guess(y, extra)).reshape(len(y), -1)[:, 0]

    def rough_effects(self, x: np.ndarray, f: np.ndarray) -> np.ndarray:
        """What effects seem to add to f, at first sight."""
        if self.design is None or not self.design.columns:
            return np.zeros(len(f))
        return f - roughly_without(self.design, x, f)


NOTHING = Beside()
