# Every target installs what it needs and is quiet when it succeeds.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Daemons and commands are started hundreds of times in the tests: compiled once, each of them starts in half of the time.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?=
BIN := .venv/bin
# Two stamps: what runs ostler, which is all that the demo needs, and what works on it.
RUNTIME := .venv/.installed
STAMP := .venv/.installed-dev

.PHONY: help demo test quick lint check bench faults format generate install upgrade clean

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */  make \1\t/' | expand -t 18

$(RUNTIME): pyproject.toml constraints.txt scripts/install
	@PYTHON="$(PYTHON)" scripts/install
	@touch $@

$(STAMP): $(RUNTIME) scripts/system-packages
	@scripts/install dev
	@touch $@

install: $(STAMP) ## the Python packages in .venv, and the programs that the tests call

demo: $(RUNTIME) ## the main job, from a cold start, in a temporary home
	@$(BIN)/python scripts/demo.py

test: $(STAMP) ## the tests
	@$(BIN)/python -m pytest

# Twice as many processes as cores, as some tests wait: four took 72 seconds of an idle machine, six 70.
# Properties have fewer examples than in make test.
quick: $(STAMP) ## all tests that need no daemon, in a bit more than a minute
	@$(BIN)/python -m pytest -m 'not bench and not daemon' -n 4 --hypothesis-profile=quick

lint: $(STAMP) ## format, lint, types, import contracts, dependencies, generated files
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/pyright --level error >.venv/pyright.log || { cat .venv/pyright.log; exit 1; }
	@$(BIN)/lint-imports --no-logo >.venv/imports.log || { cat .venv/imports.log; exit 1; }
	@$(BIN)/deptry . >.venv/deptry.log 2>&1 || { cat .venv/deptry.log; exit 1; }
	@$(BIN)/python -m scripts.generate --check

check: lint test ## lint and test: the whole truth

format: $(STAMP) ## rewrite the code as the formatter wants it
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

generate: $(STAMP) ## write the generated documentation again
	@$(BIN)/python -m scripts.generate

faults: $(STAMP) ## hundreds of kills, full disks, broken files: a table
	@$(BIN)/python -m tests.faults

bench: $(STAMP) ## how fast, each against a floor in the same run: a table
	@$(BIN)/python -m pytest tests/bench -m bench
	@$(BIN)/python -m tests.bench

upgrade: ## the newest packages that pyproject.toml allows, noted in constraints.txt
	@rm -rf .venv
	@CONSTRAINTS=/dev/null PYTHON="$(PYTHON)" scripts/install
	@CONSTRAINTS=/dev/null scripts/install dev
	@head -n 1 constraints.txt > .venv/constraints.txt
	@$(BIN)/pip freeze --exclude-editable --exclude pip >> .venv/constraints.txt
	@mv .venv/constraints.txt constraints.txt
	@touch $(RUNTIME) $(STAMP)

clean: ## what was installed and cached here
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
