"""The interface of a way to move chunks.  The benchmark finds each module of this folder with a tuple ``WAYS``."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import benchmarks.peers
from benchmarks.jobs import Job, Tally


class Group(StrEnum):
    PLAIN = "without permits"
    """Moves chunks without a bound in rows: shows the cost of the operating system and of serialising."""
    PEER = "peer"
    OURS = "permitflow"


Doing = Coroutine[Any, Any, None] | None
"""Methods that need an event loop are coroutines: the process runs its loop while it serves a job."""


class Producer:
    """Lives in the producer's process; serves one job after the other."""

    address: str
    """For the consumer, once it was started."""

    def start(self) -> Doing:
        """Start listening."""

    def prepare(self, job: Job) -> Doing:
        """Prepare, before the consumer may connect."""

    def produce(self, job: Job) -> Doing:
        """Send all chunks of a job, in order, and the end; some serve each consumer that dials."""

    def close(self) -> None:
        """Release resources that would outlive the process."""


class Consumer(ABC):
    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    def consume(self, job: Job, tally: Tally) -> Doing:
        """Receive all chunks of a job; each goes to ``tally.take``."""


@dataclass(frozen=True)
class Way:
    name: str
    """The name in tables."""
    group: Group
    about: str
    """One line: the way's mechanism, and the unit of its permits."""
    producer: Callable[[], Producer]
    consumer: Callable[[str], Consumer]
    target: str = ""
    """Its part in the targets: ``remote``, ``same host``, or ``peer``, to which these are compared."""

    @property
    def is_tuned(self) -> bool:
        """Are the same numbers of batch and window tried for it as for others, so that a bad choice makes none slow?"""
        return self.group is Group.PEER or bool(self.target)


_ORDER = list(Group)


def load_ways(module_name: str) -> tuple[Way, ...]:
    """The ways of one module; loads nothing else, since each process needs only its own libraries."""
    module = importlib.import_module(f"benchmarks.peers.{module_name}")
    ways: tuple[Way, ...] = getattr(module, "WAYS", ())
    return ways


@cache
def find_ways() -> tuple[dict[str, tuple[str, Way]], dict[str, str]]:
    """All ways by name, each with its module; and the modules that cannot be loaded, each with the reason."""
    found: list[tuple[str, Way]] = []
    skipped: dict[str, str] = {}
    for module in pkgutil.iter_modules(benchmarks.peers.__path__):
        if module.name == "way":
            continue
        try:
            found += [(module.name, way) for way in load_ways(module.name)]
        except ModuleNotFoundError as missing:
            skipped[module.name] = f"needs {missing.name}: pip install 'permitflow[bench]'"
    found.sort(key=lambda item: _ORDER.index(item[1].group))
    return {way.name: (module, way) for module, way in found}, skipped


def ways_for(target: str) -> list[Way]:
    """The ways that play this part."""
    ways, _ = find_ways()
    return [way for _, way in ways.values() if way.target == target]
