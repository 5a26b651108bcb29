# `make demo` and `make test` need Python >= 3.11 and make, nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint types unit format bench solar clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

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

demo: $(VENV)/.demo-ready  ## fit a long irregular series, forecast, draw a picture
	$(BIN)/python examples/demo.py

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

bench: $(VENV)/.dev-ready  ## the benchmarks
	$(BIN)/python -m benchmarks

solar: $(VENV)/.dev-ready  ## the solar-irradiance study: tables and a picture
	$(BIN)/python -m experiments.solar

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
