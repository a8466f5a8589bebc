"""Makes the data source known to a session."""

import os
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from permitflow.errors import SparkSetupError
from permitflow.spark.source import PermitflowDataSource

__all__ = ["register"]

LONGEST_START_SECONDS = 60


def register(spark: SparkSession) -> None:
    """Register ``format("permitflow")``.

    Spark finds the data source by itself where its workers can import ``pyspark_permitflow``; calling this as well
    is harmless, and tells now instead of in the first task if a local session's workers run another Python.

    Raises:
        SparkSetupError: the workers' Python cannot import this package.
    """
    _check_workers(spark)
    spark.dataSource.register(PermitflowDataSource)


def _check_workers(spark: SparkSession) -> None:
    # A remote session has no context here, and the workers of a cluster run on machines that are not asked.
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python == sys.executable or _can_import(python):
        return
    raise SparkSetupError(
        python=python,
        hint=f"set the environment variable PYSPARK_PYTHON={sys.executable} before the session is created",
    )


def _can_import(python: str) -> bool:
    try:
        probe = subprocess.run(
            [python, "-c", "import pyspark_permitflow"],
            capture_output=True,
            env=dict(os.environ),
            timeout=LONGEST_START_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0
