"""Spark sessions that start fast and stay on this machine; also on a cluster whose executors can be killed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from permitflow.spark.configure import configure

FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
SHUFFLE_PARTITIONS = 2


@contextmanager
def local_session(
    name: str, *, master: str, work_dir: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session in this process; everything it writes goes below ``work_dir``.

    Args:
        master: as Spark takes it: ``local[2]`` is two task slots, ``local[2, 3]`` makes three attempts for each task.
        settings: more of Spark's own, by their full names.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", FAST_START)
        .config("spark.local.dir", str(work_dir))
        .config("spark.sql.warehouse.dir", str(work_dir / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


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
