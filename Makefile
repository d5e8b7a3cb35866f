# Every target stands alone on a clean clone: it makes the virtual environment and installs what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml constraints.txt
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint clean

help:
	@echo "make run    decode with plain greedy, PLD and SENSE on a real model and print the table (ARGS='key=value ...')"
	@echo "make test   run all tests (ARGS='-k name ...')"
	@echo "make lint   ruff and mypy"
	@echo "make clean  remove the virtual environment and what tools left behind; results/ and the model cache stay"

run: $(VENV)/.installed-cpu
	$(BIN)/python run.py -m experiment=quickstart method=vanilla,pld,sense $(ARGS)

# One thread a process: the models of the tests are tiny, and the processes share the cores.
test: $(VENV)/.installed-cpu-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadgroup $(ARGS)

lint: $(VENV)/.installed-cpu-test-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The stamp names the extras: .installed-cpu-test is the result of installing .[cpu,test].
$(VENV)/.installed-%: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(subst -,$(comma),$*)]'
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) was not found: install Python 3.10 to 3.13, or name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "AtomSD needs Python 3.10 to 3.13, but $(PYTHON) is $$($(PYTHON) -V 2>&1): name another one with make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

comma := ,
