"""Windows of an exchange and its consumer that adapt: rows wait as long as is wanted, and all of them come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Parameters
from permitflow.client import SameHost, get, put
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.errors import EndOfStream, InvalidParametersError, PermitflowError
from permitflow.exchange import Exchange
from permitflow.stream.control import Retention
from tests.support.cut_lines import ADDRESS, Network
from tests.support.simulated_time import simulated

SCHEMA = pa.schema([("n", pa.int64())])
CHUNKS = [
    pa.record_batch([pa.array(range(first, first + 8), pa.int64())], schema=SCHEMA) for first in range(0, 3_200, 8)
]


@asynccontextmanager
async def consumed(
    parameters: Parameters, *, target_latency_seconds: float, exchange: Exchange | None = None
) -> AsyncIterator[RemoteReceiver]:
    """The consumer of a channel into which a producer writes as fast as it may."""
    exchange = exchange or Exchange(parameters=parameters)
    if "c" not in exchange.names:
        exchange.add_channel("c")

    async def produce() -> None:
        with suppress(PermitflowError):  # the consumer may leave
            async with put(ADDRESS, "c", SCHEMA, same_host=SameHost.NEVER) as sender:
                for chunk in CHUNKS:
                    await sender.send(chunk)
                await sender.end()

    async with Network(exchange).opened():
        producing = asyncio.create_task(produce())
        async with get(
            ADDRESS, "c", same_host=SameHost.NEVER, target_latency_seconds=target_latency_seconds
        ) as receiver:
            yield receiver
            await producing


@simulated
async def test_a_slow_consumer_gets_a_small_window_and_every_row() -> None:
    found, targets = list[int](), list[int]()
    parameters = ChannelParameters(row_permits=1_024, permit_batch=128)
    async with consumed(parameters, target_latency_seconds=0.5) as receiver:
        with suppress(EndOfStream):
            while True:
                found += (await receiver.take()).payload["n"].to_pylist()
                await asyncio.sleep(0.04)  # simulated: 200 rows a second
                receiver.consume()
                targets.append(receiver.statistics().gauges["target_permits"])
    assert found == [*range(3_200)]
    assert (targets[0], targets[-1]) == (1_024, 100)


@simulated
async def test_the_windows_of_an_exchange_adapt_and_every_row_comes() -> None:
    found, at_hand = list[int](), 0
    parameters = ChannelParameters(row_permits=256, permit_batch=32)
    exchange = Exchange(parameters=parameters, target_latency_seconds=0.5)
    channel = exchange.add_channel("c")
    async with consumed(parameters, target_latency_seconds=0.5, exchange=exchange) as receiver:
        with suppress(EndOfStream):
            while True:
                found += (await receiver.take()).payload["n"].to_pylist()
                await asyncio.sleep(0.04)  # simulated: 200 rows a second
                receiver.consume()
                if len(found) == 2_400:
                    _, stream = channel.streams.statistics()[0]
                    at_hand = channel.receiver.statistics().inbox_rows + stream.inbox_rows + receiver.core.inbox_rows
                    targets = channel.receiver.core.aimed_rows, stream.gauges["target_permits"]
    assert found == [*range(3_200)]
    assert targets == pytest.approx((50, 50), rel=0.2)  # a quarter of a second each
    assert at_hand <= 250


@pytest.mark.parametrize(
    ("parameters", "options", "rule"),
    [
        (None, {"retention": Retention.REPLAY}, "rows are kept"),
        (Demand(size=8), {}, "this is the flow demand"),
        (None, {"target_latency_seconds": 0}, "above 0"),
    ],
)
def test_a_channel_without_a_window_that_adapts_refuses(
    parameters: Parameters | None, options: dict[str, Any], rule: str
) -> None:
    exchange = Exchange(target_latency_seconds=0.5)
    with pytest.raises(InvalidParametersError, match=rule):
        exchange.add_channel("c", parameters, **{"target_latency_seconds": 0.5} | options)
    assert not exchange.names
    exchange.add_channel("c", Demand(size=8))  # the default is for those that can


def test_a_recorded_exchange_refuses_a_latency() -> None:
    with pytest.raises(InvalidParametersError, match="a recording cannot tell of a window"):
        Exchange(record=lambda *_: lambda *_: None, target_latency_seconds=0.5)


def test_a_channel_keeps_its_latency_when_it_is_reset() -> None:
    exchange = Exchange()
    exchange.add_channel("c", target_latency_seconds=0.5)
    asyncio.run(exchange.reset_channel("c"))
    assert exchange.channel("c").target_latency_seconds == 0.5


@simulated
async def test_a_flow_whose_window_cannot_adapt_refuses_a_latency() -> None:
    with pytest.raises(InvalidParametersError, match="this is the flow demand"):
        async with consumed(Demand(size=8), target_latency_seconds=0.5) as receiver:
            await receiver.receive()
