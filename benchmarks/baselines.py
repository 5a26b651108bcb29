"""The SVGP that the experiments compare with, beside GPflow's and GPyTorch's: same bound, its time.

    python -m benchmarks.baselines [--environments DIR] [--data 5000] [--inducing 50 200]

For the same data, hyperparameters and jitter: the bound at a q that is no optimum, its gradient in
the mean of q, the bound at the best q, and the seconds of one bound with its gradient in q (mean
and Cholesky factor, whitened). Every library runs in a process of its own, one at a time:

    python -m benchmarks.baselines --as NAME JOB.json
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.peers import protocol

HERE = Path(__file__).parent
JITTER = 1e-10  # that of stategp_experiments.baselines, for unit variance
SETTINGS = {"variance": 1.0, "lengthscale": 2.0, "noise": 0.09, "kernel": "matern32"}
AGREE = 1e-6  # relative


def given_q(count):
    """A mean and a Cholesky factor that are far from the prior and from the optimum."""
    i, j = np.indices((count, count))
    return np.sin(np.arange(count)), np.eye(count) * 0.5 + np.tril(0.1 * np.cos(i + 2 * j), -1)


def stategp(job):
    import jax

    import stategp as sg
    from stategp_experiments import baselines

    assert baselines.JITTER == JITTER
    kernel = sg.kernels.Matern32(variance=job.variance, lengthscale=job.lengthscale)
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=job.noise))
    given = baselines.Whitened(*map(jax.numpy.asarray, given_q(len(job.z))))
    best, _ = baselines.collapsed(model, job.x, job.y, job.z)
    (value, gradient), times = protocol.timed(
        job,
        lambda: jax.block_until_ready(
            baselines.bound_and_gradient(given, model, job.x, job.y, job.z)
        ),
    )
    return report(value, gradient.mean, best) | times


def gpflow(job):
    import gpflow as peer

    from benchmarks.peers import in_tensorflow
    from benchmarks.peers.gpflow_peer import Problem

    peer.config.set_default_jitter(JITTER)
    best = Problem(job).at_optimum().bound()
    problem, (mean, factor) = Problem(job), given_q(len(job.z))
    problem.model.q_mu.assign(mean[:, None])
    problem.model.q_sqrt.assign(factor[None])
    function = in_tensorflow.value_and_gradient(problem.bound, problem.q)
    (value, (slope, _)), times = protocol.timed(job, lambda: in_tensorflow.finished(function()))
    return report(value, slope, best) | times


def gpytorch(job):
    import gpytorch as peer
    import torch

    from benchmarks.peers.gpytorch_peer import Problem, at_optimum

    with peer.settings.variational_cholesky_jitter(double_value=JITTER):
        best = at_optimum(job).bound()
        problem, (mean, factor) = Problem(job), map(torch.as_tensor, given_q(len(job.z)))
        with torch.no_grad():
            problem.q.variational_mean.copy_(mean)
            problem.q.chol_variational_covar.copy_(factor)
        for raw, _ in problem.hyperparameters:
            raw.requires_grad_(False)
        value, times = protocol.timed(job, problem.backward)
        slope = -len(job.y) * problem.q.variational_mean.grad  # of the loss per observation
        return report(value, slope, best) | times


def report(value, slope, best):
    slope = [float(one) for one in np.ravel(slope)]
    return {"value": float(value), "gradient": slope, "optimum": float(best)}


WORKS = {"stategp": stategp, "gpflow": gpflow, "gpytorch": gpytorch}


def answer(name, file):
    """What the process of one library does."""
    try:
        protocol.show({"peer": name} | WORKS[name](protocol.read_job(file)))
    except Exception as error:
        protocol.fail(name, error)


def ask(name, environments, file):
    """The report of one library, from a process of its own."""
    python = sys.executable
    if name != "stategp":
        python = str(environments.resolve() / protocol.ENVIRONMENTS[name] / "bin/python")
    command = [python, "-m", "benchmarks.baselines", "--as", name, str(file)]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    with contextlib.suppress(json.JSONDecodeError, IndexError):
        return json.loads(done.stdout.strip().splitlines()[-1])
    return {"error": f"no answer; last words: {done.stderr[-300:]}"}


def compare(folder, environments, data, inducing):
    """One line for each library; whether all of them agree."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 100, data))
    y = np.sin(x) + 0.3 * rng.standard_normal(data)
    np.savez(folder / "data.npz", x=x, y=y, z=np.linspace(0, 100, inducing))
    file = folder / "job.json"
    job = SETTINGS | {"work": "svgp", "data": "data.npz", "repeats": 10, "max_seconds": 20.0}
    file.write_text(json.dumps(job))
    ours, agreed = None, True
    for name in WORKS:
        found = ask(name, environments, file)
        if "error" in found:
            print(f"{data:6d} {inducing:5d} {name:9} {found['error']}", flush=True)
            agreed = False
            continue
        ours = ours or found
        difference = max(apart(found[key], ours[key]) for key in ("value", "gradient", "optimum"))
        agreed &= difference < AGREE
        print(
            f"{data:6d} {inducing:5d} {name:9} {found['value']:18.6f} {found['optimum']:16.6f}"
            f" {difference:12.1e} {1e3 * found['seconds']:12.2f}",
            flush=True,
        )
    return agreed


def apart(one, other):
    """The largest difference, relative to the largest number."""
    one, other = np.asarray(one), np.asarray(other)
    return float(np.max(np.abs(one - other)) / np.max(np.abs(other)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".venv-peers")
    parser.add_argument("--python", default="python3.11", help="for the environments of the peers")
    parser.add_argument("--data", type=int, default=5000)
    parser.add_argument("--inducing", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--as", dest="name", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("job", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.name:
        answer(options.name, options.job)
        return
    script = HERE / "peers/make_environments.sh"
    if subprocess.run(["sh", script, options.environments, options.python]).returncode:
        sys.exit("benchmarks.baselines: the peers' environments could not be made")
    print(
        "     N     M library     bound at a given q  bound at the best  difference  gradient (ms)"
    )
    with tempfile.TemporaryDirectory() as folder:
        agreed = [
            compare(Path(folder), options.environments, options.data, inducing)
            for inducing in options.inducing
        ]
    if not all(agreed):
        sys.exit(f"the libraries differ by more than {AGREE:g}, or one did not answer")
    print(f"bounds and gradients agree to {AGREE:g} of the largest number")


if __name__ == "__main__":
    main()
