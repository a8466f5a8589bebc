"""The peers of the exchange in Spark: a Python source with its rows in memory, and a Python sink that throws rows away.

They run as users run Spark: with all of its compilers, on two task slots.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from benchmarks.harness import CHECKOUT
from benchmarks.jobs import Payload
from permitflow.spark.local_session import local_session

SLOTS = 2
CHUNK_ROWS = 8_192
PAYLOAD = Payload(f"{CHUNK_ROWS:,}", CHUNK_ROWS)


class MemorySource(DataSource):
    """``format("memory_chunks")``: yields a few chunks again and again, this many (``chunks``) in each task."""

    @classmethod
    def name(cls) -> str:
        return "memory_chunks"

    def schema(self) -> str:
        return "serial BIGINT, double BIGINT, square BIGINT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _MemoryReader(int(self.options["chunks"]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A stream without end."""
        return _MemoryStreamReader(int(self.options["chunks"]))


class _MemoryReader(DataSourceReader):
    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(SLOTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from PAYLOAD.chunks(self._chunks)


class _MemoryStreamReader(DataSourceStreamReader):
    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batch": start["batch"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(SLOTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from PAYLOAD.chunks(self._chunks)


class NullSink(DataSource):
    """``format("null_sink")``: takes rows as the exchange's sink does, and forgets them."""

    @classmethod
    def name(cls) -> str:
        return "null_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return _NullWriter()


class _NullWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


@contextmanager
def session(work_folder: Path) -> Iterator[SparkSession]:
    """A session whose Arrow batches are as large as the chunks."""
    # Workers import the peers from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    settings = {
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(CHUNK_ROWS),
    }
    with local_session("benchmark", master=f"local[{SLOTS}]", work_dir=work_folder, settings=settings) as spark:
        yield spark
