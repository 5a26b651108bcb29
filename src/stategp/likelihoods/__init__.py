"""Likelihoods: how observations depend on f."""

from stategp.likelihoods._base import Likelihood
from stategp.likelihoods._bernoulli import Bernoulli, Binomial
from stategp.likelihoods._beta import Beta
from stategp.likelihoods._bounded import Bounded
from stategp.likelihoods._censored import Censored, within
from stategp.likelihoods._counts import NegativeBinomial, Poisson
from stategp.likelihoods._custom import Custom
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._heteroscedastic import HeteroscedasticGaussian
from stategp.likelihoods._heteroscedastic_t import HeteroscedasticStudentT
from stategp.likelihoods._hurdle import HurdlePoisson
from stategp.likelihoods._laplace import Laplace
from stategp.likelihoods._log_normal import LogNormal
from stategp.likelihoods._multivariate import MultivariateGaussian
from stategp.likelihoods._names import from_name
from stategp.likelihoods._ordinal import Ordinal
from stategp.likelihoods._positive import Exponential, Gamma, Weibull
from stategp.likelihoods._products import Products
from stategp.likelihoods._softmax import Softmax
from stategp.likelihoods._softplus import Softplus
from stategp.likelihoods._stages import StagedPoisson
from stategp.likelihoods._student_t import StudentT
from stategp.likelihoods._zeros import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Bounded",
    "Censored",
    "Custom",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "HurdlePoisson",
    "Laplace",
    "Likelihood",
    "LogNormal",
    "MultivariateGaussian",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Products",
    "Softmax",
    "Softplus",
    "StagedPoisson",
    "StudentT",
    "Weibull",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "from_name",
    "within",
]
