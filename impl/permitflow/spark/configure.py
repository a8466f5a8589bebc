"""Settings with which Spark and an exchange get along, each with its reason; what the user has set stays.

The figures behind them are in docs/spark-operations.md.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from permitflow.protocol.parameters import ChannelParameters
from permitflow.spark.options import DEFAULT_TIMEOUT_SECONDS
from permitflow.spark.user_settings import is_remote_server, master_of, settings_of

__all__ = ["Configuration", "Setting", "configuration", "configure"]

_log = logging.getLogger(__name__)

_LOCAL = re.compile(r"^local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?$")

# A window of fewer than eight chunks runs in lock-step; see docs/performance.md.
_CHUNKS_IN_WINDOW = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of Spark, or of the environment in which its workers start."""

    key: str
    value: str
    reason: str
    is_environment: bool = False
    """Is it a variable of the environment?"""
    is_runtime: bool = False
    """Can a running session, or one of a remote server, take it still?"""

    def __str__(self) -> str:
        """As a line of a report."""
        return f"{self.key}={self.value}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Configuration:
    """What ``configure`` does to a builder, and what it leaves to the user."""

    applied: tuple[Setting, ...]
    kept: tuple[Setting, ...]
    """What the user has set differently: the value is the user's, the reason says what it costs."""
    advice: tuple[str, ...]
    """What cannot be set from here."""

    def __str__(self) -> str:
        """A report, one line for each."""
        lines = [f"set   {setting}" for setting in self.applied]
        lines += [f"kept  {setting.key}={setting.value}, although: {setting.reason}" for setting in self.kept]
        return "\n".join([*lines, *(f"note  {words}" for words in self.advice)])


def configure(
    builder: SparkSession.Builder,
    *,
    channels: int | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    report: Callable[[str], object] = _log.info,
) -> SparkSession.Builder:
    """Set what reading and writing channels needs, and what keeps Spark from hiding rows; then ``getOrCreate()``.

    Args:
        builder: ``SparkSession.builder``, classic or Connect, before or after settings of your own: those stay.
        channels: that jobs of this session read and write at the same time; each holds a task slot while it is open.
        timeout_seconds: the longest of the option ``timeout_seconds`` that the session's jobs use.
        report: gets one text that says what was set and why, what was kept, and what cannot be set from here.

    Returns:
        The same builder.
    """
    chosen = configuration(builder, channels=channels, timeout_seconds=timeout_seconds)
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
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Configuration:
    """What ``configure`` would do; changes nothing."""
    given = settings_of(builder)
    applied: list[Setting] = []
    kept: list[Setting] = []
    advice: list[str] = []
    for setting in _wanted(given, channels):
        users = os.environ.get(setting.key) if setting.is_environment else given.get(setting.key)
        if users is not None:
            if users != setting.value:
                kept.append(Setting(setting.key, users, setting.reason, setting.is_environment))
        elif not setting.is_runtime and (where := _out_of_reach(given)):
            advice.append(f"{where} with {setting}")
        else:
            applied.append(setting)
    advice += _cautions(given, channels, timeout_seconds)
    return Configuration(tuple(applied), tuple(kept), tuple(advice))


def _wanted(given: Mapping[str, str], channels: int | None) -> list[Setting]:
    rows = ChannelParameters().row_permits // _CHUNKS_IN_WINDOW
    settings = [
        Setting(
            "spark.python.unix.domain.socket.enabled",
            "true",
            "the kernel holds megabytes of rows in a TCP connection between a worker and Spark, where no permit "
            "bounds them",
        ),
        Setting(
            "spark.sql.execution.arrow.maxRecordsPerBatch",
            str(rows),
            "rows wait in Spark until a batch for a Python writer is full, and a window should hold "
            f"{_CHUNKS_IN_WINDOW} chunks",
            is_runtime=True,
        ),
    ]
    place = master_of(given)
    # A local cluster's workers run here, too.
    if place is None or place.startswith("local"):
        reason = "workers must be able to import permitflow, and Spark would start the first python3 of the PATH"
        settings.append(Setting("PYSPARK_PYTHON", sys.executable, reason, is_environment=True))
    if place is None and channels is not None:
        slots = max(channels, os.cpu_count() or 1)
        reason = f"{channels} channels are open at the same time, and each needs a task slot"
        settings.append(Setting("spark.master", f"local[{slots}]", reason))
    return settings


def _out_of_reach(given: Mapping[str, str]) -> str:
    if is_remote_server(given):
        return "start the Connect server"
    # A running context says so; what it was started with cannot be changed.
    return "stop the running session and start it" if "spark.app.id" in given else ""


def _cautions(given: Mapping[str, str], channels: int | None, timeout_seconds: float) -> list[str]:
    found = []
    slots = _task_slots(master_of(given))
    if channels is not None and slots is not None and slots < channels:
        found.append(
            f"{master_of(given)} has {slots} task slots for {channels} channels that are open at the same time: "
            f"whoever waits for the others starves, until its time-out; use local[{channels}] or more"
        )
    if given.get("spark.speculation", "false").lower() == "true":
        found.append("spark.speculation starts tasks twice, which direct writers refuse: set it to false")
    idle = _seconds(given.get("spark.python.worker.idleTimeoutSeconds", "0"))
    kills = given.get("spark.python.worker.killOnIdleTimeout", "false").lower() == "true"
    if kills and 0 < idle <= timeout_seconds:
        found.append(
            f"spark.python.worker.killOnIdleTimeout kills a worker that waits for rows or permits after {idle:g} s, "
            f"before the option timeout_seconds ({timeout_seconds:g} s) can say why: allow it longer"
        )
    if "spark.app.id" not in given and not is_remote_server(given) and "grpc" in sys.modules:
        found.append(
            "gRPC is loaded in this process, and Spark's JVM is started by a fork, which may hang where gRPC runs: "
            "create the session first"
        )
    return found


def _task_slots(master: str | None) -> int | None:
    """Of a local master; those of a cluster are not known here."""
    found = _LOCAL.match(master or "")
    if found is None:
        return None
    count = found[1] or "1"
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _seconds(text: str) -> float:
    """Of one of Spark's durations; what has another unit than seconds is no idle time of a few of them."""
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        return 0.0
