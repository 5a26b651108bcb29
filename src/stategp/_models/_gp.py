"""A Gaussian process on one input."""

from typing import Any

from jaxtyping import Array, Float, PRNGKeyArray

from stategp import means
from stategp._arguments import as_number
from stategp._expressions import parse_kernel
from stategp._models._prior import sample_prior
from stategp._modules import Module
from stategp.kernels import Kernel
from stategp.likelihoods import Gaussian, Likelihood, MultivariateGaussian, from_name
from stategp.means import Mean


class GP(Module):
    """A prior over functions of one input, and how they are observed.

    `kernel` is one of `sg.kernels` or an expression ("matern52(30) + periodic(7)").
    `likelihood` is one of `sg.likelihoods` or its name ("poisson"), by default Gaussian. `mean` is
    a mean function, a number, or any function of x, by default zero.

    For a likelihood with several latent functions give a tuple of kernels (and of means), one for
    each; a single kernel is used for all of them, each with its own parameters. By default the
    means of the second and later functions are constants, which are learned.

    >>> import stategp as sg
    >>> sg.GP(kernel=sg.kernels.Matern32(lengthscale=2.0))
    GP(kernel=Matern32(variance=1, lengthscale=2), likelihood=Gaussian(variance=1), mean=Zero())
    >>> sg.GP(sg.kernels.Matern52(), "bernoulli").likelihood
    Bernoulli(link='logit')
    """

    kernels: tuple[Kernel, ...]
    likelihood: Likelihood
    means: tuple[Mean, ...]

    def __init__(self, kernel: Any, likelihood: Any = None, mean: Any = None):
        self.likelihood = as_likelihood(likelihood)
        latents = self.likelihood.latents
        self.kernels = tuple(as_kernel(k) for k in one_for_each("kernel", kernel, latents))
        each_mean = mean if isinstance(mean, tuple | list) else (mean, *[None] * (latents - 1))
        parts = one_for_each("mean", each_mean, latents)
        self.means = tuple(as_mean(part, number) for number, part in enumerate(parts))

    @property
    def kernel(self) -> Any:
        """The kernel; a tuple of them if there are several latent functions."""
        return self.kernels[0] if len(self.kernels) == 1 else self.kernels

    @property
    def mean(self) -> Any:
        """The mean function; a tuple of them if there are several latent functions."""
        return self.means[0] if len(self.means) == 1 else self.means

    def prior_sample(
        self, key: PRNGKeyArray | int | Any, x: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of f from the prior, in time linear in the number of points.

        `key` is a JAX random key or an integer seed; the mean function is included. With several
        latent functions, there is a last axis with one entry for each.

        >>> import numpy as np, stategp as sg
        >>> sg.GP(sg.kernels.Matern32()).prior_sample(0, np.linspace(0, 5, 11), num_samples=4).shape
        (4, 11)
        """
        return sample_prior(self, key, x, num_samples)

    def __repr__(self) -> str:
        return f"GP(kernel={self.kernel!r}, likelihood={self.likelihood!r}, mean={self.mean!r})"


def as_kernel(kernel: Any, what: str = "kernel") -> Kernel:
    """A kernel as it is or from text; `what` names it in errors."""
    if isinstance(kernel, str):
        return parse_kernel(kernel)
    if not isinstance(kernel, Kernel):
        raise ValueError(
            f"{what} must be one of sg.kernels, such as sg.kernels.Matern52(), or an expression "
            f"such as 'matern52(30) + periodic(7)'; got {kernel!r}"
        )
    return kernel


def as_homogeneous(kernel: Any, what: str) -> Kernel:
    """A kernel that is the same at all inputs."""
    made = as_kernel(kernel, what)
    if not made.homogeneous:
        raise ValueError(
            f"{what} must be the same at all inputs; {made!r} is not, and can only be used in an "
            "sg.GP, an sg.MultiOutputGP or an sg.JointGP"
        )
    return made


def as_likelihood(likelihood: Any) -> Likelihood:
    if likelihood is None:
        return Gaussian()
    if isinstance(likelihood, str):
        return from_name(likelihood)
    if isinstance(likelihood, MultivariateGaussian):
        raise ValueError(
            "MultivariateGaussian is the noise of several outputs together: give it as it is, not "
            "in a list, to an sg.MultiOutputGP"
        )
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            "likelihood must be one of sg.likelihoods, such as sg.likelihoods.Gaussian(), or a "
            f"name such as 'poisson'; got {likelihood!r}"
        )
    return likelihood


def one_for_each(name: str, parts: Any, latents: int) -> tuple[Any, ...]:
    if not isinstance(parts, tuple | list):
        return (parts,) * latents
    if len(parts) != latents:
        functions = "one latent function" if latents == 1 else f"{latents} latent functions"
        raise ValueError(f"{name} has {len(parts)} parts, but the likelihood reads {functions}")
    return tuple(parts)


def as_mean(mean: object, number: int) -> Mean:
    if mean is None:
        return means.Zero() if number == 0 else means.Constant()
    if isinstance(mean, Mean):
        return mean
    if as_number(mean) is not None:
        return means.Constant(mean)
    if callable(mean):
        return means.Function(mean)
    raise ValueError(f"mean must be a mean function, a number or a function of x; got {mean!r}")
