"""A consumer of an exchange whose window adapts: its rows wait as long as it wants, and all of them come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Parameters
from permitflow.client import SameHost, get, put
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.errors import EndOfStream, InvalidParametersError, PermitflowError
from permitflow.exchange import Exchange
from tests.support.cut_lines import ADDRESS, Network
from tests.support.simulated_time import in_simulated_time

SCHEMA = pa.schema([("n", pa.int64())])
CHUNKS = [
    pa.record_batch([pa.array(range(first, first + 8), pa.int64())], schema=SCHEMA) for first in range(0, 3_200, 8)
]


@asynccontextmanager
async def consumed(parameters: Parameters, *, target_latency_seconds: float) -> AsyncIterator[RemoteReceiver]:
    """The consumer of a channel into which a producer writes as fast as it may."""
    exchange = Exchange(parameters=parameters)
    exchange.add_channel("c")
    network = Network(exchange)

    async def produce() -> None:
        with suppress(PermitflowError):  # the consumer may leave
            async with put(ADDRESS, "c", SCHEMA, same_host=SameHost.NEVER) as sender:
                for chunk in CHUNKS:
                    await sender.send(chunk)
                await sender.end()

    async with AsyncExitStack() as stack:
        stack.push_async_callback(network.close)
        stack.enter_context(network.dialled())
        producing = asyncio.create_task(produce())
        yield await stack.enter_async_context(
            get(ADDRESS, "c", same_host=SameHost.NEVER, target_latency_seconds=target_latency_seconds)
        )
        await producing


def test_a_slow_consumer_gets_a_small_window_and_every_row() -> None:
    async def run() -> tuple[list[int], list[int]]:
        found, targets = list[int](), list[int]()
        parameters = ChannelParameters(row_permits=1_024, permit_batch=128)
        async with consumed(parameters, target_latency_seconds=0.5) as receiver:
            with suppress(EndOfStream):
                while True:
                    found += (await receiver.take()).payload["n"].to_pylist()
                    await asyncio.sleep(0.04)  # simulated: 200 rows a second
                    receiver.consume()
                    targets.append(receiver.statistics().gauges["target_permits"])
        return found, targets

    found, targets = in_simulated_time(run())
    assert found == [*range(3_200)]
    assert (targets[0], targets[-1]) == (1_024, 100)


def test_a_flow_whose_window_cannot_adapt_refuses_a_latency() -> None:
    async def run() -> None:
        with pytest.raises(InvalidParametersError, match="this is the flow demand"):
            async with consumed(Demand(size=8), target_latency_seconds=0.5) as receiver:
                await receiver.receive()

    in_simulated_time(run())
