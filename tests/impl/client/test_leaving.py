"""A consumer that has read everything leaves its block: its last permits still reach the exchange, however slowly."""

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import EndOutcome, get, put
from permitflow.exchange import BridgeState, Exchange
from tests.support.cut_lines import ADDRESS, Network
from tests.support.simulated_time import simulated

SCHEMA = pa.schema([("n", pa.int64())])


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


@pytest.mark.parametrize("write_seconds", [0.0, 1.5, 5.0])
@simulated
async def test_the_last_permits_of_a_slow_consumer_reach_the_exchange(write_seconds: float) -> None:
    exchange = Exchange(parameters=ChannelParameters(row_permits=64, permit_batch=4))
    exchange.add_channel("c", schema=SCHEMA)
    async with Network(exchange, is_narrow=True, write_seconds=write_seconds).opened():
        async with put(ADDRESS, "c", SCHEMA, resume_seconds=0) as sender:
            for number in range(6):
                await sender.send(batch(number, number))
            await sender.end(until=EndOutcome.ACCEPTED)
        async with get(ADDRESS, "c", resume_seconds=0) as receiver:  # all rows are there, and come at once
            assert [message.rows async for message in receiver] == [2] * 6
        (channel,) = exchange.statistics()
        assert channel.state == BridgeState.SPENT, channel.reason
