PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest
# Baselines of machines that the repository stores none for.
SCRATCH := .nsight/baselines

.PHONY: help setup perf gate replay test test-slow test-long lint format docs pictures benchmark clean

help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

setup: $(READY) ## Make the virtual environment

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

perf: gate replay ## Both: the gate on this machine, and a lost fusion that an H200 recorded

gate: $(READY) ## Measure perf_tests/ on this machine and judge them
	@model=$$($(BIN)/pytest-nsight model) && \
	folder=baselines && { [ -d $$folder/$$model ] || folder=$(SCRATCH); } && \
	{ [ -d $$folder/$$model ] || $(BIN)/pytest --nsight --nsight-save --nsight-baselines $$folder perf_tests/; } && \
	set -x && $(BIN)/pytest --nsight --nsight-baselines $$folder perf_tests/

replay: $(READY) ## Show a lost fusion without a GPU: judge a session that was recorded on an H200
	$(BIN)/pytest --nsight --nsight-replay tests/data/sessions/unfused \
		--nsight-baselines tests/data/sessions/baselines perf_tests/test_rms_norm.py; test $$? -eq 1

test: $(READY) ## Run the test suite, all that takes under a minute
	$(PYTEST) tests -n auto --dist loadgroup -m 'not slow and not long'

test-slow: $(READY) ## Run the rest: whole sessions, real workers, Triton's interpreter, simulations
	$(PYTEST) tests -n auto --dist loadgroup -m 'slow and not long'

test-long: $(READY) ## Run what is left: two trees, several workers and ranks, the validation study's suite
	$(PYTEST) tests -n auto --dist loadgroup -m long

lint: $(READY) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Put the code in the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Build the documentation site in .nsight/site; a warning is an error
	$(BIN)/mkdocs build --strict --quiet

pictures: $(READY) ## Draw the pictures of the documents again
	$(BIN)/python docs/draw_pictures.py

benchmark: $(READY) ## Measure what the plugin itself costs
	$(BIN)/python -m benchmarks.overhead

clean: ## Remove everything that make and pytest-nsight made here
	rm -rf .venv .nsight *.egg-info
