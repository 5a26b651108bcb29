"""The base of kernels, likelihoods, models and whatever else JAX takes apart into arrays."""

import equinox as eqx


class Module(eqx.Module):
    """Equinox's, whose methods are methods of Python.

    Equinox looks at every attribute that is read, so that methods can be given to transformations
    as trees of arrays. Nothing here does that, and it takes a good part of the time of a fit of a
    short series.
    """

    __getattribute__ = object.__getattribute__
