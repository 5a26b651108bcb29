"""What a fit costs, by formulas, beside what was measured: `python -m benchmarks.cost_model`.

Rates are taken from some of the stored runs (docs/stream-run.json, processes-run.json,
gpu-run.json, chain-run.json, growing-run.json, many-run.json), and the formulas checked against the
others. What they predict for sizes that nobody has measured is marked as prediction. `--store`
writes both tables to docs/scaling.md.
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from benchmarks.blocks import write_block

DOCS = Path(__file__).parent.parent / "docs"
ORDER, DEGREES = 16, 8  # nodes of a stretch, coefficients of the reference of Gaussian observations
NUMBER = 8  # bytes
STATISTICS = {"poisson": 3, "bernoulli": 2, "exponential": 2}  # sums of each node


class Check(NamedTuple):
    """A formula beside what was measured."""

    what: str
    predicted: float
    measured: float
    unit: str

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


# --- formulas ------------------------------------------------------------------------------------


def summary_bytes(stretches: int, likelihood: str) -> int:
    """Sums of each stretch: its number, and
    Gaussian: Σw Tₖ and Σw(y − r)Tₖ for 16 k, 8 coefficients of r, Σw(y − r)²;
    others: four totals, and Σw s Tₖ for every statistic s.
    """
    if likelihood == "gaussian":
        numbers = 1 + 2 * ORDER + DEGREES + 1
    else:
        numbers = 1 + 4 + ORDER * STATISTICS[likelihood]
    return NUMBER * numbers * stretches


def reading_seconds(
    rows: float,
    core_seconds_per_row: float,
    cores: int,
    starting: float = 0.0,
    meeting: float = 0.0,
) -> float:
    """Every row is read once, by one of the processes, which decode and sum up side by side.

    A process that reads its first file imports pyarrow and touches its memory for the first time.
    Processes meet to exchange the sums.
    """
    return starting + rows * core_seconds_per_row / cores + meeting


def exchanged_bytes(processes: int, stretches: int, likelihood: str) -> int:
    """What a process receives, once in a fit: the sums of all. Steps exchange nothing."""
    return processes * summary_bytes(stretches, likelihood)


def stored_bytes(rows: float, columns: int = 2, filled: float = 1.0) -> float:
    """Rows on disk, or packed in memory: place and value, and further columns."""
    return NUMBER * columns * rows / filled


def reduced_bytes(stretches: int) -> int:
    """What devices that share rows add up in every step: two derivatives at every node."""
    return 2 * NUMBER * ORDER * stretches


# --- what was measured ---------------------------------------------------------------------------


def load(name: str) -> dict:
    return json.loads((DOCS / f"{name}-run.json").read_text(encoding="utf-8"))


STRETCHES = 4000  # of the stored streams: a range of 1000, the shortest lengthscale 1


def rates() -> dict[str, float]:
    """Seconds for each row that is read, and for each observation of a pass on a GPU."""
    run = load("stream")
    few, many = (one[0] for one in run["runs"])
    per_row = (many["read_seconds"] - few["read_seconds"]) / (many["rows"] - few["rows"])
    gaussian = next(r for r in load("gpu")["results"] if r["likelihood"] == "gaussian")["works"]
    step, sums = gaussian["rows"]["natural step"], gaussian["sums"]["natural step"]
    return {
        "row": run["cores"] * per_row,
        "starting": max(few["read_seconds"] - few["rows"] * per_row, 0.0),
        "file_bytes": many["file_bytes"] / many["rows"],
        "fit": many["seconds"] - many["read_seconds"],
        "pass": (step["seconds"] - sums["seconds"]) / 1e8,
        "chain": sums["seconds"],
    }


def checks() -> list[Check]:
    """Formulas with the rates of one run, beside other runs."""
    return [*_of_streams(), *_of_processes(), *_of_series()]


def _of_streams() -> list[Check]:
    """Rates of 10⁸ rows, and of Gaussian ones on a GPU, for others."""
    rate, run = rates(), load("stream")
    few, many = run["runs"]
    found = []
    for one in many:
        kind = one["likelihood"]
        size = summary_bytes(STRETCHES, kind)
        found.append(Check(f"sums of {kind} rows", size, one["summary_bytes"], "bytes"))
    (counts,) = (one for one in many if one["likelihood"] == "poisson")
    (fewer,) = (one for one in few if one["likelihood"] == "poisson")
    starting = rate["starting"]
    per_count = run["cores"] * (counts["read_seconds"] - starting) / counts["rows"]
    reading = reading_seconds(fewer["rows"], per_count, run["cores"], starting)
    found.append(Check("reading 10⁷ counts", reading, fewer["read_seconds"], "s"))
    fit = few[0]["seconds"] - few[0]["read_seconds"]
    found.append(Check("fitting the sums of 10⁷ rows", rate["fit"], fit, "s"))
    peaks = [one["peak_bytes"] for one in (few[0], many[0])]
    found.append(Check("peak of memory, 10⁸ rows for 10⁷", peaks[0], peaks[1], "bytes"))
    for result in load("gpu")["results"]:
        if result["likelihood"] == "poisson":
            step = result["works"]["rows"]["natural step"]["seconds"]
            said = rate["chain"] + rate["pass"] * result["n"]
            found.append(Check("a step that passes over 10⁸ counts, H200", said, step, "s"))
    return found


def _of_processes() -> list[Check]:
    """Reading by the rate of streams; passes by that of two processes, which have a core each.

    Every process that joins the first takes as long to meet as the second does.
    """
    rate, run = rates(), load("processes")
    by_case = {(one["processes"], one["devices"]): one for one in run["runs"]}
    first, second = (by_case[count, 1]["read_seconds"] for count in (1, 2))
    joining = max(second - first / 2, 0.0)
    found = []
    for count in (1, 2, 4):
        one, cores = by_case[count, 1], min(count, run["cores"])
        meeting = (count - 1) * joining
        said = reading_seconds(one["rows"], rate["row"], cores, meeting=meeting)
        what = f"reading 2·10⁶ rows again, {_processes(count)} on {_cores(cores)}"
        found.append(Check(what, said, one["read_seconds"], "s"))
    two = by_case[2, 1]
    for key, where in (("disk_pass_seconds", "on disk"), ("memory_pass_seconds", "in memory")):
        for case, who in (((4, 1), _processes(4)), ((1, 2), "1 process with 2 devices")):
            what = f"a pass over 2·10⁶ rows {where}, {who} on {_cores(2)}"
            found.append(Check(what, two[key], by_case[case][key], "s"))
    return found


def _of_series() -> list[Check]:
    """Few observations for more of them, and many series for others."""
    growing, many = load("growing"), load("many")
    found = []
    for name in dict.fromkeys(row["stream"] for row in growing["streams"]):
        first, *_, last = (row for row in growing["streams"] if row["stream"] == name)
        said, measured = (1e-6 * row["cpu_microseconds"] for row in (first, last))
        what = f"an observation of a stream after {last['observations']:,}, {name}"
        found.append(Check(what, said, measured, "s"))
    for likelihood in ("gaussian", "poisson"):
        small, mid, large = (
            next(
                row
                for row in growing["updates"]
                if (row["likelihood"], row["observations"]) == (likelihood, count)
            )
            for count in (1_000, 10**5, 10**6)
        )
        chain = small["condition"] * mid["states"] / small["states"]
        said = chain + (large["condition"] - chain) * mid["observations"] / large["observations"]
        what = f"`condition` on 10⁵ {likelihood} observations"
        found.append(Check(what, said, mid["condition"], "s"))
    job, weekly = many["matern32"], many["m4_weekly"]
    said = job["seconds"] / (job["series"] * job["length"]) * weekly["observations"]
    what = f"M4's {weekly['series']} weekly series"
    found.append(Check(what, said, weekly["fit_many_seconds"], "s"))
    return found


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def evaluations() -> float:
    """Of log p(y) and its gradient, that the time for each of many series pays for.

    seconds = series × length × evaluations × (seconds of one, for each point) / cores
    """
    run = load("many")
    fitted = run["matern32"]
    (one, *_) = (
        r for r in load("chain")["results"] if (r["d"], r["work"]) == (2, "likelihood + gradient")
    )
    points = fitted["series"] * fitted["length"]
    return fitted["seconds"] * run["cores"] / (points * one["seconds"] / one["states"])


def margin(*kinds: str) -> str:
    """What was measured over what formulas of some kinds say, from the least to the most."""
    ratios = [1 / check.ratio for check in checks() if check.what.startswith(kinds)]
    least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return least if least == most else f"{least} to {most}"


def predictions() -> list[tuple[str, str, str]]:
    """For 10¹¹ rows and 64 GPUs, each with a process of two cores; nobody has measured this.

    Beside each is how far formulas of its kind are off above.
    """
    rate, rows, gpus = rates(), 1e11, 64
    reading = reading_seconds(rows, rate["row"], 2 * gpus, rate["starting"])
    need = rows * rate["file_bytes"] / reading / 1e9
    sums = exchanged_bytes(gpus, STRETCHES, "gaussian") / 1e6
    held = stored_bytes(rows) / gpus / 1e9
    step = rate["chain"] + rate["pass"] * rows / gpus
    reduced = reduced_bytes(STRETCHES) / 1e6
    reads = f"{reading:.0f} s, if disks give {need:.0f} GB/s"
    sized = margin("sums of")
    return [
        ("likelihoods with sums: reading", reads, margin("reading")),
        ("exchange of the sums, once", f"{sums:.0f} MB to every process", sized),
        ("learning hyperparameters from the sums", f"{rate['fit']:.1f} s", margin("fitting")),
        ("likelihoods without sums: rows on each GPU", f"{held:.0f} GB", "–"),
        ("a natural-gradient step", f"{1e3 * step:.0f} ms", margin("a step", "a pass")),
        ("added up among the GPUs in each step", f"{reduced:.1f} MB", "–"),
    ]


def number(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{value:.3g} {unit}".strip()


def page() -> str:
    """The two tables of docs/scaling.md."""
    lines = ["| | by the formulas | measured |", "|---|---|---|"]
    for check in checks():
        both = number(check.predicted, check.unit), number(check.measured, check.unit)
        lines.append(f"| {check.what} | {both[0]} | {both[1]} |")
    off = "measured over predicted, of its kind above"
    lines += ["", f"| 10¹¹ rows, 64 GPUs | **prediction**, not measured | {off} |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in predictions()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", action="store_true", help="write docs/scaling.md")
    asked = parser.parse_args()
    print(page())
    if asked.store:
        write_block("scaling.md", "costs", page())


if __name__ == "__main__":
    main()
