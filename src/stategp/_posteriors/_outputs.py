"""The posterior of several outputs."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import ByOutput, by_output, extra_values, observe_several
from stategp._models import MultiOutputGP
from stategp._posteriors._joint_marginals import JointMarginals, joint_marginals
from stategp._posteriors._joint_outcomes import JointOutcomes
from stategp._posteriors._marginals import Marginals, as_targets
from stategp._posteriors._mixed import MixedPosterior
from stategp._posteriors._pointwise import check_levels
from stategp._posteriors._prediction import observe_samples
from stategp._posteriors._vectors import draw_noise, noise_matrices, vector_log_density
from stategp._posteriors._with_more import condition_all, rows_together
from stategp._runtime import as_count, as_key, on_device

Columns = Float[Array, "points *outputs"]
Matrices = Float[Array, "points outputs outputs"]
Predicted = Marginals | JointMarginals | JointOutcomes


class MultiOutputPosterior(MixedPosterior):
    """The posterior of several outputs, returned by `sg.condition` and `sg.fit`.

    Every method answers for all outputs, which are the last axis of what it returns, or for the
    one called `output`, by its name or number, and then without that axis. Where the likelihood of
    an output reads several functions, methods that tell of functions have a column for each.
    """

    model: MultiOutputGP

    def predict_f(self, x_new: Any, *, output: Any = None) -> tuple[Columns, Columns]:
        """Mean and variance of the latent functions.

        >>> import numpy as np, stategp as sg
        >>> model = sg.MultiOutputGP(sg.kernels.Matern32(), outputs=["a", "b"])
        >>> posterior = sg.condition(model, np.arange(3), [[0, 1], [1, np.nan], [0, 1]])
        >>> mean, variance = posterior.predict_f([0.5, 10.0])
        >>> mean.shape, posterior.predict_f([0.5, 10.0], output="b")[0].shape
        ((2, 2), (2,))
        """
        x, wanted = self._points("x_new", x_new), self._wanted(output)
        means, spreads = [], []
        for mean, spread in self._of_functions(x, wanted):
            means.append(mean)
            spreads.append(np.diagonal(spread, axis1=1, axis2=2))
        moments = [np.concatenate(parts, axis=1) for parts in (means, spreads)]
        return _answer(moments, output if self._single(output) else None)

    def _of_functions(
        self, x: np.ndarray, wanted: list[int]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and covariance of the functions of each output; x is measured from the origin."""
        places = np.repeat(np.asarray(wanted, dtype=int), len(x))
        mean, spread = self._moments_at(np.tile(x, len(wanted)), places)
        most, found = self.model.functions, []
        means = np.reshape(mean, (len(wanted), len(x), most))
        spreads = np.reshape(spread, (len(wanted), len(x), most, most))
        for number, m, S in zip(wanted, means, spreads, strict=True):
            count = self.model.likelihoods[number].latents
            found.append((m[:, :count], S[:, :count, :count]))
        return found

    def _single(self, output: Any) -> bool:
        """Whether one output is meant, and reads one function."""
        if output is None:
            return False
        return self.model.likelihoods[self.model.number_of(output)].latents == 1

    def covariance_f(self, x_new: Any) -> Matrices:
        """The covariance matrix of the latent functions of all outputs at each point."""
        answer: Matrices = on_device(self._covariance_at(self._points("x_new", x_new)))
        return answer

    def covariance_y(self, x_new: Any, **extras: Any) -> Matrices:
        """The covariance matrix of new observations of all outputs at each point.

        >>> import numpy as np, stategp as sg
        >>> noise = sg.likelihoods.MultivariateGaussian([[1.0, 0.5], [0.5, 2.0]])
        >>> model = sg.MultiOutputGP(sg.kernels.Matern32(), noise)
        >>> posterior = sg.condition(model, np.arange(3), [[0, 1], [1, np.nan], [0, 1]])
        >>> far = posterior.covariance_y([1e3])
        >>> print(far[0].round(3))
        [[2.  0.5]
         [0.5 3. ]]
        """
        x = self._points("x_new", x_new)
        answer: Matrices = on_device(self._covariance_at(x) + self._noise_at(len(x), extras))
        return answer

    def processes(self, x_new: Any) -> tuple[Columns, Columns]:
        """Mean and variance of the latent processes that outputs are mixtures of."""
        moments: tuple[Columns, Columns] = on_device(
            self._processes_moments(self._points("x_new", x_new))
        )
        return moments

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1, *, output: Any = None
    ) -> Float[Array, "samples points *outputs"]:
        """Joint samples of the latent functions, over points and outputs.

        `key` is a JAX random key or an integer seed.
        """
        count, x = as_count(num_samples), self._points("x_new", x_new)
        wanted = self._wanted(output)
        columns = np.concatenate([self._columns_of(number) for number in wanted])
        if count == 0 or len(x) == 0:
            f = np.zeros((count, len(x), len(columns)))
        else:
            processes = self._processes_at(as_key(key), x, count)
            matrix = self._matrix_at(x)[:, columns]
            f = np.swapaxes(processes, 0, 1) @ np.swapaxes(matrix, 1, 2)
            f = np.swapaxes(f, 0, 1) + self._levels_at(x, wanted)
        drawn: Float[Array, "samples points *outputs"] = on_device(
            f[..., 0] if self._single(output) else f
        )
        return drawn

    def _columns_of(self, number: int) -> np.ndarray:
        """Which of all functions an output reads."""
        return np.arange(len(self.model.means))[self.model.functions_of(number)]

    def _levels_at(self, x: np.ndarray, wanted: list[int]) -> np.ndarray:
        """The mean functions of some outputs, in columns."""
        offsets = self._offsets_at(np.tile(x, len(wanted)), np.repeat(wanted, len(x)))
        each = np.reshape(offsets, (len(wanted), len(x), self.model.functions))
        counts = [self.model.likelihoods[number].latents for number in wanted]
        return np.concatenate([m[:, :n] for m, n in zip(each, counts, strict=True)], axis=1)

    def sample_y(
        self,
        key: PRNGKeyArray | int | Any,
        x_new: Any,
        num_samples: Any = 1,
        *,
        output: Any = None,
        **extras: Any,
    ) -> Float[Array, "samples points *outputs"]:
        """New observations, for joint samples of the latent functions."""
        f_key, *keys = jax.random.split(as_key(key), 1 + self.model.outputs)
        f = np.asarray(self.sample_f(f_key, x_new, num_samples))
        wanted = self._wanted(output)
        if self.model.ties is not None:
            noise = draw_noise(keys[0], self._noise_at(f.shape[1], extras), len(f))
            columns = [f[..., i] + noise[..., i] for i in wanted]
        else:
            columns = [self._observed_samples(keys[i], f, i, extras) for i in wanted]
        y = columns[0] if output is not None else np.stack(columns, axis=-1)
        drawn: Float[Array, "samples points *outputs"] = on_device(y)
        return drawn

    def _observed_samples(
        self, key: PRNGKeyArray, f: np.ndarray, number: int, extras: dict[str, Any]
    ) -> np.ndarray:
        extra = np.broadcast_to(self._extra_of(number, f.shape[1], extras)[None], f.shape[:2])
        likelihood, own = self.model.likelihoods[number], f[..., self._columns_of(number)]
        own = own[..., 0] if likelihood.latents == 1 else own
        return np.asarray(observe_samples(likelihood, key, on_device(own), extra))

    def predict_y(
        self, x_new: Any, *, output: Any = None, **extras: Any
    ) -> tuple[Columns, Columns]:
        """Mean and variance of new observations.

        What likelihoods read beside y is given by name, as for `fit`: a number, one for each point,
        or one for each point and output.
        """
        self._refuse_classes("predict_y(x_new", output)
        pairs = self._each(x_new, output, extras, lambda there, _: there.moments())
        moments = [np.stack([pair[k] for pair in pairs], axis=-1) for k in range(2)]
        return _answer(moments, output)

    def quantiles(
        self, x_new: Any, levels: Any = (0.025, 0.5, 0.975), *, output: Any = None, **extras: Any
    ) -> Float[Array, "levels points *outputs"]:
        """Quantiles of new observations: the smallest y with P(Y ≤ y) ≥ level."""
        self._refuse_classes("quantiles(x_new", output)
        wanted = check_levels(levels)
        parts = self._each(x_new, output, extras, lambda there, _: there.quantiles(wanted))
        quantiles = np.stack(parts, axis=-1)
        answer: Float[Array, "levels points *outputs"] = on_device(
            quantiles if output is None else quantiles[..., 0]
        )
        return answer

    def log_density(
        self, x_new: Any, y_new: Any, *, together: bool = False, output: Any = None, **extras: Any
    ) -> Columns:
        """Log predictive density of each new observation separately (NaN where y is NaN).

        With `together`, one number for each point: the density of all outputs observed there, which
        must be Gaussian (NaN where none was).
        """
        if together:
            if output is not None:
                raise ValueError("together is of all outputs: leave output out")
            x, y = self._points("x_new", x_new), self._checked(y_new, self._wanted(None))
            mean = np.asarray(self.predict_f(x_new)[0])
            covariance = self._covariance_at(x) + self._noise_at(len(x), extras)
            whole = np.broadcast_to(y, mean.shape)
            answer: Columns = on_device(vector_log_density(whole, mean, covariance))
            return answer
        return self._scores(x_new, y_new, output, extras, lambda there, y: there.log_density(y))

    def cdf(
        self, x_new: Any, y_new: Any, *, strict: Any = False, output: Any = None, **extras: Any
    ) -> Columns:
        """P(Y ≤ y) of each new observation, or P(Y < y) if `strict` (NaN where y is NaN)."""
        self._refuse_classes("cdf(x_new, y_new", output)
        return self._scores(
            x_new, y_new, output, extras, lambda there, y: there.cdf(y, strict=strict)
        )

    def crps(self, x_new: Any, y_new: Any, *, output: Any = None, **extras: Any) -> Columns:
        """Continuous ranked probability score of each new observation (NaN where y is NaN)."""
        self._refuse_classes("crps(x_new, y_new", output)
        for number in self._wanted(output):
            if self.model.likelihoods[number].latents > 1:
                raise ValueError(
                    f"the CRPS is not available for output {self.model.names[number]!r}, whose "
                    "likelihood reads several functions: use log_density"
                )
        return self._scores(x_new, y_new, output, extras, lambda there, y: there.crps(y))

    def predict_probabilities(
        self, x_new: Any, *, output: Any = None
    ) -> Float[Array, "points outcomes"]:
        """The probability of each label, level or class of a new observation of an output.

        >>> import numpy as np, stategp as sg
        >>> model = sg.MultiOutputGP(sg.kernels.Matern32(), ["gaussian", "bernoulli"])
        >>> posterior = sg.condition(model, np.arange(3), [[0.3, 1], [1.2, 1], [0.1, 0]])
        >>> posterior.predict_probabilities([0.5, 10.0], output=1).shape
        (2, 2)
        """
        if output is None and self.model.outputs > 1:
            raise ValueError("probabilities are those of one output: give output=…")
        there = self.marginals_of(0 if output is None else output, x_new)
        if isinstance(there, JointMarginals):
            raise ValueError(
                f"{type(there.likelihood).__name__} has no few outcomes that could each have a "
                "probability; ask for quantiles, or for the distribution function (cdf)"
            )
        return there.probabilities()

    def marginals_of(self, output: Any, x_new: Any, **extras: Any) -> Predicted:
        """The prediction of one output at new points, computed once for many quantities."""
        number, x = self.model.number_of(output), self._points("x_new", x_new)
        ((mean, covariance),) = self._of_functions(x, [number])
        return self._there(number, mean, covariance, extras)

    def _there(
        self, number: int, mean: np.ndarray, covariance: np.ndarray, extras: dict[str, Any]
    ) -> Predicted:
        likelihood, extra = (
            self.model.likelihoods[number],
            self._extra_of(number, len(mean), extras),
        )
        if likelihood.latents > 1:
            return joint_marginals(likelihood, mean, covariance, extra)
        return Marginals(likelihood, *on_device((mean[:, 0], covariance[:, 0, 0], extra)))

    def _with_more(
        self, x_new: Any, y_new: Any, beside: dict[str, Any], options: dict[str, Any]
    ) -> "MultiOutputPosterior":
        model = self.model
        new = observe_several(model.names, model.likelihoods, x_new, y_new, **beside)
        rows = rows_together(self, new.data, new.places)
        if model.ties is not None and len({*zip(rows.places, rows.x, strict=True)}) < len(rows.x):
            raise ValueError(
                "outputs whose noise is correlated are observed together: with several "
                "observations of one output at one x, give all of the data to sg.condition"
            )
        extras: dict[str, dict[str, np.ndarray]] = {}
        for number, likelihood in enumerate(model.likelihoods):
            if likelihood.extra is not None:
                own = extras.setdefault(likelihood.extra, {})
                own[model.names[number]] = rows.extra[rows.places == number]
        x = rows.x, rows.places
        found: MultiOutputPosterior = condition_all(model, x, rows, extras, options)
        return found

    def observed(self, output: Any) -> tuple[np.ndarray, np.ndarray]:
        """The inputs, in the user's units, and the observations of an output."""
        mine = np.asarray(self.places) == self.model.number_of(output)
        return np.asarray(self.data.x)[mine] + self.data.origin, np.asarray(self.data.y)[mine]

    def _wanted(self, output: Any) -> list[int]:
        if output is None:
            return list(range(self.model.outputs))
        return [self.model.number_of(output)]

    def _refuse_classes(self, call: str, output: Any) -> None:
        """Classes in no order have probabilities: which of the outputs can be asked, and how."""
        names, likelihoods = self.model.names, self.model.likelihoods
        classes = [i for i in self._wanted(output) if likelihoods[i].nominal]
        if not classes:
            return
        name = names[classes[0]]
        others = [repr(names[i]) for i in self._wanted(output) if i not in classes]
        rest = f"; of the others ask {call}, output={' or '.join(others)})" if others else ""
        raise ValueError(
            f"the classes of output {name!r} ({type(likelihoods[classes[0]]).__name__}) have no "
            "order, so their numbers have no mean, variance, quantiles, distribution function or "
            f"CRPS: ask predict_probabilities(x_new, output={name!r}) for the probability of each "
            f"class, and log_density for a score{rest}"
        )

    def _extra_of(self, number: int, points: int, extras: dict[str, Any]) -> np.ndarray:
        likelihood = self.model.likelihoods[number]
        known = {one.extra for one in self.model.likelihoods}
        own = {
            name: self._entry_of(number, name, value)
            for name, value in extras.items()
            if name == likelihood.extra or name not in known
        }
        return np.asarray(extra_values(likelihood, points, own))

    def _entry_of(self, number: int, name: str, value: Any) -> Any:
        """What one output has of an argument: that of its name, a column, or all of it."""
        value = by_output(name, self.model.names, value, self.model.likelihoods)
        if isinstance(value, ByOutput):
            return value[number]
        return np.asarray(value)[:, number] if np.ndim(value) == 2 else value

    def _each(
        self, x_new: Any, output: Any, extras: dict[str, Any], ask: Callable[[Predicted, int], Any]
    ) -> list[Any]:
        """The answers of all outputs, or of one, as NumPy arrays."""
        wanted = self._wanted(output)
        moments = self._of_functions(self._points("x_new", x_new), wanted)
        answers = []
        for position, (i, (mean, covariance)) in enumerate(zip(wanted, moments, strict=True)):
            there = self._there(i, mean, covariance, extras)
            answers.append(jax.tree.map(np.asarray, ask(there, position)))
        return answers

    def _scores(
        self, x_new: Any, y_new: Any, output: Any, extras: dict[str, Any], score: Any
    ) -> Columns:
        wanted = self._wanted(output)
        y = np.asarray(y_new, dtype=float)
        if output is not None:
            y = y[:, None] if y.ndim == 1 else y
        y = self._checked(y, wanted)

        def ask(there: Predicted, position: int) -> Any:
            values = as_targets(y if y.ndim == 0 else y[:, position], len(there))
            return score(there, values)

        scores = np.stack(self._each(x_new, output, extras, ask), axis=-1)
        answer: Columns = on_device(scores if output is None else scores[..., 0])
        return answer

    def _checked(self, y_new: Any, wanted: list[int]) -> np.ndarray:
        """Values of the outputs wanted, in columns."""
        y = np.asarray(y_new, dtype=float)
        if y.ndim == 2 and y.shape[1] != len(wanted):
            raise ValueError(
                f"y_new must have a column for each of {len(wanted)} outputs, got shape {y.shape}"
            )
        if y.ndim == 1:
            raise ValueError(
                f"y_new must have a row for each point and a column for each of {len(wanted)} "
                f"outputs, got shape {y.shape}; for one of them give output=…"
            )
        return y

    def _covariance_at(self, x: np.ndarray) -> np.ndarray:
        """The covariance of all outputs' functions; x is measured from the origin."""
        matrix = self._matrix_at(x)
        covariance = matrix @ self._processes_together(x)[1] @ np.swapaxes(matrix, 1, 2)
        return (covariance + np.swapaxes(covariance, 1, 2)) / 2

    def _matrix_at(self, x: np.ndarray) -> np.ndarray:
        """The weights of the processes in each function: at each x, or one matrix for all."""
        return np.asarray(self.model.matrix_at(on_device(x)))

    def _noise_at(self, points: int, extras: dict[str, Any]) -> np.ndarray:
        each = [self._extra_of(i, points, extras) for i in range(self.model.outputs)]
        return noise_matrices(self.model, np.stack(each, axis=-1))

    def __repr__(self) -> str:
        return self._told(f"MultiOutputPosterior of {self.model!r}")


def _answer(moments: list[np.ndarray], output: Any) -> tuple[Columns, Columns]:
    mean, variance = moments if output is None else [part[:, 0] for part in moments]
    answer: tuple[Columns, Columns] = on_device((mean, variance))
    return answer
