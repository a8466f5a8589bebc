"""How a task sends its rows: the same for rows that are seen at once, and for rows that are staged."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.chunks import slices
from permitflow.errors import PeerGoneError
from permitflow.protocol.frames import EndOutcome, Staging
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.spark.options import WriteOptions
from permitflow.spark.patience import Patience
from permitflow.spark.recording import StreamRecording, recording
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.schema import arrow_schema, conform
from permitflow.transports.shared_memory import SameHost

if TYPE_CHECKING:
    from permitflow.transports.blocking_ends import BlockingSink

__all__ = ["Sending", "SentMessage"]

# An exchange is back within seconds; who has mistyped its address should not wait for long, in each attempt of a task.
_LONGEST_ABSENCE_SECONDS = 20.0


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
