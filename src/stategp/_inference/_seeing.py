"""Which view of the data a model can be fitted with."""

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data import (
    ORDER,
    PER_LENGTHSCALE,
    WIDEST,
    Cells,
    Observations,
    OnStretches,
    View,
    Waves,
    can_pool,
    compress,
    cut_cells,
    cut_short_cells,
    divided,
    merged,
    one_if_equal,
    pack_moments,
    pack_rows,
    pad_observations,
    pool,
)
from stategp._inference._starting_values import pseudo_data
from stategp._models import GP
from stategp._runtime import on_device, pad_last
from stategp.kernels import outlines_of
from stategp.likelihoods import Gaussian
from stategp.parameters import to_vector, with_vector

FEW = 20_000  # observations that are looked at one by one
_WORTH = 2  # observations to a node from which on cells pay
_FACTORS = 8  # nodes of the slow factors of waves whose frequencies are learned
_TURNED = 0.2  # angle by which such a wave may get ahead of another in a cell
MARGIN = 2.0  # how much faster a kernel may become before cells are cut anew


class TooFastError(ValueError):
    """A kernel that the stretches of a summary or stream are too long for."""


def too_fast(rate: float, data: OnStretches) -> str:
    """What to say of such a kernel, and what to do."""
    stretches = data.stretches
    shorter = PER_LENGTHSCALE * WIDEST / (MARGIN * rate)
    return (
        f"the model is too fast for the {data.source}: f changes within {1 / rate:.3g} (one over "
        f"the fastest rate of kernel and mean), and the stretches, {stretches.width:.3g} long, are "
        f"made for {1 / stretches.fastest:.3g} or more. Make the {data.source} again with "
        f"shortest={shorter:.1g} or less, or with the shortest period"
    )


class Sight:
    """The data as a model sees it: cell by cell where its kernels are slow enough, else one by one.

    Calling it with other hyperparameters gives the same view, unless the kernels have become too
    fast for its cells.
    """

    def __init__(self, data: Observations, inducing: Float[Array, " states"], few: int = FEW):
        self.data, self.inducing, self.few = data.at_hand, np.asarray(inducing), few
        self.view: View | None = None
        self.guess: Array = on_device(np.zeros(()))
        self.waves = NO_WAVES  # what the view knows in closed form
        self.reach = 0.0  # how far their frequencies may be from these
        self.slowest, self.fastest = np.inf, -np.inf  # the rates of the rest that it is good for

    def __call__(self, model: GP) -> tuple[View, Array]:
        """The view, and what its observations point at."""
        if self.view is None or not self._serves(model):
            self._look(model)
        assert self.view is not None
        return self.view, self.guess

    def at(self, model: GP, vector: np.ndarray) -> tuple[View, Array]:
        """The same for other hyperparameters; the model is not made where it does not matter."""
        fixed = isinstance(self.data, OnStretches)  # good for kernels of limited speed
        if self.view is not None and len(self.data) < self.few and not fixed:
            return self.view, self.guess
        return self(with_vector(model, on_device(vector)))

    def _serves(self, model: GP) -> bool:
        """Whether the view is good for a model, too."""
        if isinstance(self.data, OnStretches):
            return fastest_rate(model) <= self.fastest
        if len(self.data) < self.few:
            return True
        frequencies, rate = pace_of(model, self.waves.blocks)
        apart = np.abs(frequencies - self.waves.frequencies)
        return bool(np.all(apart <= self.reach)) and self.slowest <= rate <= self.fastest

    def _look(self, model: GP) -> None:
        self.waves = NO_WAVES
        if isinstance(self.data, OnStretches):
            self._on_stretches(model, self.data)
            return
        if not self._known_as_sums(model):
            self.data = merged(self.data)
        many = len(self.data) >= self.few
        rate = fastest_rate(model) if many else 0.0
        smooth = all(mean.smooth for mean in model.means)
        smooth = smooth and not any(kernel.located for kernel in model.kernels)
        if not many or not smooth:
            self._one_by_one(model, rate)
            return
        alike = self._alike(model)
        cells = self._cells(rate, ORDER)
        if alike and self._without_waves(model, cells):
            return
        if cells is None:
            self._one_by_one(model, rate)
            return
        self.slowest, self.fastest = -np.inf, MARGIN * rate
        if alike:
            self.view, self.guess = pack_moments(self.data, cells), on_device(np.zeros(()))
            return
        guess = pseudo_data(model, self.data)
        if can_pool(model.likelihood, self.data):
            rows, self.guess = pack_rows(self.data, cells, guess)
            self.view = pool(rows, model.likelihood, self.data, cells)
        else:
            short = cut_short_cells(np.asarray(self.data.x), self.inducing, _widest(rate))
            self.view, self.guess = pack_rows(self.data, short or cells, guess)

    def _alike(self, model: GP) -> bool:
        """Whether observations are Gaussian with equal noise."""
        return isinstance(model.likelihood, Gaussian) and one_if_equal(self.data.extra).ndim == 0

    def _known_as_sums(self, model: GP) -> bool:
        """Whether equal observations cost nothing: there are few, or sums are taken of all."""
        few = len(self.data) < self.few
        return few or self._alike(model) or can_pool(model.likelihood, self.data)

    def _on_stretches(self, model: GP, data: OnStretches) -> None:
        """On stretches that cannot be cut anew."""
        if not all(mean.smooth for mean in model.means):
            raise ValueError(
                f"a {data.source} needs mean functions that are smooth between any two inputs; fit "
                "this model to the observations themselves"
            )
        if any(kernel.located for kernel in model.kernels):
            raise ValueError(
                f"a {data.source} needs kernels that are the same everywhere (not Piecewise or "
                "Scaled); fit this model to the observations themselves"
            )
        self.slowest, self.fastest = -np.inf, MARGIN * data.stretches.fastest
        rate = fastest_rate(model)
        if not rate <= self.fastest:
            raise TooFastError(too_fast(rate, data))
        view, guess = data.view(model.likelihood)
        self.view, self.guess = view, on_device(guess)

    def _one_by_one(self, model: GP, rate: float) -> None:
        self.slowest, self.fastest = rate / MARGIN, np.inf  # slower kernels might do with cells
        self.view = pad_observations(self.data, self.inducing)
        guess = pseudo_data(model, self.data)
        self.guess = on_device(pad_last(guess, len(self.view.y)))

    def _without_waves(self, model: GP, cells: Cells | None) -> bool:
        """Whether cells can follow what is slow only, far fewer of them; then that is the view."""
        waves, rate = waves_of(model)
        longer = self._cells(rate, waves.terms) if waves.blocks else None
        if longer is None:
            return False
        if cells and waves.terms * len(longer.first) > ORDER * len(cells.first) / 2:
            return False
        longer = divided(longer, np.asarray(self.data.x))
        self.waves, self.slowest, self.fastest = waves, -np.inf, MARGIN * rate
        longest = float(np.max(longer.high - longer.low))
        self.reach = _TURNED / longest if waves.order > 1 and longest > 0 else 0.0
        self.view = compress(self.data, longer, self.inducing, waves)
        self.guess = on_device(np.zeros(()))
        return True

    def _cells(self, rate: float, nodes: int) -> Cells | None:
        """Cells for things that happen at a rate, unless there is too little data for them."""
        most = len(self.data) // (_WORTH * nodes)
        return cut_cells(np.asarray(self.data.x), self.inducing, _widest(rate), most)


def _widest(rate: float) -> float:
    """The longest cell for things that happen at a rate, or at one somewhat faster."""
    return WIDEST / (MARGIN * rate) if rate > 0 else np.inf


NO_WAVES = Waves((), np.zeros(0))


@jax.jit
def _feedbacks(model: GP) -> list[list[Array]]:
    return [[block.feedback() for block in kernel.blocks()] for kernel in model.kernels]


def pace_of(model: GP, waves: tuple[int, ...] = ()) -> tuple[np.ndarray, float]:
    """The frequencies of waves among the blocks, and the largest rate of all other blocks.

    Rates are eigenvalues of the equations: within one over them, things happen. Mean functions
    that are smooth have rates, too.
    """
    feedbacks = [np.asarray(F) for blocks in _feedbacks(model) for F in blocks]
    rates = [float(np.abs(np.linalg.eigvals(F)).max()) for F in feedbacks]
    rest = [rate for number, rate in enumerate(rates) if number not in waves]
    rest += [mean.rate for mean in model.means if mean.smooth]
    return np.array([rates[number] for number in waves]), max(rest, default=0.0)


def fastest_rate(model: GP) -> float:
    """The largest of all rates."""
    return pace_of(model)[1]


def waves_of(model: GP) -> tuple[Waves, float]:
    """The blocks that are sine waves, and the largest rate of the others."""
    blocks = outlines_of(model.kernels[0])
    moved = with_vector(model, to_vector(model) + 0.5)  # all that is learned is another
    here, there = ([np.asarray(F) for F in _feedbacks(m)[0]] for m in (model, moved))
    numbers = tuple(
        number
        for number, block in enumerate(blocks)
        if block.deterministic and _is_wave(here[number])
    )
    steady = all(np.array_equal(here[number], there[number]) for number in numbers)
    frequencies, rate = pace_of(model, numbers)
    return Waves(numbers, frequencies, order=1 if steady else _FACTORS), rate


def _is_wave(feedback: np.ndarray) -> bool:
    """Whether every solution of the equation is a cos + b sin: F² is −ω² times the identity."""
    if feedback.shape != (2, 2):
        return False
    square = feedback @ feedback
    return bool(square[0, 0] < 0) and np.array_equal(square, square[0, 0] * np.eye(2))
