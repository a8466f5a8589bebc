"""Streaming queries as the exchange sees them: Spark's progress and the channels' statistics, joined batch by batch.

A Python source can tell Spark no metrics of its own but how far the channels have come; that is in the progress of each
batch, as ``latestOffset``.  What the exchange holds, and who waits for whom, only the exchange knows; this listener
asks it whenever Spark reports progress.
"""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

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

from permitflow.errors import PermitflowError
from permitflow.protocol.traffic import Flow
from permitflow.spark.committed_tails import CommittedTails, offset_of, query_name

if TYPE_CHECKING:
    from permitflow.transports.blocking_control import Look, TrafficWatch

__all__ = ["BatchProgress", "ExchangeListener", "QueryRecord", "listener"]

_log = logging.getLogger(__name__)

# Spark's listener bus must not wait long for an exchange that is away.
LONGEST_ANSWER_SECONDS = 2.0
MOST_RECORDS = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchProgress:
    """What Spark says about a batch."""

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
    """Rows that are in the channels and in no batch yet, when the channels were last asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRecord:
    """A moment: what Spark has said, and what the exchange answered."""

    progress: BatchProgress | None
    """None: the query was idle."""
    at_seconds: float
    """By the exchange's clock; 0: it did not answer."""
    flows: Sequence[Flow]
    """Of the channels that are watched, since the record before."""
    error: str
    """Why the exchange did not answer; else empty."""

    def as_json(self) -> dict[str, object]:
        """One object, with what ``permitflow top --json`` prints, and the batch."""
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
    ) -> None:
        """Nothing is dialled yet.

        Args:
            address: of the exchange.
            channels: to watch; none: all that it has.
            on_record: is called with each record, in Spark's listener thread; what it raises is logged.
            acknowledge_for: queries, by name or id, for which to acknowledge what they have committed when they end,
                each with the consumer as which it reads.
        """
        self._tails = CommittedTails(address, acknowledge_for or {})
        self._address = address
        self._channels = tuple(channels)
        self._on_record = on_record
        self._watch: TrafficWatch | None = None
        self.records: deque[QueryRecord] = deque(maxlen=MOST_RECORDS)
        """The latest, oldest first."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Look for the first time, so that the first batch has something to be compared with."""
        self._record(None)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Note what a batch has done, and what the exchange holds now."""
        self._tails.committed(event.progress)
        self._record(_batch_of(event.progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Note what the exchange holds while the query has nothing to do."""
        self._record(None)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Acknowledge for the query if that is wanted, look for the last time, and hang up."""
        self._tails.ended(event.runId)
        self._record(None)
        self.close()

    def close(self) -> None:
        """Hang up; the next event dials again."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def write(self, path: str | PathLike[str]) -> None:
        """Write all records as lines of JSON, which ``plot_back_pressure`` reads as well."""
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
            # An exception would only end in Spark's log, as one of the listener bus.
            _log.exception("on_record failed")

    def _look(self) -> "Look":
        if self._watch is None:
            # gRPC must not be loaded before Spark's gateway has been started.
            from permitflow.transports.blocking_control import TrafficWatch

            self._watch = TrafficWatch(self._address, self._channels, timeout_seconds=LONGEST_ANSWER_SECONDS)
        return self._watch.look()


def listener(
    spark: SparkSession,
    address: str,
    channels: Sequence[str] = (),
    *,
    on_record: Callable[[QueryRecord], object] | None = None,
    acknowledge_for: Mapping[str, str] | None = None,
) -> ExchangeListener:
    """Watch the session's streaming queries and the exchange at ``address`` together, from now on.

    Args:
        spark: classic or Connect; a listener of a Connect session runs in the client.
        address: as this process sees the exchange.
        channels: to watch; none: all that it has.
        on_record: is called with each record.
        acknowledge_for: a query that is stopped leaves its last batch in the exchange until it starts again; for those
            that are named here, each with the consumer as which it reads, what they have committed is acknowledged.

    Returns:
        The listener: ``records`` grows with each batch; ``spark.streams.removeListener`` takes it away.
    """
    made = ExchangeListener(address, channels, on_record=on_record, acknowledge_for=acknowledge_for)
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
        backlog_rows=sum(_backlogs(progress.sources)),
    )


def _backlogs(sources: Sequence[SourceProgress]) -> Iterator[int]:
    for source in sources:
        end, latest = _rows(source.endOffset), _rows(source.latestOffset)
        yield sum(max(0, row - end.get(channel, 0)) for channel, row in latest.items())


def _rows(offset: str | None) -> Mapping[str, int]:
    """By channel; other sources have offsets of their own, which say nothing here."""
    found = offset_of(offset)
    return {} if found is None else found.rows


def _number(value: float) -> float:
    # Spark says NaN for a rate that it does not know, which JSON cannot.
    return 0.0 if isnan(value) else value
