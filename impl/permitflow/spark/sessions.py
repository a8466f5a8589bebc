"""Sessions: one at a master or at a remote address, for commands; how many tasks one runs at once."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from permitflow.spark.configure import configure

__all__ = [
    "FAILURES",
    "ended_by_interrupts",
    "heeding_as_before",
    "session_at",
    "starting_quietly",
    "task_slots",
    "unlogged",
    "was_interrupted",
]

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


@contextmanager
def starting_quietly(log: Path) -> Iterator[None]:
    """Let a JVM that starts in this block, and its workers, write to this file instead of standard error.

    A command's own words would be lost among theirs: those of the start, and of workers that Ctrl-C has ended, too.
    If the block is interrupted, what has been started is killed: no other code knows of it yet.
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
    """The processes that this one has started, where the system tells."""
    listed = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
    return {int(child) for children in listed for child in children}


@contextmanager
def heeding_as_before() -> Iterator[None]:
    """Let Ctrl-C do after this block what it did before: a session that starts in it has a handler of its own.

    That asks the JVM to cancel the job, over the connection that waits for it, and both complain.  And it would heed
    what this process was started to ignore, as in the background of a script.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C in this block end this process's JVM at once: an orderly stop waits for what it is doing.

    Where it is ignored, it is ignored in this block as well.
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
    """Log nothing in this block: py4j logs each exception that passes through it, which the caller tells anyway."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def was_interrupted(error: BaseException) -> bool:
    """Was it Ctrl-C that has led to this error?  What it interrupts may well fail on its way out."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__context__
    return seen is not None


def task_slots(spark: SparkSession) -> int:
    """Of a classic session, its task slots; of a remote one, which does not tell, its default number of partitions."""
    context = getattr(spark, "_sc", None)
    slots = spark.conf.get("spark.sql.shuffle.partitions") if context is None else context.defaultParallelism
    return int(slots or 1)
