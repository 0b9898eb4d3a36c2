# Two commands from a bare checkout: `make demo` and `make test`. Both build .venv themselves.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= 2

.PHONY: demo test test-long test-all fuzz mutants lint types format docs bench results results-gpu readme lines clean
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/eigenprobe demo --out demo

PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 25

# A few minutes.
test: lint types
	$(PYTEST) -m "not long"

# All other tests: known spectra by the hundred, odd arrays and files, pages in a browser, training.
test-long: $(READY)
	$(PYTEST) -m long

test-all: test test-long

# 10,000 odd arrays and 3,333 damaged files, the same ones every time: some minutes.
fuzz: $(READY)
	EIGENPROBE_FUZZ=10000 $(BIN)/python -m pytest tests/fuzz -n $(WORKERS)

# 16 one-line changes of each mathematical folder, which the tests that run the line should notice: about an hour.
mutants: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mutants]'
	$(BIN)/python -m benchmarks.mutants --own

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python -m zensical build --strict

bench: $(READY)
	$(BIN)/python -m benchmarks.direct

# Every file of benchmarks/results by its own command (benchmarks/catalogue.py): hours; those that need a GPU apart.
results: $(READY)
	$(BIN)/python -m benchmarks.catalogue --stale

results-gpu: $(READY)
	$(BIN)/python -m benchmarks.catalogue --stale --gpu

# The tables of the pages; refuses results whose sample gives other numbers today (STALE=--stale shows them, marked).
readme: $(READY)
	$(BIN)/python -m benchmarks.readme $(STALE)

# Tokens and lines of code by folder, without docstrings, comments and blank lines.
lines: $(READY)
	$(BIN)/python -m benchmarks.lines

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eigenprobe needs Python 3.11 or later; set PYTHON=/path/to/python")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv build dist site demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
