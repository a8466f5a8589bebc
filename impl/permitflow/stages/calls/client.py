"""A call of a stub's method as a source, a flow or a sink."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import grpc

from permitflow.callables import plain_of_one
from permitflow.cancelling import is_cancelled, until_over
from permitflow.carriers.final_status import FinalStatus, Status
from permitflow.errors import (
    CallError,
    CallMethodError,
    CallTimeoutError,
    InvalidParametersError,
    LocalProtocolError,
    PermitflowError,
    UndecodableDataError,
)
from permitflow.stages.calls.bounds import CallCounts
from permitflow.stages.calls.reading import Reading, read_ahead, send_all
from permitflow.stages.source import Source
from permitflow.wire.wire_errors import ERROR_KEY, decode_error

A = TypeVar("A")
B = TypeVar("B")


class CallOptions(TypedDict, total=False):
    """What a call passes on to gRPC, under gRPC's names; ``timeout`` is in seconds, for the whole call."""

    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


def source(
    method: "grpc.aio.UnaryStreamMultiCallable[A, B]",
    request: A,
    *,
    prefetch: int = 0,
    counts: CallCounts | None = None,
    when_called: Callable[[grpc.aio.Call], object] | None = None,
    **options: Unpack[CallOptions],
) -> Source[B]:
    """The responses of a server-streaming method; each run of the source is a call.

    A response is read when it is asked for.  A consumer that has enough cancels the call.

    Args:
        method: of a stub on a channel of ``grpc.aio``.
        request: its request.
        prefetch: responses to read ahead, a power of two: asked for at first, then half as many whenever half were
            taken; 0: none.
        counts: counts responses.
        when_called: is called with gRPC's call of each run, as to read its metadata.
        options: gRPC's own, such as ``timeout`` in seconds, and ``metadata``.

    Raises:
        CallMethodError: the method is not server-streaming, or not of ``grpc.aio``.
        InvalidParametersError: ``prefetch`` is not a power of two.
    """
    _require(method, grpc.aio.UnaryStreamMultiCallable, "source")
    _Checked(method).require(request)
    made = _Made(method, partial(method, request, **options), counts, when_called)
    return read_ahead(_Calls(made, None), prefetch, made.counts)


def flow(
    method: "grpc.aio.StreamStreamMultiCallable[A, B]",
    *,
    prefetch: int = 0,
    counts: CallCounts | None = None,
    when_called: Callable[[grpc.aio.Call], object] | None = None,
    **options: Unpack[CallOptions],
) -> Callable[[Source[A]], Source[B]]:
    """A bidirectional method as a function from its requests to its responses: ``Source(...).through(flow(method))``.

    The source of the requests is asked for the next one when gRPC has taken the last one, that is while the server
    reads.  If the server ends the call, or the consumer of the responses has enough, that source is closed; if it
    fails, the call is cancelled, and the responses fail with its error.

    Args and errors: as ``source``.
    """
    _require(method, grpc.aio.StreamStreamMultiCallable, "flow")
    made = _Made(method, partial(method, **options), counts, when_called)
    return lambda requests: read_ahead(_Calls(made, requests), prefetch, made.counts)


def sink(
    method: "grpc.aio.StreamUnaryMultiCallable[A, B]",
    *,
    counts: CallCounts | None = None,
    when_called: Callable[[grpc.aio.Call], object] | None = None,
    **options: Unpack[CallOptions],
) -> Callable[[Source[A]], Awaitable[B]]:
    """A client-streaming method as the end of a stream: ``response = await Source(...).through(sink(method))``.

    If the server answers early, the source is closed; if the source fails, the call is cancelled, and the error is
    raised.  Cancelled, it cancels the call and closes the source.

    Args and errors: as ``source``; what is awaited raises the errors of the call.
    """
    _require(method, grpc.aio.StreamUnaryMultiCallable, "sink")
    made = _Made(method, partial(method, **options), counts, when_called)
    return lambda requests: _sent(made, requests)


class _Made:
    """How each run makes its call."""

    def __init__(
        self,
        method: object,
        call: Callable[[], Any],
        counts: CallCounts | None,
        when_called: Callable[[grpc.aio.Call], object] | None,
    ) -> None:
        self._call = call
        self._when_called = None if when_called is None else plain_of_one(when_called, place="when_called")
        self.method = method
        self.name = _name_of(method)
        self.counts = CallCounts() if counts is None else counts

    def call(self) -> Any:
        """Begin a call."""
        try:
            call = self._call()
        except grpc.aio.UsageError as error:
            raise LocalProtocolError(f"{self.name} cannot be called: {error}") from error
        if self._when_called is not None:
            self._when_called(call)
        return call


class _Run:
    """A call that is under way, and the task that writes its requests."""

    def __init__(self, made: _Made, requests: Source[Any] | None) -> None:
        self._made = made
        self.call = made.call()
        self._final = FinalStatus(self.call)
        self._responses: AsyncIterator[Any] | None = None
        self._failure: Exception | None = None
        """The error of the source of the requests."""
        self._writing = None if requests is None else asyncio.create_task(self._write_all(requests))

    async def _write_all(self, requests: Source[Any]) -> None:
        checked = _Checked(self._made.method)

        async def write(request: object) -> None:
            checked.require(request)
            await self._done(self.call.write(request))

        try:
            await send_all(requests, write, self._made.counts)
            await self._done(self.call.done_writing())
        except _CallOverError:
            pass
        except Exception as error:
            self._failure = error
            self.call.cancel()

    @staticmethod
    async def _done(writing: Awaitable[None]) -> None:
        try:
            await writing
        except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            # The call's status says why.
            raise _CallOverError from error
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise _CallOverError from None

    async def read(self) -> Any:
        """The next response.

        Raises:
            StopAsyncIteration: the call has ended well.
            Exception: why it is over, or that of the source of the requests.
        """
        if self._responses is None:
            # Unlike call.read(), an iterator yields what has arrived even after a write that has crossed the end.
            self._responses = aiter(self.call)
        try:
            response = await anext(self._responses)
        except (grpc.RpcError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            cause = error
        else:
            if response is None:
                what = f"a response of {self._made.name}"
                raise UndecodableDataError(what=what, reason="its deserializer has failed, and gRPC has logged how")
            return response
        raise await self.error(cause) or StopAsyncIteration

    async def error(self, cause: BaseException) -> Exception | None:
        """Why the call is over; None: it has ended well."""
        if (failure := self._failure) is not None:
            self._failure = None
            return failure
        status = await self._final.wait()
        if status is None:
            status = Status(grpc.StatusCode.UNKNOWN, "the call broke off while something was being written", ())
        if status.code is grpc.StatusCode.OK:
            return None
        error = _error_of(status, self._made.name)
        error.__cause__ = cause
        return error

    def cancel(self) -> None:
        """Begin to close."""
        self.call.cancel()
        if self._writing is not None and not self._writing.get_loop().is_closed():
            self._writing.cancel()

    async def close(self) -> None:
        """Cancel the call, unless it is over, and close the source of its requests.

        Raises:
            Exception: the source could not be closed.
        """
        has_failed = self._failure is not None  # and nobody has asked
        self.cancel()
        if self._writing is not None:
            await until_over(self._writing)
            if self._failure is not None and not has_failed:
                raise self._failure


class _Checked:
    """Refuses requests that the method cannot send.

    If a serializer fails, grpc.aio logs it and sends an empty message instead.
    """

    def __init__(self, method: object) -> None:
        self._name = _name_of(method)
        self._serialize: Callable[[Any], object] | None = getattr(method, "_request_serializer", None)

    def require(self, request: object) -> None:
        """Serialize a request, which gRPC does once more.

        Raises:
            InvalidParametersError: the serializer fails.
        """
        if self._serialize is not None:
            try:
                self._serialize(request)
            except Exception as error:
                rule = f"must be one that {self._name} can send ({type(error).__name__}: {error})"
                raise InvalidParametersError(name="a request", value=request, rule=rule) from error


class _CallOverError(Exception):
    """Nothing can be written any more."""


class _Calls(AsyncIterable[B]):
    """Each iteration makes a call."""

    def __init__(self, made: _Made, requests: Source[Any] | None) -> None:
        self._made, self._requests = made, requests

    def __aiter__(self) -> AsyncIterator[B]:
        return _Responses(self._made, self._requests)


class _Responses(AsyncIterator[B], Generic[B]):
    """The responses of one call, which begins when the first one is asked for."""

    def __init__(self, made: _Made, requests: Source[Any] | None) -> None:
        self._made, self._requests = made, requests
        self._run: _Run | None = None
        self._reading: Reading[B]

    async def __anext__(self) -> B:
        if self._run is None:
            self._run = _Run(self._made, self._requests)
            self._reading = Reading(self._run.read, self._made.counts)
        return await self._reading.next()

    async def aclose(self) -> None:
        """Cancel the call."""
        if self._run is not None:
            try:
                await self._reading.stop()
            finally:
                await self._run.close()

    def __del__(self) -> None:
        # A loop over a run was left by break or an error: nobody can ask any more.
        if self._run is not None:
            self._run.cancel()


async def _sent(made: _Made, requests: Source[Any]) -> Any:
    run = _Run(made, requests)
    try:
        try:
            return await run.call
        except (grpc.RpcError, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            cause = error
        raise await run.error(cause) or cause
    finally:
        await run.close()


def _error_of(status: Status, method: str) -> PermitflowError:
    for key, value in status.metadata:
        if key == ERROR_KEY and isinstance(value, bytes) and (error := decode_error(value, who=method)) is not None:
            return error
    kind = CallTimeoutError if status.code is grpc.StatusCode.DEADLINE_EXCEEDED else CallError
    return kind(code=status.code.name, details=status.details or "", method=method)


# The kinds of methods, in words.
_KINDS = (
    (grpc.aio.UnaryUnaryMultiCallable, grpc.UnaryUnaryMultiCallable, "unary", "", "await it as it is: nothing streams"),
    (grpc.aio.UnaryStreamMultiCallable, grpc.UnaryStreamMultiCallable, "server-streaming", "source", ""),
    (grpc.aio.StreamUnaryMultiCallable, grpc.StreamUnaryMultiCallable, "client-streaming", "sink", ""),
    (grpc.aio.StreamStreamMultiCallable, grpc.StreamStreamMultiCallable, "bidirectional", "flow", ""),
)
_DIAL = "make the stub with a channel of grpc.aio.insecure_channel or secure_channel"


def _require(method: object, kind: type, use: str) -> None:
    if isinstance(method, kind):
        return
    wanted = next(f"a {words} method" for _, _, words, used, _ in _KINDS if used == use)
    for ours, blocking, words, used, hint in _KINDS:
        if isinstance(method, ours):
            given, hint = f"the {words} method {_name_of(method)}", hint or f"use calls.{used}"
            break
        if isinstance(method, blocking):
            given, hint = f"the {words} method {_name_of(method)} of a blocking stub", _DIAL
            break
    else:
        given, hint = f"{type(method).__name__} {method!r}", f"give a method of a stub, as in calls.{use}(stub.Method)"
    raise CallMethodError(given=given, wanted=wanted, hint=hint)


def _name_of(method: object) -> str:
    """As in ``/package.Service/Method``; gRPC has no public way to ask."""
    name = getattr(method, "_method", b"")
    return name.decode() if isinstance(name, bytes) and name else "a method without a name"
