"""The channels of an exchange: their names, what is told about them, and what becomes of those that are removed.

Orders about many channels are written at once; where the store fails, each channel is done as a whole, or not.
"""

import asyncio
import gc
import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest

from permitflow.client import StagedPart, Staging, control, get, put
from permitflow.errors import (
    ChannelAbortedError,
    ChannelRemovedError,
    InvalidParametersError,
    StagedPartError,
    StoreWriteError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, Retention, SqliteStore, Store, stream_channels
from permitflow.exchange.serving import carry_out
from permitflow.stream.control import Acknowledge, ChannelRow
from tests.support.kept_rows import refused
from tests.support.number_streams import SMALL
from tests.support.served import served
from tests.support.turns import turns, until

BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


async def pass_one_chunk(address: str, name: str) -> None:
    async with asyncio.TaskGroup() as group:

        async def read() -> None:
            async with get(address, name) as receiver:
                assert [message.rows async for message in receiver] == [3]

        group.create_task(read())
        async with put(address, name, BATCH.schema) as sender:
            await sender.send(BATCH)
            await sender.end()


async def test_a_name_is_given_once() -> None:
    exchange = Exchange()
    exchange.add_channel("orders/0")
    with pytest.raises(InvalidParametersError, match=r"channel .*not in use, not 'orders/0'"):
        exchange.add_channel("orders/0")
    with pytest.raises(InvalidParametersError, match="channel must not be empty"):
        exchange.add_channel("")
    with pytest.raises(InvalidParametersError, match="channel must be text that UTF-8 can hold"):
        exchange.add_channel("\udcff")
    with pytest.raises(InvalidParametersError, match="consumers must be text that UTF-8 can hold"):
        exchange.add_channel("orders/1", retention=Retention.REPLAY, consumers=["one", "\udcff"])
    with pytest.raises(UnknownChannelError, match="known channels: orders/0"):
        exchange.channel("orders/1")


async def test_removing_a_channel_breaks_off_its_streams_and_frees_its_name() -> None:
    async with served("orders/0", parameters=SMALL, schema=BATCH.schema) as (exchange, address):
        async with get(address, "orders/0") as receiver, put(address, "orders/0", BATCH.schema) as sender:
            await sender.send(BATCH)
            await receiver.receive()
            await exchange.remove_channel("orders/0")
            with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
                await receiver.receive()
            with pytest.raises(ChannelAbortedError, match="it was removed from the exchange"):
                await sender.end()
        exchange.add_channel("orders/0")
        await pass_one_chunk(address, "orders/0")
    with pytest.raises(UnknownChannelError):
        await exchange.remove_channel("orders/1")


SYLLABLE = "behind/"


def is_held(text: str) -> bool:
    """Does anything refer to a text, or to one with it inside?"""
    gc.collect()
    holders = gc.get_objects()
    while holders:
        holder = holders.pop()
        # The collector tells of no dictionary's keys if all are text.
        keys = [*dict.keys(holder)] if isinstance(holder, dict) else []
        for held in (*gc.get_referents(holder), *keys):
            if isinstance(held, str) and text in held:
                return True
            if isinstance(held, dict | tuple) and not gc.is_tracked(held):
                holders.append(held)
    return False


@pytest.mark.parametrize("retention", Retention)
async def test_a_removed_channel_leaves_nothing_behind(store: Store, retention: Retention) -> None:
    async with served(store=store) as (exchange, address):

        async def live(name: str) -> None:
            exchange.add_channel(name, SMALL, BATCH.schema, retention=retention)
            assert is_held(name)
            await pass_one_chunk(address, name)
            await exchange.remove_channel(name)

        await live(SYLLABLE * 20)
        await live("next")  # what the last transaction of a store was about is known until another one
        await until(lambda: not is_held(SYLLABLE * 20))


async def test_a_reader_that_waits_for_a_schema_hears_of_the_removal() -> None:
    async def read(address: str) -> None:
        async with get(address, "orders/0"):
            pass

    async with served("orders/0") as (exchange, address), asyncio.TaskGroup() as group:
        reading = group.create_task(refused(read(address), ChannelRemovedError))
        await until(lambda: exchange.channel("orders/0").books.consumer is not None)
        await exchange.remove_channel("orders/0")
    assert reading.result().channel == "orders/0"


CHUNK = pa.record_batch({"n": pa.array(range(8), pa.int64())})


async def staged(exchange: Exchange, channel: str, partition: int) -> StagedPart:
    """One chunk of batch 0 of the query ``q``."""
    await exchange.replay_channel(channel).declare(CHUNK.schema)
    part = exchange.staging.open(channel, Staging("q", 0, partition, "a"))
    await exchange.staging.stage(part, [CHUNK])
    exchange.staging.end(part)
    return StagedPart(channel, partition, "a", CHUNK.num_rows)


async def test_a_channel_is_removed_once_what_is_being_published_is_there(store: Store) -> None:
    exchange = Exchange(store=store)
    exchange.add_channels(["kept", "removed"], retention=Retention.REPLAY)
    parts = [await staged(exchange, name, number) for number, name in enumerate(("removed", "kept"))]
    may_go_on = threading.Event()
    if isinstance(store, SqliteStore):
        store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
    publishing = asyncio.create_task(exchange.staging.publish("q", 0, parts))
    await turns()
    removing = asyncio.create_task(exchange.remove_channel("removed"))
    await turns()
    may_go_on.set()
    assert not await publishing, "it was not published before"
    await removing
    assert store.published_batches() == exchange.staging.books.published_batches == {"q": 0}
    assert await exchange.staging.publish("q", 0, parts[1:]), "it was published, as its driver was told"
    kept = exchange.replay_channel("kept")
    await kept.end()
    assert [row async for batch in kept.read() for row in batch.column(0).to_pylist()] == CHUNK["n"].to_pylist()
    exchange.staging.stop()


async def test_an_attempt_hears_of_the_removed_channel_when_it_goes_on(store: Store) -> None:
    exchange = Exchange(store=store)
    exchange.add_channels(["removed"], retention=Retention.REPLAY)
    await exchange.replay_channel("removed").declare(CHUNK.schema)
    part = exchange.staging.open("removed", Staging("q", 0, 0, "a"))
    staging = asyncio.create_task(exchange.staging.stage(part, [CHUNK]))
    await asyncio.sleep(0)  # it has room, and is about to be written
    await exchange.remove_channel("removed")
    assert await staging == 1
    with pytest.raises(StagedPartError, match="removed"):
        await exchange.staging.stage(part, [CHUNK])


NAMES = tuple(f"orders/{number}" for number in range(1_000))


async def filled(names: Sequence[str] = NAMES) -> Exchange:
    exchange = Exchange()
    for channel in exchange.add_channels(names, retention=Retention.REPLAY):
        await exchange.replay_channel(channel.name).append(CHUNK)
    return exchange


async def test_a_failed_store_lets_the_order_be_repeated_per_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise StoreWriteError(path="here", reason="database or disk is full")

    exchange = await filled(names := NAMES[:50])
    order = Acknowledge(tuple(ChannelRow(name, 5) for name in names))
    channels = [exchange.replay_channel(name) for name in names]
    with monkeypatch.context() as patch:
        patch.setattr(channels[3].store, "acknowledge", fail)
        with pytest.raises(StoreWriteError, match="disk is full"):
            await carry_out(exchange, order)
    stand = [channel.position().acknowledged_row for channel in channels]
    assert stand == [0 if number == 3 else 5 for number in range(len(names))]
    await carry_out(exchange, order)
    assert [channel.position().acknowledged_row for channel in channels] == [5] * len(names)


FOUR_ROWS = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})


@pytest.mark.usefixtures("path")
async def test_both_kinds_of_channels_tell_what_has_flowed() -> None:
    opened = served("once", parameters=SMALL, schema=FOUR_ROWS.schema)
    async with opened as (exchange, address), control(address) as asking:
        consumers = ("etl", "audit")
        log = exchange.add_channel("kept", schema=FOUR_ROWS.schema, retention=Retention.REPLAY, consumers=consumers)
        await log.append(FOUR_ROWS)
        await log.acknowledge(3, "etl")
        await exchange.channel("once").sender.send(FOUR_ROWS)
        async with get(address, "once") as consumer:
            await consumer.take()
            once, kept = (await asking.statistics()).channels

    assert (once.channel, once.state, once.producers, once.consumers) == ("once", "open", 0, 1)
    assert (once.rows_in, once.rows_out, once.rows_with_consumers, once.kept) == (4, 4, 4, None)
    assert (kept.rows_in, kept.rows_out, kept.rows_held, kept.room_rows) == (4, 0, 4, 4)
    assert kept.kept is not None
    assert kept.kept.lag_rows == {"etl": 1, "audit": 4}


def test_the_channels_of_a_stream_are_numbered() -> None:
    assert stream_channels("q12", 3) == ("q12/0", "q12/1", "q12/2")
    with pytest.raises(InvalidParametersError):
        stream_channels("q12", 0)
