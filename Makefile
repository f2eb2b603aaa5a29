# `make demo` runs the demonstration, `make test` the tests, and `make help` lists all targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PROPERTIES := $(patsubst %,tests/streams/test_%.py,windows batching maintained filling forced_windows virtual_tables machine user_aggregates quarantine filled_histories wide_commits notifications triggers)
PROSE := include plugins dags spark_jobs benchmarks bin deploy docs Makefile Dockerfile docker-compose.yaml README.md CHANGELOG.md CONTRIBUTING.md

.DEFAULT_GOAL := help
.PHONY: help demo test campaign campaign-streams campaign-kills campaign-external campaign-failures campaign-powercuts campaign-cases campaign-combinations campaign-statements campaign-bytes campaign-leaks campaign-year conformance soak s3-server iotdb-server test-airflow test-object-store compose-processes image-check upgrade compare-iotdb check format setup bench lock docs screenshots site clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

demo: setup ## Run the system on real readings (EXIT=1 stops it afterwards)
	$(BIN)/headrace demo $(if $(EXIT),--exit)

test: setup ## Run all tests
	bin/run-tests $(ARGS)

campaign: setup ## Compare random queries between both engines (QUERIES=2000 SEED=1)
	HEADRACE_VERIFY_QUERIES=$(or $(QUERIES),2000) HEADRACE_VERIFY_SEED=$(or $(SEED),1) bin/run-tests tests/verify/test_random_queries.py

campaign-streams: setup ## Test streams, continuous queries and pipes with random writes and faults; CI tries about 1000 examples (EXAMPLES=50000)
	HEADRACE_STREAM_EXAMPLES=$(or $(EXAMPLES),50000) bin/run-tests $(PROPERTIES) tests/service/iotdb/test_query_histories.py tests/pipes/test_iotdb_histories.py

campaign-kills: setup ## Kill drivers at random failpoints; CI does so about 50 times (KILLS=400 SEED=1)
	HEADRACE_KILLS=$(or $(KILLS),400) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests tests/streams/test_kills.py tests/streams/test_driver_processes.py
	HEADRACE_KILLS=1 bin/run-tests tests/cluster

campaign-external: setup ## Kill drivers of streams over tables that other engines change meanwhile; CI tries 8 examples (EXAMPLES=2000 SEED=1)
	HEADRACE_EXTERNAL_EXAMPLES=$(or $(EXAMPLES),2000) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests tests/service/test_external_kills.py

campaign-failures: setup ## Kill snodes, Spark, PostgreSQL and the S3 server of a deployment while clients write; CI does so once in eight runs (FAILURES=50 SEED=1)
	HEADRACE_FAILURES=$(or $(FAILURES),50) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests -s tests/cluster/test_failures.py

campaign-powercuts: setup ## Cut the power while rows are written and streams run; CI does so 10 times (CUTS=500 SEED=1)
	HEADRACE_CUTS=$(or $(CUTS),500) HEADRACE_DRAW_SEED=$(or $(SEED),1) bin/run-tests -s tests/soak/powercuts

conformance: setup ## Compare all recorded answers in all ways; the tests draw some of them (DRAW=123 repeats a run)
	$(if $(DRAW),HEADRACE_DRAW_SEED=$(DRAW),HEADRACE_DRAW=all) bin/run-tests $(or $(ARGS),tests/conformance)

campaign-cases: setup ## Run tests with all of their cases, of which each other run draws some (ARGS="tests/service -k INTO")
	HEADRACE_DRAW=all bin/run-tests $(or $(ARGS),tests/service tests/runtime tests/types)

campaign-combinations: setup ## Play streams, continuous queries and pipes with all triples of values of their dimensions, judged by VERIFY and evaluators (VALUES=2 for pairs, PART=1/20 and SEED=1 for streams and continuous queries)
	HEADRACE_COMBINATIONS=$(or $(VALUES),3) HEADRACE_COMBINATIONS_PART=$(or $(PART),1/1) HEADRACE_COMBINATIONS_SEED=$(or $(SEED),0) bin/run-tests -v $(or $(ARGS),tests/combinations/test_*_combinations.py)

campaign-statements: setup ## Execute random statements of both dialects, of which none may fail by accident (STATEMENTS=100000 SEED=1)
	HEADRACE_STATEMENTS=$$(( $(or $(STATEMENTS),100000) / 2 )) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests tests/combinations/test_statements.py

campaign-leaks: setup ## Let random users try random statements, to whom nothing that is hidden may make a difference (USERS=200 SEED=1)
	HEADRACE_LEAKS=$(or $(USERS),200) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests tests/security/test_leaks.py

campaign-bytes: setup ## Read random bytes as all that reads bytes from outside does, of which none may fail by accident (INPUTS=10000000 SEED=1)
	HEADRACE_FUZZ_INPUTS=$(or $(INPUTS),10000000) HEADRACE_DRAW_SEED=$(or $(SEED),0) bin/run-tests tests/fuzz

campaign-year: setup ## Commit to one table beside readers and maintenance, and print what grows, as CI does with 300 commits (COMMITS=200000 SEED=1)
	$(BIN)/python -m tests.soak.year --commits $(or $(COMMITS),200000) $(if $(SEED),--seed $(SEED))

soak: setup ## Write at random, kill, freeze and restart parts of the system, and cut the power (MINUTES=20 SEED=1)
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))

s3-server: setup ## Build the S3 server for tests (MinIO; needs Go 1.24)
	$(BIN)/python -m tests.support.object_store

iotdb-server: setup ## Build the IoTDB server for tests (needs Maven and a JDK)
	$(BIN)/python -m tests.support.iotdb_server install

test-airflow: setup ## Test the package in the oldest and the newest supported Airflow (AIRFLOW="3.3.0 3.3.2")
	$(BIN)/python -m tests.airflow.versions $(or $(AIRFLOW),3.3.0 3.3.2)

test-object-store: setup ## Test streams with their tables on an S3 server (ARGS="tests/streams -k …")
	$(BIN)/python -m tests.support.object_store bin/run-tests $(or $(ARGS),tests/streams)

compose-processes: setup ## Run the services of docker-compose.yaml as plain processes, and use them (Linux, root, PostgreSQL, Go 1.24)
	$(BIN)/python -m tests.compose

image-check: setup ## Build the Dockerfile on a base of Debian's packages, and run and use the services in containers (Linux, root, Podman, debootstrap, catatonit, Go 1.24)
	$(BIN)/python -m tests.compose --image

upgrade: setup ## Replace drivers of an earlier revision by those of this one while streams run, and back (FROM=HEAD~20)
	HEADRACE_UPGRADE_FROM=$(or $(FROM),HEAD~20) bin/run-tests tests/runtime/test_rolling_upgrade.py

compare-iotdb: setup ## Compare random queries and calls of functions with an IoTDB server (QUERIES=500 CALLS=500 SEED=1 IOTDB=host:port)
	$(BIN)/python -m tests.iotdb_comparison --server $(or $(IOTDB),127.0.0.1:6667) --queries $(or $(QUERIES),500) --calls $(or $(CALLS),500) --seed $(or $(SEED),1) $(ARGS)

check: setup ## Check formatting, lint, words, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell $(PROSE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## Measure Headrace against hand-written PySpark jobs
	$(BIN)/python -m benchmarks $(ARGS)

docs: setup ## Write the pages, pictures and figures that are generated
	$(BIN)/headrace docs --write docs/reference
	$(BIN)/python -m tests.docs.timelines
	$(BIN)/python -m tests.docs.library_pictures
	$(BIN)/python -m tests.docs.pipe_pictures
	$(BIN)/python -m tests.docs.sizing_pictures

screenshots: setup ## Take the pictures of the page (needs Chromium)
	$(BIN)/python -m tests.docs.screenshots
	$(BIN)/python -m tests.docs.figures

site: setup ## Build the documentation as a site in the folder `site`
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

setup: $(READY) ## Create the environment and fetch Spark's jars, if they are missing

$(READY): requirements.txt pyproject.toml bin/setup
	PYTHON=$(PYTHON) bin/setup
	@touch $@

lock: ## Compile requirements.in to requirements.txt
	uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --generate-hashes --override override.txt requirements.in -o requirements.txt

clean: ## Remove the environment and the default home (stop the system first)
	-test -x $(BIN)/headrace && $(BIN)/headrace down
	rm -rf $(VENV) .headrace .make
