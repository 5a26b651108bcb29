"""Which view of the data a model can be fitted with."""

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data import (
    WIDEST,
    Observations,
    View,
    can_pool,
    cut_cells,
    cut_short_cells,
    one_if_equal,
    pack_moments,
    pack_rows,
    pad_observations,
    pool,
)
from stategp._inference._starting_values import pseudo_data
from stategp._models import GP
from stategp._runtime import on_device, pad_last
from stategp.likelihoods import Gaussian
from stategp.means import Function

_FEW = 20_000  # observations that are looked at one by one
_WORTH = 32  # observations to a cell from which on cells pay
_MARGIN = 2.0  # how much faster a kernel may become before cells are cut anew


class Sight:
    """The data as a model sees it: cell by cell where its kernels are slow enough, else one by one.

    Calling it with other hyperparameters gives the same view, unless the kernels have become too
    fast for its cells.
    """

    def __init__(self, data: Observations, inducing: Float[Array, " states"], few: int = _FEW):
        self.data, self.inducing, self.few = data, np.asarray(inducing), few
        self.view: View | None = None
        self.guess: Array = on_device(np.zeros(()))
        self.slowest, self.fastest = np.inf, -np.inf  # the rates that the view is good for

    def __call__(self, model: GP) -> tuple[View, Array]:
        """The view, and what its observations point at."""
        rate = fastest_rate(model) if len(self.data) >= self.few else 0.0
        if self.view is None or not self.slowest <= rate <= self.fastest:
            self._look(model, rate)
        assert self.view is not None
        return self.view, self.guess

    def _look(self, model: GP, rate: float) -> None:
        guess = pseudo_data(model, self.data)
        cells = None
        smooth = not any(isinstance(mean, Function) for mean in model.means)
        if len(self.data) >= self.few and smooth:
            widest = WIDEST / (_MARGIN * rate) if rate > 0 else np.inf
            x, most = np.asarray(self.data.x), len(self.data) // _WORTH
            cells = cut_cells(x, self.inducing, widest, most)
        if cells is None:  # slower kernels might do with cells
            self.slowest, self.fastest = rate / _MARGIN, np.inf
            self.view = pad_observations(self.data, self.inducing)
            self.guess = on_device(pad_last(guess, len(self.view.nodes)))
            return
        self.slowest, self.fastest = -np.inf, _MARGIN * rate
        if isinstance(model.likelihood, Gaussian) and one_if_equal(self.data.extra).ndim == 0:
            self.view, self.guess = pack_moments(self.data, cells), on_device(np.zeros(()))
        elif can_pool(model.likelihood, self.data):
            rows, self.guess = pack_rows(self.data, cells, guess)
            self.view = pool(rows, model.likelihood, self.data, cells)
        else:
            short = cut_short_cells(x, self.inducing, widest)
            self.view, self.guess = pack_rows(self.data, short or cells, guess)


@jax.jit
def _feedbacks(model: GP) -> list[Array]:
    return [kernel.feedback() for kernel in model.kernels]


def fastest_rate(model: GP) -> float:
    """The largest eigenvalue of the equations of the kernels: what happens within one over it."""
    rates = [np.abs(np.linalg.eigvals(np.asarray(F))).max() for F in _feedbacks(model)]
    return float(max(rates))
