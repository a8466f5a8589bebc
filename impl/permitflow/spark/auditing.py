"""Audits traces of any size on Spark: a task for each row group, and what is left of it meets at the driver."""

import json
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from permitflow.audit.files import examine
from permitflow.audit.merging import merge
from permitflow.audit.part import Part
from permitflow.audit.report import Audit, ChannelAudit
from permitflow.audit.units import Plan, Unit, plan
from permitflow.protocol.parameters import ChannelParameters
from permitflow.spark.slots import task_slots

__all__ = ["SparkAudit", "audit"]

# Enough that a slow task does not hold up the others, few enough that starting them costs nothing.
_TASKS_PER_SLOT = 8

_NUMBERS = ArrayType(LongType(), containsNull=False)
_PARTS = StructType([StructField("unit", IntegerType(), nullable=False), StructField("part", BinaryType())])
_VIOLATIONS = StructType(
    [
        StructField("channel", StringType(), nullable=False),
        StructField("end", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("clause", StringType(), nullable=False),
        StructField("action", StringType(), nullable=False),
        StructField("rows", LongType(), nullable=False),
        StructField("permits", _NUMBERS, nullable=False),
        StructField("counters_before", _NUMBERS),
        StructField("counters_after", _NUMBERS),
        StructField("reason", StringType(), nullable=False),
    ]
)
_CHANNELS = StructType(
    [
        StructField("channel", StringType(), nullable=False),
        StructField("ends", ArrayType(StringType(), containsNull=False), nullable=False),
        *(
            StructField(name, LongType(), nullable=False)
            for name in ("events", "sent_messages", "sent_rows", "consumed_messages", "consumed_rows", "violations")
        ),
        StructField("remarks", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class SparkAudit:
    """What an audit has found, for programs and as DataFrames."""

    report: Audit
    violations: DataFrame
    """A row for each: channel, end, sequence, clause, action, rows, permits, the counters around it, reason."""

    channels: DataFrame
    """A row for each channel: what passed, how many violations, what could not be checked."""

    @property
    def holds(self) -> bool:
        """Has nothing been found?"""
        return self.report.holds


def audit(spark: SparkSession, *paths: str) -> SparkAudit:
    """Audit recorded traces: conservation, boundedness and order, channel by channel.

    Args:
        spark: classic or Connect; its workers must see the paths, and be able to import permitflow.
        paths: files (``*.parquet``, ``*.jsonl``) and folders of them, of one recording.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.

    See ``permitflow.audit``.
    """
    whole = plan(paths)
    report = merge(whole, _in_order(whole, _parts(spark, whole, paths)))
    violations = [_as_row(astuple(violation)) for violation in report.violations]
    channels = [_as_channel(of) for of in report.channels]
    return SparkAudit(
        report=report,
        violations=spark.createDataFrame(violations, _VIOLATIONS),
        channels=spark.createDataFrame(channels, _CHANNELS),
    )


class AuditDataSource(DataSource):
    """Looks at the parts of a trace: an internal data source, because those need no pandas, also through Connect."""

    @classmethod
    def name(cls) -> str:
        """Of the format."""
        return "permitflow_audit"

    def schema(self) -> StructType:
        """A pickled ``Part`` for each unit."""
        return _PARTS

    def reader(self, schema: StructType) -> "_AuditReader":
        """Of the trace files in the option ``paths``, with at most ``tasks`` tasks."""
        return _AuditReader(json.loads(self.options["paths"]), int(self.options["tasks"]))


class _Share(InputPartition):
    def __init__(self, numbers: list[int], units: list[Unit], parameters: dict[str, ChannelParameters]) -> None:
        super().__init__(numbers)
        self.numbers = numbers
        self.units = units
        self.parameters = parameters


class _AuditReader(DataSourceReader):
    def __init__(self, paths: list[str], tasks: int) -> None:
        self._paths = paths
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        whole = plan(self._paths)
        units, tasks = whole.units, min(self._tasks, len(whole.units))
        # Neighbours go to different tasks, so that a file with expensive parts does not keep one task busy alone.
        shares = [list(range(first, len(units), tasks)) for first in range(tasks)]
        return [_Share(numbers, [units[number] for number in numbers], whole.parameters) for numbers in shares]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        assert isinstance(partition, _Share), "Spark hands over what partitions() has made"
        for number, unit in zip(partition.numbers, partition.units, strict=True):
            yield number, pickle.dumps(examine(unit, partition.parameters))


def _parts(spark: SparkSession, whole: Plan, paths: Sequence[str]) -> dict[int, Part]:
    if not whole.units:
        return {}
    spark.dataSource.register(AuditDataSource)
    reading = spark.read.format(AuditDataSource.name()).option("paths", json.dumps(list(paths)))
    looked_at = reading.option("tasks", str(task_slots(spark) * _TASKS_PER_SLOT)).load()
    return {row.unit: pickle.loads(row.part) for row in looked_at.toLocalIterator()}


def _in_order(whole: Plan, parts: dict[int, Part]) -> Iterator[tuple[Unit, Part]]:
    for number, unit in enumerate(whole.units):
        yield unit, parts[number]


def _as_channel(of: ChannelAudit) -> tuple[object, ...]:
    passed = (of.sent_messages, of.sent_rows, of.consumed_messages, of.consumed_rows)
    return (of.channel, sorted(of.ends), of.events, *passed, of.violations, of.remarks)


def _as_row(values: Iterable[object]) -> tuple[object, ...]:
    channel, end, sequence, clause, action, rows, permits, before, after, reason = values
    return (
        channel,
        end,
        sequence,
        str(clause),
        action,
        rows,
        _listed(permits),
        _listed(before),
        _listed(after),
        reason,
    )


def _listed(numbers: object) -> list[int] | None:
    return list(numbers) if isinstance(numbers, tuple) else None
