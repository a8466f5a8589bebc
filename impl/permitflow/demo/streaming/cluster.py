"""A Spark cluster on this machine, whose executors are processes of their own and can be killed."""

import os
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

__all__ = ["CLUSTER", "EXECUTOR_CLASS", "local_cluster"]

CLUSTER = "local-cluster[2,1,1024]"
"""Two workers with one core and 1,024 MiB each; two tasks at a time."""

EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""In the command line of an executor's JVM."""


def local_cluster(work_dir: Path) -> None:
    """Have the workers of a local cluster write below ``work_dir``.

    They write into ``work`` of Spark's home, which is where Spark is installed: so this is another one, with links.
    Call it before the session starts.
    """
    installed = Path(_find_spark_home()).resolve()
    home = work_dir / "home"
    home.mkdir()
    for entry in installed.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
