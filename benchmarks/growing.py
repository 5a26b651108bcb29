"""Data that grow: `python -m benchmarks.growing` (minutes; `--quick`: seconds).

A stream is fed to a filter one observation at a time: seconds of this process and memory for each
part of the stream, which should not depend on how much came before; and how far the end is from
`sg.condition` with all observations, where that is what a filter promises. Beside it, for Gaussian
observations and counts against N, the time for one observation more: by a filter, by
`posterior.update`, and by `sg.condition` with all. With `--store` the run goes to
docs/growing-run.json and what it found to docs/growing.md.
"""

import argparse
import datetime
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

import stategp as sg
from benchmarks.__main__ import machine
from benchmarks.blocks import write_block
from stategp_experiments.studies import commit

STORED = Path(__file__).parent.parent / "docs" / "growing-run.json"
LAG = 64  # observations that the stream with a lag revises
MODELS = {  # likelihood, whether times are irregular, whether there is a season, lag
    "regular times": ("gaussian", False, True, None),
    "irregular times": ("gaussian", True, True, None),
    "counts": ("poisson", False, True, None),
    f"counts, lag={LAG}": ("poisson", False, False, LAG),
}


def model_of(likelihood: str, *, season: bool = True) -> sg.GP:
    """A season that stays the same is never forgotten."""
    kernel = sg.kernels.Matern52(variance=1.0, lengthscale=20.0)
    if season:
        kernel = kernel + sg.kernels.Cosine(variance=0.3, period=24.0)
    noise = sg.likelihoods.Poisson() if likelihood == "poisson" else 0.1
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise) if noise == 0.1 else noise)


def series(count: int, likelihood: str, irregular: bool) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = np.arange(float(count))
    if irregular:
        x = np.cumsum(random.uniform(0.5, 1.5, count))
    f = np.sin(x / 50) + 0.5 * np.cos(2 * np.pi * x / 24)
    if likelihood == "poisson":
        return x, random.poisson(np.exp(f)).astype(float)
    return x, f + np.sqrt(0.1) * random.standard_normal(count)


def memory() -> float:
    """Bytes that this process holds now (its largest so far, where the system does not say)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * resource.getpagesize())
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else 1024 * peak)


def stream(name: str, count: int, parts: int) -> list[dict]:
    """Microseconds for each observation, part by part of a stream."""
    likelihood, irregular, season, lag = MODELS[name]
    count = count if lag is None else count // 50  # each takes longer
    x, y = series(count + 100, likelihood, irregular)
    model = model_of(likelihood, season=season)
    kept = sg.condition(model, x[:100], y[:100], inducing="data").filter(lag=lag)
    times, values = x[100:].tolist(), y[100:].tolist()
    spare = kept
    for number in range(max(20, 2 * (lag or 0))):  # what is compiled once
        spare = spare.update(times[0] + number, values[number])
    rows, size = [], count // parts
    for part in range(parts):
        wall, cpu = time.perf_counter(), time.process_time()
        for number in range(part * size, (part + 1) * size):
            kept = kept.update(times[number], values[number])
        rows.append(
            {
                "stream": name,
                "observations": (part + 1) * size,
                "microseconds": (time.perf_counter() - wall) / size * 1e6,
                "cpu_microseconds": (time.process_time() - cpu) / size * 1e6,
                "bytes": memory(),
            }
        )
        print("{stream:16s} {observations:>9,} {microseconds:8.1f} µs each "
              "({cpu_microseconds:.1f} of this process) {bytes:,.0f} bytes".format(**rows[-1]),
              flush=True)  # fmt: skip
    if (likelihood == "gaussian" or lag) and count <= 100_000:
        at = times[-1] + np.array([1.0, 5.0, 50.0])
        whole = sg.condition(kept.model, x, y, inducing="data", tolerance=1e-18)
        pairs = zip(kept.predict_f(at), whole.predict_f(at), strict=True)
        rows[-1]["difference"] = max(float(np.max(np.abs(a - b))) for a, b in pairs)
        print(f"from the posterior of all: {rows[-1]['difference']:.1e}", flush=True)
    return rows


def seconds_of(work, repeats: int = 3) -> float:
    """The least of some, after one that may compile."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def one_more(count: int, inducing: int | str, likelihood: str) -> dict:
    """Seconds for one observation more, and for all of them."""
    x, y = series(count + 2, likelihood, True)
    later = x[-1:], y[-1:]
    x, y = x[:-1], y[:-1]
    model = model_of(likelihood, season=likelihood == "gaussian")
    before = sg.condition(model, x[:-1], y[:-1], inducing=inducing)
    after = before.update(x[-1:], y[-1:])
    tolerance = 1e-18 * min(1.0, 1e4 / count)  # in all no more than that of 10⁴ observations
    whole = sg.condition(model, x, y, inducing=after.inducing, tolerance=tolerance)
    at = x[-1] + np.array([-100.0, -1.0, 0.0, 1.0, 20.0])
    pairs = zip(after.predict_f(at), whole.predict_f(at), strict=True)
    filter, when, value = before.filter(lag=LAG), float(x[-1]), float(y[-1])
    row = {
        "observations": count,
        "likelihood": likelihood,
        "states": len(after.inducing),
        "update": seconds_of(lambda: before.update(x[-1:], y[-1:])),
        "again": seconds_of(lambda: after.update(*later)),
        "condition": seconds_of(lambda: sg.condition(model, x, y, inducing=after.inducing)),
        "filter": seconds_of(lambda: filter.update(when, value), 20),
        "tolerance": tolerance,
        "difference": max(float(np.max(np.abs(a - b))) for a, b in pairs),
    }
    print("{observations:>9,} {likelihood} and one more, {states} states: filter {filter:.6f} s, "
          "update {update:.4f} s, another {again:.4f} s, condition {condition:.4f} s; off by "
          "{difference:.1e}".format(**row), flush=True)  # fmt: skip
    return row


def page(run: dict) -> str:
    """What docs/growing.md says of a run."""
    about = run["machine"]
    lines = [
        f"On {about['cores']} cores of an {about['processor'].split(' Processor')[0]}, for each "
        "observation of a stream (`python -m benchmarks.growing`, [numbers](growing-run.json)):",
        "",
        "| stream | observations before | microseconds each | memory |",
        "|---|---|---|---|",
    ]
    for name in MODELS:
        rows = [row for row in run["streams"] if row["stream"] == name]
        size = rows[0]["observations"] if rows else 0
        for row in rows[:1] + rows[1:][-1:]:
            memory_mb = f"{row['bytes'] / 1e6:.0f} MB"
            before = f"{row['observations'] - size:,}"
            lines.append(f"| {name} | {before} | {row['microseconds']:.0f} | {memory_mb} |")
    apart = [row["difference"] for row in run["streams"] if "difference" in row]
    if apart:
        words = (
            "At the end of the stream with a lag, forecasts are those of `sg.condition` with all"
        )
        lines += ["", f"{words} observations, to {max(apart):.0e}."]
    kinds = {"gaussian": "Gaussian", "poisson": "counts"}
    names = ["observations", "N", "states", "by a filter", "by `update`", "all by `sg.condition`"]
    again = all("again" in row for row in run["updates"])
    if again:
        names.insert(5, "by the next `update`")
    names.append("difference")
    lines += ["", "One observation more, at the end:", "", f"| {' | '.join(names)} |"]
    lines += ["|" + "---|" * len(names)]
    for row in run["updates"]:
        kind = kinds[row.get("likelihood", "gaussian")]
        times = [row["update"], *([row["again"]] if again else []), row["condition"]]
        both = " | ".join(f"{seconds:.3f} s" for seconds in times)
        # Runs before there were counts had another time there.
        step = f"{row['filter'] * 1e6:.0f} µs" if "likelihood" in row else "–"
        sizes = f"{row['observations']:,} | {row['states']:,}"
        lines.append(f"| {kind} | {sizes} | {step} | {both} | {row['difference']:.0e} |")
    lines += ["", "The difference is the largest one in the mean or variance of f, near the end, "
              "between `update` and `sg.condition` with all observations."]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} and the page")
    arguments = parser.parse_args()
    count = 2_000 if arguments.quick else 1_000_000
    streams = [row for name in MODELS for row in stream(name, count, 4 if arguments.quick else 10)]
    sizes = [1_000, 2_000] if arguments.quick else [1_000, 10_000, 100_000, 1_000_000]
    growing = [
        one_more(size, "data" if size <= 10_000 else 2_000, likelihood)
        for likelihood in ("gaussian", "poisson")
        for size in sizes
    ]
    about = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine()}
    run = about | {"streams": streams, "updates": growing}
    print("\n" + page(run))
    if arguments.store:
        STORED.write_text(json.dumps(run, indent=1) + "\n")
        write_block("growing.md", "growing", page(run))


if __name__ == "__main__":
    main()
