"""One trial: a job, what happens to it, and what is found afterwards.

A job passes its rows through a function in the stage that is to be run again.  Once, at a drawn row of a drawn
partition, the function does harm: it deletes all shuffle files, kills its executor, or waits until Spark has started a
second attempt at its task.  Each attempt leaves a note, so that a trial knows which tasks were run again.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from permitflow.client.blocking import control, open_source
from tests.support.samples_service import Service
from tests.support.served_exchange import channels_of, consumers

Options = dict[str, str]
_MOST_IN_BATCHES = [f"spark.sql.execution.{key}.maxRecordsPerBatch" for key in ("arrow", "python.udf")]

BATCH_ROWS = 20
PAD_BYTES = 1_000
"""So that a partition is larger than all buffers between Spark's processes."""

# Guards against hangs.
SECOND_ATTEMPT_SECONDS = 30.0


class Job(StrEnum):
    """What writes or reads."""

    DIRECT = "direct"
    STAGED = "staged"
    CALL_WRITE = "permitflow-grpc write"
    CALL_READ = "permitflow-grpc read"


class Harm(StrEnum):
    """Why Spark runs tasks again."""

    FILES = "shuffle files deleted"
    EXECUTOR = "executor killed"
    SPECULATION = "speculation"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is drawn from a seed."""

    seed: int
    number: int
    job: Job
    harm: Harm
    rows: int
    before: int
    """Partitions before the shuffle; reading: calls."""
    after: int
    """Partitions after it."""
    at_partition: int
    at_row: int

    @property
    def name(self) -> str:
        return f"{self.seed}-{self.number}: {self.job}, {self.harm}"


ORDER = (Harm.FILES, Harm.EXECUTOR, Harm.FILES, Harm.SPECULATION, Harm.FILES)
"""For all jobs, one after the other; what needs a cluster takes much longer."""


def draw(seed: int, number: int) -> Trial:
    """The jobs come in turn, so do the harms; the rest is drawn."""
    rng = random.Random(f"{seed}-{number}")
    jobs = tuple(Job)
    after = rng.randint(3, 6)
    rows = BATCH_ROWS * rng.randint(20, 60) * after
    return Trial(
        seed=seed,
        number=number,
        job=jobs[number % len(jobs)],
        harm=ORDER[number // len(jobs) % len(ORDER)],
        rows=rows,
        before=rng.randint(2, 4),
        after=after,
        at_partition=rng.randrange(after),
        at_row=rng.choice([1, rng.randint(1, rows // after // 2)]),
    )


@dataclass
class Found:
    """What a trial has left."""

    failure: str = ""
    """The job's error; empty: it went well."""
    rows: list[int] = field(default_factory=list)
    """That came to the end of the job."""
    clean_ends: int = 0
    """Readers that came to a clean end."""
    readers: int = 0
    told: list[str] = field(default_factory=list)
    """The errors of the other readers."""
    attempts: Counter[int] = field(default_factory=Counter)
    """How many were made at each partition of the stage."""


# In the workers.


_rows: Counter[int] = Counter()
"""That attempts of this worker have passed on."""


def harmful(trial: Trial, folder: str) -> Callable[[int, object], int]:
    """A function of a stage that passes rows on, and does harm once."""

    def passed(number: int, _pad: object) -> int:
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        partition, attempt = context.partitionId(), context.taskAttemptId()
        if not _rows[attempt]:
            Path(folder, f"{partition}-{attempt}").touch()
        _rows[attempt] += 1
        if partition == trial.at_partition and _rows[attempt] == trial.at_row and _is_first(folder):
            _HARMS[trial.harm](folder, partition)
        return number

    return passed


def _is_first(folder: str) -> bool:
    try:
        Path(folder, "harm").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _delete_files(folder: str, _: int) -> None:
    """All shuffle files of the session, whose local folder holds the trial's."""
    for file in Path(folder).parent.glob("**/shuffle_*"):
        file.unlink(missing_ok=True)


def _kill_executor(_folder: str, _: int) -> None:
    pid = os.getppid()
    while "java" not in Path(f"/proc/{pid}/comm").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(pid, signal.SIGKILL)


def _wait_for_second_attempt(folder: str, partition: int) -> None:
    until = monotonic() + SECOND_ATTEMPT_SECONDS
    while len([*Path(folder).glob(f"{partition}-*")]) < 2:
        if monotonic() > until:
            raise RuntimeError(f"Spark has not started a second attempt in {SECOND_ATTEMPT_SECONDS:g} s")
        sleep(0.05)


_HARMS = {
    Harm.FILES: _delete_files,
    Harm.EXECUTOR: _kill_executor,
    Harm.SPECULATION: _wait_for_second_attempt,
}


# In the driver.


def written(spark: SparkSession, trial: Trial, folder: str) -> DataFrame:
    """The rows that a job writes, behind a shuffle and the harm."""
    pad = f"repeat('x', {PAD_BYTES}) AS text"
    frame = spark.range(0, trial.rows, 1, trial.before).selectExpr("id", pad).repartition(trial.after, "id")
    return through(harmful(trial, folder), frame, "id", "text")


def through(passed: Callable[[int, object], int], frame: DataFrame, column: str, pad: str) -> DataFrame:
    """The same rows, in the stage behind a shuffle; the pad fills the buffers before the function."""
    return frame.withColumn(column, udf(passed, LongType())(column, pad))


def writing(trial: Trial, options: Options, folder: str) -> Callable[[SparkSession], tuple[str, list[Any]]]:
    """A job that writes; its error, and what the readers of its channels got."""

    def job(spark: SparkSession) -> tuple[str, list[Any]]:
        form = "permitflow-grpc" if trial.job is Job.CALL_WRITE else "permitflow"
        with _small_batches(spark):
            output = written(spark, trial, folder).write.format(form).mode("append").options(**options)
            if trial.job is not Job.DIRECT:
                return _error_of(output.save), []
            with consumers(options) as receiving:
                failure = _error_of(output.save)
                return failure, [future.result() for future in receiving]

    return job


def reading(trial: Trial, options: Options, folder: str) -> Callable[[SparkSession], tuple[str, list[Any]]]:
    """A job that reads calls; its error, and the numbers that came through."""

    def job(spark: SparkSession) -> tuple[str, list[Any]]:
        calls = spark.read.format("permitflow-grpc").options(**options).load().select("number", "raw")
        frame = calls.repartition(trial.after, "number")
        numbers = list[Any]()

        def collect() -> None:
            rows = through(harmful(trial, folder), frame, "number", "raw").select("number").collect()
            numbers.extend(row.number for row in rows)

        with _small_batches(spark):
            return _error_of(collect), numbers

    return job


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    """Let rows flow through a task as soon as they can; other jobs of the session have their batches again."""
    before = {name: spark.conf.get(name) for name in _MOST_IN_BATCHES}
    for name in before:
        spark.conf.set(name, str(BATCH_ROWS))
    try:
        yield
    finally:
        for name, rows in before.items():
            spark.conf.set(name, str(rows))


def _error_of(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


# Beside the driver.


class OnceService(Service):
    """Notes which request each call has made."""

    def __init__(self) -> None:
        super().__init__(window=65_536)
        self.requests: list[int] = []

    async def watch(self, query: Any, context: Any) -> None:
        self.requests.append(query.first)
        await super().watch(query, context)


def requests_of(trial: Trial) -> str:
    """As many calls as there are partitions before the shuffle, with the rows between them."""
    bounds = [trial.rows * part // trial.before for part in range(trial.before + 1)]
    calls = [
        f'{{"first": {first}, "count": {end - first}, "sizeBytes": {PAD_BYTES}}}' for first, end in pairwise(bounds)
    ]
    return f"[{', '.join(calls)}]"


def published(options: Options) -> list[int]:
    """All rows of a staged job."""
    found = list[int]()
    with control(options["address"]) as orders:
        for at in orders.positions(channels_of(options)):
            if at.next_row:
                with open_source(options["address"], at.channel, from_row=0, to_row=at.next_row) as source:
                    found += [value for batch in source for value in batch.column(0).to_pylist()]
    return found


def attempts_in(folder: Path) -> Counter[int]:
    """How many attempts were made at each partition."""
    return Counter(int(note.name.partition("-")[0]) for note in folder.iterdir() if "-" in note.name)


def numbers_in(received: list[Any]) -> tuple[list[int], int]:
    """What the readers of channels got that came to a clean end; how many did."""
    clean = [batches for batches in received if not isinstance(batches, str)]
    return [value for batches in clean for batch in batches for value in batch.column(0).to_pylist()], len(clean)


def broken_laws(trial: Trial, found: Found, service: OnceService | None) -> Iterator[str]:
    """Each law that does not hold, in words."""
    twice = [number for number, count in Counter(found.rows).items() if count > 1]
    if twice:
        yield f"{len(twice)} of {trial.rows} rows came twice or more, as {twice[0]}"
    if not found.failure and sorted(found.rows) != [*range(trial.rows)]:
        yield f"the job went well, and {len(found.rows)} rows came instead of {trial.rows}"
    if found.failure and trial.job is Job.DIRECT and found.clean_ends:
        yield f"the job failed, and {found.clean_ends} of {found.readers} readers came to a clean end"
    if not found.failure and found.told:
        yield f"the job went well, and a reader was told {found.told[0]}"
    if found.failure and trial.job is Job.STAGED and found.rows:
        yield f"the job failed, and {len(found.rows)} rows were published"
    if service is not None and len(service.requests) != len(set(service.requests)):
        yield f"a call was made again: {Counter(service.requests)}"
