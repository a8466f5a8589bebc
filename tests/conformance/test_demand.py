"""Demand: its schedules step by step; the model leads the core; recorded runs are judged and audited."""

import asyncio
from collections import deque
from itertools import pairwise
from pathlib import Path

import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.errors import (
    InvalidParametersError,
    OverspendError,
    ParameterMismatchError,
    PermitOverrunError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.demand import DEMAND, Demand, DemandReceiver, Request, StatedDemand
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.moves import Divergence, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.demand import DemandPair
from permitflow.testing.traces import judge
from permitflow.tracing import ChannelTrace, MemoryTrace
from permitflow.transports.grpc_blocking import open_sink, open_source
from permitflow_model.demand import SYSTEM, Parameters
from tests.support.recorded_flows import (
    CHUNK,
    assert_every_edge_is_taken,
    broken_clauses,
    drawn_run,
    through_an_exchange,
    without,
)
from tests.support.recordings import audited

# Schedules, step by step.


def schedule(parameters: Demand, consumed: int) -> str:
    """Consumed one by one without a pause: ``S`` a message, ``P`` a request, with how many messages it is for.

    The receiver requests its first ``size`` messages, which no wire carries: both ends know the number.
    """
    sender, receiver = DEMAND.outbound(parameters), DEMAND.inbound(parameters)
    steps = [f"P{parameters.initial}"] if parameters.initial else []
    while receiver.consumed_chunks < consumed:
        came = sender.send_now([1] * 100)
        receiver.deliver_many([1] * came, [1] * came)
        if receiver.try_receive() is not None:
            steps.append("S")
        else:
            assert receiver.ask()
        if (said := receiver.take_feedback()) is not None:
            sender.on_feedback(said)
            steps.append(f"P{said.messages}")
    return " ".join(steps)


@pytest.mark.parametrize(
    ("parameters", "due"),
    [
        (Demand(size=1), "P1 S P1 S P1 S P1 S P1"),
        (Demand(size=2), "P2 S P1 S P1 S P1 S P1"),
        (Demand(size=4), "P4 S S P2 S S P2 S S P2 S S P2"),
        (Demand(size=8), "P8 S S S S P4 S S S S P4 S S S S P4"),
        (Demand(size=16), f"P16{2 * (8 * ' S' + ' P8')}"),
        (Demand(size=4, batch=4), "P4 S S S S P4 S S S S P4"),
        (Demand(size=4, initial=0), "P4 S S P2 S S P2"),
        (Demand(size=5, batch=3, initial=2), "P2 S S P3 S P3 S S S P3"),
    ],
    ids=str,
)
def test_a_schedule_step_by_step(parameters: Demand, due: str) -> None:
    assert schedule(parameters, due.count("S")) == due


def test_a_recorded_run_has_the_steps_of_the_schedule(run: asyncio.Runner) -> None:
    """The text's 4/2: four are requested, then two after every two."""
    trace = MemoryTrace()

    async def stream() -> None:
        sender: LocalSender[str]
        receiver: LocalReceiver[str]
        sender, receiver = open_channel(Demand(size=4, initial=0), record=trace.recorder)
        sending = asyncio.create_task(sender.send_many(deque("abcdefgh")))
        assert [(await receiver.receive()).payload for _ in range(8)] == [*"abcdefgh"]
        await sending

    run.run(stream())
    letters = {"Request": "P", "Consume": "S"}
    events = (event for event in trace.events if event.action in letters)
    steps = [f"{letters[event.action]}{''.join(map(str, event.arguments))}" for event in events]
    assert " ".join(steps) == "P4 S S P2 S S P2 S S P2 S S P2"


def test_a_batch_that_is_consumed_at_once_is_requested_as_if_one_by_one() -> None:
    receiver: DemandReceiver[str] = DemandReceiver(Demand(size=8, batch=3))
    receiver.deliver_many(["m"] * 8, [1] * 8)
    assert len(receiver.receive_many(2)) == 2
    assert (receiver.take_feedback(), receiver.unrequested) == (None, 2)
    assert len(receiver.receive_many(5)) == 5
    assert (receiver.take_feedback(), receiver.unrequested) == (Request(6), 1)


# The model leads the ends.

GRAPHS = [
    Parameters(size=4, batch=2, initial=4, waiters=2, withdrawals=True, tags=7),
    Parameters(size=3, batch=2, initial=0, waiters=2, withdrawals=True, tags=6),
    Parameters(size=2, batch=2, initial=1, waiters=2, withdrawals=True, tags=5),
]


def pair_of(kind: type[DemandPair], parameters: Parameters) -> DemandPair:
    channel = Demand(size=parameters.size, batch=parameters.batch, initial=parameters.initial)
    return kind(channel, tags=parameters.tags)


@pytest.mark.parametrize("parameters", GRAPHS, ids=lambda one: f"{one.size}/{one.batch}/{one.initial}")
def test_the_ends_take_every_edge_and_refuse_everything_else(parameters: Parameters) -> None:
    assert_every_edge_is_taken(SYSTEM, pair_of(DemandPair, parameters), parameters)


class RequestsOnArrival(DemandPair):
    """Requests another message when one arrives."""

    def deliver(self) -> None:
        super().deliver()
        self.consume()


class RequestsSingly(DemandPair):
    """Requests a message more for each one that was consumed."""

    def consume(self) -> None:
        super().consume()
        self.feedback.append(Request(1))


class NeverAsks(DemandPair):
    """Keeps what it withholds."""

    def ask(self) -> None:
        if self.receiver.ask():
            self.receiver.take_feedback()


@pytest.mark.parametrize("wrong", [RequestsOnArrival, RequestsSingly, NeverAsks])
def test_ends_that_do_something_else_are_found_out(wrong: type[DemandPair]) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, pair_of(wrong, GRAPHS[1]), GRAPHS[1])


# Recorded runs.

RECORDED = Parameters(size=4, batch=2, initial=1, waiters=3, withdrawals=True)


def recorded(seed: int, steps: int) -> ChannelTrace:
    """What a random run of both ends recorded."""

    def pair(record: RecorderFactory) -> DemandPair:
        return DemandPair(Demand(size=4, initial=1), record=record)

    return drawn_run(SYSTEM, RECORDED, pair, seed=seed, steps=steps)


def test_a_recorded_run_is_a_behaviour_in_the_opinion_of_the_model_and_of_tlc() -> None:
    channel = recorded(seed=3, steps=300)

    for by_end in (False, True):
        verdict = judge(channel, by_end=by_end)
        assert verdict.is_valid, verdict.describe()
        assert verdict.missing_actions == []
    referee = ask_tlc(channel)

    assert referee.agrees, referee.describe()
    assert referee.walk.reached == referee.steps == 300


def test_a_message_that_was_not_requested_is_impossible_in_both_opinions() -> None:
    channel = recorded(seed=3, steps=300)
    at_sender = [(place, event) for place, event in enumerate(channel.logs[0]) if event.end == "sender"]
    place = next(
        place
        for (place, event), (_, following) in pairwise(at_sender)
        if event.action == "Request" and event.counters == event.arguments and following.action == "Send"
    )

    shortened = without(channel, place)
    verdict, referee = judge(shortened), ask_tlc(shortened)

    assert not verdict.is_valid
    assert verdict.replay.blocked[0].event.action == "Send"
    assert referee.agrees
    assert referee.impossible >= 1


def test_an_audit_holds_a_run_against_the_laws_of_the_protocol(tmp_path: Path) -> None:
    audit = audited(recorded(seed=3, steps=300), tmp_path)
    assert audit.violations == []
    (channel,) = audit.channels
    assert (channel.flow, channel.events, channel.violations) == ("demand", 300, 0)
    assert 10 < channel.consumed_messages <= channel.sent_messages <= channel.consumed_messages + 4


@pytest.mark.parametrize(
    ("action", "clauses"),
    [
        ("Request", {"Conservation"}),
        ("Send", {"Conservation"}),
        ("Offer", {"Offered"}),
        ("Consume", {"Conservation", "RequestsBatched"}),
        ("Ask", {"RequestsBatched"}),
    ],
)
def test_an_event_that_did_not_happen_is_found_by_what_it_would_have_changed(
    action: str, clauses: set[str], tmp_path: Path
) -> None:
    channel = recorded(seed=3, steps=300)
    places = [place for place, event in enumerate(channel.logs[0]) if event.action == action]
    channel = without(channel, places[len(places) // 2])
    assert clauses <= broken_clauses(channel, tmp_path) <= clauses | {"Consumed"}


@pytest.mark.parametrize("parameters", [Demand(size=4), Demand(size=4, batch=4, initial=0), Demand(size=1)], ids=str)
def test_recorded_runs_through_an_exchange_are_behaviours_of_the_specification(
    run: asyncio.Runner, tmp_path: Path, listen: str, parameters: Demand
) -> None:
    for verdict in run.run(through_an_exchange(parameters, listen, 40, tmp_path / "run.jsonl")):
        assert verdict.is_valid, verdict.describe()


# Push and pull.


def test_with_pull_nothing_is_sent_before_the_application_asks(run: asyncio.Runner) -> None:
    async def pull() -> None:
        sender: LocalSender[str]
        receiver: LocalReceiver[str]
        sender, receiver = open_channel(Demand(size=2, initial=0))
        with pytest.raises(WouldBlock, match="has to wait until the receiver requests more"):
            sender.send_nowait("a")
        asking = asyncio.create_task(receiver.receive())
        await asyncio.sleep(0)
        sender.send_nowait("b")
        assert (await asking).payload == "b"
        sender.send_nowait("c")
        sender.send_nowait("d")
        with pytest.raises(WouldBlock):
            sender.send_nowait("more than is requested")

    run.run(pull())


def test_an_application_that_does_not_wait_asks_too(run: asyncio.Runner) -> None:
    async def poll() -> None:
        sender: LocalSender[str]
        receiver: LocalReceiver[str]
        sender, receiver = open_channel(Demand(size=2, initial=0))
        sending = asyncio.create_task(sender.send("a"))
        await asyncio.sleep(0)
        with pytest.raises(WouldBlock, match="no message is here"):
            receiver.receive_nowait()
        await sending
        assert receiver.receive_nowait().payload == "a"

    run.run(poll())


@pytest.mark.parametrize("parameters", [Demand(size=1), Demand(size=4, initial=0), Demand(size=4, batch=4)], ids=str)
def test_blocking_clients_ask_and_report_in_time(run: asyncio.Runner, parameters: Demand) -> None:
    async def serve() -> int:
        exchange = Exchange()
        exchange.add_channel("c", parameters, schema=CHUNK.schema)
        async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server, asyncio.TaskGroup() as group:
            consuming = group.create_task(asyncio.to_thread(consume, server.address))
            group.create_task(asyncio.to_thread(produce, server.address))
            return await consuming

    def produce(address: str) -> None:
        with open_sink(address, "c", CHUNK.schema) as sink:
            for _ in range(50):
                sink.send(CHUNK)
            sink.end(closes_channel=True)

    def consume(address: str) -> int:
        with open_source(address, "c") as source:
            return sum(1 for _ in source)

    assert run.run(serve()) == 50


# What the ends refuse.


def test_a_sender_that_sends_more_than_was_requested_is_refused() -> None:
    receiver = DEMAND.inbound(Demand(size=2, initial=1))
    receiver.deliver_many(["a"], [1])
    with pytest.raises(OverspendError, match="1 requested permits but had only 0"):
        receiver.deliver_many(["b"], [1])
    receiver.try_receive()
    assert receiver.take_feedback() == Request(1)
    receiver.deliver_many(["b"], [1])


def test_a_receiver_that_requests_more_than_may_be_out_is_refused() -> None:
    sender = DEMAND.outbound(Demand(size=2))
    assert sender.send_now([1]) == 1
    with pytest.raises(PermitOverrunError, match="2 messages permits but holds only 1"):
        sender.on_feedback(Request(2))
    for messages in (0, -1):
        with pytest.raises(UnexpectedFrameError, match="one for at least 1"):
            sender.on_feedback(Request(messages))
    sender.on_feedback(Request(1))
    assert sender.send_now([1, 1, 1]) == 2


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        ({"size": 0}, "size must be at least 1, not 0"),
        ({"size": 4, "batch": 5}, "batch must be in 1 .. size = 4, else no batch is ever complete, not 5"),
        ({"size": 4, "batch": -1}, "batch must be in 1 .. size = 4"),
        ({"size": 4, "initial": 5}, "initial must be in 0 .. size = 4, not 5"),
        ({"size": 4, "initial": -2}, "initial must be in 0 .. size = 4, not -2"),
        ({"size": True}, "size must be a whole number"),
        ({"size": "4"}, "size must be a whole number"),
    ],
)
def test_numbers_that_cannot_work_are_refused(numbers: dict[str, int], rule: str) -> None:
    with pytest.raises(InvalidParametersError, match=rule):
        Demand(**numbers)


def test_the_defaults_are_those_of_akka_streams() -> None:
    assert Demand() == Demand(size=16, batch=8, initial=16)
    assert [Demand(size=size).batch for size in (1, 2, 3, 4, 8, 16)] == [1, 1, 1, 2, 4, 8]


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        (StatedDemand(), Demand(size=8, batch=4, initial=8)),
        (StatedDemand(size=4), Demand(size=4, batch=2, initial=4)),
        (StatedDemand(size=99), Demand(size=8, batch=4, initial=8)),
        (StatedDemand(batch=1), Demand(size=8, batch=1, initial=8)),
        (StatedDemand(initial=0), Demand(size=8, batch=4, initial=0)),
        (StatedDemand(size=4, batch=4, initial=0), Demand(size=4, batch=4, initial=0)),
    ],
    ids=str,
)
def test_the_smaller_number_wins(wanted: StatedDemand, agreed: Demand) -> None:
    own = Demand(size=8)
    assert DEMAND.agree(own, wanted) == agreed
    assert DEMAND.verify(DEMAND.state(agreed), wanted) == agreed


@pytest.mark.parametrize(
    ("agreed", "rule"),
    [
        (StatedDemand(4, 2, 5), "initial must be in 0 .. size = 4"),
        (StatedDemand(4, 0, 4), "batch must be at least 1"),
        (StatedDemand(4, 2, -1), "initial must be at least 0"),
        (StatedDemand(4, None, 4), "batch must be stated in the agreement"),
        (StatedDemand(8, 2, 4), "size must not exceed the wish"),
    ],
)
def test_an_agreement_that_cannot_be_is_refused(agreed: StatedDemand, rule: str) -> None:
    with pytest.raises(ParameterMismatchError, match=rule):
        DEMAND.verify(agreed, StatedDemand(size=4))
