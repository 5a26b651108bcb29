"""stategp and its peers on the same data in the same run: `make bench`, `make bench QUICK=1`.

Every measurement is a process of its own, one at a time. Peers live in environments of their own
(`benchmarks/peers/make_environments.sh`); an answer is compared with ours before its time counts.
Tables go to standard output; everything measured, with versions and machine, to
`benchmarks/results/` as JSON, and the scaling plots beside it.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import targets
from benchmarks.peers.protocol import ENVIRONMENTS
from benchmarks.waiting import COMMAND, WORKS
from benchmarks.waiting import waiting as waits
from stategp._runtime import replacing

HERE = Path(__file__).parent
ROOT = HERE.parent


class Bench:
    """Runs jobs and remembers what they reported."""

    def __init__(self, environments, folder, peers):
        self.environments, self.folder, self.peers = environments, folder, peers
        self.results = []

    def run(self, who, case, work, **job):
        """One measurement in a process of its own."""
        settings = {"variance": 1.0, "lengthscale": 2.0, "noise": 0.09, "kernel": "matern32"}
        job = settings | {"repeats": 5, "max_seconds": 60.0, "data": case["file"]} | job
        environment = dict(os.environ, **job.pop("environment", {}))
        file = self.folder / "job.json"
        file.write_text(json.dumps(job | {"work": work}))
        began = time.perf_counter()
        command = [*self._python(who), str(file)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
            )
            line = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
            report = json.loads(line)
        except subprocess.TimeoutExpired:
            report = {"peer": who, "error": "stopped after 900 s"}
        except (json.JSONDecodeError, IndexError):
            report = {"peer": who, "error": f"no answer; last words: {done.stderr[-300:]}"}
        del job["data"]
        report |= {"work": work, "who": who, "case": case["name"], "job": job}
        report |= {"n": case["n"], "m": case["m"], "process_seconds": time.perf_counter() - began}
        report = check(report, self.results)
        self.results.append(report)
        self._say(report)
        return report

    def _python(self, who):
        if who == "stategp":
            return [sys.executable, "-m", "benchmarks.ours"]
        python = self.environments / ENVIRONMENTS[who] / "bin/python"
        return [str(python), "-m", f"benchmarks.peers.{who}_peer"]

    def _say(self, report):
        outcome = f"{1e3 * report['seconds']:12.2f} ms" if "seconds" in report else "           –"
        note = report.get("unsupported") or report.get("error") or ""
        print(
            f"{report['case']:28s} {report['work']:20s} {report['who']:10s} {outcome}  {note[:60]}"
        )
        sys.stdout.flush()

    def compare(self, case, work, peers, ours=None, **job):
        """Ours first, then those of the peers that are wanted."""
        self.run("stategp", case, ours or work, **job)
        for peer in peers:
            if peer in self.peers:
                self.run(peer, case, work, **job)


def check(report, results):
    """A peer's time counts only if its answer is ours, or a bound below ours where q is poorer."""
    theirs, who = report.get("value"), report["who"]
    ours = [
        one["value"]
        for one in results
        if one["who"] == "stategp"
        and one["case"] == report["case"]
        and one["work"].startswith(report["work"].split("+")[0])
        and one.get("value") is not None
    ]
    if who == "stategp" or theirs is None or not ours or report["work"] == "fit":
        return report
    difference = (theirs - ours[-1]) / abs(ours[-1])
    report["difference"] = difference
    poorer = who in ("gpflow", "gpytorch")  # function values as inducing variables, not states
    if abs(difference) <= 1e-4 or (poorer and difference <= 1e-6):
        return report
    report["rejected_seconds"] = report.pop("seconds", None)
    return report | {"error": f"its answer {theirs:.8g} is not ours, {ours[-1]:.8g}"}


def make_case(folder, n, m, likelihood="gaussian", new=1000, spacing=None, name=None):
    """Points uniform on [0, 1000] (or so many apart), a sine in noise."""
    rng = np.random.default_rng(0)
    span = 1000.0 if spacing is None else spacing * n
    x = np.sort(rng.uniform(0, span, n))
    f = np.sin(x)
    y = f + 0.3 * rng.standard_normal(n)
    if likelihood == "bernoulli":
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * f))).astype(float)
    name = name or f"{likelihood}, N={n:.0e}, M={m}".replace("e+0", "e")
    file = folder / f"{likelihood}-{n}-{m}-{new}-{spacing}.npz"
    x_new = np.sort(rng.uniform(0, span, new))
    np.savez(file, x=x, y=y, z=np.linspace(0, span, m), x_new=x_new)
    return {"name": name, "file": str(file), "n": n, "m": m}


def sparse(bench, folder, quick):
    """Bounds, gradients and natural-gradient steps of Gaussian observations."""
    large, medium, states = sizes_of(quick)
    works = works_of(quick)
    case = make_case(folder, 5000, 50)
    for work in works:
        bench.compare(case, work, ["markovflow", "gpflow", "gpytorch"])

    if not quick:
        case = make_case(folder, medium, states)
        for work in works:
            bench.compare(case, work, ["markovflow"])
        for peer in ("gpflow", "gpytorch"):
            if peer in bench.peers:
                bench.run(peer, case, "elbo+gradient", repeats=1)

    case = make_case(folder, large, states)
    bench.run("stategp", case, "pack")
    for work in works:
        bench.compare(case, work, ["markovflow"], max_seconds=20)
        bench.run("stategp", case, f"{work}/rows")


def exact(bench, folder, quick):
    """The exact likelihood, and the bound that stands in for it."""
    large, medium, states = sizes_of(quick)
    case = make_case(folder, large, states)
    bench.run("stategp", case, "collapsed+gradient")
    for work in ("exact", "exact+gradient"):
        for peer in ("celerite2", "tinygp"):
            if peer in bench.peers:
                bench.run(peer, case, work, repeats=3)
    case = make_case(folder, medium, states)
    for work in ("exact", "exact+gradient"):
        bench.compare(case, work, ["celerite2", "tinygp"])
    larger = case | {"name": f"{case['name']}, d = 8"}
    for work in ("exact", "exact+gradient"):
        bench.compare(larger, work, ["celerite2", "tinygp"], kernel="four-matern32")


def bernoulli(bench, folder, quick):
    """The same as `sparse` for a likelihood that needs quadrature."""
    _, medium, states = sizes_of(quick)
    case = make_case(folder, medium, states, likelihood="bernoulli")
    for work in works_of(quick):
        bench.compare(case, work, ["markovflow"], likelihood="bernoulli", max_seconds=20)


def predictions(bench, folder, quick):
    """Moments and joint samples at new points."""
    large, medium, states = sizes_of(quick)
    case = make_case(folder, medium, states, new=large)
    bench.compare(case, "predict", ["markovflow"], repeats=3)
    case = make_case(folder, 5000, 50, new=2000)
    bench.compare(case, "predict", ["markovflow", "gpflow", "gpytorch", "celerite2", "tinygp"])
    if not quick:
        bench.compare(case, "sample", ["markovflow", "gpflow", "gpytorch", "tinygp"], repeats=2)
    case = make_case(folder, medium, states, new=medium)
    bench.run("stategp", case, "sample")


def fits(bench, folder, quick):
    """Whole fits, to within 0.1 % of the best bound we found."""
    case = make_case(folder, 10**4, 100, spacing=0.01)
    start = {"variance": 0.3, "lengthscale": 5.0, "noise": 0.3}
    best = bench.run("stategp", case, "fit", **start, target=None)
    if "value" in best:
        goal = {"target": best["value"], "max_seconds": 120.0}
        peers = ["celerite2", "tinygp"]
        if not quick:
            peers += ["markovflow", "gpflow", "gpytorch"]
        bench.compare(case, "fit", peers, **start, **goal)


def memory(bench, folder, quick):
    """The peak above the data."""
    for n in (10**6,) if quick else (10**6, 3 * 10**6, 10**7):
        bench.run("stategp", make_case(folder, n, 1000), "memory")


def sizes_of(quick):
    """Many observations, fewer, and inducing states."""
    return (10**5, 10**4, 100) if quick else (10**6, 10**5, 1000)


def works_of(quick):
    """What is measured of a bound."""
    return ("elbo+gradient", "natural-step") if quick else ("elbo", "elbo+gradient", "natural-step")


def scaling(bench, folder, quick):
    """How time grows with N, M and d, and what a state of the chain costs."""
    sizes = (10**4, 10**6) if quick else (10**5, 10**6, 10**7)
    for n in sizes:
        case = make_case(folder, n, 1000, name=f"growth with N, N={n:.0e}".replace("e+0", "e"))
        for work in ("pack", "elbo+gradient", "elbo+gradient/rows"):
            bench.run("stategp", case, work, repeats=3)
    for m in (10**3, 10**4) if quick else (10**3, 10**4, 10**5, 10**6):
        case = make_case(folder, 2 * m, m, spacing=0.5, name=f"growth with M, M={m:.0e}")
        bench.run("stategp", case, "elbo+gradient", repeats=3)
    for m in (10**4,) if quick else (10**4, 10**5):
        case = make_case(folder, 100, m, name=f"growth with d, M={m:.0e}")
        for kernel in ("matern12", "matern32", "matern52", "matern72", "harmonic8", "harmonic16"):
            bench.run("stategp", case, "sweep", kernel=kernel)
    general = make_case(folder, 10**5, 1000, name="Matérn-3/2 as any equation, N=1e5, M=1000")
    for kernel in ("matern32", "matern32-sde"):
        for work in ("elbo+gradient/rows", "elbo+gradient"):
            named = general | {"name": f"{general['name']}: {kernel}"}
            bench.run("stategp", named, work, kernel=kernel)


def cold_start(bench, folder, quick):
    """From the start of a process to a posterior with learned hyperparameters."""
    case = make_case(folder, 10**4, 100, spacing=0.01, name="cold start")
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty cache", "filled cache"):
            named = case | {"name": f"first fit, {state}"}
            bench.run("stategp", named, "first-fit", environment={"STATEGP_CACHE": cache})
    second = case | {"name": "second data set"}
    bench.run("stategp", second, "second-fit", environment={"STATEGP_CACHE": "off"})


def waiting(bench, folder, quick):
    """What people wait for, in processes of their own (benchmarks/waiting.py)."""
    works = ("readme", "forecaster_hourly") if quick else (*WORKS, COMMAND)
    for measured in waits(works):
        case, steps = f"{measured['waiting']}, {measured['cache']} cache", measured["steps"]
        seconds = {"seconds": sum(one["seconds"] for one in steps)} if steps else {}
        about = {"who": "stategp", "case": case, "work": "waiting", "n": 0, "m": 0}
        bench.results.append(measured | about | seconds | {"job": {"kernel": ""}})


PARTS = {
    part.__name__.replace("_", "-"): part
    for part in (
        sparse,
        exact,
        bernoulli,
        predictions,
        fits,
        scaling,
        memory,
        cold_start,
        waiting,
    )
}


def merged(old, new):
    """Earlier results, without those that were measured again."""
    again = {(one["who"], one["case"], one["work"]) for one in new}
    return [one for one in old if (one["who"], one["case"], one["work"]) not in again] + new


def machine():
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def main():
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a few minutes")
    parser.add_argument("--only", help=f"some of {', '.join(PARTS)}; replaces them in today's file")
    parser.add_argument("--without-peers", action="store_true", help="stategp alone")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--python", default="python3.11", help="for the environments of the peers")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    parts = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    peers = set() if options.without_peers else set(ENVIRONMENTS)
    if peers:
        script = HERE / "peers/make_environments.sh"
        made = subprocess.run(["sh", str(script), str(options.environments), options.python])
        if made.returncode:
            sys.exit("benchmarks: without the peers' environments, use --without-peers")
    options.out.mkdir(parents=True, exist_ok=True)
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "quick": options.quick,
    }
    print(f"{about['date']}, {about['machine']['processor']}, {about['machine']['cores']} cores\n")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.environments.resolve(), Path(folder), peers)
        kind = "quick" if options.quick else "full"
        file = options.out / f"{about['date']}-{kind}.json"
        try:
            for name in parts:
                PARTS[name](bench, Path(folder), options.quick)
        except KeyboardInterrupt:
            print("interrupted: what was measured until then")
        finally:
            if options.only and file.exists():
                bench.results = merged(json.loads(file.read_text())["results"], bench.results)
            text = json.dumps(about | {"results": bench.results}, indent=1)
            with replacing(file) as written:
                written.write(text.encode())
    print(f"\n{targets.table(bench.results)}\n\nwritten to {file}")
    for picture in targets.draw(bench.results, options.out):
        print(f"drawn: {picture}")


if __name__ == "__main__":
    main()
