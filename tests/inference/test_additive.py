"""Additive models against dense twins, and as new users would use and misuse them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp._data import observe_table, place_all
from stategp._inference._additive import additive_infer, lay_out, no_node_sites
from stategp._posteriors._at_points import predict
from stategp.chain import MeanMap
from stategp.chain import Sites as ChainSites
from stategp.parameters import to_vector, with_vector
from tests.jitted import prior_transitions, sweep

k = sg.kernels
NOISE = 0.04


def correlated(n=80, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 2))
    x[:, 1] = np.round(0.6 * x[:, 0] + 0.4 * x[:, 1], 2)  # with duplicates
    y = 0.5 + np.sin(6 * x[:, 0]) + 2 * x[:, 1] ** 2 + np.sqrt(NOISE) * rng.standard_normal(n)
    return x, y


KERNELS = [k.Matern32(variance=1.0, lengthscale=0.3), k.Matern52(variance=0.5, lengthscale=0.5)]


def two_inputs(likelihood=None, mean=0.3):
    return sg.AdditiveGP(KERNELS, likelihood or sg.likelihoods.Gaussian(variance=NOISE), mean)


def covariances(a, b):
    """Those of both kernels, written out."""
    r = np.sqrt([3, 5])[:, None, None] * np.abs(a.T[:, :, None] - b.T[:, None])
    r /= np.array([0.3, 0.5])[:, None, None]
    return (1 + r[0]) * np.exp(-r[0]), 0.5 * (1 + r[1] + r[1] ** 2 / 3) * np.exp(-r[1])


def dense(x, y, x_new, mean=0.3):
    """Mean and variance of f, and of each component, of the exact additive GP."""
    own, cross = covariances(x, x), covariances(x_new, x)
    C = sum(own) + NOISE * np.eye(len(x))
    alpha = np.linalg.solve(C, y - mean)

    def moments(c, prior):
        return c @ alpha, prior - np.sum(c * np.linalg.solve(C, c.T).T, axis=1)

    total = moments(sum(cross), 1.5)
    return (mean + total[0], total[1]), [moments(cross[0], 1.0), moments(cross[1], 0.5)]


def test_means_are_those_of_the_exact_additive_gp_and_joint_variances_too():
    x, y = correlated()
    x_new = np.random.default_rng(1).uniform(-0.2, 1.2, (20, 2))
    posterior = sg.condition(two_inputs(), x, y, inducing="data")
    (mean, variance), parts = dense(x, y, x_new)
    found, _ = posterior.predict_f(x_new)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    _, joint = posterior.predict_f(x_new, joint=True)
    np.testing.assert_allclose(joint, variance, rtol=1e-7)
    for i, (_, exact) in enumerate(parts):  # of a component, mean field claims to know more
        _, own = predict(posterior.chains[i], jnp.asarray(x_new[:, i] - x[:, i].min()))
        assert np.all(np.asarray(own) <= exact * (1 + 1e-9))
        columns = [jnp.asarray(x_new[:, j] - x[:, j].min()) for j in range(2)]
        np.testing.assert_allclose(own + posterior._corrections(columns, i), exact, rtol=1e-6)
    effects = posterior.components(x_new)
    for i, (name, (expected, _)) in enumerate(zip(posterior.model.names, parts, strict=True)):
        average = posterior.averages[i][0]
        np.testing.assert_allclose(effects[name][0] + average, expected, atol=1e-8)
    total = posterior.level + effects["x0"][0] + effects["x1"][0]
    np.testing.assert_allclose(total, found, atol=1e-10)
    centred = np.eye(80) - 1 / 80  # of what is seen at the data itself
    own, other = covariances(x, x)
    C = own + other + NOISE * np.eye(80)
    exact = centred @ (own - own @ np.linalg.solve(C, own)) @ centred.T
    _, joint = posterior.components(x, joint=True)["x0"]
    np.testing.assert_allclose(joint, np.diag(exact), rtol=1e-6)
    seen = posterior.components(x)
    np.testing.assert_allclose([np.mean(mean) for mean, _ in seen.values()], 0, atol=1e-8)


def test_one_input_is_the_plain_gp():
    x, y = correlated()
    x_new = np.linspace(-0.3, 1.3, 30)
    kernel, noise = KERNELS[0], sg.likelihoods.Gaussian(variance=NOISE)
    plain = sg.condition(sg.GP(kernel, noise, mean=0.3), x[:, 0], y, inducing=9)
    additive = sg.condition(sg.AdditiveGP([kernel], noise, 0.3), x[:, :1], y, inducing=9)
    np.testing.assert_allclose(additive.elbo, plain.elbo, rtol=1e-8)
    for ours, theirs in zip(additive.predict_f(x_new), plain.predict_f(x_new), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["poisson", "student_t"])
def test_one_input_is_the_plain_gp_whatever_the_likelihood(likelihood):
    x, _ = correlated()
    y = np.random.default_rng(3).poisson(np.exp(np.sin(6 * x[:, 0])))
    plain = sg.condition(sg.GP(KERNELS[0], likelihood, mean=0.3), x[:, 0], y, inducing=9)
    additive = sg.condition(sg.AdditiveGP([KERNELS[0]], likelihood, 0.3), x[:, :1], y, inducing=9)
    np.testing.assert_allclose(additive.elbo, plain.elbo, rtol=1e-8)
    np.testing.assert_allclose(additive.predict_f(x[:, :1]), plain.predict_f(x[:, 0]), atol=1e-5)


def test_gradient_of_the_bound():
    from stategp._inference import additive_objective

    x, y = correlated()
    model = two_inputs()
    observed = observe_table(model.names, x, y, model.likelihood)
    layout, table = lay_out(model, observed, place_all(8, observed, model.names))
    vector = np.asarray(to_vector(model))
    _, gradient, _ = additive_objective(
        jnp.asarray(vector), model, table, layout, no_node_sites(table)
    )
    for i in range(len(vector)):
        ends = []
        for side in (-1, 1):
            moved = vector.copy()
            moved[i] += side * 1e-5
            other = with_vector(model, jnp.asarray(moved))
            found = additive_infer(other, table, layout, no_node_sites(table), 200, 1e-14)
            ends.append(float(found.q.elbo))
        np.testing.assert_allclose(gradient[i], (ends[1] - ends[0]) / 2e-5, rtol=1e-5, atol=1e-5)


def test_the_bound_never_falls_on_correlated_inputs_and_minibatches_reach_it():
    x, _ = correlated(300)
    x[:, 1] = 0.95 * x[:, 0] + 0.05 * x[:, 1]
    rng = np.random.default_rng(5)
    y = rng.poisson(np.exp(np.sin(6 * x[:, 0]) + x[:, 1])).astype(float)
    model = two_inputs("poisson")
    observed = observe_table(model.names, x, y, model.likelihood)
    layout, table = lay_out(model, observed, place_all(10, observed, model.names))
    bounds = [
        float(additive_infer(model, table, layout, no_node_sites(table), steps, 1e-14).q.elbo)
        for steps in range(1, 12)
    ]
    assert np.all(np.diff(bounds) >= -1e-9)
    with_batches = sg.condition(
        model, x, y, inducing=10, batch_size=100, max_steps=600, step_size=0.1
    )
    assert with_batches.elbo > bounds[-1] - 0.005 * abs(bounds[-1])


def heavy_tails():
    rng = np.random.default_rng(2)
    x = rng.uniform(size=(300, 2))
    y = np.sin(6 * x[:, 0]) + x[:, 1] + 0.2 * rng.standard_cauchy(300)
    return two_inputs(sg.likelihoods.StudentT(df=sg.fixed(1.0), scale=sg.fixed(0.2))), x, y


def test_batches_of_heavy_tails_reach_the_optimum():
    """Outliers make f less certain; with all rows in a batch nothing is random."""
    model, x, y = heavy_tails()
    best = sg.condition(model, x, y, inducing=10)
    batches = sg.condition(model, x, y, inducing=10, batch_size=300, max_steps=600, step_size=0.2)
    np.testing.assert_allclose(batches.elbo, best.elbo, atol=0.02)
    np.testing.assert_allclose(batches.predict_f(x)[1], best.predict_f(x)[1], rtol=0.01)


def test_hyperparameters_are_learned_and_effects_recovered():
    rng = np.random.default_rng(7)
    hour, day = rng.integers(0, 24, 400), rng.integers(0, 7, 400)
    effect = 0.1 * (np.arange(7) - 3.0) ** 2
    y = np.sin(2 * np.pi * hour / 24) + effect[day] + 0.2 * rng.standard_normal(400)
    kernels = {
        "hour": k.Periodic(period=sg.fixed(24.0), lengthscale=sg.fixed(2.0)),
        "day": k.Matern32(),
    }
    posterior = sg.fit(sg.AdditiveGP(kernels), {"hour": hour, "day": day}, y)
    assert posterior.fit_result.converged
    np.testing.assert_allclose(posterior.inducing["day"], np.arange(7))
    mean, variance = posterior.components({"day": np.arange(7)})["day"]
    truth = effect - np.mean(effect[day])
    assert np.max(np.abs(mean - truth)) < 0.1
    assert np.all(np.abs(mean - truth) < 4 * np.sqrt(variance))
    assert 0.15 < float(posterior.model.likelihood.variance) ** 0.5 < 0.25
    beyond = posterior.predict_f({"hour": [30, 6], "day": [3, 3]})[0]  # cyclic: the same hour
    np.testing.assert_allclose(beyond[0], beyond[1], atol=1e-8)
    assert posterior.sample_f(0, {"hour": [1, 2, 3], "day": [0, 1, 9]}, 5).shape == (5, 3)
    assert posterior.log_density({"hour": [1], "day": [1]}, [0.0]).shape == (1,)


def test_samples_have_the_moments_of_q():
    x, y = correlated()
    posterior = sg.condition(two_inputs(), x, y, inducing=8)
    x_new = np.array([[0.2, 0.3], [0.9, 0.1], [1.5, 0.5]])
    mean, variance = posterior.predict_f(x_new)
    samples = np.asarray(posterior.sample_f(0, x_new, 20_000))
    np.testing.assert_allclose(samples.mean(0), mean, atol=5 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(samples.var(0), variance, rtol=0.05)


def test_missing_rows_and_constant_columns():
    x, y = correlated()
    gaps = y.copy()
    gaps[::7] = np.nan
    keep = ~np.isnan(gaps)
    model = two_inputs()
    with_gaps = sg.condition(model, x, gaps, inducing=8)
    without = sg.condition(model, x[keep], y[keep], inducing=8)
    np.testing.assert_allclose(with_gaps.elbo, without.elbo, rtol=1e-10)
    x[:, 1] = 3.0
    posterior = sg.condition(model, x, y, inducing=8)
    mean, _ = posterior.components(x)["x1"]
    np.testing.assert_allclose(mean, 0, atol=1e-10)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((80, 3)), "one column for each of 2 kernels"),
        (np.zeros(80), "one column for each of 2 kernels"),
        ({"x0": np.zeros(80)}, "no column 'x1'"),
        ({"x0": np.zeros(80), "x1": np.full(80, np.nan)}, "column 'x1' of x must be finite"),
        ({"x0": np.zeros(80), "x1": np.zeros(79)}, "different lengths"),
        ({"x0": np.zeros(80), "x1": ["a"] * 80}, "must hold numbers"),
    ],
)
def test_bad_inputs_are_named(x, words):
    _, y = correlated()
    with pytest.raises(ValueError, match=words):
        sg.condition(two_inputs(), x, y)


def test_bad_models_are_named():
    x, y = correlated()
    with pytest.raises(ValueError, match="kernels must be a list"):
        sg.AdditiveGP(k.Matern32())
    with pytest.raises(ValueError, match="kernels is empty"):
        sg.AdditiveGP([])
    with pytest.raises(ValueError, match="the kernel of 'x1'"):
        sg.AdditiveGP([k.Matern32(), 3])
    with pytest.raises(ValueError, match="one latent function"):
        sg.AdditiveGP([k.Matern32()], sg.likelihoods.HeteroscedasticGaussian())
    with pytest.raises(ValueError, match="the mean of an additive model"):
        sg.AdditiveGP([k.Matern32()], mean=np.sin)
    for wrong in ({"method": "laplace"}, {"starts": 2}):
        with pytest.raises(ValueError, match=r"AdditiveGP models|one start"):
            sg.fit(two_inputs(), x, y, **wrong)
    with pytest.raises(ValueError, match="inducing names 'age'"):
        sg.condition(two_inputs(), x, y, inducing={"age": 3})
    with pytest.raises(ValueError, match=r"or 'auto' \(64.*got Auto\(tolerance=0.1\)"):
        sg.fit(two_inputs(), x, y, inducing={"x0": sg.Auto(tolerance=0.1)})
    with pytest.raises(ValueError, match="one entry for each of 2"):
        sg.condition(two_inputs(), x, y, inducing=[3])
    posterior = sg.condition(two_inputs(), x, y, inducing={"x0": 5, "x1": [0.0, 0.5, 1.0]})
    assert [len(v) for v in posterior.inducing.values()] == [5, 3]
    with pytest.raises(ValueError, match="x_new must have one column"):
        posterior.predict_f(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="none of the inputs"):
        posterior.components({"age": [1.0]})


def test_means_from_the_linear_part_alone():
    rng = np.random.default_rng(0)
    z = jnp.asarray(np.sort(rng.uniform(0, 5, 12)))
    prior = prior_transitions(KERNELS[1], z)
    root = rng.standard_normal((13, 6, 4))
    linear, precision = rng.standard_normal((13, 6)), root @ root.mT
    ends = np.zeros((13, 6))
    ends[0, :3] = ends[-1, 3:] = 1.0  # nothing stands there
    sites = ChainSites(
        jnp.asarray(np.where(ends, 0.0, linear)),
        jnp.asarray(np.where((ends[:, :, None] + ends[:, None]) > 0, 0.0, precision)),
    )
    swept = sweep(prior, sites)
    np.testing.assert_allclose(
        jax.jit(lambda sites: MeanMap.of(prior, sites)(sites.linear))(sites),
        swept.marginals.mean,
        atol=1e-10,
    )


def test_tables_of_others_by_the_names_of_their_columns():
    pa = pytest.importorskip("pyarrow")
    x, y = correlated()
    posterior = sg.condition(two_inputs(), x, y, inducing=8)
    table = pa.table({"x1": x[:, 1], "x0": x[:, 0]})
    assert sg.condition(two_inputs(), table, y, inducing=8).elbo == posterior.elbo
    assert list(posterior.components(table.select(["x1"]))) == ["x1"]


def test_a_search_that_ran_out_of_steps_says_so():
    with pytest.warns(sg.NotConvergedWarning, match="the limit of steps was reached"):
        sg.condition(*heavy_tails(), inducing=10, max_steps=1)
