"""Administration of a running exchange: what becomes of a channel, its rows and permits, and who is connected."""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Kind
from permitflow.client import AioControl, EndOutcome, Retention, control, get, put
from permitflow.client.blocking import control as blocking_control
from permitflow.errors import (
    ChannelInUseError,
    ChannelRemovedError,
    ChannelResetError,
    ChannelSpentError,
    InvalidParametersError,
    PeerGoneError,
    PermitflowError,
    RowsForgottenError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow.exchange import Exchange, SqliteStore, Store
from permitflow.exchange.books.bridge import BridgeState
from permitflow.exchange.serving import carry_out
from permitflow.flows.demand.core import Demand
from permitflow.stream.control import Purge, ResetChannels
from permitflow.tracing import MemoryTrace
from permitflow_testing.traces import judge_all
from tests.support.cut_lines import ADDRESS, Network
from tests.support.served import served
from tests.support.simulated_time import in_simulated_time
from tests.support.turns import turns, until

SCHEMA = pa.schema([("n", pa.int64())])
PARAMETERS = ChannelParameters(row_permits=8, permit_batch=2)
KEPT: dict[str, Any] = {"retention": Retention.REPLAY, "kept_rows": 16, "consumers": ("etl", "audit")}
NAME, OTHER = "orders/0", "orders/1"


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def numbers(table: pa.Table) -> list[int]:
    return [*table.column("n").to_pylist()]


@asynccontextmanager
async def administered(exchange: Exchange | None = None, **options: Any) -> AsyncIterator[tuple[Exchange, Network]]:
    """An exchange with one channel, behind connections in memory."""
    exchange = exchange or Exchange(parameters=PARAMETERS)
    if NAME not in exchange.names:
        exchange.add_channels([NAME], **options)
    try:
        async with Network(exchange).opened() as network:
            yield exchange, network
    finally:
        exchange.staging.stop()


async def order(given: Callable[[AioControl], Any]) -> Any:
    """Give one order, over a connection of its own."""
    async with control(ADDRESS) as orders:
        return await given(orders)


async def refused(given: Callable[[AioControl], Any], kind: type[PermitflowError], words: str) -> None:
    with pytest.raises(kind, match=words):
        await order(given)


async def fill(
    *chunks: pa.RecordBatch, closes: bool = True, producer: str = "", until: EndOutcome = EndOutcome.CONSUMED
) -> EndOutcome:
    async with put(ADDRESS, NAME, SCHEMA, producer=producer) as sender:
        for chunk in chunks:
            await sender.send(chunk)
        return await sender.end(closes_channel=closes, until=until)


async def drained() -> list[int]:
    async with get(ADDRESS, NAME) as receiver:
        return [n async for message in receiver for n in message.payload["n"].to_pylist()]


async def state() -> str:
    ((listed,)) = await order(lambda orders: orders.channels([NAME]))
    return f"{listed.traffic.state} {listed.traffic.rows_held}"


# What there is.


async def test_a_list_tells_settings_counts_and_who_is_connected() -> None:
    async with administered(schema=SCHEMA) as (exchange, _), put(ADDRESS, NAME, SCHEMA) as sender:
        await sender.send(batch(1, 2, 3))
        await until(lambda: exchange.statistics()[0].rows_in == 3)
        await order(lambda orders: orders.add_stream("late", 2, Demand(size=4), byte_window=1 << 20))
        await order(lambda orders: orders.add_stream("kept", 1, schema=SCHEMA, **KEPT))
        once, *late, kept = await order(lambda orders: orders.channels())
    assert (once.traffic.channel, once.traffic.state, once.traffic.rows_held) == (NAME, "open", 3)
    assert (once.retention, once.parameters, once.schema) == (Retention.ONCE, PARAMETERS, SCHEMA)
    (connection,) = once.connections
    assert (connection.direction, connection.peer, connection.stream) == ("put", "memory", f"{NAME}#put1")
    assert [each.traffic.channel for each in late] == ["late/0", "late/1"]
    assert [each.parameters for each in late] == [Demand(size=4)] * 2
    assert (late[0].schema, late[0].traffic.state, late[0].traffic.byte_window) == (None, "waiting", 1 << 20)
    assert (kept.retention, kept.limit_rows) == (Retention.REPLAY, 16)
    assert [*kept.traffic.kept.acknowledged] == ["audit", "etl"]
    assert not kept.is_durable


async def test_a_spent_channel_holds_nothing() -> None:
    """Nobody returns its last permits, nor those that an adaptive window withholds."""
    async with administered() as (exchange, _):
        await fill(batch(1, 2, 3))
        channel = exchange.channel(NAME)
        numbers = channel.sender.statistics()
    ended, spent = (
        channel.streams.traffic(NAME, state, "", numbers, purged_rows=0)
        for state in (BridgeState.ENDED, BridgeState.SPENT)
    )
    assert (numbers.rows_held, ended.rows_held, spent.rows_held) == (3, 3, 0)
    assert (ended.bytes_held, spent.bytes_held) == (numbers.bytes_held, 0)


# Adding.


async def test_an_added_channel_is_used_at_once_and_a_taken_name_is_refused() -> None:
    async with administered() as (exchange, _):
        await order(lambda orders: orders.add_stream("more", 2, target_latency_seconds=0.5))
        async with asyncio.TaskGroup() as group, put(ADDRESS, "more/1", SCHEMA) as sender:
            group.create_task(one_chunk("more/1"))
            await sender.send(batch(1))
            await sender.end()
        assert exchange.channel("more/1").target_latency_seconds == 0.5
        await refused(lambda orders: orders.add_stream("more", 3), InvalidParametersError, "'more/0'")
        assert [listed.traffic.channel for listed in await order(lambda orders: orders.channels())] == [
            NAME,
            "more/0",
            "more/1",
        ]


async def one_chunk(name: str) -> None:
    async with get(ADDRESS, name) as receiver:
        assert [message.rows async for message in receiver] == [1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channels": 0}, "channels must be 1 to 1,000 in a request, not 0"),
        ({"channels": 1001}, "channels must be 1 to 1,000 in a request, not 1001"),
        ({"kept_rows": 5}, "kept_rows is for channels with retention 'replay' only, not 5"),
        ({"consumers": ("a",)}, "consumers is for channels with retention 'replay' only"),
        ({"retention": Retention.REPLAY, "consumers": ("a", "a")}, "consumers must be different names"),
        ({"stream": ""}, "stream must not be empty"),
        ({"target_latency_seconds": 0.0}, "target_latency_seconds must be a number of seconds, above 0"),
        ({"retention": Retention.REPLAY, "target_latency_seconds": 1.0}, "must be None for channels with retention"),
    ],
)
async def test_a_stream_that_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    async with administered() as (exchange, _):
        wanted = {"stream": "more", **options}
        await refused(lambda orders: orders.add_stream(**wanted), InvalidParametersError, words)
        assert [*exchange.names] == [NAME]


# Removing.


async def test_a_used_channel_is_removed_by_force_and_peers_hear_of_it() -> None:
    async with administered() as (exchange, _), get_later() as reading:
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            await sender.send(batch(1, 2))
            await until(lambda: exchange.statistics()[0].rows_out == 2)
            words = "1 producer at memory; 1 consumer at memory; with force"
            await refused(lambda orders: orders.remove([NAME]), ChannelInUseError, words)
            (removed,) = await order(lambda orders: orders.remove([NAME], force=True))
            assert removed == (NAME, 0, 0, 2)
            with pytest.raises(ChannelRemovedError, match="removed from the exchange"):
                await sender.end()
        with pytest.raises(ChannelRemovedError):
            await reading
        await refused(lambda orders: orders.remove([NAME]), UnknownChannelError, "unknown channel")


@asynccontextmanager
async def get_later() -> AsyncIterator[asyncio.Task[list[int]]]:
    reading = asyncio.create_task(drained())
    try:
        yield reading
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def test_all_channels_are_removed_or_none() -> None:
    async with administered() as (exchange, _):
        await order(lambda orders: orders.add_stream("other"))
        await fill(batch(1, 2), closes=False)
        await refused(lambda orders: orders.remove(["other/0", NAME]), ChannelInUseError, "2 rows .* wait")
        assert [*exchange.names] == [NAME, "other/0"]


async def test_a_kept_channel_is_removed_with_its_rows_also_on_disk(store: Store, tmp_path: Any) -> None:
    exchange = Exchange(parameters=PARAMETERS, store=store)
    async with administered(exchange, retention=Retention.REPLAY):
        await fill(batch(1, 2))
        await refused(lambda orders: orders.remove([NAME]), ChannelInUseError, "2 rows")
        assert await order(lambda orders: orders.remove([NAME], force=True)) == ((NAME, 2, 0, 0),)
        await order(lambda orders: orders.add_stream("orders", retention=Retention.REPLAY))
        assert await order(lambda orders: orders.peek(NAME)) == pa.table({})


# Resetting.


async def test_a_spent_channel_is_used_again_after_a_reset() -> None:
    trace = MemoryTrace()
    async with administered(Exchange(parameters=PARAMETERS, record=trace.recorder)):
        for first in (1, 10):
            outcome, read = await asyncio.gather(fill(batch(first, 2), batch(3)), drained())
            assert (outcome, read) == (EndOutcome.CONSUMED, [first, 2, 3])
            assert await state() == "spent 0"
            with pytest.raises(ChannelSpentError, match="permitflow channel reset"):
                await fill(batch(1))
            assert await order(lambda orders: orders.reset([NAME])) == ((NAME, 0, 0, 0),)
            assert await state() == "waiting 0"
    verdicts = {verdict.channel: verdict for verdict in judge_all(trace.trace())}
    assert {NAME, f"{NAME}#put1", f"{NAME}#2", f"{NAME}#2#put1", f"{NAME}#3"} <= verdicts.keys()
    assert all(verdict.is_valid for verdict in verdicts.values())


async def test_a_broken_channel_is_used_again_after_a_reset() -> None:
    async with administered() as (exchange, _):
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            await sender.send(batch(1))
            sender.abort("it has seen enough")
        await until(lambda: exchange.statistics()[0].state == BridgeState.BROKEN)
        await order(lambda orders: orders.reset([NAME]))
        assert [*await asyncio.gather(fill(batch(1)), drained())] == [EndOutcome.CONSUMED, [1]]


async def test_a_reset_by_force_ends_all_streams_with_its_error() -> None:
    async with administered() as (exchange, _), get_later() as reading:
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            await sender.send(batch(1, 2))
            await until(lambda: exchange.statistics()[0].rows_out == 2)
            await refused(lambda orders: orders.reset([NAME]), ChannelInUseError, "cannot be reset: 1 producer")
            assert await order(lambda orders: orders.reset([NAME], force=True)) == ((NAME, 0, 0, 2),)
            with pytest.raises(ChannelResetError, match="an administrator has reset it; open it again"):
                await sender.end()
        with pytest.raises(ChannelResetError):
            await reading
        assert [*await asyncio.gather(fill(batch(7)), drained())] == [EndOutcome.CONSUMED, [7]]


async def test_a_consumer_that_waits_for_a_producer_hears_of_a_reset() -> None:
    async with administered() as (exchange, _), get_later() as reading:
        await until(lambda: bool(exchange.channel(NAME).users))
        await order(lambda orders: orders.reset([NAME], force=True))
        with pytest.raises(ChannelResetError):
            await reading


@pytest.mark.parametrize("retention", [*Retention])
async def test_a_reset_ends_a_stream_whose_end_is_unread(retention: Retention) -> None:
    async with administered(retention=retention, schema=SCHEMA) as (exchange, _):
        reading = AsyncExitStack()
        receiver = await reading.enter_async_context(get(ADDRESS, NAME))
        await fill(batch(1), until=EndOutcome.ACCEPTED)
        await until(lambda: receiver.ended_with is not None)
        assert await order(lambda orders: orders.reset([NAME], force=True)) == ((NAME, 0, 0, 1),)
        await until(lambda: not exchange.served(NAME).users)
        assert [message.payload async for message in receiver] == [batch(1)], "an end that has come is true"
        with pytest.raises(ChannelResetError):
            await reading.aclose()


async def test_a_suspended_stream_is_in_use_and_hears_of_a_reset() -> None:
    async def produce() -> None:
        async with put(ADDRESS, NAME, SCHEMA, resume_seconds=30) as sender:
            await sender.send(batch(1))
            await over.wait()
            await sender.end()

    over = asyncio.Event()
    async with administered() as (exchange, network):
        producing = asyncio.create_task(produce())
        await until(lambda: exchange.statistics()[0].rows_in == 1)
        network.let_down()
        await until(lambda: len(exchange.admission.suspended) == 1)
        network.let_up()
        words = "1 without a connection, which may come again"
        await refused(lambda orders: orders.reset([NAME]), ChannelInUseError, words)
        await order(lambda orders: orders.reset([NAME], force=True))
        over.set()
        with pytest.raises(ChannelResetError):
            await producing
        assert len(exchange.admission.suspended) == 0


async def test_a_reset_of_a_kept_channel_opens_it_and_loses_nothing(store: Store) -> None:
    exchange = Exchange(parameters=PARAMETERS, store=store)
    async with administered(exchange, retention=Retention.REPLAY):
        await fill(batch(1, 2), producer="p")
        with pytest.raises(PermitflowError, match="has ended"):
            await fill(batch(3), producer="p")
        await order(lambda orders: orders.reset([NAME]))
        async with put(ADDRESS, NAME, SCHEMA, producer="p") as sender:
            assert sender.first_row == 2
            await sender.send(batch(3))
            await sender.end(closes_channel=True)
        assert await drained() == [1, 2, 3]


async def test_what_was_reset_is_open_after_a_restart(tmp_path: Any) -> None:
    for is_first in (True, False):
        with SqliteStore(tmp_path / "store") as store:
            async with administered(Exchange(parameters=PARAMETERS, store=store), retention=Retention.REPLAY):
                if is_first:
                    await fill(batch(1))
                    await order(lambda orders: orders.reset([NAME]))
                assert await state() == "open 1"


# Purging.


async def test_a_purge_returns_permits_and_is_a_run_of_the_model() -> None:
    trace = MemoryTrace()
    async with administered(Exchange(parameters=PARAMETERS, record=trace.recorder)) as (exchange, _):
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            await sender.send_many(deque(batch(n, n) for n in range(4)))
            await sender.send_barrier(1)
            sending = asyncio.create_task(sender.send(batch(8, 9, 10)))
            await until(lambda: exchange.channel(NAME).sender.statistics().waiting_sends == 1)
            assert await order(lambda orders: orders.purge([NAME])) == ((NAME, 8, 1, 0),)
            await sending  # its permits have come back
            await sender.send_barrier(2)
            outcome, read = await asyncio.gather(sender.end(), drained_with_barriers())
        assert outcome is EndOutcome.ACCEPTED, "nobody has consumed what was purged"
        assert read == [8, 9, 10, "barrier"]
        assert exchange.statistics()[0].purged_rows == 8
    verdicts = judge_all(trace.trace())
    assert [verdict for verdict in verdicts if not (verdict.is_valid and verdict.is_at_rest)] == []


async def drained_with_barriers() -> list[object]:
    async with get(ADDRESS, NAME) as receiver:
        return [
            n
            async for message in receiver
            for n in (["barrier"] if message.kind is Kind.BARRIER else message.payload["n"].to_pylist())
        ]


async def test_a_purge_leaves_a_slow_consumer_what_it_has_and_the_end() -> None:
    async with administered() as (exchange, _), get_slowly() as receiver:
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            for n in range(12):
                await sender.send(batch(n))
            ending = asyncio.create_task(sender.end())
            await until(lambda: exchange.channel(NAME).backlog.rows == 4)
            assert await order(lambda orders: orders.purge([NAME])) == ((NAME, 4, 0, 0),)
            read = [n async for message in receiver for n in message.payload["n"].to_pylist()]
            assert await ending is EndOutcome.ACCEPTED
        assert read == [*range(8)]
        await until(lambda: exchange.statistics()[0].state == BridgeState.SPENT)


@asynccontextmanager
async def get_slowly() -> AsyncIterator[Any]:
    opening: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with get(ADDRESS, NAME) as receiver:
            opening.set_result(receiver)
            await over.wait()

    class Later:
        def __aiter__(self) -> AsyncIterator[Any]:
            return self.all()

        async def all(self) -> AsyncIterator[Any]:
            async for message in await opening:
                yield message

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        try:
            yield Later()
        finally:
            over.set()


def test_a_purge_waits_for_a_message_that_is_leaving() -> None:
    in_simulated_time(a_barrier_is_leaving())


async def a_barrier_is_leaving() -> None:
    async with administered() as (exchange, _), get_slowly() as receiver, put(ADDRESS, NAME, SCHEMA) as sender:
        await sender.send_barrier(1)
        await sender.send_barrier(2)  # the consumer has a place for one
        await until(lambda: exchange.channel(NAME).backlog.messages == 1)
        words = "a message waits for room with the consumer at memory; reset the channel with force"
        await refused(lambda orders: orders.purge([NAME]), ChannelInUseError, words)
        ending = asyncio.create_task(sender.end())
        assert [message.payload async for message in receiver] == [1, 2]
        assert await ending is EndOutcome.CONSUMED


async def test_a_purge_of_kept_rows_acknowledges_for_one_or_all(store: Store) -> None:
    exchange = Exchange(parameters=PARAMETERS, store=store)
    async with administered(exchange, **KEPT):
        async with put(ADDRESS, NAME, SCHEMA) as sender:
            await sender.send(batch(1, 2, 3))
            await sender.send_barrier(1)
            await sender.end()
        assert await order(lambda orders: orders.purge([NAME], consumer="etl")) == ((NAME, 3, 1, 0),)
        (audit,) = await order(lambda orders: orders.positions([NAME], consumer="audit"))
        assert (audit.acknowledged_row, audit.next_row, len(audit.barriers)) == (0, 3, 1)
        assert await order(lambda orders: orders.purge([NAME])) == ((NAME, 3, 1, 0),)
        (audit,) = await order(lambda orders: orders.positions([NAME], consumer="audit"))
        assert (audit.acknowledged_row, audit.barriers) == (3, ())
        assert await state() == "spent 0"
        await refused(lambda orders: orders.purge([NAME], consumer="x"), UnknownConsumerError, "'x'")


async def test_a_reader_of_purged_rows_hears_that_they_are_gone() -> None:
    async with administered(retention=Retention.REPLAY) as (exchange, _):
        await exchange.replay_channel(NAME).append(batch(*range(8)))
        reading = exchange.replay_channel(NAME).read_runs("default", 0, None, most_rows=4)
        assert sum(each.num_rows for each in await anext(reading)) == 4
        await order(lambda orders: orders.purge([NAME]))
        with pytest.raises(RowsForgottenError):
            await anext(reading)


# Peeking.


async def test_a_peek_shows_the_first_rows_and_takes_none() -> None:
    async with administered():
        assert await order(lambda orders: orders.peek(NAME)) == pa.table({})
        await fill(batch(1, 2), batch(3, 4, 5))
        assert numbers(await order(lambda orders: orders.peek(NAME, 3))) == [1, 2, 3]
        assert numbers(await order(lambda orders: orders.peek(NAME, 100))) == [1, 2, 3, 4, 5]
        assert await drained() == [1, 2, 3, 4, 5]
        await refused(lambda orders: orders.peek(NAME, consumer="a"), InvalidParametersError, "knows no consumers")
        await refused(lambda orders: orders.peek(NAME, 0), InvalidParametersError, "rows must be 1 to 10,000, not 0")


async def test_a_peek_at_a_kept_channel_shows_a_consumers_own_rows(store: Store) -> None:
    async with administered(Exchange(parameters=PARAMETERS, store=store), **KEPT):
        await fill(batch(1, 2), batch(3, 4))
        await order(lambda orders: orders.acknowledge({NAME: 3}, consumer="etl"))
        assert numbers(await order(lambda orders: orders.peek(NAME, consumer="etl"))) == [4]
        assert numbers(await order(lambda orders: orders.peek(NAME, 2, consumer="audit"))) == [1, 2]
        await refused(lambda orders: orders.peek(NAME), UnknownConsumerError, "default")


# Orders whose client has left, or whose connection is lost.


async def cancelled_at_once(exchange: Exchange, request: ResetChannels | Purge) -> None:
    """As gRPC does with the task of a call that was lost."""
    carrying_out = asyncio.create_task(carry_out(exchange, request))
    await asyncio.sleep(0)
    carrying_out.cancel()
    await asyncio.wait({carrying_out})
    assert carrying_out.cancelled()


async def test_a_reset_whose_client_has_left_is_carried_out_whole(store: Store) -> None:
    async with (
        administered(Exchange(parameters=PARAMETERS, store=store), **KEPT) as (exchange, _),
        put(ADDRESS, NAME, SCHEMA) as sender,
    ):
        exchange.add_channels([OTHER], schema=SCHEMA, **KEPT)
        for name in (NAME, OTHER):
            await exchange.replay_channel(name).break_("no more paper")
        await cancelled_at_once(exchange, ResetChannels((OTHER, NAME), force=True))
        assert [each.state for each in exchange.statistics()] == ["open", "open"]
        with pytest.raises(ChannelResetError):
            await sender.end()


async def test_a_purge_whose_client_has_left_is_carried_out_whole(store: Store) -> None:
    async with administered(Exchange(parameters=PARAMETERS, store=store), **KEPT) as (exchange, _):
        exchange.add_channels([OTHER], schema=SCHEMA, **KEPT)
        for name in (NAME, OTHER):
            async with put(ADDRESS, name, SCHEMA) as sender:
                await sender.send(batch(1, 2))
                await sender.end()
        await cancelled_at_once(exchange, Purge((NAME, OTHER)))
        assert [each.purged_rows for each in exchange.statistics()] == [2, 2]


async def test_channels_read_once_are_reset_at_the_same_moment() -> None:
    """Else rows that have come since the first one's check would be dropped without force."""
    async with administered() as (exchange, _):
        exchange.add_channels([OTHER])
        for name in (NAME, OTHER):
            exchange.channel(name).abort("no more paper")
        resetting, seen = asyncio.create_task(carry_out(exchange, ResetChannels((NAME, OTHER)))), set[tuple[str, ...]]()
        while not resetting.done():
            seen.add(tuple(each.state for each in exchange.statistics()))
            await asyncio.sleep(0)
        await resetting
    assert seen <= {("broken", "broken"), ("waiting", "waiting")}


async def test_an_order_that_must_not_be_repeated_fails_with_its_connection() -> None:
    async with administered() as (exchange, network):
        await fill(batch(1), closes=False)
        network.cuts = {network.messages + 1}  # the answer
        words = "may or may not have been carried out: see"
        with pytest.raises(PeerGoneError, match=words):
            async with control(ADDRESS, resume_seconds=30) as orders:
                await orders.purge([NAME])
        assert exchange.statistics()[0].purged_rows == 1
        network.cuts = {network.messages + 1}
        async with control(ADDRESS, resume_seconds=30) as orders:
            assert len(await orders.channels()) == 1, "a question is asked again"


async def test_an_order_is_not_sent_over_a_line_that_is_cut() -> None:
    async with administered() as (_, network), control(ADDRESS, resume_seconds=30) as orders:
        network.cut_all()
        await turns()
        assert await orders.purge([NAME]) == ((NAME, 0, 0, 0),)
        assert network.connections == 2


async def test_who_is_not_to_come_again_is_not_dialled_for_an_order() -> None:
    async with administered() as (_, network), control(ADDRESS, resume_seconds=0) as orders:
        network.cut_all()
        await turns()
        with pytest.raises(PeerGoneError) as caught:
            await orders.purge([NAME])
        assert (type(caught.value), network.connections) == (PeerGoneError, 1)


@pytest.mark.parametrize("order", [AioControl.channels, lambda orders: orders.purge([NAME])], ids=["question", "order"])
async def test_who_was_never_there_is_not_dialled_again(order: Callable[[AioControl], Any]) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # nobody listens there, and so it stays
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        with pytest.raises(PeerGoneError, match=r"Connection refused.*is an exchange running there.*\?$"):
            async with control(address, connect_timeout_seconds=None, resume_seconds=0.2) as orders:
                await order(orders)


def test_blocking_callers_have_the_same_orders(complete: Any) -> None:
    def work(address: str) -> None:
        with blocking_control(address) as orders:
            assert [each.traffic.channel for each in orders.add_stream("more")] == ["more/0"]
            assert orders.peek("more/0") == pa.table({})
            assert orders.purge(["more/0"]) == (("more/0", 0, 0, 0),)
            assert orders.reset(["more/0"]) == (("more/0", 0, 0, 0),)
            assert orders.remove(["more/0"]) == (("more/0", 0, 0, 0),)
            assert orders.channels() == ()

    async def serve() -> None:
        async with served(listen="tcp://127.0.0.1:0") as (_, address):
            await asyncio.to_thread(work, address)

    complete(serve())
