"""The streaming source: a query reads channels that keep their rows, batch by batch, each row exactly once.

Three kinds of processes have a copy of the reader, and each connects only when it must:

- A process beside the driver lives as long as the query.  It asks for the channels' positions, plans batches, and
  acknowledges.  ``StreamPlanner`` decides all of that; ``ExchangeLine`` connects again after the exchange was away.
- A planning process only pickles the reader.
- Workers read the planned ranges.

Rows are acknowledged in ``latestOffset(start, limit)``: ``start`` is the end of the last batch in Spark's commit log,
and Spark calls it at each trigger, with or without new rows.  ``commit`` would be too late
(docs/protocols/spark-micro-batch.md), and Spark never calls ``stop``: it kills the process.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from permitflow.errors import InvalidOptionError, PeerTimeoutError, PermitflowError, RowsLostError
from permitflow.spark.attempts import earlier_attempts_named
from permitflow.spark.blocked_share import BlockedShare
from permitflow.spark.causes import read_in_words, told_in_words
from permitflow.spark.epoch_planning import EpochPlanner
from permitflow.spark.options import Epochs, ReadOptions, StreamOptions
from permitflow.spark.patience import Patience, in_words
from permitflow.spark.reading import first_copied, read_range
from permitflow.spark.recording import SourceRecorder, recorded_task, recording
from permitflow.spark.stream_planning import (
    LOSSES,
    OffsetJson,
    Position,
    Positions,
    StreamOffset,
    StreamPlanner,
    lost,
)
from permitflow.spark.task_ranges import Ranges, rows_within, task_ranges
from permitflow.stream.control import ChannelRow

if TYPE_CHECKING:
    import pyarrow as pa

    from permitflow.client.blocking import BlockingControl

_log = logging.getLogger(__name__)

T = TypeVar("T")

# Enough for an average, small answers, and few of them.
_SAMPLED_ROWS = 256
_SAMPLED_CHANNELS = 16


class ExchangeLine:
    """A connection to the exchange that retries for ``timeout_seconds`` while the exchange is away.

    Its calls are idempotent: an acknowledgement says up to which row, not how many rows.
    """

    def __init__(self, options: ReadOptions) -> None:
        """Keep the options; connect later."""
        self._options = options
        self._control: BlockingControl | None = None

    def positions(self, channels: Sequence[str]) -> dict[str, Position]:
        """The positions of channels.

        Raises:
            PermitflowError: the exchange is away for too long, does not know a channel or the consumer, or keeps none
                of its rows.
        """
        if not channels:
            return {}
        found = self._ask(lambda control: control.positions(channels, consumer=self._options.consumer))
        return {position.channel: position for position in found}

    def acknowledge(self, rows: Sequence[ChannelRow]) -> dict[str, Position]:
        """Let the exchange forget rows, and return the channels' positions afterwards.

        Raises:
            ReplayError: the exchange does not have these rows.
            PermitflowError: as ``positions``.
        """
        if not rows:
            return {}
        found = self._ask(lambda control: control.acknowledge(rows, consumer=self._options.consumer))
        return {position.channel: position for position in found}

    def row_bytes(self, channels: Sequence[str]) -> dict[str, float]:
        """The average bytes of the rows that come next in channels; of none where there are none.

        Raises:
            PermitflowError: as ``positions``.
        """
        averages = dict[str, float]()
        for channel in channels:
            rows = self._ask(partial(self._peeked, channel))
            if rows.num_rows:
                averages[channel] = rows.nbytes / rows.num_rows
        return averages

    def _peeked(self, channel: str, control: "BlockingControl") -> "pa.Table":
        return control.peek(channel, _SAMPLED_ROWS, consumer=self._options.consumer)

    def close(self) -> None:
        """Disconnect; the next call connects again."""
        dialled, self._control = self._control, None
        if dialled is not None:
            dialled.close()

    def _ask(self, ask: "Callable[[BlockingControl], T]") -> T:
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.client.blocking import control

        options = self._options
        patience = Patience(options.timeout_seconds, options.channels)
        while True:
            try:
                if self._control is None:
                    # Spark drops the reader of a failed query silently.
                    dialled = control(
                        options.address,
                        timeout_seconds=patience.remaining_seconds,
                        resume_seconds=0,
                        security=options.security,
                    )
                    self._control = dialled.droppable()
                return ask(self._control)
            except BaseException as error:
                self.close()  # an order that fails also ends the stream
                if isinstance(error, PeerTimeoutError):
                    raise PeerTimeoutError(
                        who=f"the exchange at {options.address} ({in_words(options.channels)})",
                        reason=f"no reply within {options.timeout_seconds:g} s: is it, or the network, overloaded? "
                        "(option timeoutSeconds)",
                    ) from error
                if not isinstance(error, PermitflowError):
                    raise
                patience.wait(error)


class ChannelRows(InputPartition):
    """Ranges of rows, of one channel or several, which a task reads one after the other."""

    def __init__(self, ranges: Ranges) -> None:
        """``ranges`` of one batch."""
        super().__init__(ranges[0].channel)
        self.ranges = ranges


class ExchangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader behind ``readStream.format("permitflow")``."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        """Keep the options and the schema, which the copies need; connect later."""
        exchange = options.exchange
        self._options = exchange
        self._schema = schema
        self._consumer = exchange.consumer or "default"
        self._has_epochs = options.epochs is Epochs.ALIGNED
        self._limits = options.limits
        self._planner = self._planner_for(options)
        self._line = ExchangeLine(exchange)
        self._recorder = SourceRecorder(exchange.trace_dir, self._consumer)
        self._positions: Positions | None = None
        self._blocked = BlockedShare()

    def _planner_for(self, options: StreamOptions) -> StreamPlanner:
        channels = options.exchange.channels
        if options.epochs is Epochs.ALIGNED:
            return EpochPlanner(channels, consumer=self._consumer, stall_seconds=options.stall_seconds)
        return StreamPlanner(
            channels,
            consumer=self._consumer,
            limits=options.limits,
            starting=options.exchange.starting,
            fails_on_loss=options.exchange.fail_on_data_loss,
        )

    @told_in_words
    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins; driver, perhaps several times before the first batch is done.

        It is the consumer's first unacknowledged row, and does not move until the first batch is done.

        Raises:
            PermitflowError: the exchange is away, or does not keep such a channel for such a consumer.
        """
        return self._planner.initial(self._ask_positions()).as_json()

    @told_in_words
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The most rows or bytes of a batch: as stated, half the window of each channel, or an epoch; driver, once."""
        if self._limits.max_bytes is not None and self._limits.max_rows is None:
            return ReadMaxBytes(self._limits.max_bytes)
        return ReadMaxRows(self._planner.default_limit(self._ask_positions()))

    @told_in_words
    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        """Acknowledge the batches in the commit log, and plan the next one; driver, at each trigger.

        Raises:
            RowsLostError: rows that the query needs are gone.
            CheckpointError: the checkpoint belongs to another query.
            ChannelAbortedError: a producer has aborted its channel, and all rows before that were read.
            InputLostError, InputStalledError, EpochTooLargeError: no barrier can be aligned, see ``EpochPlanner.plan``.
            InvalidOptionError: the trigger is ``Trigger.Once``, and batches are epochs.
            PermitflowError: the exchange is away for longer than ``timeout_seconds``.

        Spec: Acknowledge, PlanBatch, ReportLoss of SparkMicroBatch.
        """
        if self._has_epochs and isinstance(limit, ReadAllAvailable):
            reason = "has a batch for each epoch, and Trigger.Once is a single batch: use trigger(availableNow=True)"
            raise InvalidOptionError(option="epochs", value=Epochs.ALIGNED.value, reason=reason)
        offset = StreamOffset.of_json(start)
        try:
            positions = self._acknowledge(offset)
            limit_rows = self._limit_rows(limit, offset, positions)
            min_rows = 1 if isinstance(limit, ReadAllAvailable) else self._limits.min_rows
            end = self._planner.plan(offset, positions, limit_rows=limit_rows, min_rows=min_rows)
        except RowsLostError as error:
            self._recorder.lost(error, self._positions or {})
            raise
        if end is offset:
            return start
        self._recorder.planned(offset, end, positions)
        return end.as_json()

    def _limit_rows(self, limit: ReadLimit, start: StreamOffset, positions: Positions) -> int | None:
        """The most rows of a batch; None: all."""
        if isinstance(limit, ReadAllAvailable):
            return None
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._planner.default_limit(positions)
        if (max_bytes := self._limits.max_bytes) is None:
            return rows
        new = {channel: positions[channel].next_row - row for channel, row in start.rows.items()}
        there = [channel for channel, waiting in new.items() if waiting]
        averages = self._line.row_bytes(there[:: ceil(len(there) / _SAMPLED_CHANNELS) or 1])
        usual = sum(averages.values()) / max(1, len(averages))
        return min(rows, rows_within(max_bytes, [(new[channel], averages.get(channel, usual)) for channel in there]))

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        """The channels' latest known positions, for the query's progress; does not ask the exchange.

        Beside them: ``lag_rows``, the rows that the query has not acknowledged, ``waiting_rows``, those of producers'
        chunks for which there is no room, and ``blocked_share``, see ``BlockedShare``.
        """
        if self._positions is None:
            return None
        found = self._positions.values()
        figures = {
            "lag_rows": sum(each.next_row - each.acknowledged_row for each in found),
            "waiting_rows": sum(each.waiting_rows for each in found),
            "blocked_share": round(self._blocked.share(), 4),
        }
        return {**self._planner.latest(self._positions).as_json(), **figures}

    @told_in_words
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Limit the query to the rows that exist now; driver, once, before the first batch."""
        self._planner.end_at(self._ask_positions())

    @told_in_words
    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """A partition per channel with rows in this batch, or as many as the user wants; driver, also when repeated.

        Raises:
            CheckpointError: the checkpoint belongs to another query.
        """
        ranges = self._planner.ranges(StreamOffset.of_json(start), StreamOffset.of_json(end))
        least, most = self._options.min_partitions, self._options.max_partitions
        return [ChannelRows(each) for each in task_ranges(ranges, least=least, most=most)]

    @read_in_words
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a partition; worker, once per attempt at a task.

        Raises:
            RowsLostError: rows that the query needs are gone.
            SchemaMismatchError: the user's schema is not the channel's.
            PeerGoneError: the exchange is away for longer than ``timeout_seconds``.

        Spec: RunTask of SparkMicroBatch.
        """
        assert isinstance(partition, ChannelRows)  # Spark passes the objects that partitions() returned
        yield from first_copied(self._batches(partition))

    def _batches(self, partition: ChannelRows) -> "Generator[pa.RecordBatch, None, None]":
        options = self._options
        for rows in partition.ranges:
            with (
                earlier_attempts_named(),
                recorded_task(options.trace_dir, self._consumer, rows),
                recording(options.trace_dir, f"read-{rows.channel}") as streams,
            ):
                yield from read_range(options, rows, self._schema, streams)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: ``latestOffset`` gets the same offset, before this call or before the next batch."""

    def stop(self) -> None:
        """Hang up."""
        self._line.close()

    def _ask_positions(self) -> Positions:
        self._positions = self._noted(self._line.positions(self._options.channels))
        if self._recorder.is_empty:
            self._recorder.restarted(self._positions, self._planner.cap)
        return self._positions

    def _noted(self, positions: Positions) -> Positions:
        self._blocked.note(positions, monotonic())
        return positions

    def _acknowledge(self, start: StreamOffset) -> Positions:
        """Acknowledge ``start``, and return the positions of all channels, also of those that ``start`` lacks."""
        rows = self._planner.acknowledgement(start)
        fails = self._options.fail_on_data_loss
        before = self._ask_positions() if self._recorder.is_on or not fails else {}
        if not fails:
            losses = self._planner.losses(start, before)
            for loss in losses:
                told = (loss.channel, loss.wanted_row, loss.reason)
                _log.warning("rows of channel %r are lost from row %d on, and left out: %s", *told)
            rows = tuple(row for row in rows if row.channel not in {loss.channel for loss in losses})
        try:
            after = self._line.acknowledge(rows)
        except LOSSES as error:
            channel = str(error.facts["channel"])
            raise lost(error, channel=channel, consumer=self._consumer, wanted_row=start.rows[channel]) from error
        new = self._line.positions([channel for channel in self._options.channels if channel not in after])
        self._positions = self._noted({**after, **new})
        if self._recorder.is_on:
            self._recorder.acknowledged(start, before, after)
        return self._positions
