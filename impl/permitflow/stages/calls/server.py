"""Handlers of streaming methods, from sources and to sources."""

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import grpc

from permitflow.cancelling import is_cancelled
from permitflow.errors import CallError, CallMethodError, PermitflowError
from permitflow.stages.calls.bounds import CallCounts
from permitflow.stages.calls.reading import Reading, read_ahead, send_all
from permitflow.stages.source import Source
from permitflow.wire.texts import sendable
from permitflow.wire.wire_errors import status_of

A = TypeVar("A")
B = TypeVar("B")

_log = logging.getLogger(__name__)
_DETAILS_CHARACTERS = 1_000
# A guard: it takes no time.
_CANCELLED_SECONDS = 5.0


def requests(
    request_iterator: AsyncIterator[A],
    context: "grpc.aio.ServicerContext[A, Any]",
    *,
    prefetch: int = 0,
    counts: CallCounts | None = None,
) -> Source[A]:
    """The requests of a client-streaming or bidirectional call, for one run.

    A request is read when it is asked for.  If the client cancels the call, or is lost, the handler is cancelled; the
    stream does not end as if all requests had come.

    Args:
        request_iterator: the handler's first argument.
        context: its second.
        prefetch: requests to read ahead, a power of two: asked for at first, then half as many whenever half were
            taken; 0: none.
        counts: counts requests.

    Raises:
        CallMethodError: the method has a single request, or the server is not one of ``grpc.aio``.
        InvalidParametersError: ``prefetch`` is not a power of two.
    """
    _require_context(context)
    if not hasattr(request_iterator, "__anext__"):
        hint = "the method is not client-streaming: use its request as it is"
        raise CallMethodError(given=type(request_iterator).__name__, wanted="an iterator of requests", hint=hint)
    counts = CallCounts() if counts is None else counts
    return read_ahead(_Requests(request_iterator, context, counts), prefetch, counts)


async def respond(
    context: "grpc.aio.ServicerContext[Any, B]",
    responses: Source[B] | AsyncIterable[B] | Iterable[B],
    *,
    counts: CallCounts | None = None,
) -> None:
    """Send the elements of a source as the responses of a server-streaming or bidirectional call.

    The source is asked for the next one when gRPC has taken the last one, that is while the client reads.  If the
    client cancels the call, or is lost, this is cancelled, and the source closed.  If the source fails, the call ends
    with a status: see ``answering``.

    Args:
        context: the handler's second argument.
        responses: a source, or what one reads; the call ends when it ends.
        counts: counts responses.

    Raises:
        CallMethodError: the server is not one of ``grpc.aio``.
    """
    _require_context(context)

    async def write(response: B) -> None:
        try:
            await context.write(response)
        except grpc.aio.InternalError:
            # The call is over.  grpc.aio cancels the handler a moment later, and would log an error before that.
            await asyncio.sleep(_CANCELLED_SECONDS)
            raise

    async with answering(context):
        await send_all(responses, write, CallCounts() if counts is None else counts)


@asynccontextmanager
async def answering(context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[None]:
    """An exception within the block ends the call with a status that tells the client.

    ``CallError`` is sent as it is, ``TimeoutError`` as DEADLINE_EXCEEDED; permitflow's errors reach a client that uses
    this package with their type and facts; anything else is INTERNAL, and logged.

    Raises:
        AbortError: gRPC's way to end a call; do not catch it.
    """
    try:
        yield
    except grpc.aio.BaseError:
        # gRPC's own: the handler has ended the call, or its client has gone.
        raise
    except CallError as error:
        code = grpc.StatusCode.__members__.get(error.code, grpc.StatusCode.INTERNAL)
        await _end(context, grpc.StatusCode.INTERNAL if code is grpc.StatusCode.OK else code, error.details)
    except (Exception, asyncio.CancelledError, GeneratorExit) as error:
        if not isinstance(error, Exception) and is_cancelled():
            raise
        status, details, metadata = status_of(error)
        code = grpc.StatusCode[status]
        if isinstance(error, TimeoutError) and not isinstance(error, PermitflowError):
            code, details = grpc.StatusCode.DEADLINE_EXCEEDED, str(error)
        elif not isinstance(error, PermitflowError):
            _log.exception("a stream over gRPC has failed; its client is told")
        await _end(context, code, details, metadata)


async def _end(
    context: "grpc.aio.ServicerContext[Any, Any]",
    code: grpc.StatusCode,
    details: str,
    metadata: tuple[tuple[str, str | bytes], ...] = (),
) -> None:
    await context.abort(code, sendable(details, _DETAILS_CHARACTERS), (*context.trailing_metadata(), *metadata))


class _Requests(AsyncIterator[A], Generic[A]):
    def __init__(
        self, iterator: AsyncIterator[A], context: "grpc.aio.ServicerContext[A, Any]", counts: CallCounts
    ) -> None:
        self._iterator, self._context = iterator, context
        self._reading: Reading[A] = Reading(self._read, counts)

    async def __anext__(self) -> A:
        return await self._reading.next()

    async def _read(self) -> A:
        try:
            return await anext(self._iterator)
        except StopAsyncIteration:
            # grpc.aio ends the requests of a cancelled call, too, and cancels the handler a little later.  The answer
            # to one more read comes after that.
            await self._context.read()
            raise

    async def aclose(self) -> None:
        """Read no more."""
        await self._reading.stop()


def _require_context(context: object) -> None:
    if not hasattr(context, "write"):
        hint = "write the handler with async def, for a server of grpc.aio"
        raise CallMethodError(given=type(context).__name__, wanted="the context of an asyncio handler", hint=hint)
