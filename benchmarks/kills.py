"""kill -9 at random moments of a fit: `python -m benchmarks.kills --times 50` (many minutes).

A process fits with a checkpoint, is killed some moments later, and the next one resumes, until the
fit is over; then another fit begins, until there were as many kills as asked for. Each kill writes
a line: what the file held before and after, and how old it was. The answers must be those of fits
that nobody killed, to the last digit, and no kill may leave a file that cannot be read.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stategp._files import load_as
from stategp._inference import _checkpoints
from stategp_experiments.studies import commit

STORED = Path(__file__).parent.parent / "docs" / "kills-run.json"
EVERY = 0.2  # seconds between checkpoints
FITS = {
    "L-BFGS": "x[::8], y[::8], inducing=100, starts=3",
    "minibatches": "x, y, inducing=200, batch_size=1000, max_steps=1500",
}
PROGRAM = """
import warnings, numpy as np, stategp as sg
warnings.simplefilter("ignore")
x = np.linspace(0, 400, 40_000)
y = np.random.default_rng(0).poisson(np.exp(np.sin(x) + np.cos(x / 7))).astype(float)
model = sg.GP(sg.kernels.Matern52() + sg.kernels.Cosine(period=6.0), "poisson")
posterior = sg.fit(model, {arguments}, progress=False, **{options})
print(posterior.elbo.hex(), len(posterior.fit_result.trace), hash(posterior.fit_result.trace))
"""


def start(fit: str, checkpoint: Path | None) -> subprocess.Popen:
    options = {"checkpoint": str(checkpoint), "every": EVERY, "resume": True}
    text = PROGRAM.format(arguments=FITS[fit], options=options if checkpoint else {})
    return subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def steps_in(checkpoint: Path) -> int:
    """How many steps the file knows; an error if it cannot be read."""
    if not checkpoint.exists():
        return 0
    found = load_as(checkpoint, _checkpoints.Checkpoint)
    return sum(len(search.trace) for search in found.searches)


def kill_once(fit: str, checkpoint: Path, after: float, *, at_once: bool) -> dict | str:
    """A line of the log, or the answer if the fit was over before.

    The seconds count from the start of the process, or from its first step, when it writes the
    checkpoint for the second time.
    """
    before, process, began = steps_in(checkpoint), start(fit, checkpoint), time.time()
    counted, writes = began if at_once else None, set()
    while process.poll() is None and (counted is None or time.time() - counted < after):
        if counted is None and checkpoint.exists() and checkpoint.stat().st_mtime > began:
            writes.add(checkpoint.stat().st_mtime)
            counted = time.time() if len(writes) > 1 else None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    if process.returncode == 0:
        return out
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a fit failed: {err}")
    age = time.time() - checkpoint.stat().st_mtime if checkpoint.exists() else None
    parts = list(checkpoint.parent.glob(".*.partial"))
    return {
        "fit": fit,
        "killed_after": round(time.time() - began, 2),
        "steps_before": before,
        "steps_after": steps_in(checkpoint),
        "age_of_file": None if age is None else round(age, 2),
        "killed_while_writing": bool(parts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--longest", type=float, default=5.0, help="seconds before a kill")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    arguments = parser.parse_args()
    chance, code = random.Random(0), commit()
    expected = {fit: start(fit, None).communicate()[0] for fit in FITS}
    for fit, answer in expected.items():
        print(f"{fit}: {answer.strip()}", flush=True)
    log, answers, number = [], [], 0
    while len(log) < arguments.times:
        fit = list(FITS)[number % len(FITS)]
        number += 1
        with tempfile.TemporaryDirectory() as folder:
            checkpoint, over = Path(folder, "checkpoint"), False
            while not over:
                # When there were enough kills, the last fit may end.
                left = len(log) < arguments.times
                moment = chance.uniform(0, arguments.longest) if left else float("inf")
                line = kill_once(fit, checkpoint, moment, at_once=chance.random() < 0.2)
                if isinstance(line, str):
                    over = True
                    answers.append({"fit": fit, "the_same": line == expected[fit]})
                else:
                    log.append(line)
                    assert line["steps_after"] >= line["steps_before"], line
                print(line if not over else answers[-1], flush=True)
                if arguments.store:
                    run = {"commit": code, "every": EVERY, "kills": log, "answers": answers}
                    STORED.write_text(json.dumps(run, indent=1) + "\n")
    same = all(answer["the_same"] for answer in answers)
    print(f"{len(log)} kills, {len(answers)} fits, all answers the same: {same}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
