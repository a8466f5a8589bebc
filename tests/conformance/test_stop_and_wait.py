"""Stop-and-wait: the model leads the core through its whole state graph, and recorded runs are behaviours of it."""

import asyncio
from collections import deque
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.channels.interface import SendEnd
from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.messages import Kind, Message, Offered
from permitflow.protocol.stop_and_wait import Answer, StopAndWait, StopAndWaitReceiver, StopAndWaitSender
from permitflow.testing.moves import ActionRefused, Divergence, walk
from permitflow.testing.traces import judge_all
from permitflow.tracing import FileTrace, MemoryTrace, read_trace
from permitflow.transports.grpc_aio import get, put
from permitflow_model.kernel.queue import Fifo
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State

CHUNK = pa.record_batch({"n": [1, 2, 3]})


class Pair:
    """The two ends with wires between them; messages are their serial numbers."""

    def __init__(self, tags: int) -> None:
        """Numbers are shown modulo ``tags``."""
        self.sender: StopAndWaitSender[int] = StopAndWaitSender(StopAndWait())
        self.receiver: StopAndWaitReceiver[int] = StopAndWaitReceiver(StopAndWait())
        self._wire: deque[Message[int]] = deque()
        self._answers: deque[Answer] = deque()
        self._waiting: list[Offered[int]] = []
        self._serial = self._consumed = 0
        self._tags = tags

    def offer(self) -> None:
        """The application wants to send a message: chunks of any size and barriers by turns."""
        kind, rows = ((Kind.CHUNK, 5), (Kind.CHUNK, 0), (Kind.BARRIER, 0))[self._serial % 3]
        self._waiting.append(self.sender.offer(kind, self._serial, rows))
        self._serial += 1

    def withdraw(self) -> None:
        """The application gives up waiting with its newest message."""
        if not self._waiting:
            raise ActionRefused("nothing waits")
        if not self.sender.withdraw(self._waiting.pop()):
            raise Divergence("the sender does not know what waits")
        self._serial -= 1

    def send(self) -> None:
        """The oldest message leaves."""
        self._wire.append(self.sender.send_oldest())
        self._waiting.pop(0)

    def deliver(self) -> None:
        """The message arrives."""
        if not self._wire:
            raise ActionRefused("nothing is in flight")
        self.receiver.deliver(self._wire.popleft())

    def consume(self) -> None:
        """The application has consumed it."""
        if self.receiver.take().payload != self._consumed:
            raise Divergence("another message is due")
        self.receiver.consume_many(1)
        self._consumed += 1
        answer = self.receiver.take_feedback()
        if answer is None:
            raise Divergence("what was consumed is not answered")
        self._answers.append(answer)

    def answer(self) -> None:
        """The answer arrives."""
        if not self._answers:
            raise ActionRefused("no answer is in flight")
        self.sender.on_feedback(self._answers.popleft())

    def observe(self) -> State:
        """In the specification's terms."""
        waiting, wire, inbox = (
            Fifo(message.payload % self._tags for message in messages)
            for messages in (self.sender.waiting, self._wire, self.receiver.inbox)
        )
        return State(
            offered=self._serial % self._tags,
            consumed=self._consumed % self._tags,
            waiting=waiting,
            free=int(self.sender.admits((1,)) if self.sender.room_rows else 0),
            wire=wire,
            inbox=inbox,
            answers=len(self._answers),
        )


@pytest.mark.parametrize("parameters", [Parameters(waiters=waiters, withdrawals=True, tags=5) for waiters in (1, 2, 3)])
def test_the_core_does_what_the_model_does_in_every_state_and_refuses_what_it_refuses(parameters: Parameters) -> None:
    walked = walk(SYSTEM, Pair(parameters.tags), parameters)
    assert walked.states > 20
    assert walked.edges > walked.states
    assert walked.refusals > 0


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
