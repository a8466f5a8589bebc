"""The status with which the peer has ended a call of grpc.aio, whatever our own writes have made of it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import grpc

from permitflow.wire.wire_errors import Metadata

# grpc.aio's error when a write crosses the end of the call.  It replaces the peer's status, or is replaced by it.
_CROSSED = "Internal error from Core"
_STATUS_SECONDS = 1.0

T = TypeVar("T")


class Status(NamedTuple):
    """How a call has ended."""

    code: grpc.StatusCode
    details: str
    metadata: Metadata


class FinalStatus:
    """The peer's status, once it has come."""

    def __init__(self, call: grpc.aio.Call) -> None:
        self._call = call
        self._came = asyncio.Event()
        self.status: Status | None = None
        call.add_done_callback(lambda _: self._note())

    def _note(self) -> None:
        code, details = _at_once(self._call.code()), _at_once(self._call.details())
        if code is not grpc.StatusCode.INTERNAL or details != _CROSSED:
            metadata = tuple(_at_once(self._call.trailing_metadata()) or ())
            self.status = Status(code, details, metadata)
            self._came.set()

    async def wait(self) -> Status | None:
        """The status; None if it does not come within a second: unread messages delay it."""
        try:
            async with asyncio.timeout(_STATUS_SECONDS):
                await self._came.wait()
        except TimeoutError:
            return None
        return self.status


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("a call that has a status answers at once")
