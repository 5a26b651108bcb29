"""Every kernel the tests go over, each with an independent closed form of its covariance."""

import dataclasses
import math
from collections.abc import Callable

import mpmath
import numpy as np
from scipy.linalg import expm
from sklearn.gaussian_process.kernels import ExpSineSquared, Matern

import stategp as sg
from stategp.kernels import Kernel

from .references import exact_covariance

Lags = np.ndarray
Reference = Callable[[Lags], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel, k(τ) from elsewhere, and the steps at which its code changes formula."""

    kernel: Kernel
    rate: float  # λ, the fastest of its differential equation
    reference: Reference
    switches: tuple[float, ...] = ()
    closed_form: bool = True  # False: process noise from (F, L, Q_c) alone

    def __add__(self, other: "Case") -> "Case":
        rate = max(self.rate, other.rate)
        return self._combined(self.kernel + other.kernel, rate, np.add, other)

    def __mul__(self, other: "Case") -> "Case":
        rate = self.rate + other.rate
        return self._combined(self.kernel * other.kernel, rate, np.multiply, other)

    def __rmul__(self, scale: float) -> "Case":
        return dataclasses.replace(
            self, kernel=scale * self.kernel, reference=lambda lags: scale * self.reference(lags)
        )

    def _combined(self, kernel: Kernel, rate: float, combine: np.ufunc, other: "Case") -> "Case":
        return Case(
            kernel,
            rate,
            lambda lags: combine(self.reference(lags), other.reference(lags)),
            self.switches + other.switches,
            self.closed_form and other.closed_form,
        )


# --- the covariances, from scikit-learn, the celerite paper and quadrature -------------------


def matern_reference(variance: float, lengthscale: float, nu: float) -> Reference:
    kernel = Matern(length_scale=lengthscale, nu=nu)
    return lambda lags: variance * kernel(np.zeros((1, 1)), lags[:, None])[0]


def periodic_reference(variance: float, period: float, lengthscale: float) -> Reference:
    kernel = ExpSineSquared(length_scale=lengthscale, periodicity=period)
    return lambda lags: variance * kernel(np.zeros((1, 1)), lags[:, None])[0]


def oscillator_reference(variance: float, period: float, quality: float) -> Reference:
    """Equation 23 of Foreman-Mackey et al. (2017), to 50 digits."""

    def covariance(lag: float) -> float:
        q, phase = mpmath.mpf(quality), 2 * mpmath.pi * mpmath.mpf(lag) / mpmath.mpf(period)
        eta = mpmath.sqrt(abs(1 - 1 / (4 * q**2)))
        cos, sin = (mpmath.cosh, mpmath.sinh) if q < 0.5 else (mpmath.cos, mpmath.sin)
        wave = 1 + phase if eta == 0 else cos(eta * phase) + sin(eta * phase) / (2 * eta * q)
        return float(variance * mpmath.exp(-phase / (2 * q)) * wave)

    def reference(lags: Lags) -> np.ndarray:
        with mpmath.workdps(50):
            return np.array([covariance(lag) for lag in lags])

    return reference


def spectral_reference(variance: float, lengthscale: float, order: int) -> Reference:
    """The Fourier integral of 1/Σ_k (ω²/2)ᵏ/k!, normalised, by the trapezoidal rule.

    The rule's error is the covariance at lags beyond 2π/h − τ, which is nothing; the tail left
    out beyond the last frequency holds about 1e-14.
    """
    spacing = 0.1
    last = (2**order * math.factorial(order) * 1e14) ** (1 / (2 * order - 1))
    frequencies = np.arange(0, last, spacing)
    half_square = frequencies**2 / 2
    density = 1 / sum(half_square**k / math.factorial(k) for k in range(order + 1))
    density[0] /= 2

    def reference(lags: Lags) -> np.ndarray:
        waves = (density @ np.cos(frequencies * lag / lengthscale) for lag in lags)
        return variance * np.array(list(waves)) / density.sum()

    return reference


# --- the kernels -----------------------------------------------------------------------------


def matern(smoothness: str, variance: float, lengthscale: float) -> Case:
    kernel = getattr(sg.kernels, f"Matern{smoothness}")(variance=variance, lengthscale=lengthscale)
    return matern_case(kernel, int(smoothness[0]) / 2, variance, lengthscale)


def matern_of_order(nu: float, variance: float, lengthscale: float) -> Case:
    kernel = sg.kernels.Matern(order=nu, variance=variance, lengthscale=lengthscale)
    return matern_case(kernel, nu, variance, lengthscale)


def matern_case(kernel: Kernel, nu: float, variance: float, lengthscale: float) -> Case:
    rate = math.sqrt(2 * nu) / lengthscale
    switch = max(2.0, 0.8 * nu) / (2 * rate)  # the incomplete gamma function's
    return Case(kernel, rate, matern_reference(variance, lengthscale, nu), (switch,))


def constant(variance: float) -> Case:
    kernel = sg.kernels.Constant(variance=variance)
    return Case(kernel, 1.0, lambda lags: np.full(len(lags), variance))


def cosine(variance: float, period: float) -> Case:
    kernel = sg.kernels.Cosine(variance=variance, period=period)
    rate = 2 * math.pi / period
    return Case(kernel, rate, lambda lags: variance * np.cos(rate * lags))


def oscillator(variance: float, period: float, quality: float) -> Case:
    damping, frequency = 0.5 / quality, 2 * math.pi / period
    switches = [2 / max(1, damping)]
    if damping != 1:
        switches.append(math.sqrt(0.1 / abs(damping**2 - 1)))  # series | trigonometric
    return Case(
        sg.kernels.Oscillator(variance=variance, period=period, quality=quality),
        frequency * (damping + math.sqrt(max(damping**2 - 1, 0))) if damping > 1 else frequency,
        oscillator_reference(variance, period, quality),
        tuple(switch / frequency for switch in switches),
    )


def periodic(variance: float, period: float, lengthscale: float) -> Case:
    kernel = sg.kernels.Periodic(
        variance=variance, period=period, lengthscale=lengthscale, tolerance=1e-14
    )
    rate = 2 * math.pi * kernel.order / period
    return Case(kernel, rate, periodic_reference(variance, period, lengthscale))


def quasi_periodic(
    variance: float, period: float, lengthscale: float, decay: float, envelope: str
) -> Case:
    kernel = sg.kernels.QuasiPeriodic(
        variance=variance,
        period=period,
        lengthscale=lengthscale,
        decay=decay,
        envelope=envelope,
        tolerance=1e-14,
    )
    product = matern(envelope.removeprefix("matern"), 1.0, decay) * periodic(
        variance, period, lengthscale
    )
    return dataclasses.replace(product, kernel=kernel)


def harmonic(weights: np.ndarray, frequency: float, lengthscale: float) -> Case:
    def reference(lags: Lags) -> np.ndarray:
        phases = 2 * np.pi * frequency * np.outer(lags, np.arange(1, len(weights) + 1))
        return np.exp(-lags / lengthscale) * (np.cos(phases) @ np.square(weights))

    kernel = sg.kernels.Harmonic(weights=weights, frequency=frequency, lengthscale=lengthscale)
    rate = 2 * math.pi * frequency * len(weights) + 1 / lengthscale
    return Case(kernel, rate, reference, (lengthscale,))


def squared_exponential(variance: float, lengthscale: float, order: int) -> Case:
    kernel = sg.kernels.SquaredExponential(variance=variance, lengthscale=lengthscale, order=order)
    rate = math.sqrt(2 * order) / lengthscale  # about the modulus of the largest pole
    reference = spectral_reference(variance, lengthscale, order)
    return Case(kernel, rate, reference, closed_form=False)


def raw_matern52(rate: float) -> Case:
    """Matérn-5/2 in f, f′, f″: entries of P₀ from 1 to λ⁴."""
    kernel = sg.kernels.FromSDE(
        F=np.array([[0, 1, 0], [0, 0, 1], [-(rate**3), -3 * rate**2, -3 * rate]]),
        L=np.array([[0, 0], [0, 0], [1, 0]]),  # shaped as COUPLED: one program for both
        Qc=np.diag([16 / 3 * rate**5, 0]),
        H=np.array([1, 0, 0]),
        variance=0.7,
    )
    return Case(kernel, rate, matern_reference(0.7, math.sqrt(5) / rate, 2.5), closed_form=False)


def without_decay(diffusivity: float, start: float) -> Case:
    """The integral of a random walk, with the rate of forgetting of a Matérn-3/2."""
    kernel = sg.kernels.FromSDE(
        F=np.array([[0.0, 1.0], [0.0, 0.0]]),
        L=np.array([0.0, 1.0]),
        Qc=np.array([[diffusivity]]),
        H=np.array([1.0, 0.0]),
        variance=1.0,
        start=start,
    )
    rate = (diffusivity / (4 * start)) ** (1 / 3)
    reference = matern_reference(start, math.sqrt(3) / rate, 1.5)
    return Case(kernel, rate, reference, closed_form=False)


def from_arrays(F: np.ndarray, L: np.ndarray, Qc: np.ndarray, H: np.ndarray) -> Case:
    def reference(lags: Lags) -> np.ndarray:
        return exact_covariance(F, L @ Qc @ L.T, H, lags)

    rate = np.abs(np.linalg.eigvals(F)).max()
    return Case(sg.kernels.FromSDE(F, L, Qc, H, variance=1.0), rate, reference, closed_form=False)


def slowed(case_arrays: tuple[np.ndarray, ...], time_scale: float) -> Case:
    """An equation whose times are all so many times longer: F and the noise are divided."""
    F, L, Qc, H = case_arrays
    exact = from_arrays(F / time_scale, L, Qc / time_scale, H)
    kernel = sg.kernels.FromSDE(F, L, Qc, H, variance=1.0, time_scale=sg.parameter(time_scale))
    return dataclasses.replace(exact, kernel=kernel)


def exponentially_generated(N: np.ndarray, R: np.ndarray, variance: float) -> Case:
    """A process with the identity as the covariance of its state."""
    F = -(N @ N.T + R - R.T) / 2
    H = np.eye(1, len(N))[0] * math.sqrt(variance)
    kernel = sg.kernels.LatentExponentiallyGenerated(N=N, R=R, variance=variance)
    return Case(
        kernel,
        np.abs(np.linalg.eigvals(F)).max(),
        lambda lags: exact_covariance(F, N @ N.T, H, lags),
        closed_form=False,
    )


def divergence_free(variance: float, period: float, lengthscale: float) -> Case:
    """The six coupled equations as BayesNewton writes them."""
    coupling = np.array([[0.5, -1, 0.5], [-1, 0.5, -1], [0.5, -1, 0.5]]) / math.sqrt(lengthscale)
    N, frequency = np.kron(coupling, np.eye(2)), 2 * math.pi / period
    F = -N @ N.T / 2 - np.kron(np.eye(3), [[0, -frequency], [frequency, 0]])
    kernel = sg.kernels.DivergenceFreeOscillator(
        variance=variance, period=period, lengthscale=lengthscale
    )

    def reference(lags: Lags) -> np.ndarray:
        return np.array([variance * expm(F * lag)[0, 0] for lag in lags])

    return Case(kernel, np.abs(np.linalg.eigvals(F)).max(), reference, (lengthscale,))


def wiener(diffusivity: float, start: float) -> Case:
    kernel = sg.kernels.Wiener(diffusivity=diffusivity, start=start)
    rate = diffusivity / (2 * start)
    return Case(kernel, rate, matern_reference(start, 1 / rate, 0.5), (1 / rate,))


def linear(slope: float, start: float) -> Case:
    kernel = sg.kernels.Linear(slope=slope, start=start)
    rate = math.sqrt(slope / start)
    return Case(kernel, rate, lambda lags: start * np.cos(rate * lags))


def integrated_wiener(diffusivity: float, start: float, slope: float) -> Case:
    kernel = sg.kernels.IntegratedWiener(diffusivity=diffusivity, start=start, slope=slope)
    frequency = math.sqrt(slope / start)
    quality = 2 * slope * frequency / diffusivity
    equal = oscillator(start, 2 * math.pi / frequency, quality)
    return dataclasses.replace(equal, kernel=kernel)


def damped_trend(diffusivity: float, damping: float, start: float) -> Case:
    """The covariance of a process with two rates, start · (θ e^{−ετ} − ε e^{−θτ}) / (θ − ε)."""
    with mpmath.workdps(50):
        fast = mpmath.mpf(damping)
        product = mpmath.mpf(diffusivity) / (2 * fast * mpmath.mpf(start))
        slow = (mpmath.sqrt(fast**2 + 4 * product) - fast) / 2

    def reference(lags: Lags) -> np.ndarray:
        with mpmath.workdps(50):
            waves = [
                (fast * mpmath.exp(-slow * lag) - slow * mpmath.exp(-fast * lag)) / (fast - slow)
                for lag in map(mpmath.mpf, map(float, lags))
            ]
            return np.array([float(start * wave) for wave in waves])

    kernel = sg.kernels.DampedTrend(diffusivity=diffusivity, damping=damping, start=start)
    return Case(kernel, damping, reference, (4 / damping,))


COUPLED = from_arrays(
    F=np.array([[-1.0, 2.0, 0.0], [-2.0, -1.0, 0.5], [0.3, 0.0, -4.0]]),
    L=np.array([[1.0, 0.0], [0.0, 0.5], [0.7, -1.0]]),
    Qc=np.array([[1.0, 0.3], [0.3, 2.0]]),
    H=np.array([1.0, -0.5, 2.0]),
)
STIFF = from_arrays(  # rates 1, 1e2 and 1e4, each driving the slower one
    F=np.array([[-1.0, 1.0, 0.0], [0.0, -1e2, 1e2], [0.0, 0.0, -1e4]]),
    L=np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]),
    Qc=np.diag([1e4, 0.0]),
    H=np.array([1.0, 0.0, 0.0]),
)

MATERNS = {f"Matérn-{nu[0]}/{nu[1]}": matern(nu, 1.7, 0.6) for nu in ("12", "32", "52", "72")}
MATERNS |= {f"Matérn {nu}": matern_of_order(nu, 1.7, 0.6) for nu in (4.5, 11.5)}
OSCILLATORS = {
    f"oscillator {quality:.6g}": oscillator(1.3, 2.0, quality)
    for quality in (
        *(0.01, 0.1, 0.499, 0.5, 0.501, 0.55, 3.0, 1000.0),
        *(0.5 / 1.1001, 0.5 / 1.0999, 0.5 / 0.9001, 0.5 / 0.8999),  # the switches in damping
    )
}
PERIODIC = {
    "constant": constant(2.5),
    "cosine": cosine(0.8, 3.0),
    "periodic": periodic(1.2, 2.0, 1.5),
    "harmonic": harmonic(np.array([1.0, 0.5, 0.25]), 3.0, 0.4),
    "divergence-free": divergence_free(1.2, 2.0, 3.0),
    "quasi-periodic 1/2": quasi_periodic(1.2, 2.0, 4.0, 7.0, "matern12"),
    "quasi-periodic 3/2": quasi_periodic(1.2, 2.0, 4.0, 7.0, "matern32"),
    "quasi-periodic 5/2": quasi_periodic(1.2, 2.0, 4.0, 7.0, "matern52"),
}
TRENDS = {
    "Wiener": wiener(0.4, 1e3),
    "linear": linear(0.5, 1e4),
    "integrated Wiener": integrated_wiener(0.4, 1e4, 30.0),
    "integrated Wiener, wild": integrated_wiener(40.0, 2.0, 3.0),
    "damped trend": damped_trend(0.4, 2.0, 5e7),  # rates that differ by 10⁹
    "damped trend, rates alike": damped_trend(1.0, 1.0, 0.3),
}
COMPOSED = {
    "sum": matern("52", 1.7, 0.6) + cosine(0.8, 3.0) + oscillator(1.3, 2.0, 3.0),
    "Matérn × cosine": matern("52", 1.7, 0.6) * cosine(0.8, 3.0),
    "cosine × Matérn": cosine(0.8, 3.0) * matern("52", 1.7, 0.6),
    "Matérn × Matérn": matern("32", 1.7, 0.6) * matern("52", 0.5, 4.0),
    "Matérn × oscillator": matern("32", 1.7, 0.6) * oscillator(1.3, 2.0, 3.0),
    "oscillator × Matérn": oscillator(1.3, 2.0, 3.0) * matern("32", 1.7, 0.6),
    "oscillator × oscillator": oscillator(1.3, 2.0, 3.0) * oscillator(0.6, 0.7, 0.3),
    "Wiener × cosine": wiener(0.4, 1e3) * cosine(0.8, 3.0),
    "trend + season": integrated_wiener(0.4, 1e4, 30.0) + cosine(0.8, 3.0),
    "scaled": 2.5 * matern("32", 1.7, 0.6),
    "nested": 0.5 * (matern("12", 1.7, 0.6) + 3.0 * (cosine(0.8, 3.0) * matern("32", 1.0, 2.0)))
    + constant(2.5) * (oscillator(1.3, 2.0, 0.501) + matern("12", 0.3, 1.5)),
}
EQUATIONS = {
    **{f"squared exponential {n}": squared_exponential(1.4, 0.8, n) for n in (2, 4, 6, 8)},
    "coupled": COUPLED,
    "stiff": STIFF,
    "without decay": without_decay(0.4, 1e8),
    "slowed": slowed(
        (np.array([[0.0, 1.0], [-4.0, -1.0]]), np.array([[0.0], [1.0]]), np.eye(1), np.eye(2)[0]),
        3.0,
    ),
    "exponentially generated": exponentially_generated(
        np.array([[1.2, 0.0], [0.4, 0.7]]), np.array([[0.0, 0.0], [2.0, 0.0]]), 1.7
    ),
    "raw derivatives": raw_matern52(1e3),
    "SDE × cosine": COUPLED * cosine(0.8, 3.0),
    "SDE + Matérn": COUPLED + matern("32", 1.7, 0.6),
}
CASES = {**MATERNS, **OSCILLATORS, **PERIODIC, **TRENDS, **COMPOSED, **EQUATIONS}
