"""How fast models are checked: our explorer beside TLC, recorded runs, proofs.

Each measurement is a process of its own and counts its CPU seconds, children included; the best of several rounds
counts.  TLC has one worker, as in all checks here, and its start counts.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from benchmarks.field import Settings
from benchmarks.harness import CHECKOUT, Partner
from benchmarks.results import Row
from permitflow_model.tla_values import TlaValue

if TYPE_CHECKING:
    from permitflow_model.manifest import Model


TWO_SIZES = frozenset({1, 3})
MODELS: dict[str, dict[str, TlaValue]] = {
    "every chunk size": {
        "RowPermits": 10,
        "InitialPermits": 10,
        "PermitBatch": 3,
        "MaxChunkCost": 8,
        "Sizes": frozenset({1, 2, 3, 4}),
    },
    "barriers and watermarks": {
        **{"RowPermits": 4, "InitialPermits": 4, "PermitBatch": 2, "MaxChunkCost": 3, "Sizes": TWO_SIZES},
        **{"BarrierPermits": 1, "Watermarks": True, "FlushIdle": True},
    },
    "numbered chunks": {
        **{"RowPermits": 6, "InitialPermits": 6, "PermitBatch": 2, "MaxChunkCost": 5, "Sizes": TWO_SIZES},
        **{"FlushIdle": True, "Withdrawals": True, "Waiters": 2, "Tags": 9},
    },
}
"""Models of PermitChannel larger than those of the manifest, by what makes them large; other constants as there."""

CHUNKS = 20_000
"""The chunks of a recorded run."""
FROM_ONE, FROM_TWO = "from one process", "from two processes"


# The measured things: each function imports what it needs, and returns a function that does the work and counts it.
Work = Callable[[], int]


def explored(name: str) -> Work:
    """States of a model, by our explorer, with all its invariants; without a name, of all models."""
    from permitflow_model.exploration import explore_model
    from permitflow_model.manifest import read_manifest
    from permitflow_model.registry import system_of

    models = (
        [larger_model(name)] if name else [m for m in read_manifest(CHECKOUT / "spec").values() if system_of(m.module)]
    )
    return lambda: sum(explore_model(model).states for model in models)


def checked_by_tlc(name: str) -> Work:
    """States of the same model, by TLC."""
    from permitflow_model.tlc.check import run_model

    model = larger_model(name)
    return lambda: run_model(model, spec_directory=CHECKOUT / "spec", timeout_seconds=600).states


def larger_model(name: str) -> "Model":
    """One of ``MODELS``, by its name."""
    from permitflow_model.manifest import read_manifest

    model = read_manifest(CHECKOUT / "spec")["published"]
    return replace(model, constants={**model.constants, **MODELS[name]})


def replayed(name: str) -> Work:
    """Events of a recorded run, replayed and checked."""
    from permitflow import ChannelParameters
    from permitflow.tracing import MemoryTrace
    from permitflow_testing.subjects.permits import CorePair
    from permitflow_testing.traces import judge

    trace = MemoryTrace()
    agreed = ChannelParameters(row_permits=2_000, permit_batch=150)
    pair = CorePair(agreed, record=trace.recorder)
    # As many chunks of different sizes as always fit into the window, again and again.
    wave = [1 + 17 * number % 61 for number in range(50)]
    assert sum(wave) <= agreed.row_permits - agreed.permit_batch
    for _ in range(CHUNKS // len(wave)):
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

    def work() -> int:
        verdict = judge(channel, by_end=name == FROM_TWO)
        assert verdict.is_valid
        return verdict.replay.performed

    return work


def proved(_: str) -> Work:
    """Theorems, each with its twin that must fail."""
    command = [sys.executable, "-m", "permitflow_tools.cli", "prove", "--json"]
    return lambda: len(json.loads(subprocess.check_output(command))["theorems"])


@dataclass(frozen=True)
class Task:
    what: str
    prepared: Callable[[str], Work]
    name: str
    unit: str
    most_rounds: int = 3
    is_quick: bool = False
    """Is it part of a smoke run?"""


TASKS = [
    *(Task(f"explorer: {name}", explored, name, "states") for name in MODELS),
    Task("explorer: the manifest's models", explored, "", "states", is_quick=True),
    *(Task(f"TLC: {name}", checked_by_tlc, name, "states", most_rounds=1) for name in MODELS),
    Task(f"recorded run: {FROM_ONE}", replayed, FROM_ONE, "events", is_quick=True),
    Task(f"recorded run: {FROM_TWO}", replayed, FROM_TWO, "events"),
    Task("theorems and their twins", proved, "", "theorems", most_rounds=1),
]


def measure_checking(settings: Settings) -> list[Row]:
    found: list[Row] = []
    for task in (task for task in TASKS if task.is_quick or not settings.is_smoke):
        rounds = [_measured(task) for _ in range(min(settings.rounds, task.most_rounds))]
        count, seconds = min(rounds, key=lambda each: each[1])
        found.append(
            {
                "What": task.what,
                "of": f"{count:,} {task.unit}",
                "CPU seconds": f"{seconds:.2f}",
                "each second": count / seconds,
            }
        )
    return found


def _measured(task: Task) -> tuple[int, float]:
    with Partner(_tell, task.prepared, task.name) as process:
        answer: tuple[int, float] = process.hears()
        return answer


def _tell(pipe: Connection, prepared: Callable[[str], Work], name: str) -> None:
    work = prepared(name)
    began = _cpu_seconds()
    count = work()
    pipe.send((count, _cpu_seconds() - began))


def _cpu_seconds() -> float:
    """The processor time of this process, and of all children that have ended."""
    return sum(os.times()[:4])
