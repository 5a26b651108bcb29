# `make demo` and `make test` need Python >= 3.11 and make, nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# The studies, each `make NAME`; they need the data sets (STATEGP_DATA, or the network).
STUDIES := $(shell $(PYTHON) -I experiments/stategp_experiments/__main__.py --names 2>/dev/null)

PIP := -m pip --disable-pip-version-check
DEVELOPMENT := $(VENV)/.dev-ready
SOURCES := $(shell find src -type f ! -name '*.pyc')
TESTS := $(shell find tests -name '*.py')
# Many short processes import JAX: in half the time if its modules are compiled, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=
# Checks that passed, and pass again as long as none of the files they depend on changes.
CHECKED := build/checked

.DELETE_ON_ERROR:
.PHONY: help demo test lint types docs wheel lower-bounds unit format estimator-checks sktime-checks bench bench-forecasts experiments clean $(STUDIES)
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18
	@echo "studies:          $(STUDIES)"

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found; give one: make PYTHON=python3" >&2; exit 2; }
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stategp needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP) install --quiet -e '.[all]'
	@touch $@

$(DEVELOPMENT): pyproject.toml experiments/pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP) install --quiet --no-compile -e '.[dev]' -e experiments
	@touch $@ $(VENV)/.demo-ready

demo: $(VENV)/.demo-ready  ## simulate counts, fit, forecast, plot and report into demo-output/
	$(BIN)/stategp demo

# Two at a time: most of them keep one core busy and wait for the network. `lower-bounds` and `wheel`
# have environments of their own and run while that of the others is installed.
test: $(BIN)/python  ## everything from `lint` to `unit`, as continuous integration runs it
	$(MAKE) -j2 lint types docs lower-bounds wheel unit

lint: $(DEVELOPMENT)  ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEVELOPMENT)  ## mypy, strict
	$(BIN)/mypy

docs: site/index.html  ## build the documentation into site/, warnings as errors
site/index.html: mkdocs.yml $(shell find docs -type f) $(SOURCES) | $(DEVELOPMENT)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: $(CHECKED)/wheel  ## install the built wheel into an empty environment and run README's example there
$(CHECKED)/wheel: pyproject.toml README.md tests/check_wheel.py tests/pages.py $(SOURCES) | $(BIN)/python
	$(BIN)/python tests/check_wheel.py
	@mkdir -p $(@D) && touch $@

lower-bounds: $(CHECKED)/lower-bounds  ## some tests with the lowest versions that pyproject.toml allows
$(CHECKED)/lower-bounds: tests/lower-bounds.txt pyproject.toml README.md docs/quickstart.md $(SOURCES) $(TESTS) | $(BIN)/python
	$(BIN)/python tests/check_lower_bounds.py build/lower-bounds
	@mkdir -p $(@D) && touch $@

unit: $(DEVELOPMENT)  ## pytest
	$(BIN)/pytest

format: $(DEVELOPMENT)  ## format and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

estimator-checks: $(DEVELOPMENT)  ## all of scikit-learn's check_estimator, with default parameters
	STATEGP_ALL_CHECKS=1 $(BIN)/pytest -v -k test_scikit_learn tests/test_estimators.py

sktime-checks: | $(BIN)/python  ## sktime's check_estimator, in an environment of its own (build/sktime)
	$(BIN)/python -m venv build/sktime
	build/sktime/bin/python $(PIP) install --quiet -e '.[sktime]' beartype hypothesis pytest pytest-xdist statsforecast
	build/sktime/bin/pytest -v -W default -n 0 tests/test_sktime.py tests/test_statsforecast.py
	build/sktime/bin/python -W ignore tests/check_sktime.py

bench: $(DEVELOPMENT)  ## compare stategp with other libraries (QUICK=1: a few minutes)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(ALONE),--without-peers) --python $(PYTHON)

bench-forecasts: $(DEVELOPMENT)  ## compare forecasts with statsforecast and Prophet (QUICK=1: forty series of each kind)
	$(BIN)/python -m benchmarks.forecasts $(if $(QUICK),--quick) $(if $(ALONE),--without-peers) --python $(PYTHON)

experiments: $(DEVELOPMENT)  ## every experiment of the paper (QUICK=1: within ten minutes)
	$(BIN)/stategp-experiments all $(if $(QUICK),--quick)

$(STUDIES): $(DEVELOPMENT)
	$(BIN)/stategp-experiments $@ $(if $(QUICK),--quick)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
