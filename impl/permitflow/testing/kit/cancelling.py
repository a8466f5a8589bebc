"""Cancels an operation at each of its awaits, in turn.

Each await is tried in two runs: the operation is cancelled while it sleeps, or after its wake-up and before it runs.
A cancelled send has sent nothing, a cancelled receive has taken nothing; nothing else is lost, and an operation that
waits behind still wakes: afterwards the channel is led by the model, for which nothing happened.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any, NamedTuple

from permitflow.testing.kit.adapter import ChannelAdapter, Feature, Received, lacks_of
from permitflow.testing.kit.leading import TURNS, Led, consume, give_up, pause, steps_in_words
from permitflow.testing.kit.outside import DONE, NOTHING
from permitflow.testing.kit.rules import MakeAdapter, Outcome, Rule, Rulebook, RuleVerdict
from permitflow.testing.moves import Divergence, Move

MOST_AWAITS = 50
ONE, RECEIVE, BARRIER = Move("OfferChunk", (1,)), Move("Receive"), Move("OfferBarrier")


class Operation(NamedTuple):
    """What is cancelled."""

    what: str
    move: Move
    fill: Move | None
    """The move that is made until this one has to wait."""
    feed: Move
    """The move that causes what the operation waits for."""


# With weights, a chunk that gets its permits in several portions.
SEND = Operation("send", Move("OfferChunk", (2,)), ONE, RECEIVE)
SEND_BARRIER = Operation("barrier", BARRIER, BARRIER, RECEIVE)
TAKE = Operation("receive", RECEIVE, None, ONE)


def capacity_of(book: Rulebook, adapter: ChannelAdapter, filling: Move = ONE) -> int:
    """How many such messages fit into a chain of small channels, by the model."""
    outside = book.seen(book.plain, (1,), hops=adapter.hops)
    world, count = outside.start(), 0
    while True:
        ((seen, world), *_) = outside.make(world, filling)
        if seen.waiting:
            return count
        count += 1


class Counted:
    """An operation that counts how often it has been suspended."""

    def __init__(self, coroutine: Coroutine[object, object, object]) -> None:
        self._coroutine = coroutine
        self.awaits = 0

    def __await__(self) -> Generator[object, object, object]:
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
            return end.value


async def cancel_everywhere(operation: Operation, book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Cancel at every await, asleep and awake; stop at the first run that breaks the rule."""
    if operation is SEND and Feature.WEIGHTS in lacks_of(make()):
        operation = operation._replace(move=ONE)
    awaits = 0
    while awaits < MOST_AWAITS:
        has_ended = False
        for is_awake in (False, True):
            one = _Cancelling(operation, book, make())
            try:
                has_ended = await one.cancel_at(awaits + 1, is_awake=is_awake)
            except Divergence as problem:
                state = "after it was woken, before it ran" if is_awake else "asleep"
                when = f"a {operation.what} is cancelled at its await number {one.cancelled_at}, {state}"
                steps = steps_in_words(one.led.steps[one.led_before :])
                then = tuple(steps) if steps else (f"then: {problem}",)
                return RuleVerdict(rule, Outcome.BREAKS, "does something else than the model afterwards", (when, *then))
        if has_ended:
            break
        awaits += 1
    return RuleVerdict(rule, Outcome.HOLDS, f"{2 * awaits} cancellations, at every await, asleep and awake")


class _Cancelling:
    """One run: fill the channel, start the operation, let it reach an await, cancel it, and lead the channel on."""

    def __init__(self, operation: Operation, book: Rulebook, adapter: ChannelAdapter) -> None:
        outside = book.seen(book.plain, (1, 2), hops=adapter.hops, lacks=lacks_of(adapter))
        self.led = Led(adapter, outside, book.plain)
        self.led_before = 0
        """Steps before the cancellation."""
        self.cancelled_at = 0
        """The number of the await at which the operation was cancelled."""
        self._operation = operation
        self._adapter = adapter
        self._capacity = capacity_of(book, adapter)
        self._fills = capacity_of(book, adapter, operation.fill) if operation.fill else 0

    async def cancel_at(self, number: int, *, is_awake: bool) -> bool:
        """Cancel at an await; True if the operation ends before it.

        Raises:
            Divergence: the channel does something else than the model.
        """
        await self.led.open()
        try:
            for _ in range(self._fills):
                await self._at_once(self._operation.fill or ONE)
            counted = Counted(self._begun(self._operation.move))
            task = asyncio.ensure_future(_awaited(counted))
            try:
                is_there = await self._reach(task, counted, number)
                if is_there:
                    if is_awake:
                        await self._at_once(self._operation.feed)
                    self.cancelled_at = counted.awaits
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    self._did(self._operation.move, await task)
            finally:
                await give_up(task)
            await self._check_rest()
            return not is_there
        finally:
            await self.led.close()

    def _begun(self, move: Move) -> Coroutine[Any, Any, object]:
        match move:
            case Move("OfferChunk", (rows,)):
                self._serial = self.led.next_serial()
                return self._adapter.offer_chunk(self._serial, rows)
            case Move("OfferBarrier"):
                self._serial = self.led.next_serial()
                return self._adapter.offer_barrier()
        return self._adapter.take()

    async def _at_once(self, move: Move) -> None:
        """Make a move that need not wait; the operation gets no turn after it."""
        try:
            async with asyncio.timeout(self._adapter.timeout_seconds):
                result = await self._begun(move)
        except TimeoutError:
            raise Divergence(f"{move!r} need not wait, and does") from None
        self._did(move, result)

    def _did(self, move: Move, result: object) -> None:
        """Let the model do the same."""
        if isinstance(result, Received):
            consume(self._adapter)
        else:
            self.led.offered.append(self._serial)
        self.led.follow(move, result if isinstance(result, Received) else DONE)

    async def _reach(self, task: "asyncio.Future[object]", counted: Counted, number: int) -> bool:
        """Let the operation reach this await: feed it at each earlier one."""
        for _ in range(MOST_AWAITS):
            for _ in range(TURNS):
                if counted.awaits >= number or task.done():
                    break
                await asyncio.sleep(0)
            else:
                await self._at_once(self._operation.feed)
                await pause(self._adapter)
            if task.done() or counted.awaits >= number:
                return not task.done()
        raise Divergence("what it waited for came, and it sleeps on")

    async def _check_rest(self) -> None:
        """Exactly the sent messages are received, and the channel has as much room as before."""
        led = self.led
        self.led_before = len(led.steps)
        while any(seen.outcome != NOTHING for seen in led.outside.make_in(led.worlds, RECEIVE)):
            await self._at_once(RECEIVE)
        await led.make(RECEIVE)
        for _ in range(self._capacity + 1):
            await led.make(ONE)


async def _awaited(counted: Counted) -> object:
    return await counted
