"""Processes of one host share memory: whole streams through two rings, also when one of the processes is killed."""

import asyncio
import gc
import os
import random
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.carriers.connection import GET_STREAM
from permitflow.carriers.same_host import Offer, settle
from permitflow.carriers.shared_memory.region import RING_NAME
from permitflow.client import SameHost, StagedPart, Staging, control, get, put
from permitflow.errors import SameHostError
from permitflow.exchange import Exchange, ExchangeServer, Retention
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.impl.exchange.conftest import Endpoint
from tests.support.endpoints import CHANNEL, SCHEMA
from tests.support.peers_by_hand import answered, dialling, encoded, get_frame
from tests.support.process import open_descriptors, ring_mappings
from tests.support.served import served
from tests.support.turns import turns, until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

PATIENCE_SECONDS = 60.0
"""Guards against hangs."""
FEW_ROWS = ChannelParameters(row_permits=16)
WIDE = pa.schema([("number", pa.int64()), ("content", pa.large_binary())])


Start = Callable[..., Endpoint]
Rings = Callable[[], set[object]]


def wide(number: int, size: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number]), pa.array([bytes([number % 251]) * size], pa.large_binary())], WIDE)


def ring_memory() -> set[object]:
    """Mappings and descriptors of rings that this process has."""
    return {*ring_mappings(), *(file for file in open_descriptors() if RING_NAME in file[1])}


@pytest.fixture
def rings() -> Rings:
    """Those that are new since the test began."""
    gc.collect()
    before = ring_memory()
    return lambda: ring_memory() - before


async def test_a_channel_that_keeps_its_rows_keeps_no_memory_of_a_producer(rings: Rings) -> None:
    """The producer could still change it, and the ring would live for as long as the rows."""
    kept = served(CHANNEL, parameters=FEW_ROWS, schema=WIDE, retention=Retention.REPLAY)
    async with kept as (exchange, address):
        async with put(address, CHANNEL, WIDE, same_host=SameHost.REQUIRE) as sender:
            for number in range(8):
                await sender.send(wide(number, 100_000))
            await sender.end()
        del sender
        gc.collect()
        assert exchange.replay_channel(CHANNEL).books.kept_rows == 8
        assert not rings()


async def test_why_memory_is_not_shared_is_in_the_statistics_of_both_ends() -> None:
    async with served(CHANNEL, schema=SCHEMA, same_host=SameHost.NEVER) as (exchange, address):
        async with put(address, CHANNEL, SCHEMA) as sender:
            ((_, end),) = exchange.channel(CHANNEL).streams.statistics()
            reason = "network: the server has switched it off"
            assert (sender.statistics().path, end.path) == (reason, reason)
            await sender.end(closes_channel=False)
        exchange.terms = exchange.terms._replace(same_host=SameHost.AUTO)
        async with put(address, CHANNEL, SCHEMA, same_host=SameHost.NEVER) as sender:
            _, (_, end) = exchange.channel(CHANNEL).streams.statistics()
            assert sender.statistics().path == "network: it is switched off at this end"
            assert end.path == "network: the peer does not offer to share memory"
            await sender.end()


async def test_a_waiting_reader_gets_the_agreement_over_the_network() -> None:
    """Only then does the reader change over to memory, and would hear nothing there before."""
    async with served(CHANNEL, schema=None) as (_, address), dialling(address, GET_STREAM) as reader:
        with closing(Offer(SameHost.REQUIRE, writes=False, who="the exchange")) as offer:
            await reader.write([encoded(GET_STREAM, get_frame(channel=CHANNEL, same_host=offer.frame))])
            await reader.write([pb.FromDownstream(sign=pb.SIGN_ASK).SerializeToString()])
            answer = await reader.read()
            assert answer == pb.FromUpstream(sign=pb.SIGN_ANSWER).SerializeToString()
            async with put(address, CHANNEL, SCHEMA), asyncio.timeout(PATIENCE_SECONDS):
                agreement = await reader.read()
                assert agreement is not None
                (agreed,) = answered(GET_STREAM, agreement)
                link = settle(offer, agreed.same_host).link
                assert link is not None
                link.close()


@pytest.mark.parametrize(("here", "there"), [("require", "never"), ("never", "require")])
async def test_an_end_that_requires_shared_memory_refuses_the_network(here: str, there: str) -> None:
    async with served(CHANNEL, schema=SCHEMA, same_host=SameHost(there)) as (exchange, address):
        with pytest.raises(SameHostError, match="no memory can be shared with"):
            async with put(address, CHANNEL, SCHEMA, same_host=SameHost(here)):
                pass
        # The channel has come to no harm.
        exchange.terms = exchange.terms._replace(same_host=SameHost.AUTO)
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.end()


def test_a_stream_gives_its_memory_back_without_garbage_collection(complete: Complete, rings: Rings) -> None:
    """A client that opens many streams would have eight megabytes of each until Python looks for cycles."""

    async def test() -> None:
        async with (
            served(CHANNEL, schema=WIDE) as (_, address),
            put(address, CHANNEL, WIDE, same_host=SameHost.REQUIRE) as sender,
            get(address, CHANNEL, same_host=SameHost.REQUIRE) as receiver,
        ):
            await sender.send(wide(0, 100_000))
            assert rings()
            ending = asyncio.ensure_future(sender.end())
            assert [message.rows async for message in receiver] == [1]
            await ending

    gc.disable()
    try:
        complete(test())
        assert not rings()
    finally:
        gc.enable()


WINDOW = ("--chunk-rows", 8192, "--row-permits", 262_144, "--same-host", "require")


@pytest.mark.parametrize("victim", ["produce", pytest.param("consume", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
async def test_a_client_killed_in_the_middle_leaves_nothing_behind(
    start: Start, rings: Rings, victim: str, seed: int
) -> None:
    """At a random moment, while large chunks go around the rings; the other client hears of it."""
    async with served(CHANNEL, parameters=ChannelParameters(row_permits=262_144), schema=SCHEMA) as (_, address):
        ends = {role: start(role, address, *WINDOW) for role in ("produce", "consume")}
        for role, event in (("produce", "ready"), ("consume", "ready"), ("consume", "flowing")):
            await asyncio.to_thread(ends[role].hears, event)
        assert rings()
        await asyncio.sleep(random.Random(f"{victim}{seed}").random() / 2)  # whatever they are doing then
        ends.pop(victim).signal(signal.SIGKILL)
        ((_, other),) = ends.items()
        heard = await asyncio.to_thread(other.ends, PATIENCE_SECONDS)
        assert heard["type"] in ("PeerGoneError", "ChannelAbortedError")
        assert "is gone: " in heard["message"]

    gc.collect()
    assert not rings()


STAGES = """
import sys
import pyarrow as pa
from permitflow.client import SameHost, Staging
from permitflow.client.blocking import open_sink

schema = pa.schema([("n", pa.int64())])
options = {"staging": Staging("killed", 0, 0, "x"), "same_host": SameHost.REQUIRE, "timeout_seconds": 60}
with open_sink(sys.argv[1], "c", schema, **options) as sink:
    sink.send(pa.record_batch([[1, 2]], schema=schema))
    sink.end(closes_channel=False)
"""


async def test_a_producer_killed_while_its_rows_wait_for_room_is_gone() -> None:
    exchange = Exchange()
    exchange.add_channel("c", retention=Retention.REPLAY, staging_rows=2)
    rows = pa.record_batch({"n": pa.array([1, 2], pa.int64())})
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server, control(server.address) as orders:
        async with put(server.address, "c", rows.schema, staging=Staging("other", 0, 0, "x")) as sender:
            await sender.send(rows)
            await sender.end(closes_channel=False)
        await until(lambda: not exchange.statistics(["c"])[0].producers)
        killed = await asyncio.create_subprocess_exec(sys.executable, "-c", STAGES, server.address)
        connections: list[str] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "ended" not in connections:
                connections = [each.state for each in (await orders.channels(["c"]))[0].connections]
        killed.kill()
        await killed.wait()
        await turns()
        await orders.discard("other", 0, [StagedPart("c", 0, "x", 2)])
        await until(lambda: not exchange.statistics(["c"])[0].producers)


def test_an_exchange_killed_in_the_middle_leaves_nothing_behind(start: Start) -> None:
    shared_before = named_memory()
    serve = start("serve", *WINDOW)
    address = serve.hears("ready")["address"]
    ends = {role: start(role, address, *WINDOW) for role in ("produce", "consume")}
    for role, event in (("produce", "ready"), ("consume", "ready"), ("consume", "flowing")):
        ends[role].hears(event)
    serve.signal(signal.SIGKILL)
    for end in ends.values():
        heard = end.ends(PATIENCE_SECONDS)
        assert heard["type"] == "PeerGoneError"
        assert f"the exchange at {address}" in heard["message"]
    assert not named_memory() - shared_before


def named_memory() -> set[str]:
    """Shared memory with a name, ours or of Python's library; other processes may make and remove their own."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("permitflow", "psm_"))}
