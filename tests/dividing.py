"""Fits whose rows several devices or processes divide among them, and what one says of them."""

import warnings

import numpy as np

import stategp as sg

ROWS = 20_000  # from which on rows in memory are divided
STEPS = 3  # of a search, which all must take alike


def divided_fits(names):
    """The bound and the hyperparameters that a few steps of a search lead to, by name."""
    rng = np.random.default_rng(0)
    x = rng.permutation(np.linspace(0, 20, ROWS))
    f = np.sin(x)
    noise = rng.uniform(0.05, 0.5, ROWS)
    gaussian, robust = f + np.sqrt(noise) * rng.standard_normal(ROWS), f + rng.standard_t(4, ROWS)
    kernel = sg.kernels.Matern12(lengthscale=5.0, variance=1.0)
    parts = np.array_split(np.arange(ROWS), 8)

    def stream(**columns):
        batches = [{name: values[rows] for name, values in columns.items()} for rows in parts]
        beside = {"noise_variance": "e"} if "e" in columns else {}
        return sg.stream(batches, time="x", target="y", shortest=2.0, **beside)

    def fit(likelihood, *data, **beside):
        model = sg.GP(kernel, likelihood)
        options = {"inducing": 16, "max_steps": STEPS, "progress": False}
        return sg.fit(model, *data, **options, **beside)

    fits = {
        "gaussian": lambda: fit(sg.likelihoods.Gaussian(), x, gaussian, noise_variance=noise),
        "poisson": lambda: fit("poisson", x, rng.poisson(np.exp(f)).astype(float)),
        "gaussian on disk": lambda: fit(
            sg.likelihoods.Gaussian(), stream(x=x, y=gaussian, e=noise)
        ),
        "student-t on disk": lambda: fit(sg.likelihoods.StudentT(df=4.0), stream(x=x, y=robust)),
    }
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        for name in names:
            posterior = fits[name]()
            of_kernel = posterior.model.kernel
            learned = [posterior.elbo, float(of_kernel.lengthscale), float(of_kernel.variance)]
            mean = np.asarray(posterior.marginals[0].mean)
            found[name] = [*learned, *mean[::8, 0].tolist()]
    return found
