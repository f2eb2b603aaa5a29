# Two commands do everything: `make demo` runs the main job, `make test` the tests. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test campaign campaign-streams check format setup bench lock docs clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

demo: setup ## Bring the system up on real readings, look at streams come alive (EXIT=1 ends it afterwards)
	$(BIN)/headrace demo $(if $(EXIT),--exit)

test: setup ## Run all tests
	bin/run-tests $(ARGS)

campaign: setup ## Ask random queries of both engines (QUERIES=2000 SEED=1)
	HEADRACE_VERIFY_QUERIES=$(or $(QUERIES),2000) HEADRACE_VERIFY_SEED=$(or $(SEED),1) bin/run-tests tests/verify/test_random_queries.py

campaign-streams: setup ## Try streams with random writes, late, changed and deleted rows (EXAMPLES=200)
	HEADRACE_STREAM_EXAMPLES=$(or $(EXAMPLES),200) bin/run-tests tests/streams/test_windows.py tests/streams/test_cuts.py tests/streams/test_maintained.py

check: setup ## Formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Measure against hand-written PySpark, side by side
	$(BIN)/python -m benchmarks $(ARGS)

docs: setup ## Write the pages that are made from code
	$(BIN)/headrace docs --write docs/reference

setup: $(READY) ## Environment and Spark's jars; nothing to do when they are there

$(READY): requirements.txt pyproject.toml bin/setup
	PYTHON=$(PYTHON) bin/setup
	@touch $@

lock: ## Pin requirements.in anew
	uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --override override.txt requirements.in -o requirements.txt

clean: ## Remove the environment and the default home (stop the system first)
	-test -x $(BIN)/headrace && $(BIN)/headrace down
	rm -rf $(VENV) .headrace .make
