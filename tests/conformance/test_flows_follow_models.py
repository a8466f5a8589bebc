"""Each flow beside its model: the model leads both ends through state graphs; recorded runs are judged.

What is particular to permits is in test_core_follows_model.py, and to demand in test_demand.py.
"""

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from permitflow import (
    ChannelParameters,
    Demand,
    LocalReceiver,
    LocalSender,
    Oversize,
    Parameters,
    SquelchParameters,
    open_channel,
)
from permitflow.client import get, put
from permitflow.errors import TraceMismatchError
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.flows.demand.core import Request
from permitflow.flows.recording import ENDS
from permitflow.tracing import ChannelTrace, Event, FileTrace, MemoryTrace, read_trace
from permitflow_model import demand, permit_channel, squelch
from permitflow_model.kernel.system import System
from permitflow_testing import Divergence
from permitflow_testing.core_pair import FlowPair
from permitflow_testing.moves import Lockstep, Move, walk
from permitflow_testing.referee import ask_tlc
from permitflow_testing.subjects.demand import DemandPair
from permitflow_testing.subjects.permits import CorePair, model_of
from permitflow_testing.traces import judge, judge_all
from tests.support.squelch_pair import SquelchPair, model_parameters


class Channel(NamedTuple):
    """A channel, with its constants in the specification."""

    agreed: Any
    constants: Any


class Flow(NamedTuple):
    """A flow and its model."""

    pair: type[FlowPair]
    system: System[Any, Any]
    recorded: Channel
    without: tuple[str, ...]
    """Events of which none may be left out of a run."""
    graphs: Mapping[str, Channel] = {}
    wrong: tuple[type[FlowPair], ...] = ()
    """Ends with mistakes; the first graph shows them."""


class RequestsSingly(DemandPair):
    """Requests a message more for each one that was consumed."""

    def consume(self) -> None:
        super().consume()
        self.feedback.append(Request(1))


class NeverAsks(DemandPair):
    """Keeps what it withholds."""

    def request_withheld(self) -> None:
        if self.receiver.ask():
            self.receiver.take_feedback()


class RepeatsAtOnce(SquelchPair):
    """Repeats what it has told."""

    def send_xoff(self) -> None:
        super().send_xoff()
        self.feedback.append(self.feedback[-1])
        self._world = squelch.told_now(self._world, squelch.OFF)


class HearsTheNewest(SquelchPair):
    """Lets a signal overtake the one before it."""

    def receive_signal(self) -> None:
        self.feedback.reverse()
        super().receive_signal()


def demanded(size: int, batch: int, initial: int, *, waiters: int = 2) -> Channel:
    constants = demand.Parameters(
        size=size, batch=batch, initial=initial, waiters=waiters, withdrawals=True, tags=size + waiters + 1
    )
    return Channel(Demand(size=size, batch=batch, initial=initial), constants)


def squelched(waiters: int, *, reminders: bool = False, **numbers: int) -> Channel:
    agreed = SquelchParameters(**numbers)
    return Channel(agreed, model_parameters(agreed, waiters, reminders=reminders))


PULLED = ChannelParameters(row_permits=8, permit_batch=2, max_chunk_cost=3, initial_permits=3)

FLOWS = {
    "permits, pulled": Flow(
        CorePair,
        permit_channel.SYSTEM,
        Channel(PULLED, model_of(PULLED, sizes=(0, 1, 3), waiters=3)),
        ("AddPermits",),
    ),
    "demand": Flow(
        DemandPair,
        demand.SYSTEM,
        demanded(4, 2, 1, waiters=3),
        ("Request", "Send", "Offer", "Consume", "RequestWithheld"),
        {
            "1/1/1": demanded(1, 1, 1, waiters=3),
            "3/2/0": demanded(3, 2, 0),
            "4/2/4": demanded(4, 2, 4),
            "2/2/1": demanded(2, 2, 1),
        },
        (RequestsSingly, NeverAsks),
    ),
    "squelch": Flow(
        SquelchPair,
        squelch.SYSTEM,
        squelched(3, high=1, low=0, rate=2, signal_delay=1, data_delay=2),
        ("ReceiveSignal", "SendXoff", "SendXon", "Deliver", "Offer"),
        {
            "at once": squelched(1, reminders=True, high=2, low=2, rate=2, signal_delay=0, data_delay=1),
            "lossless": squelched(1, reminders=True, high=1, low=0, rate=2, signal_delay=1, data_delay=1),
            "lossy": squelched(1, reminders=True, high=2, low=1, rate=1, signal_delay=1, data_delay=1, losses=2),
        },
        (RepeatsAtOnce, HearsTheNewest),
    ),
}


# Where signals are lost, each action is.
@pytest.mark.parametrize(
    ("flow", "graph"),
    [
        pytest.param(name, graph, marks=pytest.mark.long if graph == "lossless" else ())
        for name, flow in FLOWS.items()
        for graph in flow.graphs
    ],
)
def test_the_ends_take_every_edge_and_refuse_everything_else(flow: str, graph: str) -> None:
    pair, system, *_ = FLOWS[flow]
    agreed, constants = FLOWS[flow].graphs[graph]
    done = walk(system, pair(agreed, tags=getattr(constants, "tags", 1)), constants)
    assert min(done.edges, done.refusals) > 100


@pytest.mark.parametrize(("flow", "wrong"), [(name, wrong) for name, flow in FLOWS.items() for wrong in flow.wrong])
def test_ends_that_do_something_else_are_found_out(flow: str, wrong: type[FlowPair]) -> None:
    agreed, constants = next(iter(FLOWS[flow].graphs.values()))
    with pytest.raises(Divergence):
        walk(FLOWS[flow].system, wrong(agreed, tags=getattr(constants, "tags", 1)), constants)


# Recorded runs.


@cache
def recorded(name: str) -> ChannelTrace:
    """What a random run of both ends recorded, in which much is sent and little consumed."""
    flow, trace, choose = FLOWS[name], MemoryTrace(), random.Random(3)
    agreed, constants = flow.recorded
    tags = getattr(constants, "tags", 1)
    run = Lockstep(flow.system, flow.pair(agreed, tags=tags, record=trace.recorder), constants)

    def weight(move: Move) -> int:
        return 1 if move.action in ("Consume", "Tick") or move.action.startswith("Withdraw") else 3

    for _ in range(300):
        enabled = run.enabled()
        run.make(*choose.choices(enabled, [*map(weight, enabled)]))
    return trace.trace().channels["channel"]


def changed(channel: ChannelTrace, action: str, *instead: tuple[int, ...]) -> ChannelTrace:
    """The run without one such event in its middle; ``instead``: with other arguments."""
    (log,) = channel.logs
    places = [place for place, event in enumerate(log) if event.action == action]
    place = places[len(places) // 2]
    put_in = [log[place]._replace(arguments=arguments, counters=()) for arguments in instead]
    counts = {end: count(1) for end in ENDS}
    events = (*log[:place], *put_in, *log[place + 1 :])
    return replace(channel, logs=(tuple(event._replace(sequence=next(counts[event.end])) for event in events),))


# One is in make test: each takes a start of TLC, and the models' graphs are compared with TLC's.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "demand" else pytest.mark.long) for name in FLOWS]
)
def test_model_and_tlc_accept_a_recorded_run(name: str) -> None:
    channel = recorded(name)
    for by_end in (False, True) if name != "squelch" else (False,):
        verdict = judge(channel, by_end=by_end)
        assert verdict.is_valid, verdict.describe()
    referee = ask_tlc(channel)
    assert referee.agrees, referee.describe()
    assert referee.walk.reached == referee.steps >= verdict.replay.performed
    assert min(passed.messages for passed in verdict.passed.values()) > 10


@pytest.mark.parametrize(
    ("name", "action"), [(name, action) for name, flow in FLOWS.items() for action in flow.without]
)
def test_a_run_that_lacks_an_event_is_none(name: str, action: str) -> None:
    assert not judge(changed(recorded(name), action)).is_valid


def test_tlc_too_finds_an_early_message_impossible() -> None:
    channel = changed(recorded("demand"), next(iter(FLOWS["demand"].without)))
    referee = ask_tlc(channel)
    assert "is impossible" in judge(channel).describe()
    assert referee.agrees, referee.describe()
    assert referee.impossible >= 1


def test_what_was_withheld_is_granted_once() -> None:
    def first_grant(event: Event) -> bool:
        return event.action == "AddPermits" and event.arguments[1] == 5

    (log,) = recorded("permits, pulled").logs
    place = next(place for place, event in enumerate(log) if first_grant(event))
    twice = log[place]._replace(arguments=(0, 10, 0, 0), counters=())
    channel = replace(recorded("permits, pulled"), logs=((*log[:place], twice, *log[place + 1 :]),))
    assert not judge(channel).is_valid


@pytest.mark.parametrize("end", ENDS)
def test_one_end_alone_is_judged_if_it_determines_the_other(end: Any) -> None:
    def alone(name: str) -> ChannelTrace:
        channel = recorded(name)
        own = tuple(event for event in channel.logs[0] if event.end == end)
        return replace(channel, ends=frozenset({end}), logs=(own,))

    assert judge(alone("permits, pulled")).is_valid
    with pytest.raises(TraceMismatchError, match="both ends must have been recorded"):
        judge(alone("demand"))


# Runs that the model did not lead.


@pytest.mark.parametrize(
    "agreed",
    [
        ChannelParameters(row_permits=16, permit_batch=2, initial_permits=0),
        Demand(size=1, batch=1),
        Demand(size=4, initial=0),
        SquelchParameters(high=4, low=1, rate=16, signal_delay=0, data_delay=2),
    ],
    ids=str,
)
async def test_a_run_of_the_local_channel_is_a_behaviour_at_rest(agreed: Parameters) -> None:
    """Messages of all kinds, one of them given up, with a watermark that is replaced."""
    trace = MemoryTrace()
    ends: tuple[LocalSender[bytes], LocalReceiver[bytes]] = open_channel(agreed, record=trace.recorder)
    sender, receiver = ends

    async def produce() -> None:
        for text in (b"abc", b"", b"d"):
            await sender.send(text)
        leaving, given_up = (asyncio.create_task(sender.send(text)) for text in (b"leaves", b"is given up"))
        await asyncio.sleep(0)
        given_up.cancel()
        await leaving
        sender.send_watermark(b"old")
        sender.send_watermark(b"new")
        await sender.send_barrier(b"epoch")
        await sender.send_many(deque([b"e", b"fg"] * 9))
        await sender.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        await asyncio.sleep(0)
        received = [message.payload async for message in receiver]
    # Whether there is room at once depends on the flow.
    due = [b"abc", b"", b"d", b"leaves", b"new", b"epoch", *[b"e", b"fg"] * 9]
    assert [text for text in received if text not in (b"is given up", b"old")] == due
    (verdict,) = judge_all(trace.trace())
    assert verdict.is_valid, verdict.describe()
    assert verdict.is_at_rest, verdict.describe()


CHUNK = pa.record_batch({"n": [1, 2, 3]})


@pytest.mark.parametrize(
    "agreed",
    [
        Demand(size=1, batch=1),
        Demand(size=4),
        Demand(size=4, batch=4, initial=0),
        ChannelParameters(row_permits=8, permit_batch=2, initial_permits=0),
        *(ChannelParameters(row_permits=8, max_chunk_cost=2, oversize=oversize) for oversize in Oversize),
    ],
    ids=str,
)
async def test_a_run_through_an_exchange_is_three_behaviours(tmp_path: Path, listen: str, agreed: Parameters) -> None:
    with FileTrace(tmp_path / "run.jsonl") as trace:
        exchange = Exchange(record=trace.recorder)
        exchange.add_channel("c", agreed)
        async with (
            ExchangeServer(exchange, listen) as server,
            put(server.address, "c", CHUNK.schema, record=trace.recorder) as sender,
            get(server.address, "c", record=trace.recorder) as receiver,
            asyncio.TaskGroup() as group,
        ):

            async def produce() -> None:
                for _ in range(30):
                    await sender.send(CHUNK)
                await sender.send_barrier("epoch")
                await sender.end()

            group.create_task(produce())
            assert sum([message.rows async for message in receiver]) == 90
    read = read_trace(tmp_path / "run.jsonl")
    assert {*read.channels} == {"c#put1", "c", "c#get1"}
    for verdict in (*judge_all(read), *judge_all(read, by_end=True)):
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()
