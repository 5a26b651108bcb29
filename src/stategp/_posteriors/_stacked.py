"""Posteriors of several functions of several inputs, which one likelihood reads."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._inference import FitResult
from stategp._models import StackedGP
from stategp._posteriors._prediction import Predicts
from stategp._posteriors._shown import Mapped, Shown
from stategp._posteriors._space_time import SpaceTimePosterior
from stategp._runtime import as_key, on_device


class StackedPosterior(Mapped, Predicts):
    """The posterior of an `sg.StackedGP`: its functions, independent under q.

    Returned by `sg.condition` and `sg.fit`. `parts` has the posterior of each function, with all
    that it can be asked; moments and samples of f have a last axis with one entry for each.
    Fields have maps (`plot_maps`) and a report of what they say together: probabilities of classes.
    """

    model: StackedGP
    parts: tuple[Any, ...]
    elbo: float
    fit_result: FitResult | None = eqx.field(static=True, default=None)

    def predict_f(self, x_new: Any) -> tuple[Any, Any]:
        """Mean and variance of every function, a column for each."""
        moments = [part.predict_f(x_new) for part in self.parts]
        columns = [np.stack([np.asarray(m[k]) for m in moments], axis=-1) for k in range(2)]
        stacked: tuple[Any, Any] = on_device((columns[0], columns[1]))
        return stacked

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points latents"]:
        """Joint samples of every function."""
        drawn = [
            np.asarray(part.sample_f(jax.random.fold_in(as_key(key), number), x_new, num_samples))
            for number, part in enumerate(self.parts)
        ]
        stacked: Float[Array, "samples points latents"] = on_device(np.stack(drawn, axis=-1))
        return stacked

    def plot(self, **options: Any) -> Any:
        """The figure of `plot_maps` if the functions are fields."""
        if isinstance(self.parts[0], SpaceTimePosterior):
            return self.plot_maps(**options)
        return Shown.plot(self, **options)

    def __repr__(self) -> str:
        lines = [f"StackedPosterior of {self.model!r}", f"  ELBO {self.elbo:.6g}"]
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)


def check_stacked(posterior: StackedPosterior) -> None:
    """A posterior for each function."""
    if len(posterior.parts) != len(posterior.model.parts):
        raise ValueError("its functions are not those of its model")
