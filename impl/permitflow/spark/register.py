"""Registers the data source with a session, and checks that the session's workers can import it."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from threading import Timer

from pyspark import SparkContext
from pyspark.sql import SparkSession

from permitflow.errors import SparkSetupError
from permitflow.spark.source import PermitflowDataSource

_log = logging.getLogger(__name__)

LONGEST_SECONDS = 60
"""Time for an executor and its Python to start.  A busy executor may need longer."""


def register(spark: SparkSession) -> None:
    """Register ``format("permitflow")`` and ``format("permitflow-grpc")``.

    Spark finds the data sources by itself where its workers can import ``pyspark_permitflow``; then this only checks,
    so that a missing package is reported now instead of in the first task.  With a ``local`` master it checks the
    workers' Python on this machine.  With any other master it runs a job of one task on an executor, and logs a
    warning if no executor takes the task within a minute.  It does not check the workers of a Spark Connect server.

    The session becomes the active one of this thread, because Spark looks for a sink in Python only there.  Another
    thread has none, nor has this one after Ctrl-C in a call of Spark: call this again in it, before it writes.

    Raises:
        SparkSetupError: the workers' Python cannot be run, cannot import this package, or has another release of it.
    """
    from permitflow.spark.calls.source import GrpcDataSource

    context = getattr(spark, "_sc", None)  # a remote session has no context
    if context is not None:
        if context.master == "local" or context.master.startswith("local["):
            _look_at_python(context)
        else:
            _ask_executor(context)
        _activate(spark)
    for source in (PermitflowDataSource, GrpcDataSource):
        if not _is_known(spark, source.name()):
            spark.dataSource.register(source)


def _activate(spark: SparkSession) -> None:
    # PySpark has no public method for it alone.
    classic = SparkSession._get_j_spark_session_class(spark._jvm)
    classic.setActiveSession(spark._jsparkSession)


def _is_known(spark: SparkSession, name: str) -> bool:
    """Has Spark found the format by itself, or been told of it before?  Spark warns if it is told of it again."""
    session = getattr(spark, "_jsparkSession", None)  # a remote session has none
    return session is not None and bool(session.sessionState().dataSourceManager().dataSourceExists(name))


def _look_at_python(context: SparkContext) -> None:
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python == sys.executable or _can_import(python):
        return
    raise SparkSetupError(
        python=python,
        reason="which cannot import permitflow",
        hint=f"set the environment variable PYSPARK_PYTHON={sys.executable} before the session is created",
    )


def _can_import(python: str) -> bool:
    try:
        probe = subprocess.run(
            [python, "-c", "import pyspark_permitflow"],
            capture_output=True,
            env=dict(os.environ),
            timeout=LONGEST_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def _ask_executor(context: SparkContext) -> None:
    tag = "permitflow.spark.register"
    patience = Timer(LONGEST_SECONDS, context.cancelJobsWithTag, [tag])
    context.addJobTag(tag)
    patience.start()
    try:
        ((python, release, refusal),) = context.parallelize([None], 1).map(_question()).collect()
    except Exception as error:  # py4j's type for Java's errors, or PySpark's own
        if not patience.is_alive():  # the timer has cancelled the job
            _log.warning(
                "no executor ran a task within %d s: cannot tell whether executors have permitflow", LONGEST_SECONDS
            )
            return
        told = str(error).partition("Driver stacktrace:")[0]
        words = " ".join(line for line in told.splitlines() if line and not line[0].isspace())  # without stack traces
        hint = "set the environment variable PYSPARK_PYTHON to a Python that executors have, of this driver's version"
        raise SparkSetupError(python=context.pythonExec, reason=f"where no task runs ({words})", hint=hint) from error
    finally:
        patience.cancel()
        context.removeJobTag(tag)
    if refusal:
        reason = f"which cannot import permitflow ({refusal})"
    elif release and (ours := _release()) and release != ours:
        reason = f"which has permitflow {release}, not {ours} as this driver"
    else:
        return
    hint = "install the driver's release of permitflow for it, with its extra [spark], or set PYSPARK_PYTHON to another"
    raise SparkSetupError(python=python, reason=reason, hint=hint)


def _question() -> Callable[[None], tuple[str, str, str]]:
    """A task that returns the worker's Python, its release of permitflow ("" if unknown), and the import error."""

    # A function inside another is pickled as a whole, so that a worker need not import this module to run it.
    def answer(_: None) -> tuple[str, str, str]:
        import importlib.metadata
        import sys

        try:
            # A task imports these; gRPC is safe here, because a worker is forked already.
            import permitflow.client.blocking
            import permitflow.spark.source  # noqa: F401 - that is the question
        except ImportError as error:
            return sys.executable, "", str(error)
        try:
            return sys.executable, importlib.metadata.version("permitflow"), ""
        except importlib.metadata.PackageNotFoundError:
            return sys.executable, "", ""

    return answer


def _release() -> str:
    # Workers import this module, and never ask.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("permitflow")
    except PackageNotFoundError:
        return ""
