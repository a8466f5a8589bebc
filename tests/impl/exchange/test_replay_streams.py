"""Channels that keep their rows, read over every path: ranges, several readers, and what cannot be read."""

import asyncio
from typing import Any

import pytest

from permitflow.errors import (
    ChannelAbortedError,
    InvalidParametersError,
    LogReplacedError,
    RetentionError,
    RowsForgottenError,
    RowsNotThereError,
    UnknownConsumerError,
)
from permitflow.protocol.control import ChannelState
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.grpc_aio import describe, get, put
from tests.support.kept_rows import CHANNEL, LARGE, SCHEMA, SMALL, fill, read, refused, rows, serving
from tests.support.number_streams import until

pytestmark = pytest.mark.usefixtures("path")


async def test_ranges_are_read_again_and_again_by_several_readers_at_a_time() -> None:
    async with serving() as (_, address):
        await fill(address, 0, 8)
        ranges = [(0, 8), (3, 5), (0, 8), (7, 8), (4, 4)]
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(read(address, *one)) for one in ranges]
        assert [task.result() for task in reading] == [list(range(*one)) for one in ranges]


async def test_the_agreement_says_which_row_comes_first() -> None:
    async with serving("etl", "audit") as (channel, address):
        await fill(address, 0, 6)
        await channel.acknowledge(4, "audit")
        for consumer, from_row, first_row in (("etl", None, 0), ("audit", None, 4), ("etl", 3, 3), ("audit", 6, 6)):
            async with get(address, CHANNEL, consumer=consumer, from_row=from_row) as receiver:
                assert receiver.first_row == first_row
        async with get(address, CHANNEL, consumer="etl") as receiver:
            assert receiver.stream.startswith("orders/0#get")


async def test_a_reader_that_leaves_halfway_harms_nobody() -> None:
    async with serving() as (channel, address):
        await fill(address, 0, 8)
        async with get(address, CHANNEL) as receiver:
            await receiver.receive()
        assert channel.log.state is ChannelState.OPEN
        assert await read(address, 0, 8) == list(range(8))


async def test_who_follows_waits_for_the_first_producer_and_reads_to_the_end() -> None:
    async with serving() as (channel, address), asyncio.TaskGroup() as group:
        group.create_task(fill(address, 0, 50, closes=True))
        async with get(address, CHANNEL) as receiver:
            found: list[int] = []
            async for message in receiver:
                found += message.payload.column(0).to_pylist()
                await channel.acknowledge(len(found))
        assert found == list(range(50))


async def test_a_slow_reader_holds_its_own_window_and_nobody_else() -> None:
    async with serving(schema=SCHEMA, parameters=LARGE) as (channel, address):
        wanted = ChannelParameters(row_permits=4, permit_batch=2)
        async with get(address, CHANNEL, wanted=wanted) as slow, asyncio.TaskGroup() as group:
            group.create_task(fill(address, 0, 64))
            await until(lambda: channel.position().next_row == 64)
            assert await read(address, 0, 64) == list(range(64))
            (stream,) = [one for one in channel.statistics().streams if one.stream == slow.stream]
            assert stream.numbers.sent_rows <= 4
            assert slow.statistics().peak_inbox_rows <= 4


async def test_what_cannot_be_read_is_refused_with_the_reason() -> None:
    async with serving("etl", parameters=SMALL) as (channel, address):
        await fill(address, 0, 6)
        await channel.acknowledge(2, "etl")
        for kind, deed in (
            (UnknownConsumerError, read(address)),
            (RowsForgottenError, read(address, 1, 4, consumer="etl")),
            (RowsNotThereError, read(address, 2, 7, consumer="etl")),
            (RowsNotThereError, read(address, 7, consumer="etl")),
            (InvalidParametersError, read(address, 4, 3, consumer="etl")),
            (InvalidParametersError, read(address, -4, 3, consumer="etl")),
            (LogReplacedError, read(address, 3, 4, consumer="etl", log_id="another")),
        ):
            assert type(await refused(deed)) is kind
        forgotten = await refused(read(address, 1, 4, consumer="etl"))
        assert forgotten.facts == {"channel": CHANNEL, "wanted_row": 1, "first_kept_row": 2}
        log_id = channel.position("etl").log_id
        assert await read(address, 3, 4, consumer="etl", log_id=log_id) == [3]


async def test_a_channel_that_is_read_once_has_no_ranges_consumers_or_producers() -> None:
    async def enter(dialling: Any) -> None:
        async with dialling:
            pass

    async with serving() as (_, address), put(address, "once", SCHEMA) as sender:
        for named in ({"from_row": 0}, {"to_row": 5}, {"consumer": "etl"}, {"log_id": "x"}):
            error = await refused(enter(get(address, "once", **named)))
            assert isinstance(error, RetentionError)
        assert isinstance(await refused(enter(put(address, "once", SCHEMA, producer="p"))), RetentionError)
        async with get(address, "once", consumer="default") as receiver:
            await sender.send(rows(0, 1))
            assert (await receiver.receive()).rows == 1
            sender.abort("enough")
            with pytest.raises(ChannelAbortedError):
                await receiver.receive()


async def test_asking_for_the_schema_takes_no_row() -> None:
    async with serving("etl") as (_, address):
        await fill(address, 0, 3)
        assert await describe(address, CHANNEL) == (SCHEMA, SMALL)


async def test_rows_that_are_acknowledged_before_they_were_read_break_the_reader_off() -> None:
    async def take_all(receiver: Any) -> None:
        while True:
            receiver.consume()
            await receiver.take()

    async with serving() as (channel, address):
        await fill(address, 0, 8)
        async with get(address, CHANNEL, wanted=ChannelParameters(row_permits=2, permit_batch=1)) as receiver:
            await receiver.take()
            await channel.acknowledge(8)
            with pytest.raises(RowsForgottenError, match="the first row that can still be read is 8"):
                await take_all(receiver)
