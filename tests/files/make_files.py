"""Makes the files of one version of the format, and the numbers that they have to give.

    python tests/files/make_files.py tests/files/format-1

Files that are there are never made again: what they hold is what that version of stategp wrote.
"""

import dataclasses
import json
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd

import stategp as sg

k = sg.kernels
X = np.linspace(0.0, 6.0, 24)
WAVE = np.sin(X) + 0.1 * np.cos(17 * X)
NEW = [-1.0, 0.3, 2.5, 8.0]


def gaussian():
    """Learned, with a prior, a fixed period, a learned mean; inducing points chosen by "auto"."""
    kernel = k.Matern32(lengthscale=sg.parameter(1.0, prior=sg.priors.LogNormal(1.0, 0.5)))
    model = sg.GP(kernel + k.Cosine(period=sg.fixed(2.0)), mean=sg.means.Linear())
    return sg.fit(model, X + 1000.0, WAVE, inducing="auto", max_steps=5)


def poisson():
    """Counts with exposures, at whole numbers."""
    x = np.arange(1_700_000_000, 1_700_000_024)
    kernel = k.Matern12(lengthscale=5.0) * k.Cosine(period=7.0)
    counts, exposure = np.round(4 * np.exp(WAVE)), 1.0 + (x % 3)
    model = sg.GP(kernel, "poisson", mean=0.5)
    return sg.condition(model, x, counts, exposure=exposure, inducing=8)


def heteroscedastic():
    """Two latent functions, few inducing points."""
    model = sg.GP((k.Matern52(), k.Matern12(lengthscale=3.0)), "heteroscedastic")
    return sg.condition(model, X, WAVE, inducing=6)


def additive():
    """Two inputs by name."""
    x = np.random.default_rng(0).uniform(size=(30, 2))
    model = sg.AdditiveGP({"age": k.Matern32(), "hour": k.Cosine(period=sg.fixed(0.5))})
    return sg.condition(model, {"age": x[:, 0], "hour": x[:, 1]}, np.sin(6 * x[:, 0]) + x[:, 1])


def deep():
    """Two layers, one after the other."""
    layers = [sg.Layer(k.Matern32(), 5, between=(0, 6)), sg.Layer(k.Matern52(), 5)]
    return sg.condition(sg.DeepGP.stack(layers), X, WAVE, max_steps=2, step_size=0.5, tolerance=1e9)


def forecaster():
    """Dates in a time zone, from a pandas frame."""
    days = pd.date_range("2024-03-20", periods=24, tz="Europe/Zurich")
    frame = pd.DataFrame({"day": days, "visits": np.round(10 * np.exp(WAVE))})
    model = sg.Forecaster("matern52(10d) + trend: matern32(60d)", "student_t", inducing=8)
    return model.fit(frame, "day", "visits", max_steps=3, progress=False)


@sg.register
class Slow(k.Matern12):
    """A kernel of a user's own."""


@sg.register
class Drift(sg.means.Mean):
    """A mean function of a user's own."""

    slope: float

    def __call__(self, x):
        return self.slope * x


@sg.register
@dataclasses.dataclass(frozen=True)
class Cauchy:
    """A prior of a user's own."""

    scale: float

    def log_density(self, value):
        return -jnp.log1p((value / self.scale) ** 2)


def registered():
    """Classes of a user's own, and names that several classes have (Constant, Gamma)."""
    lengthscale = sg.parameter(1.5, prior=sg.priors.Gamma(2.0, 1.0))
    kernel = 2.0 * Slow(variance=sg.parameter(1.0, prior=Cauchy(3.0)), lengthscale=lengthscale)
    return sg.condition(sg.GP(kernel, "gamma", mean=Drift(0.1)), X, np.exp(WAVE), inducing=6)


# In the folders of formats that could not hold them some are missing.
CASES = (gaussian, poisson, heteroscedastic, additive, deep, forecaster, registered)


def ask(model) -> dict:
    """Numbers that a model gives; equal ones give equal numbers."""
    if isinstance(model, sg.Forecaster):
        frame = model.forecast("5d", levels=0.9)
        answers = {name: frame[name].to_list() for name in frame.columns if name != "day"}
        return answers | {"day": [day.isoformat() for day in frame["day"]]}
    if isinstance(model, sg.AdditivePosterior):
        x = {"age": [0.2, 1.5], "hour": [0.1, 0.7]}
        effect = model.components(x)["hour"][0]
        return _plain({"predict_f": model.predict_f(x), "hour": effect, "elbo": model.elbo})
    if isinstance(model, sg.DeepPosterior):
        return _plain({"predict_f": model.predict_f(NEW), "elbo": model.elbo})
    x = np.asarray(NEW) + model.data.origin
    answers = {"predict_f": model.predict_f(x), "predict_y": model.predict_y(x)}
    if model.certificate is not None:
        answers["certificate"] = (model.certificate.error, model.certificate.inducing)
    if model.fit_result is not None:
        answers["trace"] = model.fit_result.trace
    return _plain(answers | {"elbo": model.elbo})


def _plain(answers: dict) -> dict:
    return {name: np.asarray(value).tolist() for name, value in answers.items()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES if folder.name != "format-1" else CASES[:6]:
        path = folder / f"{case.__name__}.stategp"
        if path.exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            model = case()
        model.save(path)
        path.with_suffix(".json").write_text(json.dumps(ask(model), indent=1) + "\n")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
