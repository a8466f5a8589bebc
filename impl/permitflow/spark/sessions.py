"""A session at a master or at a remote address, for commands that were given one."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from permitflow.spark.configure import configure

__all__ = ["FAILURES", "session_at"]

FAILURES = (PySparkException, RuntimeError, OSError)
"""What Spark raises where it cannot be started or reached, or cannot run a task."""


@contextmanager
def session_at(master: str, name: str) -> Iterator[SparkSession]:
    """A session, stopped at the end.

    Args:
        master: as Spark takes it (``spark://host:7077``, ``yarn``), or a remote session (``sc://host:15002``).
        name: of the application.
    """
    # Workers elsewhere have a Python of this name, not at this path.
    os.environ.setdefault("PYSPARK_PYTHON", Path(sys.executable).name)
    builder = SparkSession.builder.appName(name)
    spark = configure(builder.remote(master) if master.startswith("sc://") else builder.master(master)).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
