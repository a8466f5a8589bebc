"""Configures Spark for an exchange: each setting with its reason, and none that overrides the user's.

It looks for the user's settings in every place where Spark reads them.  The figures behind the settings are in
docs/guides/spark-operations.md.
"""

import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from permitflow.channels.interface import require_count
from permitflow.flows.permits.parameters import DEFAULT_ROW_PERMITS
from permitflow.spark.options import DEFAULT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_DEFAULTS_FILE = "spark-defaults.conf"

_LINE = re.compile(r"^\s*(spark[\w.$-]*)\s*[=:\s]\s*(.*?)\s*$")

_LOCAL = re.compile(r"^local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?$")

# Spark is slower than a channel, so each chunk wakes everybody on its way: half as many chunks as a fast producer wants
# save three tenths of what worker, exchange and consumer need; see docs/guides/spark-operations.md.
_CHUNKS_IN_WINDOW = 4
# Longer batches are no cheaper.
_BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """One setting of Spark, or of the environment in which its workers start."""

    key: str
    value: str
    reason: str
    is_environment: bool = False
    """Is it an environment variable?"""
    is_runtime: bool = False
    """Can it still be set in a running session, or in one of a remote server?"""

    def __str__(self) -> str:
        """The setting as a line of the report."""
        return f"{self.key}={self.value}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings that ``configure`` applies to a builder, and those that it leaves to the user."""

    applied: tuple[SparkSetting, ...]
    kept: tuple[SparkSetting, ...]
    """Settings for which the user has chosen another value; the reason says what that costs."""
    advice: tuple[str, ...]
    """Hints about settings that cannot be set from here."""

    def __str__(self) -> str:
        """A report of one line per setting."""
        lines = [f"set   {setting}" for setting in self.applied]
        lines += [f"kept  {setting.key}={setting.value}, although: {setting.reason}" for setting in self.kept]
        return "\n".join([*lines, *(f"note  {words}" for words in self.advice)])


def configure(
    builder: SparkSession.Builder,
    *,
    channels: int | None = None,
    row_permits: int = DEFAULT_ROW_PERMITS,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    report: Callable[[str], object] = _log.info,
) -> SparkSession.Builder:
    """Set the options that channels need, and those that keep Spark from buffering many rows; then ``getOrCreate()``.

    Args:
        builder: ``SparkSession.builder``, classic or Connect, before or after your own settings, which stay.
        channels: number of channels that the session's jobs open at the same time; each holds a task slot.
        row_permits: the window of the channels into which they write; batches are a quarter of it.  Without it, they
            have 8,192 rows.
        timeout_seconds: the longest ``timeout_seconds`` of the session's jobs.
        report: is called with one text: the settings made and why, those kept, and those that cannot be set from here.

    Returns:
        The same builder.

    Raises:
        InvalidParametersError: ``row_permits`` is below 1.
    """
    chosen = configuration(builder, channels=channels, row_permits=row_permits, timeout_seconds=timeout_seconds)
    for setting in chosen.applied:
        if setting.is_environment:
            os.environ[setting.key] = setting.value
        else:
            builder.config(setting.key, setting.value)
    report(str(chosen))
    return builder


def configuration(
    builder: SparkSession.Builder,
    *,
    channels: int | None = None,
    row_permits: int = DEFAULT_ROW_PERMITS,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Configuration:
    """The changes that ``configure`` would make; changes nothing.

    Raises:
        InvalidParametersError: as ``configure``.
    """
    require_count(row_permits, name="row_permits")
    given = settings_of(builder)
    applied: list[SparkSetting] = []
    kept: list[SparkSetting] = []
    advice: list[str] = []
    for setting in _wanted(given, channels, row_permits):
        users = os.environ.get(setting.key) if setting.is_environment else given.get(setting.key)
        if users is not None:
            if users != setting.value:
                kept.append(SparkSetting(setting.key, users, setting.reason, setting.is_environment))
        elif not setting.is_runtime and (where := _out_of_reach(given)):
            advice.append(f"{where} with {setting}")
        else:
            applied.append(setting)
    advice += _cautions(given, channels, timeout_seconds)
    return Configuration(tuple(applied), tuple(kept), tuple(advice))


def settings_of(builder: SparkSession.Builder) -> dict[str, str]:
    """The settings that a session of this builder would get.

    A later source wins, as in Spark: ``spark-defaults.conf``, ``PYSPARK_SUBMIT_ARGS``, ``spark-submit``, a running
    context, the builder.
    """
    started = {**_from_file(), **_from_submit_arguments(), **_from_spark_submit(), **_from_running_context()}
    return {**started, **_from_builder(builder)}


def master_of(settings: Mapping[str, str]) -> str | None:
    """The master, as in ``local[4]``; None: Spark's default, ``local[*]``."""
    for place in (settings.get("spark.remote"), os.environ.get("SPARK_REMOTE"), settings.get("spark.master")):
        if place:
            return place
    return os.environ.get("MASTER")


def is_remote_server(settings: Mapping[str, str]) -> bool:
    """Is the session one of a running Spark Connect server?"""
    return (master_of(settings) or "").startswith("sc://")


def _from_builder(builder: SparkSession.Builder) -> dict[str, str]:
    # Classic and Connect builders keep their options in the same private field; no public method returns them.
    options: Mapping[str, object] = getattr(builder, "_options", {})
    return {key: str(value) for key, value in options.items()}


def _running_context() -> "SparkContext | None":
    from pyspark import SparkContext

    context: SparkContext | None = getattr(SparkContext, "_active_spark_context", None)
    return context


def _from_running_context() -> dict[str, str]:
    context = _running_context()
    return {} if context is None else dict(context.getConf().getAll())


def _from_submit_arguments() -> dict[str, str]:
    given, found = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")), {}
    words = [part for word in given for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for word, following in pairwise(words):
        if word in ("--conf", "-c") and "=" in following:
            key, _, value = following.partition("=")
            found[key.strip()] = value.strip()
        elif word == "--master":
            found["spark.master"] = following
    return found


def _from_spark_submit() -> dict[str, str]:
    """What the command's JVM has been told, if it is that which has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    # PySpark has no public method that connects to the JVM, and a context would fix all settings.
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _from_file() -> dict[str, str]:
    folder = os.environ.get("SPARK_CONF_DIR") or (
        os.path.join(os.environ["SPARK_HOME"], "conf") if os.environ.get("SPARK_HOME") else None
    )
    path = Path(folder or "") / _DEFAULTS_FILE
    if folder is None or not path.is_file():
        return {}
    lines = (_LINE.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {line[1]: line[2] for line in lines if line}


def _wanted(given: Mapping[str, str], channels: int | None, row_permits: int) -> list[SparkSetting]:
    rows = max(1, row_permits // _CHUNKS_IN_WINDOW)
    settings = [
        SparkSetting(
            "spark.python.unix.domain.socket.enabled",
            "true",
            "the kernel holds megabytes of rows in a TCP connection between a worker and Spark, where no permit "
            "bounds them",
        ),
        SparkSetting(
            "spark.sql.execution.arrow.maxRecordsPerBatch",
            str(rows),
            "rows wait in Spark until a batch for a Python writer is full, and a window should hold "
            f"{_CHUNKS_IN_WINDOW} chunks",
            is_runtime=True,
        ),
        SparkSetting(
            "spark.sql.execution.arrow.maxBytesPerBatch",
            str(_BATCH_BYTES),
            "so many rows may take hundreds of megabytes if they are long, in Spark and again in each worker",
            is_runtime=True,
        ),
    ]
    place = master_of(given)
    # A local cluster's workers run here, too.
    if place is None or place.startswith("local"):
        reason = "workers must be able to import permitflow, and Spark would start the first python3 of the PATH"
        settings.append(SparkSetting("PYSPARK_PYTHON", sys.executable, reason, is_environment=True))
    if place is None and channels is not None:
        slots = max(channels, os.cpu_count() or 1)
        reason = f"{channels} channels are open at the same time, and each needs a task slot"
        settings.append(SparkSetting("spark.master", f"local[{slots}]", reason))
    return settings


def _out_of_reach(given: Mapping[str, str]) -> str:
    if is_remote_server(given):
        return "start the Connect server"
    # The start settings of a running context cannot change any more.
    return "" if _running_context() is None else "stop the running session and start it"


def _cautions(given: Mapping[str, str], channels: int | None, timeout_seconds: float) -> list[str]:
    found = []
    slots = _task_slots(master_of(given))
    if channels is not None and slots is not None and slots < channels:
        found.append(
            f"{master_of(given)} has {slots} task slots for {channels} channels that are open at the same time: "
            f"a task that waits for the others starves until its time-out; use local[{channels}] or more"
        )
    if given.get("spark.speculation", "false").lower() == "true":
        found.append("spark.speculation starts tasks twice, which direct writers refuse: set it to false")
    if slots is None and not is_remote_server(given) and (master := master_of(given)) is not None:
        found.append(
            f"{master} is a cluster: a lost executor fails a job that writes with delivery=direct, since its rows may "
            "have been read; delivery=staged survives that, and so do readers of channels that keep their rows"
        )
    idle = _seconds(given.get("spark.python.worker.idleTimeoutSeconds", "0"))
    kills = given.get("spark.python.worker.killOnIdleTimeout", "false").lower() == "true"
    if kills and 0 < idle <= timeout_seconds:
        found.append(
            f"spark.python.worker.killOnIdleTimeout kills a worker that waits for rows or permits after {idle:g} s, "
            f"before the option timeoutSeconds ({timeout_seconds:g} s) can say why: allow it longer"
        )
    if _running_context() is None and not is_remote_server(given) and "grpc" in sys.modules:
        found.append(
            "gRPC is loaded in this process, and Spark's JVM is started by a fork, which may hang where gRPC runs: "
            "create the session first"
        )
    return found


def _task_slots(master: str | None) -> int | None:
    """The task slots of a local master; None for a cluster, where they are unknown."""
    found = _LOCAL.match(master or "")
    if found is None:
        return None
    count = found[1] or "1"
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _seconds(text: str) -> float:
    """Parse one of Spark's durations in seconds; 0 for another unit, which no short idle time has."""
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        return 0.0
