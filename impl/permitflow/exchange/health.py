"""The phase of an exchange, for peers that dial and for health checks.

The health service is the standard one of gRPC (grpc.health.v1), so that orchestrators need no special client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

from permitflow.change import Change
from permitflow.client.health import LIVENESS, READINESS
from permitflow.errors import PeerGoneError, UndecodableDataError

HEALTH: Final = health.SERVICE_NAME
_RESPONSE: Final = health_pb2.HealthCheckResponse
_LOOK_SECONDS: Final = 1.0
Answer: TypeAlias = Callable[[bytes, Any], Awaitable[None]]
"""Of a method of the service: takes a request and gRPC's context, into which it writes bytes."""


class Phase(Enum):
    """The phases of an exchange."""

    READY = ""
    """It accepts streams."""
    DRAINING = "it is being stopped"
    """It refuses new producers; consumers may take the remaining rows."""


class Readiness:
    """The phase of an exchange, with a way to wait for the next one.  For one event loop."""

    def __init__(self, is_own: Callable[[], bool]) -> None:
        """Be ready; ``is_own``: as ``Store.is_own``."""
        self._is_own = is_own
        self._phase = Phase.READY
        self._is_whole = True
        self._changed = Change()

    @property
    def phase(self) -> Phase:
        """The phase of the exchange now."""
        return self._phase

    def enter(self, phase: Phase) -> None:
        """Enter a phase, and wake the tasks that wait for it."""
        self._phase = phase
        self._changed.note()

    @property
    def is_ready(self) -> bool:
        """Are streams of all channels taken now?"""
        return self._phase is Phase.READY and self._is_whole and self._is_own()

    def note_whole(self, is_whole: bool) -> None:
        """Some of its channels cannot be used, or all can again: other processes have them."""
        self._is_whole = is_whole
        self._changed.note()

    async def follow(self) -> None:
        """Let all that wait look each second, until cancelled: nothing tells when a store may have another owner."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._changed.note()

    async def until_changed(self, is_ready: bool) -> None:
        """Wait until ``is_ready`` is no longer this."""
        await self._changed.until(lambda: self.is_ready is not is_ready)

    async def until_not(self, phase: Phase) -> None:
        """Wait for another phase than this one."""
        await self._changed.until(lambda: self._phase is not phase)

    def require(self, phase: Phase) -> None:
        """Require this phase.

        Raises:
            PeerGoneError: the exchange is in another phase; a peer may dial again later.
        """
        if self._phase is not phase:
            raise PeerGoneError(who="the exchange", reason=self._phase.value)


class HealthService:
    """What a server answers about its exchange's readiness, and its liveness.

    The library's own servicer tells a watcher nothing more once another one has left, or while another one does not
    read.
    """

    def __init__(self, readiness: Readiness) -> None:
        """It answers from now on."""
        self._readiness = readiness

    @property
    def methods(self) -> Mapping[str, Answer]:
        """By name."""
        return {"Check": self._check, "Watch": self._watch}

    async def _check(self, request: bytes, context: Any) -> None:
        status = _status(_decoded(request).service, self._readiness.is_ready)
        if status == _RESPONSE.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        await context.write(_RESPONSE(status=status).SerializeToString())

    async def _watch(self, request: bytes, context: Any) -> None:
        service, told = _decoded(request).service, None
        while True:
            is_ready = self._readiness.is_ready
            if (status := _status(service, is_ready)) != told:
                told = status
                await context.write(_RESPONSE(status=status).SerializeToString())
            await self._readiness.until_changed(is_ready)


def _status(service: str, is_ready: bool) -> Any:
    if service == LIVENESS or (is_ready and service in READINESS):
        return _RESPONSE.SERVING
    return _RESPONSE.NOT_SERVING if service in READINESS else _RESPONSE.SERVICE_UNKNOWN


def _decoded(request: bytes) -> health_pb2.HealthCheckRequest:
    """A request.

    Raises:
        UndecodableDataError: it is none.
    """
    try:
        return health_pb2.HealthCheckRequest.FromString(request)
    except DecodeError as error:
        raise UndecodableDataError(what="a request to the health service", reason=str(error)) from None
