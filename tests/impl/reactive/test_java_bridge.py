"""The Java ends of interop/java, against an exchange: they copy a channel into another one, and pass demand on."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Kind, Parameters
from permitflow.client import EndOutcome, SameHost, get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer, Retention
from tests.support.turns import until
from tools import java_peers

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
# A guard against hangs.
SECONDS = 120
WINDOW, PREFETCH = 8, 4
READING = Path(__file__).with_name("Reading.java")


@pytest.fixture(scope="module")
def class_path() -> str:
    try:
        return java_peers.joined(java_peers.bridge())
    except java_peers.CannotBuildError as error:
        pytest.skip(str(error))


class Copy:
    """The Java program that copies ``in`` into ``out``."""

    def __init__(self, class_path: str, address: str) -> None:
        self.command = [java_peers.tool("java"), "-cp", class_path, "permitflow.reactive.Copy", address, "in", "out"]

    async def __aenter__(self) -> "Copy":
        pipe = asyncio.subprocess.PIPE
        command = [*self.command, str(PREFETCH)]
        self.process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()

    async def said(self) -> tuple[str, str]:
        printed, errors = await self.process.communicate()
        return printed.decode().strip(), errors.decode()


def batch(number: int, rows: int) -> pa.RecordBatch:
    texts = [f"{number}/{row}" * (number % 40) for row in range(rows)]
    return pa.record_batch([[number] * rows, texts], schema=SCHEMA)


def exchange_of(parameters: Parameters, *, checksums: bool = True) -> Exchange:
    exchange = Exchange(checksums=checksums)
    for name in ("in", "out"):
        exchange.add_channel(name, parameters, schema=SCHEMA)
    return exchange


@pytest.mark.parametrize(
    "parameters",
    [
        ChannelParameters(row_permits=256, barrier_permits=2),
        ChannelParameters(row_permits=256, initial_permits=0),
        Demand(size=32),
    ],
    ids=["permits", "permits pulled", "demand"],
)
@pytest.mark.parametrize("checksums", [True, False])
async def test_java_copies_chunks_barriers_and_watermarks(
    parameters: Parameters, checksums: bool, class_path: str
) -> None:
    """Chunks of many sizes, alone and joined: each length of a message has its own way through the checksum."""
    batches = [batch(number, number * 7 % 60) for number in range(400)]
    seen: list[tuple[Kind, Any]] = []

    async def write(address: str) -> EndOutcome:
        async with put(address, "in", SCHEMA, same_host=SameHost.NEVER) as sender:
            for number, each in enumerate(batches):
                await sender.send(each)
                if number % 50 == 0:
                    await sender.send_barrier(number)
                    await sender.send_barrier(f"after {number}")
                if number == 123:
                    sender.send_watermark(1.5)
            return await sender.end()

    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange_of(parameters, checksums=checksums), "127.0.0.1:0") as server,
        Copy(class_path, server.address) as java,
    ):
        writing = asyncio.create_task(write(server.address))
        async with get(server.address, "out", same_host=SameHost.NEVER) as receiver:
            seen = [(message.kind, message.payload) async for message in receiver]
        # Requests do not say what was consumed.
        of_permits = isinstance(parameters, ChannelParameters)
        assert await writing is (EndOutcome.CONSUMED if of_permits else EndOutcome.ACCEPTED)
        assert await java.said() == ("accepted", "")
    chunks = [payload for kind, payload in seen if kind is Kind.CHUNK]
    assert pa.Table.from_batches(chunks).equals(pa.Table.from_batches(batches))
    assert [chunk.num_rows for chunk in chunks] == [each.num_rows for each in batches]
    barriers = [payload for kind, payload in seen if kind is Kind.BARRIER]
    assert barriers == [value for number in range(0, 400, 50) for value in (number, f"after {number}")]
    assert [payload for kind, payload in seen if kind is Kind.WATERMARK] == [1.5]


async def test_a_stalled_consumer_behind_java_stops_the_producer_before_it(class_path: str) -> None:
    count, taken_first = 400, 3
    # For each of both channels, the windows of both streams and of the channel; in Java, what it has asked for; one is
    # with the consumer.
    most_ahead = 2 * 3 * WINDOW + PREFETCH + 1
    given = consumed = ahead = 0
    full = asyncio.Event()

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        nonlocal given, ahead
        for number in range(count):
            given += 1
            ahead = max(ahead, given - consumed)
            if given >= taken_first + 2 * 3 * WINDOW:
                full.set()
            yield batch(number, 1)

    async def write(address: str) -> None:
        async with put(address, "in", SCHEMA, same_host=SameHost.NEVER) as sender:
            async for each in batches():
                await sender.send(each)
            await sender.end()

    exchange = exchange_of(ChannelParameters(row_permits=WINDOW, permit_batch=1))
    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange, "127.0.0.1:0") as server,
        Copy(class_path, server.address) as java,
    ):
        writing = asyncio.create_task(write(server.address))
        async with get(server.address, "out", same_host=SameHost.NEVER) as receiver:
            while consumed < taken_first:
                await receiver.receive()
                consumed += 1
            await full.wait()
            assert not writing.done()
            async for _ in receiver:
                consumed += 1
        await writing
        assert await java.said() == ("accepted", "")
    assert consumed == given == count
    assert ahead <= most_ahead


async def test_a_consumer_that_cancels_behind_java_is_heard_by_the_producer(class_path: str) -> None:
    exchange = exchange_of(ChannelParameters(row_permits=WINDOW))
    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange, "127.0.0.1:0") as server,
        Copy(class_path, server.address) as java,
        put(server.address, "in", SCHEMA, same_host=SameHost.NEVER) as sender,
    ):

        async def write() -> None:
            for number in range(1_000):
                await sender.send(batch(number, 1))

        writing = asyncio.create_task(write())
        async with get(server.address, "out", same_host=SameHost.NEVER) as receiver:
            await receiver.receive()
            await receiver.cancel("enough")
        with pytest.raises(PermitflowError, match="needs no more"):
            await writing
        assert await java.said() == ("cancelled", "")


async def test_java_hears_that_a_producer_gave_up(class_path: str) -> None:
    exchange = exchange_of(ChannelParameters(row_permits=WINDOW))
    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange, "127.0.0.1:0") as server,
        Copy(class_path, server.address) as java,
        get(server.address, "out", same_host=SameHost.NEVER) as receiver,
    ):
        async with put(server.address, "in", SCHEMA, same_host=SameHost.NEVER) as sender:
            await sender.send(batch(1, 1))
            await receiver.receive()
            sender.abort("no more paper")
        with pytest.raises(PermitflowError, match="no more paper"):
            await receiver.receive()
        printed, errors = await java.said()
        assert (printed, "no more paper" in errors) == ("", True)


async def test_java_hands_over_all_rows_before_a_broken_channels_error(class_path: str) -> None:
    """All of them have come, and the error, before it requests the first one."""
    exchange = Exchange()
    channel = exchange.add_channel("in", schema=SCHEMA, retention=Retention.REPLAY)
    for number in range(3):
        await channel.append(batch(number, 2))
    await channel.break_("no more paper")
    pipe = asyncio.subprocess.PIPE
    async with asyncio.timeout(SECONDS), ExchangeServer(exchange, "127.0.0.1:0") as server:
        command = [java_peers.tool("java"), "-cp", class_path, str(READING), server.address, "in"]
        java = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        try:
            await until(lambda: len(channel.streams.statistics()) == 1 and not channel.streams.connections())
            printed, _ = await java.communicate(b"go on\n")
        finally:
            if java.returncode is None:
                java.kill()
    *rows, error = printed.decode().splitlines()
    assert rows == ["2 rows"] * 3
    assert "no more paper" in error


@pytest.mark.skipif("REACTIVE_STREAMS_TCK" not in os.environ, reason="REACTIVE_STREAMS_TCK does not name the TCK's jar")
@pytest.mark.parametrize("parameters", java_peers.FLOWS, ids=lambda it: type(it).__name__)
async def test_the_tck_of_reactive_streams_finds_nothing(parameters: Parameters) -> None:
    verdicts = await java_peers.run_tck(parameters)
    assert [verdict for verdict in verdicts if verdict.status == "FAIL"] == []
    passed = {verdict.name for verdict in verdicts if verdict.status == "PASS"}
    assert "required_spec101_subscriptionRequestMustResultInTheCorrectNumberOfProducedElements" in passed
    assert "required_spec201_blackbox_mustSignalDemandViaSubscriptionRequest" in passed
