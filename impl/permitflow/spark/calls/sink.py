"""The sink: each task sends its rows in a client-streaming call, whose response acknowledges them.

A row is taken from Spark when the service reads: a service that stands still stops the task.  Ahead of it are what the
service's window holds, some two hundred messages, and one of Spark's Arrow batches.

The job has succeeded if every call was answered after all rows of its task.  A task that fails may have sent rows, so a
second attempt is refused unless the service takes the same rows again (``repeatable``): then each row comes at least
once.  Rows that were sent cannot be taken back: a job that fails has sent some.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from permitflow.errors import EarlyAnswerError
from permitflow.spark.attempts import require_attempts
from permitflow.spark.calls.attempts import Attempts
from permitflow.spark.calls.messages import Messages, Method, method_of, require_channel
from permitflow.spark.calls.metadata import Metadata, sent_with
from permitflow.spark.calls.options import CallOptions, WriteCallOptions

if TYPE_CHECKING:
    import grpc

_log = logging.getLogger(__name__)

_ROWS_TOGETHER = 64
"""Rows that become messages at once."""


class AnsweredMessage(WriterCommitMessage):
    """The rows of one task, which the service has acknowledged."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Sending:
    """Sends the rows of tasks.  Built in a planning process, pickled, and used in the workers."""

    def __init__(self, options: WriteCallOptions, schema: StructType) -> None:
        """Look everything up that can be wrong.

        Raises:
            InvalidOptionError: the method or the function is wrong.
            SchemaMismatchError: the message lacks a field for a column.
        """
        self.options, self._schema = options, schema
        self.attempts: Attempts | None = None
        """The attempts of this job; None outside a job."""
        Messages(method_of(options.call, client_streams=True), options.message, schema, options.nulls)
        require_channel(options.call)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task; worker, once per attempt.  Waits until the service has answered.

        The service gets as metadata who sends: ``permitflow-job``, ``permitflow-partition``, ``permitflow-attempt``.

        Raises:
            RepeatedCallError: another attempt has called before, and the call is not repeatable.
            CallError: the call has ended with an error.
            EarlyAnswerError: the service has answered before all rows were sent.
            SchemaMismatchError: a value does not fit into its field.
        """
        context = TaskContext.get()
        assert context is not None  # Spark calls this in a task
        assert self.attempts is not None  # the data source has drawn them
        return AnsweredMessage(self.send(iterator, self.attempts.begin(context, context.partitionId())))

    def send(self, batches: Iterator[pa.RecordBatch], attempt: Metadata) -> int:
        """Send all rows in one call; how many the service has acknowledged."""
        from permitflow.client.background import background

        method = method_of(self.options.call, client_streams=True)
        messages = Messages(method, self.options.message, self._schema, self.options.nulls)
        loop, rows = background(), 0
        call = _Call(self.options.call, method, attempt)
        try:
            for batch in batches:
                for at in range(0, batch.num_rows, _ROWS_TOGETHER):
                    # Serialized here: where a serializer fails, gRPC would send an empty message.
                    part = list(map(method.serialize, messages.of(batch.slice(at, _ROWS_TOGETHER))))
                    loop.run(lambda part=part: call.give(part))  # type: ignore[misc]  # binds the loop's value
                    rows += len(part)
            loop.run(call.end)
        finally:
            loop.run(call.close)
        return rows


class _Call:
    """A client-streaming call that is given its messages part by part, in the event loop."""

    def __init__(self, options: CallOptions, method: Method, attempt: Metadata) -> None:
        self._options, self._method, self._attempt = options, method, attempt
        self._answer: asyncio.Task[object] | None = None

    def _begin(self) -> None:
        from permitflow.spark.calls.reading import open_channel
        from permitflow.stages import Offers, Source, calls

        self._offers: Offers[list[Any]] = Offers(1)
        self._channel = open_channel(self._options, ())
        stub: grpc.aio.StreamUnaryMultiCallable[bytes, object] = self._channel.stream_unary(
            self._method.name, response_deserializer=self._method.deserialize
        )
        self._counts = calls.CallCounts()
        options = self._options
        metadata = sent_with(options.metadata_file, options.metadata, self._attempt)
        sink = calls.sink(stub, counts=self._counts, timeout=options.deadline_seconds, metadata=metadata)
        self._given = 0

        async def answer() -> object:
            return await sink(Source(self._offers).map_concat(_itself))

        self._answer = asyncio.create_task(answer())

    async def give(self, messages: list[Any]) -> None:
        """Wait until the messages given before have nearly all left.

        Raises:
            EarlyAnswerError, CallError: the call is over.
        """
        from permitflow.stages import Offered

        if self._answer is None:
            self._begin()
        if await self._offers.send(messages) is Offered.CLOSED:
            await self._refuse_answer()
        self._given += len(messages)

    async def end(self) -> None:
        """Wait for the response.

        Raises:
            EarlyAnswerError, CallError: not all was sent.
        """
        if self._answer is None:
            self._begin()
        assert self._answer is not None
        self._offers.complete()
        await self._answer
        if self._counts.sent < self._given:
            await self._refuse_answer()

    async def _refuse_answer(self) -> None:
        assert self._answer is not None
        await self._answer
        raise EarlyAnswerError(method=self._method.name, sent=self._counts.sent)

    async def close(self) -> None:
        """Cancel the call, unless it is over."""
        if self._answer is None:
            return
        self._answer.cancel()
        await asyncio.wait([self._answer])
        if not self._answer.cancelled():
            self._answer.exception()  # it was told already
        await self._channel.close()


def _itself(messages: list[Any]) -> list[Any]:
    return messages


class CallWriter(_Sending, DataSourceArrowWriter):
    """Writes a batch job."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do, because every call was answered."""
        _log.info("%s has acknowledged %d rows", self.options.call.method, _rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say how many rows cannot be taken back."""
        _warn(self.options, messages)


class CallStreamWriter(_Sending, DataSourceStreamArrowWriter):
    """Writes a streaming query, at least once: a batch is written again after a crash."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do, because every call was answered.

        Raises:
            InvalidOptionError: Spark has handed no rows over; the trigger is continuous.
        """
        require_attempts(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say how many rows cannot be taken back."""
        _warn(self.options, messages)


def _rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, AnsweredMessage))


def _warn(options: WriteCallOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    _log.warning("the job has failed; %s keeps %d rows of other tasks", options.call.method, _rows(messages))
