"""Natural gradients on q with a safe step, and the collapsed bound they lead to.

A step that lowers the bound, or leaves the sites for which q is a Gaussian, is halved; one that
succeeds lets the next be longer, up to one. For Gaussian observations the start is the optimum.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Observations, View
from stategp._inference._bound import (
    ChainSites,
    Geometry,
    Guess,
    Q,
    States,
    evaluate,
    geometry,
    latent_moments,
    prior_mean,
    starting_sites,
    wanted_sites,
    with_gradient,
)
from stategp._inference._exact import (
    LARGEST,
    Careful,
    careful_q,
    evidence_and_gradient,
    knows_evidence,
    needs_care,
)
from stategp._inference._search import leaves_of, with_leaves
from stategp._inference._seeing import Sight, TooFastError
from stategp._models import GP, bare
from stategp._runtime import on_device, on_one_device, quick_jit
from stategp.chain import PairMarginals, Sites
from stategp.parameters import log_prior, with_vector

TOLERANCE = 1e-14  # nats per observation that q still moves when the search counts as over
MOST_STEPS = 200
_SHORTEST = 1e-6
_LONGER = 1.5


# From a model, data, geometry and sites: those of a GP, or of another model with a `Q`.
Evaluate = Callable[[Any, Any, Any, Any], Q]


class Settling(NamedTuple):
    """A search for the optimal q, in between steps."""

    q: Q
    step_size: Float[Array, ""]
    moved: Float[Array, ""]  # how far the last step took q, in nats, had it been a whole one
    steps: Int[Array, ""]
    done: Bool[Array, ""]


def begin(
    model: Any,
    data: Any,
    shape: Any,
    sites: tuple[Any, ...],
    evaluate: Evaluate = evaluate,
) -> Settling:
    """The search before its first step, which will evaluate `sites`."""
    like = jax.eval_shape(lambda: evaluate(model, data, shape, sites))
    nothing: Q = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    unknown, far = (jnp.asarray(v, dtype=float) for v in (jnp.nan, jnp.inf))
    q = nothing._replace(sites=sites, target=sites, elbo=unknown)
    return Settling(q, jnp.ones(()), far, jnp.zeros((), int), jnp.zeros((), bool))


def settle(
    model: Any,
    data: Any,
    shape: Any,
    state: Settling,
    steps: int | Int[Array, ""],
    tolerance: float | Float[Array, ""],
    evaluate: Evaluate = evaluate,
) -> Settling:
    """At most `steps` further steps; done when one moves q by less than the tolerance."""
    last = state.steps + steps
    enough = tolerance * data.total

    def unfinished(state: Settling) -> Bool[Array, ""]:
        return ~state.done & (state.steps < last)

    def step(state: Settling) -> Settling:
        old, size, first = state.q, state.step_size, state.steps == 0
        sites = tuple(a.mix(b, size) for a, b in zip(old.sites, old.target, strict=True))
        new = evaluate(model, data, shape, sites)
        gain = jnp.where(first, jnp.inf, new.elbo - old.elbo)
        better = jnp.isfinite(new.elbo) & (gain >= -new.rounding)
        q: Q = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, old)
        # A short step moves little however far the optimum is: judge by what a whole one would.
        moved = jnp.where(first, jnp.inf, _moved(new, old) / size**2)
        arrived = better & (moved <= enough)
        size = jnp.where(better, jnp.minimum(1.0, _LONGER * size), size / 2)
        done = arrived | (first & ~better) | (size < _SHORTEST)
        moved = jnp.where(better, moved, state.moved)
        return Settling(q, size, moved, state.steps + 1, done | model.likelihood.conjugate)

    settled: Settling = jax.lax.while_loop(unfinished, step, state)
    return settled


def _optimum(
    model: GP, data: View, shape: Geometry, sites: ChainSites, *, learn: bool = False
) -> Settling:
    """The end of a search that starts from `sites`; `learn` if a gradient is to follow."""
    if model.likelihood.conjugate:  # they are the optimum
        q = evaluate(model, data, shape, sites, learn=learn)
        return Settling(q, jnp.ones(()), jnp.zeros(()), jnp.ones((), int), jnp.ones((), bool))
    return settle_fully(model, data, shape, sites)


def settle_fully(
    model: Any, data: Any, shape: Any, sites: tuple[Any, ...], evaluate: Evaluate = evaluate
) -> Settling:
    """The end of a search for q, within the usual number of steps."""
    state = begin(model, data, shape, sites, evaluate)
    return settle(model, data, shape, state, MOST_STEPS, TOLERANCE, evaluate)


def has_settled(model: Any, data: Any, state: Settling, tolerance: float | None = None) -> bool:
    """Whether a search that ended found the optimum: q has converged, up to rounding."""
    enough = max(1e-7, tolerance or 0.0)
    close = float(state.moved) <= enough * float(data.total)
    return bool(state.done) and (model.likelihood.conjugate or close)


def _moved(new: Q, old: Q) -> Float[Array, ""]:
    """Roughly KL(new‖old): the bound itself has no digits left for steps this small."""
    total = jnp.zeros(())
    for after, before in zip(new.marginals, old.marginals, strict=True):
        variances = [jnp.diagonal(q.covariance, axis1=-2, axis2=-1) for q in (after, before)]
        scale = jnp.where(variances[1] > 0, variances[1], jnp.inf)
        shift = (after.mean - before.mean) ** 2 / scale
        stretch = ((variances[0] - variances[1]) / scale) ** 2
        total += jnp.sum(shift) / 2 + jnp.sum(stretch) / 4
    return total


@jax.jit
def starting_state(
    model: GP, data: View, inducing: States, guess: Guess, warm: ChainSites | None = None
) -> tuple[Geometry, Settling]:
    """Inference before its first step: from sites found before, or from what y points at."""
    shape = geometry(model, data.nodes, inducing, data.numbers)
    sites = starting_sites(model, data, shape, guess) if warm is None else warm
    return shape, begin(model, data, shape, sites)


take_steps = jax.jit(settle)


@quick_jit(
    rows=("data", "inducing"),
    unless=lambda vector, model, *_, **__: not model.likelihood.elementary,
)
def objective_and_gradient(
    vector: Float[Array, " parameters"],
    model: GP,
    data: View,
    inducing: States,
    guess: Guess,
    warm: ChainSites,
    use_warm: Bool[Array, ""] | bool,
) -> tuple[Float[Array, ""], Float[Array, " parameters"], Settling]:
    """The collapsed bound (plus the log prior), its gradient, and the q it belongs to.

    q starts from the sites `warm` if told so, else from `guess`. At the best q the gradient is
    that with q held fixed (the envelope theorem).
    """

    def objective(vector: Float[Array, " parameters"]) -> tuple[Float[Array, ""], Settling]:
        moved = with_vector(model, vector)
        bound, state = settled_bound(moved, data, inducing, data.numbers, guess, warm, use_warm)
        return bound + log_prior(moved), state

    (value, state), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    return value, gradient, state


def settled_bound(
    model: GP,
    data: View,
    inducing: States,
    numbers: Any,
    guess: Guess,
    warm: ChainSites,
    use_warm: Bool[Array, ""] | bool,
) -> tuple[Float[Array, ""], Settling]:
    """The bound at the best q, as a function of the model and the inducing points; and that q."""
    shape = geometry(model, data.nodes, inducing, numbers)
    model_here, shape_here = jax.lax.stop_gradient((model, shape))
    sites = starting_sites(model_here, data, shape_here, guess)
    if not model.likelihood.conjugate:
        sites = jax.tree.map(lambda a, b: jnp.where(use_warm, a, b), warm, sites)
    state = jax.lax.stop_gradient(_optimum(model_here, data, shape_here, sites, learn=True))
    return with_gradient(model, data, shape, state.q), state


@jax.custom_jvp
def collapsed_bound(
    vector: Float[Array, " parameters"],
    model: GP,
    data: View,
    inducing: States,
    guess: Guess,
) -> Float[Array, ""]:
    """The collapsed bound plus the log prior, to be differentiated by others in the vector.

    Twice, if the observations are Gaussian; else a second derivative is refused.
    """
    return _bound_and_gradient(vector, model, data, inducing, guess)[0]


@collapsed_bound.defjvp
def _move_bound(primals: Any, tangents: Any) -> tuple[Any, Any]:
    value, gradient = _bound_and_gradient(*primals)
    return value, jnp.dot(gradient, tangents[0])


@jax.custom_jvp
def _bound_and_gradient(
    vector: Any, model: GP, data: View, inducing: Any, guess: Any
) -> tuple[Any, Any]:
    if knows_evidence(model, data):
        return evidence_and_gradient(vector, model, data, inducing, LARGEST)
    nothing = no_sites(model, inducing)
    return objective_and_gradient(vector, model, data, inducing, guess, nothing, False)[:2]


@_bound_and_gradient.defjvp
def _move_gradient(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Second derivatives, where q follows the hyperparameters in closed form.

    Elsewhere the gradient holds q fixed, and its derivative would lack how q moves.
    """
    vector, model, data, inducing, guess = primals
    if not model.likelihood.conjugate:
        raise NotImplementedError(
            "the log posterior of the hyperparameters can be differentiated only once for a "
            f"{type(model.likelihood).__name__} likelihood; for second derivatives use "
            "density.hessian(vector)"
        )

    def bound(vector: Any) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        shape = geometry(moved, data.nodes, inducing, data.numbers)
        q = evaluate(moved, data, shape, starting_sites(moved, data, shape, guess))
        return q.elbo + log_prior(moved)

    def both(vector: Any) -> tuple[Any, Any]:
        if knows_evidence(model, data):
            return evidence_and_gradient(vector, model, data, inducing, LARGEST)
        return jax.value_and_grad(bound)(vector)

    return jax.jvp(both, (vector,), tangents[:1])


def no_sites(model: GP, inducing: States) -> ChainSites:
    """Sites without information: q is the prior."""
    return tuple(Sites.zeros(len(inducing) + 1, kernel.state_dim) for kernel in model.kernels)


@quick_jit(rows=("data", "inducing"), unless=lambda model, *_: not model.likelihood.elementary)
def _infer(
    model: GP, data: View, inducing: States, guess: Guess, warm: ChainSites | None
) -> Settling:
    shape = geometry(model, data.nodes, inducing, data.numbers)
    sites = starting_sites(model, data, shape, guess) if warm is None else warm
    return _optimum(model, data, shape, sites)


def infer(
    model: GP, data: Observations, inducing: States, warm: ChainSites | None = None
) -> Settling:
    """The optimal q for the model as it is, in one go."""
    view, guess = Sight(data, inducing)(model)
    state: Settling = on_one_device(_infer(bare(model), view, inducing, guess, warm))
    learning = bare(model, learning=True)  # as the search for its hyperparameters has it
    return state._replace(q=careful_q(learning, view, data, inducing, state.q))


class Collapsed:
    """The bound as a function of the hyperparameters alone: q is always the best one for them.

    Each call starts q from the sites that the last one found. Where the bound is log p(y), and
    can be had without q, q is only found when asked for.
    """

    def __init__(
        self, model: GP, data: Observations, inducing: States, warm: ChainSites | None = None
    ):
        self.model, self.inducing = bare(model, learning=True), inducing
        self.data, self.sight = data, Sight(data, inducing)
        self.nothing = no_sites(model, inducing)
        self.warm = warm
        self.state: Settling | None = None  # the q of the last call
        self.careful: Careful | None = None
        self.beyond = ""  # what is wrong with kernels that a summary cannot follow, if any was met

    def __call__(self, vector: Any) -> tuple[float, np.ndarray]:
        """Bound plus log prior, and its gradient; NaN where nothing works."""
        vector = np.asarray(vector)
        try:
            view, guess = self.sight.at(self.model, vector)
        except TooFastError as error:
            if self.sight.view is None:
                raise
            self.beyond = str(error)
            return float("nan"), np.full(len(vector), np.nan)
        if knows_evidence(self.model, view):
            self.state = None
            return self._carefully(view)(vector)
        vector = on_device(vector)
        starts = [(self.nothing, False)]
        if not self.model.likelihood.conjugate:
            starts.append((self.nothing, True))
            if self.warm is not None:
                starts.insert(0, (self.warm, True))
        for sites, use in starts:
            found = objective_and_gradient(
                vector, self.model, view, self.inducing, guess, sites, use
            )
            value, gradient, state = on_one_device(found)
            self.state = state
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                self.warm = state.q.sites
                break
        moved = with_vector(self.model, vector)
        if self.data.individual and needs_care(moved, view, state.q):
            self.state = None
            return self._carefully(view)(vector)
        return float(value), np.asarray(gradient)

    def _carefully(self, view: View) -> Careful:
        """The bound as exactly as can be, from a view."""
        if self.careful is None or self.careful.view is not view:
            self.careful = Careful(self.model, view, self.data, self.inducing)
        return self.careful

    def carried(self) -> list[Any]:
        """The sites that the last call found, for a file."""
        return leaves_of(self.warm)

    def carry(self, found: list[Any]) -> None:
        """Let the next call start from there."""
        self.warm = with_leaves(self.nothing, found) if found else None

    def settled(self, vector: Any) -> Settling:
        """The best q for these hyperparameters."""
        self(vector)
        if self.state is None:
            model = with_vector(self.model, vector)
            view, guess = self.sight(model)
            state = on_one_device(_infer(bare(model), view, self.inducing, guess, None))
            q = careful_q(model, view, self.data, self.inducing, state.q)
            self.state = state._replace(q=q)
        return self.state


@jax.jit(static_argnames="indefinite")
def evaluate_all(
    model: GP, data: View, inducing: States, sites: ChainSites, *, indefinite: bool
) -> Q:
    """The bound of given sites on all data."""
    shape = geometry(model, data.nodes, inducing)
    return evaluate(model, data, shape, sites, indefinite=indefinite)


@jax.jit
def transfer_sites(
    model: GP,
    old_model: GP,
    data: View,
    old_inducing: Float[Array, " old_states"],
    marginals: tuple[PairMarginals, ...],
    inducing: States,
) -> ChainSites:
    """Sites at other inducing points that say what a posterior found before says at the data."""
    old = geometry(old_model, data.nodes, old_inducing)
    mean, variance = latent_moments(old.projections, marginals)
    mean = mean + prior_mean(old_model, data.user_nodes)
    clip = model.likelihood.log_concave
    expected = data.expected(model.likelihood, mean, variance, clip=clip)
    centred = mean - prior_mean(model, data.user_nodes)
    return wanted_sites(geometry(model, data.nodes, inducing), centred, expected)
