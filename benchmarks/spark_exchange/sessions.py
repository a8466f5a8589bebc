"""Spark as users run it: with all of its compilers, on two task slots."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.pairs import CHECKOUT
from permitflow.demo.spark_session import local_session

__all__ = ["SLOTS", "session"]

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
