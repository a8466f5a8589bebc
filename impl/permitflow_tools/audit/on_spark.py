"""Audits traces of any size on Spark: tasks read row groups, and the driver merges their partial results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cached_property, partial
from itertools import chain

from pyspark.sql import DataFrame, SparkSession

from permitflow_tools.audit.findings import Audit, ChannelAudit
from permitflow_tools.audit.merging import examine_share, merge
from permitflow_tools.audit.summary import Part
from permitflow_tools.audit.units import Plan, Unit, plan
from permitflow_tools.checking.sessions import in_tasks, task_slots

# The last ones are so short that a slow task does not hold up the others for long.
_FINEST_TASKS_PER_SLOT = 8
_VIOLATIONS = (
    "channel STRING NOT NULL, end STRING NOT NULL, sequence BIGINT NOT NULL, clause STRING NOT NULL, "
    "action STRING NOT NULL, arguments ARRAY<BIGINT> NOT NULL, counters_before ARRAY<BIGINT>, "
    "counters_after ARRAY<BIGINT>, reason STRING NOT NULL"
)
_CHANNELS = (
    "channel STRING NOT NULL, ends ARRAY<STRING> NOT NULL, flow STRING NOT NULL, events BIGINT NOT NULL, "
    "sent_messages BIGINT NOT NULL, sent_rows BIGINT NOT NULL, consumed_messages BIGINT NOT NULL, "
    "consumed_rows BIGINT NOT NULL, violations BIGINT NOT NULL, remarks ARRAY<STRING> NOT NULL"
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

    See ``permitflow_tools.audit``.
    """
    whole = plan(paths)
    return SparkAudit(spark, merge(whole, _parts(spark, whole)))


def _parts(spark: SparkSession, whole: Plan) -> Iterator[Part]:
    """The partial result of each unit, in order.  Workers read the files themselves: no event passes through Spark."""
    # Each task costs ten milliseconds of two processors: Spark's own, and a worker that collects its garbage after it.
    shares = whole.falling_shares(task_slots(spark), finest=_FINEST_TASKS_PER_SLOT)
    work = partial(_examined, shares=shares, parameters=whole.parameters)
    return chain.from_iterable(in_tasks(spark, work, len(shares)))


def _examined(number: int, shares: Sequence[list[Unit]], parameters: Mapping[str, object]) -> list[Part]:
    return examine_share(shares[number], parameters)


def _as_channel(of: ChannelAudit) -> tuple[object, ...]:
    passed = (of.sent_messages, of.sent_rows, of.consumed_messages, of.consumed_rows)
    return (of.channel, sorted(of.ends), of.flow, of.events, *passed, of.violations, of.remarks)


def _as_row(values: Iterable[object]) -> tuple[object, ...]:
    channel, end, sequence, clause, action, arguments, before, after, reason = values
    return channel, end, sequence, str(clause), action, _listed(arguments), _listed(before), _listed(after), reason


def _listed(numbers: object) -> list[int] | None:
    return list(numbers) if isinstance(numbers, tuple) else None
