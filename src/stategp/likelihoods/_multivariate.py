"""Gaussian noise that is correlated between outputs observed together.

The noise of P outputs has the covariance R = D C D, with D² their variances and C = U Uᵀ their
correlations. Row i of the Cholesky factor U is (w_i1, …, w_i,i−1, 1, 0, …), scaled to length one:
the numbers w, here called ties, may be anything, and zeros stand for independent noise.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._modules import Module
from stategp._runtime import on_device
from stategp.likelihoods._gaussian import Gaussian
from stategp.parameters import Parameter, Value, declare, fixed, parameter

Square = Float[Array, "outputs outputs"]


class MultivariateGaussian(Module):
    """Gaussian noise with a full covariance matrix, for the outputs of an `sg.MultiOutputGP`.

    Outputs observed at the same time have noise of that covariance; where some of them are missing,
    those present have the block that is theirs. Known variances of observations (`noise_variance`)
    are added to the diagonal.

    Arguments:
        covariance: an array with a row and a column for each output, learned from there
            (`sg.fixed(array)`: as it is), or None: learned, starting from independent noise.

    >>> import stategp as sg
    >>> noise = sg.likelihoods.MultivariateGaussian([[1.0, 0.5], [0.5, 2.0]])
    >>> sg.MultiOutputGP(sg.kernels.Matern32(), noise).names
    ('0', '1')
    """

    covariance: Parameter  # without a shape if it is open

    def __init__(self, covariance: Value = None):
        if isinstance(covariance, Parameter) and covariance.prior is not None:
            raise ValueError("covariance takes no prior: give an array, sg.fixed(array) or None")
        if covariance is None or (isinstance(covariance, Parameter) and not covariance.given):
            self.covariance = parameter()
            return
        self.covariance = declare(
            "covariance", covariance, default=np.eye(1), constraint="real", role="shape", ndim=2
        )
        _check(np.asarray(self.covariance.value))

    @property
    def outputs(self) -> int | None:
        """How many there are, if the covariance was given."""
        return self.covariance.value.shape[0] if self.covariance.value.ndim else None

    def parts(self, count: int) -> tuple[tuple[Gaussian, ...], Parameter]:
        """The noise of each output on its own, and what ties them together."""
        learned, given = self.covariance.learned, self.outputs is not None
        if not given:
            zeros = on_device(np.zeros(count * (count - 1) // 2))
            ties = Parameter(zeros, learned=learned, given=False)
            return tuple(Gaussian() for _ in range(count)), ties
        R = np.asarray(self.covariance.value)
        variances = [v if learned else fixed(v) for v in np.diagonal(R)]
        ties = Parameter(on_device(_ties(R)), learned=learned)
        return tuple(Gaussian(variance=v) for v in variances), ties

    @staticmethod
    def matrix(variances: Float[Array, " outputs"], ties: Float[Array, " ties"]) -> Square:
        """R, from the variances of all outputs and their ties."""
        count = len(variances)
        factor = jnp.eye(count).at[np.tril_indices(count, -1)].set(ties)
        factor = factor / jnp.sqrt(jnp.sum(factor**2, axis=1, keepdims=True))
        scaled = jnp.sqrt(variances)[:, None] * factor
        return scaled @ scaled.T

    def __repr__(self) -> str:
        shown = "" if self.outputs is None else " ".join(repr(self.covariance).split())
        return f"MultivariateGaussian({shown})"


def _ties(covariance: np.ndarray) -> np.ndarray:
    """The ties of a covariance matrix."""
    factor = np.linalg.cholesky(covariance)
    ratios: np.ndarray = (factor / np.diagonal(factor)[:, None])[np.tril_indices(len(factor), -1)]
    return ratios


def _check(R: np.ndarray) -> None:
    if R.shape[0] != R.shape[1]:
        raise ValueError(
            f"covariance must have a row and a column for each output, got shape {R.shape}"
        )
    off = np.abs(R - R.T)
    if np.any(off > 1e-10 * np.max(np.abs(R))):
        i, j = np.unravel_index(np.argmax(off), R.shape)
        raise ValueError(
            f"covariance must be symmetric, but [{i}, {j}] is {R[i, j]:g} and [{j}, {i}] is "
            f"{R[j, i]:g}"
        )
    least = np.min(np.linalg.eigvalsh(R))
    if not least > 1e-12 * np.max(np.abs(R)):
        raise ValueError(
            "covariance must be positive definite, but its smallest eigenvalue is "
            f"{least:.3g}: no output's noise may follow from that of others"
        )
