"""What takes too long for every change, or is rare: `nox --list` names it, `nox --session kills` runs it.

Commands run in .venv, which `make setup` makes.  `versions` makes environments of its own.
"""

import json
import sys
from functools import partial
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))
from tools import versions_reference as versions

nox.needs_version = ">=2025.2"
nox.options.sessions = []
nox.options.error_on_missing_interpreters = False

PYTHON = ".venv/bin/python"
JAVA_HOME = Path(".venv/java_home")  # TLC and Spark start the Java that set-up found

PROTOCOLS = (
    *(("proto", "impl", path) for path in sorted(map(str, Path("proto").rglob("*.proto")))),
    ("examples/own_flow", "examples/own_flow", "examples/own_flow/xon_xoff.proto"),
)
"""Where its imports are found, where its modules go, and the definition."""

COMMANDS = {
    # Trials: what they find is a fault.
    "random": (
        "the drawn tests, drawn anew, forty times as many; failures are kept and tried first (a quarter of an hour)",
        ["-m pytest -n auto --dist loadscope -m hypothesis --hypothesis-profile=random"],
    ),
    "mutants": (
        "mistakes made on purpose in specification, models and implementation: none may go unnoticed (hours)",
        ["tools/spec_mutants.py", "-m tools.model_mutants --anew", "tools/mutants.py"],
    ),
    "faults": (
        "320 schedules of cut lines, flipped bits, stops, kills, set clocks, full disks: no silent loss (10 minutes)",
        ["-m tests.faults"],
    ),
    "simulate": (
        "a million seeded schedules of streams in simulated time, and 10,000 of each other subject (hours)",
        [
            "-m tests.simulator --schedules 1000000",
            "-m tests.simulator --subject kept",
            "-m tests.simulator --subject gate",
            "-m tests.simulator --subject mute",
        ],
    ),
    "graphs": (
        "500 graphs run for real against what check_graph says; analysers with a mistake are found (2 minutes)",
        ["-m tests.graphs"],
    ),
    "kills": (
        "fifty kills in a streaming pipeline, 120 of stages, calls and muted workers (a quarter of an hour)",
        [
            "-m tools.killed_pipeline",
            "-m tests.faults --kills --schedules 880 --subject stages --subject calls --subject mute",
        ],
    ),
    "cluster": (
        "two workers of Spark, four executors, three exchanges on PostgreSQL, fifty kills: five million rows (an hour)",
        ["-m tests.cluster"],
    ),
    "reruns": (
        "Spark jobs whose stages are run again, fifty times: each row once, or a failed job (20 minutes)",
        ["-m tests.reruns"],
    ),
    "fuzz": (
        "drawn messages, bytes, packets and batches against an exchange (ten minutes; -- --seconds 3600)",
        ["-m tests.hostile fuzz"],
    ),
    "attacks": (
        "processes attack an exchange: what they hear, and what a neighbour notices (15 minutes; -- --keep)",
        ["-m tests.hostile attack"],
    ),
    "trace-evidence": (
        "two processes are recorded, and judged by model and TLC; sabotage is found (a minute)",
        ["-m benchmarks.record_two_processes --with-tlc"],
    ),
    "soak": (
        "an hour of chunks of all sizes, fan-in, fan-out, cut lines: nothing grows (-- --seconds 600)",
        ["-m benchmarks.soak"],
    ),
    "tck": (
        "the TCK of Reactive Streams against the Java ends of a channel; REACTIVE_STREAMS_TCK=jar (a minute)",
        ["-m tools.java_peers tck"],
    ),
    # Measurements, into build/bench; `python -m benchmarks update-docs` pastes them into docs.
    "measure-spark": ("Spark jobs with the exchange and without (3 minutes)", ["-m benchmarks run --part spark"]),
    "measure-curves": (
        "how our own figures depend on permits, batch, distance and number of channels (10 minutes)",
        ["-m benchmarks run --curves --rounds 3"],
    ),
    "measure-streaming": (
        "rows a second of a streaming query, with the default window and a larger one (minutes)",
        ["-m benchmarks.streaming_read --row-permits 32768 --row-permits 262144"],
    ),
    "bench-smoke": (
        "do the benchmarks still run? (minutes)",
        [
            "-m benchmarks run --smoke --folder build/bench-smoke",
            "-m benchmarks.soak --seconds 20",
            "-m benchmarks.streaming_read --rounds 1 --seconds 3",
        ],
    ),
    # Files in git that are made from others.
    "proto": (
        "the protobuf modules",
        [
            f"-m grpc_tools.protoc -I {root} --python_out={into} --pyi_out={into} {definition}"
            for root, into, definition in PROTOCOLS
        ],
    ),
    "theorems": (
        "THEOREMS.md, and the table of the code that no claim reaches; proves everything (minutes)",
        ["-m permitflow_proofs theorems THEOREMS.md", "-m tools.proved_code"],
    ),
    # Documents with figures or pictures.
    "tutorial": (
        "a slow service between two Spark jobs: docs/start/tutorial.md and its picture",
        ["-m benchmarks.slow_service --document"],
    ),
    "pictures": (
        "the pictures in docs/pictures, and the runs in docs/protocols",
        ["-m tools.run_drawings", "-m tools.screenshots"],
    ),
}


def _run(session: nox.Session, commands: list[str]) -> None:
    java = {"JAVA_HOME": JAVA_HOME.read_text("utf-8").strip()} if JAVA_HOME.exists() else {}
    failed = []
    for command in commands:
        try:
            session.run(PYTHON, *command.split(), *session.posargs, env=java, external=True)
        except nox.command.CommandFailed:
            failed.append(command)
    if failed:
        session.error(f"failed: {'; '.join(failed)}")


for _name, (_told, _commands) in COMMANDS.items():
    _session = partial(_run, commands=_commands)
    _session.__doc__ = _told
    nox.session(python=False, name=_name)(_session)


@nox.session(name="mutants-of", python=False)
def mutants_of(session: nox.Session) -> None:
    """mistakes in one file, made by cosmic-ray: nox --session mutants-of -- FILE [TESTS]"""
    session.run(PYTHON, "-m", "pip", "install", "--quiet", "--editable", ".[mutants]", external=True)
    session.run(PYTHON, "tools/mutants.py", "--of", *session.posargs, external=True)


@nox.session(name="versions", venv_backend="uv")
@nox.parametrize("python,releases", [("3.11", "oldest"), ("3.14", "newest"), ("3.11", "old Spark")])
def run_versions(session: nox.Session, releases: str) -> None:
    """the oldest and newest releases that pyproject.toml allows, into docs/reference/versions.md (10 minutes)"""
    ranges = versions.declared_ranges()
    oldest = ("--resolution", "lowest-direct") if releases == "oldest" else ("--upgrade",)
    names = ("pyspark", "protobuf") if releases == "old Spark" else ()
    pins = [f"{name}=={versions.lower_bound(ranges[name])}" for name in names]
    # What these tests load beside that.
    session.install(*oldest, "--editable", f".[{','.join(versions.EXTRAS)},postgres,tlc]", *pins)
    session.install("anyio", "psutil", "pytest-timeout", "pytest-xdist", "trustme")
    # An old release of one library may use deprecated parts of a newer one, or warn of itself; we cannot change that.
    kinds = () if releases == "newest" else ("DeprecationWarning", "hypothesis.errors.HypothesisWarning")
    warnings = [f"-Wdefault::{kind}" for kind in kinds]
    tests = ("--quiet", "-n", "2", "--dist", "loadscope", "-m", "not long", *warnings, *versions.TESTS)
    output = str(session.run("python", "-m", "pytest", "-p", "no:cacheprovider", *tests, silent=True))
    found = json.loads(str(session.run("python", "-c", versions.FOUND, silent=True)))
    versions.keep(releases, found["python"], found["packages"], output)
