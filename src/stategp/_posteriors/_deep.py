"""Deep models: learning, and the posterior that comes of it."""

import functools
from collections import Counter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import check_support, extra_values
from stategp._data import numbers as as_numbers
from stategp._files import save
from stategp._inference import (
    FitResult,
    Output,
    Tape,
    deep_chains,
    run_output,
    trace_calls,
)
from stategp._models import GP, DeepGP, Layer, Path
from stategp._posteriors._at_points import predict
from stategp._posteriors._paths import Drawn, look
from stategp._posteriors._pointwise import Points, padded
from stategp._posteriors._prediction import Chain, sample
from stategp._posteriors._shown import Shown
from stategp._posteriors._tells_states import TellsStates
from stategp._runtime import as_key, on_device
from stategp.chain import PairMarginals, Sites, prior_transitions, sample_states
from stategp.likelihoods import Gaussian, Likelihood

_SAMPLES = 100  # through the layers, for predictions and the final bound


class Function(TellsStates):
    """The posterior of one function of a deep model."""

    chain: Chain
    indefinite: bool = eqx.field(static=True, default=False)

    @property
    def inducing(self) -> np.ndarray:
        """Where its inducing states are."""
        return np.asarray(self.chain.inducing)

    def predict_f(self, x_new: Any) -> tuple[Points, Points]:
        """Mean and variance of the function."""
        return predict(self.chain, self._points(x_new))

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of the function."""
        return sample(self.chain, as_key(key), self._points(x_new), num_samples, self.indefinite)

    @property
    def _chain(self) -> Chain:
        return self.chain

    def _relative(self, name: str, x: Any) -> np.ndarray:
        return as_numbers(name, x)

    def _points(self, x_new: Any) -> Points:
        points: Points = on_device(self._relative("x_new", x_new))
        return points

    @property
    def _negative(self) -> bool:
        return self.indefinite


class DeepPosterior(Shown):
    """The posterior of a deep model: a chain of states for every function of it.

    `functions` has the posterior of each function by name. Predictions pass samples through the
    layers (`samples` of them, drawn with `seed`), so that their moments have a Monte Carlo error;
    `number` selects the output. `elbo`, the bound on log p(y), is an estimate too.
    """

    model: DeepGP
    sites: dict[Path, Sites]
    marginals: dict[Path, PairMarginals]
    elbo: float
    observations: tuple[int, ...] = eqx.field(static=True)
    fit_result: FitResult | None = eqx.field(static=True, default=None)
    indefinite: bool = eqx.field(static=True, default=False)  # sites may be negative

    @property
    def functions(self) -> dict[str, Any]:
        """The posterior of every function, by name; a list if there are several of that name."""
        return {
            name: [self._function((name, i)) for i in range(len(layers))]
            if isinstance(layers, tuple)
            else self._function((name, None))
            for name, layers in self.model.layers.items()
        }

    def save(self, path: Any) -> None:
        """Write the posterior to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def _function(self, path: Path) -> Function:
        layer = self.model.layer(path)
        gp = GP(layer.kernel, Gaussian(), layer.mean)
        origin = jnp.zeros(())
        sites, marginals = (self.sites[path],), (self.marginals[path],)
        return Function(Chain(gp, layer.inducing, origin, sites, marginals), self.indefinite)

    def predict_f(
        self, x_new: Any, number: int = 0, *, samples: int = _SAMPLES, seed: int = 0
    ) -> tuple[Points, Points]:
        """Mean and variance of an output before its noise.

        >>> import numpy as np, stategp as sg
        >>> x = np.linspace(0, 1, 30)
        >>> layers = [sg.Layer(sg.kernels.Matern32(), inducing=5) for _ in range(2)]
        >>> model = sg.DeepGP.stack(layers, sg.likelihoods.Gaussian(variance=0.01))
        >>> posterior = sg.condition(model, x, np.sin(6 * x), max_steps=400, tolerance=1.0)
        >>> mean, variance = posterior.predict_f([0.5])
        """
        means, variances = self._run(x_new, number, samples, seed)
        return _mixture_moments(means, variances)

    def predict_y(
        self,
        x_new: Any,
        number: int = 0,
        *,
        samples: int = _SAMPLES,
        seed: int = 0,
        **extras: Any,
    ) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        means, variances = self._run(x_new, number, samples, seed)
        extra = self._extra(means, extras)
        return _observation_moments(self.model.likelihood, means, variances, extra)

    def log_density(
        self,
        x_new: Any,
        y_new: Any,
        number: int = 0,
        *,
        samples: int = _SAMPLES,
        seed: int = 0,
        **extras: Any,
    ) -> Points:
        """Log predictive density of each new observation separately."""
        means, variances = self._run(x_new, number, samples, seed)
        y = as_numbers("y_new", y_new)
        if len(y) != means.shape[1]:
            raise ValueError(
                f"y_new must have one value per point, got {len(y)} for {means.shape[1]}"
            )
        extra = self._extra(means, extras)
        check_support(self.model.likelihood, "y_new", y, np.asarray(extra[0]))
        return _mixture(self.model.likelihood, jnp.asarray(y), means, variances, extra)

    def quantiles(self, *_: Any, **__: Any) -> Points:
        """Not available for deep models, whose predictions are mixtures over samples."""
        raise NotImplementedError(
            "quantiles, cdf and crps are not available for deep models: use predict_y, "
            "log_density, or quantiles of sample_f"
        )

    cdf = crps = quantiles

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1, number: int = 0
    ) -> Float[Array, "samples points"]:
        """Joint samples of an output before its noise, by sampling one function after the other.

        A function that is called more than once is drawn once, and evaluated at all its inputs.
        """
        self._check(number)
        x = jnp.asarray(as_numbers("x_new", x_new))
        count, calls = int(num_samples), 0
        often = Counter(path for path, _ in trace_calls(self.model, number, len(x)))
        drawn: dict[Path, Drawn] = {}

        def visit(path: Path, inputs: Any) -> Array:
            nonlocal calls
            call_key = jax.random.fold_in(as_key(key), calls)
            calls += 1
            if often[path] > 1:
                layer, at = self.model.layer(path), jnp.asarray(inputs).reshape(count, -1)
                if path not in drawn:
                    state_key, call_key = jax.random.split(call_key)
                    drawn[path] = _draw(layer, self.sites[path], state_key, count, self.indefinite)
                f, drawn[path] = look(layer.kernel, drawn[path], call_key, at)
                mean = layer.mean(at.reshape(-1)).reshape(at.shape)
                return (mean + f).reshape(inputs.shape)
            keys = jax.random.split(call_key, count)
            chain = self._function(path).chain

            def draw(key: PRNGKeyArray, x: Array) -> Array:
                return sample(chain, key, x, 1, self.indefinite)[0]

            return jax.vmap(draw)(keys, jnp.asarray(inputs))

        through = self.model.compose(visit, jnp.broadcast_to(x[None], (count, len(x))), number)
        return jnp.asarray(through)

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self.observations):
            raise ValueError(f"the model has {len(self.observations)} outputs, got {number}")

    def _run(self, x_new: Any, number: int, samples: int, seed: int) -> tuple[Array, Array]:
        self._check(number)
        x = jnp.asarray(as_numbers("x_new", x_new))
        whole = padded(x)
        model = DeepGP(
            self.model.layers, self.model.function, self.model.likelihood, samples=samples
        )
        means, variances = _propagate(
            model, self.sites, whole, jax.random.key(seed), number, self.indefinite
        )
        return means[:, : len(x)], variances[:, : len(x)]

    def _extra(self, means: Array, extras: dict[str, Any]) -> Array:
        values = extra_values(self.model.likelihood, means.shape[1], extras)
        return jnp.broadcast_to(jnp.asarray(values)[None], means.shape)

    def __repr__(self) -> str:
        functions = ", ".join(name if i is None else f"{name}[{i}]" for name, i in self.model.paths)
        lines = [
            f"DeepPosterior of {functions}",
            f"  {', '.join(map(str, self.observations))} observations",
            f"  ELBO about {self.elbo:.6g}",
        ]
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)


@functools.partial(jax.jit, static_argnames=("number", "indefinite"))
def _propagate(
    model: DeepGP,
    sites: dict[Path, Sites],
    x: Points,
    key: PRNGKeyArray,
    number: int,
    indefinite: bool,
) -> tuple[Array, Array]:
    swept = deep_chains(model, sites, indefinite)
    chains = {path: (prior, q.marginals) for path, (prior, q) in swept.items()}
    nothing = jnp.zeros_like(x)
    return run_output(model, Tape(model, chains, key), Output(x, nothing, nothing, nothing), number)


@functools.partial(jax.jit, static_argnames=("count", "indefinite"))
def _draw(layer: Layer, sites: Sites, key: PRNGKeyArray, count: int, indefinite: bool) -> Drawn:
    """Samples of the states of a function."""
    prior = prior_transitions(layer.kernel, layer.inducing)
    states = sample_states(prior, sites, key, count, indefinite=indefinite)
    return Drawn(jnp.broadcast_to(layer.inducing, (count, layer.count)), states)


@jax.jit
def _mixture_moments(means: Array, variances: Array) -> tuple[Points, Points]:
    """Mean and variance of a mixture of one distribution for each sample."""
    return jnp.mean(means, axis=0), jnp.mean(variances, axis=0) + jnp.var(means, axis=0)


@jax.jit
def _observation_moments(
    likelihood: Likelihood, means: Array, variances: Array, extra: Array
) -> tuple[Points, Points]:
    return _mixture_moments(*likelihood.predict(means, variances, extra))


@jax.jit
def _mixture(
    likelihood: Likelihood, y: Points, means: Array, variances: Array, extra: Array
) -> Points:
    missing = jnp.isnan(y)
    stand_in = jnp.where(missing, y[jnp.argmin(missing)] if len(y) else 0.0, y)
    each = likelihood.log_predictive_density(
        jnp.broadcast_to(stand_in[None], means.shape), means, variances, extra
    )
    density = jax.nn.logsumexp(each, axis=0) - np.log(len(means))
    return jnp.where(missing, jnp.nan, density)
