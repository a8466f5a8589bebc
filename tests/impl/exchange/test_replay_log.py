"""A channel that keeps its rows, inside a process: what it takes over, what is read and acknowledged, and its end.

Chunks are kept in order, when there is room, all or none.
"""

import asyncio

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import ChannelState
from permitflow.errors import (
    ChannelClosedError,
    InvalidParametersError,
    ProducerReplacedError,
    RetentionError,
    StoreWriteError,
)
from permitflow.exchange import BridgeState, ChannelStore, Exchange, Retention
from permitflow.exchange.channels.replay_channel import ReplayChannel, ReplayProducer
from permitflow.wire import arrow
from tests.support.kept_rows import keeping, numbers, rows
from tests.support.number_streams import SMALL
from tests.support.slow_store import SlowStore
from tests.support.turns import turns

LONGEST_SECONDS = 20.0


async def test_an_ended_channel_takes_nothing_and_lets_everything_be_read() -> None:
    channel = keeping()
    await channel.append(rows(0, 3))
    await channel.end()
    await channel.end()
    with pytest.raises(ChannelClosedError, match=r"open it again .*permitflow channel reset"):
        await channel.append(rows(3, 4))
    assert channel.position().state is ChannelState.ENDED
    assert channel.statistics().state == BridgeState.ENDED
    await channel.break_("too late")
    assert channel.position().state is ChannelState.ENDED
    await channel.acknowledge(3)
    assert channel.statistics().state == BridgeState.SPENT


async def test_a_chunk_longer_than_a_message_is_kept_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 1_000)
    channel = keeping(parameters=ChannelParameters(row_permits=1_000))
    await channel.append(rows(0, 500))
    await channel.end()
    kept = [batch async for batch in channel.read()]
    assert [number for batch in kept for number in batch.column(0).to_pylist()] == [*range(500)]
    assert all(pa.ipc.get_record_batch_size(batch) <= 1_000 for batch in kept)


async def test_who_asks_for_a_schema_that_nobody_will_state_hears_why() -> None:
    channel = Exchange().add_channel("c", retention=Retention.REPLAY)
    waiting = asyncio.create_task(channel.known_schema())
    await turns()
    await channel.end()
    for asking in (waiting, channel.known_schema()):
        with pytest.raises(ChannelClosedError):
            await asyncio.wait_for(asking, LONGEST_SECONDS)


class NamedProducer(ReplayProducer):
    """Holds the name without a stream, and leaves when it is replaced."""

    def __init__(self, channel: ReplayChannel, peer: str) -> None:
        self._channel, self.peer = channel, peer
        self.by: list[str] = []
        self.may_leave = asyncio.Event()

    async def replaced(self, error: ProducerReplacedError) -> None:
        self.by.append(error.by)
        await self.may_leave.wait()

    def leave(self) -> None:
        self._channel.disclaim("p", self)
        self.may_leave.set()


async def test_who_waits_for_a_name_replaces_no_newer_producer() -> None:
    channel = keeping()
    first, second, third = (NamedProducer(channel, peer) for peer in ("first", "second", "third"))
    async with asyncio.TaskGroup() as group:
        await channel.claim("p", first)
        group.create_task(channel.claim("p", second))
        await turns()
        group.create_task(channel.claim("p", third))  # its turn is between the first one's leave and the second's
        first.leave()
        await turns()
        second.leave()
        third.leave()
    assert (first.by, second.by, third.by) == (["second"], ["third"], [])


async def test_operations_of_the_other_kind_of_channel_are_refused() -> None:
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
    assert channel.statistics().state == BridgeState.WAITING
    await channel.append(rows(0, 7))
    await channel.acknowledge(5, "etl")
    await channel.acknowledge(2, "audit")
    (told,) = exchange.statistics()
    assert told.kept is not None
    assert (told.kept.next_row, told.kept.first_kept_row, told.kept.kept_rows) == (7, 2, 5)
    assert told.kept.acknowledged == {"etl": 5, "audit": 2}
    assert (told.rows_in, told.rows_out, told.rows_held, told.peak_rows_held) == (7, 2, 5, 7)


async def test_waiting_producers_are_served_in_the_order_they_came() -> None:
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


async def test_an_acknowledgement_that_comes_twice_at_once_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, written = keeping(), list[int]()
    await channel.append(rows(0, 5))

    async def note(_: str, row: int, *__: int) -> None:
        written.append(row)

    monkeypatch.setattr(channel.store, "acknowledge", note)
    await asyncio.gather(channel.acknowledge(3), channel.acknowledge(3))
    assert (written, channel.books.first_kept_row) == ([3], 3)


async def test_nothing_follows_an_end_that_was_being_written_when_it_came() -> None:
    stores = SlowStore()
    channel = keeping(store=stores)
    stores.is_open.set()
    await channel.append(rows(0, 3))
    stores.is_open.clear()
    ending = asyncio.create_task(channel.end())
    await turns()
    late = asyncio.create_task(channel.append(rows(3, 6)))
    await turns()
    stores.is_open.set()
    await ending
    with pytest.raises(ChannelClosedError):
        await late
    assert await numbers(channel.read()) == [0, 1, 2]


async def test_rows_being_written_count_after_a_cancellation() -> None:
    stores = SlowStore()
    channel = keeping(store=stores)
    writing = asyncio.create_task(channel.append(rows(0, 3), "p"))
    await turns()
    assert channel.position().next_row == 0, "what is not written is not there"
    for _ in range(3):
        writing.cancel()
        await turns()
    assert not writing.done(), "it knows what has become of its rows before it goes"
    stores.is_open.set()
    await asyncio.wait({writing})
    assert writing.cancelled()
    assert channel.position().next_row == 3
    assert channel.rows_of("p") == 3
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_rows_that_could_not_be_written_can_be_sent_again() -> None:
    stores = SlowStore()
    channel = keeping(store=stores)
    stores.is_open.set()
    stores.error = StoreWriteError(path="/dev/full", reason="the disk is full")
    with pytest.raises(StoreWriteError):
        await channel.append(rows(0, 3), "p")
    assert channel.position().next_row == channel.rows_of("p") == 0
    stores.error = None
    await channel.append(rows(0, 3), "p")
    assert await numbers(channel.read(to_row=3)) == [0, 1, 2]


async def test_small_chunks_are_kept_together_and_cut_where_wanted() -> None:
    store = ChannelStore()
    await store.append(0, [rows(row, row + 1) for row in range(100)])
    assert len(await store.read(0, 100)) == 1
    assert [batch.num_rows for batch in await store.read(17, 19)] == [2]
    await store.append(100, [rows(100, 5000), rows(5000, 9000)])
    assert [batch.num_rows for batch in await store.read(99, 6000)] == [1, 4900, 1000]
    await store.acknowledge("default", 99, 99)
    assert [batch.num_rows for batch in await store.read(99, 101)] == [1, 1]


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
