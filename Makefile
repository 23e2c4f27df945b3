# Everything from a fresh checkout: make demo, make test. `make help` lists the rest.
# Needs make and Python 3.11 or newer with its venv module; the rest comes from the package index that pip uses.

.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
ROOMS := workflows jobs kernels engines throttling
EVENTS ?= 1000
DEMO ?= demo
PYTEST_FLAGS ?=
BENCH_FLAGS ?=

say = @printf '\n==> %s\n' "$(1)"

.PHONY: help demo test lint types unit docs bench install format clean

help: ## show this list
	@printf 'Egretta: make TARGET\n\n'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1@\2/p' Makefile | awk -F@ '{ printf "%-10s %s\n", $$1, $$2 }'
	@printf '\nSettings: make demo EVENTS=%s DEMO=%s; make test PYTEST_FLAGS="-k ledger"\n' '$(EVENTS)' '$(DEMO)'

demo: $(VENV)/.run ## simulate events, run a campaign on all cores, validate, write a report into ./demo
	$(call say,Demonstration: $(EVENTS) simulated events into $(DEMO)/)
	@$(BIN)/egretta demo $(DEMO) --events $(EVENTS)

test: lint types unit docs ## everything that must hold: style, types, tests with coverage, documentation
	$(call say,All checks passed)

lint: $(VENV)/.dev ## style (ruff)
	$(call say,Style: ruff)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.dev build/typing/egretta ## types (mypy, strict)
	$(call say,Types: mypy --strict)
	@$(BIN)/mypy $(ROOMS:%=-p egretta.%)

unit: $(VENV)/.dev ## tests with their coverage and the slowest of them
	$(call say,Tests: pytest with coverage (tests of real events skip where there are none))
	@$(BIN)/pytest --cov --cov-report=term:skip-covered --durations=15 --durations-min=1 $(PYTEST_FLAGS)

docs: $(VENV)/.dev ## build the documentation into ./site
	$(call say,Documentation: mkdocs)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@printf 'written to site/index.html\n'

bench: $(VENV)/.bench ## measure speed and physics (minutes; benchmarks/RESULTS.md holds the figures)
	$(call say,Benchmarks: let nothing else run meanwhile (BENCH_FLAGS=--quick only tries them))
	@$(BIN)/python -m benchmarks $(BENCH_FLAGS)

install: $(VENV)/.dev ## make the environment in ./.venv, for development
	@printf 'environment: . %s/activate\n' $(BIN)

format: $(VENV)/.dev ## put the code into the project's format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean: ## remove what was built here, but no environment and no results
	rm -rf build dist site htmlcov .coverage coverage.xml .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find $(ROOMS) tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

# The rooms under the name they are installed by, for mypy.
build/typing/egretta: Makefile
	@mkdir -p $@
	@for room in $(ROOMS); do ln -sfn ../../../$$room $@/$$room; done
	@touch $@

# Stamps: one for each set of extras. .dev and .bench bring all that .run needs.
$(VENV)/.run: $(BIN)/python setup.cfg pyproject.toml
	$(call say,Install: Egretta and what it needs (some minutes the first time))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/python setup.cfg pyproject.toml
	$(call say,Install: Egretta with the tools of its developers (some minutes the first time))
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,parquet]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.dev
	$(call say,Install: the programs that Egretta is measured against)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,parquet,bench]'
	@touch $@

# The first Python of 3.11 or newer. A Debian or Ubuntu that lacks one, or its venv module, is told what to install.
$(BIN)/python:
	$(call say,Environment: $(VENV))
	@set -eu; found=; for python in "$${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do \
	  if command -v "$$python" >/dev/null 2>&1 && \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'make: no Python 3.11 or newer was found.' >&2; \
	  echo '  what to do: apt-get install python3 python3-venv  (Debian 12, Ubuntu 24.04 or newer);' >&2; \
	  echo '  on an older one install a newer Python and name it: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
	  version=$$("$$found" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "make: $$found $$version cannot make environments: its venv module is missing." >&2; \
	  echo "  what to do: apt-get install python3-venv  (or python$$version-venv)" >&2; exit 1; \
	fi; \
	"$$found" --version; "$$found" -m venv $(VENV)
