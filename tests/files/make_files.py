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


def outputs():
    """Two outputs that share a process, one of them counts with gaps and exposures."""
    mixing, names = sg.fixed([[1.0, 0.5], [0.0, 1.0]]), ["level", "visits"]
    kernels, likelihoods = [k.Matern32(), k.Matern12()], ["gaussian", "poisson"]
    model = sg.MultiOutputGP(kernels, likelihoods, mixing=mixing, outputs=names)
    y = np.stack([WAVE, np.where(X < 3, np.nan, np.round(np.exp(WAVE)))], axis=1)
    return sg.condition(model, X, y, exposure={"visits": 1 + X}, inducing=6)


def product():
    """Independent outputs, a chain for each."""
    model = sg.MultiOutputGP(k.Matern32(), outputs=2, q="product")
    return sg.condition(model, X, np.stack([WAVE, -WAVE], axis=1), inducing=6)


def joint():
    """Two functions that are dependent under q."""
    model = sg.JointGP((k.Matern32(), k.Matern12()), "heteroscedastic")
    return sg.condition(model, X, WAVE, inducing=5)


PLACES = np.stack([np.arange(4.0), np.arange(4.0) ** 2], axis=1)
FIELD = np.outer(np.sin(np.arange(6.0)), [1.0, 2.0, 0.5, -1.0])


def field():
    """Longitudes and latitudes, chosen inducing places; some was not observed."""
    space = sg.spatial.Matern32(lengthscale=300.0, metric="chordal")
    model = sg.SpaceTimeGP(space, k.Matern32(), places=3)
    y = np.where(FIELD > 1.5, np.nan, FIELD)
    return sg.condition(model, (np.arange(6), PLACES), y)


def field_product():
    """Independent processes, learned inducing places."""
    places = sg.Learned(PLACES[:2])
    model = sg.SpaceTimeGP(sg.spatial.Matern52(), k.Matern12(), places=places, q="product")
    return sg.fit(model, (np.arange(6.0), PLACES), FIELD, max_steps=2)


def stacked():
    """Fields of three classes."""
    part = sg.SpaceTimeGP(sg.spatial.Matern12(), k.Matern12(), places=2)
    model = sg.StackedGP(part, sg.likelihoods.Softmax(classes=3))
    return sg.condition(model, (np.arange(6.0), PLACES), np.arange(24).reshape(6, 4) % 3)


def summary():
    """Sums over stretches."""
    return sg.summarise(np.linspace(0, 6, 200), np.sin(np.linspace(0, 6, 200)), shortest=2.0)


def summarised():
    """The posterior of sums of counts."""
    x = np.linspace(0, 6, 200)
    counts = sg.summarise(x, np.round(1 + np.sin(x)), likelihood="poisson", shortest=2.0)
    return sg.condition(sg.GP(k.Matern32(), "poisson"), counts, inducing=5)


def filtered():
    """A filter of counts that revises the last sites, after two more of them."""
    posterior = sg.condition(sg.GP(k.Matern32(), "poisson"), X, np.round(np.exp(WAVE)))
    return posterior.filter(lag=3).update([6.5, 7.0], [1.0, 2.0])


def many():
    """Three series by name, one of which could not be fitted."""
    data = {"a": (X, WAVE), "b": (X[:12], 2 * WAVE[:12]), "c": ([], [])}
    model = sg.GP(k.Matern32(), sg.likelihoods.Gaussian(variance=sg.fixed(0.01)))
    return sg.fit_many(model, data, share="prior", progress=False, max_steps=3)


def averaged():
    """Several models of a short series, compared and averaged."""
    days = pd.date_range("2024-03-20", periods=10)
    frame = pd.DataFrame({"ds": days, "y": 5 + WAVE[:10]})
    return sg.Forecaster().fit(frame, progress=False)


def regressed():
    """A regressor and an event beside a kernel."""
    days = pd.date_range("2024-03-20", periods=12)
    frame = pd.DataFrame({"ds": days, "y": WAVE[:12], "warm": np.cos(np.arange(12.0))})
    event = sg.Event("sale", ["2024-03-23", "2024-03-29"])
    model = sg.Forecaster("matern32(10d)", regressors="warm", events=event)
    return model.fit(frame, progress=False, max_steps=3)


def panel():
    """Two series of one frame."""
    days = pd.date_range("2024-03-20", periods=24)
    both = {"a": WAVE, "b": -WAVE}
    frame = pd.concat(pd.DataFrame({"shop": n, "ds": days, "y": y}) for n, y in both.items())
    model = sg.Forecaster("matern32(10d)", inducing=8)
    return model.fit(frame, by="shop", max_steps=3, progress=False)


# In the folders of formats that could not hold them some are missing.
OLDEST = (gaussian, poisson, heteroscedastic, additive, deep, forecaster)
CASES = (
    *OLDEST, registered, outputs, product, joint, field, field_product, stacked, summary,
    summarised, filtered, many, averaged, regressed, panel,
)  # fmt: skip


def ask(model) -> dict:
    """Numbers that a model gives, and texts; equal ones give equal answers."""
    if isinstance(model, sg.Forecaster):
        future = None
        if model.regressors:
            ahead = pd.date_range("2024-04-01", periods=5)
            future = pd.DataFrame({"ds": ahead, "warm": np.linspace(-1, 1, 5)})
        return _columns(model.forecast("5d", levels=0.9, future=future))
    if isinstance(model, sg.ManyPosteriors):
        return _columns(model.forecast(2.0, levels=0.9)) | {
            "table": model.failures["problem"].tolist()
        }
    if isinstance(model, sg.Summary):
        gp = sg.GP(k.Matern32(), sg.likelihoods.Gaussian(variance=0.1))
        posterior = sg.condition(gp, model, inducing=5)
        return _plain({"edges": model.edges, "rows": model.rows, "elbo": posterior.elbo})
    if isinstance(model, sg.Filter):
        ahead = [model.time + 0.5, model.time + 5.0]
        return _plain({"predict_f": model.predict_f(ahead), "observed": model.observed})
    if isinstance(model, sg.SpaceTimePosterior):
        seen = model.map([2.5, 9.0], PLACES + 0.1)
        places = model.inducing_places
        return _plain({"mean": seen.mean, "sd": seen.sd, "places": places, "elbo": model.elbo})
    if isinstance(model, sg.StackedPosterior):
        shares = model.predict_probabilities(([0.3, 9.0], PLACES[:2]))
        return _plain({"probabilities": shares, "elbo": model.elbo})
    if isinstance(model, sg.JointPosterior | sg.MultiOutputPosterior):
        answers = {"covariance": model.covariance_f(NEW), "predict_y": model.predict_y(NEW)}
        return _plain(answers | {"predict_f": model.predict_f(NEW), "elbo": model.elbo})
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


def _columns(frame) -> dict:
    times = {name for name in frame.columns if frame[name].dtype.kind == "M"}
    return {
        name: [day.isoformat() for day in frame[name]] if name in times else frame[name].to_list()
        for name in frame.columns
    }


def _plain(answers: dict) -> dict:
    return {name: np.asarray(value).tolist() for name, value in answers.items()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES if folder.name != "format-1" else OLDEST:
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
