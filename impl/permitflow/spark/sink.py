"""The data sink: Spark's tasks put their rows into the channels of an exchange.

Task p sends to channel p mod n.  What is promised: if the job succeeds, every row was consumed from its channel
exactly once, and the channels' readers come to a clean end.  If a task fails, or is killed, while rows of it may have
been sent, the readers of its channel fail with an error that says so, and the job's abort does the same for the other
channels: no reader takes a shortened result for a whole one.  A second attempt of a task is refused, because the rows
of the first may have been consumed already: the job fails instead of delivering rows twice.  So set no speculation,
and expect no retries.  Staging that survives retries is not offered.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.chunks import slices
from permitflow.errors import ChannelError, PermitflowError, TaskRetryError
from permitflow.spark.options import WriteOptions
from permitflow.spark.recording import StreamRecording, recording
from permitflow.spark.schema import arrow_schema, conform

__all__ = ["ExchangeWriter", "SentMessage"]

# How long the driver's abort waits for an exchange that may be the very cause of the failure.
ABORT_TIMEOUT_SECONDS = 10.0


class SentMessage(WriterCommitMessage):
    """What a task has sent."""

    def __init__(self, channel: str, chunks: int, rows: int) -> None:
        """Totals of one task."""
        self.channel = channel
        self.chunks = chunks
        self.rows = rows


class ExchangeWriter(DataSourceArrowWriter):
    """Writes through ``PutStream``.  Built in a planning process, pickled, used in the workers and in the driver."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Keep what the workers need."""
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one partition; worker, once per task attempt.  Waits for permits, which is the back-pressure.

        Raises:
            TaskRetryError: this is not the task's first attempt.
            PeerGoneError: the exchange or the consumer is gone, or no permit came back in ``timeout_seconds``.
            PermitflowError: the channel does not exist, has ended, or has another schema.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        if context.attemptNumber() > 0:
            raise TaskRetryError(partition=context.partitionId(), attempt=context.attemptNumber())
        channels = self._options.exchange.channels
        channel = channels[context.partitionId() % len(channels)]
        chunks = self._chunks(iterator)
        first = next(chunks, None)
        if first is None:
            return SentMessage(channel, 0, 0)
        with recording(self._options.exchange.trace_dir, f"write-{channel}-task-{context.partitionId()}") as streams:
            return self._send(channel, first, chunks, streams)

    def _send(
        self, channel: str, first: pa.RecordBatch, others: Iterable[pa.RecordBatch], streams: StreamRecording
    ) -> SentMessage:
        # gRPC must not be loaded before Spark's daemon has forked.
        from permitflow.transports.grpc_blocking import open_sink

        exchange = self._options.exchange
        with open_sink(
            exchange.address,
            channel,
            first.schema,
            wanted=exchange.wanted,
            timeout_seconds=exchange.timeout_seconds,
            record=streams.record,
        ) as sink:
            streams.add(sink)
            sink.send(first)
            for chunk in others:
                sink.send(chunk)
            sink.end(closes_channel=False)
            sent = sink.statistics()
        return SentMessage(channel, sent.sent_chunks, sent.sent_rows)

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        target = arrow_schema(self._schema)
        for batch in batches:
            if batch.num_rows > 0:
                yield from slices(conform(batch, target), self._options.chunk_rows or batch.num_rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """End the channels for their readers; driver side, once, after all tasks have succeeded.

        Waits until everything was consumed.

        Raises:
            PermitflowError: a channel could not be ended; Spark calls ``abort`` then.
        """
        from permitflow.transports.grpc_blocking import open_sink

        if not self._options.ends_stream:
            return
        exchange = self._options.exchange
        for channel in exchange.channels:
            with open_sink(
                exchange.address, channel, arrow_schema(self._schema), timeout_seconds=exchange.timeout_seconds
            ) as sink:
                sink.end(closes_channel=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the readers of all channels fail; driver side, once, after a task or the commit has failed.

        Raises:
            PermitflowError: readers of a channel may be waiting still; all channels have been tried.
        """
        failures = [failure for channel in self._options.exchange.channels if (failure := self._abort(channel))]
        if failures:
            raise failures[0]

    def _abort(self, channel: str) -> PermitflowError | None:
        from permitflow.transports.grpc_blocking import open_sink

        try:
            with open_sink(
                self._options.exchange.address,
                channel,
                arrow_schema(self._schema),
                timeout_seconds=min(self._options.exchange.timeout_seconds, ABORT_TIMEOUT_SECONDS),
            ) as sink:
                sink.abort("the Spark job that was writing into it has failed")
        except ChannelError:
            # The failed task has aborted it already, or it had come to its end.
            return None
        except PermitflowError as error:
            return error
        return None
