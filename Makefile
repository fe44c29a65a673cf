# The commands of this project. Everything sets itself up: a fresh machine needs Python 3.11 or newer and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1

.PHONY: setup check format test test-all chromium chaos bench demo clean

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

chaos: setup
	$(BIN)/python -m tests.chaos run --jobs $(WORKERS)
	$(BIN)/python -m tests.chaos render

bench: setup
	$(BIN)/python -m benchmarks run memory --json runs/benchmark-memory.json

demo: setup
	$(BIN)/crystalrl demo

clean:
	rm -rf .venv runs .pytest_cache .mypy_cache .ruff_cache
