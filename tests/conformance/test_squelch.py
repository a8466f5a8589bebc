"""Squelch: the model leads both ends through its state graph, and recorded runs are judged and audited."""

import asyncio
from collections import deque
from pathlib import Path

import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.squelch import SquelchParameters
from permitflow.testing.moves import Divergence, Move, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.squelch import SquelchPair, model_parameters
from permitflow.testing.traces import judge, judge_all
from permitflow.tracing import ChannelTrace, MemoryTrace
from permitflow_model.squelch import SYSTEM
from tests.support.recorded_flows import (
    assert_every_edge_is_taken,
    assert_one_end_is_not_judged,
    broken_clauses,
    drawn_run,
    place_of,
    without,
)
from tests.support.recordings import audited

LOSSLESS = SquelchParameters(high=1, low=0, rate=2, signal_delay=1, data_delay=2)
AT_ONCE = SquelchParameters(high=2, low=2, rate=2, signal_delay=0, data_delay=1)
LOSSY = SquelchParameters(high=2, low=1, rate=1, signal_delay=1, data_delay=1, losses=2)


@pytest.mark.parametrize("parameters", [LOSSLESS, AT_ONCE, LOSSY], ids=["lossless", "at once", "lossy"])
def test_the_ends_take_every_edge_and_refuse_everything_else(parameters: SquelchParameters) -> None:
    of_model = model_parameters(parameters, waiters=1, reminders=True)
    assert_every_edge_is_taken(SYSTEM, SquelchPair(parameters), of_model)


class RepeatsAtOnce(SquelchPair):
    """Repeats what it has told."""

    def tell_off(self) -> None:
        super().tell_off()
        self.feedback.append(self.feedback[-1])
        self._gaps.append(0)
        self._told_at.append(self._now)


class HearsTheNewest(SquelchPair):
    """Lets a signal overtake the one before it."""

    def hear(self) -> None:
        self.feedback.reverse()
        super().hear()


@pytest.mark.parametrize("wrong", [RepeatsAtOnce, HearsTheNewest])
def test_ends_that_do_something_else_are_found_out(wrong: type[SquelchPair]) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, wrong(AT_ONCE), model_parameters(AT_ONCE, waiters=1))


def recorded(seed: int, steps: int) -> ChannelTrace:
    """What a random run of both ends recorded, in which much is sent and little consumed."""

    def pair(record: RecorderFactory) -> SquelchPair:
        return SquelchPair(LOSSLESS, record=record)

    def weight(move: Move) -> int:
        return 1 if move.action in ("Consume", "Withdraw", "Tick") else 3

    of_model = model_parameters(LOSSLESS, waiters=3)
    return drawn_run(SYSTEM, of_model, pair, seed=seed, steps=steps, weight=weight)


def test_a_recorded_run_is_a_behaviour_in_the_opinion_of_the_model_and_of_tlc() -> None:
    channel = recorded(seed=3, steps=300)

    verdict = judge(channel)
    assert verdict.is_valid, verdict.describe()
    assert {event.action for log in channel.logs for event in log} >= {"TellOff", "TellOn", "Hear"}
    referee = ask_tlc(channel)

    assert referee.agrees, referee.describe()
    assert referee.walk.reached == referee.steps


@pytest.mark.parametrize("action", ["Hear", "TellOff", "TellOn", "Deliver"])
def test_a_run_that_lacks_an_event_is_impossible(action: str) -> None:
    channel = recorded(seed=3, steps=300)
    assert not judge(without(channel, place_of(channel, action))).is_valid


def test_one_end_alone_is_not_judged() -> None:
    assert_one_end_is_not_judged(recorded(seed=1, steps=50))


def test_an_audit_holds_a_run_against_the_laws_of_the_protocol(tmp_path: Path) -> None:
    audit = audited(recorded(seed=3, steps=300), tmp_path)
    assert audit.violations == []
    (channel,) = audit.channels
    assert (channel.flow, channel.violations) == ("squelch", 0)
    assert channel.sent_messages >= channel.consumed_messages > 10


@pytest.mark.parametrize(
    ("action", "clauses"),
    [
        ("Deliver", {"Conservation"}),
        ("Offer", {"Offered"}),
        ("TellOff", {"Conservation", "ToldWhenDue"}),
        ("Hear", {"SilentWhileStopped"}),
    ],
)
def test_an_event_that_did_not_happen_is_found_by_what_it_would_have_changed(
    action: str, clauses: set[str], tmp_path: Path
) -> None:
    channel = recorded(seed=3, steps=300)
    assert broken_clauses(without(channel, place_of(channel, action)), tmp_path) & clauses


# Runs that the model did not lead.


async def stream(sender: LocalSender[str], receiver: LocalReceiver[str]) -> list[object]:
    """Messages of all kinds, one of them given up, with a watermark that is replaced."""

    async def produce() -> None:
        for number in range(5):
            await sender.send("x" * number)
        given_up = asyncio.create_task(sender.send("is given up"))
        await asyncio.sleep(0)
        given_up.cancel()
        sender.send_watermark("old")
        sender.send_watermark("new")
        await sender.send_barrier("epoch")
        await sender.send_many(deque(["e", "fg"] * 9))
        await sender.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        for _ in range(3):
            await asyncio.sleep(0)
        return [message.payload async for message in receiver]


def test_a_recorded_local_run_is_a_behaviour_of_the_specification(run: asyncio.Runner, tmp_path: Path) -> None:
    trace = MemoryTrace()
    ends: tuple[LocalSender[str], LocalReceiver[str]]
    ends = open_channel(SquelchParameters(high=4, low=1, rate=16, signal_delay=0, data_delay=2), record=trace.recorder)
    received = run.run(stream(*ends))
    assert received == ["", "x", "xx", "xxx", "xxxx", "new", "epoch", *["e", "fg"] * 9]
    (verdict,) = judge_all(trace.trace())
    assert verdict.is_valid, verdict.describe()
    assert verdict.is_at_rest, verdict.describe()
    (channel,) = trace.trace().channels.values()
    assert audited(channel, tmp_path).violations == []
