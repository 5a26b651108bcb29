"""One fold of the rainforest study, or the time of a step, as JSON: runs can be shared out.

    python -m stategp_experiments.rainforest_run --columns 50 --places 25 --fold 3 --out FILE
    python -m stategp_experiments.rainforest_run --columns 50 --places 25 --steps 6 --out FILE
    python -m stategp_experiments.rainforest_run --columns 50 --places 25 --map --out FILE

`--fold` learns from the other nine parts of the cells and scores this one, `--steps` times steps of
q at hyperparameters near those that are learned, `--map` learns from all cells and keeps the
intensity. `stategp-experiments rainforest --from FOLDER` collects what such runs have written.
"""

import argparse
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import stategp as sg
from stategp_experiments import studies

SIDES = 1000.0, 500.0  # metres


def model(places: np.ndarray, q: str, *, learned: bool = False) -> sg.SpaceTimeGP:
    """As the protocol starts it, or with values near the learned ones."""
    space, along, variance = (30.0, 15.0, 0.65) if learned else (10.0, 10.0, 1.0)
    return sg.SpaceTimeGP(
        sg.spatial.Matern32(lengthscale=space),
        sg.kernels.Matern32(variance=variance, lengthscale=along),
        "poisson",
        places=places,
        q=q,
    )


def anchors(columns: int, most: int) -> np.ndarray:
    """The middles of the cells along the short side, or fewer at equal distances."""
    count = min(columns, most)
    return (np.arange(count) + 0.5) * SIDES[1] / count


def scored(data: Any, shape: sg.SpaceTimeGP, fold: int) -> dict:
    """Learned from the other nine folds."""
    left_out = data.folds[fold]
    keep = np.setdiff1d(np.arange(len(data.y)), left_out)
    fitted = sg.fit(shape, data.x[keep], data.y[keep])
    density = np.asarray(fitted.log_density(data.x[left_out], data.y[left_out]))
    return {"fold": fold, "nlpd": -float(density.mean())} | found(fitted)


def found(fitted: sg.SpaceTimePosterior) -> dict:
    learned = fitted.model
    return {
        "explained": fitted.explained,
        "lengthscale in space": float(learned.space.lengthscale),
        "lengthscale in time": float(learned.time.lengthscale),
        "variance": float(learned.time.variance),
        "converged": bool(fitted.fit_result.converged),
    }


def timed(data: Any, shape: sg.SpaceTimeGP, steps: int) -> dict:
    """Steps of the natural gradient on all cells, after the program has been compiled."""
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            posterior = sg.condition(shape, data.x, data.y, max_steps=steps)
    took = np.diff(posterior.fit_result.seconds)
    return {
        "seconds per step": float(np.median(took)),
        "seconds of each": took.tolist(),
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def mapped(data: Any, shape: sg.SpaceTimeGP, beside: Path) -> dict:
    """Learned from all cells; the logarithm of the intensity goes into a file beside the JSON."""
    fitted = sg.fit(shape, data.x, data.y)
    along, across = np.linspace(2.5, 997.5, 200), np.linspace(2.5, 497.5, 100)
    seen = fitted.map(along, across)
    np.savez_compressed(beside, mean=np.float32(seen.mean), sd=np.float32(seen.sd))
    return {"map": beside.name} | found(fitted)


def one(options: argparse.Namespace) -> dict:
    data = sg.data.rainforest(options.columns, rows=options.rows)
    places = anchors(options.columns, options.places)
    row = {"rows": options.rows, "columns": options.columns, "places": len(places), "q": options.q}
    if options.steps is not None:
        return row | timed(data, model(places, options.q, learned=True), options.steps)
    shape = model(places, options.q)
    if options.map:
        return row | mapped(data, shape, options.out.with_suffix(".npz"))
    return row | scored(data, shape, options.fold)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200, help="cells along (%(default)s)")
    parser.add_argument("--columns", type=int, required=True, help="cells across")
    parser.add_argument("--places", type=int, required=True, help="inducing places at most")
    parser.add_argument("--q", choices=["joint", "product"], default="joint")
    parser.add_argument("--out", type=Path, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--fold", type=int, choices=range(10))
    what.add_argument("--steps", type=int)
    what.add_argument("--map", action="store_true")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    studies.write([one(options)], options.out)


if __name__ == "__main__":
    main()
