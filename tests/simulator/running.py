"""Many schedules, in several processes, and what is reported of them."""

import gc
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any

from tests.simulator.outcome import Outcome
from tests.simulator.subjects import SUBJECTS, run_of
from tests.simulator.world import quiet

_AT_ONCE = 500
_BETWEEN_COLLECTIONS = 4
"""What few runs have left is still in the processor's caches."""
_SHOWN = 20
_ENOUGH = 10_000


@dataclass
class Report:
    """What came of many schedules of a subject."""

    subject: str = "streams"
    schedules: int = 0
    seconds: float = 0.0
    """That were simulated."""
    broken: dict[int, list[str]] = field(default_factory=dict)
    """By seed: the laws that do not hold."""
    seen: Counter[str] = field(default_factory=Counter)
    """How often what was sometimes to happen has happened."""
    steps: Counter[str] = field(default_factory=Counter)
    """Of the models."""
    states: set[Any] = field(default_factory=set)
    """Of the model that ``coverage`` knows."""

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.schedules += 1
        self.seconds += outcome.seconds
        self.seen += outcome.seen
        self.steps += outcome.steps
        self.states |= outcome.states
        if outcome.broken:
            self.broken[outcome.seed] = outcome.broken

    def merge(self, other: "Report") -> None:
        """Add those of another process."""
        self.schedules += other.schedules
        self.seconds += other.seconds
        self.seen += other.seen
        self.steps += other.steps
        self.states |= other.states
        self.broken |= other.broken

    def never_seen(self) -> list[str]:
        """What so many schedules should have shown."""
        if self.schedules < _ENOUGH:
            return []
        return [name for name in SUBJECTS[self.subject].sometimes if not (self.seen[name] or self.steps[name])]

    def in_words(self) -> Iterator[str]:
        """Line by line."""
        for seed, laws in sorted(self.broken.items())[:_SHOWN]:
            yield f"broken: python -m tests.simulator --subject {self.subject} --seed {seed}"
            yield from (f"    {law}" for law in laws[:4])
        if len(self.broken) > _SHOWN:
            yield f"… and {len(self.broken) - _SHOWN} more"
        for name, count in sorted(self.seen.items()):
            yield f"{count:10,}  {name}"
        if missing := self.never_seen():
            yield f"never seen: {', '.join(missing)}"
        yield f"{self.steps.total():10,}  steps of the model, {self.seconds:,.0f} simulated seconds"


def run_some(seeds: Sequence[int], subject: str = "streams") -> Report:
    """In this process, one after the other."""
    report, run = Report(subject), run_of(subject)
    for seed in seeds[:1]:
        report.add(run(seed, False))  # what it imports and makes once is there then
    are_frozen_before = gc.get_freeze_count() > 0
    gc.disable()
    collect()
    gc.freeze()  # and need not be looked at again and again
    try:
        for number, seed in enumerate(seeds[1:], start=1):
            report.add(run(seed, False))
            if number % _BETWEEN_COLLECTIONS == 0:
                collect()
    finally:
        collect()
        if not are_frozen_before:
            gc.unfreeze()
        gc.enable()
    return report


def collect() -> None:
    """Free what crashed processes have left; never in the middle of a run, which would depend on when."""
    with quiet():
        gc.collect()


def run_seeds(seeds: Sequence[int], jobs: int, subject: str = "streams") -> Iterator[Report]:
    """In so many processes at once: a report for each part, as soon as it is done, in the order of the seeds."""
    parts = [seeds[start : start + _AT_ONCE] for start in range(0, len(seeds), _AT_ONCE)]
    some = partial(run_some, subject=subject)
    if jobs == 1:
        yield from map(some, parts)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_process) as pool:
        try:
            yield from pool.map(some, parts)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_process() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one says what is to be done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
