"""Rows through a bidirectional method of any gRPC service: ``through(frame, "scores.Scorer/Score", ...)``.

Each task makes one call.  Its rows are the requests, in their order, and the responses are the rows that come out.  A
row is taken from Spark when the service reads and answers: ahead of a service that stands still are ``in_flight``
requests, a part of an Arrow batch, and that batch of Spark's.  When Spark wants no more, at most ``batch_messages``
responses wait in the task, and what the channel's window holds.

With ``one_to_one`` the n-th response belongs to the n-th request: so columns of the rows can be kept beside the
responses, and a response too many or too few fails the task.
"""

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from permitflow.change import Change
from permitflow.errors import (
    EarlyAnswerError,
    InvalidOptionError,
    PeerTimeoutError,
    ResponseCountError,
    SchemaMismatchError,
)
from permitflow.spark.calls.attempts import Attempts
from permitflow.spark.calls.messages import Messages, Method, Rows, columns_of, method_of, require_channel
from permitflow.spark.calls.metadata import Metadata, sent_with
from permitflow.spark.calls.options import ThroughOptions
from permitflow.spark.options import DEFAULT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    import grpc
    from pyspark.sql import DataFrame

    from permitflow.client.background import Background

_ROWS_TOGETHER = 64
"""Rows that become requests at once."""

Mapped: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def through(
    frame: "DataFrame",
    method: str,
    *,
    address: str,
    module: str = "",
    keep: Sequence[str] = (),
    one_to_one: bool = True,
    repeatable: bool = False,
    in_flight: int = 256,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    deadline_seconds: float | None = None,
    metadata: Mapping[str, str] | None = None,
    metadata_file: str = "",
    window_bytes: int = 65_536,
    batch_messages: int = 1_000,
    nulls: str = "refuse",
    message: str = "",
    rows: str = "",
    schema: StructType | None = None,
    channel: str = "",
    serializer: str = "",
    deserializer: str = "",
) -> "DataFrame":
    """Send the rows of a frame through a bidirectional method; the responses are the rows of the returned frame.

    The frame is lazy, as all of Spark's: each action makes a call for each partition that has rows.

    Args:
        frame: its columns are fields of the request, by name, or are kept.
        method: the full name, as in ``scores.Scorer/Score``.
        address: where the service listens: ``host:port``, or with a scheme of gRPC's, as ``unix:/path``.
        module: the generated module with the service, as in ``scores_pb2``; workers import it.
        keep: columns to put before those of the response; the request need not have them.
        one_to_one: the n-th response answers the n-th request.  False: a call gives any number of them, in its order.
        repeatable: the service may be asked the same again, so tasks may be repeated.  False: a second attempt fails.
        in_flight: requests of a task that are sent and not answered, at most; without ``one_to_one`` it is the
            service's window that bounds them.
        timeout_seconds: the longest time in which the service takes no request and gives no response.
        deadline_seconds: of a whole call; none.
        metadata: what each call carries, and is not secret: keys and values.
        metadata_file: a JSON file with more of it, as a token, at this path on every machine of the job.
        window_bytes: what the service may send before it is read.
        batch_messages: responses that become a batch of rows.
        nulls: of a null in a field whose absence protobuf does not keep: ``refuse``, or ``default`` for its default.
        message: a function from a row, as a dict, to its request, as in ``module:function``.
        rows: a function from a response to its row, or rows; state a ``schema``.
        schema: the columns of the responses; without it all fields.
        channel: a function of the address and gRPC's options that opens a channel of ``grpc.aio``, as for TLS.
        serializer: without ``module``, from a request to bytes.
        deserializer: without ``module``, from bytes to a response.

    Raises:
        InvalidOptionError: an argument is out of its range, names nothing, or asks for more than can be had.
        RepeatedCallError: the calls are not repeatable, and nobody can watch over that.
        SchemaMismatchError: the request lacks a column that is not kept, or the response one of ``schema``.
    """
    given = {
        "address": address,
        "method": method,
        "module": module,
        "keep": keep,
        "one_to_one": one_to_one,
        "repeatable": repeatable,
        "in_flight": in_flight,
        "timeout_seconds": timeout_seconds,
        "deadline_seconds": deadline_seconds,
        "metadata": json.dumps(metadata) if metadata else "",
        "metadata_file": metadata_file,
        "window_bytes": window_bytes,
        "batch_messages": batch_messages,
        "nulls": nulls,
        "message": message,
        "rows": rows,
        "channel": channel,
        "serializer": serializer,
        "deserializer": deserializer,
    }
    options = ThroughOptions.of(given)
    if frame.isStreaming and not options.call.repeatable:
        reason = "must be true for a streaming query: it computes a batch again after a crash"
        raise InvalidOptionError(option="repeatable", value=False, reason=reason)
    task = RowsThrough(options, frame.schema, schema)
    task.attempts = Attempts.drawn(options.call, os.getpid())
    return _mapped(frame, task.answers, task.schema)


def _mapped(frame: "DataFrame", function: Mapped, schema: StructType) -> "DataFrame":
    """``frame.mapInArrow``, also where pandas is missing: Spark asks for it there, and does not use it."""
    if find_spec("pandas") is not None or not hasattr(frame, "_jdf"):
        return frame.mapInArrow(function, schema)
    from pyspark.sql.classic.dataframe import DataFrame

    mapping = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = mapping(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(columns._jc, False, None), frame.sparkSession)


class RowsThrough:
    """Sends the rows of a task through a call.  Built by the user's program, pickled, and used in the workers."""

    def __init__(self, options: ThroughOptions, given: StructType, answered: StructType | None) -> None:
        """Look everything up that can be wrong.

        Args:
            options: of the calls.
            given: the schema of the rows that come.
            answered: the columns of the responses; None: all fields.

        Raises:
            InvalidOptionError, SchemaMismatchError: see ``through``.
        """
        self._options = options
        self.attempts: Attempts | None = None
        """The attempts of this frame; None outside Spark."""
        method = method_of(options.call, client_streams=True, server_streams=True)
        require_channel(options.call)
        self._answered = _columns(options, method) if answered is None else answered
        kept = _kept_columns(options.keep, given, self._answered)
        self._sent = given
        if not options.message and method.request is not None:
            fields = method.request.DESCRIPTOR.fields_by_name
            self._sent = StructType([each for each in given if each.name in fields or each.name not in options.keep])
        self._messages(method)
        Rows(method, options.rows, self._answered)
        self.schema = StructType([*kept, *self._answered])
        """The schema of the rows that are sent."""

    def _messages(self, method: Method) -> Messages:
        try:
            return Messages(method, self._options.message, self._sent, self._options.nulls)
        except SchemaMismatchError as error:
            error.add_note("to carry a column past the service, name it in 'keep'")
            raise

    def answers(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The responses to the rows of a task; worker, once per attempt.

        The service gets as metadata who sends: ``permitflow-job``, ``permitflow-partition``, ``permitflow-attempt``.

        Raises:
            RepeatedCallError: another attempt has called before, and the call is not repeatable.
            CallError: the call has ended with an error.
            ResponseCountError: a response has no request, or a request no response.
            EarlyAnswerError: the service has ended the call before all rows were sent.
            PeerTimeoutError: the service has neither read nor answered for ``timeout_seconds``.
            SchemaMismatchError: a value does not fit into its field.
        """
        context, attempts = TaskContext.get(), self.attempts
        assert context is not None  # Spark calls this in a task
        assert attempts is not None  # ``through`` has drawn them
        yield from self.exchanged(batches, lambda: attempts.begin(context, context.partitionId()))

    def exchanged(self, batches: Iterator[pa.RecordBatch], begin: Callable[[], Metadata]) -> Iterator[pa.RecordBatch]:
        """Send all rows in one call, unless there are none; ``begin`` allows it, and gives its metadata."""
        from permitflow.client.background import background

        options, loop, call = self._options, background(), None
        method = method_of(options.call, client_streams=True, server_streams=True)
        messages = self._messages(method)
        answers = _Answers(Rows(method, options.rows, self._answered), options.keep)
        try:
            for batch in batches:
                for at in range(0, batch.num_rows, _ROWS_TOGETHER):
                    call = call or _Call(options, method, begin())
                    part = batch.slice(at, _ROWS_TOGETHER)
                    answers.keep(part)
                    # Serialized here: where a serializer fails, gRPC would send an empty message.
                    requests = list(map(method.serialize, messages.of(part.select(self._sent.names))))
                    yield from map(answers.batch, _until_taken(loop, call, requests))
            while call is not None and (responses := loop.run(call.rest)):
                yield answers.batch(responses)
        finally:
            if call is not None:
                loop.run(call.close)


def _until_taken(loop: "Background", call: "_Call", requests: Sequence[bytes]) -> Iterator[Sequence[Any]]:
    """The batches of responses that come before the call has taken these requests."""
    if responses := loop.run(lambda: call.turn(requests)):
        yield responses
    while not call.has_room:
        if responses := loop.run(lambda: call.turn(())):
            yield responses


def _columns(options: ThroughOptions, method: Method) -> StructType:
    if options.rows or method.response is None:
        option = "rows" if options.rows else "deserializer"
        value = options.rows or options.call.deserializer
        raise InvalidOptionError(option=option, value=value, reason="needs the schema of its rows: schema=...")
    return columns_of(method.response.DESCRIPTOR)


def _kept_columns(names: Sequence[str], given: StructType, answered: StructType) -> StructType:
    taken = {name.lower() for name in answered.names}
    for name in names:
        if name not in given.names:
            reason = f"must name columns of the frame, which has {', '.join(given.names)}"
            raise InvalidOptionError(option="keep", value=name, reason=reason)
        if name.lower() in taken:
            reason = "must not name a column of the responses, or one twice: rename it, or state a schema without it"
            raise InvalidOptionError(option="keep", value=name, reason=reason)
        taken.add(name.lower())
    return StructType([given[name] for name in names])


class _Answers:
    """Makes batches of responses, and puts the kept columns of their requests before them."""

    def __init__(self, rows: Rows, keep: Sequence[str]) -> None:
        self._rows, self._keep = rows, list(keep)
        self._waiting = deque[pa.RecordBatch]()
        """The kept columns of requests that are not answered."""

    def keep(self, requests: pa.RecordBatch) -> None:
        """Take the rows of the next requests."""
        if self._keep:
            self._waiting.append(requests.select(self._keep))

    def batch(self, responses: Sequence[Any]) -> pa.RecordBatch:
        """The rows of the next responses."""
        answered, counts = self._rows.counted(responses)
        if not self._keep:
            return answered
        kept = self._answered(len(responses))
        if any(count != 1 for count in counts):
            kept = kept.take(pa.array([at for at, count in enumerate(counts) for _ in range(count)], pa.int64()))
        schema = pa.schema([*kept.schema, *answered.schema])
        return pa.RecordBatch.from_arrays([*kept.columns, *answered.columns], schema=schema)

    def _answered(self, rows: int) -> pa.RecordBatch:
        parts = list[pa.RecordBatch]()
        while rows:
            first = self._waiting.popleft()
            if first.num_rows > rows:
                self._waiting.appendleft(first.slice(rows))
            parts.append(first.slice(0, rows))
            rows -= parts[-1].num_rows
        (kept,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return kept


class _Call:
    """A bidirectional call that is given requests and asked for responses, part by part, in the event loop."""

    def __init__(self, options: ThroughOptions, method: Method, attempt: Metadata) -> None:
        self._options, self._method, self._attempt = options, method, attempt
        self._task: asyncio.Task[None] | None = None
        self._requests = deque[bytes]()
        """Given, and not taken by the call."""
        self._responses = deque[Any]()
        """Read, and not asked for."""
        self._sent = self._received = 0
        self._is_complete = self._is_sent = self._is_over = False
        self._error: Exception | None = None
        self._change = Change()

    @property
    def has_room(self) -> bool:
        """Were all requests taken?"""
        return not self._requests

    async def turn(self, requests: Sequence[bytes]) -> Sequence[Any]:
        """Give requests; wait until they are taken, or until a batch of responses has come, which is returned.

        Raises:
            CallError, EarlyAnswerError, ResponseCountError, PeerTimeoutError: the call is over, or must be.
        """
        if requests:
            self._begin()
            self._requests.extend(requests)
            self._change.note()
        await self._progress(lambda: self.has_room or self._is_batch)
        if self._is_over and not self._responses and not (self.has_room and self._error is None):
            self._raise_end()
        return self._taken() if self._is_batch or self._is_over else ()

    async def rest(self) -> Sequence[Any]:
        """A batch of responses when all requests were given; none: the call is over, and all is right.

        Raises:
            CallError, EarlyAnswerError, ResponseCountError, PeerTimeoutError: it is not.
        """
        if self._task is None:
            return ()
        self._is_complete = True
        self._change.note()
        await self._progress(lambda: self._is_batch)
        if not self._responses:
            self._raise_end()
        return self._taken()

    async def close(self) -> None:
        """Cancel the call, unless it is over."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._channel.close()

    def _begin(self) -> None:
        if self._task is not None:
            return
        from permitflow.spark.calls.reading import open_channel
        from permitflow.stages import calls

        call = self._options.call
        self._channel = open_channel(call, calls.Window(self._options.window_bytes).options)
        stub: grpc.aio.StreamStreamMultiCallable[bytes, Any] = self._channel.stream_stream(
            self._method.name, response_deserializer=self._method.deserialize
        )
        metadata = sent_with(call.metadata_file, call.metadata, self._attempt)
        flow = calls.flow(stub, timeout=call.deadline_seconds, metadata=metadata)
        self._task = asyncio.create_task(self._read(flow))

    async def _read(self, flow: Callable[[Any], Any]) -> None:
        from permitflow.stages import Source

        try:
            async with Source(self._given()).through(flow).open() as responses:
                async for response in responses:
                    if self._options.one_to_one and self._received == self._sent:
                        self._refuse_count(self._received + 1)
                    self._received += 1
                    self._responses.append(response)
                    self._change.note()
                    await self._change.until(lambda: not self._is_batch)
        except Exception as error:
            self._error = error
        finally:
            self._is_over = True
            self._change.note()

    async def _given(self) -> AsyncIterator[bytes]:
        while True:
            await self._change.until(lambda: self._may_send or (self._is_complete and self.has_room))
            if self.has_room:
                self._is_sent = True
                return
            self._sent += 1
            self._change.note()
            yield self._requests.popleft()

    @property
    def _may_send(self) -> bool:
        is_open = not self._options.one_to_one or self._sent - self._received < self._options.in_flight
        return bool(self._requests) and is_open

    @property
    def _is_batch(self) -> bool:
        return len(self._responses) >= self._options.batch_messages

    def _taken(self) -> list[Any]:
        taken = list(self._responses)
        self._responses.clear()
        self._change.note()
        return taken

    async def _progress(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()`` or the call is over; fail if for too long nothing is taken and nothing comes."""
        while not (holds() or self._is_over):
            try:
                async with asyncio.timeout(self._options.timeout_seconds):
                    await self._step(holds)
            except TimeoutError:
                raise self._silence() from None

    async def _step(self, holds: Callable[[], bool]) -> None:
        before = self._sent + self._received
        await self._change.until(lambda: holds() or self._is_over or self._sent + self._received > before)

    def _silence(self) -> PeerTimeoutError:
        waits = f"{self._sent:,} requests were sent, and {self._received:,} responses have come"
        if self._options.one_to_one and self._sent - self._received == self._options.in_flight:
            waits += f": does it wait for more than {self._options.in_flight} requests (in_flight) before it answers"
        return PeerTimeoutError(
            who=f"{self._method.name} at {self._options.call.address}",
            reason=f"nothing was taken and nothing came for {self._options.timeout_seconds:g} s (timeout_seconds); "
            f"{waits}?",
        )

    def _raise_end(self) -> None:
        """Raise why the call is over, unless all is right.

        Raises:
            Exception: what went wrong.
        """
        if self._error is not None:
            raise self._error
        if self._options.one_to_one and self._received != self._sent:
            self._refuse_count(self._received)
        is_whole = self.has_room if self._options.one_to_one else self._is_sent
        if not is_whole or not self._is_complete:
            raise EarlyAnswerError(method=self._method.name, sent=self._sent)

    def _refuse_count(self, responses: int) -> None:
        raise ResponseCountError(method=self._method.name, requests=self._sent, responses=responses)
