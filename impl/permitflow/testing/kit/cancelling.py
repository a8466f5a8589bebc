"""Cancels an operation at each of its awaits, in turn.

Each await is tried in two runs: the operation is cancelled while it sleeps, or after its wake-up and before it runs.
A cancelled send has sent nothing, a cancelled receive has taken nothing; nothing else is lost, and an operation that
waits behind still wakes.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import TypeVar

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.adapter import ChannelAdapter, Feature, Received, lacks_of
from permitflow.testing.kit.leading import TURNS, consume, give_up, pause
from permitflow.testing.kit.rules import MakeAdapter, Outcome, Rule, Rulebook, RuleVerdict
from permitflow.testing.moves import Divergence, Move
from permitflow.tracing.file import MemoryTrace

T = TypeVar("T")


class Cancelling:
    """One run: prepare, start the operation, let it reach an await, cancel it, and check the channel."""

    what = ""

    def __init__(self, book: Rulebook, adapter: ChannelAdapter) -> None:
        self.book = book
        self.adapter = adapter
        self.serial = 0
        self.sent: list[int] = []
        """The messages that the receiver must get: serial numbers of chunks, and 0 for barriers."""
        self.capacity = capacity_of(book, adapter)
        self.cancelled_at = 0
        """The number of the await at which the operation was cancelled."""

    async def prepare(self) -> None:
        """Bring the channel into a state in which the operation has to wait."""
        raise NotImplementedError

    def operation(self) -> Coroutine[object, object, object]:
        """The operation that is cancelled."""
        raise NotImplementedError

    async def feed(self) -> None:
        """Cause the event that the operation waits for."""
        raise NotImplementedError

    def note(self, result: object) -> None:
        """Note the result of an operation that completed despite its cancellation."""
        raise NotImplementedError

    async def send(self) -> None:
        """Send a chunk of one row; there is room for it."""
        self.serial += 1
        serial = self.serial
        async with asyncio.timeout(self.adapter.timeout_seconds):
            await self.adapter.offer_chunk(serial, 1)
        self.sent.append(serial)

    async def receive(self) -> None:
        """Take the oldest message, which must be the one that is due, and consume it."""
        try:
            async with asyncio.timeout(self.adapter.timeout_seconds):
                self.check_received(await self.adapter.take())
        except TimeoutError:
            raise Divergence(f"lost {_named(self.sent[0])}: it was sent, and cannot be received") from None
        consume(self.adapter)

    def check_received(self, received: Received) -> None:
        """Compare a received message with the one that is due."""
        value = received.value if received.kind is Kind.CHUNK else 0
        if not self.sent or value != self.sent[0]:
            due = _named(self.sent[0]) if self.sent else "nothing"
            raise Divergence(f"delivered {_named(value or 0)}, while {due} was due")
        self.sent.pop(0)

    async def check_rest(self) -> None:
        """Check that exactly the sent messages are received, and that the channel has as much room as before.

        Raises:
            Divergence: a message or room was lost, or created.
        """
        while self.sent:
            await self.receive()
        await self._expect_nothing()
        for number in range(self.capacity):
            try:
                await self.send()
            except TimeoutError:
                raise Divergence(f"lost {self.book.unit}: {number} of {self.capacity} chunks find room") from None
        if await self._finishes(self.adapter.offer_chunk(self.serial + 1, 1)):
            raise Divergence(f"created {self.book.unit}: more than {self.capacity} chunks find room")

    async def _expect_nothing(self) -> None:
        taking = asyncio.create_task(self.adapter.take())
        await pause(self.adapter)
        if taking.done():
            self.check_received(taking.result())
        await give_up(taking)

    async def _finishes(self, coroutine: Coroutine[None, None, None]) -> bool:
        task = asyncio.create_task(coroutine)
        await pause(self.adapter)
        is_done = task.done()
        await give_up(task)
        return is_done


class CancelledSend(Cancelling):
    """A send into a full window."""

    what = "send"

    async def prepare(self) -> None:
        """Fill the window."""
        for _ in range(self.capacity):
            await self.send()
        self.serial += 1
        self.own = self.serial

    def operation(self) -> Coroutine[object, object, object]:
        """Send one more; with weights, a chunk that gets its permits in several portions."""
        return self.adapter.offer_chunk(self.own, 1 if Feature.WEIGHTS in lacks_of(self.adapter) else 2)

    async def feed(self) -> None:
        """Make room for one chunk."""
        if not self.sent:
            raise Divergence("forgotten a send: nothing is in the channel, and it sleeps on")
        await self.receive()

    def note(self, result: object) -> None:
        """The chunk has left."""
        self.sent.append(self.own)


class CancelledBarrier(CancelledSend):
    """A barrier while the only barrier permit is in use."""

    what = "barrier"

    async def prepare(self) -> None:
        """Use up the barrier permits of all hops."""
        for _ in range(self.adapter.hops):
            async with asyncio.timeout(self.adapter.timeout_seconds):
                await self.adapter.offer_barrier()
            self.sent.append(0)
        self.own = 0

    def operation(self) -> Coroutine[object, object, object]:
        """Send one more."""
        return self.adapter.offer_barrier()


class CancelledReceive(Cancelling):
    """A receive from an empty channel."""

    what = "receive"

    async def prepare(self) -> None:
        """Leave the channel empty."""

    def operation(self) -> Coroutine[object, object, object]:
        """Take the next message."""
        return self.adapter.take()

    async def feed(self) -> None:
        """Send something."""
        await self.send()

    def note(self, result: object) -> None:
        """A message was taken after all."""
        assert isinstance(result, Received)
        self.check_received(result)
        consume(self.adapter)


def capacity_of(book: Rulebook, adapter: ChannelAdapter) -> int:
    """How many chunks of one row fit into a chain of small channels, by the model."""
    outside = book.seen(book.plain, (1,), hops=adapter.hops)
    world, count = outside.start(), 0
    while True:
        ((seen, world), *_) = outside.make(world, Move("OfferChunk", (1,)))
        if seen.waiting:
            return count
        count += 1


def _named(serial: int) -> str:
    return f"chunk {serial}" if serial else "a barrier"


MOST_AWAITS = 50


class Counted:
    """An operation that counts how often it has been suspended."""

    def __init__(self, coroutine: Coroutine[object, object, T]) -> None:
        self._coroutine = coroutine
        self.awaits = 0

    def __await__(self) -> Generator[object, object, T]:
        steps = self._coroutine.__await__()
        try:
            yielded = next(steps)
            while True:
                self.awaits += 1
                try:
                    sent = yield yielded
                except BaseException as error:
                    yielded = steps.throw(error)
                else:
                    yielded = steps.send(sent)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def cancel_everywhere(kind: type[Cancelling], book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Cancel at every await, asleep and awake; stop at the first run that breaks the rule."""
    awaits = 0
    while awaits < MOST_AWAITS:
        has_ended = False
        for is_awake in (False, True):
            one = kind(book, make())
            try:
                has_ended = await _cancel_at(one, awaits + 1, is_awake=is_awake)
            except (Divergence, TimeoutError) as problem:
                state = "after it was woken, before it ran" if is_awake else "asleep"
                run = (
                    f"a {kind.what} is cancelled at its await number {one.cancelled_at}, {state}",
                    f"then: {problem}",
                )
                return RuleVerdict(rule, Outcome.BREAKS, f"has {problem}", run)
        if has_ended:
            break
        awaits += 1
    return RuleVerdict(rule, Outcome.HOLDS, f"{2 * awaits} cancellations, at every await, asleep and awake")


async def _cancel_at(run: Cancelling, number: int, *, is_awake: bool) -> bool:
    """Cancel at an await; True if the operation ends before it."""
    await run.adapter.open(run.book.plain, MemoryTrace().recorder)
    try:
        await run.prepare()
        counted = Counted(run.operation())
        task = asyncio.create_task(_awaited(counted))
        try:
            is_there = await _reach(run, task, counted, number)
            if is_there:
                if is_awake:
                    await run.feed()
                run.cancelled_at = counted.awaits
                task.cancel()
            with suppress(asyncio.CancelledError):
                run.note(await task)
        finally:
            await give_up(task)
        await run.check_rest()
        return not is_there
    finally:
        await run.adapter.close()


async def _awaited(counted: Counted) -> object:
    return await counted


async def _reach(run: Cancelling, task: "asyncio.Task[object]", counted: Counted, number: int) -> bool:
    """Let the operation reach this await: feed it at each earlier one."""
    for _ in range(MOST_AWAITS):
        for _ in range(TURNS):
            if counted.awaits >= number or task.done():
                break
            await asyncio.sleep(0)
        else:
            await run.feed()
            await pause(run.adapter)
        if counted.awaits >= number and not task.done():
            return True
        if task.done():
            return False
    raise Divergence("forgotten it: what it waited for came, and it sleeps on")
