"""Several outputs, of independent processes or of mixtures of them."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._arguments import as_whole
from stategp._data import Together
from stategp._models._correlated import conditioned
from stategp._models._gp import as_kernel, as_likelihood, as_mean
from stategp._models._mixed import Family, MixedGP, check_family
from stategp._models._row_likelihoods import OutputLikelihoods, RowLikelihood
from stategp.kernels import Kernel
from stategp.likelihoods import Gaussian, Likelihood, MultivariateGaussian
from stategp.means import Constant, Mean
from stategp.parameters import Parameter, declare, parameter, with_value

Places = Int[Array, " rows"] | Together  # the latter of data with correlated noise
Rows = Float[Array, " rows"]


class MultiOutputGP(MixedGP):
    """Several functions of one input, observed together or at different times.

    Without `mixing` the outputs are independent, each with a kernel. With it, there is a kernel for
    each of some latent processes, and an output is a sum of multiples of them,

        f_p(x) = mean_p(x) + Σ_l mixing[p, l] g_l(x):

    outputs then tell of one another, also where one was not observed. This is known as the linear
    model of coregionalisation, or as factor analysis over time if there are few processes.

    Arguments:
        kernels: a list of kernels (`sg.kernels` or expressions), or a single one. Independent
            outputs: one for each, or one for all, each with its own parameters; a dictionary names
            the outputs. With `mixing`: one for each latent process.
        likelihood: one of `sg.likelihoods` or its name, for each output (a list) or for all, each
            with its own parameters; by default Gaussian. `sg.likelihoods.MultivariateGaussian`
            for noise that is correlated between outputs observed together.
        mixing: None, "learned", or an array with a row for each output and a column for each
            process, to be learned from there (`sg.fixed(array)`: as it is). Unless given, the
            variances of kernels are then one: their sizes are in the mixing matrix.
        outputs: the names of the outputs, or their number; needed where nothing else tells it.
        mean: a mean function or a number, for each output (a list) or for all; by default
            constants, which are learned.
        q: "joint", one chain of the states of all processes, whose cost grows with the third power
            of their number, or "product", independent processes under q: cheaper, with means that
            are as good, but variances that are too small where outputs share processes or noise.
            By default "joint" with `mixing` or correlated noise; independent outputs lose nothing
            by "product".

    >>> import stategp as sg
    >>> model = sg.MultiOutputGP([sg.kernels.Matern32()] * 2, mixing="learned", outputs=3)
    >>> model.names
    ('0', '1', '2')
    >>> sg.MultiOutputGP({"wind": sg.kernels.Matern32(), "sun": "periodic(24)"}).names
    ('wind', 'sun')
    """

    kernels: tuple[Kernel, ...]
    likelihoods: tuple[Likelihood, ...]
    means: tuple[Mean, ...]
    mixing: Parameter | None
    names: tuple[str, ...] = eqx.field(static=True)
    q: Family = eqx.field(static=True)
    ties: Parameter | None = None  # of noise that is correlated (`MultivariateGaussian`)

    def __init__(
        self,
        kernels: Any,
        likelihood: Any = None,
        *,
        mixing: Any = None,
        outputs: Any = None,
        mean: Any = None,
        q: Any = None,
    ):
        correlated = isinstance(likelihood, MultivariateGaussian)
        self.q = check_family(q or ("joint" if correlated or mixing is not None else "product"))
        names, parts = _named(kernels)
        if mixing is not None and isinstance(kernels, Mapping):
            raise ValueError(
                "with mixing, kernels are those of latent processes: give a list of them, and the "
                "names of the outputs as outputs=[…]"
            )
        matrix = None if mixing is None else _as_mixing(mixing)
        known = {
            "outputs": None if outputs is None else len(_as_names(outputs)),
            "kernels": len(parts) if mixing is None and _is_list(kernels) else None,
            "mixing": matrix.value.shape[0] if matrix is not None and matrix.value.ndim else None,
            "likelihood": likelihood.outputs if correlated else _length(likelihood),
            "mean": _length(mean),
        }
        count = _agreed(known)
        self.names = _as_names(outputs) if outputs is not None else names or _as_names(count)
        if len(set(self.names)) < count:
            raise ValueError(f"every output needs a name of its own, got {', '.join(self.names)}")
        if mixing is None and not _is_list(kernels):
            parts = parts * count
        self.kernels = tuple(as_kernel(part) for part in parts)
        self.ties = None
        if correlated:
            likelihood, self.ties = likelihood.parts(count)
        self.likelihoods = tuple(as_likelihood(v) for v in _each(likelihood, count))
        for one in self.likelihoods:
            if one.latents > 1:
                raise ValueError(
                    f"every output has one latent function, but {type(one).__name__} reads "
                    f"{one.latents}"
                )
        self.means = tuple(Constant() if v is None else as_mean(v, 0) for v in _each(mean, count))
        self.mixing = None if matrix is None else _shaped(matrix, count, len(parts))

    @property
    def outputs(self) -> int:
        """How many there are."""
        return len(self.names)

    @property
    def likelihood(self) -> OutputLikelihoods:
        """The likelihoods of all outputs."""
        return OutputLikelihoods(self.likelihoods)

    def noise_covariance(self) -> Float[Array, "outputs outputs"]:
        """The covariance of the noise of all outputs at one time, if it is Gaussian."""
        each = [one.variance.value for one in self.likelihoods if isinstance(one, Gaussian)]
        if len(each) < self.outputs:
            raise ValueError("only Gaussian noise has a covariance, and some outputs have other")
        variances = jnp.stack(each)
        if self.ties is None:
            return jnp.diag(variances)
        return MultivariateGaussian.matrix(variances, self.ties.value)

    def likelihood_at(self, places: Places) -> RowLikelihood | Gaussian:
        if not isinstance(places, Together):
            return self.likelihood.at(places)
        noise = conditioned(self.noise_covariance(), places).noise
        rows = with_value(Gaussian().variance, noise)
        return eqx.tree_at(lambda likelihood: likelihood.variance, Gaussian(), rows)

    def matrix(self) -> Float[Array, "outputs processes"]:
        """What every output reads of every process."""
        return jnp.eye(self.outputs) if self.mixing is None else self.mixing.value

    def coefficients(self, places: Places) -> Float[Array, "rows processes"]:
        if not isinstance(places, Together):
            return self.matrix()[places]
        shares = conditioned(self.noise_covariance(), places).shares
        return self.matrix()[places.output] - shares @ self.matrix()

    def extra_variance(self, places: Places) -> Rows:
        return jnp.zeros((places.output if isinstance(places, Together) else places).shape)

    def offset(self, x: Rows, places: Places) -> Rows:
        every = jnp.stack([mean(x) for mean in self.means])
        if not isinstance(places, Together):
            return jnp.take_along_axis(every, places[None], axis=0)[0]
        own = jnp.take_along_axis(every, places.output[None], axis=0)[0]
        shares = conditioned(self.noise_covariance(), places).shares
        return own + jnp.sum(shares * (places.y - every.T), axis=1)

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "MultiOutputGP":
        return self.replaced(kernels=kernels)

    def anonymous(self) -> "MultiOutputGP":
        """The same model with numbers for names."""
        return self.replaced(names=_as_names(self.outputs))

    def replaced(self, **parts: Any) -> "MultiOutputGP":
        """The same model with other kernels, likelihoods, means, mixing or names."""
        kept = {
            "kernels": self.kernels, "likelihoods": self.likelihoods, "means": self.means,
            "mixing": self.mixing, "names": self.names, "ties": self.ties,
        } | parts  # fmt: skip
        made = MultiOutputGP(
            list(kept["kernels"]),
            list(kept["likelihoods"]),
            mixing=kept["mixing"],
            outputs=kept["names"],
            mean=list(kept["means"]),
            q=self.q,
        )
        if kept["ties"] is None:
            return made
        return eqx.tree_at(lambda m: m.ties, made, kept["ties"], is_leaf=lambda v: v is None)

    def number_of(self, output: Any) -> int:
        """Which output is meant, by its number or its name."""
        number = as_whole(output)
        if isinstance(output, str) and output in self.names:
            return self.names.index(output)
        if number is None or not -self.outputs <= number < self.outputs:
            raise ValueError(
                f"output must be a number below {self.outputs} or one of "
                f"{', '.join(map(repr, self.names))}, got {output!r}"
            )
        return number % self.outputs

    def __repr__(self) -> str:
        kinds = ", ".join(map(repr, self.kernels))
        mixing = "" if self.mixing is None else ", mixing=" + " ".join(repr(self.mixing).split())
        likelihood = f"[{', '.join(map(repr, self.likelihoods))}]"
        if self.ties is not None:
            covariance = with_value(self.ties, self.noise_covariance())
            likelihood = f"MultivariateGaussian({' '.join(repr(covariance).split())})"
        return (
            f"MultiOutputGP([{kinds}], likelihood={likelihood}{mixing}, "
            f"outputs={list(self.names)}, q={self.q!r})"
        )


def _is_list(parts: Any) -> bool:
    return isinstance(parts, list | tuple | Mapping)


def _length(parts: Any) -> int | None:
    return len(parts) if isinstance(parts, list | tuple) else None


def _named(kernels: Any) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    if isinstance(kernels, Mapping):
        names, parts = tuple(map(str, kernels)), tuple(kernels.values())
    else:
        names, parts = None, tuple(kernels) if isinstance(kernels, list | tuple) else (kernels,)
    if not parts:
        raise ValueError("kernels is empty: a model needs at least one")
    return names, parts


def _as_names(outputs: Any) -> tuple[str, ...]:
    count = as_whole(outputs)
    if count is not None and count > 0:
        return tuple(map(str, range(count)))
    if isinstance(outputs, list | tuple) and outputs:
        return tuple(map(str, outputs))
    raise ValueError(f"outputs must be a list of names or a positive number, got {outputs!r}")


def _as_mixing(mixing: Any) -> Parameter:
    """An open parameter without a shape for "learned"."""
    if isinstance(mixing, str):
        if mixing != "learned":
            raise ValueError(
                "mixing must be None, 'learned' or an array with a row for each output and a "
                f"column for each kernel, got {mixing!r}"
            )
        return parameter()
    if isinstance(mixing, Parameter) and not mixing.given:
        return mixing
    return declare(
        "mixing", mixing, default=np.zeros((1, 1)), constraint="real", role="shape", ndim=2
    )


def _shaped(matrix: Parameter, outputs: int, processes: int) -> Parameter:
    if matrix.value.ndim:
        if matrix.value.shape != (outputs, processes):
            raise ValueError(
                f"mixing must have a row for each of {outputs} outputs and a column for each of "
                f"{processes} kernels, got shape {matrix.value.shape}"
            )
        return matrix
    start = np.eye(outputs, processes) + 0.1
    return declare("mixing", matrix, default=start, constraint="real", role="shape", ndim=2)


def _agreed(known: dict[str, int | None]) -> int:
    """How many outputs there are, by everything that tells it."""
    told = {name: count for name, count in known.items() if count is not None}
    if not told:
        raise ValueError("how many outputs are there? give outputs=…, their number or their names")
    if len(set(told.values())) > 1:
        said = ", ".join(f"{count} by {name}" for name, count in told.items())
        raise ValueError(f"the number of outputs is not clear: {said}")
    return next(iter(told.values()))


def _each(parts: Any, count: int) -> tuple[Any, ...]:
    return tuple(parts) if isinstance(parts, list | tuple) else (parts,) * count
