"""Stop-and-wait: the model leads the core through its whole state graph, and recorded runs are judged and audited."""

import asyncio
import random
from collections import deque
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.audit import audit_files
from permitflow.channels.interface import SendEnd
from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.errors import TraceMismatchError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.recording import ENDS
from permitflow.protocol.stop_and_wait import StopAndWait
from permitflow.testing.moves import Divergence, attempt, moves_of, walk
from permitflow.testing.referee import ask_tlc
from permitflow.testing.subjects.stop_and_wait import StopAndWaitPair
from permitflow.testing.traces import judge, judge_all
from permitflow.tracing import ChannelTrace, FileTrace, MemoryTrace, read_trace
from permitflow.transports.grpc_aio import get, put
from permitflow_model.kernel.explore import explore
from permitflow_model.stop_and_wait import SYSTEM, Parameters
from tests.support.recordings import audited

PARAMETERS = Parameters(waiters=3, withdrawals=True, tags=5)


def test_the_ends_take_every_edge_and_refuse_everything_else() -> None:
    graph = explore(SYSTEM, PARAMETERS)

    done = walk(SYSTEM, StopAndWaitPair(StopAndWait(), tags=PARAMETERS.tags), PARAMETERS)

    assert (done.states, done.edges) == (len(graph.states), len(graph.edges))
    assert done.refusals > 0


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
    trace, choose = MemoryTrace(), random.Random(seed)
    pair, parameters = StopAndWaitPair(StopAndWait(), record=trace.recorder), replace(PARAMETERS, tags=1)
    state = SYSTEM.initial(parameters)
    for _ in range(steps):
        move = choose.choice([move for move in moves_of(SYSTEM, parameters) if enabled(move.action, state, parameters)])
        attempt(pair, move)
        state = SYSTEM.perform(move.action, state, parameters)
    return trace.trace().channels["channel"]


def enabled(action: str, state: object, parameters: Parameters) -> bool:
    return SYSTEM.is_enabled(action, state, parameters)  # type: ignore[arg-type]


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
    (log,) = channel.logs
    place = next(number for number, event in enumerate(log) if number > 100 and event.action == "Answer")
    channel = replace(channel, logs=((*log[:place], *log[place + 1 :]),))

    verdict, referee = judge(channel), ask_tlc(channel)

    assert not verdict.is_valid
    assert verdict.replay.blocked[0].event.action == "Send"
    assert "Send, event" in verdict.describe()
    assert referee.agrees
    assert referee.impossible == 1


def test_one_end_alone_is_not_judged() -> None:
    channel = recorded(seed=1, steps=50)
    sender = tuple(event for event in channel.logs[0] if event.end == "sender")
    with pytest.raises(TraceMismatchError, match="both ends must have been recorded"):
        judge(replace(channel, ends=frozenset({"sender"}), logs=(sender,)))


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
    place = next(number for number, event in enumerate(channel.logs[0]) if number > 100 and event.action == action)
    kept = [event for number, event in enumerate(channel.logs[0]) if number != place]
    counts = {end: count(1) for end in ENDS}
    log = tuple(event._replace(sequence=next(counts[event.end])) for event in kept)
    found = {violation.clause for violation in audited(replace(channel, logs=(log,)), tmp_path).violations}
    assert found == clauses


# Runs that the model did not lead.

CHUNK = pa.record_batch({"n": [1, 2, 3]})


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


@pytest.mark.parametrize("address", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
def test_recorded_runs_through_an_exchange_are_behaviours_of_the_specification(
    run: asyncio.Runner, tmp_path: Path, address: str
) -> None:
    path = tmp_path / "run.jsonl"
    with FileTrace(path) as trace:
        assert run.run(_through_an_exchange(trace, address)) == 21
    audit = audit_files(path)
    assert audit.holds, audit.violations
    assert [channel.remarks for channel in audit.channels] == [[], [], []]
    verdicts = list(judge_all(read_trace(path)))
    assert len(verdicts) == 3  # the producer's stream, the channel, the consumer's stream
    for verdict in verdicts:
        assert verdict.is_valid, verdict.describe()
        assert verdict.is_at_rest, verdict.describe()


async def _through_an_exchange(trace: FileTrace, address: str) -> int:
    exchange = Exchange(record=trace.recorder)
    exchange.add_channel("c", StopAndWait())
    async with (
        ExchangeServer(exchange, address) as server,
        put(server.address, "c", CHUNK.schema, record=trace.recorder) as sender,
        get(server.address, "c", record=trace.recorder) as receiver,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(_produce(sender))
        return len([message async for message in receiver])


async def _produce(sender: SendEnd[pa.RecordBatch]) -> None:
    for _ in range(20):
        await sender.send(CHUNK)
    await sender.send_barrier("epoch")
    await sender.end()
