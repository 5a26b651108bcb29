"""What type checkers accept and refuse: mypy reads this file with the library; nothing runs it.

A line that must be refused says so in a `type: ignore`; if it is accepted, mypy calls that comment
unused. `assert_type` checks what a call gives.
"""

from typing import assert_type

import numpy as np

import stategp as sg

x = np.linspace(0.0, 10.0, 50)
y = np.sin(x)
table = {"hour": x, "temperature": y}


def kernels_and_models() -> None:
    k = sg.kernels
    assert_type(k.Matern32(), sg.kernels.Matern32)
    k.Matern12(variance=sg.fixed(2.0), lengthscale=2.0)
    k.Matern52(lengthscale="30d") + 2.0 * k.Cosine(period=7.0) * k.Matern72()
    k.Matern32(2.0)  # type: ignore[call-arg]
    k.Matern32(lengthscales=2.0)  # type: ignore[call-arg]
    sg.GP(k.Matern52(), sg.likelihoods.Gaussian(variance=0.1), mean=0.2)
    sg.GP("trend: matern52 + weekly: periodic(7)", "poisson")


def one_input(model: sg.GP) -> None:
    assert_type(sg.fit(model, x, y), sg.Posterior)
    assert_type(sg.condition(model, [0.0, 1.0], [1, 2], inducing="data"), sg.Posterior)
    sg.fit(model, x, y, inducing=sg.Auto(tolerance=0.1), starts=3, method="natural")
    sg.fit(model, x, y, inducing=np.arange(5), method=sg.PowerEP(0.5), noise_variance=0.1)
    sg.fit(model, x, y, indcing=3)  # type: ignore[call-overload]
    sg.fit(model, x, y, method="mcmc")  # type: ignore[call-overload]
    sg.fit(model, x, y, inducing="dat")  # type: ignore[arg-type]
    sg.condition(model, x, y, starts=3)  # type: ignore[call-overload]


def several_inputs(model: sg.AdditiveGP) -> None:
    assert_type(sg.fit(model, table, y), sg.AdditivePosterior)
    assert_type(sg.condition(model, np.stack([x, y], axis=1), y), sg.AdditivePosterior)
    sg.fit(model, table, y, inducing={"hour": 20, "temperature": "data"}, batch_size=10)
    sg.fit(model, table, y, batchsize=10)  # type: ignore[call-overload]


def places(model: sg.SpaceTimeGP) -> None:
    assert_type(sg.fit(model, (x, table), y), sg.SpaceTimePosterior)
    assert_type(sg.condition(model, (x, table), y, inducing=5), sg.SpaceTimePosterior)


def layers(model: sg.DeepGP) -> None:
    posterior = sg.condition(model, x, y)
    assert_type(posterior, sg.DeepPosterior)
    assert_type(sg.fit(posterior, x, y, max_steps=10), sg.DeepPosterior)


def other_ways(frame: object) -> None:
    forecaster = sg.Forecaster("matern32(30d)", inducing=30)
    assert_type(forecaster.fit(frame, "ds", "y", exposure="hours"), sg.Forecaster)
    forecaster.fit(frame, exposure=2.0)  # type: ignore[arg-type]
    assert_type(sg.GPRegressor(inducing=30).fit(x[:, None], y), sg.GPRegressor)
    sg.GPClassifier(kernels="matern52")  # type: ignore[call-arg]
