"""A likelihood that the user writes."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Latent, Likelihood, Points, check_quadrature
from stategp.likelihoods._distribution import Coordinate
from stategp.parameters import Parameter, Value, positive

UserFunction = Callable[..., Array]

_GRID = np.sinh(np.linspace(-np.arcsinh(1e4), np.arcsinh(1e4), 401))
_ORDERS = {1: 32, 2: 12}  # nodes for each latent; with more latents, 7


class Custom(Likelihood):
    """A likelihood from its log density, written with jax.numpy for one observation at a time.

    ``log_density(y, f)`` works elementwise on arrays; with ``latents=2`` or more, ``f[..., 0]``,
    ``f[..., 1]``, … are the latent functions. `parameters` names positive numbers that `fit`
    learns; every function gets them as keywords. `mean` and `variance` of y given f are functions
    ``mean(f)``, needed to predict y, `sample` is ``sample(key, f)``, and `cdf` is ``cdf(y, f)``,
    P(Y ≤ y | f), needed for quantiles.

    Expectations have the accuracy of Gauss–Hermite quadrature with `quadrature` nodes. Predictive
    densities and EP assume that N(f) p(y | f) has one peak, which fails for a density with heavy
    tails and a scale much smaller than the uncertainty of f.

    >>> import jax.numpy as jnp, stategp as sg
    >>> def cauchy(y, f, scale):
    ...     return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)
    >>> sg.likelihoods.Custom(cauchy, parameters={"scale": 0.5})
    Custom(cauchy, scale=0.5)
    """

    function: UserFunction = eqx.field(static=True)
    latents: int = eqx.field(static=True)  # type: ignore[misc]  # of the instance, not the class
    parameters: dict[str, Parameter]
    mean: UserFunction | None = eqx.field(static=True)
    variance: UserFunction | None = eqx.field(static=True)
    sampler: UserFunction | None = eqx.field(static=True)
    distribution: UserFunction | None = eqx.field(static=True)
    quadrature: int = eqx.field(static=True)

    def __init__(
        self,
        log_density: Any,
        *,
        latents: Any = 1,
        parameters: Any = None,
        mean: Any = None,
        variance: Any = None,
        sample: Any = None,
        cdf: Any = None,
        quadrature: Any = None,
    ):
        functions = {"log_density": log_density, "mean": mean, "variance": variance}
        for name, function in {**functions, "sample": sample, "cdf": cdf}.items():
            optional = function is None and name != "log_density"
            if not optional and not callable(function):
                raise ValueError(f"{name} must be a function, got {function!r}")
        self.function = log_density
        self.latents = whole_number("latents", latents, least=1)
        self.parameters = _declared(parameters)
        self.mean, self.variance = mean, variance
        self.sampler, self.distribution = sample, cdf
        order = _ORDERS.get(self.latents, 7) if quadrature is None else quadrature
        self.quadrature = check_quadrature(order)
        y = jnp.zeros(3)
        f = y if self.latents == 1 else jnp.zeros((3, self.latents))
        try:
            jax.eval_shape(self.log_density, y, f, y)
        except (TypeError, ValueError, jax.errors.JAXTypeError) as error:
            if str(error).startswith("log_density"):
                raise
            names = "".join(f", {name}" for name in self.parameters)
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"log_density(y, f{names}) must work on arrays, written with jax.numpy (jnp.where "
                f"instead of if, jnp.log instead of np.log): {reason}"
            ) from error

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        return _checked("log_density(y, f)", self.function(y, f, **self._values()), y)

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        if self.mean is None or self.variance is None:
            raise ValueError(
                f"to predict y, {self} needs the mean and variance of y given f: "
                "pass Custom(..., mean=..., variance=...), functions of f"
            )
        y = f if self.latents == 1 else f[..., 0]
        return (
            _checked("mean(f)", self.mean(f, **self._values()), y),
            _checked("variance(f)", self.variance(f, **self._values()), y),
        )

    def cdf(self, y: Points, f: Latent, extra: Points) -> Points:
        if self.distribution is None:
            raise ValueError(
                f"quantiles, probabilities and CRPS of {self} need its distribution function: "
                "pass Custom(..., cdf=...), P(Y ≤ y | f) as a function of y and f"
            )
        return _checked("cdf(y, f)", self.distribution(y, f, **self._values()), y)

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        if self.mean is not None and self.variance is not None:
            return super().coordinate(mean, variance, extra)
        y = mean if self.latents == 1 else mean[..., 0]
        return Coordinate("real", jnp.zeros_like(y), jnp.ones_like(y))

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        if self.sampler is None:
            raise ValueError(
                f"to draw samples of y from {self}, pass Custom(..., sample=...), "
                "a function of a jax.random key and f"
            )
        y = f if self.latents == 1 else f[..., 0]
        return _checked("sample(key, f)", self.sampler(key, f, **self._values()), y)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        """The best of a grid of f, with a mild preference for small ones."""
        if self.latents > 1:
            return super().guess(y, extra)
        values = jnp.asarray(y, dtype=float)

        def better(best: tuple[Points, Points], f: Array) -> tuple[tuple[Points, Points], None]:
            at = jnp.full(values.shape, f)
            score = self.log_density(values, at, values) - f**2 / 200
            improves = score > best[1]  # never where it is NaN
            return (jnp.where(improves, at, best[0]), jnp.where(improves, score, best[1])), None

        start = (jnp.zeros_like(values), jnp.full(values.shape, -jnp.inf))
        (best, _), _ = jax.lax.scan(better, start, jnp.asarray(_GRID))
        return np.asarray(best)

    def _values(self) -> dict[str, Array]:
        return {name: parameter.value for name, parameter in self.parameters.items()}

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", repr(self.function))
        latents = [] if self.latents == 1 else [f"latents={self.latents}"]
        shown = [f"{name}={parameter!r}" for name, parameter in self.parameters.items()]
        return f"Custom({', '.join([name, *latents, *shown])})"


def _declared(parameters: Any) -> dict[str, Parameter]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping) or not all(isinstance(n, str) for n in parameters):
        raise ValueError(
            f"parameters must be a dictionary from names to positive numbers, got {parameters!r}"
        )
    values: Mapping[str, Value] = parameters
    return {n: positive(n, value, default=1.0, role="shape") for n, value in values.items()}


def _checked(name: str, value: Any, like: Array) -> Array:
    """What a user's function returned, if it is one number per observation."""
    shape = jnp.shape(value)
    if shape != like.shape:
        raise ValueError(
            f"{name} must return one number per observation, of shape {like.shape}, "
            f"but returned shape {shape}: write it elementwise, without sums"
        )
    return jnp.asarray(value, dtype=float)
