"""What a producer hears at its end, and what all ends hear of a channel that has lost its consumer or a producer."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from permitflow import ChannelParameters, Permits, ReceiveEnd
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import PUT_STREAM
from permitflow.client import EndOutcome, RemoteReceiver, get, put
from permitflow.client.blocking import open_sink, open_source
from permitflow.errors import ChannelAbortedError, PeerGoneError, PeerTimeoutError
from permitflow.exchange import BridgeChannel, Retention
from permitflow.exchange.books.bridge import BridgeState
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import Agreement, End, Ended, Failure, Feedback, ReturnedBytes
from permitflow.stream.session import State
from permitflow.wire.codec import decode_downstream
from permitflow.wire.wire_errors import encode_error
from tests.support.endpoints import CHANNEL, SCHEMA, chunk
from tests.support.peers_by_hand import BATCH, ENCODED, data, dialling, encoded, put_frame
from tests.support.served import served
from tests.support.turns import until

Start = Callable[..., Any]

CONSUMED, ACCEPTED = EndOutcome.CONSUMED, EndOutcome.ACCEPTED
# Guards against hangs; and the longest that an idle producer may wait for the news.
SOON_SECONDS = 10.0


@asynccontextmanager
async def serving(listen: str, retention: Retention = Retention.ONCE) -> AsyncIterator[tuple[Any, str]]:
    window = ChannelParameters(row_permits=64, permit_batch=16)
    opened = served(CHANNEL, parameters=window, schema=SCHEMA, retention=retention, listen=listen)
    async with opened as (exchange, address), asyncio.timeout(SOON_SECONDS):
        yield exchange.channel(CHANNEL) if retention is Retention.ONCE else None, address


async def read_all(receiver: ReceiveEnd[Any]) -> int:
    return sum([message.rows async for message in receiver])


async def to_its_end(carrier: Conversation) -> list[Any]:
    """The frames that a producer reads which writes by hand."""
    frames: list[Any] = []
    while (message := await carrier.read()) is not None:
        frames += decode_downstream(message, PERMITS)
    return frames


def has_come_to_its_end(channel: BridgeChannel) -> bool:
    """Has the End of a producer come, which waits for its answer now?"""
    streams = channel.streams.connections()
    return any((stream.direction, stream.state) == ("put", "ended") for stream in streams)


# A consumer is killed that holds rows.


@asynccontextmanager
async def holding(start: Start, listen: str) -> AsyncIterator[tuple[BridgeChannel, Any, Any]]:
    """A channel, a producer that has sent, and a consumer in a process of its own that has taken it and is slow."""
    async with serving(listen) as (channel, address):
        consumer = start("consume", address, "--pause-seconds", 1000)
        with ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(consumer.hears, "ready"))
            async with put(address, CHANNEL, SCHEMA) as sender:
                for first in (0, 10, 20):
                    await sender.send(chunk(first, 10))
                await asyncio.wrap_future(pool.submit(consumer.hears, "flowing"))
                yield channel, sender, consumer


async def test_an_idle_producer_hears_that_the_consumer_was_killed(start: Start, listen: str) -> None:
    async with holding(start, listen) as (_, sender, consumer):
        consumer.signal(signal.SIGKILL)
        await until(lambda: sender.state is State.FAILED)
        for deed in (sender.end, lambda: sender.send(chunk(0, 1)), sender.send_barrier):
            with pytest.raises(PeerGoneError, match=f"the consumer of channel '{CHANNEL}'"):
                await deed()


async def test_a_producer_hears_at_once_that_another_broke_the_channel(listen: str) -> None:
    async with serving(listen) as (_, address), put(address, CHANNEL, SCHEMA) as idle:
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(chunk(0, 1))
            sender.abort("tired")
        await until(lambda: idle.state is State.FAILED)
        with pytest.raises(ChannelAbortedError, match="gave up: tired"):
            await idle.end()


# What an end is answered.


@pytest.mark.parametrize("closes", [True, False])
async def test_an_end_waits_until_the_last_message_is_consumed(listen: str, closes: bool) -> None:
    async with (
        serving(listen) as (channel, address),
        put(address, CHANNEL, SCHEMA) as sender,
        get(address, CHANNEL) as receiver,
    ):
        for first in range(0, 60, 10):
            await sender.send(chunk(first, 10))
        await sender.send_barrier("last")
        ending = asyncio.create_task(sender.end(closes_channel=closes))
        await until(lambda: has_come_to_its_end(channel))
        for _ in range(7):
            await receiver.take()
        for _ in range(6):
            receiver.consume()
        # The permits of the chunks are back, that of the barrier is not.
        await until(lambda: channel.streams.statistics()[-1][1].gauges["row_permits_here"] == 64)
        assert not ending.done()
        receiver.consume()
        assert await ending is CONSUMED


async def test_an_end_without_rows_covers_what_others_have_put(listen: str) -> None:
    """As that of a job's commit, which comes after its tasks."""
    async with serving(listen) as (channel, address):
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(chunk(0, 10))
            assert await sender.end(closes_channel=False) is ACCEPTED
        async with get(address, CHANNEL) as receiver, put(address, CHANNEL, SCHEMA) as closer:
            await receiver.take()
            ending = asyncio.create_task(closer.end())
            await until(lambda: has_come_to_its_end(channel))
            assert not ending.done()
            receiver.consume()
            assert await ending is CONSUMED


async def test_an_end_that_does_not_wait_is_accepted_beside_a_slow_consumer(listen: str) -> None:
    async with (
        serving(listen) as (_, address),
        put(address, CHANNEL, SCHEMA) as sender,
        get(address, CHANNEL) as receiver,
    ):
        await sender.send(chunk(0, 10))
        await receiver.take()
        assert await sender.end(until=ACCEPTED) is ACCEPTED
        receiver.consume()


async def test_an_end_on_a_channel_that_keeps_its_rows_is_accepted(listen: str) -> None:
    async with serving(listen, Retention.REPLAY) as (_, address), put(address, CHANNEL, SCHEMA, producer="p") as sender:
        await sender.send(chunk(0, 10))
        assert await sender.end() is ACCEPTED


def test_a_blocking_end_names_who_holds_the_rows_and_waits_again(start: Start, listen: str) -> None:
    address = start("serve", "--listen", listen, "--row-permits", 64).hears("ready")["address"]
    with open_sink(address, CHANNEL, SCHEMA, timeout_seconds=1.0) as sink, open_source(address, CHANNEL) as source:
        for _ in range(4):
            sink.send(chunk(0, 16))
        next(source)
        slow = rf"'{CHANNEL}'.* not everything that was sent was consumed: 1 consumer is connected and slow or stuck"
        with pytest.raises(PeerTimeoutError, match=slow):
            sink.end(closes_channel=True)
        assert len(list(source)) == 3
        sink.timeout_seconds = SOON_SECONDS
        assert sink.end(closes_channel=True) is CONSUMED


async def test_the_answer_to_an_end_follows_the_last_feedback() -> None:
    async with (
        served("orders/0", schema=BATCH.schema) as (_, address),
        dialling(address, PUT_STREAM) as carrier,
        asyncio.timeout(SOON_SECONDS),
    ):
        for frame in (put_frame(), data(), End(1, 3, 0, closes_channel=True)):
            await carrier.write([encoded(PUT_STREAM, frame)])
        carrier.half_close()
        agreement, *frames = await to_its_end(carrier)
    assert isinstance(agreement, Agreement)
    assert frames == [Feedback(Permits(rows=3)), ReturnedBytes(len(ENCODED)), Ended(ACCEPTED)]


# A dialler breaks off; whatever it says of itself, it is gone.


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (b'{"type": "PeerGoneError", "message": "", "facts": {}}', ""),
        (b'{"type": "SQLException", "message": "the table is gone"}', ": the table is gone"),
        (encode_error(ChannelAbortedError(channel="orders/0", reason="whatever")), ": .*: whatever"),
        (b"", ""),
    ],
    ids=["without facts", "of another language", "as if it gave up", "nothing"],
)
async def test_a_consumer_hears_that_a_failed_producers_rows_are_missing(error: bytes, words: str) -> None:
    async with (
        served("orders/0", schema=BATCH.schema) as (_, address),
        get(address, "orders/0") as receiver,
        dialling(address, PUT_STREAM) as carrier,
        asyncio.timeout(SOON_SECONDS),
    ):
        for frame in (put_frame(), data(), Failure(error)):
            await carrier.write([encoded(PUT_STREAM, frame)])
        with pytest.raises(ChannelAbortedError, match=f"it broke the stream off{words}"):
            await read_all(receiver)
        carrier.half_close()
        with pytest.raises(PeerGoneError, match="it broke the stream off"):
            await to_its_end(carrier)


async def test_no_producer_ends_a_channel_that_another_has_broken() -> None:
    async with (
        served("orders/0", schema=BATCH.schema) as (_, address),
        get(address, "orders/0") as receiver,
        put(address, "orders/0", BATCH.schema) as honest,
        dialling(address, PUT_STREAM) as carrier,
        asyncio.timeout(SOON_SECONDS),
    ):
        for frame in (put_frame(), data(), put_frame()):
            await carrier.write([encoded(PUT_STREAM, frame)])
        while not any(isinstance(frame, Failure) for frame in decode_downstream(await carrier.read() or b"", PERMITS)):
            pass
        # It does not heed that, for which it has a second.
        with pytest.raises(ChannelAbortedError, match="the peer sent Put, expected Data"):
            await honest.end()
        with pytest.raises(ChannelAbortedError, match="the peer sent Put, expected Data"):
            await read_all(receiver)


async def test_an_end_that_waits_hears_that_the_consumer_was_killed(start: Start, listen: str) -> None:
    async with holding(start, listen) as (channel, sender, consumer):
        ending = asyncio.create_task(sender.end())
        await until(lambda: has_come_to_its_end(channel))
        assert not ending.done()
        consumer.signal(signal.SIGKILL)
        with pytest.raises(PeerGoneError, match=f"the consumer of channel '{CHANNEL}' at .* is gone"):
            await ending


# A channel breaks while its consumer is slow, and a message waits for that.


@asynccontextmanager
async def broken_behind_a_slow_consumer(listen: str) -> AsyncIterator[tuple[BridgeChannel, str, RemoteReceiver]]:
    async with serving(listen) as (channel, address), get(address, CHANNEL) as receiver:
        async with put(address, CHANNEL, SCHEMA) as sender:
            await sender.send(chunk(0, 60))
            await sender.send(chunk(60, 60))  # its first rows have left, and the others wait for permits
            await until(lambda: channel.receiver.statistics().inbox_rows == 60)
            sender.abort("tired")
        await until(lambda: channel.state is BridgeState.BROKEN)
        yield channel, address, receiver


async def test_a_slow_consumer_hears_at_once_that_the_channel_broke(listen: str) -> None:
    async with broken_behind_a_slow_consumer(listen) as (_, _, receiver):
        await until(lambda: receiver.ended_with is not None)
        with pytest.raises(ChannelAbortedError, match="gave up: tired"):
            await receiver.receive()


async def test_who_leaves_a_broken_channel_changes_nothing(listen: str) -> None:
    async with broken_behind_a_slow_consumer(listen) as (channel, address, receiver):
        receiver.close()
        await until(lambda: not channel.users)
        with pytest.raises(ChannelAbortedError, match="gave up: tired"):
            async with put(address, CHANNEL, SCHEMA):
                pass
        async with get(address, CHANNEL) as another:
            with pytest.raises(ChannelAbortedError, match="gave up: tired"):
                await another.receive()
