"""One gRPC call of an asyncio client, as a carrier of messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc

from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError, TransportError
from permitflow.transports.carrier import Buffer, Carrier
from permitflow.transports.connection import HEALTH_CHECK, client_options, expect_large_blocks
from permitflow.transports.deadlines import SILENCE_SECONDS
from permitflow.transports.wire_errors import SILENT, Metadata, error_from_status, stranger_behind_grpc

__all__ = ["ClientCall", "calling"]

# What grpc.aio says when a write crosses the end of the call.  It replaces the peer's status, or is replaced by it.
_CROSSED = "Internal error from Core"
_STATUS_SECONDS = 1.0
_REASON_SECONDS = 1.0

T = TypeVar("T")


class _Status(NamedTuple):
    """How a call has ended."""

    code: grpc.StatusCode
    details: str
    metadata: Metadata


class ClientCall(Carrier):
    """A call that is under way."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", who: str) -> None:
        """``who`` is at the other end, in words for an error."""
        self._call = call
        # Unlike call.read(), an iterator goes on after a crossing write: what has arrived is handed out, and the peer's
        # status comes, for which it would else wait.
        self._messages = aiter(call)
        self._who = who
        self._status: _Status | None = None
        self._status_came = asyncio.Event()
        call.add_done_callback(lambda _: self._note_status())

    async def read(self) -> bytes | None:
        """The next message; None once the peer has closed the call in good order."""
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            return None
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise await self._over(error) from error
        except asyncio.CancelledError as error:
            self._refuse_foreign_cancellation(error)
            raise

    async def write(self, message: Sequence[Buffer]) -> None:
        """Hand a message over; waits while gRPC is full."""
        try:
            await self._call.write(b"".join(message))
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise await self._over(error) from error
        except asyncio.CancelledError as error:
            self._refuse_foreign_cancellation(error)
            raise

    async def half_close(self) -> None:
        """Say that nothing more will be written."""
        await self._call.done_writing()

    async def settle(self) -> None:
        """Let go of a call that is over.

        After a crossing write grpc.aio takes the call for done, and a cancellation does nothing; but gRPC keeps it
        until its messages have been read.
        """
        if not self._call.done() or self._status is not None:
            return
        with contextlib.suppress(TimeoutError, PermitflowError):
            async with asyncio.timeout(_STATUS_SECONDS):
                while await self.read() is not None:
                    pass

    def _refuse_foreign_cancellation(self, error: asyncio.CancelledError) -> None:
        """grpc.aio raises CancelledError when the call was cancelled, though nobody has cancelled the task."""
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise PeerGoneError(who=self._who, reason="the call was cancelled") from error

    async def _over(self, error: BaseException) -> PermitflowError:
        """The reason why the call is over."""
        if not self._call.done():
            return TransportError.of(what=f"the stream with {self._who}", cause=error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STATUS_SECONDS):
                await self._status_came.wait()
        if self._status is None:
            # It is held up by messages that nobody reads.
            return PeerGoneError(who=self._who, reason="the stream broke off while something was being written")
        if self._status.code is grpc.StatusCode.OK:
            return PeerGoneError(who=self._who, reason="it closed the stream before the end")
        return error_from_status(*self._status, who=self._who)

    def _note_status(self) -> None:
        """Keep the peer's status; called whenever the call gets one, while nothing else runs."""
        code, details = _at_once(self._call.code()), _at_once(self._call.details())
        if code is not grpc.StatusCode.INTERNAL or details != _CROSSED:
            metadata = tuple(_at_once(self._call.trailing_metadata()) or ())
            self._status = _Status(code, details, metadata)
            self._status_came.set()


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a call that has a status answers at once")


@contextlib.asynccontextmanager
async def calling(
    address: str, method: str, who: str, timeout_seconds: float, silence_seconds: float = SILENCE_SECONDS
) -> AsyncIterator[ClientCall]:
    """A call of one method of the exchange at this address.

    Raises:
        PeerTimeoutError: nobody answers there.
    """
    expect_large_blocks()
    async with grpc.aio.insecure_channel(address, options=client_options(silence_seconds)) as channel:
        try:
            async with asyncio.timeout(timeout_seconds):
                await channel.channel_ready()
        except TimeoutError:
            reason = f"no connection within {timeout_seconds:g} s; {await _why_not(channel)}"
            raise PeerTimeoutError(who=who, reason=reason) from None
        call = ClientCall(channel.stream_stream(method)(), who)
        try:
            yield call
        finally:
            await call.settle()


async def _why_not(channel: grpc.aio.Channel) -> str:
    """Why there is no connection: gRPC says so to a call that does not wait for one."""
    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
    try:
        await ask(b"", timeout=_REASON_SECONDS)
    except grpc.aio.AioRpcError as error:
        details = error.details() or ""
        if words := stranger_behind_grpc(details):
            return f"{details}{words}"
    return SILENT
