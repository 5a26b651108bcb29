"""Compiled kernels against their twins in JAX, for every way of storing states of d dimensions."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import _native, chain
from stategp import kernels as k
from tests import jitted

from .twins import agree, both, in_jax, sum_of

pytestmark = pytest.mark.skipif(bool(_native.problem()), reason=_native.problem())


KERNELS = {  # one for every size that is known to the compiler, some padded, some not
    1: k.Matern12(lengthscale=0.7),
    2: k.Matern32(lengthscale=0.7),
    3: k.Matern52(lengthscale=0.7),
    4: k.Matern72(lengthscale=0.7),
    5: k.Matern52() + k.Cosine(period=3.0),
    6: k.Matern52() * k.Cosine(period=3.0),
    7: k.Matern52() + k.Matern72(lengthscale=2.0),
    11: sum_of(*(k.Matern52(lengthscale=float(i)) for i in (1, 2, 3)), k.Cosine(period=2.0)),
    13: sum_of(*(k.Matern52(lengthscale=float(i)) for i in (1, 2, 3, 4)), k.Matern12()),
    18: sum_of(*(k.Matern52(lengthscale=float(i)) for i in range(1, 7))),
}
STATES = 12


def chain_of(dim, *, negative=False):
    rng = np.random.default_rng(dim)
    z = np.cumsum(rng.uniform(0.1, 1.0, STATES))
    rows = rng.standard_normal((STATES + 1, 3, 2 * dim))
    rows[0, :, :dim] = rows[-1, :, dim:] = 0.0  # no states there
    if dim > 1:
        rows[4] = 0.0  # an interval without a site, and one whose site is on its left state only
        rows[5, :, dim:] = 0.0
    signs = np.array([1.0, 1.0, -0.02 if negative else 1.0])
    precision = np.einsum("s,nsi,nsj->nij", signs, rows, rows) / 4
    sites = chain.Sites(jnp.asarray(rows[:, 0] + rows[:, 1]), jnp.asarray(precision))
    return jitted.prior_transitions(KERNELS[dim], jnp.asarray(z)), sites


def symmetric(derivatives):
    """Derivatives in symmetric matrices count by their symmetric parts."""
    d_transitions, d_sites = derivatives
    d_Q, d_precision = d_transitions.Q, d_sites.precision
    return d_transitions.A, d_Q + d_Q.mT, d_sites.linear, d_precision + d_precision.mT


@pytest.mark.parametrize(
    ("dim", "indefinite"),
    [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
        (5, True),
        (7, False),
        (11, False),
        (18, False),
        (18, True),
    ],
)
def test_sweeps_and_local_derivatives(dim, indefinite):
    transitions, sites = chain_of(dim, negative=indefinite)

    def everything(transitions, sites):
        swept = chain.sweep(transitions, sites, indefinite=indefinite)
        local = jax.grad(chain.local_log_normaliser, argnums=(0, 1))
        found = swept, symmetric(local(transitions, sites, swept.messages))
        if not _native.in_use(sites.linear):
            return found
        only_prior = jax.grad(chain.local_log_normaliser)(transitions, sites, swept.messages)
        return found, only_prior.A

    (compiled, only_prior), twin = both(everything, transitions, sites)
    agree(compiled, twin)
    agree(only_prior, compiled[1][0])


@pytest.mark.parametrize("dim", [1, 7])
def test_samples_and_affine_maps(dim):
    transitions, sites = chain_of(dim)
    rng = np.random.default_rng(0)
    white = jnp.asarray(rng.standard_normal((dim, 4, STATES + 1)))
    maps = chain.Affine(jnp.asarray(0.3 * rng.standard_normal((dim, dim, STATES))), white[..., 1:])

    def everything(transitions, sites, white, maps):
        ways = [chain.follow(maps, white[..., 0], reverse=reverse) for reverse in (False, True)]
        samples = chain.sample_states(transitions, sites, jax.random.key(1), 4)
        return chain.sample_prior_states(transitions, white), samples, ways

    agree(*both(everything, transitions, sites, white, maps))


def scalar_series(dim, states=40):
    rng = np.random.default_rng(dim)
    precision = rng.uniform(0.5, 3.0, states)
    precision[[0, 7, 8]] = 0.0  # not observed
    precision[-3:] = 0.0
    return jnp.asarray(rng.standard_normal(states)), jnp.asarray(precision)


@pytest.mark.parametrize("dim", [1, 2, 3, 6, 11, 18])
def test_evidence_and_its_derivatives(dim):
    kernel, (value, precision) = KERNELS[dim], scalar_series(dim)
    gaps = jnp.asarray(np.random.default_rng(1).uniform(0.05, 1.0, len(value) - 1))
    steps, blocks = jitted.step_transitions(kernel, gaps), [b.state_dim for b in kernel.blocks()]

    def evidence(steps, h, value, precision):
        return chain.log_evidence(steps, h, value, precision, blocks=tuple(blocks))

    def everything(*inputs):
        *slopes, d_precision = jax.grad(lambda *at: evidence(*at)[0], argnums=(0, 1, 2, 3))(*inputs)
        # That of an observation which is ignored has no meaning.
        return evidence(*inputs), (*slopes, jnp.where(precision > 0, d_precision, 0.0))

    compiled, twin = both(everything, steps, kernel.emission(), value, precision)
    within = jax.scipy.linalg.block_diag(*(jnp.ones((size, size)) for size in blocks))[None]
    slopes = twin[1]
    inside = chain.Transitions(slopes[0].A * within, slopes[0].Q * within)
    agree(compiled, (twin[0], (inside, *slopes[1:])))


def steady_case(dim, count):
    """An even series with a gap in it, a stretch of other noise, and steps from a short list."""
    rng = np.random.default_rng(0)
    which = np.ones(count, dtype=int)
    which[0], which[count // 2] = 0, 2  # from nothing, and one long step
    precision = np.full(count, 4.0)
    precision[count // 3 : count // 3 + 2] = 0.0
    precision[3 * count // 4 :] = 1.0
    steps = jitted.step_transitions(KERNELS[dim], jnp.asarray([0.4, 5.0]))
    return steps, jnp.asarray(rng.standard_normal(count)), jnp.asarray(precision), which


@pytest.mark.parametrize("dim", [2, 3, 4, 11, 18])
def test_steady_states_give_the_same_evidence_and_derivatives(dim):
    steps, value, precision, which = steady_case(dim, 3000)
    h, blocks = KERNELS[dim].emission(), tuple(b.state_dim for b in KERNELS[dim].blocks())

    def everything(steady, *inputs):
        def evidence(*at):
            return chain.log_evidence(*at, which=which, blocks=blocks, steady=steady)[0]

        return jax.value_and_grad(evidence, argnums=(0, 1, 2, 3))(*inputs)

    inputs = (steps, h, value, precision)
    steady, general = (jax.jit(partial(everything, way))(*inputs) for way in (True, False))
    agree(steady, general, 1e-10)


@pytest.mark.parametrize("dim", [2, 5])
def test_steady_states_give_the_same_posterior_and_samples(dim):
    """An even chain with a gap, an interval without a site, and one whose site is on the right."""
    states, emission = 160, np.asarray(KERNELS[dim].emission())
    gaps = np.full(states + 1, 0.4)
    gaps[states // 2] = 5.0
    linear, precision = np.zeros((states + 1, 2 * dim)), np.zeros((states + 1, 2 * dim, 2 * dim))
    values = np.random.default_rng(0).standard_normal(states)
    linear[1:, :dim] = values[:, None] * emission
    precision[1:, :dim, :dim] = 4.0 * emission[:, None] * emission
    linear[100], precision[100] = 0.0, 0.0
    linear[130, dim:], precision[140, dim:, dim:] = emission, precision[1, :dim, :dim]
    transitions = jitted.prior_transitions(KERNELS[dim], jnp.asarray(np.cumsum(gaps[1:])))
    # Equal steps to the last digit, as they are where inputs are whole numbers.
    one = jax.tree.map(lambda leaf: leaf[2], transitions)
    even = jnp.asarray(gaps == 0.4).at[0].set(False).at[-1].set(False)[:, None, None]
    transitions = jax.tree.map(lambda a, b: jnp.where(even, a[None], b), one, transitions)

    def everything(transitions, sites):
        swept = chain.sweep(transitions, sites)
        return swept, chain.sample_states(transitions, sites, jax.random.key(1), 3)

    sites = chain.Sites(jnp.asarray(linear), jnp.asarray(precision))
    compiled, twin = both(everything, transitions, sites)
    agree(compiled, twin)
    before = np.asarray(compiled[0].messages.before_covariance)
    stood_still = np.all(before[1:] == before[:-1], axis=(1, 2))
    assert stood_still[[70, 96]].all() == (dim == 2)  # a cosine without noise never does
    assert not stood_still[[81, 102]].any()


def test_deterministic_components_never_stand_still():
    """A cosine without process noise: its gain falls for ever, and nothing may be frozen."""
    kernel = k.Cosine(period=7.3) + k.Matern12(lengthscale=0.2)
    steps = jitted.step_transitions(kernel, jnp.asarray([1.0]))
    count = 4000
    which = np.append(0, np.ones(count - 1, dtype=int))
    value = jnp.asarray(np.random.default_rng(0).standard_normal(count))

    @partial(jax.jit, static_argnums=0)
    def evidence(steady):
        return chain.log_evidence(
            steps, kernel.emission(), value, jnp.ones(count),
            which=which, blocks=(2, 1), steady=steady,
        )[0]  # fmt: skip

    np.testing.assert_allclose(evidence(True), evidence(False), rtol=1e-12)


@pytest.mark.parametrize("dim", [3, 13])
def test_many_chains_at_once_are_those_chains(dim):
    transitions, sites = chain_of(dim)
    scales = jnp.asarray([0.5, 1.0, 2.0])

    def one(scale):
        scaled = chain.Sites(scale * sites.linear, scale * sites.precision)
        swept = chain.sweep(transitions, scaled)
        h, value, precision = jnp.ones(dim), sites.linear[:-1, 0], jnp.full(STATES, 2.0)
        return swept, chain.log_evidence(transitions, scale * h, value, precision)

    one_by_one = jax.tree.map(lambda *v: np.stack(v), *map(jax.jit(one), scales))
    agree(jax.jit(jax.vmap(one))(scales), one_by_one)


def test_derivatives_of_the_sweep_itself_are_those_of_its_twin():
    transitions, sites = chain_of(3)

    def total(linear):
        moved = chain.Sites(linear, sites.precision)
        return jnp.sum(jnp.sin(chain.sweep(transitions, moved).marginals.mean))

    compiled, twin = both(jax.grad(total), sites.linear)
    agree(compiled, twin)
    agree(jax.jit(jax.jacfwd(total))(sites.linear), twin)


def test_single_precision_and_explicit_ways_stay_in_jax():
    assert _native.in_use(np.zeros(1))
    assert not _native.in_use(np.zeros(1, np.float32))
    transitions, sites = chain_of(2)
    text = str(jax.make_jaxpr(lambda: chain.sweep(transitions, sites, how="sequential"))())
    assert "ffi_call" not in text


def test_a_fit_without_the_kernels_ends_at_the_same_place():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 60))
    y = np.sin(x) + 0.2 * rng.standard_normal(60)
    model = sg.GP("matern52 + cosine(3)", sg.likelihoods.Gaussian())
    compiled = sg.fit(model, x, y)
    jax.clear_caches()
    with in_jax():
        twin = sg.fit(model, x, y)
    jax.clear_caches()
    np.testing.assert_allclose(compiled.elbo, twin.elbo, atol=1e-6)


def test_the_runtime_says_which_kernels_are_in_use():
    assert sg.describe_runtime().kernels == "compiled"
    with in_jax():
        assert "compared with" in str(sg.describe_runtime())


def test_kernels_can_be_left_alone():
    code = "import stategp as sg; print(sg.describe_runtime().kernels)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"STATEGP_NATIVE": "off"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "as JAX compiles them (STATEGP_NATIVE is off)"


def test_what_does_not_belong_together_is_refused():
    steps, value, precision, which = steady_case(3, 20)
    h = KERNELS[3].emission()
    for wrong in (
        {"which": which + 1},
        {"which": which - 1},
        {"blocks": (2,)},
        {"blocks": (4, -1)},
    ):
        with pytest.raises(Exception, match="do not belong together"):
            chain.log_evidence(steps, h, value, precision, **({"which": which} | wrong))
    transitions, sites = chain_of(3)
    short = chain.Sites(sites.linear[1:], sites.precision[1:])
    with pytest.raises(Exception, match="differ in length"):
        chain.sweep(transitions, short)
