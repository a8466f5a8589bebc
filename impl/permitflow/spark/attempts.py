"""Spark's attempts at a task: the error of the last one is the job's, and need not be the one that explains it."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from permitflow.errors import PeerGoneError, TaskRetryError


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
