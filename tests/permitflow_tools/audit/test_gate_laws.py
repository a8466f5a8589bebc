"""An audit finds what did not happen in a gate's input, by what it would have changed."""

import asyncio
import random
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from permitflow import GateParameters, InputGate, LocalSender
from permitflow.flows.recording import ENDS
from permitflow.tracing import ChannelTrace, Event, MemoryTrace
from permitflow_tools.audit.flows.gate import NOTHING_BEHIND
from tests.support.recordings import audited


async def produce(sender: LocalSender[list[int]], choose: random.Random) -> None:
    for epoch in range(6):
        for _ in range(5):
            await sender.send([epoch] * choose.randint(0, 4))
        await sender.send_barrier()
    await sender.end()


async def gate_of(trace: MemoryTrace) -> None:
    """Two inputs that share all of their credit."""
    parameters = GateParameters(inputs=2, exclusive=0, floating=7)
    async with InputGate[list[int]](parameters) as gate, asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(produce(gate.open_channel(name, record=trace.recorder), random.Random(name)))
        async for _ in gate:
            pass


@pytest.fixture
def recorded(run: asyncio.Runner) -> ChannelTrace:
    trace = MemoryTrace()
    run.run(gate_of(trace))
    return trace.trace().channels["a"]


def found(channel: ChannelTrace, events: list[Event], folder: Path) -> set[str]:
    """The clauses that an audit finds broken; each end's events are numbered anew."""
    counts = {end: count(1) for end in ENDS}
    log = tuple(event._replace(sequence=next(counts[event.end])) for event in events)
    return {violation.clause for violation in audited(replace(channel, logs=(log,)), folder).violations}


def test_a_run_holds_all_laws(recorded: ChannelTrace, tmp_path: Path) -> None:
    assert found(recorded, list(recorded.logs[0]), tmp_path) == set()


@pytest.mark.parametrize(
    "action", ["SendData", "SendBarrier", "Hear", "Borrow", "Grant", "ConsumeData", "Align", "Deliver", "OfferData"]
)
def test_an_event_that_did_not_happen_is_found(recorded: ChannelTrace, action: str, tmp_path: Path) -> None:
    events = list(recorded.logs[0])
    place = next(number for number, event in enumerate(events) if number > len(events) // 2 and event.action == action)
    due = "Offered" if action == "OfferData" else "Conservation"
    assert due in found(recorded, events[:place] + events[place + 1 :], tmp_path)


def test_data_behind_a_barrier_are_found(recorded: ChannelTrace, tmp_path: Path) -> None:
    events = list(recorded.logs[0])
    sent = next(event for event in events if event.action == "SendData")
    place = next(number for number, event in enumerate(events) if event.action == "SendBarrier")
    behind = sent._replace(counters=events[place].counters)
    assert NOTHING_BEHIND in found(recorded, [*events[: place + 1], behind, *events[place + 1 :]], tmp_path)
