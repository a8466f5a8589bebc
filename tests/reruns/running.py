"""Runs trials: sessions of Spark, two exchanges, and a service for each trial."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from time import monotonic
from unittest.mock import patch

from tests.impl.spark.conftest import KEEPING, Driver, options_of, running_driver
from tests.reruns.trials import (
    Found,
    Harm,
    Job,
    OnceService,
    Trial,
    attempts_in,
    broken_laws,
    numbers_in,
    published,
    reading,
    requests_of,
    writing,
)
from tests.support.served_exchange import ServedExchange, served_exchange
from tests.support.spark_cluster import standalone_cluster

_SETTINGS: dict[Harm, tuple[str, ...]] = {
    Harm.FILES: (),
    Harm.EXECUTOR: ("spark.executor.memory=512m",),
    Harm.SPECULATION: (
        "spark.executor.memory=512m",
        "spark.speculation=true",
        "spark.speculation.interval=100ms",
        "spark.speculation.minTaskRuntime=100ms",
        "spark.speculation.multiplier=1.1",
        "spark.speculation.quantile=0.1",
    ),
}


@dataclass
class Result:
    """A trial, and what was found."""

    trial: Trial
    found: Found
    broken: list[str]
    has_come: bool
    """Was harm done, and was a task run again, or the job's failure its answer?"""
    seconds: float

    def __str__(self) -> str:
        outcome = f"failed: {cause_of(self.found.failure)}" if self.found.failure else "went well"
        again = sum(count - 1 for count in self.found.attempts.values())
        verdict = "BROKEN" if self.broken else "holds "
        head = f"{verdict} {self.trial.name} ({self.seconds:.1f} s): {again} attempts more"
        told = (f"    a reader was told {cause_of(words)}" for words in self.found.told)
        return "\n".join([head, *(f"    {law}" for law in self.broken), f"    the job {outcome}", *told])


def cause_of(failure: str) -> str:
    """The first of our own errors in a job's failure, or its first line."""
    ours = re.search(r"permitflow\.errors\.(\w+: .{0,120})", failure)
    return ours[1] if ours else failure.splitlines()[0][:140]


def run_all(trials: Sequence[Trial], folder: Path) -> Iterator[Result]:
    """Run trials, those of one kind of harm after another."""
    order = [*Harm]
    for harm, own in groupby(sorted(trials, key=lambda trial: order.index(trial.harm)), lambda trial: trial.harm):
        with place(harm, folder) as run_one:
            yield from map(run_one, own)


@contextmanager
def place(harm: Harm, folder: Path) -> Iterator[Callable[[Trial], Result]]:
    """Where trials with this harm run: a session, on a cluster if need be, and two exchanges."""
    work_dir = folder / harm.name.lower()
    work_dir.mkdir()
    with ExitStack() as stack:
        once = stack.enter_context(served_exchange())
        kept = stack.enter_context(served_exchange(more=(*KEEPING, "--staging-rows", "1000000")))
        is_local = harm is Harm.FILES
        master = "local[4, 2]" if is_local else stack.enter_context(standalone_cluster(work_dir)).address
        stack.enter_context(submit_arguments(_SETTINGS[harm]))
        driver = stack.enter_context(running_driver(work_dir, master))
        yield lambda trial: run(trial, driver, once, kept, work_dir)


def run(trial: Trial, driver: Driver, once: ServedExchange, kept: ServedExchange, work_dir: Path) -> Result:
    """Run one trial, and judge it."""
    notes = work_dir / f"trial-{trial.seed}-{trial.number}"
    notes.mkdir()
    began = monotonic()
    service: OnceService | None = None
    match trial.job:
        case Job.DIRECT:
            failure, received = driver.run(writing(trial, options_of(once), str(notes)))
            rows, clean = numbers_in(received)
            told = [error for error in received if isinstance(error, str)]
            found = Found(failure, rows, clean, len(received), told)
        case Job.STAGED:
            options = options_of(kept, delivery="staged")
            failure, _ = driver.run(writing(trial, options, str(notes)))
            found = Found(failure, published(options))
        case Job.CALL_WRITE:
            service = OnceService()
            with service.served():
                message = "tests.support.samples_service:named"
                failure, _ = driver.run(writing(trial, service.options("Record", message=message), str(notes)))
                found = Found(failure, [sample.number for sample in service.recorded])
        case Job.CALL_READ:
            service = OnceService()
            with service.served():
                options = service.options("Watch", request=requests_of(trial))
                failure, numbers = driver.run(reading(trial, options, str(notes)))
                found = Found(failure, numbers)
    found.attempts = attempts_in(notes)
    is_repeated = any(count > 1 for count in found.attempts.values())
    has_come = (notes / "harm").exists() and (is_repeated or bool(found.failure))
    return Result(trial, found, [*broken_laws(trial, found, service)], has_come, monotonic() - began)


@contextmanager
def submit_arguments(settings: Sequence[str]) -> Iterator[None]:
    """Let sessions that start in the block have these settings of Spark's."""
    words = [word for setting in settings for word in ("--conf", setting)]
    added = {"PYSPARK_SUBMIT_ARGS": " ".join([*words, "pyspark-shell"]), "PYSPARK_PYTHON": sys.executable}
    with patch.dict(os.environ, added):
        yield
