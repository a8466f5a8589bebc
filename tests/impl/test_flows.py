"""Every flow works over every carrier: what is sent arrives once, in order, and the flow bounds what lies there."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from examples.own_flow.xon_xoff import AT_ONCE_ROWS, XonXoff
from permitflow import (
    ChannelParameters,
    Demand,
    GateParameters,
    Kind,
    LocalReceiver,
    LocalSender,
    Parameters,
    ReceiveEnd,
    SendEnd,
    SquelchParameters,
    open_channel,
)
from permitflow.client import RemoteReceiver, SameHost, get, put
from permitflow.errors import EndOfStream, HandshakeError, InboxOverflowError, ParameterMismatchError
from tests.support.served import served

SCHEMA = pa.schema([("n", pa.int64())])
CHUNK_ROWS = 7
CHUNKS = 300
WINDOW_ROWS = 64


class Flows(NamedTuple):
    """A flow, and the most rows that lie in an inbox of a local channel."""

    parameters: Parameters
    most_rows: int


FLOWS = {
    "permits": Flows(ChannelParameters(row_permits=WINDOW_ROWS), WINDOW_ROWS),
    "permits, pulled": Flows(ChannelParameters(row_permits=WINDOW_ROWS, initial_permits=0), 0),
    "demand, one by one": Flows(Demand(size=1, batch=1), CHUNK_ROWS),
    "demand": Flows(Demand(size=4), 4 * CHUNK_ROWS),
    "demand, pulled in full batches": Flows(Demand(size=4, batch=4, initial=0), 0),
    "gate": Flows(GateParameters(exclusive=32, floating=WINDOW_ROWS), 32 + WINDOW_ROWS),
    "gate without exclusive credit": Flows(GateParameters(exclusive=0, floating=WINDOW_ROWS), WINDOW_ROWS),
    # A remote sender is faster than any rate: there is a place for every message.  A local one hears at once.
    "squelch": Flows(SquelchParameters(high=8, rate=2 * CHUNKS), 9 * CHUNK_ROWS),
    "xon-xoff": Flows(XonXoff(WINDOW_ROWS), WINDOW_ROWS + AT_ONCE_ROWS),
}
CARRIERS = {
    "gRPC": ("127.0.0.1:0", SameHost.NEVER),
    "TCP": ("tcp://127.0.0.1:0", SameHost.NEVER),
    "UDP": ("udp://127.0.0.1:0", SameHost.NEVER),
    "same host": ("127.0.0.1:0", SameHost.REQUIRE),
}

Ends = tuple[SendEnd[pa.RecordBatch], ReceiveEnd[pa.RecordBatch]]


@asynccontextmanager
async def ends_of(parameters: Parameters, carrier: str) -> AsyncIterator[Ends]:
    """Both ends of a channel; through an exchange, if it is remote."""
    if carrier == "local":
        yield open_channel(parameters)
        return
    listen, same_host = CARRIERS[carrier]
    async with (
        served("c", parameters=parameters, listen=listen) as (_, address),
        put(address, "c", SCHEMA, wanted=parameters, same_host=same_host) as sender,
        get(address, "c", wanted=parameters, same_host=same_host) as receiver,
    ):
        yield sender, receiver


def chunk(number: int) -> pa.RecordBatch:
    """A chunk whose rows say where they belong."""
    return pa.record_batch({"n": range(number * CHUNK_ROWS, (number + 1) * CHUNK_ROWS)}, schema=SCHEMA)


async def send_all(sender: SendEnd[pa.RecordBatch]) -> None:
    """Chunks, one of them empty, with barriers among them and a watermark at the end."""
    for number in range(CHUNKS):
        await sender.send(chunk(number))
        if number % 100 == 0:
            await sender.send(chunk(0).slice(0, 0))
            await sender.send_barrier(number)
    sender.send_watermark(CHUNKS)
    await sender.end()


async def receive_all(receiver: ReceiveEnd[pa.RecordBatch]) -> list[tuple[Kind, Any]]:
    """Everything in its order; chunks as their first row."""
    return [
        (message.kind, message.payload["n"].to_pylist()[:1] if message.kind is Kind.CHUNK else message.payload)
        async for message in receiver
    ]


def sent() -> list[tuple[Kind, Any]]:
    """What ``send_all`` sends."""
    all_of_it: list[tuple[Kind, Any]] = []
    for number in range(CHUNKS):
        all_of_it.append((Kind.CHUNK, [number * CHUNK_ROWS]))
        if number % 100 == 0:
            all_of_it += [(Kind.CHUNK, []), (Kind.BARRIER, number)]
    return [*all_of_it, (Kind.WATERMARK, CHUNKS)]


# A flow knows nothing of carriers: in make test each has every second one.
PAIRS = [
    pytest.param(flow, carrier, marks=pytest.mark.long if place and (number + place) % 2 else ())
    for number, flow in enumerate(FLOWS)
    for place, carrier in enumerate(["local", *CARRIERS])
]


@pytest.mark.parametrize(("flow", "carrier"), PAIRS)
async def test_everything_arrives_once_and_in_order(flow: str, carrier: str) -> None:
    async with ends_of(FLOWS[flow].parameters, carrier) as (sender, receiver), asyncio.TaskGroup() as group:
        group.create_task(send_all(sender))
        assert await receive_all(receiver) == sent()


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_flow_bounds_what_a_reader_that_does_not_read_has_here(flow: str) -> None:
    sender: LocalSender[pa.RecordBatch]
    receiver: LocalReceiver[pa.RecordBatch]
    sender, receiver = open_channel(FLOWS[flow].parameters)
    sending = asyncio.create_task(send_all(sender))
    await asyncio.sleep(0)  # it runs until it has to wait
    assert sender.statistics().waiting_sends == 1
    assert receiver.statistics().inbox_rows <= FLOWS[flow].most_rows
    assert bool(receiver.statistics().inbox_rows) == bool(FLOWS[flow].most_rows)
    assert await receive_all(receiver) == sent()
    await sending


@pytest.mark.parametrize(("flow", "carrier"), [pair for pair in PAIRS if pair.values[1] != "local"])
async def test_a_stream_ends_also_if_its_last_message_is_consumed_late(flow: str, carrier: str) -> None:
    async with ends_of(FLOWS[flow].parameters, carrier) as (sender, receiver), asyncio.TaskGroup() as group:
        await sender.send(chunk(0))
        ending = group.create_task(sender.end())
        await receiver.take()
        assert isinstance(receiver, RemoteReceiver)
        while receiver.ended_with is None:
            await receiver.changed()
        receiver.consume()
        with pytest.raises(EndOfStream):
            await receiver.receive()
        await ending


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_sender_faster_than_its_squelch_is_told_the_numbers(carrier: str) -> None:
    slow = SquelchParameters(high=1, low=0, rate=1, signal_delay=0, data_delay=1)
    listen, same_host = CARRIERS[carrier]
    async with served("c", parameters=slow, listen=listen) as (_, address):

        async def send_too_fast() -> None:
            async with put(address, "c", SCHEMA, same_host=same_host) as sender:
                for number in range(CHUNKS):  # it does not look whether it should stop
                    sender.send_nowait(chunk(number))
                await sender.end()

        with pytest.raises(InboxOverflowError, match="and there are places for 2: more than 1 messages left in a tick"):
            await send_too_fast()


# gRPC has a thread of its own: how far a sender gets until it hears a signal is a matter of time there.
@pytest.mark.parametrize("carrier", ["TCP", "same host"])
@pytest.mark.parametrize("many", [True, False], ids=["send_many", "send"])
async def test_a_sender_that_never_waits_hears_that_it_must_stop(carrier: str, many: bool) -> None:
    """As long as no end lets the kernel hold small messages back (TCP_NODELAY)."""
    async with ends_of(SquelchParameters(high=CHUNKS, rate=CHUNKS // 2), carrier) as (sender, receiver):

        async def send() -> None:
            chunks = deque(chunk(number) for number in range(5 * CHUNKS))
            if many:
                await sender.send_many(chunks)
            for each in chunks:
                await sender.send(each)
            await sender.end()

        sending = asyncio.create_task(send())
        messages = [message.payload["n"][0].as_py() async for message in receiver]
        await sending
    assert messages == [number * CHUNK_ROWS for number in range(5 * CHUNKS)]


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_an_end_that_wants_another_flow_is_refused(carrier: str) -> None:
    listen, same_host = CARRIERS[carrier]
    async with served("c", parameters=Demand(size=1, batch=1), listen=listen) as (_, address):
        with pytest.raises(HandshakeError) as caught:
            async with put(address, "c", SCHEMA, wanted=ChannelParameters(), same_host=same_host):
                pass
    error = caught.value
    assert isinstance(error, ParameterMismatchError)
    # As the exchange sees it, which has refused.
    assert (error.name, error.ours, error.theirs) == ("flow", "demand", "permits")
