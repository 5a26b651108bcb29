"""Deep models: learning, and the posterior that comes of it."""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.chain import PairMarginals, Sites
from stategp.data import Observations, check_support, extra_values, observe
from stategp.data import numbers as as_numbers
from stategp.inference import (
    Batches,
    DeepEverything,
    DeepState,
    FitResult,
    Output,
    Tape,
    ascend,
    checked,
    deep_bound,
    deep_chains,
    deep_step,
    estimate_bound,
    first_sites,
    first_xi,
    place_layers,
    run_output,
    xi_chains,
)
from stategp.learning import check_finite
from stategp.likelihoods import Gaussian, Likelihood
from stategp.models import GP, DeepGP
from stategp.models._deep import Path
from stategp.parameters import to_vector, with_vector
from stategp.prediction import Chain, Points, as_key, padded, predict, sample
from stategp.progress import Progress
from stategp.settings import Settings

_SAMPLES = 100  # through the layers, for predictions and the final bound


class Function(eqx.Module):
    """The posterior of one function of a deep model."""

    chain: Chain
    indefinite: bool = eqx.field(static=True, default=False)

    @property
    def inducing(self) -> np.ndarray:
        """Where its inducing states are."""
        return np.asarray(self.chain.inducing)

    def predict_f(self, x_new: Any) -> tuple[Points, Points]:
        """Mean and variance of the function."""
        x = jnp.asarray(as_numbers("x_new", x_new))
        mean, variance = predict(self.chain, padded(x))
        return mean[: len(x)], variance[: len(x)]

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of the function."""
        x = jnp.asarray(as_numbers("x_new", x_new))
        return sample(self.chain, as_key(key), padded(x), num_samples, self.indefinite)[:, : len(x)]


class DeepPosterior(eqx.Module):
    """The posterior of a deep model: a chain of states for every function of it.

    `functions` has them by name, for a look at each on its own. Predictions pass samples through
    the layers (`samples` of them, drawn from `seed`), so that their moments carry a Monte Carlo
    error; `number` says which output. `elbo` is an estimate too.
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
        """The posterior of every function: by name, a list where there are several."""
        return {
            name: [self._function((name, i)) for i in range(len(given))]
            if isinstance(given, tuple)
            else self._function((name, None))
            for name, given in self.model.layers.items()
        }

    def save(self, path: Any) -> None:
        """Write it to a file, for `sg.load`: numbers and names, nothing that could run."""
        from stategp.files import save

        save(self, path)

    def _function(self, path: Path) -> Function:
        layer = self.model.layer(path)
        gp = GP(layer.kernel, Gaussian(), layer.mean)
        origin = jnp.zeros(())
        own = (self.sites[path],), (self.marginals[path],)
        return Function(Chain(gp, layer.inducing, origin, *own), self.indefinite)

    def predict_f(
        self, x_new: Any, number: int = 0, *, samples: int = _SAMPLES, seed: int = 0
    ) -> tuple[Points, Points]:
        """Mean and variance of an output before its noise.

        >>> import numpy as np, stategp as sg
        >>> x = np.linspace(0, 1, 30)
        >>> layers = [sg.Layer(sg.kernels.Matern32(), inducing=5) for _ in range(2)]
        >>> model = sg.DeepGP.stack(layers, sg.likelihoods.Gaussian(variance=0.01))
        >>> posterior = sg.condition(model, x, np.sin(6 * x), max_steps=50, tolerance=1.0)
        >>> mean, variance = posterior.predict_f([0.5])
        """
        means, variances = self._run(x_new, number, samples, seed)
        return jnp.mean(means, axis=0), jnp.mean(variances, axis=0) + jnp.var(means, axis=0)

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
        centres, spreads = self.model.likelihood.predict(means, variances, extra)
        return jnp.mean(centres, axis=0), jnp.mean(spreads, axis=0) + jnp.var(centres, axis=0)

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
        """Log predictive density of each new observation on its own."""
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
        """Not there for deep models, whose predictions are mixtures over samples."""
        raise NotImplementedError(
            "quantiles, cdf and crps are not there for deep models: use predict_y, log_density, "
            "or quantiles of sample_f"
        )

    cdf = crps = quantiles

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1, number: int = 0
    ) -> Float[Array, "samples points"]:
        """Joint samples of an output before its noise: whole functions, one after the other.

        A function that is called more than once is drawn anew each time.
        """
        self._check(number)
        x = jnp.asarray(as_numbers("x_new", x_new))
        count, calls = int(num_samples), 0

        def visit(path: Path, inputs: Any) -> Array:
            nonlocal calls
            keys = jax.random.split(jax.random.fold_in(as_key(key), calls), count)
            calls += 1
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


# --- learning ----------------------------------------------------------------------------------


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
    for name, given in {**extras, "weights": weights}.items():
        each[name] = list(given) if isinstance(given, list | tuple) else [given] * len(y)
        if len(each[name]) != len(y):
            raise ValueError(f"{name} must be a list with one entry for each of {len(y)} outputs")
    counts = each.pop("weights")
    return [
        observe(
            inputs[i],
            y[i],
            model.likelihood,
            extras={name: given[i] for name, given in each.items()},
            weights=counts[i],
        )
        for i in range(len(y))
    ]


def learn_deep(
    model: DeepGP,
    series: list[Observations],
    settings: Settings,
    show: Progress,
    begin: DeepPosterior | None,
) -> DeepPosterior:
    """Hyperparameters, if any are open, and every q, by stochastic steps from `begin`, if given."""
    outputs = tuple(
        Output(
            jnp.asarray(np.asarray(data.x) + float(data.origin)),
            *(jnp.asarray(np.asarray(v)) for v in (data.y, data.extra, data.weights)),
        )
        for data in series
    )
    model = place_layers(model, [np.asarray(output.x) for output in outputs])
    scaled, key = to_vector(model), jax.random.key(settings.seed)
    scales = jnp.ones(len(scaled))
    optimiser = checked(settings.optimiser)
    sizes = [min(settings.batch_size or len(data), len(data)) for data in series]
    batches = [
        Batches(len(data), size, settings.seed + number)
        for number, (data, size) in enumerate(zip(series, sizes, strict=True))
    ]
    full = settings.batch_size is None
    total = sum(len(data) for data in series)

    def chosen() -> Any:
        return None if full else tuple(jnp.asarray(batch.next()) for batch in batches)

    natural = settings.method == "natural"
    first = first_sites(model) if begin is None else begin.sites
    negative = begin is not None and begin.indefinite
    if natural:
        start: Any = DeepState(scaled, optimiser.init(scaled), first)
        take = _natural_step(optimiser, negative)
    else:
        everything = first_xi(model, scaled, first, negative)
        start = everything, optimiser.init(everything)
        take = _gradient_step(optimiser)

    def step(state: Any, number: int) -> tuple[Any, Any, Any]:
        size = jnp.asarray(settings.step_size(number), dtype=float)
        own = jax.random.fold_in(key, number)
        new, value = take(state, model, outputs, chosen(), scales, size, own)
        return new, value, size if natural else jnp.nan

    end, result = ascend(
        step,
        start,
        max_steps=settings.max_steps,
        window=max(1, min(200, settings.max_steps // 3)),
        enough=(settings.tolerance or 1e-4) * total,
        noisy=True,
        stop_early=settings.tolerance is not None,
        report=show,
    )
    if natural:
        model, sites = with_vector(model, end.scaled * scales), end.sites
    else:
        model = with_vector(model, end[0].scaled * scales)
        sites, negative = xi_chains(model, end[0]), True
    return _as_posterior(model, sites, outputs, result, key, negative)


def _take(outputs: tuple[Output, ...], at: Any) -> tuple[Output, ...]:
    if at is None:
        return outputs
    return tuple(
        Output(o.x[i], o.y[i], o.extra[i], o.weights[i] * (len(o.x) / len(i)))
        for o, i in zip(outputs, at, strict=True)
    )


@functools.lru_cache(maxsize=16)
def _natural_step(optimiser: optax.GradientTransformation, indefinite: bool) -> Any:
    @jax.jit
    def step(
        state: DeepState, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[DeepState, Float[Array, ""]]:
        own = _take(outputs, at)
        return deep_step(optimiser, state, model, own, scales, size, key, indefinite=indefinite)

    return step


@functools.lru_cache(maxsize=16)
def _gradient_step(optimiser: Any) -> Any:
    @jax.jit
    def step(
        state: Any, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[Any, Float[Array, ""]]:
        everything, memory = state
        value, gradient = jax.value_and_grad(deep_bound)(
            everything, model, _take(outputs, at), scales, key
        )
        down = jax.tree.map(lambda leaf: -leaf, gradient)
        updates, memory = optimiser.update(down, memory, everything, value=-value, grad=down)
        moved: DeepEverything = optax.apply_updates(everything, updates)
        return (moved, memory), value

    return step


def _as_posterior(
    model: DeepGP,
    sites: dict[Path, Sites],
    outputs: tuple[Output, ...],
    result: FitResult,
    key: PRNGKeyArray,
    indefinite: bool,
) -> DeepPosterior:
    many = DeepGP(model.layers, model.function, model.likelihood, samples=_SAMPLES)
    marginals, elbo = _final(many, sites, outputs, key, indefinite)
    check_finite(model, elbo)
    counts = tuple(len(output.x) for output in outputs)
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
