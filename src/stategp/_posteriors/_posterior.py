"""The posterior of a Gaussian process on one input."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import (
    Observations,
    check_support,
    extra_values,
    observation_weights,
    place_inducing,
    relative_inputs,
    traced_inputs,
)
from stategp._inference import Certificate, ChainSites, FitResult, infer
from stategp._models import GP
from stategp._posteriors._at_points import Seen, component_moments, moments_of, see
from stategp._posteriors._filter import Filter
from stategp._posteriors._importance import ImportanceWeighted
from stategp._posteriors._leave_one_out import as_fitted, without_each
from stategp._posteriors._pointwise import Latent, Points, per_point
from stategp._posteriors._prediction import Chain, Predicts, States, sample
from stategp._posteriors._starting_filter import start_filter
from stategp._posteriors._tells_states import TellsStates
from stategp._runtime import as_count, as_key, is_traced, least_size, on_device, refuse_traced
from stategp.chain import PairMarginals

_DRAWN = 2**21  # random numbers that take no time


class Posterior(Predicts, TellsStates, ImportanceWeighted):
    """The posterior of f, as a Gauss–Markov chain of states at the inducing locations.

    Returned by `sg.condition` and `sg.fit`. Predictions take inputs in any order, inside or outside
    the data. If the likelihood has several latent functions, moments and samples of f have a last
    axis with one entry for each.

    `elbo` is the bound on log p(y); for `method="laplace"` and "ep", which have no bound, it is
    their approximation of log p(y) (`is_bound` is then false). `certificate` reports how
    `inducing="auto"` chose the number of inducing points.
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
    settled: bool = eqx.field(static=True, default=False)  # q is at the optimum, to the last digits

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
        return moments_of(self._seen(self._points(x_new)))

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of the latent function, in time linear in the number of points.

        `key` is a JAX random key or an integer seed.

        >>> import numpy as np, stategp as sg
        >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
        >>> posterior.sample_f(0, np.linspace(0, 5, 11), num_samples=4).shape
        (4, 11)
        """
        count, x = as_count(num_samples), self._points(x_new)
        if count == 0 or len(x) == 0:
            latents = () if len(self.model.kernels) == 1 else (len(self.model.kernels),)
            return jnp.zeros((count, len(x), *latents))
        return sample(
            self._padded(self._least_states(count)), as_key(key), x, count, self._negative
        )

    def components(self, x_new: Any) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of each component of the kernel, by name (without the mean function).

        The pattern of a periodic mean function is a component of its own, "pattern".
        With several latent functions the names start with the number of the function: "1.cosine".
        """
        moments = component_moments(self.model, self._seen(self._points(x_new)))
        several = len(moments) > 1
        return {
            f"{number}.{name}" if several else name: pair
            for number, parts in enumerate(moments)
            for name, pair in parts.items()
        }

    def update(
        self,
        x_new: Any,
        y_new: Any = None,
        *,
        refine: Any = False,
        inducing: Any = None,
        weights: Any = None,
        forget: Any = None,
        window: Any = None,
        method: Any = None,
        progress: Any = None,
        **extras: Any,
    ) -> "Posterior":
        """The posterior with more observations, at the end of the others or anywhere.

        Hyperparameters stay as they are, and the answer is that of `sg.condition` with all
        observations and the same inducing points. Nothing starts over: where every observation has
        a state, new ones get theirs; otherwise states are added where there are none, at the
        distance they have elsewhere; and q takes natural-gradient steps from where it stands.
        Gaussian observations at the end, or among states that are there, take one sweep over the
        states and no pass over old observations; others a few passes over all of them. (`filter`
        takes the same time for each, however many there were.)

        Arguments:
            x_new: inputs, as for `sg.condition`, none or as many as you like. Where the posterior
                is that of a summary, or of a stream that was summed up, also a summary
                (`sg.summarise`) or stream (`sg.stream`) of the new rows.
            y_new: observations; NaN means missing.
            refine: whether to learn the hyperparameters again, from their present values.
            inducing: other inducing points for all, as for `sg.condition` (a number, locations or
                "data").
            weights: the number of times each new observation counts.
            forget: after so long, in the units of x, an observation counts e⁻¹ ≈ 37 % as much: each
                new one is weighed by e^(−age/forget) as the last one comes, and the weights of old
                ones shrink by what the time since then takes (sums as a whole).
            window: observations that lie further than this before the last one are dropped, and
                so are their states. Not for sums.
            method: how q is found, by default "natural". After method="laplace" or "ep" it has to
                be given.
            progress: whether to show the bound on standard error.
            extras: `noise_variance`, `exposure` or `trials` of the new observations.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(variance=0.1))
        >>> posterior = sg.condition(model, np.arange(3), [0.0, 1.0, 0.0])
        >>> len(posterior.update([3, 1.5], [0.5, 0.8]).data)
        5
        """
        from stategp._fitting import update

        options = {"weights": weights, "method": method, "progress": progress}
        options |= {"forget": forget, "window": window, "inducing": inducing}
        return update(self, x_new, y_new, refine=refine, **options, **extras)

    def filter(self, *, forget: Any = None, window: Any = None, lag: Any = None) -> Filter:
        """What forecasts need of this posterior, to be kept up to date one by one (`sg.Filter`).

        Arguments:
            forget: after so long, in the units of x, what was learned counts e⁻¹ ≈ 37 % as much:
                the precision that observations added to the prior is discounted by e^(−Δ/forget)
                over a time Δ. It matters for what would otherwise be remembered for ever, such as
                levels and seasons, and pulls forecasts back to the prior over the same time.
            window: observations of the last `window` count, and none that are older than two of
                them: after every window, what came before the last one is dropped. (To count those
                of the last window exactly, all of them would have to be kept:
                `update(…, window=…)` does.)
            lag: for observations that are not Gaussian, how many before the last are revised with
                every new one. Each step then takes time in proportion to the lag, whatever came
                before, and the answer is that of `sg.condition` to the digits that what happened
                so many observations ago no longer changes; a kernel with something that is never
                forgotten (a constant, a season that stays the same) has no such lag.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(variance=0.1))
        >>> filter = sg.condition(model, np.arange(3), [0.0, 1.0, 0.0]).filter()
        >>> for x, y in [(3, 0.5), (4, 0.7)]:
        ...     filter = filter.update(x, y)
        >>> low, median, high = filter.quantiles([5.0, 6.0])
        """
        if type(self) is not Posterior:
            raise ValueError(
                "a filter is for a Gaussian process alone: with regressors, holidays or events "
                "use forecaster.update(frame)"
            )
        refuse_traced("the posterior", self)
        return start_filter(self, forget, window, lag)

    def prior_sample(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of f from the prior, to compare with `sample_f`."""
        return self.model.prior_sample(key, x_new, num_samples)

    def leave_one_out(
        self, x: Any, y: Any, *, weights: Any = None, **extras: Any
    ) -> tuple[Latent, Latent]:
        """Mean and variance of f at each observation, given all the others.

        `x` and `y` are the data of the fit, or a part of them. The contribution of each observation
        to q is removed (with its full weight); nothing is fitted again, so the hyperparameters are
        those learned from all observations. `weights` and what the likelihood reads beside y
        (`noise_variance`, `exposure`, `trials`) are those of the fit, and are taken from there
        unless given.
        """
        return self._without_each(x, y, weights, extras)[:2]

    def _without_each(
        self, x: Any, y: Any, weights: Any, extras: dict[str, Any]
    ) -> tuple[Latent, Latent, np.ndarray, np.ndarray]:
        """Mean and variance of f as in `leave_one_out`, y, and what is read beside it."""
        relative = self._relative("x", x)
        likelihood = self.model.likelihood
        observed = self._targets(y, len(relative))
        seen = ~np.isnan(observed)
        extra = extra_values(likelihood, len(relative), extras, needed=seen)
        name, usual = likelihood.extra, likelihood.extra_default
        if name is not None and extras.get(name) is None:
            extra = as_fitted(name, self.data.extra, usual, self.data, relative, observed)
        check_support(likelihood, "y", observed, extra)
        if weights is None:
            counts = as_fitted("weights", self.data.weights, 1.0, self.data, relative, observed)
        else:
            counts = observation_weights(weights, len(relative), seen)
        if len(relative) == 0:
            return *self.predict_f(x), observed, extra
        there = self._seen(on_device(relative))
        moments = without_each(likelihood, there, observed, np.asarray(extra), counts)
        return *moments, observed, extra

    def tail_probability(self, x: Any, y: Any, *, weights: Any = None, **extras: Any) -> Points:
        """The probability of an observation as extreme as each one, given all the others.

        Twice the one-sided probability, as in a two-sided test (NaN where y is NaN). Arguments
        are those of `leave_one_out`.
        """
        mean, variance, observed, extra = self._without_each(x, y, weights, extras)
        likelihood = self.model.likelihood
        below, strictly = (
            np.asarray(per_point(likelihood, "predictive_cdf", edge, mean, variance, extra))
            for edge in likelihood.edges(observed, np.asarray(extra))
        )
        probability: Points = on_device(np.minimum(1.0, 2 * np.minimum(below, 1 - strictly)))
        return probability

    def log_marginal_likelihood(self) -> float:
        """The exact log p(y) of the model, computed with inducing points at the data.

        For Gaussian observations only; for others it cannot be computed exactly.
        """
        if not self.model.likelihood.conjugate:
            raise ValueError(
                "log p(y) is known for Gaussian observations only, not for "
                f"{type(self.model.likelihood).__name__}; `elbo` is a lower bound on it"
            )
        if not self.data.individual:
            raise ValueError(
                "log p(y) itself needs the observations, and this posterior is that of a summary "
                "or stream; "
                "`elbo` is a lower bound on it"
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

    def _seen(self, x: Points) -> Seen:
        """f at points, measured from the origin."""
        return see(self.chain, x)

    @property
    def _observed(self) -> Observations:
        return self.data

    @property
    def chain(self) -> Chain:
        """What predictions need, padded to one of few sizes."""
        return self._padded(1)

    def _padded(self, least: int) -> Chain:
        origin, inducing = self._origin, np.asarray(self.relative_inducing)
        return Chain.padded(self.model, inducing, origin, self.sites, self.marginals, least)

    def _least_states(self, samples: int) -> int:
        """Chains with a state at every input have all lengths; short ones share a size."""
        if len(self.relative_inducing) < len(self.data.edges()):
            return 1
        dims = [kernel.state_dim for kernel in self.model.kernels]
        return min(least_size(sum(d**2 for d in dims)), max(_DRAWN // (samples * sum(dims)), 1))

    @property
    def _chain(self) -> Chain:
        return self.chain

    def _relative(self, name: str, x: Any) -> np.ndarray:
        return relative_inputs(name, x, self._origin)

    def _points(self, x_new: Any) -> Points:
        if is_traced(x_new):
            return traced_inputs("x_new", x_new, self._origin)
        points: Points = on_device(self._relative("x_new", x_new))
        return points

    @property
    def _origin(self) -> int | float:
        refuse_traced("the posterior", self)
        return self.data.origin

    @property
    def _negative(self) -> bool:
        return self.indefinite or not self.model.likelihood.log_concave

    def __repr__(self) -> str:
        lines = [
            f"Posterior of {self.model!r}",
            f"  {self.data.observed} observations, {len(self.relative_inducing)} inducing states "
            f"of dimension {' and '.join(str(k.state_dim) for k in self.model.kernels)}",
            f"  ELBO {self.elbo:.6g}",
        ]
        if self.certificate is not None:
            lines.append(f"  {self.certificate}")
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)

    def plot_checks(self, **options: Any) -> Any:
        """A figure that shows whether the model fits: calibration and residuals."""
        from stategp import plots

        return plots.plot_checks(self, **options)
