"""What likelihoods accept, refuse, print and start from."""

import numpy as np
import pytest

import stategp as sg
from stategp import likelihoods as lik
from tests.likelihoods.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_guesses_are_finite_and_near(name: str) -> None:
    case = CASES[name]
    y = np.asarray(case.y)
    guess = case.likelihood.guess(y, np.full(y.shape, case.extra))
    assert guess.shape == y.shape
    assert np.all(np.isfinite(guess))
    assert np.all(np.diff(guess[np.argsort(y)]) > 0)
    assert np.all(case.likelihood.valid(y, np.full(y.shape, case.extra)))


@pytest.mark.parametrize(
    ("likelihood", "possible", "impossible"),
    [
        (lik.StudentT(), [-1.0, 0.0], [np.nan, np.inf]),
        (lik.Laplace(), [-1.0, 0.0], [np.nan, np.inf]),
        (lik.Bernoulli(), [0.0, 1.0], [-1.0, 0.5, 2.0, np.nan]),
        (lik.Poisson(), [0.0, 7.0], [-1.0, 0.5, np.inf, np.nan]),
        (lik.NegativeBinomial(), [0.0, 7.0], [-1.0, 0.5, np.inf, np.nan]),
        (lik.Exponential(), [0.1], [0.0, -1.0, np.inf, np.nan]),
        (lik.LogNormal(), [0.1], [0.0, -1.0, np.inf, np.nan]),
        (lik.Gamma(), [0.1], [0.0, -1.0, np.inf, np.nan]),
        (lik.Weibull(), [0.1], [0.0, -1.0, np.inf, np.nan]),
        (lik.Beta(), [0.1], [0.0, 1.0, np.nan]),
        (lik.Ordinal(3), [0.0, 1.0, 2.0], [-1.0, 0.5, 3.0, np.nan]),
        (lik.HeteroscedasticGaussian(), [0.0], [np.nan]),
        (lik.HeteroscedasticStudentT(), [0.0], [np.nan]),
        (lik.ZeroInflatedPoisson(), [0.0, 7.0], [-1.0, 0.5, np.inf, np.nan]),
        (lik.ZeroInflatedNegativeBinomial(), [0.0, 7.0], [-1.0, 0.5, np.inf, np.nan]),
        (lik.HurdlePoisson(), [0.0, 7.0], [-1.0, 0.5, np.inf, np.nan]),
        (lik.Censored(), [-1.0], [np.inf, np.nan]),
    ],
    ids=repr,
)
def test_possible_observations(likelihood, possible, impossible) -> None:
    for values, answer in ((possible, True), (impossible, False)):
        valid = likelihood.valid(np.array(values), np.ones(len(values)))
        np.testing.assert_array_equal(valid, answer)


def test_binomial_counts_are_at_most_the_trials() -> None:
    y, trials = np.array([0.0, 3.0, 4.0, 1.0, -1.0]), np.array([0.0, 3.0, 3.0, 1.5, 2.0])
    valid = lik.Binomial().valid(y, trials)
    np.testing.assert_array_equal(valid, [True, True, False, False, False])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gaussian", "Gaussian(variance=1)"),
        ("Student-T", "StudentT(df=4, scale=1)"),
        ("laplace", "Laplace(scale=1)"),
        ("bernoulli", "Bernoulli(link='logit')"),
        ("binomial", "Binomial(link='logit')"),
        ("POISSON", "Poisson()"),
        ("negative binomial", "NegativeBinomial(shape=1)"),
        ("exponential", "Exponential()"),
        ("gamma", "Gamma(shape=1)"),
        ("log-normal", "LogNormal(variance=1)"),
        ("weibull", "Weibull(shape=1)"),
        ("beta", "Beta(precision=10)"),
        ("heteroscedastic", "HeteroscedasticGaussian()"),
        ("heteroscedastic Student-t", "HeteroscedasticStudentT(df=4)"),
        ("zero-inflated Poisson", "ZeroInflatedPoisson(odds=0.25)"),
        ("ZINB", "ZeroInflatedNegativeBinomial(odds=0.25, shape=1)"),
        ("hurdle", "HurdlePoisson()"),
        ("tobit", "Censored(variance=1)"),
        ("normal", "Gaussian(variance=1)"),
        ("studentt", "StudentT(df=4, scale=1)"),
        ("Student's t", "StudentT(df=4, scale=1)"),
        ("robust", "StudentT(df=4, scale=1)"),
        ("binary", "Bernoulli(link='logit')"),
        ("counts", "Poisson()"),
        ("NegBin", "NegativeBinomial(shape=1)"),
        ("negativebinomial", "NegativeBinomial(shape=1)"),
        ("heteroskedastic", "HeteroscedasticGaussian()"),
    ],
)
def test_by_name(name: str, shown: str) -> None:
    assert repr(lik.from_name(name)) == shown


def test_by_name_with_options() -> None:
    assert repr(lik.from_name("student-t", df=sg.fixed(3.0))) == "StudentT(df=fixed(3), scale=1)"
    assert repr(lik.from_name("bernoulli", link="probit")) == "Bernoulli(link='probit')"
    assert lik.from_name("ordinal", levels=3).levels == 3


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("cauchy", {}, r"no likelihood is called 'cauchy'; the names are gaussian, .*\)$"),
        ("poison", {}, r"Did you mean poisson\?"),
        ("gausian", {}, r"Did you mean gaussian\?"),
        ("negitive-binomial", {}, r"Did you mean negative_binomial\?"),
        ("norml", {}, r"Did you mean gaussian\?"),
        ("", {}, "no likelihood is called ''"),
        ("ordinal", {}, r"pass sg\.likelihoods\.Ordinal\(levels="),
        ("categorical", {}, r"pass sg\.likelihoods\.Softmax\(classes="),
        (
            "gaussian",
            {"varience": 1.0},
            "gaussian has no option 'varience'; it takes variance. Did",
        ),
        ("student_t", {"df": -1.0}, "df must be positive"),
    ],
)
def test_names_refused(name: str, options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lik.from_name(name, **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lik.StudentT(df=-1.0), "df must be positive"),
        (lambda: lik.StudentT(scale="wide"), "scale must be a number"),
        (lambda: lik.Laplace(scale=0.0), "scale must be positive"),
        (lambda: lik.Bernoulli(link="cauchit"), "link must be one of 'logit', 'probit'"),
        (lambda: lik.Binomial(quadrature=0), "quadrature must be a whole number of at least 1"),
        (lambda: lik.Beta(precision=[1.0, 2.0]), "precision must be one number"),
        (lambda: lik.NegativeBinomial(shape=np.inf), "shape must be finite"),
        (lambda: lik.Softmax(1), "classes must be a whole number of at least 2"),
        (lambda: lik.ZeroInflatedPoisson(odds=-1.0), "odds must be positive"),
        (lambda: lik.HurdlePoisson(quadrature=1), "quadrature must be a whole number of at least"),
        (lambda: lik.Ordinal(1), "levels must be a whole number of at least 2"),
        (lambda: lik.Ordinal(2.5), "levels must be a whole number"),
        (lambda: lik.Ordinal(3, cutpoints=[1.0]), "2 increasing numbers for 3 levels"),
        (lambda: lik.Ordinal(3, cutpoints=[1.0, 0.0]), "2 increasing numbers for 3 levels"),
        (lambda: lik.Ordinal(3, cutpoints="ab"), "cutpoints must be a list of numbers"),
        (lambda: lik.Ordinal(3, cutpoints=sg.parameter()), "without a prior"),
    ],
)
def test_refused_in_words(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_ordinal_cutpoints() -> None:
    np.testing.assert_allclose(lik.Ordinal(4).cutpoints, [-1, 0, 1])
    np.testing.assert_allclose(lik.Ordinal(2).cutpoints, [0])
    held = lik.Ordinal(3, cutpoints=sg.fixed([0.0, 1.5]), link="probit")
    assert repr(held) == "Ordinal(levels=3, link='probit', first=fixed(0), gaps=fixed([1.5]))"


@pytest.mark.parametrize("y", [[2.0], [0.0], [3.0] * 20, [1.0, 2.0]])
def test_heteroscedastic_guess_of_little_data(y: list[float]) -> None:
    guess = lik.HeteroscedasticGaussian().guess(np.array(y), np.zeros(len(y)))
    assert guess.shape == (len(y), 2)
    assert np.all(np.isfinite(guess))


def test_heteroscedastic_guess_sees_the_noise_change() -> None:
    rng = np.random.default_rng(0)
    deviation = np.repeat([0.1, 2.0], 200)
    y = 5 + deviation * rng.normal(size=400)
    guess = lik.HeteroscedasticGaussian().guess(y, np.zeros(400))
    np.testing.assert_array_equal(guess[:, 0], y)
    np.testing.assert_allclose(guess[50:150, 1], np.log(0.01), atol=0.7)
    np.testing.assert_allclose(guess[250:350, 1], np.log(4.0), atol=0.7)
