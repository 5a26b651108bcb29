"""What users see of the package: these names, no others, and the reference lists the same."""

import importlib.metadata
import re
import subprocess
import sys
import typing

import pytest

import stategp as sg
from stategp._fitting._methods import METHODS
from stategp._fitting._options import MethodName
from tests.pages import ROOT

MODELS = [
    "AdditiveGP",
    "DeepGP",
    "GP",
    "JointGP",
    "Layer",
    "MultiOutputGP",
    "SpaceTimeGP",
    "StackedGP",
]
FITTING = [
    "Auto",
    "BayesNewton",
    "CheckpointWarning",
    "ImportanceWeighted",
    "Learned",
    "LogPosterior",
    "NotConvergedWarning",
    "PowerEP",
]
POSTERIORS = [
    "AdditivePosterior",
    "Certificate",
    "DeepPosterior",
    "Filter",
    "FitResult",
    "JointPosterior",
    "ManyPosteriors",
    "MultiOutputPosterior",
    "Outcome",
    "Posterior",
    "SpaceTimePosterior",
    "StackedPosterior",
]
STREAMS = ["Stream", "Summary", "stream", "summarise"]
FUNCTIONS = [
    "condition",
    "fit",
    "fit_many",
    "fixed",
    "load",
    "log_posterior",
    "parameter",
    "register",
]
DOORS = [
    "Effect",
    "Event",
    "ForecastWarning",
    "Forecaster",
    "GPClassifier",
    "GPRegressor",
    "Holidays",
    "Parameter",
]
RUNTIME = ["describe_runtime", "join_processes"]
EXPRESSIONS = ["parse_kernel", "write_kernel"]
MODULES = [
    "chain",
    "data",
    "kernels",
    "likelihoods",
    "means",
    "metrics",
    "plots",
    "priors",
    "report",
    "spatial",
]
INTERFACE = sorted(
    MODELS + FITTING + POSTERIORS + DOORS + FUNCTIONS + EXPRESSIONS + MODULES + RUNTIME + STREAMS,
)
DATA_SETS = ["aircraft", "airline", "co2", "coal", "motorcycle", "rainforest", "solar", "vowel"]


def test_dir_lists_the_interface_and_nothing_else():
    assert dir(sg) == sorted([*INTERFACE, "__version__"])
    assert sorted(sg.__all__) == INTERFACE


@pytest.mark.parametrize("name", INTERFACE)
def test_every_name_is_there(name):
    assert getattr(sg, name) is not None


# Optional, or slow to import and not needed by every fit.
LATER = (
    "sklearn", "matplotlib", "pandas", "typer", "pyarrow", "narwhals", "optax",
    "scipy.optimize", "scipy.linalg", "scipy.stats", "scipy.signal", "scipy.sparse",
)  # fmt: skip


def test_what_is_slow_to_import_is_imported_when_it_is_needed():
    code = (
        "import sys, stategp; dir(stategp);"
        f"print([name for name in {LATER!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'stategp' has no attribute 'GPs'"):
        _ = sg.GPs


def test_type_checkers_know_every_method():
    assert set(typing.get_args(MethodName)) == {method.name for method in METHODS}


def test_data_are_the_loaders_and_the_classes_of_what_they_return():
    classes = [name for name in sg.data.__all__ if isinstance(getattr(sg.data, name), type)]
    assert sorted(set(sg.data.__all__) - set(classes)) == DATA_SETS
    assert all(callable(getattr(sg.data, name)) for name in DATA_SETS)


def test_the_version_is_that_of_the_installed_package_and_of_the_citation():
    assert sg.__version__ == importlib.metadata.version("stategp")
    assert f"version: {sg.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_reference_lists_the_same_names():
    page = (ROOT / "docs/api/index.md").read_text()
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| [")]
    listed = [name.removeprefix("sg.") for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert sorted(listed) == INTERFACE
