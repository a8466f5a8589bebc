"""A channel that keeps its rows, inside a process: what it takes over, what is read and acknowledged, and its end.

Chunks are kept in order, when there is room, all or none.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    InvalidParametersError,
    LogReplacedError,
    RetentionError,
    RowsForgottenError,
    RowsNotThereError,
    SchemaMismatchError,
    StoreWriteError,
    UnknownConsumerError,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.statistics import BridgeState
from permitflow.exchange.stores.store import ChannelStore, Store
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Get
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost
from tests.support.kept_rows import SCHEMA, keeping, numbers, rows
from tests.support.number_streams import SMALL, turns

LONGEST_SECONDS = 20.0


async def test_a_range_can_be_read_again_and_again_and_is_cut_to_the_row() -> None:
    channel = keeping()
    for start in (0, 3, 6):
        await channel.append(rows(start, start + 3 if start < 6 else 8))
    for start in range(9):
        for stop in range(start, 9):
            assert await numbers(channel.read(from_row=start, to_row=stop)) == list(range(start, stop))


async def test_who_follows_reads_what_comes_until_the_end() -> None:
    channel = keeping()
    async with asyncio.TaskGroup() as group:
        following = group.create_task(numbers(channel.read()))
        for start in range(0, 8, 2):
            await channel.append(rows(start, start + 2))
            await turns()
        assert not following.done()
        await channel.end()
    assert following.result() == list(range(8))
    assert await numbers(channel.read()) == list(range(8)), "the end is no end of reading"


async def test_reading_acknowledges_nothing_and_acknowledging_needs_no_reading() -> None:
    channel = keeping("etl", "audit")
    await channel.append(rows(0, 8))
    await numbers(channel.read("etl", 0, 8))
    assert channel.position("etl").acknowledged_row == 0
    await channel.acknowledge(5, "audit")
    assert (channel.position("etl").acknowledged_row, channel.position("audit").acknowledged_row) == (0, 5)
    assert await numbers(channel.read("audit", to_row=8)) == [5, 6, 7]
    assert await numbers(channel.read("etl", to_row=8)) == list(range(8))


async def test_rows_that_are_acknowledged_while_they_are_read_are_missed_loudly() -> None:
    channel = keeping(parameters=ChannelParameters(row_permits=4, permit_batch=1))
    await channel.append(rows(0, 4))
    reading = aiter(channel.read())
    assert (await anext(reading)).num_rows
    await channel.acknowledge(4)
    await channel.append(rows(4, 8))
    await channel.acknowledge(6)
    with pytest.raises(RowsForgottenError, match="the first row that can still be read is 6"):
        await numbers(reading)


async def test_what_cannot_be_read_is_refused() -> None:
    channel = keeping("etl")
    await channel.append(rows(0, 4))
    await channel.acknowledge(2, "etl")
    for error, arguments in (
        (UnknownConsumerError, ("default",)),
        (RowsForgottenError, ("etl", 1, 4)),
        (RowsNotThereError, ("etl", 2, 5)),
        (RowsNotThereError, ("etl", 5)),
        (InvalidParametersError, ("etl", 3, 2)),
    ):
        with pytest.raises(error):
            await numbers(channel.read(*arguments))


async def test_orders_that_cannot_be_are_refused_and_change_nothing() -> None:
    channel = keeping()
    await channel.append(rows(0, 4))
    log_id = channel.position().log_id
    for error, arguments in (
        (UnknownConsumerError, (1, "nobody")),
        (RowsNotThereError, (5,)),
        (LogReplacedError, (1, "", "another log")),
    ):
        with pytest.raises(error):
            await channel.acknowledge(*arguments)
    assert channel.position().acknowledged_row == 0
    await channel.acknowledge(1, "", log_id)
    await channel.acknowledge(0)
    assert channel.position().acknowledged_row == 1


async def test_another_log_has_another_name() -> None:
    assert keeping().position().log_id != keeping().position().log_id


async def test_an_ended_channel_takes_nothing_and_lets_everything_be_read() -> None:
    channel = keeping()
    await channel.append(rows(0, 3))
    await channel.end()
    await channel.end()
    with pytest.raises(ChannelClosedError):
        await channel.append(rows(3, 4))
    assert channel.position().state is ChannelState.ENDED
    assert channel.statistics().state is BridgeState.ENDED
    await channel.break_("too late")
    assert channel.position().state is ChannelState.ENDED
    await channel.acknowledge(3)
    assert channel.statistics().state is BridgeState.SPENT


async def test_a_broken_channel_gives_what_it_has_and_then_says_that_it_is_not_all() -> None:
    channel = keeping()
    await channel.append(rows(0, 3))
    await channel.break_("the producer gave up")
    found: list[int] = []

    async def read() -> None:
        async for batch in channel.read():
            found.extend(batch.column(0).to_pylist())

    with pytest.raises(ChannelAbortedError, match="the producer gave up"):
        await read()
    assert found == [0, 1, 2]
    assert await numbers(channel.read(to_row=3)) == found, "a range is whole"
    with pytest.raises(ChannelAbortedError, match="the producer gave up"):
        await channel.append(rows(3, 4))
    assert channel.position().reason == "the producer gave up"


async def test_a_removed_channel_lets_nobody_wait() -> None:
    exchange = Exchange(parameters=SMALL)
    channel = exchange.add_channel("c", schema=SCHEMA, retention=Retention.REPLAY)
    await channel.append(rows(0, 8))
    waiting = [
        asyncio.create_task(channel.append(rows(8, 10))),
        asyncio.create_task(numbers(channel.read(from_row=8))),
    ]
    await turns()
    exchange.remove_channel("c")
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, ChannelAbortedError)
        assert error.reason == "it was removed from the exchange"
    assert exchange.add_channel("c", retention=Retention.REPLAY).position().next_row == 0


async def test_who_asks_for_a_schema_that_nobody_will_state_hears_why() -> None:
    channel = Exchange().add_channel("c", retention=Retention.REPLAY)
    waiting = asyncio.create_task(channel.known_schema())
    await turns()
    await channel.end()
    for asking in (waiting, channel.known_schema()):
        with pytest.raises(ChannelClosedError):
            await asyncio.wait_for(asking, LONGEST_SECONDS)


async def test_what_only_the_other_kind_of_channel_can_do_is_refused() -> None:
    exchange = Exchange()
    exchange.add_channel("once")
    exchange.add_channel("replay", retention=Retention.REPLAY)
    with pytest.raises(RetentionError, match="channel 'once', whose retention is once, keeps no rows"):
        exchange.replay_channel("once")
    with pytest.raises(RetentionError, match="channel 'replay', whose retention is replay, has no ends"):
        exchange.channel("replay")
    with pytest.raises(InvalidParametersError, match="consumers are named for channels with retention 'replay'"):
        exchange.add_channel("x", retention=Retention("once"), consumers=("etl",))


async def test_statistics_tell_what_is_kept_and_for_whom() -> None:
    exchange = Exchange(parameters=SMALL)
    channel = exchange.add_channel("c", retention=Retention.REPLAY, consumers=("etl", "audit"))
    assert channel.statistics().state is BridgeState.WAITING
    await channel.append(rows(0, 7))
    await channel.acknowledge(5, "etl")
    await channel.acknowledge(2, "audit")
    (told,) = exchange.statistics()
    assert told.replay is not None
    assert (told.replay.next_row, told.replay.first_kept_row, told.replay.kept_rows) == (7, 2, 5)
    assert told.replay.peak_kept_rows == 7
    assert told.replay.acknowledged == {"etl": 5, "audit": 2}
    assert (told.numbers.sent_rows, told.numbers.consumed_rows, told.numbers.rows_held) == (7, 2, 5)


class LateConsumer:
    """The exchange's end of a consumer: while it and the exchange find out whether they share memory, time goes by."""

    def __init__(self, meanwhile: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._meanwhile = meanwhile

    async def meet(self, same_host: SameHost) -> None:
        await self._meanwhile()


async def test_nobody_is_promised_rows_that_were_forgotten_while_he_was_met() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    end = cast("RemoteSender", LateConsumer(lambda: channel.acknowledge(4)))
    with pytest.raises(RowsForgottenError):
        await channel.consuming(end, "c", SameHost.NEVER).serve(Get(1, "c", from_row=0))


async def test_no_more_rows_are_kept_than_there_are_permits() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(channel.append(rows(8, 11)))
        await turns()
        assert channel.position().next_row == 8
        assert channel.statistics().numbers.waiting_sends == 1
        await channel.acknowledge(2)
        await turns()
        assert not waiting.done(), "3 rows need room for 3"
        await channel.acknowledge(3)
    assert channel.position().next_row == 11
    assert channel.statistics().numbers.waiting_seconds > 0
    assert channel.statistics().numbers.peak_rows_held == 8


async def test_producers_that_wait_are_served_in_the_order_in_which_they_came() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    async with asyncio.TaskGroup() as group:
        for number in (100, 200, 300):
            group.create_task(channel.append(rows(number, number + 4)))
            await turns()
        for row in (1, 4, 8, 12):
            await channel.acknowledge(row)
            await turns()
    kept = [number for number in await numbers(channel.read(to_row=20)) if number % 100 == 0]
    assert kept == [200, 300]
    assert channel.position().next_row == 20


async def test_a_chunk_above_the_largest_is_kept_in_slices() -> None:
    channel = keeping()
    async with asyncio.TaskGroup() as group:
        putting = group.create_task(channel.append(rows(0, 30)))
        read: list[int] = []
        while len(read) < 30:
            next_row = channel.position().next_row
            read += await numbers(channel.read(to_row=next_row))
            await channel.acknowledge(next_row)
            await turns()
    assert putting.done()
    assert read == list(range(30))


async def test_a_cancelled_producer_has_kept_a_chunk_or_has_not() -> None:
    channel = keeping()
    await channel.append(rows(0, 8))
    waiting = asyncio.create_task(channel.append(rows(8, 10), "p"))
    await turns()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    await channel.acknowledge(8)
    assert channel.position().next_row == 8, "it will not come any more"
    await channel.append(rows(8, 10), "p")
    assert await numbers(channel.read(to_row=10)) == [8, 9]


async def test_who_has_read_everything_is_told_of_the_next_rows() -> None:
    channel = keeping()
    await channel.append(rows(0, 3))
    seen: list[int] = []
    all_came = asyncio.Event()

    async def follow() -> None:
        async for batch in channel.read():
            seen.extend(batch.column(0).to_pylist())
            if len(seen) == 5:
                all_came.set()

    following = asyncio.create_task(follow())
    await turns()
    assert seen == [0, 1, 2]
    await channel.append(rows(3, 5))
    await asyncio.wait_for(all_came.wait(), LONGEST_SECONDS)
    await channel.end()
    await following
    assert seen == [0, 1, 2, 3, 4]


class SlowStore(ChannelStore):
    """Writes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = asyncio.Event()
        self.error: Exception | None = None

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        await super().append(first_row, batches, producer, producer_rows)

    async def finish(self, state: ChannelState, reason: str) -> None:
        await self.is_open.wait()
        await super().finish(state, reason)


class SlowStores(Store):
    def __init__(self) -> None:
        super().__init__()
        self.channel = SlowStore()

    def open_channels(self, names: Sequence[str], **_: Any) -> list[ChannelStore]:
        return [self.channel for _ in names]


async def test_nothing_follows_an_end_that_was_being_written_when_it_came() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    stores.channel.is_open.set()
    await channel.append(rows(0, 3))
    stores.channel.is_open.clear()
    ending = asyncio.create_task(channel.end())
    await turns()
    late = asyncio.create_task(channel.append(rows(3, 6)))
    await turns()
    stores.channel.is_open.set()
    await ending
    with pytest.raises(ChannelClosedError):
        await late
    assert await numbers(channel.read()) == [0, 1, 2]


async def test_what_is_being_written_is_counted_though_its_producer_is_cancelled() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    writing = asyncio.create_task(channel.append(rows(0, 3), "p"))
    await turns()
    assert channel.position().next_row == 0, "what is not written is not there"
    for _ in range(3):
        writing.cancel()
        await turns()
    assert not writing.done(), "it knows what has become of its rows before it goes"
    stores.channel.is_open.set()
    await asyncio.wait({writing})
    assert writing.cancelled()
    assert channel.position().next_row == 3
    assert channel.rows_of("p") == 3
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_what_could_not_be_written_is_not_counted_and_can_be_sent_again() -> None:
    stores = SlowStores()
    channel = keeping(store=stores)
    stores.channel.is_open.set()
    stores.channel.error = StoreWriteError(path="/dev/full", reason="the disk is full")
    with pytest.raises(StoreWriteError):
        await channel.append(rows(0, 3), "p")
    assert channel.position().next_row == channel.rows_of("p") == 0
    stores.channel.error = None
    await channel.append(rows(0, 3), "p")
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_chunks_without_rows_and_of_another_schema() -> None:
    channel = keeping()
    await channel.append(rows(0, 0))
    assert channel.position().next_row == 0
    with pytest.raises(SchemaMismatchError):
        await channel.append(pa.record_batch({"other": [1]}))


async def test_small_chunks_that_come_together_are_kept_together_and_cut_where_they_are_wanted() -> None:
    store = ChannelStore()
    await store.append(0, [rows(row, row + 1) for row in range(100)])
    assert len(await store.read(0, 100)) == 1
    assert [batch.num_rows for batch in await store.read(17, 19)] == [2]
    await store.append(100, [rows(100, 5000), rows(5000, 9000)])
    assert [batch.num_rows for batch in await store.read(99, 6000)] == [1, 4900, 1000]
    await store.acknowledge("default", 99, 99)
    assert [batch.num_rows for batch in await store.read(99, 101)] == [1, 1]


async def test_chunks_whose_dictionaries_differ_are_kept_as_they_are() -> None:
    words = [pa.record_batch({"w": pa.array([word]).dictionary_encode()}) for word in ("a", "b", "c")]
    store = ChannelStore()
    await store.append(0, words)
    assert await store.read(0, 3) == words


async def test_a_long_log_is_forgotten_from_its_beginning() -> None:
    store = ChannelStore()
    before_bytes = pa.total_allocated_bytes()
    for row in range(0, 4000, 2):
        await store.append(row, [rows(row, row + 2)])
        kept_from = max(0, row - 5)
        await store.acknowledge("default", kept_from, kept_from)
        found = [n for batch in await store.read(kept_from, row + 2) for n in batch.column(0).to_pylist()]
        assert found == list(range(kept_from, row + 2))
        assert pa.total_allocated_bytes() - before_bytes < 2_000
    await store.acknowledge("default", 4000, 4000)
    assert await store.read(3998, 4000) == [], "acknowledged while somebody was about to read it"
    assert pa.total_allocated_bytes() == before_bytes
