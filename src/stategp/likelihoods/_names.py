"""Likelihoods by name."""

import difflib
import inspect
from typing import Any

from stategp.likelihoods._base import Likelihood
from stategp.likelihoods._bernoulli import Bernoulli, Binomial
from stategp.likelihoods._beta import Beta
from stategp.likelihoods._bounded import Bounded
from stategp.likelihoods._censored import Censored
from stategp.likelihoods._counts import NegativeBinomial, Poisson
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._heteroscedastic import HeteroscedasticGaussian
from stategp.likelihoods._heteroscedastic_t import HeteroscedasticStudentT
from stategp.likelihoods._hurdle import HurdlePoisson
from stategp.likelihoods._laplace import Laplace
from stategp.likelihoods._log_normal import LogNormal
from stategp.likelihoods._ordinal import Ordinal
from stategp.likelihoods._positive import Exponential, Gamma, Weibull
from stategp.likelihoods._softmax import Softmax
from stategp.likelihoods._student_t import StudentT
from stategp.likelihoods._zeros import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson

_NAMED: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "laplace": Laplace,
    "log_normal": LogNormal,
    "bernoulli": Bernoulli,
    "binomial": Binomial,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "zero_inflated_poisson": ZeroInflatedPoisson,
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial,
    "hurdle_poisson": HurdlePoisson,
    "exponential": Exponential,
    "gamma": Gamma,
    "weibull": Weibull,
    "beta": Beta,
    "bounded": Bounded,
    "censored": Censored,
    "heteroscedastic": HeteroscedasticGaussian,
    "heteroscedastic_student_t": HeteroscedasticStudentT,
    "ordinal": Ordinal,
    "softmax": Softmax,
}

_ALIASES = {
    "normal": "gaussian",
    "t": "student_t",
    "student": "student_t",
    "students_t": "student_t",
    "robust": "student_t",
    "double_exponential": "laplace",
    "binary": "bernoulli",
    "categorical": "softmax",
    "multiclass": "softmax",
    "count": "poisson",
    "counts": "poisson",
    "negbin": "negative_binomial",
    "neg_binomial": "negative_binomial",
    "zip": "zero_inflated_poisson",
    "zinb": "zero_inflated_negative_binomial",
    "hurdle": "hurdle_poisson",
    "tobit": "censored",
    "heteroscedastic_gaussian": "heteroscedastic",
    "heteroskedastic": "heteroscedastic",
}


def _plain(name: str) -> str:
    """A name without what people write in different ways."""
    return "".join(character for character in name.lower() if character.isalnum())


_BY_NAME = {_plain(name): name for name in _NAMED}
_BY_NAME |= {_plain(alias): name for alias, name in _ALIASES.items()}


def from_name(name: str, **options: Any) -> Likelihood:
    """The likelihood of that name, with the options given and defaults for the others.

    >>> import stategp as sg
    >>> sg.likelihoods.from_name("student-t", df=3.0)
    StudentT(df=3, scale=1)
    """
    if _plain(name) not in _BY_NAME:
        # Offer a name, never an alias: "cout" is closer to "count", but means "poisson".
        close = difflib.get_close_matches(_plain(name), _BY_NAME, n=1)
        suggestion = f". Did you mean {_BY_NAME[close[0]]}?" if close else ""
        raise ValueError(
            f"no likelihood is called {name!r}; the names are {', '.join(_NAMED)} "
            f"(or pass one of sg.likelihoods){suggestion}"
        )
    known = _BY_NAME[_plain(name)]
    kind = _NAMED[known]
    for needs, argument in ((Ordinal, "levels"), (Softmax, "classes")):
        if kind is needs and argument not in options:
            raise ValueError(
                f"the likelihood {known} needs its number of {argument}: "
                f"pass sg.likelihoods.{kind.__name__}({argument}=...)"
            )
    accepted = list(inspect.signature(kind).parameters)
    for option in options:
        if option not in accepted:
            takes = ", ".join(accepted) or "no options"
            close = difflib.get_close_matches(option, accepted, n=1)
            suggestion = f". Did you mean {close[0]}?" if close else ""
            raise ValueError(f"{known} has no option {option!r}; it takes {takes}{suggestion}")
    return kind(**options)
