"""Joins Spark's progress of streaming queries with the exchange's statistics of their channels, batch by batch.

A Python source can report one metric to Spark: how far the channels have come, as ``latestOffset`` in the progress of
each batch.  Only the exchange knows how many rows it holds and which side waits; this listener asks it whenever Spark
reports progress.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from permitflow.carriers.security import Security
from permitflow.errors import CheckpointError, PermitflowError
from permitflow.spark.stream_planning import StreamOffset
from permitflow.stream.traffic import Rates

if TYPE_CHECKING:
    from permitflow.client.traffic_watch import TrafficReading, TrafficWatch

_log = logging.getLogger(__name__)

# Spark's listener bus waits meanwhile, which is harmless: no event follows the end of a query.
LONGEST_GOODBYE_SECONDS = 10.0

# Spark's listener bus must not wait long for an exchange that is away.
LONGEST_ANSWER_SECONDS = 2.0

MOST_RECORDS = 100_000


class CommittedTails:
    """Acknowledges, at the end of the queries it is given, the rows that they have committed."""

    def __init__(self, address: str, consumers: Mapping[str, str], security: Security | None = None) -> None:
        """Keep the settings; connect later.

        Args:
            address: of the exchange.
            consumers: the consumer of each query, by the query's name, or by its id if it has no name; other queries
                are ignored.
            security: TLS and a token.
        """
        self._address, self._security = address, security
        self._consumers = consumers
        self._ends: dict[UUID, tuple[str, StreamOffset]] = {}
        """The consumer of each run of a query, and the end of its last committed batch."""

    def committed(self, progress: StreamingQueryProgress) -> None:
        """Note that a batch is in the commit log."""
        name = query_name(progress)
        if name not in self._consumers:
            return
        ends = [end for source in progress.sources if (end := offset_of(source.endOffset)) is not None]
        if len(ends) == 1:
            self._ends[progress.runId] = (self._consumers[name], ends[0])
        elif ends:
            # Each source has a consumer of its own, and an offset does not name it.
            _log.error("query %r reads from exchanges %d times: nothing is acknowledged for it", name, len(ends))

    def ended(self, run: UUID) -> None:
        """Acknowledge the committed rows of a query's run that has ended.

        If the exchange does not answer, this logs a warning only: the query acknowledges when it starts again, as it
        does without this listener.

        Spec: AcknowledgeForDriver of SparkMicroBatch.
        """
        if run not in self._ends:
            return
        consumer, end = self._ends.pop(run)
        # gRPC must not be loaded before Spark's gateway has been started.
        from permitflow.client.blocking import control

        try:
            with control(self._address, timeout_seconds=LONGEST_GOODBYE_SECONDS, security=self._security) as orders:
                orders.acknowledge(end.acknowledged(), consumer=consumer)
        except PermitflowError as error:
            _log.warning("the exchange keeps a query's committed rows until the query starts again: %s", error)


def query_name(progress: StreamingQueryProgress) -> str:
    """The query's name, or its id if it has none."""
    return progress.name or str(progress.id)


def offset_of(text: str | None) -> StreamOffset | None:
    """Parse an offset as Spark reports it; None: another source's offset, or none yet."""
    try:
        return StreamOffset.of_json(json.loads(text or "null"))
    except (CheckpointError, ValueError):
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchProgress:
    """Spark's report of a batch."""

    query: str
    """The query's name, or its id if it has none."""
    batch: int
    timestamp: str
    """When the batch began, as ISO 8601."""
    input_rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    batch_seconds: float
    backlog_rows: int
    """Rows in the channels that are in no batch yet, when the channels were last asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRecord:
    """One observation: Spark's report, and the exchange's answer."""

    progress: BatchProgress | None
    """None: the query was idle."""
    at_seconds: float
    """Read from the exchange's clock; 0: it did not answer."""
    flows: Sequence[Rates]
    """Rates of the watched channels since the record before."""
    error: str
    """Why the exchange did not answer; else empty."""

    def as_json(self) -> dict[str, object]:
        """One object, with the keys of ``permitflow top --json``, and the batch."""
        batch = None if self.progress is None else asdict(self.progress)
        if self.error:
            return {"error": self.error, "batch": batch}
        return {"at_seconds": self.at_seconds, "channels": [flow.as_json() for flow in self.flows], "batch": batch}


class ExchangeListener(StreamingQueryListener):
    """Keeps a record of every batch of the session's queries; see ``listener``."""

    def __init__(
        self,
        address: str,
        channels: Sequence[str] = (),
        *,
        on_record: Callable[[QueryRecord], object] | None = None,
        acknowledge_for: Mapping[str, str] | None = None,
        security: Security | None = None,
    ) -> None:
        """Keep the settings; connect later.

        Args:
            address: of the exchange.
            channels: to watch; none: all of the exchange's.
            on_record: is called with each record, in Spark's listener thread; its exceptions are logged.
            acknowledge_for: the consumer of each query, by name or id, whose committed rows are to be acknowledged
                when it ends.
            security: TLS and a token, as this process shows and trusts them.
        """
        self._tails = CommittedTails(address, acknowledge_for or {}, security)
        self._address, self._security = address, security
        self._channels = tuple(channels)
        self._on_record = on_record
        self._watch: TrafficWatch | None = None
        self.records: deque[QueryRecord] = deque(maxlen=MOST_RECORDS)
        """The latest records, oldest first."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Take a first record, with which the first batch is compared."""
        self._record(None)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Record a batch, and the state of the exchange now."""
        self._tails.committed(event.progress)
        self._record(_batch_of(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Record the state of the exchange while the query has nothing to do."""
        self._record(None)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Acknowledge for the query if that is wanted, take a last record, and disconnect."""
        self._tails.ended(event.runId)
        self._record(None)
        self.close()

    def close(self) -> None:
        """Disconnect; the next event connects again."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def write(self, path: str | PathLike[str]) -> None:
        """Write all records as lines of JSON, which ``permitflow_tools.explain.back_pressure`` plots."""
        lines = [json.dumps(record.as_json()) + "\n" for record in self.records]
        Path(path).write_text("".join(lines), encoding="utf-8")

    def _record(self, progress: BatchProgress | None) -> None:
        at_seconds, flows, error = 0.0, [], ""
        try:
            look = self._look()
            at_seconds, flows = look.at_seconds, look.flows
        except PermitflowError as failure:
            error = str(failure)
        record = QueryRecord(progress=progress, at_seconds=at_seconds, flows=flows, error=error)
        self.records.append(record)
        try:
            if self._on_record is not None:
                self._on_record(record)
        except Exception:
            # Spark would log an exception as a failure of its listener bus.
            _log.exception("on_record failed")

    def _look(self) -> "TrafficReading":
        if self._watch is None:
            # gRPC must not be loaded before Spark's gateway has been started.
            from permitflow.client.traffic_watch import TrafficWatch

            self._watch = TrafficWatch(
                self._address, self._channels, timeout_seconds=LONGEST_ANSWER_SECONDS, security=self._security
            )
        return self._watch.look()


def listener(
    spark: SparkSession,
    address: str,
    channels: Sequence[str] = (),
    *,
    on_record: Callable[[QueryRecord], object] | None = None,
    acknowledge_for: Mapping[str, str] | None = None,
    security: Security | None = None,
) -> ExchangeListener:
    """Watch the session's streaming queries and the exchange at ``address`` together, from now on.

    Args:
        spark: classic or Connect; a listener of a Connect session runs in the client.
        address: as this process sees the exchange.
        channels: to watch; none: all of the exchange's.
        on_record: is called with each record.
        acknowledge_for: the consumer of each query, by name or id, whose committed rows are to be acknowledged when it
            ends; otherwise its last batch stays in the exchange until the query starts again.
        security: TLS and a token, as this process shows and trusts them.

    Returns:
        The listener: ``records`` grows with each batch; ``spark.streams.removeListener`` removes it.
    """
    made = ExchangeListener(address, channels, on_record=on_record, acknowledge_for=acknowledge_for, security=security)
    spark.streams.addListener(made)
    return made


def _batch_of(progress: StreamingQueryProgress) -> BatchProgress:
    milliseconds = progress.durationMs.get("triggerExecution", progress.batchDuration)
    return BatchProgress(
        query=query_name(progress),
        batch=progress.batchId,
        timestamp=progress.timestamp,
        input_rows=progress.numInputRows,
        input_rows_per_second=_number(progress.inputRowsPerSecond),
        processed_rows_per_second=_number(progress.processedRowsPerSecond),
        batch_seconds=milliseconds / 1000,
        backlog_rows=sum(map(_backlog_rows, progress.sources)),
    )


def _backlog_rows(source: SourceProgress) -> int:
    """0 for the offsets of another source."""
    end, latest = (offset_of(offset) or StreamOffset({}, {}) for offset in (source.endOffset, source.latestOffset))
    return sum(max(0, row - end.rows.get(channel, 0)) for channel, row in latest.rows.items())


def _number(value: float) -> float:
    # Spark reports NaN for an unknown rate, which JSON does not have.
    return 0.0 if isnan(value) else value
