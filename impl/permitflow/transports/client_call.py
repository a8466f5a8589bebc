"""One gRPC call of an asyncio client, as a carrier of messages."""

import asyncio

import grpc

from permitflow.errors import PeerGoneError, PermitflowError, TransportError
from permitflow.transports.status import error_from_status

__all__ = ["ClientCall"]

# What grpc.aio says when a write crosses the end of the call; the status of the peer follows.
_CROSSED = "Internal error from Core"
_STATUS_SECONDS = 2.0


class ClientCall:
    """A call that is under way; see ``Carrier``."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", who: str) -> None:
        """``who`` is at the other end, in words for an error."""
        self._call = call
        self._who = who
        self._status_came = asyncio.Event()
        call.add_done_callback(lambda _: self._status_came.set())

    async def read(self) -> bytes | None:
        """The next message; None once the peer has closed the call in good order."""
        try:
            message = await self._call.read()
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise await self._over(error) from error
        except asyncio.CancelledError as error:
            self._refuse_foreign_cancellation(error)
            raise
        return message if isinstance(message, bytes) else None

    async def write(self, message: bytes) -> None:
        """Hand a message over; waits while gRPC is full."""
        try:
            await self._call.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise await self._over(error) from error
        except asyncio.CancelledError as error:
            self._refuse_foreign_cancellation(error)
            raise

    async def half_close(self) -> None:
        """Say that nothing more will be written."""
        await self._call.done_writing()

    def _refuse_foreign_cancellation(self, error: asyncio.CancelledError) -> None:
        """grpc.aio raises CancelledError when the call was cancelled, though nobody has cancelled the task."""
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise PeerGoneError(who=self._who, reason="the call was cancelled") from error

    async def _over(self, error: BaseException) -> PermitflowError:
        """The reason why the call is over."""
        if not self._call.done():
            return TransportError.of(what=f"the stream with {self._who}", cause=error)
        code, details = await self._status()
        if code is grpc.StatusCode.OK:
            return PeerGoneError(who=self._who, reason="it closed the stream before its end")
        return error_from_status(code, details, tuple(await self._call.trailing_metadata() or ()), who=self._who)

    async def _status(self) -> tuple[grpc.StatusCode, str]:
        # A write that crosses the peer's status sets a status of its own; the peer's replaces it soon after, with the
        # reason why the call is over.
        try:
            async with asyncio.timeout(_STATUS_SECONDS):
                while True:
                    self._status_came.clear()
                    code, details = await self._call.code(), await self._call.details()
                    if code is not grpc.StatusCode.INTERNAL or details != _CROSSED:
                        return code, details
                    await self._status_came.wait()
        except TimeoutError:
            return grpc.StatusCode.INTERNAL, _CROSSED
