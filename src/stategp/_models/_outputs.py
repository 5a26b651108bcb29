"""Several outputs, of independent processes or of mixtures of them."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._arguments import as_whole
from stategp._data import Together
from stategp._models._correlated import conditioned
from stategp._models._gp import as_kernel, as_likelihood, as_mean, one_for_each
from stategp._models._loadings import Loadings
from stategp._models._mixed import Family, MixedGP, check_family
from stategp._models._outputs_arguments import (
    agreed_count,
    as_mixing,
    as_names,
    for_each,
    is_list,
    length_of,
    named_parts,
    outputs_mixed,
    shaped_mixing,
)
from stategp._models._row_functions import RowFunctions
from stategp._models._row_likelihoods import OutputLikelihoods, RowLikelihood
from stategp.kernels import Kernel
from stategp.likelihoods import Gaussian, Likelihood, MultivariateGaussian
from stategp.means import Constant, Mean, Zero
from stategp.parameters import Parameter, with_value

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
            for noise that is correlated between outputs observed together. An output whose
            likelihood reads several functions has them all: what is said of each output (`kernels`,
            `own`, `mean`) is then a tuple with one for each function, or one for all of them.
        mixing: None, "learned", or an array with a row for each output (for each function of an
            output that reads several) and a column for each process, to be learned from there
            (`sg.fixed(array)`: as it is). Where it is learned, variances of kernels that are not
            given are one: their sizes are in the mixing matrix. A function of one x that gives such
            an array, by operations of jax.numpy: weights that are known and change with x.
        own: with `mixing`, the kernel of a process that only one output reads, for each output (a
            list) or for all, each with its own parameters; by default there are none.
        outputs: the names of the outputs, or their number; needed where nothing else tells it.
        mean: a mean function or a number, for each output (a list) or for all; by default
            constants, which are learned.
        q: "joint", one chain of the states of all processes, whose cost grows with the third power
            of their number, or "product", independent processes under q: cheaper, with means that
            are as good, but variances that are too small where outputs share processes or noise.
            By default "joint" with `mixing`, correlated noise or likelihoods that read several
            functions (which need it); independent outputs lose nothing by "product".

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
    mixing: Parameter | Loadings | None
    names: tuple[str, ...] = eqx.field(static=True)
    q: Family = eqx.field(static=True)
    ties: Parameter | None = None  # of noise that is correlated (`MultivariateGaussian`)

    def __init__(
        self,
        kernels: Any,
        likelihood: Any = None,
        *,
        mixing: Any = None,
        own: Any = None,
        outputs: Any = None,
        mean: Any = None,
        q: Any = None,
    ):
        correlated = isinstance(likelihood, MultivariateGaussian)
        names, parts = named_parts(kernels)
        if mixing is not None and isinstance(kernels, Mapping):
            raise ValueError(
                "with mixing, kernels are those of latent processes: give a list of them, and the "
                "names of the outputs as outputs=[…]"
            )
        if own is not None and mixing is None:
            raise ValueError(
                "own processes are beside those that outputs share by mixing; without mixing, "
                "kernels are those of the outputs already"
            )
        matrix = None if mixing is None else as_mixing(mixing)
        known = {
            "outputs": None if outputs is None else len(as_names(outputs)),
            "kernels": len(parts) if mixing is None and is_list(kernels) else None,
            "mixing": None if correlated else outputs_mixed(matrix, likelihood),
            "likelihood": likelihood.outputs if correlated else length_of(likelihood),
            "mean": length_of(mean),
            "own": length_of(own),
        }
        count = agreed_count(known)
        self.names = as_names(outputs) if outputs is not None else names or as_names(count)
        if len(set(self.names)) < count:
            raise ValueError(f"every output needs a name of its own, got {', '.join(self.names)}")
        if mixing is None and not is_list(kernels):
            parts = parts * count
        self.ties = None
        if correlated:
            likelihood, self.ties = likelihood.parts(count)
        self.likelihoods = tuple(as_likelihood(v) for v in for_each(likelihood, count))
        several = any(one.latents > 1 for one in self.likelihoods)
        together = correlated or several or mixing is not None
        self.q = check_family(q or ("joint" if together else "product"))
        if several and self.q == "product":
            raise ValueError(
                "likelihoods that read several functions need q='joint' (an sg.GP for each output "
                "treats functions as independent under q)"
            )
        alone = parts if mixing is None else () if own is None else for_each(own, count)
        shared = () if mixing is None else parts
        self.kernels = tuple(as_kernel(part) for part in (*shared, *self._spread("kernel", alone)))
        # Where only differences of functions matter, the level of one of them says nothing.
        free = self._spread(
            "level",
            tuple(
                (Zero(), *[None] * (one.latents - 1)) if one.differences else None
                for one in self.likelihoods
            ),
        )
        levels = self._spread("mean", for_each(mean, count))
        self.means = tuple(
            (other or Constant()) if v is None else as_mean(v, 0)
            for v, other in zip(levels, free, strict=True)
        )
        functions = len(self.means)
        self.mixing = None if matrix is None else shaped_mixing(matrix, functions, len(parts))

    def _spread(self, what: str, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        """What is said of each output, as one for each of the functions that it reads."""
        if not parts:
            return ()
        each = zip(parts, self.likelihoods, strict=True)
        return tuple(v for part, one in each for v in one_for_each(what, part, one.latents))

    def functions_of(self, number: int) -> slice:
        """Which of all functions an output reads."""
        start = sum(one.latents for one in self.likelihoods[:number])
        return slice(start, start + self.likelihoods[number].latents)

    @property
    def function_names(self) -> tuple[str, ...]:
        """Those of the outputs, with a number where one reads several."""
        return tuple(
            name if one.latents == 1 else f"{name} {number + 1}"
            for name, one in zip(self.names, self.likelihoods, strict=True)
            for number in range(one.latents)
        )

    @property
    def functions(self) -> int:
        return max(one.latents for one in self.likelihoods)

    @property
    def concave(self) -> bool:
        return self.functions == 1 and self.likelihood.log_concave

    def mixtures(self, x: Rows, places: Any) -> Float[Array, "rows functions processes"]:
        if not isinstance(self.mixing, Loadings):
            return self._in_rows(self.matrix())[places]
        every = self._in_rows(jnp.moveaxis(self.matrix_at(x), 1, 0))
        return every[places, :, jnp.arange(len(x))]

    def _in_rows(
        self, values: Float[Array, "all *more"]
    ) -> Float[Array, "outputs functions *more"]:
        """What every function has, by output; where one reads fewer than others, zeros."""
        spans = [self.functions_of(number) for number in range(self.outputs)]
        rows = []
        for span in spans:
            padding = [(0, self.functions - (span.stop - span.start))]
            rows.append(jnp.pad(values[span], padding + [(0, 0)] * (values.ndim - 1)))
        return jnp.stack(rows)

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

    def likelihood_at(self, places: Places) -> RowLikelihood | RowFunctions | Gaussian:
        if not isinstance(places, Together):
            rows = self.likelihood.at(places)
            return rows if self.functions == 1 else RowFunctions(rows, self.functions)
        noise = conditioned(self.noise_covariance(), places).noise
        variances = with_value(Gaussian().variance, noise)
        return eqx.tree_at(lambda likelihood: likelihood.variance, Gaussian(), variances)

    @property
    def shared(self) -> int:
        """How many of the processes outputs share; the others each belong to one output."""
        if self.mixing is None:
            return 0
        if isinstance(self.mixing, Loadings):
            return self.mixing.shape[1]
        return self.mixing.value.shape[1]

    def matrix(self) -> Float[Array, "functions processes"]:
        """What the function of every output, or each of several, reads of every process."""
        if self.mixing is None:
            return jnp.eye(len(self.means))
        if isinstance(self.mixing, Loadings):
            raise ValueError(
                "mixing is a function of x here: model.matrix_at(x) has the weights at each x, "
                "measured from the first observation"
            )
        return self._with_own(self.mixing.value)

    def matrix_at(self, x: Rows) -> Float[Array, "#rows functions processes"]:
        """The same at each x, as kernels measure it; a single matrix for all if it stays."""
        if not isinstance(self.mixing, Loadings):
            return self.matrix()[None]
        return jax.vmap(self._with_own)(self.mixing(x))

    def _with_own(self, shared: Float[Array, "functions shared"]) -> Float[Array, "functions _"]:
        """The weights of shared processes, and of those that are an output's own."""
        if self.shared == len(self.kernels):
            return shared
        return jnp.concatenate([shared, jnp.eye(len(self.means))], axis=1)

    def coefficients(self, x: Rows, places: Places) -> Float[Array, "rows processes"]:
        output = places.output if isinstance(places, Together) else places
        moves = isinstance(self.mixing, Loadings)
        every = self.matrix_at(x) if moves else self.matrix()
        own = every[jnp.arange(len(x)), output] if moves else every[output]
        if not isinstance(places, Together):
            return own
        shares = conditioned(self.noise_covariance(), places).shares
        return own - (jnp.einsum("np,npl->nl", shares, every) if moves else shares @ every)

    def extra_variance(self, x: Rows, places: Places) -> Rows:
        return jnp.zeros_like(x)

    def offset(self, x: Rows, places: Places) -> Float[Array, "rows *functions"]:
        every = jnp.stack([mean(x) for mean in self.means])
        if not isinstance(places, Together):
            if self.functions > 1:
                each = self._in_rows(every)
                return jnp.take_along_axis(each, places[None, None], axis=0)[0].T
            return jnp.take_along_axis(every, places[None], axis=0)[0]
        own = jnp.take_along_axis(every, places.output[None], axis=0)[0]
        shares = conditioned(self.noise_covariance(), places).shares
        return own + jnp.sum(shares * (places.y - every.T), axis=1)

    def with_kernels(self, kernels: tuple[Kernel, ...]) -> "MultiOutputGP":
        return self.replaced(kernels=kernels)

    def anonymous(self) -> "MultiOutputGP":
        """The same model with numbers for names."""
        return self.replaced(names=as_names(self.outputs))

    def replaced(self, **parts: Any) -> "MultiOutputGP":
        """The same model with other kernels, likelihoods, means, mixing or names."""
        kept = {
            "kernels": self.kernels, "likelihoods": self.likelihoods, "means": self.means,
            "mixing": self.mixing, "names": self.names, "ties": self.ties,
        } | parts  # fmt: skip
        kernels, own = list(kept["kernels"]), None
        if self.mixing is None:
            kernels = self._by_output(kernels)
        elif self.shared < len(kernels):
            kernels, own = kernels[: self.shared], self._by_output(kernels[self.shared :])
        made = MultiOutputGP(
            kernels,
            list(kept["likelihoods"]),
            mixing=kept["mixing"],
            own=own,
            outputs=kept["names"],
            mean=self._by_output(kept["means"]),
            q=self.q,
        )
        if kept["ties"] is None:
            return made
        return eqx.tree_at(lambda m: m.ties, made, kept["ties"], is_leaf=lambda v: v is None)

    def _by_output(self, parts: Any) -> list[Any]:
        """What is known of every function, as the constructor takes it."""
        spans = [self.functions_of(number) for number in range(self.outputs)]
        return [tuple(parts[span]) for span in spans]

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
        shared = self.shared if self.mixing is not None else len(self.kernels)
        kinds = ", ".join(map(repr, self.kernels[:shared]))
        mixing = "" if self.mixing is None else ", mixing=" + " ".join(repr(self.mixing).split())
        if shared < len(self.kernels):
            mixing += f", own=[{', '.join(map(repr, self.kernels[shared:]))}]"
        likelihood = f"[{', '.join(map(repr, self.likelihoods))}]"
        if self.ties is not None:
            covariance = with_value(self.ties, self.noise_covariance())
            likelihood = f"MultivariateGaussian({' '.join(repr(covariance).split())})"
        return (
            f"MultiOutputGP([{kinds}], likelihood={likelihood}{mixing}, "
            f"outputs={list(self.names)}, q={self.q!r})"
        )
