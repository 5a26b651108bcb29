"""How many digits of the bound and of its gradient are right when the signal drowns the noise.

    stategp-experiments signal-to-noise [--quick]

Ten kernels, at the data and with fewer inducing points, repeated inputs and weights among them;
signal over noise from 1 to 10¹⁴. The reference is a dense GP with sixty digits (mpmath), its
gradient analytic in the covariances and by differences with forty digits in the hyperparameters.
A number is printed as the relative error of the value and of the gradient; where stategp gives no
number, `refused`.
"""

import functools
import warnings
from typing import Any

import mpmath as mp
import numpy as np

import stategp as sg
from stategp import kernels as k
from stategp._data import observe, place_inducing
from stategp._inference import Collapsed
from stategp._runtime import pad_inducing
from stategp.parameters import to_vector
from stategp_experiments import studies

DIGITS = 60
POINTS, INDUCING = 16, 7
RATIOS = [1e0, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12, 1e13, 1e14]
QUICK_RATIOS = [1e4, 1e8, 1e12]


# --- kernels, twice ----------------------------------------------------------------------------
#
# A block is (A, P, h): the transition of a step, the stationary covariance and what is seen. The
# reference needs other coordinates of the state than the library's in no place: bounds do not
# depend on them.


def _matern(dim, variance, lengthscale):
    rate = mp.sqrt(2 * dim - 1) / lengthscale

    def entry(i, j):
        top = mp.factorial(2 * dim - 2 - i - j)
        return top / (
            2 ** (2 * dim - 1 - i - j) * mp.factorial(dim - 1 - i) * mp.factorial(dim - 1 - j)
        )

    P = mp.matrix(dim, dim)
    for i in range(dim):
        for j in range(dim):
            P[i, j] = variance * entry(i, j) / entry(0, 0)

    def A(step):
        r = rate * step
        whole = mp.matrix(dim, dim)
        for i in range(dim):
            for j in range(i, dim):
                whole[i, j] = mp.exp(-r) * r ** (j - i) / mp.factorial(j - i)
        return whole

    return A, P, _first(dim)


def _first(dim):
    h = mp.matrix(dim, 1)
    h[0] = 1
    return h


def _cosine(variance, period):
    def A(step):
        angle = 2 * mp.pi * step / period
        return mp.matrix([[mp.cos(angle), -mp.sin(angle)], [mp.sin(angle), mp.cos(angle)]])

    return A, variance * mp.eye(2), _first(2)


def _constant(variance):
    return (lambda step: mp.eye(1)), mp.matrix([[variance]]), _first(1)


def _kronecker(first, second):
    def product(a, b):
        rows, columns = a.rows * b.rows, a.cols * b.cols
        whole = mp.matrix(rows, columns)
        for i in range(rows):
            for j in range(columns):
                whole[i, j] = a[i // b.rows, j // b.cols] * b[i % b.rows, j % b.cols]
        return whole

    def A(step):
        return product(first[0](step), second[0](step))

    return A, product(first[1], second[1]), product(first[2], second[2])


def _periodic(variance, period, lengthscale, order=5):
    x = lengthscale**-2
    weights = [mp.besseli(j, x) * mp.exp(-x) * (1 if j == 0 else 2) for j in range(order + 1)]
    harmonics = [_cosine(variance * weights[j], period / j) for j in range(1, order + 1)]
    return [_constant(variance * weights[0]), *harmonics]


def _oscillator(variance, period, quality):
    rate, damping = 2 * mp.pi / period, 1 / (2 * quality)
    F = rate * mp.matrix([[0, 1], [-1, -2 * damping]])
    return (lambda step: mp.expm(F * step)), variance * mp.eye(2), _first(2)


# Of each: the library's kernel, and the blocks of the reference from its hyperparameters in the
# order of `to_vector`. Deterministic blocks have singular covariances over several states.
KERNELS: dict[str, tuple[Any, Any]] = {
    "Matern12": (k.Matern12(variance=0.9, lengthscale=1.1), lambda v, s: [_matern(1, v, s)]),
    "Matern32": (k.Matern32(variance=0.9, lengthscale=1.1), lambda v, s: [_matern(2, v, s)]),
    "Matern52": (k.Matern52(variance=0.9, lengthscale=1.1), lambda v, s: [_matern(3, v, s)]),
    "Matern72": (k.Matern72(variance=0.9, lengthscale=1.1), lambda v, s: [_matern(4, v, s)]),
    "Matern12 + Matern52": (
        k.Matern12(variance=0.5, lengthscale=1.0) + k.Matern52(variance=0.8, lengthscale=2.0),
        lambda v, s, w, t: [_matern(1, v, s), _matern(3, w, t)],
    ),
    "Periodic": (
        k.Periodic(variance=0.9, period=2.7, lengthscale=0.8, order=5),
        _periodic,
    ),
    "QuasiPeriodic": (
        k.QuasiPeriodic(variance=0.9, period=2.7, lengthscale=1.2, decay=6.0, order=2),
        lambda v, p, s, d: [_kronecker(_matern(2, 1, d), b) for b in _periodic(v, p, s, 2)],
    ),
    "Cosines + Matern32": (
        k.Cosine(variance=0.7, period=1.0)
        + k.Cosine(variance=0.4, period=7.0)
        + k.Matern32(variance=0.5, lengthscale=3.0),
        lambda v, p, w, q, u, s: [_cosine(v, p), _cosine(w, q), _matern(2, u, s)],
    ),
    "Oscillator": (
        k.Oscillator(variance=0.9, period=1.7, quality=3.0),
        lambda v, p, q: [_oscillator(v, p, q)],
    ),
    "Constant + Matern52": (
        k.Constant(variance=2.0) + k.Matern52(variance=0.9, lengthscale=1.1),
        lambda c, v, s: [_constant(c), _matern(3, v, s)],
    ),
}


# --- the reference -----------------------------------------------------------------------------


def _covariances(blocks, x, inducing):
    """What is seen of f at x (through inducing points, if any), and the variances that are not."""
    seen = mp.matrix(len(x), len(x))
    variance = mp.mpf(0)
    for A, P, h in blocks:
        A = functools.cache(A)
        variance += (h.T * P * h)[0]
        still = mp.mnorm(P - A(mp.mpf(1)) * P * A(mp.mpf(1)).T) < mp.mpf(10) ** (10 - mp.mp.dps)
        if inducing is None or still:  # the state at one place gives those at all others
            start = P * h
            for i in range(len(x)):
                for j in range(i + 1):
                    seen[i, j] += (h.T * (A(x[i] - x[j]) * start))[0]
                    seen[j, i] = seen[i, j]
            continue
        dim = P.rows
        K_uu = mp.matrix(len(inducing) * dim, len(inducing) * dim)
        K_uf = mp.matrix(len(inducing) * dim, len(x))
        for i, z in enumerate(inducing):
            for j, other in enumerate(inducing[: i + 1]):
                both = A(z - other) * P
                for a in range(dim):
                    for b in range(dim):
                        K_uu[i * dim + a, j * dim + b] = both[a, b]
                        K_uu[j * dim + b, i * dim + a] = both[a, b]
            for j, place in enumerate(x):
                both = A(z - place) * (P * h) if z >= place else P * (A(place - z).T * h)
                for a in range(dim):
                    K_uf[i * dim + a, j] = both[a]
        half = mp.inverse(mp.cholesky(K_uu)) * K_uf
        seen += half.T * half
    return seen, [variance - seen[i, i] for i in range(len(x))]


class Reference:
    """The bound of one kernel on given inputs, for any noise: covariances are computed once."""

    def __init__(self, name, x, inducing):
        kernel, blocks_of = KERNELS[name]
        with mp.workdps(DIGITS):
            places = [mp.mpf(float(v)) for v in x]
            at = None if inducing is None else [mp.mpf(float(v)) for v in inducing]
            vector = [mp.mpf(float(v)) for v in to_vector(kernel)]

            def covariances(vector):
                return _covariances(blocks_of(*[mp.exp(v) for v in vector]), places, at)

            self.K, self.left = covariances(vector)
            self.slopes = []
            step = mp.mpf(10) ** -20
            for i in range(len(vector)):
                up, down = list(vector), list(vector)
                up[i] += step
                down[i] -= step
                (K1, r1), (K0, r0) = covariances(up), covariances(down)
                slope = [(a - b) / (2 * step) for a, b in zip(r1, r0, strict=True)]
                self.slopes.append(((K1 - K0) / (2 * step), slope))

    def __call__(self, y, weights, log_noise):
        """The bound, and its gradient in the kernel's hyperparameters and the log noise."""
        with mp.workdps(DIGITS):
            n, noise = len(y), mp.exp(mp.mpf(float(log_noise)))
            w = [mp.mpf(float(v)) for v in weights]
            y = mp.matrix([mp.mpf(float(v)) for v in y])
            C = self.K.copy()
            for i in range(n):
                C[i, i] += noise / w[i]
            L = mp.cholesky(C)
            inverse = mp.inverse(L)
            inverse = inverse.T * inverse
            alpha = inverse * y
            log_det = 2 * sum(mp.log(L[i, i]) for i in range(n))
            value = -((y.T * alpha)[0] + log_det) / 2
            value += sum(mp.log(noise / v) - v * mp.log(2 * mp.pi * noise) for v in w) / 2
            value -= sum(v * r for v, r in zip(w, self.left, strict=True)) / (2 * noise)
            gradient = []
            for slope, left in self.slopes:
                square = (alpha.T * slope * alpha)[0]
                trace = sum(inverse[i, j] * slope[j, i] for i in range(n) for j in range(n))
                apart = sum(v * r for v, r in zip(w, left, strict=True)) / noise
                gradient.append((square - trace - apart) / 2)
            own = sum((alpha[i] ** 2 - inverse[i, i]) * noise / w[i] for i in range(n)) / 2
            own += sum(1 - v for v in w) / 2
            own += sum(v * r for v, r in zip(w, self.left, strict=True)) / (2 * noise)
            return float(value), np.array([float(g) for g in (*gradient, own)])


# --- the study ---------------------------------------------------------------------------------


def inputs(count=POINTS, seed=0):
    """Inputs with two that are repeated, and weights."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.round(rng.uniform(0, 8, count), 3))
    x[0] = 0.0
    x[5], x[10] = x[4], x[9]
    return x, 1.0 + (np.arange(count) % 4 == 1)


def outputs(reference, ratio, seed=1):
    """Observations that the model finds likely: a draw of f, and noise."""
    rng = np.random.default_rng(seed)
    n = reference.K.rows
    K = np.array([[float(reference.K[i, j]) for j in range(n)] for i in range(n)])
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(n))
    return f + rng.standard_normal(n) / np.sqrt(ratio)


def computed(kernel, x, y, weights, inducing, noise):
    """The bound and its gradient as a fit computes them."""
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise), mean=sg.means.Zero())
    data = observe(x, y, model.likelihood, weights=weights)
    at = place_inducing("data" if inducing is None else inducing, data)
    return Collapsed(model, data, pad_inducing(at))(to_vector(model))


def conditioned(kernel, x, y, weights, inducing, noise):
    """The bound as `sg.condition` reports it."""
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise), mean=sg.means.Zero())
    at = "data" if inducing is None else inducing
    try:
        return sg.condition(model, x, y, weights=weights, inducing=at).elbo
    except FloatingPointError:
        return np.nan


def errors(name, ratios, sparse):
    """(ratio, error of the value, of the gradient, of what `condition` says); NaN: refused."""
    x, weights = inputs()
    inducing = np.linspace(x[0], x[-1], INDUCING) if sparse else None
    reference, kernel = Reference(name, x, inducing), KERNELS[name][0]
    rows = []
    for ratio in ratios:
        y = outputs(reference, ratio)
        expected, slopes = reference(y, weights, np.log(1 / ratio))
        value, gradient = computed(kernel, x, y, weights, inducing, 1 / ratio)
        said = conditioned(kernel, x, y, weights, inducing, 1 / ratio)
        slope_error = np.max(np.abs(gradient - slopes)) / np.max(np.abs(slopes))
        rows.append(
            (
                ratio,
                abs(value - expected) / abs(expected),
                slope_error,
                abs(said - expected) / abs(expected),
            )
        )
    return rows


def main(arguments: list[str]) -> None:
    options = studies.parser(__doc__, quick="three ratios").parse_args(arguments)
    ratios = QUICK_RATIOS if options.quick else RATIOS
    warnings.simplefilter("ignore", sg.NotConvergedWarning)
    table = []
    for title, sparse in (("at the data", False), (f"{INDUCING} inducing points", True)):
        print(f"{title}: relative errors of value | gradient | condition's elbo")
        print(f"{'':22}" + "".join(f"{ratio:^24.0e}" for ratio in ratios), flush=True)
        for name in KERNELS:
            rows = errors(name, ratios, sparse)
            cells = ["|".join(_short(error) for error in row[1:]) for row in rows]
            print(f"{name:22}" + "".join(f"{cell:^24}" for cell in cells), flush=True)
            for ratio, value, gradient, said in rows:
                table.append(
                    {
                        "kernel": name,
                        "inducing": INDUCING if sparse else "data",
                        "signal over noise": ratio,
                        "error of the value": _or_refused(value),
                        "error of the gradient": _or_refused(gradient),
                        "error of the posterior's bound": _or_refused(said),
                    }
                )
    studies.write(table, options.output / "signal-to-noise.json")


def _short(error):
    return f"{error:7.0e}" if np.isfinite(error) else "refused"


def _or_refused(error):
    return float(error) if np.isfinite(error) else "refused"
