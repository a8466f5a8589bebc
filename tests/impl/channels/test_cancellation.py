"""Cancelled at any moment, a call has done nothing: no permit, no row and no wake-up is lost.

Each scenario is run once for every callback that its event loop executes, and one of its tasks is cancelled right
after that callback: at every point at which it can be suspended, and between any wake-up and the step it leads to.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, Message, WouldBlock, open_channel

PARAMETERS = ChannelParameters(row_permits=4, permit_batch=2, max_chunk_cost=3)
# The scenarios take far fewer turns of the loop.
TURNS = 60


class CountingLoop(asyncio.SelectorEventLoop):
    """Calls ``interrupt`` right after its ``interrupt_after``-th callback."""

    def __init__(self, interrupt_after: int) -> None:
        super().__init__()
        self.interrupt: Callable[[], object] = lambda: None
        self._left = interrupt_after

    def call_soon(  # type: ignore[override]  # the supertype's variadic type cannot be repeated
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._counted, callback, args, context=context)

    def _counted(self, callback: Any, args: tuple[Any, ...]) -> None:
        callback(*args)
        self._left -= 1
        if self._left == 0:
            self.interrupt()


class Letters(str):
    """A chunk with a row for each letter."""

    __slots__ = ()

    @property
    def num_rows(self) -> int:
        return len(self)


@dataclass
class Run:
    """One run of a scenario: the channel, its tasks, and what they have seen."""

    sender: LocalSender[str]
    receiver: LocalReceiver[str]
    senders: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    receivers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    sequences: list[list[str]] = field(default_factory=list)
    """What each task sends, in its order."""
    sent: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    held: int = 0
    was_over: bool = False
    """Was the victim done when it was to be cancelled?"""

    @property
    def tasks(self) -> dict[str, asyncio.Task[None]]:
        return self.senders | self.receivers

    def start(self, **senders: Coroutine[Any, Any, None]) -> None:
        self.senders |= {name: asyncio.ensure_future(work) for name, work in senders.items()}

    def start_receiver(self, **receivers: Coroutine[Any, Any, None]) -> None:
        self.receivers |= {name: asyncio.ensure_future(work) for name, work in receivers.items()}

    async def send(self, **chunks: int) -> None:
        self.sequences.append(list(chunks))
        for name, rows in chunks.items():
            await self._noted(name, self.sender.send(name, rows))

    async def send_many(self, *texts: str) -> None:
        chunks = [*map(Letters, texts)]
        self.sequences.append([*chunks])
        queue: deque[str] = deque(chunks)
        try:
            await self.sender.send_many(queue)
        except asyncio.CancelledError:
            self.interrupted += queue
            raise
        finally:
            self.sent += chunks[: len(chunks) - len(queue)]

    async def barrier(self, name: str) -> None:
        await self._noted(name, self.sender.send_barrier(name))

    async def _noted(self, name: str, send: Coroutine[Any, Any, None]) -> None:
        try:
            await send
        except asyncio.CancelledError:
            self.interrupted.append(name)
            raise
        self.sent.append(name)

    async def receive(self, count: int) -> None:
        for _ in range(count):
            self.received.append((await self.receiver.receive()).payload)

    async def iterate(self) -> None:
        async for message in self.receiver:
            self.received.append(message.payload)

    async def receive_many(self, count: int) -> None:
        while count > 0:
            messages = await self.receiver.receive_many(count)
            self.received += [message.payload for message in messages]
            count -= len(messages)

    async def take(self, count: int) -> None:
        for _ in range(count):
            self.received.append((await self.receiver.take()).payload)
            self.held += 1
            await asyncio.sleep(0)
            self.consume()

    async def take_many(self, count: int) -> None:
        while count > 0:
            messages = await self.receiver.take_many(count)
            self.received += [message.payload for message in messages]
            self.held += len(messages)
            await asyncio.sleep(0)
            self.consume(len(messages))
            count -= len(messages)

    def consume(self, messages: int = 1) -> None:
        self.receiver.consume(messages)
        self.held -= messages

    def drain(self) -> list[Message[str]]:
        drained: list[Message[str]] = []
        while True:
            try:
                drained.append(self.receiver.receive_nowait())
            except WouldBlock:
                self.received += [message.payload for message in drained]
                return drained


Scenario = Callable[[Run], None]


def three_senders_one_receiver(run: Run) -> None:
    run.start(a=run.send(a=3, b=1, c=2), d=run.send(d=2, e=3), f=run.send(f=1, g=3))
    run.start_receiver(receiver=run.receive(7))


def three_receivers_one_sender(run: Run) -> None:
    run.start_receiver(r1=run.receive(3), r2=run.receive_many(3), r3=run.iterate())
    run.start(sender=run.send(a=1, b=2, c=3, d=1, e=2, f=3, g=1, h=1, i=1, j=1, k=1))


def chunks_and_barriers(run: Run) -> None:
    run.start(a=run.send(a=3, b=3), c=run.barrier("c"), d=run.barrier("d"), e=run.send(e=3), f=run.barrier("f"))
    run.start_receiver(receiver=run.receive(6))


def many_wait_for_one_return_of_permits(run: Run) -> None:
    run.start(a=run.send(a=3), **{name: run.send(**{name: 1}) for name in "bcdefg"})
    run.start_receiver(receiver=run.receive(7))


def taken_and_consumed_later(run: Run) -> None:
    run.start(a=run.send(a=3, b=3), c=run.send(c=2))
    run.start_receiver(receiver=run.take(3))


def queues_of_chunks(run: Run) -> None:
    run.start(a=run.send_many("aaa", "b", "cc", "d"), e=run.send_many("ee", "f", "ggg"), h=run.send(h=2))
    run.start_receiver(receiver=run.take_many(8))


VICTIMS: list[tuple[Scenario, str]] = [
    *((three_senders_one_receiver, victim) for victim in ("a", "d", "f", "receiver")),
    *((three_receivers_one_sender, victim) for victim in ("r1", "r2", "r3", "sender")),
    *((chunks_and_barriers, victim) for victim in ("a", "d", "e", "f", "receiver")),
    *((many_wait_for_one_return_of_permits, victim) for victim in ("c", "d", "g", "receiver")),
    *((taken_and_consumed_later, victim) for victim in ("a", "c", "receiver")),
    *((queues_of_chunks, victim) for victim in ("a", "e", "h", "receiver")),
]


def interrupted_runs(scenario: Scenario, victim: str) -> Iterator[Run]:
    """The scenario with the victim cancelled after the first, the second, ... callback until it is over."""
    for after in range(1, 10_000):
        with asyncio.Runner(loop_factory=lambda: CountingLoop(after)) as runner:  # noqa: B023  # called at once
            run = runner.run(interrupted(scenario, victim))
        yield run
        if run.was_over:
            return


async def interrupted(scenario: Scenario, victim: str) -> Run:
    ends: tuple[LocalSender[str], LocalReceiver[str]] = open_channel(PARAMETERS)
    run = Run(*ends)
    scenario(run)

    def cancel() -> None:
        run.was_over = run.tasks[victim].done()
        run.tasks[victim].cancel()

    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    loop.interrupt = cancel
    await settle()
    await finish(run)
    for task in run.tasks.values():
        if not task.cancelled():
            task.result()
    return run


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def finish(run: Run) -> None:
    """Receive in place of a receiver that was cancelled; stop receivers that wait for a sender that was."""
    while run.held:
        run.consume()
        await settle()
    while any(not task.done() for task in run.senders.values()):
        assert all(task.done() for task in run.receivers.values()), "a sender and a receiver wait for each other"
        assert run.drain() != [], "a sender waits although nothing is in the channel"
        await settle()
    run.drain()
    for task in run.receivers.values():
        task.cancel()
    await settle()


@pytest.mark.parametrize(("scenario", "victim"), VICTIMS, ids=[f"{s.__name__}-{victim}" for s, victim in VICTIMS])
def test_a_cancelled_task_loses_nothing_whenever_it_is_cancelled(scenario: Scenario, victim: str) -> None:
    cancelled = in_the_middle = 0
    for run in interrupted_runs(scenario, victim):
        assert all(task.done() for task in run.tasks.values())
        assert sorted(run.received) == sorted(run.sent), "what was sent was received, what was cancelled was not sent"
        assert not set(run.interrupted) & set(run.received)
        if len(run.receivers) == 1:
            for sequence in run.sequences:
                assert [name for name in run.received if name in sequence] == [n for n in sequence if n in run.sent]
        assert_whole(run)
        cancelled += run.tasks[victim].cancelled()
        in_the_middle += bool(run.interrupted)

    assert cancelled >= 1
    assert in_the_middle >= 1 or victim in run.receivers, "it was never cancelled while it waited"


def assert_whole(run: Run) -> None:
    """All permits are back, of each class, and no call waits."""
    now = run.sender.statistics()
    assert (now.gauges["row_permits_here"], now.gauges["unreturned_permits"], now.inbox_rows, now.waiting_sends) == (
        4,
        0,
        0,
        0,
    )
    run.sender.send_barrier_nowait()
    run.sender.send_nowait("x", 3)
    assert [message.rows for message in run.drain()] == [0, 3]
    with pytest.raises(WouldBlock, match="no message is here"):
        run.receiver.receive_nowait()
