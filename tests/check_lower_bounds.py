"""`make lower-bounds`: tests with the lowest versions of everything that pyproject.toml allows.

An environment is made in the folder given, with the versions of lower-bounds.txt; installing the
package there fails if they are below what pyproject.toml asks for. The tests are few, and touch
every library. Deprecations are ignored: old libraries beside new ones of their own have many.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ROOT / "tests" / "lower-bounds.txt"
TOOLS = ["pytest", "hypothesis", "mpmath", "beartype"]  # as new as they come
TESTS = {
    "jax, equinox, jaxtyping, numpy, scipy, threadpoolctl": [
        "tests/test_docs.py::test_code_runs[README]"
    ],
    "optax": ["tests/inference/test_first_order.py::test_adam_on_the_hyperparameters"],
    "safetensors, typer, rich, pandas": ["tests/test_docs.py::test_code_runs[docs/quickstart]"],
    "narwhals, polars, pyarrow": ["tests/forecasting/test_axis.py"],
    "holidays": ["tests/forecasting/test_holidays.py::test_dates"],
    "pooch, pyarrow": ["tests/data/test_loaders.py"],
    "matplotlib": ["tests/test_plots.py::test_few_observations"],
    "joblib": ["tests/forecasting/test_panel.py::test_jobs_share_the_series"],
    "scikit-learn": ["tests/test_estimators.py::test_a_pipeline_and_the_units_of_x"],
}


def main() -> None:
    environment = Path(sys.argv[1])
    python = environment / "bin" / "python"
    installed = environment / "installed.txt"
    wanted = VERSIONS.read_text() + (ROOT / "pyproject.toml").read_text()
    if not installed.exists() or installed.read_text() != wanted:
        venv.create(environment, clear=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        install = [*pip, "install", "--quiet", "--no-compile", "-r", str(VERSIONS)]
        # Dependencies first: meanwhile `make test` builds the kernels, elsewhere and once.
        for package in (TOOLS, ["-e", f"{ROOT}[all]"]):
            subprocess.run([*install, *package], check=True)
        installed.write_text(wanted)
    options = ["-o", "addopts=-q --import-mode=importlib", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::DeprecationWarning"]
    tests = [test for some in TESTS.values() for test in some]
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-m", "pytest", *options, *tests], cwd=ROOT, env=surroundings, check=False
    )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
