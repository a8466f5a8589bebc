"""The data source: a server-streaming call of any gRPC service as a table, or as a stream.

**Batch.**  Each request is a partition.  A task makes the call, and reads a message when Spark asks for more rows: at
most twice ``window_bytes`` are under way, ``batch_messages`` in the task, and what the narrow socket to Spark holds.  A
task that stands still stops the service.

**Stream.**  A process beside the driver holds one call as long as the query lives, and reads at each trigger at most
``batch_messages``, or for ``batch_seconds``.  Between triggers nothing is read.  A call cannot be rewound: after a
restart a new call begins, and a batch that was planned and not processed is lost (``best-effort``), or is read again
by a call that skips what was processed (``exactly-once``, which only a service can give that answers the same again).
With ``Trigger.AvailableNow`` the query ends with the call.
"""

import logging
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from permitflow.errors import InvalidOptionError, PermitflowError, RepeatedCallError
from permitflow.spark.calls.options import CALL_OPTIONS, CallDelivery, ReadCallOptions, WriteCallOptions
from permitflow.spark.causes import told_in_words
from permitflow.spark.options import MOST, is_for_streams
from permitflow.spark.reading import narrow_socket
from permitflow.spark.refused import RefusedStreamReader
from permitflow.spark.reused_worker import leave_imports_alone
from permitflow.spark.source import refuse_overwriting

if TYPE_CHECKING:
    import pyarrow as pa

    from permitflow.spark.calls.attempts import Attempts
    from permitflow.spark.calls.messages import Rows
    from permitflow.spark.calls.metadata import Metadata
    from permitflow.spark.calls.reading import OpenCall

_log = logging.getLogger(__name__)

Offset: TypeAlias = dict[str, int]
_MESSAGES = "messages"


class GrpcDataSource(DataSource):
    """``format("permitflow-grpc")``: streaming methods of any gRPC service.

    Options, for reading and writing:
        address: where the service listens: ``host:port``, or with a scheme of gRPC's, as ``unix:/path``.
        method: the full name, as in ``telemetry.Sensors/Watch``: server-streaming to read, client-streaming to write.
        module: the generated module with the service, as in ``telemetry_pb2``; workers import it.
        serializer, deserializer: without ``module``, functions between messages and bytes, as in ``module:function``.
        channel: a function of the address and gRPC's options that opens a channel of ``grpc.aio``, as for TLS.
        deadlineSeconds: for the whole call; none.
        metadata, metadataFile: what each call carries: a JSON object, for what is not secret; and the path of a file
            with such an object, on every machine of the job, as for ``authorization``.
        repeatable: the service answers the same request with the same messages again, or takes the same rows again; so
            tasks may be repeated.  False: each call is made once, and a task that would repeat it fails; workers ask a
            process beside the driver, which they must be able to reach.

    Options for reading only:
        request: JSON of the request, or of a list of requests: a call and a partition for each; an empty request.
        rows: a function from a message to its row, or rows: dicts, or tuples in the order of the schema; without it the
            message's fields are the columns.
        windowBytes: what the service may send before it is read; 65,536.
        batchMessages, batchSeconds: a batch of rows, or a streaming batch, has this many messages, or what came
            within this many seconds; 1,000 and 1.
        maxMessages: of each call of a batch job, which is then cancelled; none.
        delivery: of a streaming query: ``best-effort``, or with ``repeatable`` ``exactly-once``.

    Options for writing only:
        message: a function from a row, as a dict, to its message; without it columns are the message's fields.
        nulls: what becomes of a null in a field whose absence protobuf does not keep: ``refuse``, or ``default`` for
            the field's default; refuse.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options; Spark starts a worker only for this call."""
        super().__init__(options)
        leave_imports_alone()

    @classmethod
    def name(cls) -> str:
        """The word for ``format()``."""
        return "permitflow-grpc"

    @told_in_words
    def schema(self) -> StructType:
        """The columns of the method's response; planning process.

        Raises:
            InvalidOptionError: an option is wrong, or the user must state the schema.
            SchemaMismatchError: Spark has no type for the message.
        """
        from permitflow.spark.calls.messages import columns_of, method_of

        options = ReadCallOptions.parse(self.options, streams=is_for_streams(self.options, CALL_OPTIONS))
        method = method_of(options.call, client_streams=False)
        if options.rows or method.response is None:
            option = "rows" if options.rows else "deserializer"
            reason = "needs a schema of its rows: spark.read.schema(...)"
            raise InvalidOptionError(option=option, value=options.rows or options.call.deserializer, reason=reason)
        columns = columns_of(method.response.DESCRIPTOR)
        CallReader(options, columns)  # which looks up the rest that can be wrong
        return columns

    @told_in_words
    def reader(self, schema: StructType) -> DataSourceReader:
        """Check the options, and draw the job's name; planning process, once per query.

        Raises:
            RepeatedCallError: the call is not repeatable, and nobody can watch over that.
        """
        from permitflow.spark.calls.attempts import Attempts

        reader = CallReader(ReadCallOptions.parse(self.options), schema)
        reader.attempts = Attempts.drawn(reader.options.call)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Check the options; a planning process and one beside the driver."""
        try:
            return _WholeCallReader(self.simpleStreamReader(schema))
        except PermitflowError as error:
            return RefusedStreamReader(error)

    def simpleStreamReader(self, schema: StructType) -> "CallStreamReader":  # noqa: N802 - Spark's name
        """Check the options."""
        return CallStreamReader(ReadCallOptions.parse(self.options, streams=True), schema)

    @told_in_words
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Check the options, and draw the job's name; planning process, once per query.

        Raises:
            RepeatedCallError: the call is not repeatable, and nobody can watch over that.
        """
        from permitflow.spark.calls.attempts import Attempts
        from permitflow.spark.calls.sink import CallWriter

        refuse_overwriting("mode", "overwrite", overwrite)
        writer = CallWriter(WriteCallOptions.parse(self.options), schema)
        writer.attempts = Attempts.drawn(writer.options.call)
        return writer

    @told_in_words
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Check the options; a planning process, and one for each commit."""
        from permitflow.spark.calls.attempts import Attempts
        from permitflow.spark.calls.sink import CallStreamWriter

        refuse_overwriting("outputMode", "complete", overwrite)
        writer = CallStreamWriter(WriteCallOptions.parse(self.options, streams=True), schema)
        writer.attempts = Attempts.drawn(writer.options.call)
        return writer


class CallPartition(InputPartition):
    """One call."""

    def __init__(self, number: int, request: str) -> None:
        """``request``: as in the option."""
        super().__init__(number)
        self.number, self.request = number, request


class CallReader(DataSourceReader):
    """Reads a call per partition.  Built in a planning process, pickled, and used in the workers."""

    def __init__(self, options: ReadCallOptions, schema: StructType) -> None:
        """Look everything up that can be wrong.

        Raises:
            InvalidOptionError: the method, the request or a function is wrong.
            SchemaMismatchError: the response lacks a column.
        """
        from permitflow.spark.calls.messages import Rows, method_of, require_channel

        self.options, self._schema = options, schema
        self.attempts: Attempts | None = None
        """The attempts of this job; None outside a job."""
        method = method_of(options.call, client_streams=False)
        Rows(method, options.rows, schema)
        require_channel(options.call)
        for request in options.requests:
            method.request_of(request)

    def partitions(self) -> list[InputPartition]:
        """One partition per request."""
        return [CallPartition(number, request) for number, request in enumerate(self.options.requests)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one call; worker, once per attempt at a task.

        Raises:
            RepeatedCallError: this call was made before, and is not repeatable.
            CallError: the call has ended with an error.
            SchemaMismatchError: a row does not fit.
        """
        from permitflow.spark.calls.messages import Rows, method_of
        from permitflow.spark.calls.reading import OpenCall

        assert isinstance(partition, CallPartition)  # Spark passes the objects that partitions() returned
        options, context = self.options, TaskContext.get()
        attempt: Metadata = ()
        if context is not None and self.attempts is not None:
            attempt = self.attempts.begin(context, partition.number)
        method = method_of(options.call, client_streams=False)
        rows, request = Rows(method, options.rows, self._schema), method.request_of(partition.request)
        with narrow_socket(), OpenCall(options, method, request, attempt) as call:
            yield from map(rows.batch, _batches(call, options))


def _batches(call: "OpenCall", options: ReadCallOptions) -> Iterator[list[object]]:
    is_over, left = False, options.max_messages
    while not is_over and left != 0:
        most = options.batch_messages if left is None else min(left, options.batch_messages)
        messages, is_over = call.take(most, options.batch_seconds, first_seconds=None)
        left = None if left is None else left - len(messages)
        if messages:
            yield messages


class _WholeCallReader(_SimpleStreamReaderWrapper):
    """What Spark makes of a simple reader, and no batch for a trigger that wants the whole call as one.

    A simple reader is not told the trigger's limit; its wrapper is, and it takes any.
    """

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Any but that of ``Trigger.Once``, which overrules it; the reader has a limit of its own."""
        return ReadMaxRows(MOST)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Read the messages of a batch.

        Raises:
            InvalidOptionError: the trigger is ``Trigger.Once``.
        """
        if isinstance(limit, ReadAllAvailable):
            reason = "cannot be: the rest of the call would be one batch in the driver. Use trigger(availableNow=True)"
            raise InvalidOptionError(option="trigger", value="once", reason=reason)
        end: Offset = super().latestOffset(start, ReadAllAvailable())
        return end


class CallStreamReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one call beside the driver, batch by batch."""

    def __init__(self, options: ReadCallOptions, schema: StructType) -> None:
        """Look everything up that can be wrong, as ``CallReader``; call later."""
        CallReader(options, schema)
        self._options, self._schema = options, schema
        self._call: OpenCall | None = None
        self._is_over = self._reads_to_end = False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let no pause of the service end the query: what is available is the whole call."""
        self._reads_to_end = True

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """No message was read."""
        return {_MESSAGES: 0}

    def read(self, start: Offset) -> "tuple[Iterator[pa.RecordBatch], Offset]":
        """The messages of a batch; driver, at each trigger.

        Waits up to ``batch_seconds`` for the first one, or with ``Trigger.AvailableNow`` as long as the call lasts.

        Raises:
            CallError: the call has ended with an error.
            RepeatedCallError: the call of a restarted query is shorter than the one before.
            SchemaMismatchError: a row does not fit.
        """
        if self._is_over:
            return iter(()), start
        options = self._options
        if self._call is None:
            self._call = self._called(skipping=start[_MESSAGES])
        seconds = options.batch_seconds
        first_seconds = None if self._reads_to_end else seconds
        messages, self._is_over = self._call.take(options.batch_messages, seconds, first_seconds=first_seconds)
        if not messages:
            return iter(()), start
        return iter([self._rows().batch(messages)]), {_MESSAGES: start[_MESSAGES] + len(messages)}

    def readBetweenOffsets(self, start: Offset, end: Offset) -> "Iterator[pa.RecordBatch]":  # noqa: N802
        """The messages of a batch that was read before, and not processed; worker, after a restart or a loss.

        Raises:
            RepeatedCallError: the call is shorter than the one before.
        """
        count = end[_MESSAGES] - start[_MESSAGES]
        if self._options.delivery is CallDelivery.BEST_EFFORT:
            _log.warning(
                "%s: the messages [%d, %d) were read before a restart, and are lost: a call cannot be rewound",
                self._options.call.method,
                start[_MESSAGES],
                end[_MESSAGES],
            )
            return
        rows = self._rows()
        with self._called(skipping=start[_MESSAGES]) as call:
            while (left := end[_MESSAGES] - call.messages) > 0:
                messages, is_over = call.take(min(left, self._options.batch_messages), 0.0, first_seconds=None)
                if messages:
                    yield rows.batch(messages)
                if is_over and len(messages) < left:
                    reason = (
                        f"was called again, and ended before the {count:,} messages of this batch had come: it does "
                        "not answer the same again; take delivery=best-effort and a new checkpoint"
                    )
                    raise RepeatedCallError(method=self._options.call.method, reason=reason)

    def _rows(self) -> "Rows":
        from permitflow.spark.calls.messages import Rows, method_of

        return Rows(method_of(self._options.call, client_streams=False), self._options.rows, self._schema)

    def _called(self, *, skipping: int) -> "OpenCall":
        from permitflow.spark.calls.messages import method_of
        from permitflow.spark.calls.reading import OpenCall

        method = method_of(self._options.call, client_streams=False)
        call = OpenCall(self._options, method, method.request_of(self._options.requests[0]))
        if self._options.delivery is CallDelivery.EXACTLY_ONCE:
            call.skip(skipping)
        return call
