# Each target sets everything up first; `make` alone lists them.  What takes long or is rare: .venv/bin/nox --list.
PYTHON ?= python3
BIN := .venv/bin
# TLC and Spark start the Java that set-up found.
WITH_JAVA := JAVA_HOME="$$(cat .venv/java_home)"
# Tests start a thousand processes; none of them shall compile the library again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo style check test test-all spec proofs docs bench release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "Trials, measurements, pictures and generated files: .venv/bin/nox --list"

setup:  ## create or update .venv, find or install Java; instant when nothing changed
	@$(PYTHON) tools/setup.py

demo:  ## the main job: TPC-H query 12 through the exchange, between two Spark jobs
	@$(PYTHON) tools/setup.py demo
	@$(WITH_JAVA) $(BIN)/permitflow demo

# And types.  mypy's workers are for its first run; on a busy machine they may not start in the 3 s that it waits.
# Modules are compiled once, not by each worker of pytest.
style: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@MYPY_NUM_WORKERS=auto $(BIN)/mypy || { test $$? = 2 && $(BIN)/mypy; }
	@$(BIN)/python -m compileall -q impl model proofs examples tests/support tools benchmarks

check: style  ## style, types, architecture
	@$(BIN)/python -m pytest -q tests/test_architecture.py

test: style  ## style, types, then all tests but those that take long: some six minutes on two cores
	@$(WITH_JAVA) $(BIN)/python -m pytest -n auto --dist loadscope --durations=15 -m "not long"

test-all: style  ## style, types, then all tests: before a release, or when Spark, pictures or the model are concerned
	@$(PYTHON) tools/setup.py all
	@$(WITH_JAVA) $(BIN)/python -m pytest -n auto --dist loadscope --durations=15 --hypothesis-profile=thorough

spec: setup  ## check all models of spec/*/models.toml with TLC and with the explorer
	@$(WITH_JAVA) $(BIN)/permitflow check --engine both

proofs: setup  ## prove all theorems
	@$(BIN)/permitflow prove

docs: setup  ## write the tables and examples of some pages again, and build the site with a search into build/site
	@$(BIN)/python -m tools.wire_example
	@$(BIN)/python -m tools.conformance_table
	@$(BIN)/python -m tools.graph_examples
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "to read it: $(BIN)/python -m http.server --directory build/site"

bench: setup  ## ours against others, targets and verdicts: five minutes; into build/bench
	@$(WITH_JAVA) $(BIN)/python -m benchmarks run

release: setup  ## wheel and source archive into dist, tried in a clean environment; URL=https://... of the repository
	@$(WITH_JAVA) $(BIN)/python tools/release.py $(if $(URL),--url $(URL))

clean:  ## remove what can be made again, except .venv
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache dist
	@find impl model proofs examples tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
