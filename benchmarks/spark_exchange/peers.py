"""The peers: a Python source whose rows are in memory already, and a Python sink that throws all rows away.

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
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.harness import CHECKOUT
from benchmarks.jobs import Payload
from permitflow.demo.spark_session import local_session


def payload_of(rows: int) -> Payload:
    """Chunks of so many rows, as in the other comparisons."""
    return Payload(f"{rows:,}", rows)


class MemorySource(DataSource):
    """``format("memory_chunks")``: yields a few chunks again and again."""

    @classmethod
    def name(cls) -> str:
        return "memory_chunks"

    def schema(self) -> str:
        return "serial BIGINT, double BIGINT, square BIGINT"

    def reader(self, schema: StructType) -> DataSourceReader:
        """As many partitions, and chunks in each, as the options say."""
        options = self.options
        return _MemoryReader(int(options["partitions"]), int(options["chunks"]), int(options["rows"]))


class _MemoryReader(DataSourceReader):
    def __init__(self, partitions: int, chunks: int, rows: int) -> None:
        self._partitions, self._chunks, self._rows = partitions, chunks, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from payload_of(self._rows).chunks(self._chunks)


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


SLOTS = 2


@contextmanager
def session(work_folder: Path, chunk_rows: int = 8_192) -> Iterator[SparkSession]:
    """A session whose Arrow batches have so many rows."""
    # Workers import the peers from here.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    settings = {
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(chunk_rows),
    }
    with local_session("benchmark", master=f"local[{SLOTS}]", work_dir=work_folder, settings=settings) as spark:
        yield spark
