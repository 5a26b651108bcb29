"""A process of several dies: `python -m benchmarks.workers` (a few minutes, ten at most).

Four processes read a stream in shares and fit it with a checkpoint. One of them is killed, before
all have met or when the search is under way: the others must stop by themselves within a stated
time, with a message, and all of them, started again, must go on from the checkpoint to the answer
of processes that nobody killed. Both an ordinary process and the first one, which coordinates, are
killed. With `--without-sums` the likelihood has none, and processes exchange what they see in every
pass (not stored). No run may take longer than `LONGEST`, and one that does counts as a failure.
"""

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.kills import steps_in
from stategp_experiments.studies import commit

STORED = Path(__file__).parent.parent / "docs" / "workers-run.json"
PATIENCE = 15  # seconds within which the others stop
MEETING = 30  # the same before all have met
LONGEST = 300  # seconds for a run
PROCESSES = 4
LIKELIHOOD = "poisson"
PROGRAM = """
import sys, warnings
import numpy as np, stategp as sg
warnings.simplefilter("ignore")
port, index, count, patience, meeting = map(int, sys.argv[1:6])
sg.join_processes(f"localhost:{port}", count, index, patience=patience, meeting=meeting)
print("met", flush=True)
x = np.linspace(0, 400, 40_000)
y = np.random.default_rng(0).poisson(np.exp(np.sin(x) + np.cos(x / 7))).astype(float)
series = sg.stream([(x[i::16], y[i::16]) for i in range(16)], shortest=0.5)
model = sg.GP(sg.kernels.Matern52(), LIKELIHOOD)
options = dict(checkpoint=sys.argv[6], every=0.02, resume=True) if sys.argv[6] else {}
posterior = sg.fit(model, series, inducing=200, progress=False, **options)
if index == 0:
    print("answer", posterior.elbo.hex())
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def start(checkpoint: Path | None) -> list[subprocess.Popen]:
    port = free_port()
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("LIKELIHOOD", repr(LIKELIHOOD))]
            + [str(v) for v in (port, index, PROCESSES, PATIENCE, MEETING, checkpoint or "")],
            **options,
        )
        for index in range(PROCESSES)
    ]


def ended(processes: list[subprocess.Popen]) -> list[tuple[str, str]]:
    """What they said; none may run for ever."""
    last = time.monotonic() + LONGEST
    said = []
    for process in processes:
        try:
            said.append(process.communicate(timeout=max(last - time.monotonic(), 1)))
        except subprocess.TimeoutExpired:
            process.kill()
            said.append(process.communicate())
    return said


def answer(said: list[tuple[str, str]]) -> str:
    lines = [line for line in said[0][0].splitlines() if line.startswith("answer")]
    return lines[0] if lines else f"none: {said[0][1][-500:]}"


def kill_one(victim: int, checkpoint: Path, *, early: bool) -> dict:
    """Kill it at once, or as soon as the checkpoint knows some steps."""
    processes, last = start(checkpoint), time.monotonic() + LONGEST
    if early:
        time.sleep(0.2)
    while not early and steps_in(checkpoint) < 3 and time.monotonic() < last:
        if any(p.poll() is not None for p in processes):
            break
        time.sleep(0.02)
    processes[victim].send_signal(signal.SIGKILL)
    began, steps = time.monotonic(), steps_in(checkpoint)
    others = [p for number, p in enumerate(processes) if number != victim]
    said = ended(others)
    processes[victim].communicate()
    return {
        "killed": victim,
        "when": "before all had met" if early else "during the search",
        "steps_in_checkpoint": steps,
        "seconds_until_all_stopped": round(time.monotonic() - began, 1),
        "stopped": all(p.returncode not in (0, -signal.SIGKILL) for p in others),
        "message": all("Start all of them again" in err for _, err in said),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--without-sums", action="store_true", help="exchange in every pass")
    asked = parser.parse_args()
    if asked.without_sums:
        global LIKELIHOOD
        LIKELIHOOD = "negative-binomial"
    expected, runs = answer(ended(start(None))), []
    print(expected, flush=True)
    for victim, early in ((1, False), (0, False), (1, True), (0, True)):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder, "checkpoint")
            run = kill_one(victim, checkpoint, early=early)
            again = answer(ended(start(checkpoint)))
            run["the_same"] = again == expected
            if again != expected:
                print(f"{again}, not {expected}", flush=True)
        runs.append(run)
        print(run, flush=True)
    if asked.store and not asked.without_sums:
        about = {"commit": commit(), "processes": PROCESSES}
        about |= {"patience_seconds": PATIENCE, "meeting_seconds": MEETING}
        STORED.write_text(json.dumps(about | {"runs": runs}, indent=1) + "\n")
    right = ("the_same", "stopped", "message")
    sys.exit(not all(run[name] for run in runs for name in right))


if __name__ == "__main__":
    main()
