"""What an exchange tells those who ask from outside: counts of every channel, and rates from two answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import UnknownChannelError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.protocol.traffic import ChannelTraffic, Flow, KeptRows, Statistics, flows_between
from permitflow.transports.grpc_aio import control, get

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHUNK = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with a channel of each kind."""
    exchange = Exchange(parameters=SMALL)
    exchange.add_channel("once", schema=CHUNK.schema)
    exchange.add_channel("kept", schema=CHUNK.schema, retention=Retention.REPLAY, consumers=("etl", "audit"))
    async with ExchangeServer(exchange) as server:
        yield exchange, server.address


@pytest.mark.usefixtures("path")
def test_both_kinds_of_channels_tell_what_has_flowed(complete: Complete) -> None:
    async def test() -> Statistics:
        async with serving() as (exchange, address), control(address) as asking:
            kept = exchange.replay_channel("kept")
            await kept.append(CHUNK)
            await kept.acknowledge(3, "etl")
            await exchange.channel("once").sender.send(CHUNK)
            async with get(address, "once") as consumer:
                await consumer.take()
                return await asking.statistics()

    once, kept = complete(test()).channels
    assert (once.channel, once.state, once.producers, once.consumers) == ("once", "open", 0, 1)
    assert (once.rows_in, once.rows_out, once.rows_with_consumers, once.kept) == (4, 4, 4, None)
    assert (kept.rows_in, kept.rows_out, kept.rows_held, kept.room_rows) == (4, 0, 4, 4)
    assert kept.kept.lag_rows == {"etl": 1, "audit": 4}


def test_a_producer_that_waits_for_room_is_seen_while_it_waits(complete: Complete) -> None:
    async def test() -> list[Flow]:
        async with serving() as (exchange, address), control(address) as asking:
            channel = exchange.replay_channel("kept")
            for _ in range(2):
                await channel.append(CHUNK)
            waiting = asyncio.create_task(channel.append(CHUNK))
            while not channel.statistics().numbers.waiting_sends:  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0)
            before, now = [await asking.statistics(("kept",)) for _ in range(2)]
            waiting.cancel()
            await asyncio.wait({waiting})
            return flows_between(before, now)

    (flow,) = complete(test())
    assert flow.traffic.room_rows == 0
    assert flow.blocked_share > 0
    assert (flow.rows_in_per_second, flow.rows_out_per_second) == (0, 0)


def test_channels_come_in_the_order_in_which_they_were_named(complete: Complete) -> None:
    async def test() -> tuple[list[str], UnknownChannelError]:
        async with serving() as (_, address), control(address) as asking:
            found = await asking.statistics(("kept", "once"))
            with pytest.raises(UnknownChannelError) as refusal:
                await asking.statistics(("once", "nowhere"))
            return [traffic.channel for traffic in found.channels], refusal.value

    names, refusal = complete(test())
    assert names == ["kept", "once"]
    assert refusal.facts["channel"] == "nowhere"


TRAFFIC = ChannelTraffic(
    channel="orders/0",
    state="open",
    reason="",
    row_permits=100,
    producers=1,
    consumers=1,
    rows_in=500,
    rows_out=450,
    rows_held=50,
    peak_rows_held=100,
    rows_with_consumers=10,
    waiting_seconds=3.0,
    consumer_waiting_seconds=1.0,
    kept=KeptRows(next_row=500, acknowledged={"default": 450}),
)


def test_rates_and_shares_are_those_of_the_time_between_two_answers() -> None:
    later = replace(TRAFFIC, rows_in=700, rows_out=550, waiting_seconds=4.5, consumer_waiting_seconds=1.5)
    (flow,) = flows_between(Statistics(10.0, (TRAFFIC,)), Statistics(12.0, (later,)))
    assert (flow.seconds, flow.rows_in_per_second, flow.rows_out_per_second) == (2.0, 100.0, 50.0)
    assert (flow.blocked_share, flow.consumer_blocked_share) == (0.75, 0.25)
    assert flow.as_json()["kept"]["lag_rows"] == {"default": 50}  # type: ignore[index]  # JSON


@pytest.mark.parametrize(
    "before",
    [None, Statistics(1.0, ()), Statistics(20.0, (TRAFFIC,)), Statistics(1.0, (replace(TRAFFIC, rows_in=501),))],
    ids=["first answer", "new channel", "another clock", "started again"],
)
def test_without_anything_to_compare_with_there_are_no_rates(before: Statistics | None) -> None:
    (flow,) = flows_between(before, Statistics(10.0, (TRAFFIC,)))
    assert (flow.seconds, flow.rows_in_per_second, flow.rows_out_per_second, flow.blocked_share) == (0, 0, 0, 0)
