"""Few compiled programs: what they are shared by, and that sharing changes no answer."""

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import _posteriors
from stategp._forecasting._design import Design
from stategp._forecasting._instants import read_times
from stategp._forecasting._regression import fit_with_effects
from stategp._forecasting._steps import fitting_axis
from stategp._forecasting._tilting import level
from stategp._models import bare
from stategp._runtime import as_key
from stategp._story import tell

compiled: list[str] = []


def _note(event, seconds, **about):
    if event.endswith("backend_compile_duration"):
        compiled.append(about["fun_name"])


jax.monitoring.register_event_duration_secs_listener(_note)


@contextlib.contextmanager
def programs():
    """The names of the programs that are compiled inside."""
    names: list[str] = []
    before = len(compiled)
    yield names
    names += [name.removeprefix("jit(").removesuffix(")") for name in compiled[before:]]


def series(n, seed=0):
    x = np.linspace(0, 10, n)
    return x, np.sin(x) + 0.1 * np.random.default_rng(seed).standard_normal(n)


def everything(posterior, x, y, points):
    """What people ask of a posterior."""
    there = np.linspace(-1, 12, points)
    return {
        "moments": posterior.predict_f(there),
        "observations": posterior.predict_y(there),
        "quantiles": posterior.quantiles(there, (0.1, 0.5, 0.9)[: 1 + points % 3]),
        "components": posterior.components(there),
        "density": posterior.log_density(there, np.zeros(points)),
        "crps": posterior.crps(there, np.zeros(points)),
        "left out": posterior.leave_one_out(x, y),
        "tails": posterior.tail_probability(x, y),
    }


@pytest.fixture(scope="module")
def asked():
    x, y = series(12)
    posterior = sg.condition(sg.GP("trend: matern32(2) + tide: cosine(3)"), x, y)
    everything(posterior, x, y, 5)
    return posterior


def test_other_points_names_and_sizes_are_no_new_programs(asked):
    x, y = series(40, 1)
    model = sg.GP("a: matern32(fixed(1.5)) + b: cosine(2)", sg.likelihoods.Gaussian(variance=0.3))
    posterior = sg.condition(model, x, y)
    with programs() as names:
        for points in (1, 17, 300):
            everything(posterior, x, y, points)
    assert names == []


def test_other_numbers_of_samples_are_no_new_programs(asked):
    asked.sample_y(0, np.linspace(0, 3, 10), num_samples=13)
    with programs() as names:
        drawn = asked.sample_y(1, np.linspace(0, 9, 12), num_samples=9)
    assert names == []
    assert drawn.shape == (9, 12)


def test_what_is_compiled_is_never_a_single_operation():
    x, y = series(40)
    with programs() as names:
        posterior = sg.fit(sg.GP(sg.kernels.Matern32()), x, y, inducing="data")
        everything(posterior, x, y, 7)
        posterior.sample_y(0, x, num_samples=2)
        tell(posterior, points=50, until=12.0)
    assert {name for name in names if hasattr(jnp, name) or hasattr(jax.lax, name)} == set()
    assert "stage" not in names  # jnp.asarray


def test_the_sizes_of_trends_are_known_without_computing():
    k = sg.kernels
    trends = (k.Wiener(), k.Linear(), k.IntegratedWiener(order=2), k.DampedTrend())
    with programs() as names:
        kernel = k.Sum(*trends, k.Periodic(order=3))
        assert kernel.state_dim == 1 + 2 + 3 + 2 + 7
        assert _posteriors._at_points._extents(kernel) == ((1, 1), (2, 1), (3, 1), (2, 1), (7, 4))
        assert not kernel.steep
        assert (kernel + k.IntegratedWiener(order=9)).steep
    assert names == []


def test_few_points_and_many_have_the_same_answers(asked, monkeypatch):
    x, y = series(12)
    few = everything(asked, x, y, 150)
    for module in (_posteriors._pointwise, _posteriors._at_points):
        monkeypatch.setattr(module, "MANY", 100)
    monkeypatch.setattr(_posteriors._pointwise, "BLOCK", 64)
    many = everything(asked, x, y, 150)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), many, few)


def test_no_points_have_no_answers(asked):
    for answer in jax.tree.leaves([asked.predict_f([]), asked.components([]), asked.predict_y([])]):
        assert answer.shape == (0,)


def test_a_bare_model_has_the_same_numbers_and_no_names():
    prior = sg.priors.LogNormal(2.0, 0.5)
    kernel = sg.kernels.Sum(
        slow=sg.kernels.Matern52(lengthscale=sg.parameter(prior=prior)),
        daily=sg.kernels.Cosine(period=sg.fixed(1.0)) + sg.kernels.Cosine(period=0.5),
    )
    plain, learning = bare(kernel), bare(kernel, learning=True)
    assert plain.names == ("matern52", "cosine", "cosine_2")
    lag = jnp.linspace(0, 3, 7)
    for other in (plain, learning):
        np.testing.assert_allclose(other.covariance(lag), kernel.covariance(lag), rtol=1e-14)
    assert learning.kernels[0].lengthscale.prior == prior
    assert not learning.kernels[1].period.learned
    unlike = sg.kernels.Matern52(lengthscale=sg.fixed(1.0)) + sg.kernels.Cosine() * 2.0
    renamed = sg.kernels.Sum(trend=sg.kernels.Matern52(), season=sg.kernels.Cosine() * 2.0)
    assert jax.tree.structure(bare(unlike)) == jax.tree.structure(bare(renamed))


@pytest.mark.parametrize("seed", [0, 7, -3, 2**40 + 5, 2**32 - 1, -(2**35)])
def test_keys_are_those_of_jax(seed):
    ours, theirs = (jax.random.key_data(key) for key in (as_key(seed), jax.random.key(seed)))
    np.testing.assert_array_equal(ours, theirs)


def test_a_search_for_q_is_one_program():
    """What it starts from is of the kind that it ends with."""
    x, y = series(12)
    model = sg.GP("matern32(2)", "student_t")
    with programs() as compiled:
        posterior = sg.condition(model, x, y)
    assert posterior.fit_result.converged
    assert sorted(compiled) == ["settle", "starting_state"]


def test_effects_need_few_programs_beside_those_of_a_fit_without_them():
    """Any number of them up to eight, whatever the prior."""
    x, y = series(30)
    days = Design.of_changes(fitting_axis(read_times(x, "times")), (3.0,))
    kernel = sg.kernels.Matern32(variance=1.0, lengthscale=2.0) + sg.kernels.Wiener(
        diffusivity=0.1, start=sg.fixed(10.0)
    )
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=0.1), sg.means.Constant(sg.fixed(0.0)))
    options = {"inducing": "data", "max_steps": 2, "progress": False}
    with pytest.warns(sg.NotConvergedWarning):
        sg.fit(level(model), x, y, **options).predict_f([11.0])
    with programs() as names, pytest.warns(sg.NotConvergedWarning):
        fit_with_effects(days, model, x, y, **options).predict_f([11.0])
    assert sorted({*names} - {"_mean", "_emission"}) == ["_respond"]  # those two are tiny
    assert len(names) <= 3
    more = dataclasses.replace(days, changes=(2.0, 3.0, 7.0))
    with programs() as names, pytest.warns(sg.NotConvergedWarning):
        fit_with_effects(more, model, x, y, **options).predict_f([11.0])
    assert names == []
