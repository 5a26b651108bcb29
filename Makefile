# `make demo` and `make test` need Python >= 3.11 and make, nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# The studies, each `make NAME`; they need the data sets (STATEGP_DATA, or the network).
STUDIES := solar audio airline time-warp natural-gradients classification complexity co2 coal motorcycle aircraft step additive-variances minibatches automatic-inducing hostile

.PHONY: help demo test lint types unit format docs estimator-checks bench experiments clean $(STUDIES)
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12
	@echo "studies:    $(STUDIES)"

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found; give one: make PYTHON=python3" >&2; exit 2; }
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stategp needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	@touch $@

$(VENV)/.dev-ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.demo-ready

demo: $(VENV)/.demo-ready  ## simulate counts, fit, forecast, draw, report: demo-output/
	$(BIN)/stategp demo

test: lint types unit  ## lint, types and tests: what continuous integration runs

lint: $(VENV)/.dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev-ready
	$(BIN)/mypy

unit: $(VENV)/.dev-ready
	$(BIN)/pytest

format: $(VENV)/.dev-ready  ## format and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.dev-ready  ## build the documentation into site/, warnings as errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

estimator-checks: $(VENV)/.dev-ready  ## scikit-learn's check_estimator, all of it, defaults
	STATEGP_ALL_CHECKS=1 $(BIN)/pytest -v -k test_scikit_learn tests/test_estimators.py

bench: $(VENV)/.dev-ready  ## stategp and its peers side by side (QUICK=1: a few minutes)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick) $(if $(ALONE),--without-peers) --python $(PYTHON)

experiments: $(VENV)/.dev-ready  ## every experiment of the paper (QUICK=1: within ten minutes)
	$(BIN)/stategp-experiments all $(if $(QUICK),--quick)

$(STUDIES): $(VENV)/.dev-ready
	$(BIN)/stategp-experiments $@ $(if $(QUICK),--quick)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
