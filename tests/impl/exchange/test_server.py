"""Where an exchange can be served, and how it says whether it takes streams.

No failure to accept is the end of accepting.
"""

import asyncio
import errno
import logging
import re
import socket
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.connection import GET_STREAM, SERVICE
from permitflow.carriers.framing import header
from permitflow.client import control, describe, get, put
from permitflow.client.health import LIVENESS, READINESS, is_serving
from permitflow.errors import InvalidParametersError, PeerGoneError, TransportError
from permitflow.exchange import Exchange, ExchangeServer, Retention, health
from permitflow.exchange.health import HealthService, Phase, Readiness
from permitflow.exchange.serving import METHODS
from permitflow.exchange.stores.store import Store
from permitflow.flows.recording import Recorder
from permitflow.stream.frames import Agreement
from tests.support.kept_rows import SCHEMA, refused, rows
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.peers_by_hand import BATCH, answered, dialling, encoded, get_frame
from tests.support.served import served
from tests.support.simulated_time import simulated
from tests.support.turns import turns


@pytest.mark.parametrize(
    "address",
    [
        "unix:/run/exchange",
        "unix:5",
        "unix-abstract:exchange:5",
        "vsock:2:5",
        "localhost",
        "localhost:http",
        ":5",
        "localhost:65536",
        "\udcff:5",
        "tcp://localhost",
        "a:1,b:2",
    ],
)
def test_a_text_that_is_no_address_is_refused_before_anything_listens(address: str) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        ExchangeServer(Exchange(), address)
    assert (caught.value.name, caught.value.value) == ("address", address)


@pytest.mark.parametrize("scheme", ["tcp://", "udp://"])
async def test_a_name_that_has_only_ipv6_can_be_listened_at(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = socket.getaddrinfo

    def six(host: str, *arguments: Any, **named: Any) -> Any:
        return found("::1" if host == "localhost" else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", six)
    async with served("c", schema=SCHEMA, listen=f"{scheme}localhost:0") as (_, address):
        described = await describe(address.replace("localhost", "[::1]"), "c")
    assert described.schema == SCHEMA


@pytest.mark.parametrize(("scheme", "name"), [("", "ipv6:[::1]"), ("tcp://", "tcp:[::1]"), ("udp://", "udp:[::1]")])
async def test_a_peer_of_ipv6_is_named_as_its_address_is_written(scheme: str, name: str) -> None:
    async with (
        served("c", schema=SCHEMA, listen=f"{scheme}[::1]:0") as (_, address),
        get(address, "c"),
        control(address) as orders,
    ):
        (channel,) = await orders.channels(["c"])
    assert [each.peer.rpartition(":")[0] for each in channel.connections] == [name]


@pytest.mark.parametrize("scheme", ["", "tcp://"])
async def test_why_nobody_can_listen_at_an_address_is_told(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ExchangeServer(Exchange(), f"{scheme}127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(TransportError, match="Address already in use"):
            await server.__aenter__()


GUARD_SECONDS = 30.0


async def test_an_exchange_out_of_descriptors_accepts_again_later(
    failures: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with ExchangeServer(Exchange(), "tcp://127.0.0.1:0") as server:
            failures.extend([errno.ENFILE, errno.EMFILE, errno.ECONNABORTED])
            async with control(server.address) as questions:
                await questions.statistics()
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("permitflow.")]
    (complaint,) = ours  # once, not for each attempt
    assert "ulimit -n" in complaint


@pytest.mark.parametrize("phase", Phase)
async def test_it_serves_while_it_is_ready_and_lives_all_the_time(phase: Phase) -> None:
    async with served() as (exchange, address):
        exchange.readiness.enter(phase)
        services = (*READINESS, LIVENESS)
        told = [await asyncio.to_thread(is_serving, address, service=service) for service in services]
    is_ready = phase is Phase.READY
    assert told == [is_ready, is_ready, True]


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_a_question_about_health_that_is_none_is_refused(method: str) -> None:
    async with served() as (_, address), grpc.aio.insecure_channel(address) as channel:
        call: Any = channel.unary_stream(f"/grpc.health.v1.Health/{method}")
        with pytest.raises(grpc.aio.AioRpcError, match="a request to the health service"):
            await call(b"\xff").read()


async def test_a_watcher_hears_of_each_change() -> None:
    async with served() as (exchange, address), grpc.aio.insecure_channel(address) as channel:
        exchange.readiness.enter(Phase.DRAINING)
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        heard = [(await watching.read()).status]
        for phase in (Phase.READY, Phase.DRAINING):
            exchange.readiness.enter(phase)
            heard.append((await watching.read()).status)
        watching.cancel()
    response = health_pb2.HealthCheckResponse
    assert heard == [response.NOT_SERVING, response.SERVING, response.NOT_SERVING]


async def test_a_watcher_hears_of_changes_after_another_one_has_left() -> None:
    async with (
        served() as (exchange, address),
        grpc.aio.insecure_channel(address) as channel,
        asyncio.timeout(GUARD_SECONDS),
    ):
        questions = health_pb2_grpc.HealthStub(channel)
        leaving, staying = (questions.Watch(health_pb2.HealthCheckRequest()) for _ in range(2))
        await asyncio.gather(leaving.read(), staying.read())
        leaving.cancel()
        await questions.Check(health_pb2.HealthCheckRequest())  # it comes behind that
        exchange.readiness.enter(Phase.DRAINING)
        assert (await staying.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_service_that_nobody_knows_is_told_as_such() -> None:
    request = health_pb2.HealthCheckRequest(service="another")
    async with served() as (_, address), grpc.aio.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(request)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watching = stub.Watch(request)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watching.cancel()


async def test_a_watcher_of_liveness_hears_it_once() -> None:
    told = list[bytes]()

    async def write(response: bytes) -> None:
        told.append(response)

    readiness = Readiness(lambda: True)
    request = health_pb2.HealthCheckRequest(service=LIVENESS).SerializeToString()
    watch = HealthService(readiness).methods["Watch"](request, SimpleNamespace(write=write))
    watching = asyncio.ensure_future(watch)
    await turns()
    readiness.enter(Phase.DRAINING)
    await turns()
    watching.cancel()
    response = health_pb2.HealthCheckResponse
    assert told == [response(status=response.SERVING).SerializeToString()]


async def test_a_watcher_hears_of_a_store_that_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class SharedStore(Store):
        is_own = True

    monkeypatch.setattr(health, "_LOOK_SECONDS", 0.01)
    async with served(store=(store := SharedStore())) as (_, address), grpc.aio.insecure_channel(address) as channel:
        async with asyncio.timeout(GUARD_SECONDS):
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            await watching.read()
            store.is_own = False
            assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


@simulated
async def test_what_was_unsure_between_two_looks_is_told_of() -> None:
    is_own = True
    readiness = Readiness(lambda: is_own)
    following = asyncio.create_task(readiness.follow())
    await asyncio.sleep(1.4)
    is_own = False
    waiting = asyncio.create_task(readiness.until_changed(False))
    await asyncio.sleep(0.2)
    is_own = True
    await asyncio.wait_for(waiting, timeout=2.0)
    following.cancel()


@pytest.mark.parametrize("probe", [False, True], ids=["kept rows", "a probe"])
async def test_the_agreement_comes_alone_in_its_message(probe: bool) -> None:
    """What follows counts by its numbers, or takes another path."""
    async with served(CHANNEL, parameters=SMALL, schema=BATCH.schema, retention=Retention.REPLAY) as (_, address):
        async with put(address, CHANNEL, BATCH.schema) as sender:
            await sender.send(BATCH)
            await sender.end()
        async with dialling(address, GET_STREAM) as carrier:
            await carrier.write([encoded(GET_STREAM, get_frame(probe=probe))])
            answer = await carrier.read()
            assert answer is not None
            assert [type(frame) for frame in answered(GET_STREAM, answer)] == [Agreement]


async def test_no_listener_and_no_such_service_are_errors() -> None:
    async with served() as (_, address):
        with pytest.raises(TransportError, match="NOT_FOUND"):
            await asyncio.to_thread(is_serving, address, service="coffee")
    with pytest.raises(PeerGoneError, match=address):
        await asyncio.to_thread(is_serving, address)


async def test_a_stream_that_missed_its_cancellation_ends_on_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where an error comes at the same moment, and the peer that is to be told of it does not read."""
    begun, for_ever = asyncio.Event(), asyncio.Event()
    serving: list[asyncio.Task[object] | None] = []

    async def serve(*_: object, **__: object) -> None:
        serving.append(asyncio.current_task())
        begun.set()
        with suppress(asyncio.CancelledError):
            await for_ever.wait()
        await for_ever.wait()

    monkeypatch.setattr("permitflow.exchange.server._FAREWELL_SECONDS", 0)
    monkeypatch.setattr("permitflow.exchange.reception.METHODS", dict.fromkeys(METHODS, serve))
    server = ExchangeServer(Exchange(), "tcp://127.0.0.1:0")
    async with asyncio.timeout(GUARD_SECONDS), server:
        with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))) as dialler:
            dialler.sendall(header(StreamMessageKind.GET) + header(StreamMessageKind.MESSAGE))
            await begun.wait()
            await server.stop()
    (task,) = serving
    assert task is not None
    assert task.cancelled()


@pytest.mark.parametrize("resume_seconds", [0.0, 30.0])
async def test_a_fault_of_its_own_is_logged_with_its_place(
    resume_seconds: float, listen: str, caplog: pytest.LogCaptureFixture
) -> None:
    def opened(*_: object) -> Recorder:
        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            if action == "Deliver":
                raise KeyError("a fault")

        return record

    async with served("a", schema=SCHEMA, listen=listen, record=opened) as (_, address):
        with pytest.raises(TransportError, match="'a fault'"):
            async with put(address, "a", SCHEMA, resume_seconds=resume_seconds) as sender:
                await sender.send(rows(0, 1))
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert 'raise KeyError("a fault")' in (record.exc_text or "")


async def test_a_stop_that_was_given_up_is_repeated(listen: str) -> None:
    exchange = Exchange()
    exchange.add_channel("a", schema=SCHEMA)
    async with ExchangeServer(exchange, listen) as server, get(server.address, "a") as receiver:
        receiving = asyncio.create_task(refused(receiver.receive(), PeerGoneError))
        stopping = asyncio.create_task(server.stop(grace_seconds=60))
        await turns()
        stopping.cancel()
        await asyncio.wait({stopping})
        await server.stop()
        assert (await receiving).reason == "it is being stopped"


async def test_a_server_that_lacks_an_extra_keeps_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ExchangeServer(Exchange()) as server:
        address = server.address
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "grpc_reflection", None)
        with pytest.raises(ModuleNotFoundError, match=re.escape("permitflow[reflection]")):
            async with ExchangeServer(Exchange(), address, reflection=True):
                pass
    async with ExchangeServer(Exchange(), address) as server:
        assert server.address == address


async def test_reflection_describes_the_service_if_it_is_asked_for() -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    request = reflection_pb2.ServerReflectionRequest
    questions = [request(list_services=""), request(file_containing_symbol=SERVICE)]
    async with served(of_server={"reflection": True}) as (_, address), grpc.aio.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        names, file = [answer async for answer in stub.ServerReflectionInfo(iter(questions))]
    assert {SERVICE, "grpc.health.v1.Health"} <= {each.name for each in names.list_services_response.service}
    assert b"ExchangeService" in file.file_descriptor_response.file_descriptor_proto[0]
    async with served() as (_, address), grpc.aio.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
            assert [answer async for answer in stub.ServerReflectionInfo(iter(()))]
