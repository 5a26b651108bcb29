"""A hundred hostile fits: whatever comes in, the answer is finite or an error in words.

    stategp-experiments hostile [--fits 100] [--seed 0]

Every likelihood, with outliers, tiny N, constant y, huge counts, all one class, duplicated x,
extreme starting values, several kernels and methods. Prints each fit that fails, and a count.
"""

import time
import traceback
import warnings

import numpy as np

import stategp as sg
from stategp import kernels as k
from stategp import likelihoods as lik
from stategp_experiments import studies

LIKELIHOODS = {
    "gaussian": lik.Gaussian,
    "student_t": lik.StudentT,
    "laplace": lik.Laplace,
    "bernoulli": lik.Bernoulli,
    "probit": lambda: lik.Bernoulli(link="probit"),
    "binomial": lik.Binomial,
    "poisson": lik.Poisson,
    "negative_binomial": lik.NegativeBinomial,
    "exponential": lik.Exponential,
    "gamma": lik.Gamma,
    "weibull": lik.Weibull,
    "beta": lik.Beta,
    "ordinal": lambda: lik.Ordinal(levels=4),
    "heteroscedastic": lik.HeteroscedasticGaussian,
    "custom": lambda: lik.Custom(_heavy),
}


def _heavy(y, f):
    import jax.numpy as jnp

    return -jnp.log1p((y - f) ** 2) - jnp.log(jnp.pi)


def inputs(rng, kind: str, count: int) -> np.ndarray:
    x = rng.uniform(0, 10, count)
    if kind == "duplicated":
        x = np.round(x)
    elif kind == "one place":
        x = np.full(count, 3.0)
    elif kind == "timestamps":
        x = 1.7e18 + np.round(x * 1e9)
    elif kind == "two clusters":
        x = np.where(rng.uniform(size=count) < 0.5, x * 1e-6, 1e6 + x)
    return x


def outputs(rng, name: str, kind: str, count: int) -> tuple[np.ndarray, dict]:
    """Possible observations of a likelihood, at their worst."""
    extras = {}
    f = np.sin(np.arange(count))
    if name in ("gaussian", "student_t", "laplace", "heteroscedastic", "custom"):
        y = f + 0.1 * rng.standard_normal(count)
        if kind == "outliers":
            y[:: max(count // 4, 1)] += 1e6
        elif kind == "constant":
            y[:] = 5.0
        elif kind == "huge":
            y *= 1e8
    elif name in ("bernoulli", "probit"):
        y = (rng.uniform(size=count) < 0.5).astype(float)
        if kind != "outliers":
            y[:] = 1.0
    elif name == "binomial":
        extras["trials"] = np.full(count, 10.0 if kind != "huge" else 1e6)
        y = np.floor(extras["trials"] * rng.uniform(size=count))
        if kind == "constant":
            y[:] = extras["trials"]
    elif name in ("poisson", "negative_binomial"):
        y = rng.poisson(np.exp(f)).astype(float)
        if kind == "outliers":
            y[:: max(count // 4, 1)] = 1e5
        elif kind == "constant":
            y[:] = 0.0
        elif kind == "huge":
            y = np.round(1e6 * np.exp(f))
    elif name in ("exponential", "gamma", "weibull"):
        y = np.exp(f + rng.standard_normal(count))
        if kind == "outliers":
            y[:: max(count // 4, 1)] = 1e-9
        elif kind == "constant":
            y[:] = 2.0
        elif kind == "huge":
            y *= 1e9
    elif name == "beta":
        y = 1 / (1 + np.exp(-f - rng.standard_normal(count)))
        if kind == "outliers":
            y[:: max(count // 4, 1)] = 1 - 1e-12
        elif kind == "constant":
            y[:] = 0.5
    else:
        y = rng.integers(0, 4, count).astype(float)
        if kind == "constant":
            y[:] = 3.0
    return y, extras


def one_fit(rng, name: str, sizes=(1, 2, 5, 40)) -> tuple[str, str | None]:
    """A random hostile fit; what it was, and what went wrong if anything did."""
    count = int(rng.choice(sizes))
    x_kind = str(rng.choice(["plain", "duplicated", "one place", "timestamps", "two clusters"]))
    y_kind = str(rng.choice(["plain", "outliers", "constant", "huge"]))
    scale = float(rng.choice([1.0, 1e-4, 1e4, np.nan]))
    kernel_name = str(rng.choice(["Matern12", "Matern32", "Matern52"]))
    kernel = getattr(k, kernel_name)
    x = inputs(rng, x_kind, count)
    span = float(np.ptp(x)) or 1.0
    given = {} if np.isnan(scale) else {"lengthscale": scale * span, "variance": scale}
    y, extras = outputs(rng, name, y_kind, count)
    mean = sg.means.Constant() if rng.uniform() < 0.5 else None
    inducing = [None, 3][int(rng.integers(2))] or "data"
    what = (
        f"{name}, N={count}, x {x_kind}, y {y_kind}, {kernel_name}, start × {scale}, "
        f"mean {mean}, inducing {inducing}"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            posterior = sg.fit(
                sg.GP(kernel(**given), LIKELIHOODS[name](), mean),
                x,
                y,
                inducing=inducing,
                max_steps=60,
                **extras,
            )
        at = np.concatenate([x[:2], [x.max() + span]])
        moments = posterior.predict_f(at)
        if not np.isfinite(posterior.elbo):
            return what, f"bound {posterior.elbo}"
        if not all(np.all(np.isfinite(v)) for v in moments) or np.any(np.asarray(moments[1]) < 0):
            return what, f"predictions {moments}"
        if not posterior.fit_result.converged and not posterior.fit_result.message:
            return what, "not converged, and no reason given"
        what += "" if posterior.fit_result.converged else f" [{posterior.fit_result.message}]"
    except (ValueError, FloatingPointError) as error:
        words = str(error)
        if "jax" in words.lower() or len(words) < 20:
            return what, f"unclear message: {words}"
        what += f" [refused: {words[:60]}…]"
    except Exception:
        return what, traceback.format_exc(limit=-3)
    return what, None


def main(arguments: list[str]) -> None:
    parser = studies.parser(__doc__, output=False)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one likelihood")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    began, bad, remarks = time.perf_counter(), 0, 0
    names = [options.only] if options.only else list(LIKELIHOODS)
    for number in range(options.fits):
        what, wrong = one_fit(rng, names[number % len(names)])
        remarks += "[" in what
        if wrong is not None or "[" in what:
            print(f"{number:3d} {'WRONG: ' if wrong else ''}{what}", flush=True)
        if wrong is not None:
            bad += 1
            print("    " + wrong.replace("\n", "\n    "), flush=True)
    print(
        f"{options.fits} fits, {bad} wrong, {remarks} that did not converge or were refused in "
        f"words, {time.perf_counter() - began:.0f} s"
    )
