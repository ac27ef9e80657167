# Lakestate. `make help` lists the verbs. Each verb sets itself up; a second run has nothing to set up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := UV_PYTHON_DOWNLOADS=never $(BIN)/uv
SHELL := /bin/sh
# Where bytecode may not be kept, every process compiles its libraries anew: a second and a half for Dagster alone.
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help

# A stamp's name carries a checksum of what it stands for, so that a stamp is right or absent.
digest = $(shell cat $(1) 2>/dev/null | cksum | cut -d' ' -f1)
BOOTSTRAP_FILES := requirements-bootstrap.txt
LOCK_FILES := $(BOOTSTRAP_FILES) requirements.lock
PROJECT_FILES := $(LOCK_FILES) pyproject.toml state_engine/__init__.py
JAR_PLACE := $(shell printf '%s' '$(HOME)|$(XDG_CACHE_HOME)|$(LAKESTATE_JARS)|$(LAKESTATE_JARS_CACHE)' | cksum | cut -d' ' -f1)
UV_STAMP := $(VENV)/.stamp-uv-$(call digest,$(BOOTSTRAP_FILES))
DEPENDENCIES_STAMP := $(VENV)/.stamp-dependencies-$(call digest,$(LOCK_FILES))
PROJECT_STAMP := $(VENV)/.stamp-project-$(call digest,$(PROJECT_FILES))
JARS_STAMP := $(VENV)/.stamp-jars-$(call digest,$(LOCK_FILES))-$(JAR_PLACE)

# These verbs never start a JVM, so a machine without Java may run them.
PREFLIGHT := $(if $(filter check format lint types lock dist docs diagrams,$(MAKECMDGOALS)),--no-java)
CLASS_ARCHIVE := $(VENV)/share/lakestate/spark-classes.jsa
TYPED := state_engine platform/lakestate $(wildcard benchmarks)

# Files stay together, for what their tests share; `selection.py` puts the longest first.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help setup faster environment up kafka down demo test test-long campaign check docs diagrams lint types imports format lock dist release-check golden-root bench flink clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(JARS_STAMP) ## virtual environment in .venv, locked packages, jars of Delta and Kafka
	@echo "Lakestate is set up in $(VENV)."

faster: $(CLASS_ARCHIVE) ## drivers that start in two thirds of the time (takes a minute, and 180 MiB)

up: $(JARS_STAMP) ## two example streams, their input, and Dagster (ARGS="--help" for its options)
	@$(BIN)/lakestate up $(ARGS)

kafka: $(JARS_STAMP) ## the same with a Kafka broker of its own, and a third stream, which reads it
	@$(BIN)/lakestate up --kafka $(ARGS)

down: ## end what `make up` has begun
	@$(BIN)/lakestate down $(ARGS)

demo: $(JARS_STAMP) ## the demonstration (ARGS="--help" for its options)
	@$(BIN)/lakestate demo $(ARGS)

test: $(JARS_STAMP) $(CLASS_ARCHIVE) ## the tests (ARGS="-k name" to choose)
	$(BIN)/pytest $(PARALLEL) $(ARGS)

test-long: $(JARS_STAMP) $(CLASS_ARCHIVE) ## what `make test` leaves out: hours (ARGS="--budget 20m" for a part)
	$(BIN)/pytest --long --hypothesis-profile long $(PARALLEL) $(ARGS)

campaign: $(PROJECT_STAMP) ## random histories of the protocol on all cores (ARGS="--histories 20000 --seed 7")
	$(BIN)/python -m state_engine.testing.simulation_campaign $(ARGS)

check: lint types imports ## lint, format, types, import rules, quick tests without a JVM
	$(BIN)/pytest --quick --hypothesis-profile quick -q -n 2 --dist worksteal $(ARGS)

# Every page is read anew: Sphinx reports what is wrong with a page only when it reads it.
docs: $(PROJECT_STAMP) ## the documentation site in build/docs; a broken link is an error
	@rm -rf build/docs
	@$(BIN)/python -m sphinx -b html -q -E -W --keep-going -d build/doctrees docs build/docs $(ARGS)
	@echo "Open $(CURDIR)/build/docs/index.html"

diagrams: $(PROJECT_STAMP) ## the pictures of the diagrams in docs/, after a diagram has changed (npm, chromium)
	$(BIN)/python scripts/render_diagrams.py

lint: $(PROJECT_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(PROJECT_STAMP)
	$(BIN)/mypy $(TYPED)

imports: $(PROJECT_STAMP)
	@$(BIN)/lint-imports

format: $(PROJECT_STAMP) ## format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(UV_STAMP) ## resolve requirements.lock anew (ARGS=--upgrade for newer versions)
	$(UV) pip compile pyproject.toml --all-extras --group bench --group dev --group docs --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements.lock $(ARGS)

dist: $(PROJECT_STAMP) ## wheel and source archive in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

release-check: $(JARS_STAMP) dist ## archives checked, and run in an empty environment (ARGS="--list")
	$(BIN)/python scripts/release_check.py $(ARGS)

golden-root: $(JARS_STAMP) ## the state root that a release leaves for later ones (VERSION=0.2.0), once
	$(BIN)/python tests/golden/make_root.py $(VERSION)

bench: $(JARS_STAMP) ## benchmarks (ARGS="--help" for the list)
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: mutants
mutants: $(JARS_STAMP) ## bugs planted in private copies, each of which the tests must notice (ARGS="-k epoch")
	@$(BIN)/python tests/mutants $(ARGS)

flink: $(PROJECT_STAMP) ## PyFlink in an environment of its own, .flink, which benchmarks compare with
	$(BIN)/python scripts/flink_environment.py

clean: ## remove the environment, caches and built files
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .flink .flink-cli .flink-cli.lock
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV_STAMP): scripts/preflight.py
	@$(PYTHON) scripts/preflight.py $(PREFLIGHT)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bootstrap.txt
	@rm -f $(VENV)/.stamp-uv-* && touch $@

$(DEPENDENCIES_STAMP): $(UV_STAMP)
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes --build-constraints requirements.lock requirements.lock
	@rm -f $(VENV)/.stamp-dependencies-* && touch $@

$(PROJECT_STAMP): $(DEPENDENCIES_STAMP)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.stamp-project-* && touch $@

$(JARS_STAMP): $(PROJECT_STAMP)
	@$(PYTHON) scripts/preflight.py
	$(BIN)/python -m state_engine.spark.jars kafka kafka-broker
	@rm -f $(VENV)/.stamp-jars-* && touch $@

# Without it everything works, so a Java that cannot write one stops nothing.
$(CLASS_ARCHIVE): $(JARS_STAMP)
	-@$(BIN)/python -m state_engine.spark.class_archive
