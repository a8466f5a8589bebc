"""Real runs of several processes are behaviours of the specification, and so are runs that break off.

Runs of sabotaged implementations are stopped at the right step, and the verdict says what would have been right.
"""

import asyncio
import sys
from asyncio.subprocess import create_subprocess_exec
from pathlib import Path

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.client import get
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.tracing import ChannelTrace, FileTrace, MemoryTrace, read_trace
from permitflow_testing.traces import judge, judge_all
from tests.support.recordings import UNEQUAL_CHUNKS, LostOnTheWay, run_pair

PRODUCER = """
import sys
import pyarrow as pa
from permitflow.tracing import FileTrace
from permitflow.client.blocking import open_sink

schema = pa.schema([("serial", pa.int64())])
with FileTrace(sys.argv[2]) as trace, open_sink(sys.argv[1], "orders/0", schema, record=trace.recorder) as sink:
    for number in range(600):  # sizes from nothing to more than max_chunk_cost, so that some are split
        sink.send(pa.record_batch({"serial": [number] * (number * 7 % 40)}, schema=schema))
    sink.end(closes_channel=True)
"""


async def test_two_processes_need_no_common_clock(tmp_path: Path) -> None:
    with FileTrace(tmp_path / "here.jsonl") as trace:
        exchange = Exchange(record=trace.recorder)
        exchange.add_channel("orders/0", ChannelParameters(row_permits=100, permit_batch=10, max_chunk_cost=30))
        async with ExchangeServer(exchange) as server:
            there = await create_subprocess_exec(
                sys.executable, "-c", PRODUCER, server.address, str(tmp_path / "there.jsonl")
            )
            async with get(server.address, "orders/0", record=trace.recorder) as receiver:
                rows = sum([message.rows async for message in receiver])
            assert (rows, await there.wait()) == (sum(number * 7 % 40 for number in range(600)), 0)

    read = read_trace(tmp_path)
    assert read.is_complete
    logs = {name: len(channel.logs) for name, channel in read.channels.items()}
    assert logs == {"orders/0": 1, "orders/0#put1": 2, "orders/0#get1": 1}
    assert min(len(log) for log in read.channels["orders/0#put1"].logs) > 1000
    for verdict in judge_all(read):
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()


async def test_a_run_that_breaks_off_is_a_behaviour_that_is_not_at_rest() -> None:
    trace = MemoryTrace()
    ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]]
    ends = open_channel(
        ChannelParameters(row_permits=8, permit_batch=2, max_chunk_cost=4), name="orders", record=trace.recorder
    )
    sender, receiver = ends
    waiting = [asyncio.create_task(sender.send([number] * 4)) for number in range(4)]
    await receiver.receive()
    receiver.close()
    await asyncio.gather(*waiting, return_exceptions=True)

    (verdict,) = judge_all(trace.trace())
    assert verdict.is_valid, verdict.describe()
    assert not verdict.is_at_rest
    assert "not at rest: permits" in verdict.describe()


# The books of each end are in order in what follows, so that neither notices anything by itself.


def recorded(moves: str) -> ChannelTrace:
    trace = MemoryTrace()
    run_pair(trace.recorder, moves, LostOnTheWay)
    return trace.trace().channels["channel"]


@pytest.mark.parametrize("by_end", [False, True])
def test_permits_that_were_lost_are_found_at_the_next_return(by_end: bool) -> None:
    channel = recorded(UNEQUAL_CHUNKS)

    verdict = judge(channel, by_end=by_end)

    (block,) = verdict.replay.blocked[:1]
    assert block.event == [event for log in channel.logs for event in log if event.action == "AddPermits"][1]
    assert block.is_refused
    assert "4 row permits are not a sum of what comes back first: 3 row permits" in block.reason


def test_the_verdict_says_what_happened_where_and_what_was_allowed() -> None:
    verdict = judge(recorded(UNEQUAL_CHUNKS))

    first, event, state, allowed, left_over = verdict.describe().splitlines()
    assert first == "channel 'channel': not a behaviour of the specification, after 26 valid events"
    assert event.startswith(
        "  AddPermits (permits: 4 rows), event 16 of the sender, is impossible: 4 row permits are not a sum"
    )
    assert "permits on their way back [(3, 0, 0), (4, 0, 0)" in state
    assert "AddPermits of 3 row permits" in allowed
    assert left_over == "  1 later events were not looked at"
