"""The lines of the pages for Dask, Ray and Spark, run: `python -m benchmarks.clusters`.

Every engine starts workers on this machine, in a process and an environment of its own, and runs
what docs/scaling.md says (the code is taken from there) on files made for it; the summary must be
that of one process. Then the backends of joblib that docs/many.md names divide `sg.fit_many` among
workers, whose answers must be those of one process. `--store` writes docs/clusters-run.json and
what it found to both pages. Spark needs Java.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from benchmarks.blocks import DOCS, write_block
from stategp_experiments.studies import commit

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = DOCS / "clusters-run.json"
LONGEST = 600  # seconds for one engine
WORKERS = 2
ROWS, FILES, SERIES = 200_000, 6, 24
CLOSE = 1e-12  # relative difference of bounds from sums that are added up in another order

# What the reader has already: a cluster, and names of things.
BEGIN = {
    "Dask, bags": "client = distributed.Client(n_workers=2, threads_per_worker=1)",
    "Dask, data frames": """
import dask.dataframe
client = distributed.Client(n_workers=2, threads_per_worker=1)
dask_frame = dask.dataframe.read_parquet("visits").repartition(npartitions=5)
""",
    "Ray": """
import ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
""",
    "Spark": """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
""",
}
WORDS = {
    "Dask, bags": "db.from_sequence",
    "Dask, data frames": "dask_frame.to_delayed",
    "Ray": "ray.remote",
    "Spark": "spark.read",
}  # by which their lines are found on the page
BACKENDS = {
    "loky": "",
    "dask": "client = distributed.Client(n_workers=2, threads_per_worker=1)",
    "ray": f"{BEGIN['Ray']}\nfrom ray.util.joblib import register_ray\nregister_ray()",
    "spark": f"{BEGIN['Spark']}\nfrom joblibspark import register_spark\nregister_spark()",
}
SUMMARY = """
whole = sg.summarise(sg.stream("visits", time="hours", target="load", shortest=1.0))
model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
mine, theirs = (sg.condition(model, each, inducing=100).elbo for each in (summary, whole))
say({"rows": summary.rows, "apart": abs(mine / theirs - 1)})
"""
FITS = """
def whoever():
    time.sleep(0.2)  # so long that no worker does all of these
    return os.getpid()


x = np.arange(80.0)
rng = np.random.default_rng(0)
series = {n: (x, np.sin(x / (3 + n / 4)) + 0.3 * rng.standard_normal(80)) for n in range(SERIES)}
model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(), sg.means.Constant())
series["broken"] = x[:3], np.full(3, np.nan)
alone = sg.fit_many(model, series)
with joblib.parallel_config(backend=BACKEND):
    divided = sg.fit_many(model, series, n_jobs=2)
    workers = joblib.Parallel(n_jobs=2)(joblib.delayed(whoever)() for _ in range(8))
mine, theirs = (np.asarray(many.table["log_likelihood"])[:-1] for many in (divided, alone))
say({
    "series": len(divided),
    "workers": len({*workers} - {os.getpid()}),
    "failed": len(divided.failures["problem"]),
    "apart": float(np.max(np.abs(mine / theirs - 1))),
})
"""
PROGRAM = """
import json, os, time, warnings
from pathlib import Path


def main():
    import distributed
    import joblib
    import numpy as np
    import stategp as sg

    warnings.simplefilter("ignore")
    begin, lines = json.loads(Path("given.json").read_text())
    files = sorted(map(str, Path("visits").glob("*.parquet")))
    exec(begin, scope := globals() | locals())
    began = time.perf_counter()

    def say(found):
        print("found", json.dumps(found | {"seconds": round(time.perf_counter() - began, 2)}))

    exec(lines, scope | {"say": say})


if __name__ == "__main__":
    main()
"""


def lines_of(engine: str) -> str:
    """The code of the page for an engine, with what all of them share before it."""
    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    first = next(text for text in blocks if "def summarise_file" in text)
    return first + next(text for text in blocks if WORDS[engine] in text)


def make_files(folder: Path) -> None:
    """Rows in no order, in several files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, ROWS)
    y = np.sin(x) + 0.3 * rng.standard_normal(ROWS)
    (folder / "visits").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), FILES)):
        table = pa.table({"hours": x[rows], "load": y[rows]})
        pq.write_table(table, folder / "visits" / f"{number}.parquet", row_group_size=10_000)


def run(python: Path, begin: str, lines: str, folder: Path) -> dict:
    """What a program found, or the last of its words."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "given.json").write_text(json.dumps([begin, lines]))
    given = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [python, "program.py"], cwd=folder, env=given,
        capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    if not said:
        return {"error": done.stderr[-2000:]}
    found: dict = json.loads(said[-1].removeprefix("found "))
    return found


def versions(python: Path) -> dict[str, str]:
    names = ("dask", "ray", "pyspark", "joblib", "joblibspark")
    text = "import importlib.metadata as m, json, sys; " + (
        "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    )
    done = subprocess.run([python, "-c", text, *names], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def page(run: dict) -> str:
    """What docs/scaling.md says of a run."""
    found, known = run["engines"], run["versions"]
    farthest = max(one["apart"] for one in found.values())
    return textwrap.fill(
        f"`python -m benchmarks.clusters` runs these lines as they are here, each on {WORKERS} "
        f"workers of one machine: Dask {known['dask']} (both ways), Ray {known['ray']} and Spark "
        f"{known['pyspark']} sum up {run['rows']:,} rows in {FILES} files as one process "
        f"does; the bounds of fits agree to {farthest:.0e} ([numbers](clusters-run.json)).",
        width=100,
    )


def backends_page(run: dict) -> str:
    """What docs/many.md says of a run."""
    found = run["backends"]
    farthest = max(one["apart"] for one in found.values())
    to = f", to {farthest:.0e}" if farthest else " to the last digit"
    names = ", ".join(found)
    return textwrap.fill(
        f"`python -m benchmarks.clusters` divides {SERIES + 1} series, a broken one among them, "
        f"with each of them ({names}; {WORKERS} workers on one machine): every log p(y) is that "
        f"of one process{to} ([numbers](clusters-run.json)).",
        width=100,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--python", default="python3.11", help="for the environment of the engines")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name} and the pages")
    arguments = parser.parse_args()
    script = HERE / "peers" / "make_environments.sh"
    subprocess.run([script, arguments.environments, arguments.python, "clusters"], check=True)
    python = (arguments.environments / "clusters" / "bin" / "python").absolute()
    found: dict = {
        "date": datetime.date.today().isoformat(), "commit": commit(), "cores": os.cpu_count(),
        "versions": versions(python), "rows": ROWS, "engines": {}, "backends": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder)
        for engine, begin in BEGIN.items():
            lines = lines_of(engine) + SUMMARY
            found["engines"][engine] = run(python, begin, lines, folder)
            print(f"{engine}: {found['engines'][engine]}", flush=True)
        for backend, begin in BACKENDS.items():
            lines = FITS.replace("SERIES", str(SERIES)).replace("BACKEND", repr(backend))
            found["backends"][backend] = run(python, begin, lines, folder)
            print(f"joblib, {backend}: {found['backends'][backend]}", flush=True)
    every = [*found["engines"].values(), *found["backends"].values()]
    fine = all("error" not in one and one["apart"] <= CLOSE for one in every)
    fine = fine and all(one["workers"] == WORKERS for one in found["backends"].values())
    if fine and arguments.store:
        STORED.write_text(json.dumps(found, indent=1) + "\n")
        write_block("scaling.md", "clusters", page(found))
        write_block("many.md", "backends", backends_page(found))
    print("all the same" if fine else "NOT all the same, nothing is stored")
    sys.exit(not fine)


if __name__ == "__main__":
    main()
