"""A process of several dies: `python -m benchmarks.workers` (a minute or two).

Four processes read a stream in shares and fit it with a checkpoint. When the search is under way
one of them is killed: the others must stop by themselves within the time of JAX's heartbeat, with a
message, and all of them, started again, must go on from the checkpoint to the answer of processes
that nobody killed. Both an ordinary process and the first one, which coordinates, are killed.
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

from benchmarks.kills import commit, steps_in

STORED = Path(__file__).parent.parent / "docs" / "workers-run.json"
HEARTBEAT = 10  # seconds
PROCESSES = 4
PROGRAM = """
import sys, warnings
import jax, numpy as np, stategp as sg
warnings.simplefilter("ignore")
port, index, count, heartbeat = map(int, sys.argv[1:5])
jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=index,
                           heartbeat_timeout_seconds=heartbeat)
x = np.linspace(0, 400, 40_000)
y = np.random.default_rng(0).poisson(np.exp(np.sin(x) + np.cos(x / 7))).astype(float)
series = sg.stream([(x[i::16], y[i::16]) for i in range(16)], shortest=0.5)
model = sg.GP(sg.kernels.Matern52() + sg.kernels.Cosine(period=6.0), "poisson")
options = dict(checkpoint=sys.argv[5], every=0.2, resume=True) if sys.argv[5] else {}
posterior = sg.fit(model, series, inducing=200, starts=3, progress=False, **options)
if index == 0:
    print("answer", posterior.elbo.hex())
"""


def start(checkpoint: Path | None) -> list[subprocess.Popen]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM]
            + [str(v) for v in (port, index, PROCESSES, HEARTBEAT, checkpoint or "")],
            **options,
        )
        for index in range(PROCESSES)
    ]


def ended(processes: list[subprocess.Popen]) -> list[tuple[str, str]]:
    """What they said; none may run for ever."""
    try:
        return [process.communicate(timeout=900) for process in processes]
    finally:
        for process in processes:
            process.kill()


def answer(said: list[tuple[str, str]]) -> str:
    lines = [line for line in said[0][0].splitlines() if line.startswith("answer")]
    return lines[0] if lines else f"none: {said[0][1][-500:]}"


def kill_one(victim: int, checkpoint: Path) -> dict:
    """Kill it as soon as the checkpoint knows some steps."""
    processes = start(checkpoint)
    while steps_in(checkpoint) < 5 and all(p.poll() is None for p in processes):
        time.sleep(0.1)
    processes[victim].send_signal(signal.SIGKILL)
    began = time.monotonic()
    others = [p for number, p in enumerate(processes) if number != victim]
    said = ended(others)
    return {
        "killed": victim,
        "seconds_until_all_stopped": round(time.monotonic() - began, 1),
        "stopped": all(p.returncode != 0 for p in others),
        "message": all("another task died" in err for _, err in said),
        "steps_in_checkpoint": steps_in(checkpoint),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    asked = parser.parse_args()
    expected, runs = answer(ended(start(None))), []
    for victim in (1, 0):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder, "checkpoint")
            run = kill_one(victim, checkpoint)
            run["the_same"] = answer(ended(start(checkpoint))) == expected
        runs.append(run)
        print(run, flush=True)
    if asked.store:
        about = {"commit": commit(), "processes": PROCESSES, "heartbeat_seconds": HEARTBEAT}
        STORED.write_text(json.dumps(about | {"runs": runs}, indent=1) + "\n")
    sys.exit(not all(run["the_same"] and run["stopped"] for run in runs))


if __name__ == "__main__":
    main()
