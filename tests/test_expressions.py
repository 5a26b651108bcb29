"""Kernels as text: what an expression means, how it is refused, and the way back."""

import contextlib
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stategp as sg
from stategp import kernels as k
from stategp._expressions import parse_kernel, write_kernel
from stategp.kernels import Kernel


def assert_same(left: Kernel, right: Kernel, rtol: float = 0.0) -> None:
    """The same kernels, names, and parameters: values, fixed or learned, given or not."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "matern52(30d) + periodic(1d) * matern32(2w)",
            k.Matern52(lengthscale=30)
            + k.Periodic(period=sg.fixed(1)) * k.Matern32(lengthscale=14),
        ),
        (
            "trend: matern52 + yearly: periodic(1y)",
            k.Sum(trend=k.Matern52(), yearly=k.Periodic(period=sg.fixed(365.25))),
        ),
        (
            "2.5 * matern32(lengthscale=3, variance=0.5)",
            2.5 * k.Matern32(lengthscale=3, variance=0.5),
        ),
        ("matern32(fixed(3))", k.Matern32(lengthscale=sg.fixed(3))),
        ("matern32(variance=fixed(3))", k.Matern32(variance=sg.fixed(3))),
        ("(matern12 + constant) * cosine", (k.Matern12() + k.Constant()) * k.Cosine()),
        ("matern12 + constant * cosine", k.Matern12() + k.Constant() * k.Cosine()),
        ("matern12 * 2 * cosine", k.Matern12() * 2 * k.Cosine()),
        ("rbf(10)", k.SquaredExponential(lengthscale=10)),
        (
            "squared_exponential(lengthscale=10, order=8)",
            k.SquaredExponential(lengthscale=10, order=8),
        ),
        (
            "quasiperiodic(1y, decay=10y, envelope=matern52)",
            k.QuasiPeriodic(period=sg.fixed(365.25), decay=3652.5, envelope="matern52"),
        ),
        (
            "harmonic(period=4, weights=[1, 0.5], lengthscale=2 weeks)",
            k.Harmonic(frequency=sg.fixed(0.25), weights=[1, 0.5], lengthscale=14),
        ),
        ("constant(4)", k.Constant(variance=4)),
        ("cosine(12h)", k.Cosine(period=sg.fixed(0.5))),
        ("cosine(learn(12h))", k.Cosine(period=0.5)),
        ("oscillator(learn(5), quality=3)", k.Oscillator(period=5, quality=3)),
        ("matern72()", k.Matern72()),
        ("matern(3d, order=5.5)", k.Matern(order=5.5, lengthscale=3)),
        ("matern52(1d 12h)", k.Matern52(lengthscale=1.5)),
        ("  matern52 (\n1e1 )", k.Matern52(lengthscale=10)),
        ("'long trend': matern52", k.Sum(**{"long trend": k.Matern52()})),
        (
            "trend: (matern52 + constant) + (cosine + cosine)",
            k.Sum(
                trend=k.Matern52() + k.Constant(), cosine=k.Cosine(), cosine_2=k.Cosine()
            ),
        ),
        ("periodic(1, order=4, lengthscale=2)",
         k.Periodic(period=sg.fixed(1), order=4, lengthscale=2)),
        ("wiener", k.Wiener()),
        ("wiener(2, start=1e4)", k.Wiener(diffusivity=2, start=1e4)),
        ("wiener(start=learn(1e4))", k.Wiener(start=sg.parameter(1e4))),
        ("linear(fixed(3))", k.Linear(slope=sg.fixed(3))),
        (
            "level: integrated_wiener(start=9, slope=4) + damped_trend(1, damping=0.5)",
            k.Sum(
                level=k.IntegratedWiener(start=9, slope=4),
                dampedtrend=k.DampedTrend(diffusivity=1, damping=0.5),
            ),
        ),
        ("periodic(tolerance=0.01)", k.Periodic(tolerance=0.01)),
    ],
)  # fmt: skip
def test_meaning(text: str, expected: Kernel) -> None:
    assert_same(parse_kernel(text), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MATERN_52", k.Matern52),
        ("se", k.SquaredExponential),
        ("SquaredExponential", k.SquaredExponential),
        ("ou", k.Matern12),
        ("exponential", k.Matern12),
        ("Quasi-Periodic", k.QuasiPeriodic),
        ("quasi_periodic", k.QuasiPeriodic),
        ("bias", k.Constant),
        ("SHO", k.Oscillator),
    ],
)
def test_names(text: str, expected: type[Kernel]) -> None:
    assert type(parse_kernel(text)) is expected


def test_terms_of_a_harmonic_start_from_the_data() -> None:
    kernel = parse_kernel("harmonic(1y, terms=3)")
    assert isinstance(kernel, k.Harmonic)
    assert kernel.weights.value.shape == (3,)
    assert (kernel.weights.learned, kernel.weights.given) == (True, False)
    assert (kernel.frequency.learned, float(kernel.frequency)) == (False, 1 / 365.25)


REFUSED = {
    "": "the kernel expression is empty",
    "matern53": "unknown kernel 'matern53' at character 1; known: constant, cosine, .* "
    "Did you mean matern52?",
    "matern52 + perodic": "unknown kernel 'perodic' at character 12; .* Did you mean periodic?",
    "matern": "say how smooth it is: matern12",
    "white(1)": "observation noise belongs to the likelihood",
    "wiener(diffusion=2)": "no argument 'diffusion' .* Did you mean diffusivity?",
    "integrated_wiener(start=2)": "start is given but slope is not",
    "fixed(matern52)": "fixed\\(...\\) goes around a value",
    "matern52(30d": "expected '\\)', found the end at character 13; the '\\(' at character 9",
    "(matern52": "expected '\\)', found the end at character 10; the '\\(' at character 1",
    "matern52)": "'\\)' without an opening parenthesis at character 9",
    "matern52 +": "expected a kernel after '\\+', found the end at character 11",
    "* matern52": "expected a kernel, found '\\*' at character 1",
    "trend:": "expected a kernel after ':', found the end",
    "matern52 matern32": "expected \\+ or \\* between kernels, found 'matern32' at character 10",
    "matern52 - matern32": "kernels can be added and multiplied, nothing else",
    "matern52-matern32": "kernels can be added and multiplied, not subtracted",
    "-matern52": "kernels can be added and multiplied, nothing else",
    "2 + matern32": "'2' is a number, not a kernel, at character 1; write constant\\(2\\)",
    "1y * matern32": "multiplied by plain numbers, got '1y' at character 1",
    "0 * matern32": "multiplied by positive finite numbers, got '0'",
    "1e300 * 1e300 * matern32": "must be finite, got inf, at character 17",
    "a: matern52 + a: matern32": "label 'a' is used a second time at character 15",
    "matern52 + matern52: rbf": "is also the name of a summand without a label",
    "self: matern52": "'self' cannot be a label",
    "matern52(lenghtscale=3)": "matern52 has no argument 'lenghtscale' at character 10; it takes "
    "lengthscale, variance. Did you mean lengthscale?",
    "matern52(3, 4)": "an argument without a name, '4', at character 13",
    "matern52(3, lengthscale=3)": "lengthscale is given a second time at character 13",
    "matern52(variance=30d)": "the variance of matern52 must be a plain number, got the duration",
    "periodic(1y, lengthscale=2d)": "it is relative to the period",
    "matern52(-3)": "the lengthscale of matern52 must be positive, got '-3' at character 10",
    "matern52(0)": "must be positive and finite, got '0' at character 10",
    "matern52(1e999)": "must be positive and finite",
    "matern52(5m)": "'5m' could be minutes or months: write 5min or 5mo, at character 10",
    "matern52(3 fortnights)": "'3 fortnights' is not a duration, at character 10; write a number",
    "matern52(long)": "the lengthscale of matern52 must be a number, got 'long'",
    "matern52(variance=)": "expected a value for the variance of matern52, found '\\)'",
    "matern52(fixed())": "expected a value for the lengthscale",
    "matern52(fixed(3)": "expected '\\)', found the end",
    "matern52(cosine(3))": "expected a value for the lengthscale of matern52, found 'cosine'",
    "matern52('3')": "expected a value for the lengthscale",
    "rbf(order=99)": "order must lie between 1 and 12, got 99, in squared_exponential",
    "rbf(order=2.5)": "order of squared_exponential must be a whole number up to 200, got '2.5'",
    "periodic(order=1000000)": "must be a whole number up to 200",
    "rbf(order=fixed(3))": "is never learned: write it without fixed",
    "harmonic(1y, frequency=2)": "a period or a frequency, not both",
    "harmonic(terms=2, weights=[1, 1])": "terms or the weights of its terms, not both",
    "harmonic(terms=0)": "terms must be at least 1",
    "harmonic(weights=[1, 2)": "expected '\\]', found '\\)' at character 23; the '\\['",
    "quasiperiodic(envelope=rbf)": "must be one of matern12, matern32, matern52, got 'rbf'",
    "__import__('os')": "unknown kernel '__import__'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[text]) as caught:
        parse_kernel(text)
    first, *below = str(caught.value).split("\n")
    assert len(first) < 270
    if below:  # the text, and a caret under the character that the first line names
        shown, caret = below
        number = int(first.split("at character ")[1].split()[0].rstrip(";,"))
        assert shown == "  " + text
        assert caret.index("^") - 2 == number - 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_000_000,
        "(" * 3000,
        "(matern52 + " * 300,
        "+".join(["matern12"] * 400),
        "*".join(["ou"] * 1000),
        "fixed(" * 600,
        "matern52(" * 400,
        "matern52(fixed(" + "fixed(" * 600,
        "9" * 3999,
        "matern52(" + "9" * 3900 + ")",
        "x" * 3999,
        "a:" * 1999,
        "matern52(\x00)",
        "\ud800",
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode(),
)
def test_hostile_text(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_kernel(text)
    assert len(str(caught.value)) < 600


@given(st.text("matern52periodic(1dy)+*:=,.'[]- fxl", max_size=40))
def test_any_text_is_a_kernel_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_kernel(text), Kernel)


# --- and back --------------------------------------------------------------------------------


def test_writing() -> None:
    trend = k.Matern52(lengthscale=30.0, variance=sg.fixed(2.0))
    daily = k.Periodic(period=sg.fixed(1.0), lengthscale=0.7654321) * k.Matern32(lengthscale=14)
    kernel = k.Sum(trend=trend, daily=0.5 * daily)
    assert write_kernel(kernel) == (
        "trend: matern52(30, variance=fixed(2)) + "
        "daily: 0.5 * (periodic(1, lengthscale=0.765432) * matern32(14))"
    )
    assert write_kernel(kernel, dates=True, digits=3) == (
        "trend: matern52(30d, variance=fixed(2)) + "
        "daily: 0.5 * (periodic(1d, lengthscale=0.765) * matern32(2w))"
    )


@pytest.mark.parametrize(
    "text",
    [
        "matern52 + cosine(learn(7)) + matern52",
        "matern52: matern52",
        "(trend: matern52 + matern52_2: matern52) * cosine",
        '"long trend": matern52 + rest: (matern12 + constant)',
        "2 * (3 * matern12)",
        "matern12 * constant(fixed(3)) * (matern32 * cosine)",
        "2 * constant(fixed(3))",
        "harmonic(frequency=147, weights=fixed([1, 0.5]), lengthscale=0.1)",
        "harmonic(7, terms=3)",
        "cosine(365.2425)",
        "quasiperiodic(365.25, decay=3652.5, lengthscale=2, envelope=matern52)",
        "periodic(learn(1), tolerance=0.01) + periodic(order=3)",
        "squared_exponential(variance=2, order=8)",
    ],
)
def test_text_that_comes_back_as_it_was(text: str) -> None:
    assert write_kernel(parse_kernel(text)) == text


def test_what_text_cannot_say() -> None:
    for start in (None, 2.0):
        with_prior = k.Matern12(lengthscale=sg.parameter(start, prior=sg.priors.LogNormal()))
        with pytest.raises(ValueError, match="the prior of the lengthscale of matern12"):
            write_kernel(with_prior)
    equation = k.FromSDE(F=[[-1.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0])
    with pytest.raises(ValueError, match="FromSDE cannot be written as text"):
        write_kernel(equation + k.Constant())
    with pytest.raises(ValueError, match=r"component name .* cannot be written"):
        write_kernel(k.Sum(**{"'\"": k.Constant()}))


def _values(low: float, high: float) -> st.SearchStrategy:
    """Not given, to learn from, or held fixed."""
    number = st.floats(low, high)
    return st.none() | number | st.tuples(number)


def _recipe(kernel: type[Kernel], **arguments: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(st.just(kernel), st.fixed_dictionaries(arguments))


_POSITIVE, _TIME = _values(1e-3, 1e3), _values(1e-6, 1e6)
_WEIGHTS = st.lists(st.floats(0.1, 9), min_size=1, max_size=3)
_SINGLE = st.one_of(
    *(
        _recipe(kernel, variance=_POSITIVE, lengthscale=_TIME)
        for kernel in (k.Matern12, k.Matern52, k.SquaredExponential)
    ),
    _recipe(k.Constant, variance=_POSITIVE),
    _recipe(k.Cosine, variance=_POSITIVE, period=_TIME),
    _recipe(k.Oscillator, period=_TIME, quality=_POSITIVE),
    _recipe(k.QuasiPeriodic, period=_TIME, lengthscale=_values(0.5, 5.0), decay=_TIME),
    _recipe(k.Harmonic, frequency=_TIME, weights=_WEIGHTS),
)
_LABELS = st.sampled_from(["trend", "long trend", "jährlich", "matern52", "cosine_2"])
_RECIPES = st.recursive(
    _SINGLE,
    lambda inner: st.one_of(
        st.tuples(inner, st.just("+"), inner),
        st.tuples(st.floats(1e-3, 1e3) | inner, st.just("*"), inner),
        st.dictionaries(_LABELS, inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def _made(recipe: Any) -> Any:
    """The kernel of a recipe (made in the test: JAX must not run where examples are drawn)."""
    match recipe:
        case float():
            return recipe
        case dict():
            return k.Sum(**{label: _made(part) for label, part in recipe.items()})
        case (left, "+", right):
            return _made(left) + _made(right)
        case (left, "*", right):
            return _made(left) * _made(right)
        case (kernel, arguments):
            held = {n: sg.fixed(v[0]) for n, v in arguments.items() if isinstance(v, tuple)}
            return kernel(**arguments | held)


@given(_RECIPES, st.booleans())
def test_round_trip(recipe: Any, dates: bool) -> None:
    kernel = _made(recipe)
    exact = write_kernel(kernel, dates=dates, digits=None)
    # A harmonic kernel's period is one over its frequency: a rounding error each way.
    assert_same(parse_kernel(exact), kernel, rtol=1e-15)
    assert_same(parse_kernel(write_kernel(kernel, dates=dates, digits=6)), kernel, rtol=6e-6)
