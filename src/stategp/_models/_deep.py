"""Compositions of Gaussian processes, every function of one input."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._arguments import as_whole, whole_number
from stategp._models._gp import as_homogeneous, as_likelihood, as_mean
from stategp._modules import Module
from stategp.kernels import Kernel
from stategp.likelihoods import Likelihood
from stategp.means import Linear, Mean

MOST_EVALUATIONS = 4096  # of one observation, by quadrature
Path = tuple[str, int | None]  # the name of a layer, and its number where there are several


class Layer(Module):
    """One function of a deep model: a kernel, inducing locations and a mean function.

    `inducing` is an increasing array of locations, or their number. A number of them is placed
    evenly over `between`, by default the range of the layer's inputs when every function equals its
    mean function. The default mean function is the identity; its slope and intercept are learned.

    >>> import stategp as sg
    >>> warp = sg.Layer(sg.kernels.Matern32(variance=0.01, lengthscale=4.0), inducing=50)
    """

    kernel: Kernel
    mean: Mean
    locations: Float[Array, " states"] | None
    count: int = eqx.field(static=True)

    def __init__(self, kernel: Any, inducing: Any = 50, *, between: Any = None, mean: Any = None):
        self.kernel = as_homogeneous(kernel, "the kernel of a layer")
        self.mean = Linear(intercept=0.0, slope=1.0) if mean is None else as_mean(mean, 0)
        count = as_whole(inducing)
        if count is not None and count < 2:
            raise ValueError(f"a layer needs at least 2 inducing locations, got {inducing}")
        if count is not None and between is None:
            self.locations, self.count = None, count
            return
        if count is not None:
            low, high = between
            if not low < high:
                raise ValueError(f"between must be a lower and an upper end, got {between!r}")
            inducing = np.linspace(low, high, count)
        try:
            places = np.asarray(inducing, dtype=float)
        except (TypeError, ValueError):
            places = np.zeros(())
        if places.ndim != 1 or len(places) < 2 or not np.all(np.diff(places) > 0):
            raise ValueError(
                "inducing must be a number or an increasing array of at least 2 locations, got "
                f"{inducing!r}"
            )
        self.locations, self.count = jnp.asarray(places), len(places)

    @property
    def inducing(self) -> Float[Array, " states"]:
        """The inducing locations, if they have been placed."""
        assert self.locations is not None
        return self.locations

    def placed(self, low: float, high: float) -> "Layer":
        """The same layer with its locations, if it has none yet, over a range."""
        if self.locations is not None:
            return self
        places = np.linspace(low, high, self.count)
        return Layer(self.kernel, places, mean=self.mean)


class DeepGP(Module):
    """A composition of layers, observed with noise.

    `layers` is a dictionary of functions: each is a `Layer`, or a list of them. `function` composes
    them: its arguments are the functions by name, the inputs and, optionally, the number of the
    output. Data for several outputs are lists of arrays. Inference passes `samples` through the
    layers; `nodes`, for a `stack`, is explained there.

    >>> import stategp as sg
    >>> k = sg.kernels
    >>> warps = [sg.Layer(k.Matern32(variance=0.01, lengthscale=4.0)) for _ in range(2)]
    >>> model = sg.DeepGP(
    ...     {"warp": warps, "shared": sg.Layer(k.Matern32(lengthscale=0.1), inducing=100)},
    ...     lambda f, t, number: f["shared"](f["warp"][number](t)),
    ... )
    """

    layers: dict[str, Any]
    likelihood: Likelihood
    function: Callable[..., Any] = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    nodes: int | None = eqx.field(static=True, default=None)

    def __init__(
        self,
        layers: Any,
        function: Any,
        likelihood: Any = None,
        *,
        samples: Any = 4,
        nodes: Any = None,
    ):
        if not isinstance(layers, Mapping) or not layers:
            raise ValueError(f"layers must be a dictionary of sg.Layer, got {layers!r}")
        self.layers = {}
        for name, entry in layers.items():
            parts = tuple(entry) if isinstance(entry, list | tuple) else (entry,)
            if not parts or not all(isinstance(part, Layer) for part in parts):
                raise ValueError(f"layer {name!r} must be an sg.Layer or a list of them")
            self.layers[name] = parts if isinstance(entry, list | tuple) else entry
        if not callable(function):
            raise ValueError(f"function must be a function of layers and inputs, got {function!r}")
        self.function, self.likelihood = function, as_likelihood(likelihood)
        if self.likelihood.latents > 1:
            raise ValueError(
                "a deep model has one latent function for each output, but "
                f"{type(self.likelihood).__name__} reads {self.likelihood.latents}"
            )
        self.samples, self.nodes = whole_number("samples", samples, least=1), None
        if nodes is not None:
            if not isinstance(self.function, Stack):
                raise ValueError("nodes are for sg.DeepGP.stack; give other compositions samples")
            self.nodes = whole_number("nodes", nodes, least=2)
            self.samples = self.nodes ** (self.function.count - 1)
            if self.samples > MOST_EVALUATIONS:
                raise ValueError(
                    f"{self.nodes} nodes for each of {self.function.count - 1} inner layers are "
                    f"{self.samples:,} evaluations of every observation, more than "
                    f"{MOST_EVALUATIONS:,}: give fewer nodes, or samples"
                )

    @staticmethod
    def stack(
        layers: Any, likelihood: Any = None, *, samples: Any = 4, nodes: Any = None
    ) -> "DeepGP":
        """Layers one after the other.

        With `nodes`, inference uses Gauss–Hermite quadrature instead of samples, with so many
        nodes for each inner layer: the bound and its gradients have no noise, at the cost of
        nodes ** (layers − 1) evaluations of every observation.

        >>> import stategp as sg
        >>> k = sg.kernels
        >>> deep = sg.DeepGP.stack([sg.Layer(k.Matern32()), sg.Layer(k.Matern32())], nodes=8)
        """
        names = {str(number): layer for number, layer in enumerate(layers)}
        return DeepGP(names, Stack(len(names)), likelihood, samples=samples, nodes=nodes)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every function: its name, and its number if there are several of that name."""
        paths: list[Path] = []
        for name, entry in self.layers.items():
            paths += (
                [(name, i) for i in range(len(entry))]
                if isinstance(entry, tuple)
                else [(name, None)]
            )
        return tuple(paths)

    def layer(self, path: Path) -> Layer:
        """The layer at a path."""
        entry = self.layers[path[0]]
        layer: Layer = entry if path[1] is None else entry[path[1]]
        return layer

    def with_layers(self, layers: dict[Path, Layer]) -> "DeepGP":
        """The same composition of other layers."""
        by_name = {
            name: tuple(layers[name, i] for i in range(len(old)))
            if isinstance(old, tuple)
            else layers[name, None]
            for name, old in self.layers.items()
        }
        return DeepGP(
            by_name, self.function, self.likelihood, samples=self.samples, nodes=self.nodes
        )

    def like(self, other: "DeepGP") -> "DeepGP":
        """Another model of the same composition, with the inducing locations of this one."""
        layers = {
            path: Layer(
                other.layer(path).kernel, self.layer(path).locations, mean=other.layer(path).mean
            )
            for path in self.paths
        }
        return other.with_layers(layers)

    @property
    def takes_number(self) -> bool:
        """Whether the composition depends on the number of the output."""
        return len(inspect.signature(self.function).parameters) >= 3

    def compose(self, visit: Callable[[Path, Any], Any], x: Array, number: int) -> Any:
        """The composition at x, with `visit(path, input)` for each function."""

        def at(path: Path) -> Callable[[Any], Any]:
            return lambda value: visit(path, value)

        functions = {
            name: [at((name, i)) for i in range(len(entry))]
            if isinstance(entry, tuple)
            else at((name, None))
            for name, entry in self.layers.items()
        }
        return (
            self.function(functions, x, number)
            if self.takes_number
            else self.function(functions, x)
        )


@dataclasses.dataclass(frozen=True)
class Stack:
    """The composition of a stack; equal stacks are equal functions, and compile once."""

    count: int

    def __call__(self, f: Any, x: Any) -> Any:
        for number in range(self.count):
            x = f[str(number)](x)
        return x
