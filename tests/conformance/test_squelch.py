"""Squelch: the model leads both ends through its state graph, and recorded runs are judged and audited."""

import asyncio
import random
from collections import deque
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.errors import TraceMismatchError
from permitflow.protocol.recording import ENDS
from permitflow.protocol.squelch import SquelchParameters
from permitflow.testing.moves import Divergence, attempt, moves_of, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.squelch import SquelchPair, model_parameters
from permitflow.testing.traces import judge, judge_all
from permitflow.tracing import ChannelTrace, MemoryTrace
from permitflow_model.kernel.explore import explore
from permitflow_model.squelch import SYSTEM
from tests.support.recordings import audited

LOSSLESS = SquelchParameters(high=1, low=0, rate=2, signal_delay=1, data_delay=2)
AT_ONCE = SquelchParameters(high=2, low=2, rate=2, signal_delay=0, data_delay=1)
LOSSY = SquelchParameters(high=2, low=1, rate=1, signal_delay=1, data_delay=1, losses=2)


@pytest.mark.parametrize("parameters", [LOSSLESS, AT_ONCE, LOSSY], ids=["lossless", "at once", "lossy"])
def test_the_ends_take_every_edge_and_refuse_everything_else(parameters: SquelchParameters) -> None:
    of_model = model_parameters(parameters, waiters=1, reminders=True)
    graph = explore(SYSTEM, of_model)
    assert not graph.violations

    done = walk(SYSTEM, SquelchPair(parameters), of_model)

    assert (done.states, done.edges) == (len(graph.states), len(graph.edges))
    assert done.refusals > 0


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


def recorded(seed: int, steps: int, parameters: SquelchParameters = LOSSLESS) -> ChannelTrace:
    """What a random run of both ends recorded."""
    trace, choose = MemoryTrace(), random.Random(seed)
    pair, of_model = SquelchPair(parameters, record=trace.recorder), model_parameters(parameters, waiters=3)
    state = SYSTEM.initial(of_model)
    for _ in range(steps):
        possible = [move for move in moves_of(SYSTEM, of_model) if SYSTEM.is_enabled(move.action, state, of_model)]
        # A run in which much is sent and little consumed.
        weights = [1 if move.action in ("Consume", "Withdraw", "Tick") else 3 for move in possible]
        (move,) = choose.choices(possible, weights)
        attempt(pair, move)
        state = SYSTEM.perform(move.action, state, of_model)
    return trace.trace().channels["channel"]


def test_a_recorded_run_is_a_behaviour_in_the_opinion_of_the_model_and_of_tlc() -> None:
    channel = recorded(seed=3, steps=300)

    verdict = judge(channel)
    assert verdict.is_valid, verdict.describe()
    assert {event.action for log in channel.logs for event in log} >= {"TellOff", "TellOn", "Hear"}
    referee = ask_tlc(channel)

    assert referee.agrees, referee.describe()
    assert referee.walk.reached == referee.steps


def without(channel: ChannelTrace, action: str) -> ChannelTrace:
    """The run without one event of this action; numbered again."""
    (log,) = channel.logs
    place = next(number for number, event in enumerate(log) if number > 100 and event.action == action)
    counts = {end: count(1) for end in ENDS}
    kept = (event for number, event in enumerate(log) if number != place)
    return replace(channel, logs=(tuple(event._replace(sequence=next(counts[event.end])) for event in kept),))


@pytest.mark.parametrize("action", ["Hear", "TellOff", "TellOn", "Deliver"])
def test_a_run_that_lacks_an_event_is_impossible(action: str) -> None:
    assert not judge(without(recorded(seed=3, steps=300), action)).is_valid


def test_one_end_alone_is_not_judged() -> None:
    channel = recorded(seed=1, steps=50)
    sender = tuple(event for event in channel.logs[0] if event.end == "sender")
    with pytest.raises(TraceMismatchError, match="both ends must have been recorded"):
        judge(replace(channel, ends=frozenset({"sender"}), logs=(sender,)))


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
    found = {
        violation.clause for violation in audited(without(recorded(seed=3, steps=300), action), tmp_path).violations
    }
    assert found & clauses


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
