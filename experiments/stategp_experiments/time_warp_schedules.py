"""How the deep model of the time-warp study is fitted: the paper's way, and ours.

- `paper`: Matérn-3/2 and a linear mean, both learned, for each of the five functions; the warps
  start with lengthscale 4 and variance 0.01; natural gradients with a constant rate of 0.001, Adam
  on everything else with a rate that starts at 0.001 and decays. The paper does not say how fast it
  decays, how many steps there are, or where the other hyperparameters start: these are ours.
- `staged`: from a warp that starts as the identity the bound has a local optimum for every period
  by which a warp can be wrong. So the second series is let in from its start, a little further each
  time: its warp then only ever has to be extended. Meanwhile the noise is held at 0.2, more than it
  is: a prior that still counts for something keeps the warp from folding back at every peak. Then
  the noise is learned, from all observations; kernels and means of warps and distortions are held.
- `staged-all`: the same, and then kernels and means of all five functions are learned too.
"""

import dataclasses

import numpy as np
import optax

import stategp as sg
from stategp_experiments.time_warp_truth import Series, observed

ADAM = optax.adam(0.01)
HELD = 0.2  # the noise while the second series is let in
PAPER_RATE = 0.001  # of natural gradients; and of Adam, at first
PAPER_STEPS = 10_000
FREE_STEPS = 3_000
k = sg.kernels


def composition(f, t, number):
    return f["g"][number](f["f"](f["a"][number](t)))


def noisy(variance) -> sg.likelihoods.Gaussian:
    return sg.likelihoods.Gaussian(variance=variance)


def warp_layers(kernel, mean=None) -> list[sg.Layer]:
    return [sg.Layer(kernel, 50, between=(-0.1, 1.1), mean=mean) for _ in range(2)]


def distortion_layers(kernel, mean=None) -> list[sg.Layer]:
    return [sg.Layer(kernel, 50, between=(-1.5, 1.5), mean=mean) for _ in range(2)]


def papers_model() -> sg.DeepGP:
    """Everything is learned; all mean functions are linear and start as the identity."""
    layers = {
        "a": warp_layers(k.Matern32(variance=0.01, lengthscale=4.0)),
        "f": sg.Layer(k.Matern32(variance=1.0, lengthscale=0.1), 100, between=(-0.1, 1.1)),
        "g": distortion_layers(k.Matern32(variance=1.0, lengthscale=1.0)),
    }
    return sg.DeepGP(layers, composition, noisy(0.01), samples=4)


def held_model() -> sg.DeepGP:
    """What the second series is let into: warps and distortions near the identity."""
    fixed = sg.fixed
    identity = sg.means.Linear(intercept=fixed(0.0), slope=fixed(1.0))
    layers = {
        "a": warp_layers(k.Matern32(variance=fixed(1.0), lengthscale=fixed(4.0)), identity),
        "f": sg.Layer(k.Matern32(variance=1.0, lengthscale=0.1), 100, between=(-0.1, 1.1), mean=0),
        "g": distortion_layers(k.Matern32(variance=fixed(0.03), lengthscale=fixed(3.0)), identity),
    }
    return sg.DeepGP(layers, composition, noisy(fixed(HELD**2)), samples=4)


def released(model: sg.DeepGP) -> sg.DeepGP:
    """The same model with nothing held: kernels and means of all layers are learned."""

    def free(layer: sg.Layer) -> sg.Layer:
        kernel, mean = layer.kernel, layer.mean
        own = k.Matern32(variance=float(kernel.variance), lengthscale=float(kernel.lengthscale))
        if isinstance(mean, sg.means.Linear):
            mean = sg.means.Linear(intercept=float(mean.intercept), slope=float(mean.slope))
        return sg.Layer(own, layer.inducing, mean=mean)

    layers = {path: free(model.layer(path)) for path in model.paths}
    return sg.DeepGP(
        model.with_layers(layers).layers,
        model.function,
        noisy(float(model.likelihood.variance)),
        samples=model.samples,
    )


def plain_model() -> sg.DeepGP:
    """Shared and own functions of t, added: what a multi-output GP can do without warps."""
    layers = {
        "shared": sg.Layer(k.Matern32(variance=0.5, lengthscale=0.1), 100, mean=0),
        "own": [sg.Layer(k.Matern32(variance=0.5, lengthscale=0.1), 100, mean=0) for _ in range(2)],
    }
    return sg.DeepGP(layers, addition, noisy(0.01), samples=1)


def addition(f, t, number):
    return f["shared"](t) + f["own"][number](t)


def windows(quick: bool) -> list[float]:
    """How far the second series is let in: a quarter further each time, and by 0.05 at most."""
    ends = [0.05]
    while ends[-1] < 1:
        ends.append(ends[-1] + min(0.25 * ends[-1], 0.05))
    return ends[:2] if quick else ends


def fit_as_paper(series: Series, quick: bool) -> sg.DeepPosterior:
    x, y = observed(series)
    steps = 10 if quick else PAPER_STEPS
    adam = optax.adam(optax.exponential_decay(PAPER_RATE, steps, 0.1))
    model = papers_model()
    return sg.fit(model, x, y, max_steps=steps, step_size=PAPER_RATE, optimiser=adam)


def fit_staged(series: Series, quick: bool) -> sg.DeepPosterior:
    x, y = observed(series)
    posterior, steps = held_model(), 5 if quick else 80
    for number, end in enumerate(windows(quick)):
        # Observations outside of the window count next to nothing. There is no stage without the
        # second series: its warp would become the prior, and begin again anywhere.
        seen = [np.ones(len(x[0])), np.where(x[1] <= end, 1.0, 1e-6)]
        length = steps if number else 4 * steps
        posterior = sg.fit(
            posterior, x, y, weights=seen, max_steps=length, step_size=0.1, optimiser=ADAM
        )
    if quick:  # another model is another minute for the compiler
        return posterior
    model = posterior.model
    model = sg.DeepGP(model.layers, composition, noisy(HELD**2), samples=model.samples)
    posterior = dataclasses.replace(posterior, model=model)
    last = optax.exponential_decay(0.05, 500, 0.3)
    return sg.fit(posterior, x, y, max_steps=12 * steps, step_size=last, optimiser=ADAM)


def fit_staged_all(series: Series, quick: bool) -> sg.DeepPosterior:
    posterior = fit_staged(series, quick)
    if quick:
        return posterior
    x, y = observed(series)
    posterior = dataclasses.replace(posterior, model=released(posterior.model))
    slower = optax.exponential_decay(0.02, FREE_STEPS, 0.1)
    adam = optax.adam(optax.exponential_decay(0.005, FREE_STEPS, 0.1))
    return sg.fit(posterior, x, y, max_steps=FREE_STEPS, step_size=slower, optimiser=adam)


def fit_plain(series: Series, quick: bool) -> sg.DeepPosterior:
    x, y = observed(series)
    return sg.fit(plain_model(), x, y, max_steps=10 if quick else 800, optimiser=ADAM)


SCHEDULES = {"paper": fit_as_paper, "staged": fit_staged, "staged-all": fit_staged_all}
