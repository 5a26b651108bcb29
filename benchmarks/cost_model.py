"""What a fit costs, by formulas, beside what was measured: `python -m benchmarks.cost_model`.

Rates are taken from some of the stored runs (docs/stream-run.json, gpu-run.json, chain-run.json,
many-run.json), and the formulas checked against the others. What they predict for sizes that nobody
has measured is marked as prediction. `--store` writes both tables to docs/scaling.md.
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


def reading_seconds(rows: float, seconds_per_row: float, processes: int = 1) -> float:
    """Every row is read once, by one of the processes."""
    return rows * seconds_per_row / processes


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
    _, many = load("stream")["runs"]
    gaussian = next(r for r in load("gpu")["results"] if r["likelihood"] == "gaussian")["works"]
    step, sums = gaussian["rows"]["natural step"], gaussian["sums"]["natural step"]
    return {
        "row": many[0]["read_seconds"] / many[0]["rows"],
        "file_bytes": many[0]["file_bytes"] / many[0]["rows"],
        "fit": many[0]["seconds"] - many[0]["read_seconds"],
        "pass": (step["seconds"] - sums["seconds"]) / 1e8,
        "chain": sums["seconds"],
    }


def checks() -> list[Check]:
    """Formulas with the rates of one run, beside other runs."""
    rate, (few, many) = rates(), load("stream")["runs"]
    found = []
    for run in many:
        kind = run["likelihood"]
        size = summary_bytes(STRETCHES, kind)
        found.append(Check(f"sums of {kind} rows", size, run["summary_bytes"], "bytes"))
    reading = reading_seconds(few[0]["rows"], rate["row"])
    found.append(Check("reading 10⁷ rows", reading, few[0]["read_seconds"], "s"))
    fit = few[0]["seconds"] - few[0]["read_seconds"]
    found.append(Check("fitting the sums of 10⁷ rows", rate["fit"], fit, "s"))
    peaks = [run["peak_bytes"] for run in (few[0], many[0])]
    found.append(Check("peak of memory, 10⁸ rows for 10⁷", peaks[0], peaks[1], "bytes"))
    for result in load("gpu")["results"]:
        if result["likelihood"] == "poisson":
            step = result["works"]["rows"]["natural step"]["seconds"]
            said = rate["chain"] + rate["pass"] * result["n"]
            found.append(Check("a step that passes over 10⁸ counts, H200", said, step, "s"))
    return found


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


def predictions() -> list[tuple[str, str]]:
    """For 10¹¹ rows and 64 GPUs, each with a process of two cores; nobody has measured this."""
    rate, rows, gpus = rates(), 1e11, 64
    reading = reading_seconds(rows, rate["row"], gpus)
    need = rows * rate["file_bytes"] / reading / 1e9
    sums = exchanged_bytes(gpus, STRETCHES, "gaussian") / 1e6
    held = stored_bytes(rows) / gpus / 1e9
    step = rate["chain"] + rate["pass"] * rows / gpus
    reduced = reduced_bytes(STRETCHES) / 1e6
    return [
        ("likelihoods with sums: reading", f"{reading:.0f} s, if disks give {need:.0f} GB/s"),
        ("exchange of the sums, once", f"{sums:.0f} MB to every process"),
        ("learning hyperparameters from the sums", f"{rate['fit']:.1f} s"),
        ("likelihoods without sums: rows on each GPU", f"{held:.0f} GB"),
        ("a natural-gradient step", f"{1e3 * step:.0f} ms"),
        ("added up among the GPUs in each step", f"{reduced:.1f} MB"),
    ]


def number(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    return f"{value:.3g} {unit}".strip()


def page() -> str:
    """The two tables of docs/scaling.md."""
    lines = ["| | by the formulas | measured |", "|---|---|---|"]
    for check in checks():
        both = number(check.predicted, check.unit), number(check.measured, check.unit)
        lines.append(f"| {check.what} | {both[0]} | {both[1]} |")
    lines += ["", "| 10¹¹ rows, 64 GPUs | **prediction**, not measured |", "|---|---|"]
    lines += [f"| {what} | {how} |" for what, how in predictions()]
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
