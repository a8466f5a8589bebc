"""Stop-and-wait: the model leads the core through its whole state graph, and recorded runs are judged and audited."""

import asyncio
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.stop_and_wait import StopAndWait
from permitflow.testing.moves import Divergence, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.stop_and_wait import StopAndWaitPair
from permitflow.testing.traces import judge, judge_all
from permitflow.tracing import ChannelTrace, MemoryTrace
from permitflow_model.stop_and_wait import SYSTEM, Parameters
from tests.support.recorded_flows import (
    assert_every_edge_is_taken,
    assert_one_end_is_not_judged,
    broken_clauses,
    drawn_run,
    place_of,
    through_an_exchange,
    without,
)
from tests.support.recordings import audited

PARAMETERS = Parameters(waiters=3, withdrawals=True, tags=5)


def test_the_ends_take_every_edge_and_refuse_everything_else() -> None:
    assert_every_edge_is_taken(SYSTEM, StopAndWaitPair(StopAndWait(), tags=PARAMETERS.tags), PARAMETERS)


class AnswersOnArrival(StopAndWaitPair):
    """Answers a message when it arrives."""

    def deliver(self) -> None:
        super().deliver()
        self.consume()


class Overtakes(StopAndWaitPair):
    """Delivers the newest message first."""

    def send(self) -> None:
        self._waiting.reverse()
        super().send()


@pytest.mark.parametrize("wrong", [AnswersOnArrival, Overtakes])
def test_ends_that_do_something_else_are_found_out(wrong: type[StopAndWaitPair]) -> None:
    with pytest.raises(Divergence):
        walk(SYSTEM, wrong(StopAndWait(), tags=PARAMETERS.tags), PARAMETERS)


def recorded(seed: int, steps: int) -> ChannelTrace:
    """What a random run of both ends recorded."""

    def pair(record: RecorderFactory) -> StopAndWaitPair:
        return StopAndWaitPair(StopAndWait(), record=record)

    return drawn_run(SYSTEM, replace(PARAMETERS, tags=1), pair, seed=seed, steps=steps)


def test_a_recorded_run_is_a_behaviour_in_the_opinion_of_the_model_and_of_tlc() -> None:
    channel = recorded(seed=3, steps=300)

    for by_end in (False, True):
        verdict = judge(channel, by_end=by_end)
        assert verdict.is_valid, verdict.describe()
        assert verdict.missing_actions == []
    referee = ask_tlc(channel)

    assert referee.agrees, referee.describe()
    assert referee.walk.reached == referee.steps == 300


def test_a_message_that_did_not_wait_is_impossible_in_both_opinions() -> None:
    channel = recorded(seed=3, steps=300)
    channel = without(channel, place_of(channel, "Answer"))

    verdict, referee = judge(channel), ask_tlc(channel)

    assert not verdict.is_valid
    assert verdict.replay.blocked[0].event.action == "Send"
    assert "Send, event" in verdict.describe()
    assert referee.agrees
    assert referee.impossible == 1


def test_one_end_alone_is_not_judged() -> None:
    assert_one_end_is_not_judged(recorded(seed=1, steps=50))


def test_an_audit_holds_a_run_against_the_laws_of_the_protocol(tmp_path: Path) -> None:
    audit = audited(recorded(seed=3, steps=300), tmp_path)
    assert audit.violations == []
    (channel,) = audit.channels
    assert (channel.flow, channel.events, channel.violations) == ("stop-and-wait", 300, 0)
    assert channel.consumed_messages <= channel.sent_messages <= channel.consumed_messages + 1
    assert channel.sent_messages > 10


@pytest.mark.parametrize(
    ("action", "clauses"), [("Answer", {"Conservation"}), ("Send", {"Conservation"}), ("Offer", {"Offered"})]
)
def test_an_event_that_did_not_happen_is_found_by_what_it_would_have_changed(
    action: str, clauses: set[str], tmp_path: Path
) -> None:
    channel = recorded(seed=3, steps=300)
    assert broken_clauses(without(channel, place_of(channel, action)), tmp_path) == clauses


# Runs that the model did not lead.


async def stream(sender: LocalSender[str], receiver: LocalReceiver[str]) -> list[object]:
    """Messages of all kinds, one of them given up, with a watermark that is replaced."""

    async def produce() -> None:
        for text in ("abc", "", "d"):
            await sender.send(text)
        leaving, given_up = (asyncio.create_task(sender.send(text)) for text in ("leaves", "is given up"))
        await asyncio.sleep(0)
        given_up.cancel()
        await leaving
        sender.send_watermark("old")
        sender.send_watermark("new")
        await sender.send_barrier("epoch")
        await sender.send_many(deque(["e", "fg"]))
        await sender.end()

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        return [message.payload async for message in receiver]


def test_a_recorded_local_run_is_a_behaviour_of_the_specification(run: asyncio.Runner) -> None:
    trace = MemoryTrace()
    sender: LocalSender[str]
    receiver: LocalReceiver[str]
    sender, receiver = open_channel(StopAndWait(), record=trace.recorder)
    assert run.run(stream(sender, receiver)) == ["abc", "", "d", "leaves", "new", "epoch", "e", "fg"]
    (verdict,) = judge_all(trace.trace())
    assert verdict.is_valid, verdict.describe()
    assert verdict.is_at_rest, verdict.describe()


def test_recorded_runs_through_an_exchange_are_behaviours_of_the_specification(
    run: asyncio.Runner, tmp_path: Path, listen: str
) -> None:
    for verdict in run.run(through_an_exchange(StopAndWait(), listen, 20, tmp_path / "run.jsonl")):
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()
