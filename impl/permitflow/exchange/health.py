"""Answers the standard health questions of gRPC (grpc.health.v1), so that orchestrators need no client of ours.

Over TCP the same question gets the same answer; Check is the only method of it there.
"""

import asyncio

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.exchange.readiness import Phase, Readiness
from permitflow.exchange.registry import Exchange
from permitflow.transports.carrier import Carrier
from permitflow.transports.health import LIVENESS, READINESS, read_question, write_answer

__all__ = ["HealthService", "serve_check"]


async def serve_check(exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> None:
    """Serve one health question over a carrier that is not gRPC; see ``permitflow.exchange.methods``.

    Raises:
        UndecodableDataError: it is no question.
        InvalidParametersError: there is no such service.
    """
    question = await carrier.read()
    if question is None:
        raise UndecodableDataError(what="a health question", reason="the stream ended before it")
    service = read_question(bytes(question))
    if service not in (*READINESS, LIVENESS):
        raise InvalidParametersError(name="service", value=service, rule=f"must be '' or {LIVENESS!r}")
    is_serving = service == LIVENESS or exchange.readiness.phase is Phase.READY
    await carrier.write([write_answer(is_serving)])


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
