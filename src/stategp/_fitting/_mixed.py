"""Models of mixtures of processes: what their methods are given."""

import abc
import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations, PlacedRows
from stategp._fitting._settings import Settings
from stategp._fitting._task import Task, check_finite, larger_kernels
from stategp._inference import FitResult, Limits, Q
from stategp._models import MixedGP
from stategp._posteriors import MixedPosterior
from stategp._runtime import Progress, on_device, pad_inducing


@dataclasses.dataclass(frozen=True)
class MixedTask(Task, abc.ABC):
    """Rows, and the inducing locations that all processes share.

    A kind of model says what its hyperparameters are like (`scales`, `limits`) and which posterior
    it has (`made`).
    """

    data: Observations  # all rows in order of x
    places: Any  # of these rows
    rows: PlacedRows  # the same as inference sees them
    inducing: Float[Array, " states"]  # padded to one of few sizes
    states: int  # how many of them count

    @classmethod
    def of(
        cls, data: Observations, places: Any, inducing: np.ndarray, settings: Settings,
        show: Progress, guess: np.ndarray, *, beside: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        """`guess` is what each observation says of f; `beside`, places that know of other rows."""
        x, y, extra, weights = (np.asarray(v) for v in (data.x, data.y, data.extra, data.weights))
        there = places if beside is None else beside
        rows = PlacedRows.padded(x, there, y, extra, weights, guess, data.origin)
        filled = pad_inducing(inducing) if settings.method.pads else inducing
        padded = on_device(filled)
        return cls(settings, show, data, places, rows, padded, len(inducing), **more)

    @property
    def count(self) -> int:
        return len(self.data)

    @property
    def span(self) -> float | None:
        return float(self.data.x[-1] - self.data.x[0])

    @abc.abstractmethod
    def limits(self, model: Any, *, swept: bool = False) -> Limits: ...

    @abc.abstractmethod
    def made(self, model: Any, **parts: Any) -> MixedPosterior:
        """The posterior of this kind of model, from the fields that all of them have."""

    def refined(self, model: MixedGP) -> "tuple[MixedGP, MixedTask] | None":
        kernels = larger_kernels(model.kernels)
        return None if kernels is None else (model.with_kernels(tuple(kernels)), self)

    def posterior(
        self, model: Any, q: Q, result: FitResult | None, *, indefinite: bool = False
    ) -> MixedPosterior:
        """What was found; `indefinite` if sites may make f less certain though no data can."""
        check_finite(model, q.elbo)
        return self.made(
            model,
            data=self.data,
            places=self.places,
            padded_inducing=self.inducing,
            sites=q.sites,
            marginals=q.marginals,
            elbo=float(q.elbo),
            states=self.states,
            fit_result=result,
            indefinite=indefinite,
        )
