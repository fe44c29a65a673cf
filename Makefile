# The commands of this project. Everything sets itself up: a fresh machine needs Python 3.11 or newer and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2
WORDS := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src examples tools benchmarks
export OMP_NUM_THREADS ?= 1

.PHONY: setup check format test test-all chromium docs docs-serve docs-version notebooks dist first-minutes chaos bench demo clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), f"Python 3.11 or newer is needed, .venv has {sys.version}"'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $(STAMP)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell $(WORDS)
	$(BIN)/python -m tools.links

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup check chromium
	$(BIN)/pytest -m 'not slow' -n $(WORKERS)

test-all: setup check chromium
	$(BIN)/pytest -n $(WORKERS)

# Pages are tested in Chromium; where it is missing and cannot be installed, these tests are skipped.
chromium:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get install -qy chromium >/dev/null 2>&1; } || true

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "To read it, with search: $(BIN)/python -m http.server --directory site"

docs-serve: setup
	$(BIN)/mkdocs serve

docs-version: export PATH := $(abspath $(BIN)):$(PATH)
docs-version: setup  # adds this version to the branch gh-pages; PUSH=--push publishes it; mike starts mkdocs by its name
	$(BIN)/mike deploy --update-aliases $(PUSH) "$$($(BIN)/python -c 'import crystalrl; print(crystalrl.__version__)')" latest
	$(BIN)/mike set-default $(PUSH) latest

notebooks: setup
	$(BIN)/python -m tools.notebooks

dist: setup
	$(BIN)/python -m build

first-minutes: setup
	$(BIN)/python -m benchmarks run first-minutes --json benchmarks/results/first_minutes.json
	$(BIN)/python -m benchmarks render first-minutes

chaos: setup
	$(BIN)/python -m tests.chaos run --jobs $(WORKERS)
	$(BIN)/python -m tests.chaos render

bench: setup
	$(BIN)/python -m benchmarks run memory --json runs/benchmark-memory.json

demo: setup
	$(BIN)/crystalrl demo

clean:
	rm -rf .venv runs site build dist .pytest_cache .mypy_cache .ruff_cache
