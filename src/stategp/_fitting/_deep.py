"""A deep model: what its methods are given, and the posterior they make."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import Observations, observe
from stategp._fitting._settings import Settings
from stategp._fitting._task import Task, check_finite
from stategp._inference import FitResult, Output, deep_chains, estimate_bound
from stategp._models import DeepGP, Path
from stategp._posteriors import DeepPosterior
from stategp._runtime import Progress
from stategp.chain import PairMarginals, Sites
from stategp.parameters import to_vector

_SAMPLES = 100  # through the layers, for the final bound


@dataclasses.dataclass(frozen=True)
class DeepTask(Task):
    """The observations of every output."""

    outputs: tuple[Output, ...]

    @staticmethod
    def of(series: list[Observations], settings: Settings, show: Progress) -> "DeepTask":
        outputs = tuple(
            Output(
                jnp.asarray(_in_user_units(data)),
                *(jnp.asarray(np.asarray(v)) for v in (data.y, data.extra, data.weights)),
            )
            for data in series
        )
        return DeepTask(settings, show, outputs)

    @property
    def count(self) -> int:
        return sum(len(output.x) for output in self.outputs)

    def scales(self, model: DeepGP) -> np.ndarray:
        return np.ones(len(to_vector(model)))

    def refined(self, model: DeepGP) -> None:
        return None

    def posterior(
        self, model: DeepGP, sites: dict[Path, Sites], result: FitResult, indefinite: bool
    ) -> DeepPosterior:
        """What was found, a chain for each layer; the bound is estimated anew."""
        many = DeepGP(model.layers, model.function, model.likelihood, samples=_SAMPLES)
        key = jax.random.key(self.settings.seed)
        marginals, elbo = _final(many, sites, self.outputs, key, indefinite)
        check_finite(model, elbo)
        counts = tuple(len(output.x) for output in self.outputs)
        return DeepPosterior(model, sites, marginals, float(elbo), counts, result, indefinite)


@functools.partial(jax.jit, static_argnames="indefinite")
def _final(
    model: DeepGP,
    sites: dict[Path, Sites],
    outputs: tuple[Output, ...],
    key: PRNGKeyArray,
    indefinite: bool,
) -> tuple[dict[Path, PairMarginals], Float[Array, ""]]:
    chains = deep_chains(model, sites, indefinite)
    marginals = {path: q.marginals for path, (_, q) in chains.items()}
    return marginals, estimate_bound(model, sites, chains, outputs, key)


def observe_outputs(
    model: DeepGP, x: Any, y: Any, extras: Mapping[str, Any], weights: Any
) -> list[Observations]:
    """One series for each output."""
    if not model.takes_number:
        return [observe(x, y, model.likelihood, extras=extras, weights=weights)]
    if not isinstance(y, list | tuple):
        raise ValueError(
            "the function of this model takes the number of an output, so y must be a list with "
            "an array for each output, and x a list of inputs or one array for all"
        )
    inputs = x if isinstance(x, list | tuple) else [x] * len(y)
    if len(inputs) != len(y):
        raise ValueError(f"x and y must be lists of equal lengths, got {len(inputs)} and {len(y)}")
    each: dict[str, list[Any]] = {}
    for name, value in {**extras, "weights": weights}.items():
        each[name] = list(value) if isinstance(value, list | tuple) else [value] * len(y)
        if len(each[name]) != len(y):
            raise ValueError(f"{name} must be a list with one entry for each of {len(y)} outputs")
    counts = each.pop("weights")
    return [
        observe(
            inputs[i],
            y[i],
            model.likelihood,
            extras={name: values[i] for name, values in each.items()},
            weights=counts[i],
        )
        for i in range(len(y))
    ]


def _in_user_units(data: Observations) -> np.ndarray:
    """The inputs that the user's function sees, if double precision can hold them."""
    relative, origin = np.asarray(data.x), data.origin
    ends = [origin, origin + int(relative[-1])] if isinstance(origin, int) else []
    if any(abs(end) > 2**53 for end in ends):
        raise ValueError(
            "the inputs of a deep model are whole numbers beyond 2⁵³, which the function of the "
            f"model cannot tell apart (they begin at {origin}); subtract the first of them"
        )
    return relative + float(origin)
