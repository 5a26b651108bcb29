"""The ways of inference, one in a file."""

from typing import Any

from stategp._fitting._method import Method
from stategp._fitting._methods._additive import AdditiveNatural
from stategp._fitting._methods._additive_first_order import AdditiveFirstOrder
from stategp._fitting._methods._additive_gradient import AdditiveGradient
from stategp._fitting._methods._bayes_newton import BayesNewton
from stategp._fitting._methods._deep import DeepGradient, DeepNatural
from stategp._fitting._methods._gradient import Gradient
from stategp._fitting._methods._importance_weighted import ImportanceWeighted
from stategp._fitting._methods._laplace import Laplace
from stategp._fitting._methods._linearised import (
    Extended,
    GaussNewton,
    PosteriorLinearisation,
    Unscented,
)
from stategp._fitting._methods._logistic import Logistic
from stategp._fitting._methods._mixed import MixedNatural
from stategp._fitting._methods._mixed_first_order import MixedInMinibatches, MixedWithOptax
from stategp._fitting._methods._mixed_gradient import JointGradient, OutputsGradient
from stategp._fitting._methods._natural import Natural, closeness
from stategp._fitting._methods._natural_first_order import NaturalInMinibatches, NaturalWithOptax
from stategp._fitting._methods._power_ep import PowerEP
from stategp._fitting._settings import Regime
from stategp._models import SpaceTimeGP

__all__ = [
    "BayesNewton",
    "ImportanceWeighted",
    "Method",
    "Natural",
    "PowerEP",
    "closeness",
    "find_method",
]

METHODS: tuple[type[Method], ...] = (
    Natural,
    NaturalWithOptax,
    NaturalInMinibatches,
    Gradient,
    Laplace,
    PowerEP,
    Logistic,
    PosteriorLinearisation,
    Extended,
    Unscented,
    GaussNewton,
    BayesNewton,
    ImportanceWeighted,
    AdditiveNatural,
    AdditiveFirstOrder,
    AdditiveGradient,
    MixedNatural,
    MixedWithOptax,
    MixedInMinibatches,
    OutputsGradient,
    JointGradient,
    DeepNatural,
    DeepGradient,
)


# Of a series by name, of a field by the Newton steps that do the same.
_OF_FIELDS = {
    "laplace": 'sg.BayesNewton("mode", "exact")',
    "ep": 'sg.BayesNewton("ep", "exact")',
    "posterior_linearisation": 'sg.BayesNewton("linearised", "gauss_newton")',
    "unscented": 'sg.BayesNewton("linearised", "gauss_newton"), by quadrature in place of points,',
    "extended": 'sg.BayesNewton("extended", "gauss_newton")',
    "gauss_newton": 'sg.BayesNewton("mode", "gauss_newton")',
}


def find_method(model: Any, method: Any, regime: Regime) -> Method:
    """The method that was asked for, by name or as an object, if it goes with the model."""
    names = dict.fromkeys(kind.name for kind in METHODS)
    if not isinstance(method, Method) and not (isinstance(method, str) and method in names):
        listed = ", ".join(map(repr, names))
        raise ValueError(
            f"method must be one of {listed}, or a method object such as sg.PowerEP(0.5), got "
            f"{method!r}"
        )
    name = method.name if isinstance(method, Method) else method
    kinds = [kind for kind in METHODS if isinstance(model, kind.model) and kind.name == name]
    if isinstance(method, Method) and isinstance(model, method.model):
        kinds = [type(method)]
    what = type(model).__name__
    if not kinds:
        known = ", ".join(
            dict.fromkeys(repr(kind.name) for kind in METHODS if isinstance(model, kind.model))
        )
        named = isinstance(method, str) and isinstance(model, SpaceTimeGP)
        other = _OF_FIELDS.get(name) if named else None
        same = f"; method={other} does that for given hyperparameters, with sg.condition"
        raise ValueError(
            f"method={name!r} cannot be used with {what} models"
            + (same if other else f"; use one of {known}")
        )
    for kind in kinds:
        if regime in kind.regimes:
            return method if isinstance(method, Method) else kind()
    ways = " or ".join(dict.fromkeys(way.value for kind in kinds for way in kind.regimes))
    raise ValueError(f"method={name!r} of {what} models takes {ways}; got {regime.value}")
