"""What the user holds after inference."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import (
    Observations,
    check_support,
    extra_values,
    place_inducing,
    relative_inputs,
)
from stategp._inference import Certificate, ChainSites, FitResult, infer
from stategp._models import GP
from stategp._posteriors._prediction import (
    Chain,
    Latent,
    Points,
    Predicts,
    States,
    as_key,
    component_moments,
    padded,
    per_point,
    predict,
    sample,
    summands_of,
)
from stategp._runtime import pad_last
from stategp.chain import PairMarginals
from stategp.likelihoods import Likelihood


class Posterior(Predicts):
    """The posterior of f, as a Gauss–Markov chain of states at the inducing locations.

    Made by `sg.condition` and `sg.fit`; predictions take inputs in any order, inside or outside
    the data. Where the likelihood reads several latent functions, moments and samples of f have a
    last axis with one entry for each.

    `elbo` is the bound on log p(y); after `method="laplace"` and "ep", which have no bound, it is
    their approximation of log p(y) (`is_bound` says which). `certificate` says
    how `inducing="auto"` chose its number.
    """

    model: GP
    data: Observations
    relative_inducing: States  # measured from the origin of the data
    sites: ChainSites
    marginals: tuple[PairMarginals, ...]
    elbo: float
    fit_result: FitResult | None = eqx.field(static=True, default=None)
    certificate: Certificate | None = eqx.field(static=True, default=None)
    indefinite: bool = eqx.field(static=True, default=False)  # sites may be negative
    is_bound: bool = eqx.field(static=True, default=True)  # whether `elbo` is one

    @property
    def inducing(self) -> np.ndarray:
        """The inducing locations, in the user's units."""
        return np.asarray(self.relative_inducing) + self.data.origin

    def predict_f(self, x_new: Any) -> tuple[Latent, Latent]:
        """Mean and variance of the latent function.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> mean, variance = posterior.predict_f([0.5, 10.0])
        """
        x = self._relative(x_new)
        mean, variance = predict(self.chain, padded(x))
        return mean[: len(x)], variance[: len(x)]

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of the latent function at many points, in time linear in their number.

        `key` is a JAX random key or an integer seed.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> posterior.sample_f(0, np.linspace(0, 5, 11), num_samples=4).shape
        (4, 11)
        """
        if isinstance(num_samples, bool) or not isinstance(num_samples, int | np.integer):
            raise ValueError(f"num_samples must be a whole number, got {num_samples!r}")
        x = self._relative(x_new)
        if num_samples < 1 or len(x) == 0:
            latents = () if len(self.model.kernels) == 1 else (len(self.model.kernels),)
            return jnp.zeros((max(num_samples, 0), len(x), *latents))
        negative = self.indefinite or not self.model.likelihood.log_concave
        f = sample(self.chain, as_key(key), padded(x), num_samples, negative)
        return f[:, : len(x)]

    def components(self, x_new: Any) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of each summand of the kernel, by name (the mean function apart).

        With several latent functions the names start with the number of the function: "1.cosine".
        """
        x = self._relative(x_new)
        summands = [summands_of(kernel) for kernel in self.model.kernels]
        moments = component_moments(
            self.chain,
            padded(x),
            tuple(tuple(kernels.values()) for kernels in summands),
        )
        several = len(summands) > 1
        return {
            f"{number}.{name}" if several else name: (mean[: len(x)], variance[: len(x)])
            for number, (names, parts) in enumerate(zip(summands, moments, strict=True))
            for name, (mean, variance) in zip(names, parts, strict=True)
        }

    def leave_one_out(self, x: Any, y: Any, **extras: Any) -> tuple[Latent, Latent]:
        """Mean and variance of f at each observation, as all the others have it.

        `x` and `y` are what was fitted, or a part of it. What an observation added to q is taken
        off again; nothing is fitted anew, so hyperparameters stay those learned from all of them.
        """
        mean, variance = self.predict_f(x)
        likelihood = self.model.likelihood
        observed = self._targets(y, len(mean))
        extra = extra_values(likelihood, len(mean), extras, needed=~np.isnan(observed))
        check_support(likelihood, "y", observed, extra)
        if len(mean) == 0:
            return mean, variance
        # One of few sizes, as everywhere: each has to be compiled.
        size = len(padded(jnp.zeros(len(mean))))
        columns = [
            jnp.asarray(pad_last(np.asarray(column), size))
            for column in (observed, mean, variance, extra)
        ]
        alone, spread = _without_own(likelihood, *columns)
        return alone[: len(mean)], spread[: len(mean)]

    def tail_probability(self, x: Any, y: Any, **extras: Any) -> Points:
        """How probable an observation as far out as each one is, given all the others.

        Twice the probability of its side, as in a two-sided test (NaN where y is NaN).
        """
        mean, variance = self.leave_one_out(x, y, **extras)
        likelihood = self.model.likelihood
        observed = self._targets(y, len(mean))
        needed = ~np.isnan(observed)
        extra = jnp.asarray(extra_values(likelihood, len(mean), extras, needed=needed))
        before = np.ceil(observed) - 1 if likelihood.discrete else observed
        below, strictly = (
            per_point(likelihood, "predictive_cdf", edge, mean, variance, extra)
            for edge in (observed, before)
        )
        return jnp.minimum(1.0, 2 * jnp.minimum(below, 1 - strictly))

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the model, exactly: inference with inducing points at the data.

        For Gaussian observations only; for others no method knows it.
        """
        if not self.model.likelihood.conjugate:
            raise ValueError(
                "log p(y) is known for Gaussian observations only, not for "
                f"{type(self.model.likelihood).__name__}; `elbo` is a lower bound on it"
            )
        inducing = jnp.asarray(place_inducing("data", self.data))
        return float(infer(self.model, self.data, inducing).q.elbo)

    def kl_to_exact(self) -> float:
        """KL(q‖p(f | y)), the distance of this posterior from the exact one: log p(y) − ELBO."""
        if not self.is_bound:
            raise ValueError(
                "the distance from the exact posterior is known for variational methods, not after "
                "method='laplace' or 'ep', which have no bound"
            )
        return self.log_marginal_likelihood() - self.elbo

    @property
    def chain(self) -> Chain:
        """What predictions need, padded to one of few sizes."""
        inducing = np.asarray(self.relative_inducing)
        return Chain.padded(self.model, inducing, self.data.origin, self.sites, self.marginals)

    def _relative(self, x_new: Any) -> Points:
        return jnp.asarray(relative_inputs("x_new", x_new, self.data.origin))

    def __repr__(self) -> str:
        lines = [
            f"Posterior of {self.model!r}",
            f"  {len(self.data)} observations, {len(self.relative_inducing)} inducing states of "
            f"dimension {' and '.join(str(k.state_dim) for k in self.model.kernels)}",
            f"  ELBO {self.elbo:.6g}",
        ]
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)

    def plot(self, **options: Any) -> Any:
        """A figure of data, mean and intervals; with `until` (in the units of x), a forecast.

        Options are those of `sg.plots.plot`.
        """
        from stategp import plots

        return plots.plot(self, **options)

    def plot_components(self, **options: Any) -> Any:
        """A figure of each summand of the kernel; what repeats is drawn over one period."""
        from stategp import plots

        return plots.plot_components(self, **options)

    def plot_checks(self, **options: Any) -> Any:
        """A figure that says whether the model fits: calibration and residuals."""
        from stategp import plots

        return plots.plot_checks(self, **options)

    def report(self, path: Any, **options: Any) -> None:
        """Write one HTML file that shows everything, and needs nothing else to be read."""
        from stategp.report import write_report

        write_report(self, path, **options)


_LEAST = 1e-3  # of its precision that f keeps when an observation is taken away


@jax.jit
def _without_own(
    likelihood: Likelihood, y: Points, mean: Latent, variance: Latent, extra: Points
) -> tuple[Latent, Latent]:
    """Divide the site of each observation out of the marginal of f there.

    Its precision is −2h and its slope at the mean g, the derivatives of the expected log density.
    """
    missing = jnp.isnan(y)
    first = jnp.argmin(missing)  # what is missing must not disturb the others
    y, extra = (jnp.where(missing, column[first], column) for column in (y, extra))
    _, g, h = likelihood.expected_slopes(y, mean, variance, extra)
    seen = ~(missing if mean.ndim == 1 else missing[:, None])
    kept = jnp.maximum(1 + 2 * h * variance, _LEAST)
    return (
        jnp.where(seen, mean - variance * g / kept, mean),
        jnp.where(seen, variance / kept, variance),
    )
