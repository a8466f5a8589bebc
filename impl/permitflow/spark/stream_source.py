"""The streaming source: a query reads channels that keep their rows, batch by batch, each row exactly once.

Three kinds of processes have a copy of the reader, and none of them connects before it must:

- one beside the driver lives as long as the query.  It is asked where the channels stand, plans batches, and
  acknowledges.  All of that is decided by ``StreamPlanner``; ``ExchangeLine`` dials again after the exchange was away.
- one plans how rows are read, and only pickles the reader.
- workers read the ranges that were planned.

Rows are acknowledged in ``latestOffset(start, limit)``: ``start`` is the end of the last batch in Spark's commit log,
and Spark asks at each trigger, new rows or not.  ``commit`` would be too late (docs/protocols/spark-micro-batch.md),
and ``stop`` is never called by Spark: it kills the process.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from permitflow.errors import PeerTimeoutError, PermitflowError, RetentionError, RowsLostError
from permitflow.protocol.control import ChannelRow
from permitflow.spark.options import ReadOptions, StreamOptions
from permitflow.spark.patience import Patience, in_words
from permitflow.spark.reading import read_range
from permitflow.spark.recording import SourceRecorder, recorded_task, recording
from permitflow.spark.stream_planning import (
    LOSSES,
    OffsetJson,
    Position,
    Positions,
    RowRange,
    StreamOffset,
    StreamPlanner,
    lost,
)

if TYPE_CHECKING:
    from permitflow.transports.grpc_blocking import BlockingControl

__all__ = ["ChannelRows", "ExchangeLine", "ExchangeStreamReader"]


class ExchangeLine:
    """Asks the exchange, and tries again while it is away, for ``timeout_seconds``.

    What is asked and ordered here may come twice: an acknowledgement says up to which row, not how many.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Nothing is dialled yet."""
        self._options = options
        self._control: BlockingControl | None = None

    def positions(self, channels: Sequence[str]) -> dict[str, Position]:
        """Where channels stand.

        Raises:
            PermitflowError: the exchange is away for too long, does not know a channel or the consumer, or keeps none
                of its rows.
        """
        if not channels:
            return {}
        return self._ask(lambda control: control.positions(channels, consumer=self._options.consumer))

    def acknowledge(self, rows: Sequence[ChannelRow]) -> dict[str, Position]:
        """Let the exchange forget, and see where the channels stand then.

        Raises:
            ReplayError: the exchange has not the rows that are meant.
            PermitflowError: as ``positions``.
        """
        if not rows:
            return {}
        return self._ask(lambda control: control.acknowledge(rows, consumer=self._options.consumer))

    def close(self) -> None:
        """Hang up; the next question dials again."""
        dialled, self._control = self._control, None
        if dialled is not None:
            dialled.close()

    def _ask(self, ask: "Callable[[BlockingControl], Sequence[Position]]") -> dict[str, Position]:
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.transports.grpc_blocking import control

        options = self._options
        patience = Patience(options.timeout_seconds, options.channels)
        while True:
            try:
                if self._control is None:
                    # Spark drops a reader whose query has failed without a word.
                    dialled = control(options.address, timeout_seconds=patience.remaining_seconds)
                    self._control = dialled.droppable()
                return {position.channel: position for position in ask(self._control)}
            except BaseException as error:
                self.close()  # an order that cannot be carried out ends the stream, too
                if isinstance(error, PeerTimeoutError):
                    raise PeerTimeoutError(
                        who=f"the exchange at {options.address} ({in_words(options.channels)})",
                        reason=f"no reply within {options.timeout_seconds:g} s: is it, or the network, overloaded? "
                        "(option timeout_seconds)",
                    ) from error
                if isinstance(error, RetentionError):
                    error.add_note("a stream reads channels that keep their rows: permitflow serve --retention replay")
                if not isinstance(error, PermitflowError):
                    raise
                patience.wait(error)


class ChannelRows(InputPartition):
    """A range of rows of one channel."""

    def __init__(self, rows: RowRange) -> None:
        """Of one batch."""
        super().__init__(rows.channel)
        self.rows = rows


class ExchangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark asks of ``readStream.format("permitflow")``."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        """Keep what the copies need; nothing is dialled."""
        exchange = options.exchange
        self._options = exchange
        self._schema = schema
        self._consumer = exchange.consumer or "default"
        self._planner = StreamPlanner(exchange.channels, consumer=self._consumer, max_rows=options.max_rows)
        self._line = ExchangeLine(exchange)
        self._recorder = SourceRecorder(exchange.trace_dir, self._consumer)
        self._positions: Positions | None = None

    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins; driver, perhaps several times before the first batch is done.

        It is the first row that the consumer has not acknowledged, and stays it until the first batch is done.

        Raises:
            PermitflowError: the exchange is away, or does not keep such a channel for such a consumer.
        """
        return self._planner.initial(self._ask_positions()).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Rows of a batch: ``maxRowsPerBatch``, or half the window of each channel; driver, once."""
        return ReadMaxRows(self._planner.default_limit(self._ask_positions()))

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        """Acknowledge what the commit log has, and plan the next batch; driver, at each trigger.

        Raises:
            RowsLostError: rows that the query needs are gone.
            CheckpointError: the checkpoint is another query's.
            ChannelAbortedError: a producer has given up, and all that had come from it was read.
            PermitflowError: the exchange is away for longer than ``timeout_seconds``.

        Spec: Acknowledge, PlanBatch, ReportLoss of SparkMicroBatch.
        """
        offset = StreamOffset.of_json(start)
        try:
            positions = self._acknowledge(offset)
            limit_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            end = self._planner.plan(offset, positions, limit_rows=limit_rows)
        except RowsLostError as error:
            self._recorder.lost(error)
            raise
        if end is offset:
            return start
        self._recorder.planned(offset, end, positions)
        return end.as_json()

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        """How far the channels had come when the exchange was last asked, for the query's progress; asks it nothing."""
        return None if self._positions is None else self._planner.latest(self._positions).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the rows that are there now for all that there are; driver, once, before the first batch."""
        self._planner.end_at(self._ask_positions())

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """One for each channel with rows in this batch; driver, for a batch that is new or run again.

        Raises:
            CheckpointError: the checkpoint is another query's.
        """
        return [
            ChannelRows(rows) for rows in self._planner.ranges(StreamOffset.of_json(start), StreamOffset.of_json(end))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield rows of one channel; worker, once per attempt at a task.

        Raises:
            RowsLostError: rows that the query needs are gone.
            SchemaMismatchError: the user's schema is not the channel's.
            PeerGoneError: the exchange is away for longer than ``timeout_seconds``.

        Spec: RunTask of SparkMicroBatch.
        """
        assert isinstance(partition, ChannelRows)  # Spark hands back what partitions() made
        options, rows = self._options, partition.rows
        with (
            recorded_task(options.trace_dir, self._consumer, rows),
            recording(options.trace_dir, f"read-{rows.channel}") as streams,
        ):
            yield from read_range(options, rows, self._schema, streams)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: what this call tells, ``latestOffset`` has been told before, or will be told first."""

    def stop(self) -> None:
        """Hang up."""
        self._line.close()

    def _ask_positions(self) -> Positions:
        self._positions = self._line.positions(self._options.channels)
        if self._recorder.is_empty:
            self._recorder.restarted(self._positions, self._planner.cap)
        return self._positions

    def _acknowledge(self, start: StreamOffset) -> Positions:
        """Acknowledge ``start``; where all channels stand then, also those that it does not have."""
        rows = self._planner.acknowledgement(start)
        before = self._ask_positions() if self._recorder.is_on else {}
        try:
            after = self._line.acknowledge(rows)
        except LOSSES as error:
            channel = str(error.facts["channel"])
            raise lost(error, channel=channel, consumer=self._consumer, wanted_row=start.rows[channel]) from error
        new = self._line.positions([channel for channel in self._options.channels if channel not in after])
        self._positions = {**after, **new}
        if self._recorder.is_on:
            self._recorder.acknowledged(start, before, after)
        return self._positions
