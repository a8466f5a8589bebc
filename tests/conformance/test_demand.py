"""Demand: its schedules step by step, push and pull, and what the ends refuse."""

import asyncio
from collections import deque

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, LocalReceiver, LocalSender, RecorderFactory, open_channel
from permitflow.client.blocking import open_sink, open_source
from permitflow.errors import (
    InvalidParametersError,
    OverspendError,
    ParameterMismatchError,
    PermitOverrunError,
    UnexpectedFrameError,
    WouldBlock,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.flows.demand.core import DEMAND, DemandReceiver, DemandSender, Request
from permitflow.flows.seam import Wishes
from permitflow.tracing import MemoryTrace
from permitflow_model.demand import SYSTEM, Parameters
from permitflow_testing.moves import Lockstep
from permitflow_testing.subjects.demand import DemandPair

Ends = tuple[LocalSender[list[str]], LocalReceiver[list[str]]]


def opened(parameters: Demand, record: RecorderFactory | None = None) -> Ends:
    return open_channel(parameters, record=record)


# Schedules, step by step.


def schedule(parameters: Demand, consumed: int) -> str:
    """Consumed one by one without a pause: ``S`` a message, ``P`` a request, with how many messages it is for.

    The receiver requests its first ``initial`` messages, which no wire carries: both ends know the number.
    Model and ends make the run together.
    """
    constants = Parameters(size=parameters.size, batch=parameters.batch, initial=parameters.initial, waiters=1)
    run = Lockstep(SYSTEM, DemandPair(parameters), constants)
    steps = [f"P{parameters.initial}"] if parameters.initial else []
    while steps.count("S") < consumed:
        while run.state.credit:
            for action in ("Offer", "Send", "Deliver"):
                run.do(action)
        if run.state.inbox.size():
            run.do("Consume")
            steps.append("S")
        else:
            run.do("RequestWithheld")
        if requested := run.state.requests:
            run.do("Request", requested)
            steps.append(f"P{requested}")
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
def test_a_schedule_has_the_steps_of_the_text(parameters: Demand, due: str) -> None:
    assert schedule(parameters, due.count("S")) == due


async def test_a_recorded_run_has_the_steps_of_the_schedule() -> None:
    """The text's 4/2: four are requested, then two after every two."""
    trace = MemoryTrace()
    sender, receiver = opened(Demand(size=4, initial=0), trace.recorder)
    sending = asyncio.create_task(sender.send_many(deque([letter] for letter in "abcdefgh")))
    assert [(await receiver.receive()).payload for _ in range(8)] == [[letter] for letter in "abcdefgh"]
    await sending
    letters = {"Request": "P", "Consume": "S"}
    events = (event for event in trace.events if event.action in letters)
    steps = [f"{letters[event.action]}{''.join(map(str, event.arguments))}" for event in events]
    assert " ".join(steps) == "P4 S S P2 S S P2 S S P2 S S P2"


def test_a_batch_consumed_at_once_is_requested_as_if_one_by_one() -> None:
    receiver: DemandReceiver[str] = DemandReceiver(Demand(size=8, batch=3))
    receiver.deliver_many(["m"] * 8, [1] * 8)
    assert len(receiver.receive_many(2)) == 2
    assert (receiver.take_feedback(), receiver.unrequested) == (None, 2)
    assert len(receiver.receive_many(5)) == 5
    assert (receiver.take_feedback(), receiver.unrequested) == (Request(6), 1)


def test_the_ends_tell_what_is_requested_and_what_is_withheld() -> None:
    parameters = Demand(size=8, batch=3, initial=2)
    sender, receiver = DemandSender[str](parameters), DemandReceiver[str](parameters)
    assert sender.gauges() == {"messages_requested": 2}
    receiver.deliver_many(["m"] * 2, [1] * 2)
    receiver.receive_many(2)
    assert receiver.gauges() == {"messages_unrequested": 2, "messages_withheld": 6}


# Push and pull.


async def test_with_pull_nothing_is_sent_before_the_application_asks() -> None:
    sender, receiver = opened(Demand(size=2, initial=0))
    with pytest.raises(WouldBlock, match="has to wait until the receiver requests more"):
        sender.send_nowait(["a"])
    asking = asyncio.create_task(receiver.receive())
    await asyncio.sleep(0)
    sender.send_nowait(["b"])
    assert (await asking).payload == ["b"]
    sender.send_nowait(["c"])
    sender.send_nowait(["d"])
    with pytest.raises(WouldBlock):
        sender.send_nowait(["more than is requested"])


async def test_an_application_that_does_not_wait_asks_too() -> None:
    sender, receiver = opened(Demand(size=2, initial=0))
    sending = asyncio.create_task(sender.send(["a"]))
    await asyncio.sleep(0)
    with pytest.raises(WouldBlock, match="no message is here"):
        receiver.receive_nowait()
    await sending
    assert receiver.receive_nowait().payload == ["a"]


@pytest.mark.parametrize(
    "parameters",
    [
        Demand(size=1),
        Demand(size=4, initial=0),
        Demand(size=4, batch=4),
        ChannelParameters(row_permits=8, permit_batch=2, initial_permits=0),
    ],
    ids=str,
)
async def test_blocking_clients_ask_and_report_in_time(parameters: Demand | ChannelParameters) -> None:
    chunk = pa.record_batch({"n": [1, 2, 3]})

    def produce(address: str) -> None:
        with open_sink(address, "c", chunk.schema) as sink:
            for _ in range(50):
                sink.send(chunk)
            sink.end(closes_channel=True)

    def consume(address: str) -> int:
        with open_source(address, "c") as source:
            return sum(1 for _ in source)

    exchange = Exchange()
    exchange.add_channel("c", parameters, schema=chunk.schema)
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
        producing = asyncio.to_thread(produce, server.address)
        _, came = await asyncio.gather(producing, asyncio.to_thread(consume, server.address))
    assert came == 50


# What the ends refuse.


def test_a_sender_that_sends_more_than_was_requested_is_refused() -> None:
    receiver = DEMAND.inbound(Demand(size=2, initial=1))
    receiver.deliver_many(["a"], [1])
    with pytest.raises(OverspendError, match="sent 1 messages but only 0 were requested"):
        receiver.deliver_many(["b"], [1])
    receiver.try_receive()
    assert receiver.take_feedback() == Request(1)
    receiver.deliver_many(["b"], [1])


def test_a_receiver_that_requests_more_than_may_be_out_is_refused() -> None:
    sender = DEMAND.outbound(Demand(size=2))
    assert sender.send_now([1]) == 1
    with pytest.raises(PermitOverrunError, match="requested 2 messages and may request only 1"):
        sender.on_feedback(Request(2))
    for messages in (0, -1):
        with pytest.raises(UnexpectedFrameError, match="one for at least 1"):
            sender.on_feedback(Request(messages))
    sender.on_feedback(Request(1))
    assert sender.send_now([1, 1, 1]) == 2


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        ({"size": 0}, "size must be a whole number of at least 1, not 0"),
        ({"size": 4, "batch": 5}, "batch must be in 1 .. size = 4, else no batch is ever complete, not 5"),
        ({"size": 4, "batch": -1}, "batch must be a whole number of at least 0, not -1"),
        ({"size": 4, "initial": 5}, "initial must be in 0 .. size = 4, not 5"),
        ({"size": 4, "initial": -2}, "initial must be a whole number of at least 0, not -2"),
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
        (DEMAND.wishes(), Demand(size=8, batch=4, initial=8)),
        (DEMAND.wishes(size=4), Demand(size=4, batch=2, initial=4)),
        (DEMAND.wishes(size=99), Demand(size=8, batch=4, initial=8)),
        (DEMAND.wishes(batch=1), Demand(size=8, batch=1, initial=8)),
        (DEMAND.wishes(initial=0), Demand(size=8, batch=4, initial=0)),
        (DEMAND.wishes(size=4, batch=4, initial=0), Demand(size=4, batch=4, initial=0)),
    ],
    ids=str,
)
def test_the_smaller_number_wins(wanted: Wishes, agreed: Demand) -> None:
    own = Demand(size=8)
    assert DEMAND.agree(own, wanted) == agreed
    assert DEMAND.verify(DEMAND.state(agreed), wanted) == agreed


@pytest.mark.parametrize(
    ("agreed", "rule"),
    [
        (DEMAND.wishes(4, 2, 5), "initial must be in 0 .. size = 4"),
        (DEMAND.wishes(4, 0, 4), "batch must be at least 1"),
        (DEMAND.wishes(4, 2, -1), "initial must be at least 0"),
        (DEMAND.wishes(4, None, 4), "batch must be stated in the agreement"),
        (DEMAND.wishes(8, 2, 4), "size must not exceed the wish"),
    ],
)
def test_an_agreement_that_cannot_be_is_refused(agreed: Wishes, rule: str) -> None:
    with pytest.raises(ParameterMismatchError, match=rule):
        DEMAND.verify(agreed, DEMAND.wishes(size=4))
