"""Fields over space and time against dense twins."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as sklearn_kernels

import stategp as sg
from stategp._models import _space_time
from tests.dense import state_covariances
from tests.dense_inference import quadrature, variational

RNG = np.random.default_rng(0)
TIMES = np.array([0.0, 0.4, 1.3, 1.9, 2.6, 3.0])
SITES = RNG.uniform(0, 3, size=(4, 2))
GRID = np.sin(2 * TIMES)[:, None] * SITES[:, 0] + 0.3 * RNG.standard_normal((6, 4))
X_NEW = np.array([-0.5, 1.3, 1.6, 4.0, 1.6]), RNG.uniform(0, 3, size=(5, 2))
SPACE, VARIANCE, TIME, NOISE, LEVEL = 1.4, 1.3, 0.8, 0.1, 0.3

GAPPY = GRID.copy()
GAPPY[[0, 3], [1, 2]] = np.nan


def model(q="joint", likelihood=None, places=SITES):
    return sg.SpaceTimeGP(
        sg.spatial.Matern32(lengthscale=SPACE),
        sg.kernels.Matern32(variance=VARIANCE, lengthscale=TIME),
        likelihood or sg.likelihoods.Gaussian(variance=NOISE),
        places=places,
        q=q,
        mean=LEVEL,
    )


def with_fields(part, **fields):
    """The same model with other fields; its constructor has other arguments."""
    changed = object.__new__(type(part))
    for field in dataclasses.fields(part):
        object.__setattr__(changed, field.name, fields.get(field.name, getattr(part, field.name)))
    return changed


def in_rows(grid):
    seen = ~np.isnan(grid)
    when, where = np.nonzero(seen)
    return (TIMES[when], SITES[where]), grid[seen]


def covariance(left, right, numbers=(SPACE, VARIANCE, TIME)):
    """Of f, from scikit-learn's kernels."""
    space, variance, time = numbers
    in_space = sklearn_kernels.Matern(space, nu=1.5)(left[1], right[1])
    return (
        variance
        * in_space
        * sklearn_kernels.Matern(time, nu=1.5)(left[0][:, None], right[0][:, None])
    )


def exact(rows, y, new):
    C = covariance(rows, rows) + NOISE * np.eye(len(y))
    cross = covariance(new, rows)
    evidence = multivariate_normal(np.full(len(y), LEVEL), C).logpdf(y)
    mean = LEVEL + cross @ np.linalg.solve(C, y - LEVEL)
    return evidence, mean, covariance(new, new) - cross @ np.linalg.solve(C, cross.T)


@pytest.fixture(scope="module")
def joint():
    return sg.condition(model(), (TIMES, SITES), GAPPY)


@pytest.fixture(scope="module")
def product():
    return sg.condition(model("product"), (TIMES, SITES), GRID)


def test_with_all_places_and_times_it_is_the_exact_gp(joint):
    evidence, mean, spread = exact(*in_rows(GAPPY), X_NEW)
    assert joint.elbo == pytest.approx(evidence, rel=1e-10)
    found = joint.predict_f(X_NEW)
    np.testing.assert_allclose(found[0], mean, atol=1e-9)
    np.testing.assert_allclose(found[1], np.diag(spread), rtol=1e-8)
    assert joint.explained == pytest.approx(1.0)
    np.testing.assert_allclose(joint.predict_y(X_NEW)[1], found[1] + NOISE)


def test_rows_in_any_order_tables_and_grids_are_the_same(joint):
    (times, places), y = in_rows(GAPPY)
    order = RNG.permutation(len(y))
    shuffled = times[order], places[order]
    table = np.column_stack(shuffled)
    named = {"time": table[:, 0], "x": table[:, 1], "y": table[:, 2]}
    for x in (shuffled, table, named):
        same = sg.condition(model(), x, y[order])
        assert same.elbo == pytest.approx(joint.elbo, rel=1e-12)
    later = {name: joint.predict_f(x) for name, x in {"pair": X_NEW}.items()}["pair"]
    rows = np.column_stack(X_NEW)
    np.testing.assert_array_equal(joint.predict_f(rows)[0], later[0])
    maps = joint.map([1.6, 4.0], X_NEW[1])
    np.testing.assert_allclose(maps.mean[0, 2], later[0][2], rtol=1e-12)
    np.testing.assert_allclose(maps.sd[1, 3] ** 2, later[1][3], rtol=1e-12)


def test_samples_have_the_joint_covariance(joint):
    _, mean, spread = exact(*in_rows(GAPPY), X_NEW)
    drawn = np.asarray(joint.sample_f(0, X_NEW, 1024))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.12)
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.18)
    assert joint.sample_f(0, ([], np.zeros((0, 2))), 3).shape == (3, 0)


def test_fewer_places_and_times_give_the_bound_of_a_sparse_gp():
    z, anchors = np.array([0.2, 1.5, 2.8]), SITES[:2]
    rows, y = in_rows(GAPPY)
    found = sg.condition(model(places=anchors), rows, y, inducing=z)
    kernel = model().time
    Kuu, Kfu = state_covariances(kernel, z, rows[0])
    theirs = sklearn_kernels.Matern(SPACE, nu=1.5)
    cross = theirs(rows[1], anchors)
    low_rank = (cross @ np.linalg.solve(theirs(anchors), cross.T)) * (
        Kfu @ np.linalg.solve(Kuu, Kfu.T)
    )
    fit = multivariate_normal(np.full(len(y), LEVEL), low_rank + NOISE * np.eye(len(y))).logpdf(y)
    assert found.elbo == pytest.approx(fit - np.sum(VARIANCE - np.diag(low_rank)) / NOISE / 2)
    assert found.explained < 0.9
    assert found.inducing.tolist() == z.tolist()


CHANGING = {
    "grows": sg.kernels.FromSDE([[0.5]], [[1.0]], [[0.7]], [1.0], initial=[0.4]),
    "scaled": sg.kernels.Scaled(sg.kernels.Matern32(lengthscale=TIME), lambda x: x / 5),
    "pieces": sg.kernels.Piecewise(
        [sg.kernels.Matern32(lengthscale=TIME), sg.kernels.Matern32(variance=3.0, lengthscale=0.3)],
        changes=[6.6],
    ),
}


@pytest.mark.parametrize("name", CHANGING)
def test_the_variance_may_change_with_time(name):
    """Of kernels that begin with the data, and of those that know the user's times."""
    kernel, anchors, start = CHANGING[name], SITES[:2], 5.0
    (times, places), y = in_rows(GAPPY)
    noise = sg.likelihoods.Gaussian(variance=NOISE)
    space = sg.spatial.Matern32(lengthscale=SPACE)
    field = sg.SpaceTimeGP(space, kernel, noise, places=anchors, mean=LEVEL)
    found = sg.condition(field, (times + start, places), y)
    when, where = (np.concatenate(both) for both in zip((times, places), X_NEW, strict=True))
    when = when + start * kernel.located
    prior = np.asarray(kernel(when, when))
    theirs = sklearn_kernels.Matern(SPACE, nu=1.5)
    cross = theirs(where, anchors)
    low_rank = prior * (cross @ np.linalg.solve(theirs(anchors), cross.T))
    n = len(y)
    C, new = low_rank[:n, :n] + NOISE * np.eye(n), low_rank[n:, :n]
    fit = multivariate_normal(np.full(n, LEVEL), C).logpdf(y)
    left = np.diag(prior - low_rank)[:n]
    assert found.elbo == pytest.approx(fit - left.sum() / NOISE / 2, rel=1e-10)
    there = X_NEW[0] + start, X_NEW[1]
    mean, variance = found.predict_f(there)
    np.testing.assert_allclose(mean, LEVEL + new @ np.linalg.solve(C, y - LEVEL), atol=1e-9)
    exact = np.diag(prior)[n:] - np.diag(new @ np.linalg.solve(C, new.T))
    np.testing.assert_allclose(variance, exact, rtol=1e-9)
    drawn = np.asarray(found.sample_f(0, there, 1024))
    np.testing.assert_allclose(drawn.std(0), np.sqrt(exact), rtol=0.1)


def test_independent_processes_are_exact_on_a_complete_grid(product):
    evidence, mean, spread = exact(*in_rows(GRID), X_NEW)
    assert product.elbo == pytest.approx(evidence, rel=1e-9)
    found = product.predict_f(X_NEW)
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(found[1], np.diag(spread), rtol=1e-7)


def test_samples_of_independent_processes(product):
    _, mean, spread = exact(*in_rows(GRID), X_NEW)
    drawn = np.asarray(product.sample_f(1, X_NEW, 1024))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.12)
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.18)


def mean_field(grid, expected):
    """The best product of Gaussians over the patterns of the field at all sites, in NumPy.

    `expected(y, mean, variance)` is E[log p(y | f)] in every row. A factor has the prior's
    precision plus a diagonal: the numbers to search for are its means and that diagonal.
    """
    (when, where), y = np.nonzero(~np.isnan(grid)), grid[~np.isnan(grid)]
    values, patterns = np.linalg.eigh(sklearn_kernels.Matern(SPACE, nu=1.5)(SITES))
    C = (patterns * np.sqrt(values))[where]  # a row for each observation
    K = VARIANCE * sklearn_kernels.Matern(TIME, nu=1.5)(TIMES[:, None])
    precision, shape = np.linalg.inv(K), (2, len(SITES), len(TIMES))

    @jax.jit
    def loss(numbers):
        means, diagonals = numbers.reshape(shape)
        spreads = jnp.linalg.inv(precision[None] + jax.vmap(jnp.diag)(jnp.exp(diagonals)))
        f = LEVEL + jnp.sum(C * means[:, when].T, axis=1)
        variance = jnp.sum(C**2 * jnp.diagonal(spreads, axis1=1, axis2=2)[:, when].T, axis=1)
        apart = jnp.einsum("lt,tu,lu->", means, precision, means) - means.size
        apart += jnp.sum(precision[None] * spreads) + len(SITES) * np.linalg.slogdet(K)[1]
        kl = (apart - jnp.sum(jnp.linalg.slogdet(spreads)[1])) / 2
        return kl - jnp.sum(expected(y, f, variance)), (f, variance)

    slopes = jax.jit(jax.value_and_grad(lambda numbers: loss(numbers)[0]))
    options = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-8}
    start = np.zeros(np.prod(shape))
    best = minimize(lambda v: [np.asarray(part) for part in slopes(v)], start, jac=True,
                    method="L-BFGS-B", options=options)  # fmt: skip
    return -best.fun, *loss(best.x)[1]


def test_with_gaps_independent_processes_are_the_best_product(joint):
    def expected(y, mean, variance):
        return -((y - mean) ** 2 + variance) / NOISE / 2 - np.log(2 * np.pi * NOISE) / 2

    found = sg.condition(model("product"), (TIMES, SITES), GAPPY)
    bound, mean, variance = mean_field(GAPPY, expected)
    assert found.elbo == pytest.approx(bound, rel=1e-7)
    assert found.elbo < joint.elbo
    at_data = found.predict_f(in_rows(GAPPY)[0])
    np.testing.assert_allclose(at_data[0], mean, atol=1e-4)
    np.testing.assert_allclose(at_data[1], variance, rtol=1e-3)
    np.testing.assert_allclose(found.predict_f(X_NEW)[0], joint.predict_f(X_NEW)[0], atol=1e-6)


COUNTS = RNG.poisson(np.exp(0.3 + GRID / 2)).astype(float)


@pytest.fixture(scope="module")
def counts():
    return sg.condition(model(likelihood="poisson"), (TIMES, SITES), COUNTS)


def test_counts_reach_the_bound_of_a_dense_variational_gp(counts):
    rows, y = in_rows(COUNTS)

    def log_density(y, f):
        return y * (f + LEVEL) - jnp.exp(f + LEVEL) - gammaln(np.asarray(y) + 1)

    dense = variational(covariance(rows, rows), quadrature(log_density, y, order=40))
    assert counts.elbo == pytest.approx(dense.log_evidence, abs=1e-5)
    mean, variance = counts.predict_f(rows)
    np.testing.assert_allclose(mean - LEVEL, dense.mean, atol=1e-3)
    np.testing.assert_allclose(variance, dense.variance, atol=1e-3)
    assert counts.fit_result.converged
    low, high = counts.quantiles(X_NEW, [0.1, 0.9])
    assert np.all(low <= high)
    assert np.all(counts.log_density(X_NEW, np.ones(5)) < 0)


def test_counts_of_independent_processes_reach_the_best_product():
    gappy = np.where(np.isnan(GAPPY), np.nan, COUNTS)

    def expected(y, mean, variance):
        return y * mean - jnp.exp(mean + variance / 2) - gammaln(y + 1)

    found = sg.condition(model("product", "poisson"), (TIMES, SITES), gappy)
    bound, mean, variance = mean_field(gappy, expected)
    assert found.elbo == pytest.approx(bound, abs=1e-5)
    at_data = found.predict_f(in_rows(gappy)[0])
    np.testing.assert_allclose(at_data[0], mean, atol=1e-3)
    np.testing.assert_allclose(at_data[1], variance, rtol=1e-2)


def test_few_pairs_of_times_and_places_are_no_grid():
    """Rows that fill too little of a grid, or one pair twice, are taken one by one."""
    for twice in (False, True):
        times = np.append(np.arange(9.0), 8.0) if twice else np.arange(10.0)
        places = np.append(np.arange(9.0), 8.0) if twice else np.arange(10.0)
        y = np.sin(times)
        field = sg.SpaceTimeGP(
            sg.spatial.Matern32(lengthscale=SPACE),
            sg.kernels.Matern32(variance=VARIANCE, lengthscale=TIME),
            sg.likelihoods.Gaussian(variance=NOISE),
            places=np.unique(places),
            mean=0.0,
        )
        rows = times, places[:, None]
        C = covariance(rows, rows) + NOISE * np.eye(10)
        evidence = multivariate_normal(np.zeros(10), C).logpdf(y)
        assert sg.condition(field, rows, y).elbo == pytest.approx(evidence, rel=1e-9)


# --- learning ----------------------------------------------------------------------------------


def free(q):
    noise = sg.likelihoods.Gaussian(variance=sg.fixed(NOISE))
    return sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32(), noise, places=SITES, q=q)


def test_learning_finds_the_best_hyperparameters_of_the_dense_gp():
    fitted = sg.fit(free("joint"), (TIMES, SITES), GAPPY)
    assert fitted.fit_result.converged
    (rows, y), m = in_rows(GAPPY), fitted.model

    def evidence(numbers):
        C = covariance(rows, rows, np.exp(numbers[:3])) + NOISE * np.eye(len(y))
        return multivariate_normal(np.full(len(y), numbers[3]), C).logpdf(y)

    parts = (m.space.lengthscale, m.time.variance, m.time.lengthscale)
    found = np.array([*(np.log(float(part)) for part in parts), float(m.mean.value)])
    assert fitted.elbo == pytest.approx(evidence(found), rel=1e-9)
    for i in range(4):
        for step in (-0.02, 0.02):
            assert evidence(found + step * (np.arange(4) == i)) < fitted.elbo


def test_independent_processes_are_chosen_again_after_learning():
    fitted = sg.fit(free("product"), (TIMES, SITES), GRID)
    same = sg.condition(with_fields(fitted.model, q="joint", modes=None), (TIMES, SITES), GRID)
    assert fitted.elbo == pytest.approx(same.elbo, abs=1e-3)


def test_optax_climbs_to_the_same_hyperparameters():
    best = sg.fit(free("joint"), (TIMES, SITES), GAPPY)
    found = sg.fit(free("joint"), (TIMES, SITES), GAPPY, optimiser=optax.adam(0.1), max_steps=200)
    assert found.elbo == pytest.approx(best.elbo, abs=1e-2)


def test_minibatches_and_places_by_number():
    free = model(likelihood="poisson", places=2)
    found = sg.fit(free, (TIMES, SITES), COUNTS, batch_size=8, max_steps=30)
    assert np.isfinite(found.elbo)
    assert found.inducing_places.shape == (2, 2)
    full = sg.condition(free, (TIMES, SITES), COUNTS)
    parts = sg.condition(free, (TIMES, SITES), COUNTS, batch_size=8, max_steps=300)
    assert parts.elbo == pytest.approx(full.elbo, abs=2e-3)
    for one, two in zip(parts.predict_f(X_NEW), full.predict_f(X_NEW), strict=True):
        np.testing.assert_allclose(one, two, atol=0.02)


def test_places_by_what_they_explain(tmp_path):
    """As many as the lengthscale takes, the one that was given or the one that is learned."""
    line = np.arange(20.0)
    y = np.sin(1.2 * line + 0.4 * np.arange(8.0)[:, None])
    y = y + 0.1 * np.random.default_rng(6).standard_normal(y.shape)
    first = sg.spatial.Matern32(lengthscale=sg.parameter(5.0))
    free = sg.SpaceTimeGP(first, sg.kernels.Matern12(), places=0.95)
    fixed = sg.condition(free, (np.arange(8.0), line[:, None]), y)
    fitted = sg.fit(free, (np.arange(8.0), line[:, None]), y)
    assert len(fixed.inducing_places) < 10 <= len(fitted.inducing_places)
    assert fixed.explained >= 0.95
    assert fitted.explained >= 0.95
    fitted.save(tmp_path / "field")
    again = sg.load(tmp_path / "field")
    assert again.model.share == 0.95
    assert again.elbo == fitted.elbo


def test_places_that_cannot_explain_enough_are_reported(monkeypatch):
    monkeypatch.setitem(_space_time.MOST_CHOSEN, "joint", 2)
    with pytest.warns(UserWarning, match=r"2 inducing places explain 0\.\d+ of the variance"):
        sg.condition(model(places="auto"), (TIMES, SITES), GRID)


def test_longitude_and_latitude_and_data_frames():
    pd = pytest.importorskip("pandas")
    where = np.column_stack([RNG.uniform(170, 190, 12), RNG.uniform(-10, 10, 12)])
    where[:, 0] -= 360 * (where[:, 0] > 180)
    frame = pd.DataFrame({"time": np.arange(12) % 4, "longitude": where[:, 0]})
    frame["latitude"] = where[:, 1]
    earth = sg.SpaceTimeGP(sg.spatial.Matern32(metric="chordal"), sg.kernels.Matern12(), places=3)
    fitted = sg.fit(earth, frame, np.sin(where[:, 1]), inducing=3)
    assert 10 < float(fitted.model.space.lengthscale) < 1e5
    across = fitted.predict_f(([1, 1], [[180.0, 0.0], [-180.0, 0.0]]))
    assert float(across[0][0]) == pytest.approx(float(across[0][1]), rel=1e-9)
    with pytest.raises(ValueError, match="longitude first"):
        fitted.predict_f(([1], [[0.0, 100.0]]))


# --- files and errors --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["joint", "product"])
def test_saved_and_loaded(kind, request, tmp_path):
    posterior = request.getfixturevalue(kind)
    posterior.save(tmp_path / "field")
    again = sg.load(tmp_path / "field")
    assert repr(again) == repr(posterior)
    for a, b in zip(again.predict_f(X_NEW), posterior.predict_f(X_NEW), strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_kernel_over_space_can_be_saved(joint, tmp_path):
    for name in ("Matern12", "Matern32", "Matern52", "SquaredExponential"):
        kernel = getattr(sg.spatial, name)(lengthscale=sg.fixed(2.0))
        moved = dataclasses.replace(joint, model=with_fields(joint.model, space=kernel))
        moved.save(tmp_path / name)
        assert repr(sg.load(tmp_path / name).model.space) == repr(kernel)
    apart = sg.spatial.Matern32(lengthscale=2.0, separable=True)
    moved = dataclasses.replace(joint, model=with_fields(joint.model, space=apart))
    moved.save(tmp_path / "apart")
    assert sg.load(tmp_path / "apart").model.space.separable


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"places": np.zeros((3, 2))}, "places of shape"),
        ({"states": 99}, "inducing times"),
        ({"sites": ()}, "chains"),
    ],
)
def test_files_whose_parts_do_not_fit_are_refused(joint, tmp_path, change, words):
    dataclasses.replace(joint, **change).save(tmp_path / "field")
    with pytest.raises(ValueError, match=words):
        sg.load(tmp_path / "field")


def make(**changes):
    arguments = {"space": sg.spatial.Matern32(), "time": "matern32"} | changes
    return sg.SpaceTimeGP(arguments.pop("space"), arguments.pop("time"), **arguments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"space": sg.kernels.Matern32()}, "a kernel over space"),
        ({"places": 0}, "at least 1"),
        ({"places": 2.5}, "the number of inducing places"),
        ({"places": "many"}, "the number of inducing places"),
        ({"places": np.zeros((0, 2))}, "places is empty"),
        ({"q": "mean-field"}, "'joint'"),
        ({"likelihood": sg.likelihoods.HeteroscedasticGaussian()}, "one latent function"),
        ({"names": ["t"]}, "names must list"),
    ],
)
def test_models_that_make_no_sense(changes, words):
    with pytest.raises(ValueError, match=words):
        make(**changes)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ((TIMES, SITES), None, "y is missing"),
        ((TIMES, SITES), GRID.T, "a row for each of 6 times"),
        ((TIMES, SITES), GRID[:, 0], "6 times and 4 places"),
        (TIMES, GRID[:, 0], "the time in the first column"),
        ((TIMES, SITES, SITES), GRID, "3 parts"),
        ({"time": TIMES}, GRID[:, 0], "must have the columns 'time', 'x'"),
        (([np.nan] * 4, SITES), GRID[0], "must be finite"),
        ((TIMES, SITES[:, :1]), GRID, "have 2 coordinates, the places of the data 1"),
    ],
)
def test_data_that_make_no_sense(x, y, words):
    with pytest.raises(ValueError, match=words):
        sg.condition(model(), x, y)


def test_other_refusals(joint):
    for options, words in [
        ({"inducing": sg.Auto()}, "inducing times"),
        ({"method": "laplace"}, "laplace"),
        ({"exposure": np.ones((6, 4))}, "exposure"),
        ({"weights": np.ones((4, 6))}, "the shape of y"),
    ]:
        with pytest.raises(ValueError, match=words):
            sg.condition(model(), (TIMES, SITES), GRID, **options)
    with pytest.raises(ValueError, match=r"posterior\.map\(times, places\)"):
        joint.predict_f((TIMES, SITES))
    with pytest.raises(ValueError, match="have 1 coordinates"):
        joint.map(TIMES, [1.0, 2.0])


def test_one_observation():
    alone = sg.condition(make(), ([3], [[1.0]]), [2.0])
    mean, variance = alone.predict_f(([3, 50], [[1.0], [1.0]]))
    assert mean[0] > mean[1]
    assert variance[0] < variance[1]


# --- maps --------------------------------------------------------------------------------------


def test_maps_for_each_time(joint):
    pytest.importorskip("matplotlib")
    figure = joint.plot_maps([0.0, 2.0], resolution=5)
    shown = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in shown] == ["time 0", "time 2"] * 2
    drawn = shown[1].collections[0].get_array().reshape(5, 5)
    across, up = (np.linspace(c.min(), c.max(), 3)[1] for c in SITES.T)
    middle = joint.predict_f(([2.0], [[across, up]]))[0][0]
    assert float(drawn[2, 2]) == pytest.approx(float(middle))


def test_one_map_of_places_along_a_line(counts):
    from stategp._story import maps_of

    line = sg.condition(make(places=2), (TIMES, [0.0, 1.0, 2.0]), GRID[:, :3])
    maps = maps_of(line, resolution=7)
    assert (maps.across[0], maps.up[0], maps.layers[0].values.shape) == ("time", "x", (1, 7, 7))
    assert len(maps.dots[0]) == 18
    assert np.all(maps_of(counts, [1.0], of="y", resolution=3).layers[0].values > 0)
    for wrong, words in [({"of": "g"}, "'f'"), ({"times": []}, "times must be")]:
        with pytest.raises(ValueError, match=words):
            maps_of(counts, **wrong)
    with pytest.raises(ValueError, match=r"sg\.SpaceTimeGP"):
        maps_of(sg.condition(sg.GP("matern32"), [0.0], [1.0]))


def test_slices_of_fields_with_more_coordinates(joint, tmp_path):
    """Every value is the prediction at its place; coordinates are held by name or by number."""
    from stategp._story import maps_of

    cube = np.random.default_rng(0).uniform(size=(3, 3))
    solid = sg.condition(make(places=2), (TIMES, cube), GRID[:, :3])
    middle = float(np.median(cube[:, 2]))
    usual = maps_of(solid, [1.0], resolution=3)
    assert usual.titles == (f"time 1, z {middle:.4g}",)
    for held, names in [({"y": 0.4}, ("x", "z")), ({0: 0.4}, ("y", "z"))]:
        maps = maps_of(solid, [1.0], at=held, resolution=3)
        assert (maps.across[0], maps.up[0]) == names
        place = np.insert([maps.across[1][2], maps.up[1][1]], 1 if "y" in held else 0, 0.4)
        there = solid.predict_f(([1.0], [place]))[0][0]
        assert maps.layers[0].values[0, 1, 2] == pytest.approx(float(there))
    line = maps_of(solid, [0.0, 4.0], at={"x": 0.2, "z": 0.3}, resolution=3)
    there = solid.predict_f(([line.across[1][2]], [[0.2, line.up[1][1], 0.3]]))[0][0]
    assert line.layers[0].values[0, 1, 2] == pytest.approx(float(there))
    assert (line.across[0], line.up[0], line.titles) == ("time", "y", ("x 0.2, z 0.3",))
    assert maps_of(joint, at={"x": 0.5}, resolution=3).up[0] == "y"
    solid.report(tmp_path / "solid.html", times=[1.0], at={"z": 0.5})
    assert "At time 1, z 0.5." in (tmp_path / "solid.html").read_text()
    for wrong, words in [
        ({"q": 1.0}, "the coordinates are x, y, z"),
        (1.0, "by their names or numbers"),
        ({"x": np.nan}, "finite number"),
        ({"x": 0.0, "y": 0.0, "z": 0.0}, "at holds 3"),
    ]:
        with pytest.raises(ValueError, match=words):
            maps_of(solid, at=wrong)
    with pytest.raises(TypeError, match=r"plot_maps\(\) takes no colour; it takes of, at"):
        solid.plot_maps(colour="red")


def test_maps_have_the_shape_of_the_place_and_tell_small_uncertainties_apart(joint):
    from stategp._story import Layer, maps_of

    assert maps_of(joint, [0.0], resolution=3).aspect == 1.0
    apart = make(space=sg.spatial.Matern32(lengthscale=[1.0, 5.0]), places=2)
    assert maps_of(sg.condition(apart, (TIMES, SITES), GRID), [0.0], resolution=3).aspect is None
    earth = make(space=sg.spatial.Matern12(lengthscale=900.0, metric="chordal"), places=2)
    north = [[5.0, 59.0], [9.0, 61.0]]
    degrees = maps_of(sg.condition(earth, (TIMES, north), GRID[:, :2]), [0.0], resolution=3)
    assert degrees.aspect == pytest.approx(2.0)  # 1/cos 60°
    flat = Layer("sd", "", np.array([1.0, 2.0]))
    steep = Layer("sd", "", np.array([0.02, 0.2, 2.0]))
    np.testing.assert_allclose(flat.share_of(flat.values), [0, 1])
    np.testing.assert_allclose(steep.share_of(steep.values), [0, 0.5, 1])
    np.testing.assert_allclose(steep.log_ticks(), [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
    assert Layer("sd", "", np.array([0.07, 0.25])).log_ticks() == [0.07, 0.1, 0.15, 0.2]
    assert not Layer("mean", "", steep.values).log
    assert Layer("sd", "", np.array([0.0, 1.0])).range == (1e-3, 1.0)
    figure = joint.plot_maps([0.0, 50.0], resolution=5)
    maps = [axes for axes in figure.axes if axes.get_title()]
    assert {axes.get_aspect() for axes in maps} == {1.0}
    assert maps[2].collections[0].norm.vmin == pytest.approx(
        float(np.min(joint.map([0.0], SITES).sd)), rel=0.5
    )


def test_a_report_of_the_field_at_some_places(joint, tmp_path):
    joint.report(tmp_path / "field.html", title="Rain")
    page = (tmp_path / "field.html").read_text()
    assert "Rain" in page
    assert "space: lengthscale" in page
    assert page.count("At ") >= 4
    with pytest.raises(ValueError, match="until"):
        joint.report(tmp_path / "other.html", until=9.0)
