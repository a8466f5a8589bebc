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

from permitflow.errors import CheckpointError, PermitflowError
from permitflow.protocol.control import ChannelRow
from permitflow.protocol.traffic import Rates
from permitflow.spark.stream_planning import StreamOffset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from permitflow.transports.traffic_watch import Look, TrafficWatch

__all__ = [
    "BatchProgress",
    "CommittedTails",
    "ExchangeListener",
    "QueryRecord",
    "listener",
    "offset_of",
    "plot_back_pressure",
    "query_name",
]

_log = logging.getLogger(__name__)

# Spark's listener bus waits meanwhile; but nothing comes after the end of a query.
LONGEST_GOODBYE_SECONDS = 10.0

# Spark's listener bus must not wait long for an exchange that is away.
LONGEST_ANSWER_SECONDS = 2.0

MOST_RECORDS = 100_000


class CommittedTails:
    """Follows the queries that it is told to acknowledge for."""

    def __init__(self, address: str, consumers: Mapping[str, str]) -> None:
        """Nothing is dialled yet.

        Args:
            address: of the exchange.
            consumers: as whom each query reads, by its name, or by its id if it has none; others are left alone.
        """
        self._address = address
        self._consumers = consumers
        self._ends: dict[UUID, tuple[str, StreamOffset]] = {}
        """Of each run of a query: as whom it reads, and where its last committed batch ends."""

    def committed(self, progress: StreamingQueryProgress) -> None:
        """A batch is in the commit log."""
        name = query_name(progress)
        if name not in self._consumers:
            return
        ends = [*_offsets(progress.sources)]
        if len(ends) == 1:
            self._ends[progress.runId] = (self._consumers[name], ends[0])
        elif ends:
            # Each has a consumer of its own, and an offset does not say which.
            _log.error("query %r reads from exchanges %d times: nothing is acknowledged for it", name, len(ends))

    def ended(self, run: UUID) -> None:
        """A run of a query is over: acknowledge what it has committed.

        An exchange that does not answer costs no more than a line in the log: the query acknowledges when it starts
        again, as without this.

        Spec: AcknowledgeForDriver of SparkMicroBatch.
        """
        if run not in self._ends:
            return
        consumer, end = self._ends.pop(run)
        rows = [ChannelRow(channel, row, end.log_ids[channel]) for channel, row in end.rows.items()]
        # gRPC must not be loaded before Spark's gateway has been started.
        from permitflow.transports.grpc_blocking import control

        try:
            with control(self._address, timeout_seconds=LONGEST_GOODBYE_SECONDS) as orders:
                orders.acknowledge(rows, consumer=consumer)
        except PermitflowError as error:
            _log.warning("what a query has committed stays in the exchange until it starts again: %s", error)


def query_name(progress: StreamingQueryProgress) -> str:
    """The query's name, or its id if it has none."""
    return progress.name or str(progress.id)


def offset_of(text: str | None) -> StreamOffset | None:
    """An offset as Spark reports it; None: it is another source's, or there is none yet."""
    try:
        return StreamOffset.of_json(json.loads(text or "null"))
    except (CheckpointError, ValueError):
        return None


def _offsets(sources: Sequence[SourceProgress]) -> Iterator[StreamOffset]:
    for source in sources:
        end = offset_of(source.endOffset)
        if end is not None:
            yield end


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
    flows: Sequence[Rates]
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
            from permitflow.transports.traffic_watch import TrafficWatch

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


def plot_back_pressure(
    source: ExchangeListener | str | PathLike[str],
    channels: Sequence[str] | None = None,
    *,
    title: str = "Back-pressure",
) -> "Figure":
    """Plot who waited, how many rows were held, and how fast they came.  Needs ``permitflow[plots]``.

    Args:
        source: a listener; or a file: what ``permitflow top --json`` has printed, or a listener has written.
        channels: only these; by default all.
        title: above all.

    Returns:
        A figure of matplotlib: a notebook shows it as the result of a cell, ``savefig`` writes it.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        OSError: the file cannot be read.
        ValueError: the file is another one; there are fewer than two looks; a channel is in none of them.
    """
    from permitflow.pictures.plots import back_pressure_figure, read_looks

    if isinstance(source, ExchangeListener):
        looks = [record.as_json() for record in source.records if not record.error]
    else:
        looks = [dict(look) for look in read_looks(source)]
    return back_pressure_figure(looks, channels, title)
