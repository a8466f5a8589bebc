# Each target sets everything up first; `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
# TLC and Spark start the Java that set-up found.
WITH_JAVA := JAVA_HOME="$$(cat .venv/java_home)"

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-random check spec proofs theorems proto docs pictures mutants mutants-of matrix kills faults reruns hostile-peers java reactive-streams-tck tutorial bench bench-spark imbalance gates curves bench-docs bench-models bench-smoke soak stalled-stages stalled-wordcount troubled-wordcount streaming-read trace-evidence release clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup:  ## create or update .venv, find or install Java; instant when nothing changed
	@$(PYTHON) tools/setup.py

demo:  ## the main job: TPC-H query 12 through the exchange, between two Spark jobs
	@$(PYTHON) tools/setup.py demo
	@$(WITH_JAVA) $(BIN)/permitflow demo

test: check  ## check, then all tests but those that take long: twelve minutes on two cores
	@$(WITH_JAVA) $(BIN)/python -m pytest -n auto --dist loadscope --durations=15 -m "not long"

test-all: check  ## check, then all tests: before a release, or when Spark, pictures or the specification are concerned
	@$(WITH_JAVA) $(BIN)/python -m pytest -n auto --dist loadscope --durations=15

test-random: setup  ## the drawn tests, drawn anew and ten times as many; failures are kept in .hypothesis and tried first (a quarter of an hour)
	@$(WITH_JAVA) $(BIN)/python -m pytest -n auto --dist loadscope -m hypothesis --hypothesis-profile=random

check: setup  ## style, types, architecture
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py

spec: setup  ## check all models of spec/*/models.toml with TLC and with the explorer
	@$(WITH_JAVA) $(BIN)/permitflow check --engine both

proofs: setup  ## prove all theorems
	@$(BIN)/permitflow prove

theorems: setup  ## regenerate THEOREMS.md
	@$(BIN)/python -m permitflow_proofs theorems THEOREMS.md

mutants: setup  ## mistakes made on purpose in specification, models and implementation: none may go unnoticed
	@$(WITH_JAVA) $(BIN)/python tools/spec_mutants.py; found=$$?; \
	$(BIN)/python tools/model_mutants.py || found=1; \
	$(WITH_JAVA) $(BIN)/python tools/mutants.py && exit $$found

mutants-of: setup  ## mistakes in one file, made by cosmic-ray: make mutants-of FILE=impl/permitflow/chunks.py [TESTS=...]
	@$(BIN)/python -m pip install --quiet --editable ".[mutants]"
	@$(WITH_JAVA) $(BIN)/python tools/mutants.py --of $(FILE) $(TESTS)

matrix: setup  ## the oldest and the newest releases of what we need; writes docs/reference/versions.md (a quarter of an hour)
	@$(WITH_JAVA) $(BIN)/python tools/version_matrix.py

proto: setup  ## regenerate the protobuf modules
	@$(BIN)/python -m grpc_tools.protoc -I proto --python_out=impl --pyi_out=impl proto/permitflow/wire/v1/*.proto
	@cd examples/own_flow && $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. xon_xoff.proto

docs: setup  ## write the reference pages and the kit's tables again, and build the site with a search into build/site
	@$(BIN)/python tools/cli_reference.py
	@$(BIN)/python tools/api_reference.py
	@$(BIN)/python tools/wire_errors_reference.py
	@$(BIN)/python -m tools.conformance_table
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "to read it: $(BIN)/python -m http.server --directory build/site"

bench: setup  ## ours against others, targets and verdicts: five minutes; into build/bench
	@$(BIN)/python -m benchmarks run

bench-spark: setup  ## Spark jobs with the exchange and without: three minutes
	@$(WITH_JAVA) $(BIN)/python -m benchmarks run --part spark

imbalance: setup  ## the experiment from which permits came: bounds that differ starve one of two upstreams
	@$(BIN)/python -m benchmarks run --part imbalance

gates: setup  ## what aligning barriers costs and holds: a gate's ways beside windows of permits (ten minutes)
	@$(BIN)/python -m benchmarks run --part gate

curves: setup  ## how our own figures depend on row_permits, permit_batch, distance and number of channels: ten minutes
	@$(BIN)/python -m benchmarks run --curves --rounds 3

bench-docs: setup  ## paste what make bench and the others have measured into docs
	@$(BIN)/python -m benchmarks update-docs

bench-models: setup  ## explorer beside TLC, recorded runs, proofs: minutes
	@$(WITH_JAVA) $(BIN)/python -m benchmarks run --part checking

bench-smoke: setup  ## do the benchmarks still run? some minutes
	@$(WITH_JAVA) $(BIN)/python -m benchmarks run --smoke --folder build/bench-smoke
	@$(BIN)/python -m benchmarks.soak_grpc --rows 500000 --slow-seconds 5
	@$(BIN)/python -m benchmarks.stalled_stages --seconds 4
	@$(BIN)/python -m benchmarks.stalled_wordcount --seconds 4
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.streaming_read --rounds 1 --seconds 3

soak: setup  ## ten million rows through gRPC, then memory under a consumer that is a hundred times slower
	@$(BIN)/python -m benchmarks.soak_grpc --rows 10000000 --slow-seconds 60

stalled-stages: setup  ## a consumer that stands still at the end of stages stops their producer; memory stays flat (ten minutes)
	@$(BIN)/python -m benchmarks.stalled_stages --seconds 600

stalled-wordcount: setup  ## a reader of a word count stands still: its sender stops within a bound; memory stays flat (ten minutes)
	@$(BIN)/python -m benchmarks.stalled_wordcount --seconds 600

troubled-wordcount: setup  ## an hour of a word count whose workers are killed, with readers that come and go, and strangers
	@$(BIN)/permitflow demo wordcount --trouble 3600

streaming-read: setup  ## rows a second of a streaming query, with the default window and with smaller ones (minutes)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.streaming_read --row-permits 32768 --row-permits 262144

trace-evidence: setup  ## two processes: recorded, judged by model and TLC; sabotage is found (a minute)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.record_two_processes --with-tlc

kills: setup  ## a streaming pipeline at scale 1 whose parts are killed fifty times, and 120 kills of stages, calls and muted workers: nothing is lost or comes twice (a quarter of an hour)
	@$(WITH_JAVA) $(BIN)/python -m tools.killed_pipeline
	@$(BIN)/python -m tests.faults --kills --schedules 480 --subject stages --subject calls --subject mute

hostile-peers: setup  ## what a neighbour notices of a peer that asks for too much, or for all it may: round trips and memory (four minutes)
	@$(BIN)/python -m benchmarks.hostile_peers

faults: setup  ## 240 seeded schedules of cuts, black holes, flipped bits, stops and kills: nothing is lost in silence (ten minutes)
	@$(BIN)/python -m tests.faults

reruns: setup  ## Spark jobs whose stages are run again, fifty times: each row once, or a failed job (twenty minutes)
	@$(WITH_JAVA) $(BIN)/python -m tests.reruns

java: setup  ## compile the Java programs of interop/java, into build/java; needs a JDK and jars: interop/java/README.md
	@$(BIN)/python -m tools.java_peers build

reactive-streams-tck: setup  ## the TCK of Reactive Streams against the Java ends of a channel; REACTIVE_STREAMS_TCK=jar (a minute)
	@$(BIN)/python -m tools.java_peers tck

tutorial: setup  ## a slow service between two Spark jobs, without and with an exchange; docs/start/tutorial.md and its picture
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.slow_service --document

pictures: setup  ## take the screenshots in docs/pictures again, and draw the runs of docs/protocols
	@$(BIN)/python -m tools.run_drawings
	@$(BIN)/python -m tools.screenshots

release: setup  ## wheel and source archive into dist, tried in a clean environment
	@$(BIN)/python tools/release.py

clean:  ## remove what can be made again, except .venv
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache dist
	@find impl model proofs examples tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
