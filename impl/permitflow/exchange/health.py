"""Whether an exchange takes streams now, for peers that dial and for programs that ask about its health.

It answers the standard health questions of gRPC (grpc.health.v1), so that orchestrators need no client of ours.
"""

import asyncio
from enum import Enum

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from permitflow.errors import PeerGoneError
from permitflow.transports.health import LIVENESS, READINESS

__all__ = ["HealthService", "Phase", "Readiness"]


class Phase(Enum):
    """How far an exchange has come."""

    READY = ""
    """It takes streams."""
    DRAINING = "it is being stopped"
    """It takes no producers any more; consumers may take what is here."""


class Readiness:
    """The phase of an exchange, with a way to wait for the next one.  For one event loop."""

    def __init__(self) -> None:
        """Begin ready: no peer can dial before that."""
        self._phase = Phase.READY
        self._changed = asyncio.Event()

    @property
    def phase(self) -> Phase:
        """How far the exchange has come."""
        return self._phase

    def enter(self, phase: Phase) -> None:
        """Note that it has come further."""
        self._phase = phase
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until_not(self, phase: Phase) -> None:
        """Wait for another phase than this one."""
        while self._phase is phase:
            await self._changed.wait()

    def require(self, phase: Phase) -> None:
        """Refuse what goes in this phase only.

        Raises:
            PeerGoneError: the exchange is in another one; a peer that dials again later may find it ready.
        """
        if self._phase is not phase:
            raise PeerGoneError(who="the exchange", reason=self._phase.value)


class HealthService:
    """What a server says about its exchange: whether it is ready, and that it is alive at all."""

    def __init__(self, readiness: Readiness) -> None:
        """Nothing is said before ``add_to``."""
        self._readiness = readiness
        self._servicer = health.aio.HealthServicer()

    async def add_to(self, server: aio.Server) -> None:
        """Let a server that has not started answer."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        await self._servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        await self._say(self._readiness.phase)

    async def follow(self) -> None:
        """Say at once whatever becomes of the exchange, until cancelled."""
        while True:
            said = self._readiness.phase
            await self._say(said)
            await self._readiness.until_not(said)

    async def _say(self, phase: Phase) -> None:
        response = health_pb2.HealthCheckResponse
        status = response.SERVING if phase is Phase.READY else response.NOT_SERVING
        for service in READINESS:
            await self._servicer.set(service, status)
