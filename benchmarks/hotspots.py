"""Where the time of one evaluation goes, kernel by kernel, as XLA's profiler sees it.

    python -m benchmarks.hotspots [--work elbo+gradient] [--points 100000] [--inducing 1000]
                                  [--kernel matern32] [--rows]

Works: elbo, elbo+gradient, natural-step, exact, exact+gradient. `--rows` passes over all data.
The names are those of the compiled program; XLA writes it out with
XLA_FLAGS="--xla_dump_to=FOLDER --xla_dump_hlo_as_text".
"""

import argparse
import collections
import gzip
import json
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import ours
from benchmarks.peers.protocol import Job
from stategp._inference import evidence, evidence_and_gradient


def call(work, job, rows):
    """One evaluation, as the benchmark times it."""
    exact = work.startswith("exact")
    at = ours.Setting(job, rows, inducing=np.unique(job.x) - job.x.min() if exact else None)
    calls = {
        "elbo": (ours.bound, at.model, at.view, at.inducing, at.sites),
        "elbo+gradient": (
            ours.bound_and_gradients, at.vector, at.model, at.view, at.inducing, at.sites
        ),
        "natural-step": (
            ours.natural_step, at.model, at.view, at.inducing, at.sites, jnp.asarray(0.5)
        ),
        "exact": (jax.jit(evidence), at.model, at.view, at.inducing),
        "exact+gradient": (evidence_and_gradient, at.vector, at.model, at.view, at.inducing),
    }  # fmt: skip
    return calls[work]


def traced(function, *arguments):
    """Milliseconds and number of calls of every kernel in one evaluation."""
    jax.block_until_ready(function(*arguments))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(function(*arguments))
        (file,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    found = collections.defaultdict(lambda: [0.0, 0])
    for event in events:
        if event.get("ph") == "X" and "hlo_op" in event.get("args", {}):
            found[event["name"]][0] += event["dur"] / 1e3
            found[event["name"]][1] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", default="elbo+gradient")
    parser.add_argument("--points", type=float, default=1e5)
    parser.add_argument("--inducing", type=int, default=1000)
    parser.add_argument("--kernel", default="matern32", choices=ours.KERNELS)
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 1000, int(options.points)))
    y = np.sin(x) + 0.3 * rng.standard_normal(len(x))
    z = np.linspace(0, 1000, options.inducing)
    job = Job(options.work, options.kernel, 1.0, 2.0, x, y, z, z, noise=0.09)
    found = traced(*call(options.work, job, options.rows))
    print(f"{'ms':>9} {'calls':>7}  kernel (loops include what they call)")
    for name, (spent, calls) in sorted(found.items(), key=lambda item: -item[1][0])[:20]:
        print(f"{spent:9.2f} {calls:7}  {name}")


if __name__ == "__main__":
    main()
