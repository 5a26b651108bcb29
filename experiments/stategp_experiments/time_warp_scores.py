"""What a fit of the time-warp study is judged by, as numbers and curves."""

import numpy as np

import stategp as sg
from stategp_experiments.time_warp_truth import (
    FUNCTIONS,
    Series,
    distortions,
    missing,
    shared,
    warps,
)

WARPED, VALUES = np.linspace(0.02, 0.98, 200), np.linspace(-0.9, 0.9, 100)


def score(posterior: sg.DeepPosterior, series: Series) -> dict:
    """RMSE and mean log density of the removed observations: of each series, and of both."""
    squares, densities = [], []
    for number, (t, y, gone) in enumerate(series):
        mean, _ = posterior.predict_y(t[gone], number)
        squares.append((np.asarray(mean) - y[gone]) ** 2)
        densities.append(np.asarray(posterior.log_density(t[gone], y[gone], number)))
    return {
        "rmse": float(np.sqrt(np.mean(np.concatenate(squares)))),
        "log density": float(np.mean(np.concatenate(densities))),
        "rmse of each": [float(np.sqrt(np.mean(one))) for one in squares],
        "log density of each": [float(np.mean(one)) for one in densities],
    }


def recovery(posterior: sg.DeepPosterior) -> dict[str, float]:
    """How far each function is from the truth, root mean square.

    f is known up to a change of its input that the warps undo and one of its output that the
    distortions undo; the warps start at the identity, so all are compared as they are: the warps
    and the shared function between 0 and 1, the distortions where its values are.
    """
    found = {"f": posterior.functions["f"].predict_f(WARPED)[0]}
    for number in range(2):
        found[f"a{number + 1}"] = posterior.functions["a"][number].predict_f(WARPED)[0]
        found[f"g{number + 1}"] = posterior.functions["g"][number].predict_f(VALUES)[0]
    return {name: _distance(found[name], truth) for name, truth in _truths().items()}


def doing_nothing() -> dict[str, float]:
    """The same distances of the identity for warps and distortions, and of zero for f."""
    start = {"f": np.zeros_like(WARPED)}
    for number in "12":
        start |= {f"a{number}": WARPED, f"g{number}": VALUES}
    return {name: _distance(start[name], truth) for name, truth in _truths().items()}


def _truths() -> dict[str, np.ndarray]:
    truths = {"f": shared(WARPED)}
    for number in range(2):
        truths[f"a{number + 1}"] = warps(WARPED)[number]
        truths[f"g{number + 1}"] = distortions(VALUES)[number]
    return {name: truths[name] for name in FUNCTIONS}


def _distance(found, truth) -> float:
    return float(np.sqrt(np.mean((np.asarray(found) - truth) ** 2)))


def claims(posterior: sg.DeepPosterior) -> dict[str, float]:
    """What the paper says in words, as numbers."""
    t = np.linspace(0, 1, 401)
    late, early = np.linspace(0.6, 0.9, 300), np.linspace(0.0, 0.1, 100)  # whole periods of f
    f = posterior.functions["f"]

    def dampening(function) -> float:
        return float(np.std(function(late)) / np.std(function(early)))

    inside, outside = [], []
    for number in range(2):
        deviation = np.sqrt(np.asarray(posterior.predict_f(t, number)[1]))
        inside.append(deviation[missing(t, number)])
        outside.append(deviation[~missing(t, number)])
    deviations = [np.sqrt(np.asarray(a.predict_f(t)[1])) for a in posterior.functions["a"]]
    return {
        "sd inside / outside": float(
            np.mean(np.concatenate(inside)) / np.mean(np.concatenate(outside))
        ),
        "sd of the warps": float(np.mean(deviations)),
        "dampening": dampening(lambda x: np.asarray(f.predict_f(x)[0])),
        "true dampening": dampening(shared),
    }


def curves(posterior: sg.DeepPosterior) -> dict[str, dict[str, list[float]]]:
    """Mean and standard deviation of the five functions and of both series, to draw them."""
    t, v, functions = np.linspace(0, 1, 201), np.linspace(-1.0, 1.0, 101), posterior.functions
    drawn = {"f": _curve(t, functions["f"].predict_f(t))}
    for number in range(2):
        drawn[f"a{number + 1}"] = _curve(t, functions["a"][number].predict_f(t))
        drawn[f"g{number + 1}"] = _curve(v, functions["g"][number].predict_f(v))
        drawn[f"y{number + 1}"] = _curve(t, posterior.predict_y(t, number))
    return drawn


def _curve(at: np.ndarray, moments) -> dict[str, list[float]]:
    mean, variance = (np.asarray(v) for v in moments)
    columns = {"at": at, "mean": mean, "sd": np.sqrt(variance)}
    return {name: np.round(values, 5).tolist() for name, values in columns.items()}
