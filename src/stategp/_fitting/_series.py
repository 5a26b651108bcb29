"""A Gaussian process on a series: what its methods are given, and the posterior they make."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations, OnStretches, distinct_inputs
from stategp._fitting._settings import Settings
from stategp._fitting._task import Task, check_finite, larger_kernels
from stategp._inference import ChainSites, FitResult, Limits, search_limits, search_scales
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress, least_size, on_device, pad_inducing
from stategp.chain import PairMarginals, Sites
from stategp.parameters import named_parameters


@dataclasses.dataclass(frozen=True)
class SeriesTask(Task):
    """Observations in order of x, and the inducing locations."""

    data: Observations
    inducing: Float[Array, " states"]  # padded to one of few sizes
    states: int  # how many of them count

    @staticmethod
    def of(
        model: GP, data: Observations, inducing: np.ndarray, settings: Settings, show: Progress
    ) -> "SeriesTask":
        padded = fill_up(model, data, inducing) if settings.method.pads else inducing
        return SeriesTask(settings, show, data, on_device(padded), len(inducing))

    @property
    def count(self) -> int:
        return self.data.observed

    @property
    def span(self) -> float | None:
        return float(self.data.x[-1] - self.data.x[0])

    def scales(self, model: GP) -> np.ndarray:
        return search_scales(model, self.data)

    def limits(self, model: GP, *, swept: bool = False) -> Limits:
        swept = swept or not self.data.individual
        return search_limits(model, np.asarray(self.data.y), swept=swept)

    def exact(self, model: GP) -> bool:
        """Whether q can be p(f | y): Gaussian observations, each of them at an inducing point."""
        inducing = np.asarray(self.inducing)
        conjugate = model.likelihood.conjugate and self.data.individual
        return conjugate and bool(np.all(np.isin(self.data.x, inducing)))

    def beyond(self, model: GP) -> str:
        if not isinstance(self.data, OnStretches):
            return ""
        shortest = self.data.shortest
        for name, parameter in named_parameters(model):
            value = float(np.min(np.asarray(parameter.value)))
            if parameter.role == "lengthscale" and parameter.learned and value < shortest:
                return (
                    f"{name} fell to {value:.3g}, below the shortest lengthscale that the "
                    f"{self.data.source} was made for ({shortest:.3g}): make it again with "
                    f"shortest={value / 4:.1g}, or fix the lengthscale"
                )
        return ""

    def refined(self, model: GP) -> "tuple[GP, SeriesTask] | None":
        kernels = larger_kernels(model.kernels)
        if kernels is None:
            return None
        return GP(tuple(kernels), model.likelihood, model.means), self

    def posterior(
        self,
        model: GP,
        sites: ChainSites,
        marginals: tuple[PairMarginals, ...],
        elbo: Any,
        result: FitResult | None,
        **flags: Any,
    ) -> Posterior:
        """What was found, without the inducing points that only fill up."""
        if isinstance(self.data, OnStretches) and not np.isfinite(elbo):
            raise FloatingPointError(
                f"the bound is not known for {model!r}: f varies too much within stretches of the "
                f"{self.data.source}, or the signal is too many orders of magnitude above the "
                f"noise; make the {self.data.source} with a smaller `shortest`, or subtract a mean "
                "(mean=sg.means.Constant())"
            )
        check_finite(model, elbo)
        pairs = zip(sites, marginals, strict=True)
        kept = [unpadded(site, marginal, self.states) for site, marginal in pairs]
        inducing = np.asarray(self.inducing)[: self.states]
        return Posterior(
            model,
            self.data,
            on_device(inducing),
            tuple(site for site, _ in kept),
            tuple(marginal for _, marginal in kept),
            float(elbo),
            result,
            **flags,
        )


def fill_up(model: GP, data: Observations, inducing: np.ndarray) -> np.ndarray:
    """Inducing locations with repetitions of the last, up to one of few sizes.

    Gaussian observations at their own states need little time for each: series of many lengths then
    share a size, and what was compiled for it.
    """
    entries = sum(kernel.state_dim**2 for kernel in model.kernels)
    alike = model.likelihood.conjugate and np.array_equal(
        inducing, distinct_inputs(np.asarray(data.x))
    )
    return pad_inducing(inducing, least_size(entries)) if alike else pad_inducing(inducing)


def unpadded(sites: Sites, pairs: PairMarginals, states: int) -> tuple[Sites, PairMarginals]:
    """A chain without the inducing points that only fill up."""
    keep = np.append(np.arange(states), len(pairs.mean) - 1)  # the last interval stays last
    sites = jax.tree.map(lambda leaf: np.asarray(leaf)[keep], sites)
    mean, covariance = np.asarray(pairs.mean)[keep], np.asarray(pairs.covariance)[keep]
    # The last state is the same, to the last digit, seen from both sides.
    dim = mean.shape[1] // 2
    mean[-1, :dim] = mean[-2, dim:]
    covariance[-1, :dim, :dim] = covariance[-2, dim:, dim:]
    return on_device(sites), PairMarginals(*on_device((mean, covariance)))
