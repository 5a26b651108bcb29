"""How `condition` and `fit` are told to look for q and the hyperparameters, checked."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from stategp._data import Observations, Observed
from stategp._inference import PowerEP
from stategp._models import GP, AdditiveGP, DeepGP
from stategp.likelihoods import Bernoulli, Gaussian, Laplace

_METHODS = ("natural", "gradient", "laplace", "ep", "vb")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to look for q and the hyperparameters, checked."""

    method: str
    ep: PowerEP
    optimiser: optax.GradientTransformation | None  # None: L-BFGS
    batch_size: int | None
    step_size: Callable[[int], Any]
    starts: int
    seed: int
    max_steps: int
    max_steps_given: int | None
    tolerance: float | None

    @property
    def q_is_optimal(self) -> bool:
        """Whether q is the best one for its hyperparameters, not just where a search ended."""
        return self.method == "natural" and self.batch_size is None

    @property
    def inference_steps(self) -> int:
        """The most natural-gradient or Newton steps, where hyperparameters stay as they are."""
        return self.max_steps_given or 200

    @property
    def settling(self) -> float:
        """How little q may still move when inference counts as over, in nats per observation."""
        return self.tolerance or 1e-14

    @staticmethod
    def of(
        model: GP | AdditiveGP | DeepGP,
        method: Any,
        optimiser: Any,
        batch_size: Any,
        step_size: Any,
        starts: Any,
        seed: Any,
        max_steps: Any,
        tolerance: Any,
    ) -> "Settings":
        name = "ep" if isinstance(method, PowerEP) else method
        if name not in _METHODS:
            names = ", ".join(map(repr, _METHODS))
            raise ValueError(f"method must be one of {names} or an sg.PowerEP, got {method!r}")
        for what, number in [("batch_size", batch_size), ("max_steps", max_steps)]:
            if number is not None:
                _check_whole(what, number)
        _check_whole("starts", starts)
        _check_whole("seed", seed, least=0)
        if tolerance is not None:
            _check_number("tolerance", tolerance)
        deep = isinstance(model, DeepGP)
        stochastic = deep or batch_size is not None
        if step_size is not None and not (stochastic and name == "natural"):
            raise ValueError(
                "step_size is that of natural gradients in minibatches, so it goes with batch_size "
                "and method='natural'; without minibatches steps are as long as the bound allows"
            )
        if optimiser is None:
            optimiser = "adam" if stochastic else "lbfgs"
        steps = max_steps or (500 if optimiser == "lbfgs" else 2000)
        chosen = _as_optimiser(optimiser, steps)
        if batch_size is not None and (chosen is None or name not in ("natural", "gradient")):
            raise ValueError(
                "minibatches go with method='natural' or 'gradient' and with optimiser='adam' or "
                f"an Optax optimiser, not with method={name!r}, optimiser={optimiser!r}"
            )
        if chosen is not None and name not in ("natural", "gradient"):
            raise ValueError(f"method={name!r} goes with optimiser='lbfgs', got {optimiser!r}")
        if starts > 1 and (chosen is not None or name == "gradient"):
            raise ValueError("starts goes with optimiser='lbfgs' and other methods than 'gradient'")
        if step_size is None:
            step_size = optax.cosine_decay_schedule(0.1, steps, alpha=0.05)
        if not callable(step_size):
            _check_number("step_size", step_size)
            if step_size > 1:
                raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
            step_size = optax.constant_schedule(step_size)
        ep = method if isinstance(method, PowerEP) else PowerEP()
        return Settings(
            name, ep, chosen, batch_size, step_size, starts, seed, steps, max_steps, tolerance
        )

    def check_deep(self) -> None:
        """Refuse what deep models cannot be learned with."""
        if self.method not in ("natural", "gradient") or self.optimiser is None or self.starts > 1:
            raise ValueError(
                "deep models take method='natural' or 'gradient' with optimiser='adam' or an Optax "
                "optimiser, from one start"
            )

    def check(self, model: GP | AdditiveGP, data: Observations | Observed) -> None:
        """Refuse what the method cannot do with this model and these data."""
        likelihood = model.likelihood
        check_noise(model, data)
        if isinstance(model, AdditiveGP) and (
            self.method != "natural"
            or self.starts > 1
            or (self.optimiser is not None and self.batch_size is None)
        ):
            raise ValueError(
                "additive models take method='natural', with L-BFGS from one start or with an "
                "Optax optimiser in minibatches (batch_size)"
            )
        if self.method in ("laplace", "ep", "vb") and likelihood.latents > 1:
            raise ValueError(
                f"method={self.method!r} is for likelihoods with one latent function, not for "
                f"{type(likelihood).__name__}; use method='natural'"
            )
        if self.method == "laplace" and isinstance(likelihood, Laplace):
            raise ValueError(
                "Laplace's approximation needs a second derivative, which the Laplace likelihood "
                "does not have; use method='natural' or 'ep'"
            )
        for kernel in model.kernels:
            if self.method == "gradient" and any(b.deterministic for b in kernel.blocks()):
                raise ValueError(
                    "method='gradient' needs the precision of the states, which deterministic "
                    f"kernels do not have: {kernel!r}; use method='natural'"
                )
        logistic = isinstance(likelihood, Bernoulli) and likelihood.link == "logit"
        if self.method == "vb" and not logistic:
            raise ValueError(
                "method='vb' is a bound on the logistic function, for Bernoulli(link='logit') "
                f"only, not for {likelihood!r}; use method='natural'"
            )
        if self.method == "ep" and np.any(np.asarray(data.weights) != 1):
            raise ValueError("method='ep' does not take weights; use method='natural'")


def check_noise(model: GP | AdditiveGP, data: Observations | Observed) -> None:
    """Refuse Gaussian observations without any noise."""
    if isinstance(model.likelihood, Gaussian):
        smallest = float(model.likelihood.variance) + float(jnp.min(data.extra))
        if not smallest > 0:
            raise ValueError(
                "observations without noise: the likelihood's variance is zero, so "
                "noise_variance must be given and positive"
            )


def _check_whole(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _check_number(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def _as_optimiser(optimiser: Any, steps: int) -> optax.GradientTransformation | None:
    if isinstance(optimiser, str) and optimiser == "lbfgs":
        return None
    if isinstance(optimiser, str) and optimiser == "adam":
        return _adam(steps)
    if not isinstance(optimiser, optax.GradientTransformation):
        raise ValueError(
            f"optimiser must be 'lbfgs', 'adam' or an Optax optimiser, got {optimiser!r}"
        )
    return optimiser


@functools.lru_cache(maxsize=16)
def _adam(steps: int) -> optax.GradientTransformation:
    """The same object for the same settings, so that nothing compiles twice."""
    return optax.adam(optax.cosine_decay_schedule(0.03, steps, alpha=0.03))
