"""Real runs are behaviours of the specification: through a local channel, an exchange, and several processes.

Runs of sabotaged implementations are stopped at the right step, and the verdict says what would have been right.
"""

import asyncio
import sys
from asyncio.subprocess import create_subprocess_exec
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.permits import ChannelParameters, Oversize
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.subjects.permits import CorePair
from permitflow.testing.traces import Verdict, judge, judge_all
from permitflow.tracing import ChannelTrace, Event, FileTrace, MemoryTrace, read_trace
from permitflow.transports.grpc_aio import get, put
from permitflow_model.permit_channel_trace import rows_of

SCHEMA = pa.schema([("serial", pa.int64())])
AGREED = ChannelParameters(row_permits=8, permit_batch=2, max_chunk_cost=4)


def everything_is_valid_and_at_rest(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()


def test_a_run_of_the_local_channel_is_a_behaviour(run: asyncio.Runner, tmp_path: Path) -> None:
    async def stream(record: RecorderFactory) -> int:
        ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]]
        ends = open_channel(AGREED, name="orders", record=record)
        sender, receiver = ends

        async def produce(first: int) -> None:
            for number in range(first, 400, 2):
                await sender.send([number] * (number % 11))
                if number % 10 == 0:
                    await sender.send_barrier(number)
                    sender.send_watermark(number)

        async def produce_all() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(produce(0))
                group.create_task(produce(1))
            await sender.end()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce_all())
            return sum([message.rows async for message in receiver])

    with FileTrace(tmp_path / "orders.jsonl") as trace:
        rows = run.run(stream(trace.recorder))

    read = read_trace(tmp_path)
    assert rows == sum(number % 11 for number in range(400))
    assert read.is_complete
    assert sum(rows_of(event) for event in read.channels["orders"].logs[0] if event.action == "Consume") == rows
    everything_is_valid_and_at_rest(judge_all(read))
    everything_is_valid_and_at_rest(judge_all(read, by_end=True))


@pytest.mark.parametrize("oversize", Oversize)
def test_a_run_through_an_exchange_is_three_behaviours(run: asyncio.Runner, oversize: Oversize) -> None:
    agreed = ChannelParameters(row_permits=64, permit_batch=8, max_chunk_cost=20, oversize=oversize)
    trace = MemoryTrace()

    async def stream() -> int:
        exchange = Exchange(record=trace.recorder)
        exchange.add_channel("orders/0", agreed, SCHEMA)
        async with (
            ExchangeServer(exchange) as server,
            get(server.address, "orders/0", record=trace.recorder) as receiver,
        ):

            async def produce() -> None:
                async with put(server.address, "orders/0", SCHEMA, record=trace.recorder) as sender:
                    for number in range(200):
                        await sender.send(pa.record_batch({"serial": [number] * (number % 33)}, schema=SCHEMA))
                    await sender.end()

            async with asyncio.TaskGroup() as group:
                group.create_task(produce())
                return sum([message.rows async for message in receiver])

    assert run.run(stream()) == sum(number % 33 for number in range(200))
    verdicts = judge_all(trace.trace())
    assert [verdict.channel for verdict in verdicts] == ["orders/0", "orders/0#get1", "orders/0#put1"]
    everything_is_valid_and_at_rest(verdicts)
    everything_is_valid_and_at_rest(judge_all(trace.trace(), by_end=True))
    rows = [rows_of(event) for event in trace.events if event.action == "SendChunk"]
    assert max(rows) == (20 if oversize is Oversize.SPLIT else 32)


@pytest.mark.parametrize("kind", ["aio", "blocking"])
def test_two_processes_need_no_common_clock(kind: str, run: asyncio.Runner, tmp_path: Path) -> None:
    async def stream() -> tuple[int, int | None]:
        with FileTrace(tmp_path / "here.jsonl") as trace:
            exchange = Exchange(record=trace.recorder)
            exchange.add_channel("orders/0", ChannelParameters(row_permits=100, permit_batch=10, max_chunk_cost=30))
            async with ExchangeServer(exchange) as server:
                script = str(Path(__file__).with_name("producer.py"))
                there = await create_subprocess_exec(
                    sys.executable, script, kind, server.address, "orders/0", str(tmp_path / "there.jsonl")
                )
                async with get(server.address, "orders/0", record=trace.recorder) as receiver:
                    rows = sum([message.rows async for message in receiver])
                return rows, await there.wait()

    assert run.run(stream()) == (sum(number * 7 % 40 for number in range(600)), 0)
    read = read_trace(tmp_path)
    assert read.is_complete
    assert {name: len(channel.logs) for name, channel in read.channels.items()} == {
        "orders/0": 1,
        "orders/0#put1": 2,
        "orders/0#get1": 1,
    }
    assert min(len(log) for log in read.channels["orders/0#put1"].logs) > 1000
    everything_is_valid_and_at_rest(judge_all(read))


def test_a_run_that_breaks_off_is_a_behaviour_that_is_not_at_rest(run: asyncio.Runner) -> None:
    trace = MemoryTrace()

    async def stream() -> None:
        ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]]
        ends = open_channel(AGREED, name="orders", record=trace.recorder)
        sender, receiver = ends
        waiting = [asyncio.create_task(sender.send([number] * 4)) for number in range(4)]
        await receiver.receive()
        receiver.close()
        await asyncio.gather(*waiting, return_exceptions=True)

    run.run(stream())

    (verdict,) = judge_all(trace.trace())
    assert verdict.is_valid, verdict.describe()
    assert not verdict.is_at_rest
    assert "not at rest: permits" in verdict.describe()


# The books of each end are in order in what follows, so that neither notices anything by itself.


class LostOnTheWay(CorePair):
    """The second return of permits never arrives."""

    returns = 0

    def add_permits(self) -> None:
        self.returns += 1
        if self.returns == 2:
            self.grants.popleft()
        super().add_permits()


def recorded(pair_type: type[CorePair], parameters: ChannelParameters, moves: str) -> ChannelTrace:
    """Let a pair make moves: a digit offers and sends a chunk of that size; d, c, a: deliver, consume, add permits."""
    trace = MemoryTrace()
    pair = pair_type(parameters, record=trace.recorder)
    steps = {"d": pair.deliver, "c": pair.consume, "a": pair.add_permits}
    for move in moves:
        if move.isdigit():
            pair.offer_chunk(int(move))
            pair.send_chunk()
        else:
            steps[move]()
    return trace.trace().channels["channel"]


def kth(channel: ChannelTrace, action: str, number: int) -> Event:
    return [event for log in channel.logs for event in log if event.action == action][number - 1]


WIDE = ChannelParameters(row_permits=30, permit_batch=2, max_chunk_cost=10)
# Two returns arrive while others are on their way, and everything comes home in the end.
UNEQUAL_CHUNKS = "234234dddccca3dddccaa"


@pytest.mark.parametrize("by_end", [False, True])
def test_permits_that_were_lost_are_found_at_the_next_return(by_end: bool) -> None:
    channel = recorded(LostOnTheWay, WIDE, UNEQUAL_CHUNKS)

    verdict = judge(channel, by_end=by_end)

    (block,) = verdict.replay.blocked[:1]
    assert block.event == kth(channel, "AddPermits", 2)
    assert block.is_refused
    assert "(4, 0, 0) is no sum of the permits that come back first: ((3, 0, 0)" in block.reason


def test_the_verdict_says_what_happened_where_and_what_was_allowed() -> None:
    verdict = judge(recorded(LostOnTheWay, WIDE, UNEQUAL_CHUNKS))

    first, event, state, allowed, left_over = verdict.describe().splitlines()
    assert first == "channel 'channel': not a behaviour of the specification, after 26 valid events"
    assert event.startswith(
        "  AddPermits (permits: 4 rows), event 16 of the sender, is impossible: (4, 0, 0) is no sum"
    )
    assert "permits on their way back [(3, 0, 0), (4, 0, 0)" in state
    assert "AddPermits of (3, 0, 0)" in allowed
    assert left_over == "  1 later events were not looked at"
