"""Audits traces of any size on Spark: tasks read row groups, and the driver merges their partial results."""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from permitflow.audit.findings import Audit, ChannelAudit
from permitflow.audit.merging import examine_share, merge
from permitflow.audit.summary import Part
from permitflow.audit.units import Plan, Unit, plan
from permitflow.spark.sessions import task_slots

# The last ones are so short that a slow task does not hold up the others for long.
_FINEST_TASKS_PER_SLOT = 8
_NUMBERS = ArrayType(LongType(), containsNull=False)
_VIOLATIONS = StructType(
    [
        StructField("channel", StringType(), nullable=False),
        StructField("end", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("clause", StringType(), nullable=False),
        StructField("action", StringType(), nullable=False),
        StructField("arguments", _NUMBERS, nullable=False),
        StructField("counters_before", _NUMBERS),
        StructField("counters_after", _NUMBERS),
        StructField("reason", StringType(), nullable=False),
    ]
)
_CHANNELS = StructType(
    [
        StructField("channel", StringType(), nullable=False),
        StructField("ends", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("flow", StringType(), nullable=False),
        *(
            StructField(name, LongType(), nullable=False)
            for name in ("events", "sent_messages", "sent_rows", "consumed_messages", "consumed_rows", "violations")
        ),
        StructField("remarks", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)


class SparkAudit:
    """The findings of an audit, as objects and as DataFrames, which are made on first use."""

    def __init__(self, spark: SparkSession, report: Audit) -> None:
        """``spark`` makes the DataFrames."""
        self._spark = spark
        self.report = report
        """The findings as objects."""

    @property
    def holds(self) -> bool:
        """Is the audit free of violations?"""
        return self.report.holds

    @cached_property
    def violations(self) -> DataFrame:
        """A row for each: channel, end, sequence, clause, action, its arguments, the counters around it, reason."""
        rows = [_as_row(astuple(violation)) for violation in self.report.violations]
        return self._spark.createDataFrame(rows, _VIOLATIONS)

    @cached_property
    def channels(self) -> DataFrame:
        """A row for each channel: its traffic, the number of violations, and the clauses that could not be checked."""
        return self._spark.createDataFrame([_as_channel(of) for of in self.report.channels], _CHANNELS)


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
    return SparkAudit(spark, merge(whole, _parts(spark, whole)))


def _parts(spark: SparkSession, whole: Plan) -> Iterator[tuple[Unit, Part]]:
    """The partial result of each unit, in order.  Workers read the files themselves: no event passes through Spark."""
    # Each task costs ten milliseconds of two processors: Spark's own, and a worker that collects its garbage after it.
    shares = whole.falling_shares(task_slots(spark), finest=_FINEST_TASKS_PER_SLOT)
    if not shares:
        return
    looked_at = udf(partial(examine_share, shares=shares, limits=whole.limits), BinaryType(), useArrow=False)
    tasks = spark.range(0, len(shares), 1, len(shares))
    found = {
        row.task: row.parts for row in tasks.select(tasks.id.alias("task"), looked_at("id").alias("parts")).collect()
    }
    for number, share in enumerate(shares):
        yield from zip(share, pickle.loads(found[number]), strict=True)


def _as_channel(of: ChannelAudit) -> tuple[object, ...]:
    passed = (of.sent_messages, of.sent_rows, of.consumed_messages, of.consumed_rows)
    return (of.channel, sorted(of.ends), of.flow, of.events, *passed, of.violations, of.remarks)


def _as_row(values: Iterable[object]) -> tuple[object, ...]:
    channel, end, sequence, clause, action, arguments, before, after, reason = values
    return channel, end, sequence, str(clause), action, _listed(arguments), _listed(before), _listed(after), reason


def _listed(numbers: object) -> list[int] | None:
    return list(numbers) if isinstance(numbers, tuple) else None
