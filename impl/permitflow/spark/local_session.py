"""Spark sessions that start fast and stay on this machine; also on a cluster whose executors can be killed."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from permitflow.spark.configure import configure

# A third of what a session's start needs would go to verifying the classes of Spark's own jars.
_UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
FAST_START = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto {_UNVERIFIED}"
SHUFFLE_PARTITIONS = 2
_PACKED = ("pyspark", "py4j")


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
        .config("spark.executor.extraJavaOptions", FAST_START)
        .config("spark.local.dir", str(work_dir))
        .config("spark.sql.warehouse.dir", str(work_dir / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    with _home_below(work_dir):
        spark = configure(builder).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


CLUSTER = "local-cluster[2,1,1024]"
"""Two workers with one core and 1,024 MiB each; two tasks at a time."""

EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
"""Stands in the command line of an executor's JVM."""


@contextmanager
def _home_below(work_dir: Path) -> Iterator[None]:
    """A Java process that starts meanwhile has another home of the installed Spark: links, and two differences.

    Python processes of a session import ``pyspark`` and ``py4j`` from zip files, which hold no compiled modules: that
    costs each of a session's ten or so processes a second of processor.  Here they are folders.  And workers of a local
    cluster write into ``work`` of their home.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = _linked_home(Path(_find_spark_home()), Path(mkdtemp(prefix="home-", dir=work_dir)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = before


def _linked_home(installed: Path, home: Path) -> str:
    """Links in ``home`` to what is installed."""
    for entry in installed.iterdir():
        if entry.name not in ("python", "work"):
            (home / entry.name).symlink_to(entry.resolve())
    libraries = home / "python" / "lib"
    libraries.mkdir(parents=True)
    for packed in (installed / "python" / "lib").iterdir():
        name = re.split("[.-]", packed.name)[0]
        found = find_spec(name) if name in _PACKED else None
        folder = Path(found.origin).parent if found is not None and found.origin is not None else None
        if folder is None or not folder.is_dir():  # it is itself imported from there
            (libraries / packed.name).symlink_to(packed.resolve())
        else:
            (libraries / packed.name).mkdir()
            (libraries / packed.name / name).symlink_to(folder)
    return str(home)
