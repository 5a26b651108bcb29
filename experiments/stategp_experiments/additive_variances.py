"""How much mean field understates the variances of an additive model, against the dense GP.

    stategp-experiments additive-variances

Two inputs of growing correlation, 300 observations, inducing points at the data: the means are
exact, and the only approximation left is that the components are independent under q.
"""

import numpy as np

import stategp as sg
from stategp_experiments import studies

NOISE = 0.01
KERNELS = [
    sg.kernels.Matern32(variance=1.0, lengthscale=0.3),
    sg.kernels.Matern32(variance=1.0, lengthscale=0.3),
]


def main(arguments: list[str]) -> None:
    studies.parser(__doc__, output=False).parse_args(arguments)
    print("correlation   mean's error   sd / exact sd: of f     of a component   corrected")
    for correlation in [0.0, 0.5, 0.8, 0.9, 0.95, 0.99]:
        rng = np.random.default_rng(0)
        white = rng.standard_normal((300, 2))
        second = correlation * white[:, 0] + np.sqrt(1 - correlation**2) * white[:, 1]
        x = np.column_stack([white[:, 0], second]) / 4
        y = np.sin(6 * x[:, 0]) + x[:, 1] ** 2 + np.sqrt(NOISE) * rng.standard_normal(300)
        model = sg.AdditiveGP(KERNELS, sg.likelihoods.Gaussian(variance=NOISE), mean=0.0)
        posterior = sg.condition(model, x, y, inducing="data")
        at = x[::3]
        own = [np.asarray(k(x[:, i], x[:, i])) for i, k in enumerate(KERNELS)]
        cross = [np.asarray(k(at[:, i], x[:, i])) for i, k in enumerate(KERNELS)]
        C = own[0] + own[1] + NOISE * np.eye(len(x))

        def exact(c, prior, C=C):
            return prior - np.sum(c * np.linalg.solve(C, c.T).T, axis=1)

        mean, variance = posterior.predict_f(at)
        _, joint = posterior.predict_f(at, joint=True)
        total = exact(cross[0] + cross[1], 2.0)
        average = posterior.components(at)["x0"][1]
        corrected = posterior.components(at, joint=True)["x0"][1]
        error = np.abs(mean - (cross[0] + cross[1]) @ np.linalg.solve(C, y)).max()
        print(
            f"{correlation:11.2f}   {error:12.1e}   {np.sqrt(np.median(variance / total)):23.2f}"
            f"   {np.sqrt(np.median(average / corrected)):14.2f}"
            f"   {np.sqrt(np.median(joint / total)):9.4f}"
        )
