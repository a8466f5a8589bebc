"""Opens Spark sessions for commands, at a master or a remote address; counts their task slots, and runs tasks."""

import logging
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import BinaryType

from permitflow.spark.configure import configure

FAILURES = (PySparkException, RuntimeError, OSError)
"""Errors that Spark raises if it cannot start, cannot be reached, or cannot run a task."""


@contextmanager
def session_at(master: str, name: str) -> Iterator[SparkSession]:
    """Open a session, and stop it at the end of the block.

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


@contextmanager
def starting_quietly(log: Path) -> Iterator[None]:
    """Send the output of a JVM that starts in this block, and of its workers, to a file instead of standard error.

    Their output, at the start and after Ctrl-C, would hide the command's own.  If the block is interrupted, the
    processes that it started are killed: no other code knows of them yet.
    """
    before = _children()
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    except KeyboardInterrupt:
        for child in _children() - before:
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _children() -> set[int]:
    """The ids of this process's children; empty where the system does not list them."""
    listed = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
    return {int(child) for children in listed for child in children}


@contextmanager
def heeding_as_before() -> Iterator[None]:
    """Restore the handler of Ctrl-C after this block: a session that starts in the block installs its own.

    Spark's handler asks the JVM to cancel the job over the connection that waits for the job, and both log errors.
    It also reacts to an interrupt that this process was started to ignore, as in the background of a script.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C in this block kill this process's JVM at once: an orderly stop waits for the running job.

    If the process ignores Ctrl-C, the block ignores it as well.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None:
            process.kill()
            process.wait()
        raise
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def unlogged() -> Iterator[None]:
    """Silence py4j's log in this block: py4j logs each exception that passes through it, and the caller reports it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def was_interrupted(error: BaseException) -> bool:
    """Was this error caused by Ctrl-C?  Interrupted code may fail with another error while it ends."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__context__
    return seen is not None


def task_slots(spark: SparkSession) -> int:
    """A classic session's task slots; for a remote session, which does not report them, its default parallelism."""
    context = getattr(spark, "_sc", None)
    slots = spark.conf.get("spark.sql.shuffle.partitions") if context is None else context.defaultParallelism
    return int(slots or 1)


def in_tasks(spark: SparkSession, work: Callable[[int], object], count: int) -> list[Any]:
    """The results of ``work(0)``, ``work(1)`` and so on, each from a task of its own; Spark starts them in this order.

    Needs no pandas, also through Connect.  Workers must be able to import the module of ``work``.
    """
    if not count:
        return []
    worked = udf(partial(_pickled, work), BinaryType(), useArrow=False)
    tasks = spark.range(0, count, 1, count)
    found = tasks.select(tasks.id.alias("task"), worked("id").alias("result")).collect()
    return [pickle.loads(row.result) for row in sorted(found, key=lambda row: int(row.task))]


def _pickled(work: Callable[[int], object], number: int) -> bytes:
    return pickle.dumps(work(number))
