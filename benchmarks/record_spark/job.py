"""The runs that are recorded, and a Spark application that goes through some of them.

python -m benchmarks.record_spark.job send|receive RUNS WORK_FOLDER
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from permitflow.demo.settings import report
from permitflow.demo.spark_session import local_session
from permitflow.protocol.flow import Parameters
from permitflow.spark.options import ReadOptions
from permitflow.spark.source import ChannelPartition, ExchangeReader, PermitflowDataSource
from permitflow.testing.sabotage import sabotaged

__all__ = [
    "BATCH_ROWS",
    "PERMIT_BATCH",
    "REAL_CHANNELS",
    "STREAM",
    "Run",
    "from_json",
    "real_run",
    "sabotaged_run",
    "to_json",
]

STREAM = "numbers"
PERMIT_BATCH, SMALL_WINDOW, LARGE_WINDOW = 150, 2_000, 20_000
REAL_CHANNELS, TASKS_OF_CHANNEL = 4, 2

# A batch of Spark's is cut into 16 chunks of 61 rows and one of 21: not all permits that come back are alike.
BATCH_ROWS, CHUNK_ROWS, CHUNKS_OF_BATCH = 997, 61, 17

# Chunks of a sabotaged run: one for each task, above PERMIT_BATCH, all different and within a factor of two, so that no
# wrong return looks like a right one, in whatever order the tasks run.  All rows of a channel fit into LARGE_WINDOW, so
# that a return too many does not exceed it, which an exchange notices by itself; and they are more than half of it: a
# reader returns an eighth at a time, and the run needs some returns.
SABOTAGED_CHANNELS, SABOTAGED_TASKS, LEAST_ROWS = 2, 120, 200


@dataclass(frozen=True)
class Run:
    """One stream, from one Spark job to the other."""

    folder: str
    """For the recordings; its name is the run's."""

    channels: int
    tasks: int
    """Of the job that writes."""

    rows: int
    """Of the first task."""

    row_permits: int = SMALL_WINDOW
    """Of each channel in the exchange."""

    more_rows: int = 0
    """Of each task than of the one before."""

    chunk_rows: int = CHUNK_ROWS
    """The most rows of a chunk."""

    sabotage: str = ""
    """What the reader of the last channel does; see ``SABOTAGES``."""

    address: str = ""
    """Of the exchange, once it listens."""

    @property
    def name(self) -> str:
        """For reports."""
        return Path(self.folder).name

    @property
    def sabotaged_channel(self) -> str:
        """Whose reader is sabotaged, if any is."""
        return f"{STREAM}/{self.channels - 1}"

    def expected(self) -> list[list[int]]:
        """Of each task: its number, its rows, the sum of their serials from 1, how many different ones there are."""
        counts = [self.rows + self.more_rows * task for task in range(self.tasks)]
        return [[task, rows, rows * (rows + 1) // 2, rows] for task, rows in enumerate(counts)]


def real_run(folder: Path, chunks: int) -> Run:
    """About so many chunks through all channels together."""
    tasks = REAL_CHANNELS * TASKS_OF_CHANNEL
    batches = max(1, round(chunks / tasks / CHUNKS_OF_BATCH))
    return Run(str(folder), REAL_CHANNELS, tasks, rows=batches * BATCH_ROWS)


def sabotaged_run(folder: Path, sabotage: str) -> Run:
    """One chunk for each task; the reader of the last channel returns permits wrongly."""
    return Run(
        str(folder),
        SABOTAGED_CHANNELS,
        SABOTAGED_TASKS,
        rows=LEAST_ROWS,
        row_permits=LARGE_WINDOW,
        more_rows=1,
        chunk_rows=BATCH_ROWS,
        sabotage=sabotage,
    )


def to_json(runs: Sequence[Run]) -> str:
    """As one argument of a command line."""
    return json.dumps([asdict(run) for run in runs])


def from_json(text: str) -> list[Run]:
    """Back from the command line."""
    return [Run(**run) for run in json.loads(text)]


TIMEOUT_SECONDS = 60

SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS)}


class SabotagedReader(ExchangeReader):
    """Returns the permits of the last channel wrongly."""

    def __init__(self, options: ReadOptions, schema: StructType, sabotage: str) -> None:
        """``sabotage`` is a name in ``SABOTAGES``."""
        super().__init__(options, schema)
        self._sabotage = sabotage

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """As its base class; in the worker of the last channel the receiver is replaced first."""
        assert isinstance(partition, ChannelPartition)  # Spark hands back what partitions() made
        if partition.channel != self._options.channels[-1]:
            yield from super().read(partition)
            return
        # Spark uses the worker again for other tasks.
        with sabotaged(self._sabotage):
            yield from super().read(partition)

    def _rows_together(self, parameters: Parameters) -> int:
        """Chunk by chunk: a short run has so few returns of permits."""
        return 1


class SabotagedSource(PermitflowDataSource):
    """``format("sabotaged")``: one more option, ``sabotage``."""

    def __init__(self, options: dict[str, str]) -> None:
        """Take the option away before anybody finds it unknown."""
        self._sabotage = options.pop("sabotage")
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The word for ``format()``."""
        return "sabotaged"

    def reader(self, schema: StructType) -> DataSourceReader:
        """See ``SabotagedReader``."""
        return SabotagedReader(ReadOptions.parse(self.options), schema, self._sabotage)


def send(spark: SparkSession, run: Run) -> None:
    """Job 1: every task's rows, numbered from 1."""
    serials = f"explode(sequence(1, {run.rows} + {run.more_rows} * id))"
    frame = spark.range(0, run.tasks, 1, run.tasks).selectExpr("id AS task", f"{serials} AS serial")
    writer = frame.write.format("permitflow").mode("append").options(**options_of(run))
    writer.option("chunk_rows", str(run.chunk_rows)).save()


def receive(spark: SparkSession, run: Run) -> None:
    """Job 2: did every row come once?  A channel is read once, so this is one question."""
    reader = spark.read.format("sabotaged" if run.sabotage else "permitflow").options(**options_of(run))
    if run.sabotage:
        reader = reader.option("sabotage", run.sabotage)
    reader.load().createOrReplaceTempView("numbers")
    question = "SELECT task, count(*), sum(serial), count(DISTINCT serial) FROM numbers GROUP BY task ORDER BY task"
    found = [list(row) for row in spark.sql(question).collect()]
    if found != run.expected():
        raise AssertionError(f"what came out is not what went in: {found}")


def options_of(run: Run) -> dict[str, str]:
    """Of ``format("permitflow")``."""
    return {
        "address": run.address,
        "stream": STREAM,
        "channels": str(run.channels),
        "timeout_seconds": str(TIMEOUT_SECONDS),
        "trace_dir": run.folder,
    }


def send_and_receive(spark: SparkSession, run: Run) -> None:
    """Both jobs, one after the other: the windows hold everything, and the exchange sends it before permits return."""
    send(spark, run)
    receive(spark, run)


JOBS: dict[str, Callable[[SparkSession, Run], None]] = {"send": send, "receive": receive}


def first_error_of_ours(text: str) -> str:
    """The line that counts in a hundred lines of Spark's."""
    return next((line for line in text.splitlines() if line.startswith("permitflow.errors.")), text[:500])


def main(job: str, runs: Sequence[Run], work_dir: Path) -> None:
    """Go through all runs in one session, and report how each ended; Spark writes into ``work_dir``."""
    slots = f"local[{REAL_CHANNELS}]"
    with local_session(f"permitflow: {job}", master=slots, work_dir=work_dir, settings=SETTINGS) as spark:
        spark.dataSource.register(SabotagedSource)
        for run in runs:
            started = time.monotonic()
            failure = ""
            try:
                (send_and_receive if run.sabotage else JOBS[job])(spark, run)
            except Exception as error:
                failure = first_error_of_ours(str(error))
            report("done", run.name, failure=failure, seconds=time.monotonic() - started)


if __name__ == "__main__":
    main(sys.argv[1], from_json(sys.argv[2]), Path(sys.argv[3]))
