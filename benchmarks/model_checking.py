"""How fast models are checked: our explorer beside TLC, recorded runs, proofs.

    python -m benchmarks.model_checking                          everything, minutes
    python -m benchmarks.model_checking --against CHECKOUT       another version of this project beside this one
    python -m benchmarks.model_checking --smoke                  does it still run? seconds
    python -m benchmarks.model_checking --folder build/bench     for docs/concepts/performance.md, too

Each measurement is a process of its own and counts its CPU seconds, children included; the best of several rounds
counts, and rounds of two checkouts take turns.  TLC has one worker, as in all checks here, and its start counts.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

from benchmarks.harness import CHECKOUT
from benchmarks.results import Record, Results, describe_machine, table
from permitflow_model.tla_values import TlaValue

MODELS: dict[str, dict[str, TlaValue]] = {
    "every chunk size": {"RowPermits": 10, "PermitBatch": 3, "MaxChunkCost": 8, "Sizes": frozenset({1, 2, 3, 4})},
    "barriers and watermarks": {
        "RowPermits": 4,
        "PermitBatch": 2,
        "MaxChunkCost": 3,
        "Sizes": frozenset({1, 3}),
        "BarrierPermits": 1,
        "Watermarks": True,
        "FlushIdle": True,
    },
    "numbered chunks": {
        "RowPermits": 6,
        "PermitBatch": 2,
        "MaxChunkCost": 5,
        "Sizes": frozenset({1, 3}),
        "FlushIdle": True,
        "Withdrawals": True,
        "Waiters": 2,
        "Tags": 9,
    },
}
"""Models of PermitChannel larger than those of the manifest, by what makes them large; other constants as there."""

CHUNKS = 20_000
"""Of a recorded run."""


PART = "checking"
"""Under this name it stands among all results."""


@dataclass(frozen=True)
class CheckingSpeed(Record):
    """Of one task, the best of its rounds."""

    what: str
    unit: str
    """What is counted: states, events, theorems."""
    count: int
    cpu_seconds: float
    """Of all processes."""

    @property
    def rate(self) -> float:
        """Units for each CPU second."""
        return self.count / self.cpu_seconds

    def row(self) -> list[str]:
        """For a table: what, how many, CPU seconds, and how many a second."""
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.1f}"
        return [self.what, f"{self.count:,} {self.unit}", f"{self.cpu_seconds:.2f}", rate]


# What a process of its own does: it returns how many units of work there were, and prints the seconds they took.


def explore_model(name: str, _chunks: int) -> tuple[int, float]:
    """States of a model, by our explorer, with all its invariants."""
    from permitflow_model.exploration import explore_model as explore
    from permitflow_model.manifest import read_manifest

    model = read_manifest(CHECKOUT / "spec")["published"]
    model = replace(model, constants={**model.constants, **MODELS[name]})
    began = process_time()
    states = explore(model).states
    return states, process_time() - began


def explore_manifest(_name: str, _chunks: int) -> tuple[int, float]:
    """States of all models of the manifest that the explorer knows."""
    from permitflow_model.exploration import explore_model as explore
    from permitflow_model.manifest import read_manifest
    from permitflow_model.registry import system_of

    models = [model for model in read_manifest(CHECKOUT / "spec").values() if system_of(model.module)]
    began = process_time()
    states = sum(explore(model).states for model in models)
    return states, process_time() - began


def run_tlc(name: str, _chunks: int) -> tuple[int, float]:
    """States of the same model, by TLC."""
    from permitflow_model.manifest import read_manifest
    from permitflow_model.tlc.check import run_model

    model = read_manifest(CHECKOUT / "spec")["published"]
    model = replace(model, constants={**model.constants, **MODELS[name]})
    found = run_model(model, spec_directory=CHECKOUT / "spec", timeout_seconds=600)
    return found.states, children_seconds()


def replay_run(name: str, chunks: int) -> tuple[int, float]:
    """Events of a recorded run, replayed and checked."""
    from permitflow.protocol.permits import ChannelParameters
    from permitflow.testing.subjects.permits import CorePair
    from permitflow.testing.traces import judge
    from permitflow.tracing import MemoryTrace

    trace = MemoryTrace()
    agreed = ChannelParameters(row_permits=2_000, permit_batch=150)
    pair = CorePair(agreed, record=trace.recorder)
    # As many chunks of different sizes as always fit into the window, again and again.
    wave = [1 + 17 * number % 61 for number in range(50)]
    assert sum(wave) <= agreed.row_permits - agreed.permit_batch
    for _ in range(max(1, chunks // len(wave))):
        for rows in wave:
            pair.offer_chunk(rows)
            pair.send_chunk()
        for _ in wave:
            pair.deliver()
        for _ in wave:
            pair.consume()
        while pair.grants:
            pair.add_permits()
    (channel,) = trace.trace().channels.values()
    began = process_time()
    verdict = judge(channel, by_end=name == "from two processes")
    assert verdict.is_valid
    return verdict.replay.performed, process_time() - began


def prove(_name: str, _chunks: int) -> tuple[int, float]:
    """Theorems, each with its twin that must fail."""
    command = [sys.executable, "-m", "permitflow.cli", "prove", "--json"]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return len(json.loads(output)["theorems"]), children_seconds()


def children_seconds() -> float:
    """CPU time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


Work = Callable[[str, int], tuple[int, float]]
WORK: dict[str, Work] = {
    "explore": explore_model,
    "manifest": explore_manifest,
    "tlc": run_tlc,
    "replay": replay_run,
    "prove": prove,
}


# The process that measures.


@dataclass(frozen=True)
class Task:
    """Something to measure."""

    work: str
    name: str
    unit: str
    is_ours: bool = True
    """Worth comparing with another version of the project."""

    @property
    def what(self) -> str:
        """For the table."""
        return f"{TITLES[self.work]}{f': {self.name}' if self.name else ''}"


TITLES = {
    "explore": "explorer",
    "manifest": "explorer: the manifest's models",
    "tlc": "TLC",
    "replay": "recorded run",
    "prove": "theorems and their twins",
}

TASKS = [
    *(Task("explore", name, "states") for name in MODELS),
    Task("manifest", "", "states"),
    *(Task("tlc", name, "states", is_ours=False) for name in MODELS),
    *(Task("replay", name, "events") for name in ("from one process", "from two processes")),
    Task("prove", "", "theorems", is_ours=False),
]
SMOKE = [Task("manifest", "", "states"), Task("replay", "from one process", "events")]


def measure(tasks: Sequence[Task], rounds: int, chunks: int, checkouts: Sequence[Path]) -> list[list[CheckingSpeed]]:
    """The best of each task, of each checkout; only this one is asked for what is not worth comparing.

    Raises:
        subprocess.CalledProcessError: something could not be measured.
    """
    found: list[list[CheckingSpeed]] = []
    for task in tasks:
        compared, turns = (checkouts, rounds) if task.is_ours else (checkouts[:1], 1)
        all_rounds = [[measure_once(task, checkout, chunks) for checkout in compared] for _ in range(turns)]
        found.append([min(of_one, key=lambda speed: speed.cpu_seconds) for of_one in zip(*all_rounds, strict=True)])
    return found


def measure_once(task: Task, checkout: Path, chunks: int) -> CheckingSpeed:
    """In a process of its own."""
    command = [sys.executable, "-m", "benchmarks.model_checking", "--work", task.work, "--name", task.name]
    paths = os.pathsep.join(str(checkout / room) for room in ("impl", "model", "proofs"))
    output = subprocess.run(
        [*command, "--chunks", str(chunks)],
        # By the checkout's own copy of this file: modules may have other names there.
        cwd=checkout,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ).stdout
    count, seconds = json.loads(output)
    return CheckingSpeed(what=task.what, unit=task.unit, count=count, cpu_seconds=seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for."""
    options = parser().parse_args(arguments)
    if options.work:
        print(json.dumps(WORK[options.work](options.name, options.chunks)))
        return 0
    checkouts = [CHECKOUT]
    if options.against is not None:
        if not (options.against / "model/permitflow_model").is_dir():
            parser().error(f"argument --against: {options.against} is no checkout of this project")
        checkouts.append(options.against.resolve())
    tasks, rounds, chunks = (SMOKE, 1, 1_000) if options.smoke else (TASKS, options.rounds, options.chunks)
    tasks = [task for task in tasks if options.only in task.what]
    results = measure(tasks, rounds, chunks, checkouts)
    rows = [
        [*ours.row(), *(text for other in others for text in (other.row()[-1], f"{ours.rate / other.rate:.1f}"))]
        for ours, *others in results
    ]
    compared = ("other", "times as fast") if len(checkouts) > 1 else ()
    print(table(["what", "of", "CPU seconds", "each second", *compared], rows))
    if options.folder is not None:
        Results.keep_in(options.folder, describe_machine(), PART, [ours for ours, *_ in results], rounds=rounds)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, metavar="CHECKOUT", help="measure this version, too")
    options.add_argument("--only", default="", metavar="WORDS", help="only what has these words in its name")
    options.add_argument("--rounds", type=int, default=3, help="of each measurement of ours; default 3")
    options.add_argument("--chunks", type=int, default=CHUNKS, help="of the recorded run; default 20000")
    options.add_argument("--smoke", action="store_true", help="only whether it runs")
    options.add_argument("--folder", type=Path, help="keep the figures among the results in this folder")
    options.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    options.add_argument("--name", default="", help=argparse.SUPPRESS)
    return options


if __name__ == "__main__":
    sys.exit(main())
