"""Spark's attempts at a task: the error of the last one is the job's, and need not be the one that explains it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from permitflow.errors import PeerGoneError, TaskRetryError
from permitflow.spark.options import refuse


def require_attempts(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Refuse to commit a micro-batch without an attempt at one of its tasks: nobody has had the task's rows.

    Raises:
        InvalidOptionError: there is none, as with ``trigger(continuous=...)``: Spark calls no writer in Python then.
    """
    if any(message is None for message in messages):
        reason = "hands no rows to a sink in Python, so nothing is written: use trigger(processingTime='0 seconds')"
        refuse("trigger", "continuous", reason)


@contextmanager
def earlier_attempts_named() -> Iterator[None]:
    """Say beside the error of a later attempt, which is refused or cannot connect, where to find what came before it.

    Spark shows the user only the error of the last one.  An attempt whose connection is lost for good ends with
    ResumeTimeoutError, and the next one cannot even connect.
    """
    try:
        yield
    except (PeerGoneError, TaskRetryError) as error:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            note = (
                f"this was attempt {context.attemptNumber() + 1} at the task; Spark's log has the error of the one "
                "before it, which is likely the cause"
            )
            if isinstance(error, PeerGoneError):
                note += (
                    "; if it is ResumeTimeoutError, the connection was lost for longer than option resumeSeconds "
                    "allows: look at the network, raise resumeSeconds if it needs longer (at both ends), and run the "
                    "whole job again"
                )
            error.add_note(note)
        raise
