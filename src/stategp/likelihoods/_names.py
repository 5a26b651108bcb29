"""Likelihoods by name."""

from stategp.likelihoods._base import Likelihood
from stategp.likelihoods._bernoulli import Bernoulli, Binomial
from stategp.likelihoods._beta import Beta
from stategp.likelihoods._counts import NegativeBinomial, Poisson
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._heteroscedastic import HeteroscedasticGaussian
from stategp.likelihoods._laplace import Laplace
from stategp.likelihoods._positive import Exponential, Gamma, Weibull
from stategp.likelihoods._student_t import StudentT

_NAMED: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "laplace": Laplace,
    "bernoulli": Bernoulli,
    "binomial": Binomial,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "exponential": Exponential,
    "gamma": Gamma,
    "weibull": Weibull,
    "beta": Beta,
    "heteroscedastic": HeteroscedasticGaussian,
}


def from_name(name: str) -> Likelihood:
    """The likelihood of that name, with its default parameters.

    >>> import stategp as sg
    >>> sg.likelihoods.from_name("student-t")
    StudentT(df=4, scale=1)
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain == "ordinal":
        raise ValueError(
            "an ordinal likelihood needs its number of levels: "
            "pass sg.likelihoods.Ordinal(levels=...)"
        )
    if plain not in _NAMED:
        raise ValueError(
            f"no likelihood is called {name!r}; the names are {', '.join(_NAMED)} "
            "(or pass one of sg.likelihoods)"
        )
    return _NAMED[plain]()
