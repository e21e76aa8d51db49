# The words that people and CI use. Each makes its own .venv when there is none.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo brokers test soak check bench mutants format clean

demo: $(STAMP)
	$(BIN)/python -m demo

brokers: $(STAMP)
	$(BIN)/python -m bench.brokers $(PORT)

test: $(STAMP)
	$(BIN)/python -m pytest -q

# The same tests of Kafka under faults as in `test`, for longer: half an hour.
soak: $(STAMP)
	HEADRACE_SOAK=1 $(BIN)/python -m pytest -q tests/integration/kafka_faults

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

bench: $(STAMP)
	$(BIN)/python -m bench.engine
	$(BIN)/python -m bench.files
	$(BIN)/python -m bench.filters
	$(BIN)/python -m bench.kafka

mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 to 3.13, this is " + sys.version.split()[0]) if not (3, 11) <= sys.version_info[:2] <= (3, 13) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
