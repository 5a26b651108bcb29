"""Strict settings for every test: double precision, no rank promotion, seeded property tests.

Warnings are errors (pyproject.toml), and shapes are checked at run time: the pytest option
``--jaxtyping-packages`` makes beartype check every annotation of the package (tests/checking.py).
"""

import gc
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Tests compile many small programs and run each a few times: skip what makes programs fast and
# compilation slow. XLA ends the process if it does not know a flag.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false"
    * version("jaxlib").startswith(("0.8.", "0.9.", "0.10.")),
)

# The matrices of dense twins are small: threads that wait for one another take longer than one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What one worker compiled the other need not, nor the next run, in whatever checkout it is.
os.environ.setdefault(
    "STATEGP_CACHE",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stategp-tests"),
)

import jax
import pytest
from hypothesis import HealthCheck, settings

import tests.checking  # noqa: F401 (what pyproject.toml names has to be there before the package)
from stategp._runtime._memory import make_room

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.03)
# No line numbers in compiled programs, which nobody reads here, and which are part of their names
# in the cache.
jax.config.update("jax_include_full_tracebacks_in_locations", False)
jax.config.update("jax_traceback_in_locations_limit", 0)

settings.register_profile(
    "stategp",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("stategp")


def pytest_collection_modifyitems(items):
    """The longest modules first (and no other order, `--no-loadscope-reorder`): with two workers
    that each take a module at a time, one would otherwise wait for the other at the end.
    """
    long = ("test_docs", "test_deep", "test_additive", "test_estimators", "test_hostile")
    long += ("test_fitting", "test_automatic")
    items.sort(key=lambda item: not any(name in item.nodeid for name in long))


def pytest_collection_finish():
    """Tracing makes many objects and little garbage: look for it rarely, and not in the modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """Pytest looks for garbage twice at the very end, among all that was ever traced."""
    jax.clear_caches()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _bounded_memory_maps():
    """Every compiled program holds memory maps, of which Linux allows a process 65,530."""
    yield
    make_room()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, where it and playwright are installed."""
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    path = next(filter(None, found), None)
    if path is None:
        pytest.skip("no Chromium or Chrome is installed")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()
