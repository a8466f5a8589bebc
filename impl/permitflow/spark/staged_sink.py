"""The data sinks that write exactly once: of a streaming query, and of a batch job with ``delivery=staged``.

Tasks stage their rows in the exchange, each attempt in a place of its own; nobody sees them.  The driver's commit
publishes one attempt at each partition, all together, in the order of the partitions, once for each query and batch:
what is repeated after a crash is not published again.  So tasks may be repeated, also speculatively, as Spark likes.

A batch must fit into the staging areas of its channels (``staging_rows`` of the exchange).  Published rows belong to
their channels at once; where consumers are slow, those beyond the window take room there, and tasks wait for it: that
is the back-pressure.

``abort`` gives up what its own driver's tasks have staged, and never what is published: it may come after the batch
was, and when the driver that follows runs the batch again.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.errors import PermitflowError, UnknownBatchError
from permitflow.protocol.control import ChannelState, StagedPart
from permitflow.protocol.frames import Staging
from permitflow.spark.patience import Patience
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.sending import Sending
from permitflow.spark.write_options import BatchKey, WriteOptions

if TYPE_CHECKING:
    from permitflow.transports.grpc_blocking import BlockingControl

__all__ = ["StagedBatchWriter", "StagedMessage", "StagedStreamWriter"]

T = TypeVar("T")

# What Spark tells its tasks about the micro-batch that they work on.
_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"

# Channels that are dialled at the same time.
_AT_ONCE = 16

# How long the driver's abort waits for an exchange that may be the very cause of the failure.
ABORT_TIMEOUT_SECONDS = 10.0


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
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._sending.declare_schema, new))

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
