"""kill -9 at random moments of a fit: `python -m benchmarks.kills --times 50` (many minutes).

A process fits with a checkpoint, is killed some moments later, and the next one resumes, until the
fit is over; then another fit begins, until there were as many kills as asked for. Each kill writes
a line: what the file held before and after, and what was lost, since the process notes the time of
every step that it finishes. The answers must be those of fits that nobody killed, to the last
digit, and no kill may leave a file that cannot be read. With `--store` the run goes to
docs/kills-run.json and what it found to docs/growing.md.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.blocks import write_block
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
import os, time, warnings, numpy as np, stategp as sg
from stategp._inference._search import Watch
warnings.simplefilter("ignore")
notes = os.open({notes!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
step = Watch.__call__
def noted(self, *arguments, **more):
    if len(self.seconds) >= len(self.past):  # not one that is repeated from the checkpoint
        os.write(notes, f"{{time.time()}}\\n".encode())  # it is done, and not in the checkpoint yet
    return step(self, *arguments, **more)
Watch.__call__ = noted
x = np.linspace(0, 400, 40_000)
y = np.random.default_rng(0).poisson(np.exp(np.sin(x) + np.cos(x / 7))).astype(float)
model = sg.GP(sg.kernels.Matern52() + sg.kernels.Cosine(period=6.0), "poisson")
posterior = sg.fit(model, {arguments}, progress=False, **{options})
print(posterior.elbo.hex(), len(posterior.fit_result.trace), hash(posterior.fit_result.trace))
"""


def start(fit: str, checkpoint: Path | None) -> subprocess.Popen:
    options = {"checkpoint": str(checkpoint), "every": EVERY, "resume": True}
    notes = str(checkpoint.with_suffix(".notes")) if checkpoint else os.devnull
    how = options if checkpoint else {}
    text = PROGRAM.format(arguments=FITS[fit], options=how, notes=notes)
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
    checkpoint.with_suffix(".notes").unlink(missing_ok=True)
    before, process, began = steps_in(checkpoint), start(fit, checkpoint), time.time()
    counted, writes = began if at_once else None, set()
    while process.poll() is None and (counted is None or time.time() - counted < after):
        if counted is None and checkpoint.exists() and checkpoint.stat().st_mtime > began:
            writes.add(checkpoint.stat().st_mtime)
            counted = time.time() if len(writes) > 1 else None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    killed = time.time()
    out, err = process.communicate()
    if process.returncode == 0:
        return out
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a fit failed: {err}")
    parts = list(checkpoint.parent.glob(".*.partial"))
    return {
        "fit": fit,
        "killed_after": round(killed - began, 2),
        "steps_before": before,
        "steps_after": steps_in(checkpoint),
        "killed_while_writing": bool(parts),
    } | lost(checkpoint, began, killed)


def lost(checkpoint: Path, began: float, killed: float) -> dict:
    """What the process had done since it wrote the checkpoint, or since it began.

    The steps that it had finished, the seconds that they took, and the seconds of what was under
    way: a step, or before the first one the start of the process.
    """
    notes = checkpoint.with_suffix(".notes")
    steps = [float(line) for line in notes.read_text().split()] if notes.exists() else []
    written = checkpoint.stat().st_mtime if checkpoint.exists() else began
    since = max(written, began)
    after = [when for when in steps if when > since]
    last = after[-1] if after else max([since, *steps[-1:]])
    return {
        "steps_lost": len(after),
        "seconds_of_them": round(last - since, 3) if after else 0.0,
        "seconds_under_way": round(killed - last, 3),
        "stepping": bool(steps),
    }


def page(run: dict) -> str:
    """What docs/growing.md says of a run."""
    kills, answers = run["kills"], run["answers"]
    same = "the same to the last digit" if all(a["the_same"] for a in answers) else "NOT the same"
    writing = sum(line["killed_while_writing"] for line in kills)
    stepping = [line for line in kills if line["stepping"]]
    most = max(stepping, key=lambda line: line["steps_lost"])
    seconds = max(line["seconds_of_them"] for line in stepping)
    under_way = max(line["seconds_under_way"] for line in stepping)
    return (
        f"`python -m benchmarks.kills` killed processes at {len(kills)} random moments ({writing} "
        f"of them while they were writing the file), with a checkpoint every {run['every']:g} "
        f"seconds: no file was lost, and the {len(answers)} fits that resumed ended {same} as fits "
        f"that nobody killed. At most {most['steps_lost']} finished steps were lost by a kill, "
        f"and no more than {seconds:.2f} s of finished steps, beside the step under way (up to "
        f"{under_way:.1f} s) ([log](kills-run.json))."
    )


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
                run = {"commit": code, "every": EVERY, "kills": log, "answers": answers}
                if arguments.store:
                    STORED.write_text(json.dumps(run, indent=1) + "\n")
    print(page(run))
    if arguments.store:
        write_block("growing.md", "kills", page(run))
    same = all(answer["the_same"] for answer in answers)
    print(f"{len(log)} kills, {len(answers)} fits, all answers the same: {same}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
