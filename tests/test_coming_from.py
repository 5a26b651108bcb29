"""The tables of docs/coming-from.md for Markovflow and BayesNewton: every line of code runs.

`peers.json` has the classes of both packages as PyPI has them; none may be missing.
"""

import itertools
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stategp as sg
from stategp._fitting._methods import _linearised
from stategp.parameters import all_parameters
from tests.pages import ROOT, blocks

PAGE = ROOT / "docs" / "coming-from.md"
PEERS = json.loads((ROOT / "tests" / "peers.json").read_text())
CODE = re.compile(r"`([^`]+)`")
A_KEYWORD = re.compile(r"\w+=[^(]*")  # of a call that is written out elsewhere in the row


def rows(peer: str) -> list[tuple[str, str]]:
    """The two cells of every row."""
    section = PAGE.read_text().split(f"\n## {peer}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    assert all(len(pair) == 2 for pair in cells)
    return [(theirs, ours) for theirs, ours in cells]


ROWS = rows("Markovflow") + rows("BayesNewton")


def named(text: str) -> Iterator[str]:
    """The names in a cell; `[A]B` stands for B and AB."""
    for code in CODE.findall(text):
        parts = re.split(r"(\[\w+\])", code.split("(")[0])
        choices = [("", part[1:-1]) if part.startswith("[") else (part,) for part in parts]
        yield from map("".join, itertools.product(*choices))


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page defines before its tables."""
    found: dict[str, Any] = {}
    code = next(code for _, code in blocks(PAGE) if "labels, both" in code)
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def numbers_in(answer: Any) -> Iterator[Any]:
    """Arrays, the bounds of posteriors, and the parameters of models: what has to be finite."""
    if isinstance(answer, list | tuple):
        for part in answer:
            yield from numbers_in(part)
    elif isinstance(answer, np.ndarray | jax.Array | float):
        yield answer
    elif hasattr(answer, "elbo"):
        yield answer.elbo
    elif isinstance(answer, eqx.Module):
        yield from (parameter.value for parameter in all_parameters(answer))


def test_noise_with_a_shared_exponential_precision_is_a_student_t(names: dict) -> None:
    """Integrated over the process that two outputs share."""
    g = np.linspace(-9, 9, 4001)
    for y in ([0.3, -1.2], [4.0, 0.1], [-7.0, 9.0]):
        logs = [names["shared_t"](one, np.stack([0.5 + 0 * g, g], axis=-1)) for one in y]
        density = np.trapezoid(np.exp(sum(logs)) * scipy.stats.norm.pdf(g), g)
        exact = scipy.stats.multivariate_t([0.5, 0.5], np.eye(2), df=2).pdf(y)
        np.testing.assert_allclose(density, exact, rtol=1e-5)


def test_three_points_are_a_rule_of_fifth_order() -> None:
    points, weights = np.polynomial.hermite_e.hermegauss(_linearised.Unscented.nodes)
    moments = [weights @ points**power / weights.sum() for power in range(7)]
    np.testing.assert_allclose(moments[:6], [1, 0, 1, 0, 3, 0], atol=1e-12)
    assert abs(moments[6] - 15) > 1


@pytest.mark.parametrize("ours", list(dict.fromkeys(ours for _, ours in ROWS)))
def test_a_row_is_answered_by_code_that_runs(ours: str, names: dict) -> None:
    code = [part for part in CODE.findall(ours) if not A_KEYWORD.fullmatch(part)]
    assert code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)  # of two steps
        for part in code:
            answer = eval(compile(part, str(PAGE), "eval"), dict(names))
            assert answer is not None
            assert all(np.all(np.isfinite(number)) for number in numbers_in(answer))


@pytest.mark.parametrize(
    ("peer", "title"), [("markovflow", "Markovflow"), ("bayesnewton", "BayesNewton")]
)
def test_every_class_of_theirs_has_a_row(peer: str, title: str) -> None:
    answered = {name for theirs, _ in rows(title) for name in named(theirs)}
    assert not [name for name in PEERS[peer]["names"] if name not in answered]
    assert f"| {title} {PEERS[peer]['version']} |" in PAGE.read_text()


LIKE_DENSE = [
    "GaussianProcessRegression",
    "[Sparse][Markov]GaussianProcess",
    "[Sparse]InfiniteHorizon",
]


@pytest.mark.parametrize("theirs", LIKE_DENSE)
def test_exact_rows_have_the_evidence_of_a_dense_gp(theirs: str, names: dict) -> None:
    ours = next(ours for left, ours in ROWS if theirs in left)
    posterior = eval(compile(CODE.findall(ours)[0], str(PAGE), "eval"), dict(names))
    x, y = names["x"], names["y"]
    K = np.asarray(names["a"](x, x)) + np.eye(len(x))  # noise of variance one
    exact = scipy.stats.multivariate_normal(np.zeros(len(x)), K).logpdf(y)
    np.testing.assert_allclose(posterior.elbo, exact, rtol=1e-9)


# How far, in nats, the bound or the approximate evidence of a row is from that of natural gradients
# with a state at every input.
NEAR_NATURAL = {
    "`CVIGaussianProcess`": 1e-6,
    "`PowerExpectationPropagation`": 0.5,
    "ExtendedKalmanSmoother": 1.0,
    "`[Sparse][Markov]PosteriorLinearisationGP`": 1.0,
    "GaussNewton`": 1.0,
    "`Unscented`": 1.0,
}


@pytest.mark.parametrize("theirs", NEAR_NATURAL)
def test_rows_that_approximate_agree_about_f(theirs: str, names: dict) -> None:
    ours = next(ours for left, ours in ROWS if theirs in left)
    posterior = eval(compile(CODE.findall(ours)[0], str(PAGE), "eval"), dict(names))
    natural = sg.condition(names["model"], names["x"], names["labels"], inducing="data")
    assert abs(posterior.elbo - natural.elbo) < NEAR_NATURAL[theirs]
    means = [np.asarray(one.predict_f(names["x"])[0]) for one in (posterior, natural)]
    np.testing.assert_allclose(means[0], means[1], atol=0.2)


LAGS = np.array([0.0, 0.4, 1.7, 5.0])


def periodic_series(lengthscale: float) -> np.ndarray:
    """BayesNewton's sum of cosines, to order six, from the series of the exponential."""
    from scipy.special import ive

    weights = ive(np.arange(7), lengthscale**-2) * np.array([1, 2, 2, 2, 2, 2, 2])
    return np.cos(2 * np.pi * np.outer(LAGS, np.arange(7))) @ weights


SAME = {
    "OrnsteinUhlenbeck(": 3.0 / (2 * 0.5) * np.exp(-0.5 * LAGS),
    "HarmonicOscillator(": 2.0 * np.cos(2 * np.pi * LAGS / 6.0),
    "Cosine(frequency=2.0": np.cos(2.0 * LAGS),
    "Periodic(lengthscale=1.5": periodic_series(1.5),
}


@pytest.mark.parametrize("theirs", SAME)
def test_parameters_are_translated(theirs: str, names: dict) -> None:
    """Their covariance at some lags, by the formulas in their documentation."""
    (ours,) = [ours for left, ours in ROWS if theirs in left]
    kernel = eval(compile(CODE.findall(ours)[0], str(PAGE), "eval"), dict(names))
    H, P = np.asarray(kernel.emission()), np.asarray(kernel.stationary_covariance())
    states = [H @ np.asarray(kernel.transition(jnp.asarray(lag))) @ P @ H for lag in LAGS]
    np.testing.assert_allclose(states, SAME[theirs], rtol=1e-9, atol=1e-9)
