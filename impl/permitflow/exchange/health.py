"""Answers the standard health questions of gRPC (grpc.health.v1), so that orchestrators need no client of ours."""

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from permitflow.exchange.readiness import Phase, Readiness
from permitflow.transports.health import LIVENESS, READINESS

__all__ = ["HealthService"]


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
