"""The data sinks: Spark's tasks put rows into the channels of an exchange.  Task p sends to channel p mod n.

``ExchangeWriter``: rows are read as they come.  What is promised: if the job succeeds, the exchange has accepted every
row exactly once, and the channels' readers come to a clean end after the last one; of a channel that has a reader by
then, the reader has consumed every row.  If a task fails, or is killed, while rows of it may have been sent, the
readers of its channel fail with an error that says so, and the job's abort does the same for the other channels: no
reader takes a shortened result for a whole one.  A second attempt of a task is refused, because the rows of the first
may have been read already: the job fails instead of delivering rows twice.  So set no speculation, and expect no
retries; or write with ``delivery=staged``, which survives both.

``StagedStreamWriter`` and, with ``delivery=staged``, ``StagedBatchWriter`` write exactly once.  Tasks stage their rows
in the exchange, each attempt in a place of its own, where no reader sees them.  The driver's commit publishes one
attempt at each partition, all together, in the order of the partitions, once for each query and batch: what is repeated
after a crash is not published again.  So tasks may be repeated, also speculatively, as Spark likes.

A batch must fit into the staging areas of its channels (``staging_rows`` of the exchange).  Published rows belong to
their channels at once; where consumers are slow, those beyond the window take room there, and tasks wait for it: that
is the back-pressure.

``abort`` of a staged batch gives up what its own driver's tasks have staged, and never what is published: it may come
after the batch was, and when the driver that follows runs the batch again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.chunks import slices
from permitflow.errors import ChannelError, PeerGoneError, PermitflowError, TaskRetryError, UnknownBatchError
from permitflow.protocol.control import ChannelState, StagedPart
from permitflow.protocol.frames import EndOutcome, Staging
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.spark.options import BatchKey, WriteOptions
from permitflow.spark.patience import Patience, in_words
from permitflow.spark.recording import StreamRecording, recording
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.schema import arrow_schema, conform
from permitflow.transports.shared_memory import SameHost

if TYPE_CHECKING:
    from permitflow.transports.grpc_blocking import BlockingControl, BlockingSink

__all__ = ["ExchangeWriter", "Sending", "SentMessage", "StagedBatchWriter", "StagedMessage", "StagedStreamWriter"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
S = TypeVar("S")

# Channels that are dialled at the same time.
_AT_ONCE = 16

# How long the driver's abort waits for an exchange that may be the very cause of the failure.
ABORT_TIMEOUT_SECONDS = 10.0

# An exchange is back within seconds; a mistyped address should not cost more than this in each attempt of a task.
_LONGEST_ABSENCE_SECONDS = 20.0

# What Spark tells its tasks about the micro-batch that they work on.
_QUERY_PROPERTY = "sql.streaming.queryId"

_BATCH_PROPERTY = "streaming.sql.batchId"


def _at_once(act: Callable[[S], T], on: Sequence[S], at_once: int = _AT_ONCE) -> list[T]:
    """What comes of each, in their order; after a failure, which is raised, nothing more is begun."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(act, on))


class SentMessage(WriterCommitMessage):
    """What a task has sent."""

    def __init__(self, channel: str, chunks: int, rows: int) -> None:
        """Totals of one task."""
        self.channel = channel
        self.chunks = chunks
        self.rows = rows


class Sending:
    """Sends the rows of tasks.  Built in a planning process, pickled, and used in the workers."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Keep what the workers need."""
        self._options = options
        self._schema = schema

    def channel_of(self, context: TaskContext) -> str:
        """The channel of a task: number p modulo n."""
        channels = self._options.exchange.channels
        return channels[context.partitionId() % len(channels)]

    def send(
        self, batches: Iterable[pa.RecordBatch], context: TaskContext, *, staging: Staging | None = None
    ) -> SentMessage:
        """Send all rows of a task, and wait until the exchange has taken them over.  Waits for permits.

        Whether they were consumed is asked by the commit, for all tasks together.  A task without rows sends nothing,
        not even a beginning.

        Raises:
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        channel = self.channel_of(context)
        chunks = self._chunks(batches)
        first = next(chunks, None)
        if first is None:
            return SentMessage(channel, 0, 0)
        with recording(self._options.exchange.trace_dir, f"write-{channel}-task-{context.partitionId()}") as streams:
            return self._send(channel, staging, first, chunks, streams)

    def _send(
        self,
        channel: str,
        staging: Staging | None,
        first: pa.RecordBatch,
        others: Iterable[pa.RecordBatch],
        streams: StreamRecording,
    ) -> SentMessage:
        wanted = self._options.exchange.wanted
        with self._opened(channel, wanted=wanted, record=streams.record, staging=staging) as sink:
            streams.add(sink)
            sink.send(first)
            for chunk in others:
                sink.send(chunk)
            sink.end(closes_channel=False, until=EndOutcome.ACCEPTED)
            sent = sink.statistics()
        return SentMessage(channel, sent.sent_chunks, sent.sent_rows)

    def _opened(
        self,
        channel: str,
        *,
        wanted: ChannelParameters | None,
        record: RecorderFactory | None,
        staging: Staging | None,
    ) -> "BlockingSink":
        """Dial; an exchange that keeps its rows may start again, and need not cost an attempt of its own."""
        patience = Patience(min(self._options.exchange.timeout_seconds, _LONGEST_ABSENCE_SECONDS), [channel])
        while True:
            try:
                return self.open(channel, wanted=wanted, record=record, staging=staging)
            except PeerGoneError as error:
                if staging is None:
                    raise
                patience.wait(error)

    def open(
        self,
        channel: str,
        *,
        timeout_seconds: float | None = None,
        wanted: ChannelParameters | None = None,
        record: RecorderFactory | None = None,
        staging: Staging | None = None,
        same_host: SameHost | None = None,
    ) -> "BlockingSink":
        """Dial; see ``open_sink``.  What is not given is as in the options."""
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.transports.grpc_blocking import open_sink

        leave_imports_alone()
        return open_sink(
            self._options.exchange.address,
            channel,
            arrow_schema(self._schema),
            wanted=wanted,
            timeout_seconds=timeout_seconds or self._options.exchange.timeout_seconds,
            record=record,
            same_host=same_host or self._options.exchange.same_host,
            compression=self._options.exchange.compression,
            staging=staging,
        )

    def open_for_a_word(self, channel: str, *, timeout_seconds: float | None = None) -> "BlockingSink":
        """Dial for an end or an abort: no rows will follow, so that nothing is prepared for them."""
        return self.open(channel, timeout_seconds=timeout_seconds, same_host=SameHost.NEVER)

    def declare_schema(self, channel: str) -> None:
        """State the schema of a channel that gets no rows, so that its readers know it."""
        with self.open_for_a_word(channel) as sink:
            sink.end(closes_channel=False)

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = arrow_schema(self._schema)
        for batch in batches:
            if batch.num_rows > 0:
                yield from slices(conform(batch, target), self._options.chunk_rows or batch.num_rows)


class ExchangeWriter(DataSourceArrowWriter):
    """Writes through ``PutStream``.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Keep what the workers need."""
        self._options = options
        self._sending = Sending(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            TaskRetryError: this is not the task's first attempt, and that has not broken the channel.
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        if context.attemptNumber() > 0:
            self._refuse_retry(context)
        return self._sending.send(iterator, context)

    def _refuse_retry(self, context: TaskContext) -> NoReturn:
        # If the first attempt broke the channel, the exchange knows why, which says more than that there was one.
        # The first attempt may also be alive, or have ended well, so that nothing may be broken here.
        with self._sending.open_for_a_word(self._sending.channel_of(context)) as sink:
            sink.end(closes_channel=False, until=EndOutcome.ACCEPTED)
        raise TaskRetryError(partition=context.partitionId(), attempt=context.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the channels for their readers; driver side, once, after all tasks have succeeded.

        None is ended before all have been reached.  Waits until the readers that are connected have consumed all rows.
        If another job goes on (``end=false``), nothing is ended and no reader is waited for, but each must be there
        still, if there was one.

        Raises:
            PermitflowError: a channel could not be ended, or has lost its reader; Spark calls ``abort`` then.
        """
        ends, channels = self._options.ends_stream, self._options.exchange.channels
        until = EndOutcome.CONSUMED if ends else EndOutcome.ACCEPTED
        with ExitStack() as stack:

            def reach(channel: str) -> "BlockingSink":
                return stack.enter_context(self._sending.open_for_a_word(channel))

            sinks = _at_once(reach, channels)
            # All ends are said before any is waited for: a reader may need the end of one to go on with another.
            outcomes = _at_once(lambda sink: sink.end(closes_channel=ends, until=until), sinks, at_once=len(sinks))
        accepted = [name for name, outcome in zip(channels, outcomes, strict=True) if outcome is EndOutcome.ACCEPTED]
        if accepted and ends:
            _log.info("all rows are with the exchange; nobody has consumed those of %s yet", in_words(accepted))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the readers of all channels fail; driver side, once, after a task or the commit has failed.

        Raises:
            PermitflowError: readers of a channel may be waiting still; all channels have been tried.
        """
        failures = [failure for failure in _at_once(self._abort, self._options.exchange.channels) if failure]
        if failures:
            raise failures[0]

    def _abort(self, channel: str) -> PermitflowError | None:
        timeout_seconds = min(self._options.exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS)
        try:
            with self._sending.open_for_a_word(channel, timeout_seconds=timeout_seconds) as sink:
                sink.abort("the Spark job that was writing into it has failed")
        except PermitflowError as error:
            # The failed task may have aborted it already, or it had come to its end: no reader waits there.
            is_over = isinstance(error, ChannelError) and not isinstance(error, PeerGoneError)
            return None if is_over else error
        return None


class StagedMessage(WriterCommitMessage):
    """What an attempt at a partition has staged."""

    def __init__(self, query: str, part: StagedPart) -> None:
        """The driver of a streaming query learns from its tasks which query it is."""
        self.query = query
        self.part = part


class _Staged:
    """What both sinks have in common."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Keep what the workers need."""
        self._options = options
        self._sending = Sending(options, schema)

    def _stage(self, batches: Iterator[pa.RecordBatch], key: BatchKey, context: TaskContext) -> StagedMessage:
        # Spark numbers attempts anew when the driver starts again.
        attempt = f"{context.taskAttemptId()}-{uuid4().hex}"
        staging = Staging(key.query, key.batch, context.partitionId(), attempt)
        sent = self._sending.send(batches, context, staging=staging)
        return StagedMessage(key.query, StagedPart(sent.channel, staging.partition, attempt, sent.rows))

    def _publish(self, key: BatchKey, messages: Sequence[StagedMessage]) -> None:
        parts = [message.part for message in messages if message.part.rows]
        self._insist(self._declare_schema)
        self._insist(lambda control: control.publish(key.query, key.batch, parts))

    def _declare_schema(self, control: "BlockingControl") -> None:
        """Channels that no task has written into have no schema yet, and their readers would wait for one."""
        positions = control.positions(self._options.exchange.channels)
        new = [at.channel for at in positions if at.schema is None and at.state is ChannelState.OPEN]
        _at_once(self._sending.declare_schema, new)

    def _discard(self, key: BatchKey, messages: Sequence[StagedMessage]) -> None:
        # Only what this driver knows of: when the word comes, another one may be running the batch again.
        parts = [message.part for message in messages if message.part.rows]
        if not parts:
            return
        seconds = min(self._options.exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS)
        self._insist(lambda control: control.discard(key.query, key.batch, parts), timeout_seconds=seconds)

    def _insist(self, order: "Callable[[BlockingControl], T]", timeout_seconds: float | None = None) -> T:
        """Give an order that may be given twice; an exchange that is away may be back soon."""
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.transports.grpc_blocking import control

        leave_imports_alone()
        exchange = self._options.exchange
        patience = Patience(timeout_seconds or exchange.timeout_seconds, exchange.channels)
        while True:
            try:
                with control(exchange.address, timeout_seconds=patience.remaining_seconds) as dialled:
                    return order(dialled)
            except PermitflowError as error:
                patience.wait(error)


class StagedBatchWriter(_Staged, DataSourceArrowWriter):
    """Writes a batch job.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Choose the key under which the job is published; planning process, once per job."""
        super().__init__(options, schema)
        self._key = options.batch_key()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            StagingFullError: the job's rows do not fit into the exchange's staging area.
            PeerGoneError: the exchange is gone, or there was no room in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, keeps no rows, or has another schema.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        return self._stage(iterator, self._key, context)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged, and end the channels; driver side, once, after all have succeeded.

        Raises:
            StagedPartError: the exchange has lost what was staged; nothing was published.
            PermitflowError: the exchange did not answer for ``timeout_seconds``; Spark calls ``abort`` then.
        """
        self._publish(self._key, _staged(messages))
        if self._options.ends_stream:
            exchange = self._options.exchange
            self._insist(lambda control: control.close_channels(exchange.channels))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give up what is staged; driver side, once, after a task or the commit has failed.

        Raises:
            PermitflowError: the exchange does not answer; it will forget what is staged by itself.
        """
        self._discard(self._key, _staged(messages))


class StagedStreamWriter(_Staged, DataSourceStreamArrowWriter):
    """Writes a streaming query.  Built in a planning process; used in the workers, and in one that commits."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one partition of a micro-batch; worker, once per task attempt.  Waits for permits.

        Raises:
            StagingFullError: the batch does not fit into the exchange's staging area.
            PeerGoneError: the exchange is gone, or there was no room in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, keeps no rows, or has another schema.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        return self._stage(iterator, _key_of(context), context)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a micro-batch; driver side, after all tasks have succeeded, and again if the driver crashes then.

        Raises:
            StagedPartError: the exchange has lost what was staged; nothing was published.
            PermitflowError: the exchange did not answer for ``timeout_seconds``.
        """
        staged = _staged(messages)
        if staged:  # a batch without tasks has no rows
            self._publish(BatchKey(query=staged[0].query, batch=batchId), staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Give up what is staged for a micro-batch, if it was not published; driver side, also late.

        What the failed tasks had staged, the exchange has forgotten with their streams.

        Raises:
            PermitflowError: the exchange does not answer; it will forget what is staged by itself.
        """
        staged = _staged(messages)
        if staged:
            self._discard(BatchKey(query=staged[0].query, batch=batchId), staged)


def _key_of(context: TaskContext) -> BatchKey:
    query, batch = context.getLocalProperty(_QUERY_PROPERTY), context.getLocalProperty(_BATCH_PROPERTY)
    if query is None or batch is None:
        raise UnknownBatchError(missing=_QUERY_PROPERTY if query is None else _BATCH_PROPERTY)
    return BatchKey(query=query, batch=int(batch))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedMessage]:
    """The messages of the tasks that have succeeded."""
    return [message for message in messages if isinstance(message, StagedMessage)]
