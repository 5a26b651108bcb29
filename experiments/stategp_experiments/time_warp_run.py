"""One fit of the time-warp study, written as JSON: runs can be shared out among cores.

    python -m stategp_experiments.time_warp_run --noise 0.05 --seed 3 --schedule paper --out FILE

`stategp-experiments time-warp --from FOLDER` collects what such runs have written.
"""

import argparse
import time
import warnings
from pathlib import Path

import stategp as sg
from stategp_experiments import studies
from stategp_experiments.time_warp_schedules import SCHEDULES, fit_plain
from stategp_experiments.time_warp_scores import claims, curves, recovery, score
from stategp_experiments.time_warp_truth import simulate

PLAIN = "no-warps"
NAMES = (*SCHEDULES, PLAIN)


def one(noise: float, seed: int, schedule: str, quick: bool) -> dict:
    """One data set, fitted by one schedule, or without warps."""
    series = simulate(seed, noise, 200 if quick else 1000)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)  # steps are ours to decide
        posterior = {**SCHEDULES, PLAIN: fit_plain}[schedule](series, quick)
    row = {
        "noise": noise,
        "seed": seed,
        "schedule": schedule,
        "quick": quick,
        "seconds": time.perf_counter() - began,
        "noise found": float(posterior.model.likelihood.variance) ** 0.5,
        "bound": float(posterior.elbo),
        "score": score(posterior, series),
    }
    if schedule == PLAIN:
        return row
    drawn = curves(posterior) if seed == 0 else None
    return row | {"distance": recovery(posterior), "claims": claims(posterior), "curves": drawn}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--schedule", choices=NAMES, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    row = one(options.noise, options.seed, options.schedule, options.quick)
    studies.write([row], options.out)


if __name__ == "__main__":
    main()
