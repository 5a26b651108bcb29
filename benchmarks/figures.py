"""Figures of the documentation, from the stored run: `python -m benchmarks.figures`.

The stored run is docs/performance-full-run.json, a file that `make bench` wrote; for the page on
GPUs it is docs/gpu-run.json, written by `python -m benchmarks.gpu --save`; what people wait for is
docs/waiting-run.json (`python -m benchmarks.waiting --store`), and what a state of a chain costs
docs/chain-run.json (`python -m benchmarks.chain --store`). Every figure that a page quotes is named
here with the words around it; the command writes them into the pages again (after the file has been
replaced), and tests/test_figures.py compares them.
"""

import datetime
import json
import re
from pathlib import Path

from benchmarks import targets

DOCS = Path(__file__).parent.parent / "docs"
STORED = DOCS / "performance-full-run.json"
CHAIN = json.loads((DOCS / "chain-run.json").read_text(encoding="utf-8"))  # benchmarks.chain
GPU = json.loads((DOCS / "gpu-run.json").read_text(encoding="utf-8"))
_WAITING = DOCS / "waiting-run.json"
WAITING = json.loads(_WAITING.read_text(encoding="utf-8")) if _WAITING.exists() else {"results": []}


class Run:
    """What was measured, by who, case and work."""

    def __init__(self, stored: dict):
        self.stored, self.results = stored, stored["results"]

    def one(self, work, case="gaussian, N=1e6, M=1000", who="stategp", kernel="matern32") -> dict:
        """The last measurement of it."""
        for result in reversed(self.results):
            key = result["who"], result["case"], result["work"], result["job"]["kernel"]
            if key == (who, case, work, kernel):
                return result
        raise KeyError(f"the stored run has no {work!r} of {case!r} by {who} with {kernel}")

    def seconds(self, *arguments, **named) -> float:
        return self.one(*arguments, **named)["seconds"]


def in_chain(way: str, dim: int, work: str, field: str = "seconds", even: bool = False) -> float:
    """Of the stored run of benchmarks.chain: seconds a state, or of compilation."""
    wanted = (way, dim, work, even)
    for one in CHAIN["results"]:
        if (one["way"], one["d"], one["work"], one["even"]) == wanted:
            value: float = one[field]
            return value / one["states"] if field == "seconds" else value
    raise KeyError(f"the stored run of benchmarks.chain has no {wanted}")


# How figures are written


def milliseconds(seconds: float) -> str:
    value = 1e3 * seconds
    return f"{value:.1f}" if value < 999.95 else f"{value:,.0f}"


def short(seconds: float, unit: float) -> str:
    """Two digits, or all in front of the point."""
    value = seconds / unit
    digits = 2 if value < 3 else 1 if value < 10 else 0
    return f"{value:.{digits}f}"


# Phrases: {} is a figure, and any white space matches any other

GAUSSIAN_5K, GAUSSIAN_1E5 = "gaussian, N=5e3, M=50", "gaussian, N=1e5, M=1000"
GAUSSIAN_1E6, BERNOULLI = "gaussian, N=1e6, M=1000", "bernoulli, N=1e5, M=1000"
FIT = "gaussian, N=1e4, M=100"
EXACT = ("exact", "exact+gradient")
EIGHT = {"case": f"{GAUSSIAN_1E5}, d = 8", "kernel": "four-matern32"}
GENERAL = "Matérn-3/2 as any equation, N=1e5, M=1000: "


def phrases(run: Run) -> dict[str, list[tuple[str, list[str]]]]:
    """The figures of every page, with the words around them."""

    def rows(work):
        return short(run.seconds(f"{work}/rows") / run.one(f"{work}/rows")["n"], 1e-9)

    def per_state(dim):
        return in_chain("compiled", dim, "sweep")

    def general(work, kernel):
        return milliseconds(run.seconds(work, GENERAL + kernel, kernel=kernel))

    def exact(work, who="stategp"):
        return run.seconds(work, GAUSSIAN_1E5, who)

    def against(peer, work, **which):
        which = {"case": GAUSSIAN_1E5} | which
        theirs, ours = (run.seconds(work, who=who, **which) for who in (peer, "stategp"))
        return f"{theirs / ours:.1f}"

    def first_fit(state, name):
        return run.one("first-fit", f"first fit, {state} cache")[name]

    least, more, most = (
        run.one("memory", f"gaussian, N={n}, M=1000") for n in ("1e6", "3e6", "1e7")
    )
    moving = in_chain("compiled", 16, "likelihood + gradient, general", even=True)
    still = in_chain("compiled", 16, "likelihood + gradient", even=True)
    date = datetime.date.fromisoformat(run.stored["date"])
    whole = sum(result["process_seconds"] for result in run.results)
    state = [short(per_state(dim), 1e-6) for dim in (2, 3, 8, 16)]
    sde = [
        general(work, kernel)
        for work in ("elbo+gradient", "elbo+gradient/rows")
        for kernel in ("matern32-sde", "matern32")
    ]
    collapsed = run.seconds("exact+gradient", who="celerite2") / run.seconds("collapsed+gradient")
    return {
        "performance.md": [
            ("takes {} minutes", [f"{whole / 60:.0f}"]),
            ("AMD EPYC, {} JAX", [f"{date.day} {date:%B %Y},"]),
            ("JAX {}, double", [run.one("elbo")["versions"]["jax"]]),
            ("that takes {} ms for a million", [milliseconds(run.seconds("pack"))]),
            ("data** costs {} ns per observation", [rows("elbo")]),
            ("the pass takes {} ns", [rows("elbo+gradient")]),
            ("costs {} µs per state at d = 2 and {} µs at d = 3", state[:2]),
            ("cost {} µs each at d = 8 and {} µs at d = 16", state[2:]),
            ("takes {} ms in place of {} ms, and {} ms in place of {} ms", sde),
            (
                "celerite2 takes {} times as long for the value and {} times with the gradient, "
                "tinygp {} and {} times;",
                [against(peer, work) for peer in ("celerite2", "tinygp") for work in EXACT],
            ),
            (
                "(d = 8) celerite2 takes {} and {} times as long",
                [against("celerite2", work, **EIGHT) for work in EXACT],
            ),
            ("value and gradient take {} times less", [f"{moving / still:.0f}"]),
            (
                "needs some {} MB whatever their number: the peak above the data is {} times the "
                "data for a million observations, {} times for three million and {} times for ten",
                [
                    f"{least['peak_bytes'] / 1e6:.0f}",
                    *(f"{one['share']:.1f}" for one in (least, more, most)),
                ],
            ),
            (
                "waits for the compiler: {} s, or {} s once",
                [f"{first_fit(state, 'seconds'):.1f}" for state in ("empty", "filled")],
            ),
        ],
        "bigdata.md": [
            ("which takes {} ms for a million", [milliseconds(run.seconds("pack"))]),
            (
                "step takes {} ms, the bound with its gradient {} ms",
                [milliseconds(run.seconds(work)) for work in ("natural-step", "elbo+gradient")],
            ),
            (
                "costs {} ns per observation, {} ns with the gradient",
                [rows("elbo"), rows("elbo+gradient")],
            ),
            ("take {} ms for the bound", [milliseconds(run.seconds("elbo+gradient", BERNOULLI))]),
            (
                "costs {} µs per inducing state at d = 2 and {} µs at d = 3, but {} µs at d = 8 "
                "and {} µs at d = 16",
                state,
            ),
            (
                "peak was {} times the data for ten million observations and {} MB for one",
                [f"{most['share']:.1f}", f"{least['peak_bytes'] / 1e6:.0f}"],
            ),
            (
                "first: {} s from the start of a process to its first posterior, {} s when",
                [f"{first_fit(state, 'process_seconds'):.1f}" for state in ("empty", "filled")],
            ),
        ],
        "coming-from.md": [
            (
                "[{} ms against {} ms]",
                [milliseconds(exact("exact", "celerite2")), milliseconds(exact("exact"))],
            ),
            ("take [{} times less]", [f"{collapsed:.0f}"]),
        ],
        "gpu.md": [
            ("JAX {} (`python -m benchmarks.gpu`)", [GPU["jax"]]),
            (
                "Packing takes {} s (Gaussian) and {} s (Poisson); the first time, with "
                "compilation, {} s and {} s.",
                [
                    short(one["pack"][kind], 1.0)
                    for kind in ("seconds", "first_seconds")
                    for one in GPU["results"]
                ],
            ),
        ],
    }


# Tables

PEERS = {
    "stategp": "stategp",
    "markovflow": "Markovflow",
    "gpflow": "GPflow",
    "gpytorch": "GPyTorch",
    "celerite2": "celerite2",
    "tinygp": "tinygp",
}
WORKS = ("elbo", "elbo+gradient", "natural-step")
# label, case, work, and what it is called for us
LINES = [
    *((f"{work}, N=5,000, M=50", GAUSSIAN_5K, work, work) for work in WORKS),
    *((f"{work}, N=100,000, M=1,000", GAUSSIAN_1E5, work, work) for work in WORKS),
    *((f"{work}, N=1,000,000, M=1,000", GAUSSIAN_1E6, work, work) for work in WORKS),
    *(
        (f"{work}, N=1,000,000, M=1,000, ours passing over all data", GAUSSIAN_1E6, work,
         f"{work}/rows")
        for work in WORKS
    ),
    *((f"Bernoulli: {work}, N=100,000, M=1,000", BERNOULLI, work, work) for work in WORKS),
    ("exact likelihood, N=100,000", GAUSSIAN_1E5, "exact", "exact"),
    ("exact likelihood + gradient, N=100,000", GAUSSIAN_1E5, "exact+gradient", "exact+gradient"),
    ("mean and variance at 2,000 points, N=5,000, M=50", GAUSSIAN_5K, "predict", "predict"),
    ("mean and variance at 1,000,000 points, N=100,000, M=1,000", GAUSSIAN_1E5, "predict",
     "predict"),
    ("ten joint samples at 2,000 points, N=5,000, M=50", GAUSSIAN_5K, "sample", "sample"),
    ("fit to 0.1 % of the best bound, N=10,000, M=100, without compiling", FIT, "fit", "fit"),
]  # fmt: skip


def milliseconds_table(run: Run) -> str:
    lines = [f"| milliseconds | {' | '.join(PEERS.values())} |", "|---" * (len(PEERS) + 1) + "|"]
    for label, case, work, ours in LINES:
        cells = [_cell(run, case, ours if who == "stategp" else work, who) for who in PEERS]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(run: Run, case: str, work: str, who: str) -> str:
    """A dash where nothing was measured; where a fit did not get there, how it ended."""
    try:
        result = run.one(work, case, who)
    except KeyError:
        return "–"
    if "seconds" not in result:
        return "–"
    if result.get("reached") is False:
        limit = result["job"]["max_seconds"]
        if result["seconds"] >= limit:
            return f"> {1e3 * limit:,.0f}"
        return f"not reached ({milliseconds(result['seconds'])})"
    return milliseconds(result["seconds"])


def targets_table(run: Run) -> str:
    """Of what was measured in this run, except for waiting, which has a run of its own."""
    lines = targets.table([one for one in run.results if one["work"] != "waiting"]).splitlines()
    return "\n".join(line for line in lines if not line.endswith("| – |"))


def waiting_table(run: Run) -> str:
    """What people wait for, with the targets in brackets."""
    lines = [
        "| seconds (target) | empty cache | filled cache | same process, later | peak memory |",
        "|---|---|---|---|---|",
    ]
    for label, taken, most, memory in targets.waited(WAITING["results"]):
        cells = [
            "–" if seconds is None else f"{seconds:.1f}" + (f" (≤ {limit})" if limit else "")
            for seconds, limit in zip(taken, most, strict=True)
        ]
        lines.append(f"| {label} | {' | '.join(cells)} | {memory:,.0f} MB |")
    return "\n".join(lines)


CHAIN_DIMS = (2, 3, 5, 8, 11, 16)
CHAIN_WAYS = {"compiled": "compiled kernels", "JAX": "JAX, our recursions", "scan": "a plain scan"}


def chain_table(run: Run) -> str:
    """Compiled kernels against what XLA makes of recursions; a dash where nothing was measured."""
    lines = [
        f"| µs a state | {' | '.join(f'd = {dim}' for dim in CHAIN_DIMS)} | compiling, s |",
        "|---" * (len(CHAIN_DIMS) + 2) + "|",
    ]
    measured = {(one["way"], one["work"]) for one in CHAIN["results"]}
    for work in ("likelihood", "likelihood + gradient", "sweep"):
        for way, label in CHAIN_WAYS.items():
            if (way, work) in measured:
                cells = [short(in_chain(way, dim, work), 1e-6) for dim in CHAIN_DIMS]
                waits = [in_chain(way, dim, work, "compiling") for dim in CHAIN_DIMS]
                cells.append(f"{min(waits):.2g} to {max(waits):.2g}")
                lines.append(f"| {work}, {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gpu_table(run: Run) -> str:
    """Of the run on a GPU."""
    works = ("natural step", "bound + gradients")
    lines = ["| milliseconds | natural-gradient step | bound + gradients |", "|---|---|---|"]
    for one in GPU["results"]:
        for view, label in (("sums", "data reduced to sums"), ("rows", "pass over all data")):
            cells = [milliseconds(one["works"][view][work]["seconds"]) for work in works]
            lines.append(f"| {one['likelihood'].capitalize()}, {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {
    "performance.md": [milliseconds_table, targets_table, waiting_table, chain_table],
    "gpu.md": [gpu_table],
}


# Pages


def pattern(phrase: str) -> re.Pattern:
    """The phrase with a group for every figure, wherever its lines break."""
    figure = r"(?<![\d.,])(\d[\w.,\s]{0,25}?)"
    words = [re.escape(word).replace(r"\{\}", figure) for word in phrase.split()]
    return re.compile(r"\s+".join(words))


def written(page: str, text: str, run: Run) -> str:
    """The page with the figures of this run."""
    for phrase, values in phrases(run).get(page, []):
        matches = list(pattern(phrase).finditer(text))
        if len(matches) != 1:
            raise ValueError(f"{page} has {phrase!r} {len(matches)} times, expected once")
        (match,) = matches
        for group in range(len(values), 0, -1):
            text = text[: match.start(group)] + values[group - 1] + text[match.end(group) :]
    for table in TABLES.get(page, []):
        fresh = table(run)
        head = fresh.split("\n", 1)[0]
        if text.count(head) != 1:
            raise ValueError(f"{page} has the table {head!r} {text.count(head)} times")
        start = text.index(head)
        text = text[:start] + fresh + text[text.index("\n\n", start) :]
    return text


def load() -> Run:
    return Run(json.loads(STORED.read_text(encoding="utf-8")))


def main() -> None:
    run = load()
    for page in phrases(run):
        file = DOCS / page
        text = file.read_text(encoding="utf-8")
        fresh = written(page, text, run)
        if fresh != text:
            file.write_text(fresh, encoding="utf-8")
        print(f"docs/{page}: {'written anew' if fresh != text else 'as it was'}")


if __name__ == "__main__":
    main()
