"""What every peer script shares: the job it reads, the clock, the memory, the line it prints.

    python -m benchmarks.peers.NAME_peer JOB.json

Only Python and NumPy are needed here, so that every peer's environment can import it.
"""

import contextlib
import json
import math
import os
import resource
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("JAX_ENABLE_X64", "1")

# The environment of each peer, as make_environments.sh names them.
ENVIRONMENTS = {
    "celerite2": "jax",
    "tinygp": "jax",
    "gpytorch": "jax",
    "gpflow": "tensorflow",
    "markovflow": "markovflow",
}


class Unsupported(Exception):  # noqa: N818
    """The peer does not offer this work; the message says why."""


class Finished(Exception):  # noqa: N818
    """A fit has reached its target or its time is over."""


@dataclass(frozen=True)
class Job:
    """One thing to time, and the data to do it with."""

    work: str
    kernel: str
    variance: float
    lengthscale: float
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    x_new: np.ndarray
    noise: float = 1.0
    likelihood: str = "gaussian"
    repeats: int = 5
    samples: int = 10
    target: float | None = None
    max_seconds: float = 60.0
    learning_rate: float = 0.1

    @property
    def gaussian(self):
        return self.likelihood == "gaussian"

    @property
    def natural_step_size(self):
        """One for Gaussian observations, where it is exact; shorter where it may overshoot."""
        return 1.0 if self.gaussian else 0.5


def read_job(path):
    """The job in a JSON file; its data file is looked for beside it, then in the current folder."""
    path = Path(path)
    fields = json.loads(path.read_text())
    data = Path(fields.pop("data"))
    beside = path.parent / data
    with np.load(beside if beside.exists() else data) as arrays:
        series = {name: np.asarray(arrays[name], dtype=np.float64) for name in arrays.files}
    for name in ("z", "x_new"):
        series.setdefault(name, np.zeros(0))
    return Job(**fields, **{name: series[name] for name in ("x", "y", "z", "x_new")})


def timed(job, function):
    """Call `function` once cold and then warm; its last result, and a report of time and memory.

    The function must return only when its work is done.
    """
    before = start_of_memory()
    first, result = seconds_of(function)
    warm = []
    while not warm or (len(warm) < job.repeats and sum(warm) < job.max_seconds):
        seconds, result = seconds_of(function)
        warm.append(seconds)
    times = {"seconds": min(warm), "all_seconds": warm, "first_seconds": first}
    return result, times | memory_since(before)


def seconds_of(function):
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


class Fit:
    """Watches the objective of a fit, and ends it at the target or when time is over.

    It calls `compile_all` first, which leaves everything at its starting values, and then starts
    its clock.
    """

    def __init__(self, job, compile_all):
        self.job = job
        self.value = -math.inf
        self.evaluations = 0
        self.reached = False
        self.memory = start_of_memory()
        self.first_seconds, _ = seconds_of(compile_all)
        self.began = time.perf_counter()

    def __call__(self, value):
        """Take note of one value of the objective (which is to be large)."""
        self.evaluations += 1
        self.value = max(self.value, float(value)) if math.isfinite(value) else self.value
        target = self.job.target
        self.reached = target is not None and self.value >= target - 1e-3 * abs(target)
        if self.reached or time.perf_counter() - self.began > self.job.max_seconds:
            raise Finished

    def run(self, function):
        """Run the fit until it ends by itself or is ended; the report of it."""
        with contextlib.suppress(Finished):
            function()
        seconds = time.perf_counter() - self.began
        return {
            "value": self.value,
            "reached": self.reached,
            "evaluations": self.evaluations,
            "seconds": seconds,
            "all_seconds": [seconds],
            "first_seconds": self.first_seconds,
            **memory_since(self.memory),
        }


def start_of_memory():
    """Resident bytes now; where the system allows it, the peak is counted from here on."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return status_bytes("VmRSS")
    except (OSError, ValueError):
        return peak_of_process()


def memory_since(before):
    try:
        peak = status_bytes("VmHWM")
    except (OSError, ValueError):
        peak = peak_of_process()
    return {"rss_before": before, "rss_peak": peak, "peak_bytes": max(peak - before, 0)}


def status_bytes(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise ValueError(f"no {field} in the status of the process")


def peak_of_process():
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def require_memory(*shape, copies=1, what="an array"):
    """Refuse work that needs more memory than there is: at least so many arrays of this shape."""
    needed, available = 8 * copies * math.prod(shape), available_bytes()
    if needed > available:
        size = " × ".join(str(n) for n in shape)
        raise Unsupported(
            f"{what} of {size} numbers, {copies} times, takes {needed / 2**30:.0f} GiB; "
            f"{available / 2**30:.0f} GiB are there"
        )


def available_bytes():
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return 1024 * int(found["MemAvailable"].split()[0])
    except (OSError, KeyError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_gaussian(job):
    if not job.gaussian:
        raise Unsupported("only Gaussian observations: an exact GP")


def prediction(mean, variance):
    """The first numbers of a prediction, for comparison with other peers."""
    return {"mean": first_five(mean), "variance": first_five(variance)}


def first_five(array):
    return [float(number) for number in np.asarray(array).ravel()[:5]]


def forecast_record(seconds, mean, median, lower, upper):
    """A forecast as lists, the bounds with a row for each level; an error if it is not finite."""
    found = {"mean": mean, "median": median, "lower": lower, "upper": upper}
    arrays = {name: np.asarray(values, dtype=float) for name, values in found.items()}
    if wrong := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        return {"error": f"not finite: {', '.join(wrong)}"}
    return {"seconds": seconds} | {name: array.tolist() for name, array in arrays.items()}


def versions(*packages):
    return {name: metadata.version(name) for name in packages}


def main(peer, works, packages):
    """Do the job named on the command line with one of `works`, and print one line of JSON.

    `works` maps the name of each work to a function of the job that returns a report of it;
    a string in place of the function says why the peer does not offer it.
    """
    try:
        if len(sys.argv) != 2:
            raise ValueError(f"one argument expected, a job file; {len(sys.argv) - 1} given")
        job = read_job(sys.argv[1])
        work = works.get(job.work, f"there is no work of the name {job.work!r} here")
        if isinstance(work, str):
            raise Unsupported(work)
        show({"peer": peer, "versions": versions(*packages), "work": job.work} | work(job))
    except Unsupported as reason:
        show({"peer": peer, "unsupported": str(reason)})
    except Exception as error:
        fail(peer, error)


def fail(peer, error):
    """Report an exception as the peer's line of JSON and end the process with status 1."""
    show({"peer": peer, "error": f"{type(error).__name__}: {error}"})
    sys.exit(1)


def show(report):
    sys.stderr.flush()
    print(json.dumps({"value": None, "gradient": None} | report), flush=True)
