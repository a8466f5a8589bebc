"""Whether an exchange takes streams, as those hear it who ask with gRPC's own protocol."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from permitflow.errors import PeerGoneError, TransportError
from permitflow.exchange.health import Phase
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.health import LIVENESS, READINESS, is_serving


@pytest.mark.parametrize("phase", Phase)
def test_it_serves_while_it_is_ready_and_lives_all_the_time(run: asyncio.Runner, phase: Phase) -> None:
    async def ask() -> list[bool]:
        exchange = Exchange()
        exchange.readiness.enter(phase)
        async with ExchangeServer(exchange, "127.0.0.1:0") as server:
            return [
                await asyncio.to_thread(is_serving, server.address, service=service)
                for service in (*READINESS, LIVENESS)
            ]

    is_ready = phase is Phase.READY
    assert run.run(ask()) == [is_ready, is_ready, True]


def test_who_watches_hears_of_each_change(run: asyncio.Runner) -> None:
    async def watch() -> list[int]:
        exchange = Exchange()
        exchange.readiness.enter(Phase.DRAINING)
        async with (
            ExchangeServer(exchange, "127.0.0.1:0") as server,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            heard = [(await watching.read()).status]
            for phase in (Phase.READY, Phase.DRAINING):
                exchange.readiness.enter(phase)
                heard.append((await watching.read()).status)
            watching.cancel()
            return heard

    response = health_pb2.HealthCheckResponse
    assert run.run(watch()) == [response.NOT_SERVING, response.SERVING, response.NOT_SERVING]


def test_nobody_there_and_no_such_service_are_errors(run: asyncio.Runner) -> None:
    async def ask() -> str:
        async with ExchangeServer(Exchange(), "127.0.0.1:0") as server:
            with pytest.raises(TransportError, match="NOT_FOUND"):
                await asyncio.to_thread(is_serving, server.address, service="coffee")
            return server.address

    address = run.run(ask())
    with pytest.raises(PeerGoneError, match=address):
        is_serving(address)
