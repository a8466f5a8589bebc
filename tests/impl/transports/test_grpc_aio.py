"""The asyncio client against a real exchange: order, bounds, the end, cancellation, and what is refused."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelClosedError,
    ChannelSpentError,
    ChunkTooLargeError,
    EndOfStream,
    InvalidParametersError,
    LocalProtocolError,
    ParameterMismatchError,
    PeerGoneError,
    PeerTimeoutError,
    SchemaMismatchError,
    TransportError,
    UnknownChannelError,
    WouldBlock,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import BridgeState
from permitflow.protocol.frames import Address
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.transports import arrow
from permitflow.transports.grpc_aio import describe, get, put
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

pytestmark = pytest.mark.usefixtures("path")

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(numbers, pa.int64())})


def numbers(messages: list[Message[pa.RecordBatch]]) -> list[int]:
    return [n for m in messages if m.kind is Kind.CHUNK for n in m.payload.column(0).to_pylist()]


@asynccontextmanager
async def serving(
    parameters: ChannelParameters = SMALL, schema: pa.Schema | None = SCHEMA, names: tuple[str, ...] = ("orders/0",)
) -> AsyncIterator[tuple[Exchange, ExchangeServer]]:
    """An exchange with some channels, served."""
    exchange = Exchange(parameters=parameters)
    for name in names:
        exchange.add_channel(name, schema=schema)
    async with ExchangeServer(exchange) as server:
        yield exchange, server


async def everything(receiver: ReceiveEnd[pa.RecordBatch]) -> list[Message[pa.RecordBatch]]:
    return [message async for message in receiver]


async def send_for_ever(sender: RemoteSender) -> None:
    while True:
        await sender.send(batch(1, 2, 3))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something has happened that nobody announces."""
    while not condition():  # noqa: ASYNC110  # there is no event to wait for
        await asyncio.sleep(0.001)


async def read(address: str, name: str = "orders/0") -> list[Message[pa.RecordBatch]]:
    async with get(address, name) as receiver:
        return await everything(receiver)


def test_both_ends_keep_the_promises_of_every_channel() -> None:
    """Checked by the type checker, too: they are what the local ends are."""
    sender: type[SendEnd[pa.RecordBatch]] = RemoteSender
    receiver: type[ReceiveEnd[pa.RecordBatch]] = RemoteReceiver
    for end, interface in ((sender, SendEnd), (receiver, ReceiveEnd)):
        assert {name for name in vars(interface) if not name.startswith("_")} <= set(dir(end))


def test_messages_arrive_in_order_through_the_exchange(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(schema=None) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                for n in range(50):
                    await sender.send(batch(n, n))
                await sender.send_barrier("epoch 1")
                await sender.send(batch())
                sender.send_watermark(49)
                await sender.end()
        return reading.result()

    messages = complete(test())
    assert numbers(messages) == [n for n in range(50) for _ in range(2)]
    assert [(m.kind, m.payload) for m in messages[50:] if m.kind is not Kind.CHUNK] == [
        (Kind.BARRIER, "epoch 1"),
        (Kind.WATERMARK, 49),
    ]


def test_a_large_chunk_arrives_in_slices_that_fit_the_agreement(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(ChannelParameters(row_permits=100)) as (_, server), asyncio.TaskGroup() as group:

            async def read_few() -> list[Message[pa.RecordBatch]]:
                async with get(server.address, "orders/0", wanted=SMALL) as receiver:
                    assert receiver.parameters == SMALL
                    return await everything(receiver)

            reading = group.create_task(read_few())
            async with put(server.address, "orders/0", SCHEMA) as sender:
                await sender.send(batch(*range(1000)))
                await sender.end()
                assert sender.statistics().peak_permits_outstanding <= 100
        return reading.result()

    messages = complete(test())
    assert numbers(messages) == list(range(1000))
    assert max(m.rows for m in messages) <= SMALL.max_chunk_cost


def test_a_whole_chunk_passes_where_that_was_agreed(complete: Complete) -> None:
    whole = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4, oversize=Oversize.WHOLE)

    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(whole) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA, wanted=whole) as sender:
                await sender.send(batch(*range(1000)))
                await sender.end()
        return reading.result()

    assert [(m.rows, m.cost) for m in complete(test())] == [(1000, 4)]


def test_a_slow_consumer_stops_the_producer_at_the_bound(complete: Complete) -> None:
    """Nothing is consumed: both windows fill, and not a row more leaves the producer."""

    async def test() -> None:
        async with (
            serving() as (exchange, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            sent: list[int] = []

            async def send_all() -> None:
                while True:
                    await sender.send(batch(len(sent), len(sent)))
                    sent.append(len(sent))

            sending = asyncio.create_task(send_all())
            # The consumer's window, the channel's and the producer's; then it waits, for as long as anybody looks.
            await until(lambda: len(sent) >= 3 * 8 // 2)
            await until(lambda: sender.statistics().back_pressure_rate > 0.5)
            sending.cancel()
            await asyncio.wait({sending})
            # One chunk may wait between each two windows.
            assert len(sent) <= 3 * 8 // 2 + 2
            with pytest.raises(WouldBlock):
                sender.send_nowait(batch(1))
            assert sender.statistics().peak_permits_outstanding == 8
            (channel,) = exchange.statistics()
            assert channel.numbers.peak_permits_outstanding == 8
            assert all(stream.numbers.peak_permits_outstanding <= 8 for stream in channel.streams)
            async with asyncio.TaskGroup() as group:
                ending = group.create_task(sender.end())
                received = await everything(receiver)
            assert ending.done()
            assert numbers(received) == [n for n in sent for _ in range(2)]

    complete(test())


def test_a_chunk_that_was_taken_keeps_its_permits(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            sender = exchange.channel("orders/0").sender
            await sender.send(batch(1, 2, 3, 4))
            await sender.send(batch(5, 6, 7, 8))
            await sender.send(batch(9, 10, 11))
            await sender.end()
            first, second = await receiver.take(), await receiver.take()
            assert numbers([first, second]) == list(range(1, 9))
            with pytest.raises(WouldBlock):
                receiver.take_nowait()
            with pytest.raises(LocalProtocolError, match="consume them first"):
                await receiver.receive()
            receiver.consume()
            assert numbers([await receiver.take()]) == [9, 10, 11]
            receiver.consume()
            receiver.consume()
            with pytest.raises(EndOfStream):
                await receiver.take()

    complete(test())


def test_an_idle_consumer_has_returned_all_permits(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            channel = exchange.channel("orders/0")
            await channel.sender.send(batch(1, 2))
            await receiver.receive()
            # Two rows are below the batch: only an idle flush returns them.

            def permits_here() -> int:
                (stream,) = exchange.statistics()[0].streams
                return stream.numbers.row_permits_here

            await until(lambda: permits_here() == 8)
            await channel.sender.end()
            assert await everything(receiver) == []

    complete(test())


def test_a_consumer_that_never_waits_returns_permits_all_the_same(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            sender = exchange.channel("orders/0").sender
            for n in range(8):
                await sender.send(batch(n))
            await until(lambda: receiver.statistics().inbox_rows == 8)
            for _ in range(6):
                await receiver.receive()
            # The batch of four is on its way though two more messages were here all the time.
            assert not receiver._session.owes
            await sender.end()
            assert numbers(await everything(receiver)) == [6, 7]

    complete(test())


def test_a_cancelled_send_has_sent_nothing(complete: Complete) -> None:
    async def test() -> list[int]:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            sent: list[int] = []
            n = 0
            for _ in range(40):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.002):
                        n += 1
                        await sender.send(batch(n, n, n))
                        sent.append(n)
                if n % 4 == 0:
                    with contextlib.suppress(WouldBlock):
                        receiver.receive_nowait()
                        sent.remove(min(sent))
            async with asyncio.TaskGroup() as group:
                group.create_task(sender.end())
                received = await everything(receiver)
            assert numbers(received) == [m for m in sent for _ in range(3)]
            return sent

    assert complete(test())


def test_a_cancelled_receive_has_received_nothing(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            sender = exchange.channel("orders/0").sender
            received: list[Message[pa.RecordBatch]] = []
            for n in range(100):
                sender.send_nowait(batch(n))
                while True:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.0005):
                            received.append(await receiver.receive())
                            break
            await sender.end()
            assert numbers(received) == list(range(100))
            assert await everything(receiver) == []

    complete(test())


def test_tasks_that_wait_are_served_in_turn(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(receiver.receive()) for _ in range(3)]
                await asyncio.sleep(0)
                with pytest.raises(WouldBlock):
                    receiver.receive_nowait()
                for n in range(3):
                    await exchange.channel("orders/0").sender.send(batch(n))
            assert numbers([task.result() for task in tasks]) == [0, 1, 2]
            await exchange.channel("orders/0").sender.end()
            with pytest.raises(EndOfStream):
                await receiver.receive_many(3)

    complete(test())


def test_many_messages_are_received_at_once(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            sender = exchange.channel("orders/0").sender
            for n in range(4):
                await sender.send(batch(n))
            received: list[Message[pa.RecordBatch]] = []
            while len(received) < 4:
                received += await receiver.receive_many(3)
            assert numbers(received) == [0, 1, 2, 3]
            with pytest.raises(InvalidParametersError, match="max_messages"):
                await receiver.receive_many(0)
            await sender.end()
            assert await everything(receiver) == []

    complete(test())


def test_barriers_have_permits_of_their_own(complete: Complete) -> None:
    async def test() -> None:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            async with asyncio.TaskGroup() as group:
                for n in range(8):
                    await sender.send(batch(n, n, n, n)) if n < 2 else None
                group.create_task(sender.send_barrier("a"))
                group.create_task(sender.send_barrier("b"))
                group.create_task(sender.send_barrier("c"))
                group.create_task(sender.send_barrier("d"))
                kinds = [(await receiver.receive()).kind for _ in range(6)]
            assert kinds == [Kind.CHUNK] * 2 + [Kind.BARRIER] * 4
            await sender.end()
            assert await everything(receiver) == []

    complete(test())


def test_watermarks_are_conflated_and_never_wait(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            for n in range(10_000):
                sender.send_watermark(n)
            async with asyncio.TaskGroup() as group:
                group.create_task(sender.end())
                return await everything(receiver)

    messages = complete(test())
    assert [m.kind for m in messages] == [Kind.WATERMARK] * len(messages)
    assert messages[-1].payload == 9_999
    assert len(messages) <= 4


def test_the_end_of_a_stream_loses_nothing_and_raises_nothing(complete: Complete) -> None:
    """Permits are on their way back while the sender ends: a hundred times, with every way to be late."""

    async def test() -> None:
        names = tuple(f"orders/{n}" for n in range(100))
        async with serving(ChannelParameters(row_permits=64), names=names) as (exchange, server):
            for turn, name in enumerate(names):
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(read(server.address, name))
                    async with put(server.address, name, SCHEMA) as sender:
                        for n in range(turn % 7 * 10):
                            await sender.send(batch(n))
                        await sender.end()
                assert numbers(reading.result()) == list(range(turn % 7 * 10))
            assert {channel.state for channel in exchange.statistics()} == {BridgeState.SPENT}
            streams = [stream for channel in exchange.statistics() for stream in channel.streams]
            assert {stream.state for stream in streams} == {"closed"}
            assert len(streams) == 200

    complete(test())


def test_a_channel_takes_many_producers_until_one_closes_it(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving() as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))

            async def produce(first: int, *, closes_channel: bool = False) -> None:
                async with put(server.address, "orders/0", SCHEMA) as sender:
                    for n in range(first, first + 20):
                        await sender.send(batch(n))
                    await sender.end(closes_channel=closes_channel)

            async with asyncio.TaskGroup() as producers:
                for first in (0, 100, 200):
                    producers.create_task(produce(first))
            assert not reading.done()
            await produce(300, closes_channel=True)
        return reading.result()

    received = numbers(complete(test()))
    assert sorted(received) == [n for first in (0, 100, 200, 300) for n in range(first, first + 20)]
    for first in (0, 100, 200, 300):
        own = [n for n in received if first <= n < first + 20]
        assert own == sorted(own)


def test_end_may_be_said_twice_but_nothing_after_it(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (_, server), asyncio.TaskGroup() as group:
            group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                await sender.end()
                await sender.end()
                with pytest.raises(ChannelClosedError) as caught:
                    await sender.send(batch(1))
                assert caught.value.undelivered == batch(1)

    complete(test())


@pytest.mark.parametrize("ids", [Address("", 1, 2, 3, 4), Address("orders/0", 1, 2, 3, 4)])
def test_a_channel_is_found_by_its_name_or_its_four_ids(complete: Complete, ids: Address) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(names=(ids.name,)) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address, ids.name))
            async with put(server.address, ids, SCHEMA) as sender:
                await sender.send(batch(1))
                await sender.end()
        return reading.result()

    assert numbers(complete(test())) == [1]


def test_dictionaries_arrive_as_they_were_sent(complete: Complete) -> None:
    chunks = [pa.record_batch({"d": pa.array(texts).dictionary_encode()}) for texts in (["a", "b"], ["c"], ["a", "a"])]

    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(schema=None) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", chunks[0].schema) as sender:
                for chunk in chunks:
                    await sender.send(chunk)
                await sender.end()
        return reading.result()

    assert [m.payload.to_pydict() for m in complete(test())] == [chunk.to_pydict() for chunk in chunks]


def test_a_chunk_of_many_megabytes_arrives(complete: Complete) -> None:
    """Above gRPC's default limit of 4 MiB for a message."""
    text = pa.record_batch({"t": ["x" * 1024] * 20_000})

    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving(ChannelParameters(), schema=None) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", text.schema) as sender:
                await sender.send(text)
                await sender.end()
        return reading.result()

    (message,) = complete(test())
    assert message.payload.equals(text)


def test_a_chunk_that_no_message_can_carry_is_refused_and_the_stream_goes_on(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 1_000)

    async def test() -> list[Message[pa.RecordBatch]]:
        parameters = ChannelParameters(row_permits=10_000)
        async with serving(parameters) as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                with pytest.raises(ChunkTooLargeError, match="send chunks of fewer rows"):
                    await sender.send(batch(*range(5_000)))
                await sender.send(batch(1))
                await sender.end()
        return reading.result()

    assert numbers(complete(test())) == [1]


def test_what_does_not_fit_the_stream_is_refused_and_the_stream_goes_on(complete: Complete) -> None:
    async def test() -> list[Message[pa.RecordBatch]]:
        async with serving() as (_, server), asyncio.TaskGroup() as group:
            reading = group.create_task(read(server.address))
            async with put(server.address, "orders/0", SCHEMA) as sender:
                with pytest.raises(SchemaMismatchError):
                    await sender.send(pa.record_batch({"n": ["text"]}))
                with pytest.raises(TypeError):
                    await sender.send([1, 2])
                with pytest.raises(InvalidParametersError, match="rows must be the batch's own 1"):
                    await sender.send(batch(1), rows=7)
                with pytest.raises(InvalidParametersError, match="barrier"):
                    await sender.send_barrier(object())
                with pytest.raises(InvalidParametersError, match="watermark"):
                    sender.send_watermark(2**63)
                await sender.send(batch(1))
                await sender.end()
        return reading.result()

    assert numbers(complete(test())) == [1]


def test_describe_tells_schema_and_parameters_and_takes_nothing(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            await exchange.channel("orders/0").sender.send(batch(1))
            for _ in range(3):
                description = await describe(server.address, "orders/0")
                assert description.schema == SCHEMA
                assert description.parameters == SMALL
            await exchange.channel("orders/0").sender.end()
            assert numbers(await read(server.address)) == [1]

    complete(test())


# How a stream can end badly.


async def fail_after_a_chunk(address: str) -> None:
    async with put(address, "orders/0", SCHEMA) as sender:
        await sender.send(batch(1))
        raise ZeroDivisionError


def test_a_block_that_fails_aborts_the_channel_and_says_why(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (_, server), get(server.address, "orders/0") as receiver:
            with pytest.raises(ZeroDivisionError):
                await fail_after_a_chunk(server.address)
            with pytest.raises(ChannelAbortedError, match="gave up: ZeroDivisionError"):
                await everything(receiver)

    complete(test())


def test_an_abort_is_heeded_while_the_channel_is_full(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            async with put(server.address, "orders/0", SCHEMA) as sender:
                sending = asyncio.create_task(_refused(send_for_ever(sender)))
                # The channel takes two chunks of three rows, its stream two more.
                await until(lambda: sender.statistics().sent_rows == 12 and sender.statistics().waiting_sends == 1)
                sender.abort("tired")
                assert isinstance(await sending, ChannelClosedError)
            await until(lambda: exchange.channel("orders/0").state is BridgeState.BROKEN)
            with pytest.raises(ChannelAbortedError, match="gave up: tired"):
                await read(server.address)

    complete(test())


def test_a_block_that_forgets_the_end_aborts_the_channel(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            async with put(server.address, "orders/0", SCHEMA) as sender:
                await sender.send(batch(1))
            with pytest.raises(ChannelAbortedError, match="left without ending it"):
                await everything(receiver)
            assert exchange.channel("orders/0").state is BridgeState.BROKEN
            with pytest.raises(ChannelAbortedError, match="left without ending it"):
                async with put(server.address, "orders/0", SCHEMA):
                    pass
            # Whoever comes later is told as well.
            with pytest.raises(ChannelAbortedError):
                await read(server.address)

    complete(test())


def test_sends_that_wait_fail_when_their_end_is_aborted_or_closed(complete: Complete) -> None:
    async def test(how: str) -> None:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0"),
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            with contextlib.suppress(WouldBlock):
                while True:
                    sender.send_nowait(batch(1, 1))
            async with asyncio.TaskGroup() as group:
                refused = group.create_task(_refused(sender.send(batch(*range(6)))))
                barriers = [group.create_task(_refused(sender.send_barrier(n))) for n in range(30)]
                await asyncio.sleep(0)
                sender.abort("tired") if how == "abort" else sender.close()
            error = refused.result()
            assert isinstance(error, ChannelClosedError)
            assert isinstance(barriers[-1].result(), ChannelClosedError)
            assert error.undelivered.column(0).to_pylist()[-1] == 5  # type: ignore[attr-defined]  # a batch
            with pytest.raises(ChannelClosedError):
                await sender.end()

    for how in ("abort", "close"):
        complete(test(how))


async def _refused(sending: Coroutine[Any, Any, Any]) -> BaseException | None:
    try:
        await sending
    except (ChannelClosedError, PeerGoneError) as error:
        return error
    return None


def test_a_closed_receiver_says_so(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server), get(server.address, "orders/0") as receiver:
            await exchange.channel("orders/0").sender.send(batch(1))
            await receiver.take()
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(_refused(receiver.take()))
                await asyncio.sleep(0)
                receiver.close()
                receiver.close()
            assert isinstance(waiting.result(), ChannelClosedError)
            for call in (receiver.receive_nowait, receiver.take_nowait, receiver.consume):
                with pytest.raises(ChannelClosedError, match="the receiver is closed"):
                    call()

    complete(test())


def test_a_consumer_that_leaves_halfway_is_named_to_the_producer(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            async with put(server.address, "orders/0", SCHEMA) as sender:
                async with get(server.address, "orders/0") as receiver:
                    await sender.send(batch(1, 2, 3))
                    await receiver.receive()
                with pytest.raises(PeerGoneError, match=r"the consumer of channel 'orders/0' at \S+ is gone") as caught:
                    await send_for_ever(sender)
                assert caught.value.undelivered is not None
                with pytest.raises(PeerGoneError):
                    await sender.end()
            assert exchange.channel("orders/0").state is BridgeState.BROKEN
            with pytest.raises(ChannelSpentError, match="left halfway"):
                await read(server.address)
            with pytest.raises(PeerGoneError):
                async with put(server.address, "orders/0", SCHEMA):
                    pass

    complete(test())


def test_a_consumer_that_leaves_before_its_first_message_may_be_replaced(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            async with get(server.address, "orders/0"):
                with pytest.raises(ChannelBusyError, match="is being read by"):
                    await read(server.address)
            await until(lambda: exchange.channel("orders/0")._consumer is None)
            await exchange.channel("orders/0").sender.send(batch(1))
            await exchange.channel("orders/0").sender.end()
            assert numbers(await read(server.address)) == [1]
            with pytest.raises(ChannelSpentError, match="it was read to its end by"):
                await read(server.address)

    complete(test())


def test_an_exchange_that_stops_says_so_to_both_sides(complete: Complete) -> None:
    async def test() -> None:
        async with (
            serving() as (_, server),
            get(server.address, "orders/0") as receiver,
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            await sender.send(batch(1))
            await receiver.receive()
            async with asyncio.TaskGroup() as group:
                stopping = group.create_task(server.stop())
                with pytest.raises(PeerGoneError, match=r"the exchange .*is gone: it is being stopped"):
                    await receiver.receive()
                with pytest.raises(PeerGoneError, match=r"the exchange .*is gone"):
                    await sender.end()
            assert stopping.done()

    complete(test())


def test_a_stop_with_grace_lets_streams_end(complete: Complete) -> None:
    async def test() -> None:
        async with (
            serving() as (exchange, server),
            get(server.address, "orders/0") as receiver,
            asyncio.TaskGroup() as group,
        ):
            stopping = group.create_task(server.stop(30.0))
            sender = exchange.channel("orders/0").sender
            for n in range(20):
                await sender.send(batch(n))
                await receiver.receive()
            assert not stopping.done()
            await sender.end()
            assert await everything(receiver) == []

    complete(test())


def test_nobody_at_the_address_is_said_within_the_time(complete: Complete) -> None:
    async def test() -> None:
        for call in (
            get("127.0.0.1:1", "q", connect_timeout_seconds=0.2),
            put("127.0.0.1:1", "q", SCHEMA, connect_timeout_seconds=0.2),
        ):
            with pytest.raises(PeerTimeoutError, match=r"127\.0\.0\.1:1 .*'q'.*no connection within 0\.2 s"):
                async with call:
                    pass

    complete(test())


def test_a_schema_that_nobody_brings_is_missed_within_the_time(complete: Complete) -> None:
    async def test() -> None:
        async with serving(schema=None) as (exchange, server):
            assert exchange.channel("orders/0").state is BridgeState.WAITING
            for call in (
                get(server.address, "orders/0", agreement_timeout_seconds=0.3),
                get(server.address, "orders/0", agreement_timeout_seconds=0.3),
            ):
                with pytest.raises(PeerTimeoutError, match="has a producer announced the channel's schema"):
                    async with call:
                        pass
                await until(lambda: exchange.channel("orders/0")._consumer is None)

    complete(test())


def test_what_the_exchange_refuses_arrives_as_the_same_error(complete: Complete) -> None:
    async def test() -> None:
        async with serving(names=("orders/0", "orders/1")) as (_, server):
            with pytest.raises(UnknownChannelError, match=r"'lines/0'; known channels: orders/0, orders/1") as caught:
                await read(server.address, "lines/0")
            assert caught.value.known == ("orders/0", "orders/1")
            with pytest.raises(UnknownChannelError):
                await describe(server.address, "lines/0")
            with pytest.raises(SchemaMismatchError, match="m: string"):
                async with put(server.address, "orders/0", pa.schema([("m", pa.string())])):
                    pass
            with pytest.raises(SchemaMismatchError):
                async with get(server.address, "orders/0", schema=pa.schema([("m", pa.string())])):
                    pass
            whole = ChannelParameters(oversize=Oversize.WHOLE)
            with pytest.raises(ParameterMismatchError, match="oversize"):
                async with put(server.address, "orders/0", SCHEMA, wanted=whole):
                    pass
            with pytest.raises(InvalidParametersError, match="channel must not be empty"):
                await read(server.address, "")

    complete(test())


def test_a_producer_that_was_refused_does_not_decide_on_the_schema(complete: Complete) -> None:
    async def test() -> None:
        async with serving(schema=None) as (exchange, server):
            with pytest.raises(ParameterMismatchError):
                async with put(
                    server.address,
                    "orders/0",
                    pa.schema([("m", pa.string())]),
                    wanted=ChannelParameters(oversize=Oversize.WHOLE),
                ):
                    pass
            assert exchange.channel("orders/0").state is BridgeState.WAITING

    complete(test())


def test_an_address_that_is_taken_is_refused(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            with pytest.raises(TransportError, match=f"cannot listen at {server.address}"):
                async with ExchangeServer(exchange, server.address):
                    pass

    complete(test())


def test_the_reason_is_heard_however_much_is_on_its_way(complete: Complete) -> None:
    """A status that crosses a write is lost in grpc.aio: the exchange says in band why it breaks a stream off."""

    async def lose_consumer(turn: int) -> None:
        async with (
            serving(ChannelParameters(row_permits=64)) as (_, server),
            put(server.address, "orders/0", SCHEMA) as sender,
        ):
            async with get(server.address, "orders/0") as receiver:
                await sender.send(batch(*range(turn)))
                await receiver.receive()
            with pytest.raises(PeerGoneError, match="the consumer of channel 'orders/0'") as caught:
                await send_for_ever(sender)
            assert any("reported by the exchange at" in note for note in caught.value.__notes__)

    async def test() -> None:
        for turn in range(30):
            await lose_consumer(turn)

    complete(test())
