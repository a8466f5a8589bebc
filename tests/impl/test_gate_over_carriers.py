"""A join of two upstreams through an exchange: under back-pressure its recorded runs are behaviours of the model."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import pyarrow as pa
import pytest

from permitflow import AlignedBarrier, ChannelParameters, GateChunk, GateParameters, InputGate, SendEnd
from permitflow.client import RemoteSender, get, put
from permitflow.errors import InputLostError, InvalidParametersError, ParameterMismatchError
from permitflow.tracing import MemoryTrace
from permitflow_testing.subjects.input_gate import judge_gate
from permitflow_testing.traces import judge
from tests.impl.test_flows import CARRIERS
from tests.support.served import served

SCHEMA = pa.schema([("epoch", pa.int64())])
NAMES = ("left", "right")
BARRIER_SECONDS = 0.1
CHUNK_ROWS = 3


class Joined(NamedTuple):
    """A gate of two channels of an exchange."""

    gate: InputGate[pa.RecordBatch]
    senders: list[RemoteSender]
    streams: list[str]
    trace: MemoryTrace


@asynccontextmanager
async def joined(parameters: GateParameters, carrier: str) -> AsyncIterator[Joined]:
    """Two producers, an exchange, and a gate."""
    listen, same_host = CARRIERS[carrier]
    trace = MemoryTrace()
    serving = served(*NAMES, parameters=parameters, listen=listen, record=trace.recorder)
    async with serving as (_, address), AsyncExitStack() as stack:
        senders = [await stack.enter_async_context(put(address, name, SCHEMA, same_host=same_host)) for name in NAMES]
        gate: InputGate[pa.RecordBatch] = await stack.enter_async_context(InputGate(parameters))
        streams = []
        for name in NAMES:
            receiver = await stack.enter_async_context(
                get(address, name, wanted=parameters, record=trace.recorder, same_host=same_host, group=gate.group)
            )
            gate.add(receiver)
            streams.append(receiver.stream)
        yield Joined(gate, senders, streams, trace)


async def produce(sender: SendEnd[pa.RecordBatch], seconds: float, barriers: int) -> None:
    """Chunks of the epoch without end, and a barrier after each interval."""
    clock = asyncio.get_running_loop().time
    for epoch in range(barriers):
        chunk = pa.record_batch({"epoch": [epoch] * CHUNK_ROWS}, schema=SCHEMA)
        until = clock() + seconds
        while True:
            await sender.send(chunk)
            if clock() >= until:
                break
        await sender.send_barrier(epoch)
    await sender.end()


@pytest.mark.parametrize(
    ("exclusive", "floating", "carrier"),
    [(0, 12, "gRPC"), (12, 12, "gRPC"), (12, 0, "TCP"), (0, 12, "TCP"), (6, 6, "same host"), (0, 12, "same host")],
)
async def test_a_join_with_a_barrier_every_tenth_of_a_second_is_a_behaviour(
    exclusive: int, floating: int, carrier: str
) -> None:
    parameters = GateParameters(inputs=2, exclusive=exclusive, floating=floating)
    barriers = 4
    counted: Counter[str] = Counter()
    async with joined(parameters, carrier) as join, asyncio.timeout(30), asyncio.TaskGroup() as group:
        for sender in join.senders:
            group.create_task(produce(sender, BARRIER_SECONDS, barriers))
        epoch = 0
        async for item in join.gate:
            match item:
                case GateChunk(source, payload):
                    assert payload["epoch"].unique().to_pylist() == [epoch]
                    counted[source] += payload.num_rows
                    await asyncio.sleep(0.001)  # the consumer is the bottleneck
                case AlignedBarrier(number, payloads):
                    assert (number, payloads) == (epoch, dict.fromkeys(NAMES, epoch))
                    epoch += 1
        assert epoch == barriers
        statistics = join.gate.statistics()
        assert (statistics.alignments, statistics.given_up, statistics.pool) == (barriers, 0, floating)
    assert min(counted.values()) > barriers * CHUNK_ROWS
    events = [event for event in join.trace.events if event.channel in join.streams]
    judged = judge_gate(events, parameters, join.streams)
    assert judged.is_valid, (judged.performed, judged.blocked, judged.broken)
    assert judged.performed == len(events)
    for stream in join.streams:
        channel = join.trace.trace().channels[stream]
        verdict = judge(channel)
        assert verdict.is_valid, verdict.describe()
    most = max(event.counters[0] for event in events if event.end == "receiver")
    assert 0 < most <= parameters.window_rows  # it had to wait, and never stored more than it has credit


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_producer_that_dies_fails_the_gate_and_is_named(carrier: str) -> None:
    async with joined(GateParameters(inputs=2), carrier) as join, asyncio.timeout(20):
        left, right = join.senders
        await left.send_barrier(1)
        await right.send(pa.record_batch({"epoch": [0]}, schema=SCHEMA))
        assert isinstance(await join.gate.receive(), GateChunk)
        right.close()
        with pytest.raises(InputLostError, match="input 'right' of the gate is lost"):
            await join.gate.receive()


async def test_an_exchange_tells_the_gate_all_that_it_has_at_hand() -> None:
    """With one chunk told at a time, each would take a round trip."""
    chunks = 40
    async with joined(GateParameters(inputs=2, exclusive=0, floating=1_000), "gRPC") as join, asyncio.timeout(20):
        chunk = pa.record_batch({"epoch": [0] * CHUNK_ROWS}, schema=SCHEMA)
        await join.senders[0].send_many(deque([chunk] * chunks))
        for _ in range(chunks):
            await join.gate.receive()
        grants = [e for e in join.trace.events if e.channel == join.streams[0] and e.action == "Grant"]
    assert sum(event.arguments[0] for event in grants) == chunks * CHUNK_ROWS
    assert len(grants) < chunks / 4


async def test_what_came_behind_a_barrier_is_asked_for_on_resumption() -> None:
    """With the one chunk told that waited first, a gate that is far away would starve for another round trip."""
    chunks = 10
    async with joined(GateParameters(inputs=2, exclusive=0, floating=1_000), "gRPC") as join, asyncio.timeout(20):
        left, right = join.senders
        await left.send_barrier(1)
        for _ in range(chunks):
            await left.send(pa.record_batch({"epoch": [1] * CHUNK_ROWS}, schema=SCHEMA))
        await right.send(pa.record_batch({"epoch": [0]}, schema=SCHEMA))
        assert isinstance(await join.gate.receive(), GateChunk)
        await right.send_barrier(1)
        assert isinstance(await join.gate.receive(), AlignedBarrier)
        assert isinstance(await join.gate.receive(), GateChunk)
    actions = [
        (event.action, event.arguments[0] if event.arguments else 0)
        for event in join.trace.events
        if (event.channel, event.end) == (join.streams[0], "receiver")
    ]
    resumed = actions[actions.index(("Align", 0)) :]
    before_data = resumed[: resumed.index(("Deliver", CHUNK_ROWS))]
    assert sum(credit for action, credit in before_data if action == "Grant") == chunks * CHUNK_ROWS


async def test_a_refused_input_leaves_channel_and_gate_as_they_were() -> None:
    parameters = GateParameters(inputs=2, exclusive=0, floating=8)
    gate: InputGate[pa.RecordBatch] = InputGate(parameters)
    serving = served(*NAMES, parameters=GateParameters(exclusive=0, floating=100), schema=SCHEMA)
    async with serving as (exchange, address), gate, asyncio.timeout(20):
        with pytest.raises(InvalidParametersError, match="max_chunk_cost must be at most 4"):
            async with get(address, "left", group=gate.group):
                pass
        async with AsyncExitStack() as stack:
            for name in NAMES:
                receiver = get(address, name, wanted=parameters, group=gate.group)
                gate.add(await stack.enter_async_context(receiver))
            sender = exchange.channel("left").sender
            sending = asyncio.create_task(sender.send(pa.record_batch({"epoch": [0] * 100}, schema=SCHEMA)))
            rows = 0
            while rows < 100:
                chunk = await gate.receive()
                assert isinstance(chunk, GateChunk)
                rows += chunk.rows
            await sending


async def test_a_channel_of_another_flow_is_refused() -> None:
    gate: InputGate[pa.RecordBatch] = InputGate(GateParameters())
    async with served("left", parameters=ChannelParameters()) as (_, address), put(address, "left", SCHEMA):
        with pytest.raises(InvalidParametersError, match="channels of flow permits share nothing"):
            async with get(address, "left", group=gate.group):
                pass
        with pytest.raises(ParameterMismatchError):
            async with get(address, "left", wanted=gate.parameters, group=gate.group):
                pass
