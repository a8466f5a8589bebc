"""A Spark job, or the demonstration, cannot go on."""

from permitflow.errors.base import PermitflowError

__all__ = ["DemoError", "SparkSetupError", "TaskRetryError", "UnknownBatchError"]


class SparkSetupError(PermitflowError):
    """Spark's workers cannot use this package."""

    python: str
    reason: str
    hint: str

    def __init__(self, *, python: str, reason: str, hint: str) -> None:
        """``python`` is the interpreter that the workers run, ``reason`` what is wrong with it, ``hint`` what to do."""
        message = f"Spark's workers run {python}, {reason}: {hint}"
        super().__init__(message, python=python, reason=reason, hint=hint)


class TaskRetryError(PermitflowError):
    """Spark started a task again whose first attempt may have sent rows."""

    partition: int
    attempt: int

    def __init__(self, *, partition: int, attempt: int) -> None:
        """Attempts count from 0."""
        super().__init__(
            f"partition {partition} is written for the second time (attempt {attempt}): rows of the first attempt may "
            "have been consumed already and would come twice; run the whole job again, and without speculation",
            partition=partition,
            attempt=attempt,
        )


class UnknownBatchError(PermitflowError):
    """Spark does not tell a task of a streaming query which batch it writes."""

    missing: str

    def __init__(self, *, missing: str) -> None:
        """``missing`` is the task's local property that should say it."""
        super().__init__(
            f"this task does not know which batch of which query it writes: Spark has not set its local property "
            f"{missing!r}; is this release of Spark a supported one?",
            missing=missing,
        )


class DemoError(PermitflowError):
    """The demo cannot be run on this machine, or one of its processes failed."""

    KEEPS_LINES = True  # it shows the end of a log
