"""Models without what changes no computation.

JAX compiles a program anew for a model that differs in anything but numbers: in the name of a
summand, in where a starting value came from. What is compiled is therefore given a bare model.
"""

from typing import Any, TypeVar

import jax

from stategp._models._outputs import MultiOutputGP
from stategp.kernels import Sum
from stategp.parameters import Parameter, anew

Part = TypeVar("Part")


def bare(part: Part, *, learning: bool = False) -> Part:
    """A model, kernel or likelihood with the same numbers, and nothing that is only for people.

    With `learning`, what the vector of hyperparameters and their prior depend on stays.

    >>> import stategp as sg
    >>> bare(sg.kernels.Sum(trend=sg.kernels.Matern32(lengthscale=sg.fixed(2.0)))).names
    ('matern32',)
    """

    def strip(node: Any) -> Any:
        if isinstance(node, Parameter):
            if learning:
                kept = node.constraint, node.learned, node.prior
                return anew(node.value, kept[0], learned=kept[1], prior=kept[2])
            return anew(node.value)
        if isinstance(node, Sum):
            return Sum(*(bare(kernel, learning=learning) for kernel in node.kernels))
        return node

    whole: Any = part.anonymous() if isinstance(part, MultiOutputGP) else part
    stripped: Part = jax.tree.map(
        strip, whole, is_leaf=lambda node: isinstance(node, Parameter | Sum)
    )
    return stripped
