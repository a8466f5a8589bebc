"""Judges free runs, with two producers and a consumer at their own pace, and the end of a stream.

The kit's observations at the adapter form a trace without the protocol's own steps; the model fills them in, in all
possible ways.  The channel's own recording is a trace with all steps.  The specification does not cover the end of a
stream; the channels' interface does.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from permitflow.errors import counted
from permitflow.flows.messages import Kind
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.system import Disabled
from permitflow_testing.adapter import Aborted, Ended, Feature, ReceivedMessage
from permitflow_testing.bounded import END, RECEIVE, SENDS, AdapterError, BoundedAdapter, Call, MakeBounded, turns
from permitflow_testing.cancelling import MOST_AWAITS, Counted, cancellations_in_words, capacity_of
from permitflow_testing.outside import Outside, World, in_words
from permitflow_testing.rules import Outcome, Rule, Rulebook, RuleVerdict
from permitflow_testing.traces import judge_all

CHUNKS_OF_EACH = 12
SEED = 7


@dataclass
class Observed:
    """An observer's log: offered and left with the chunk's number, taken with the message, consumed."""

    events: list[tuple[str, int, int]] = field(default_factory=list)
    """(what, chunk's number, rows)."""
    numbers: dict[int, int] = field(default_factory=dict)
    """The model's number of a chunk, by its serial number."""

    def offered(self, serial: int, rows: int) -> None:
        """Note that a send begins."""
        self.numbers[serial] = len(self.numbers)
        self.events.append(("offered", self.numbers[serial], rows))

    def left(self, serial: int) -> None:
        """Note that a send has returned."""
        self.events.append(("left", self.numbers[serial], 0))

    def taken(self, received: ReceivedMessage) -> None:
        """Note that a message was handed over."""
        number = self.numbers.get(received.value or 0, -1) if received.value is not None else -2
        self.events.append(("taken", number, received.rows))


async def _run(
    adapter: BoundedAdapter, agreed: Any, sizes: Sequence[int], observed: Observed, trace: MemoryTrace
) -> bool:
    """Two producers and a consumer; do they come to their end, or stand still before it?"""
    choose = random.Random(SEED)

    async def produce(first: int) -> None:
        for serial in range(first, first + CHUNKS_OF_EACH):
            rows = choose.choice(sizes)
            observed.offered(serial, rows)
            await adapter.sending(serial, rows)
            observed.left(serial)
            await turns(choose.randrange(3))

    async def consume() -> None:
        for _ in range(2 * CHUNKS_OF_EACH):
            observed.taken(await adapter.taking())
            if adapter.acknowledges:
                await turns(choose.randrange(4))
                adapter.consume()
            observed.events.append(("consumed", 0, 0))

    async with adapter.opened(agreed, trace.recorder):
        calls = [adapter.begin(produce(first), SENDS["chunk"]) for first in (1, 1001)]
        calls.append(adapter.begin(consume(), RECEIVE))
        try:
            return await _to_their_end(adapter, calls, observed)
        finally:
            await adapter.give_up_all()
            if not _is_at_rest(trace):
                await _come_to_rest(adapter, trace)


async def _to_their_end(adapter: BoundedAdapter, calls: Iterable[Call], observed: Observed) -> bool:
    """Wait while something happens; raises what a call raises."""
    left = set(calls)
    while left:
        before = len(observed.events)
        await asyncio.wait(left, timeout=adapter.timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if len(observed.events) == before:
            await turns()  # a busy machine is not a reason to say that nothing happens
        done = {call for call in left if call.done()}
        for call in done:
            adapter.result(call)
        if not done and len(observed.events) == before:
            return False
        left -= done
    return True


def _stands_still(rule: Rule, adapter: BoundedAdapter, after: str) -> RuleVerdict:
    """The verdict about a run that did not come to its end."""
    faults = [fault for call, fault in adapter.habits.faults.items() if call in (SENDS["chunk"], RECEIVE)]
    return RuleVerdict(rule, Outcome.BREAKS, "; ".join((f"stands still after {after}", *faults)))


async def _come_to_rest(adapter: BoundedAdapter, trace: MemoryTrace) -> None:
    """Wait until the channel has finished all that is under way."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + adapter.timeout_seconds
    while trace.events and not _is_at_rest(trace) and loop.time() < deadline:
        await adapter.pause()


def _is_at_rest(trace: MemoryTrace) -> bool:
    return all(verdict.is_at_rest for verdict in judge_all(trace.trace()))


async def observe_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Does the model explain the observations of a run?"""
    adapter = make()
    if adapter.hops > 1:
        finding = f"{adapter.hops} control loops in a chain are judged by what they record"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    observed, lacks = Observed(), adapter.lacks
    agreed, sizes = book.of_a_run(lacks, is_observed=True)
    if not await _run(adapter, agreed, sizes, observed, MemoryTrace()):
        return _stands_still(rule, adapter, counted(len(observed.events), "event"))
    return _explained(rule, book.seen(agreed, sizes, lacks=lacks, waiters=2 * CHUNKS_OF_EACH), observed)


def _explained(rule: Rule, outside: Outside, observed: Observed) -> RuleVerdict:
    worlds = {outside.start()}
    for position, event in enumerate(observed.events):
        here = _all_that_follows(outside, worlds)
        following = {after for world in here for after in _explain(outside, world, event)}
        if not following:
            finding = f"does what no behaviour explains, at event {position + 1} of {len(observed.events)}"
            last = observed.events[max(0, position - 6) : position + 1]
            lines = [f"{what:8}  {_number(number):>5}  {rows or '':>4}".rstrip() for what, number, rows in last]
            lines[-1] += "  <- not explained"
            head = f"{'event':8}  {'chunk':>5}  {'rows':>4}"
            run = (head, *lines, f"expected: {_expected(outside, here, event)}")
            return RuleVerdict(rule, Outcome.BREAKS, finding, run)
        worlds = following
    return RuleVerdict(rule, Outcome.HOLDS, f"{len(observed.events)} events of two producers and a consumer explained")


def _number(number: int) -> str:
    return str(number) if number >= 0 else "?"


def _expected(outside: Outside, worlds: Iterable[World], event: tuple[str, int, int]) -> str:
    """What the model allows instead of an event that it does not explain."""
    what, number, _ = event
    match what:
        case "taken":
            return " or ".join(sorted({in_words(outside.take(world)[0]) for world in worlds}))
        case "left":
            return f"chunk {number} waits"
    return f"nothing is {what}"


def _explain(outside: Outside, world: World, event: tuple[str, int, int]) -> Iterator[World]:
    what, number, rows = event
    match what:
        case "offered":
            yield outside.offer(world, 0, Kind.CHUNK, rows)
        case "left":
            if all(outside.number(message) != number for message in world.hops[0].waiting):
                yield world
        case "taken":
            outcome, after = outside.take(world)
            if outcome == ReceivedMessage(
                Kind.CHUNK, number if number != -2 else getattr(outcome, "value", None), rows
            ):
                yield after
        case _:
            yield outside.consume(world)


def _all_that_follows(outside: Outside, worlds: set[World]) -> set[World]:
    met, todo = set(worlds), list(worlds)
    while todo:
        world = todo.pop()
        for name in outside.by_itself:
            try:
                after = outside.act(world, 0, name)
            except Disabled:
                continue
            if after not in met:
                met.add(after)
                todo.append(after)
    return met


async def record_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Is the channel's recording of a run a behaviour, and does it come to rest?"""
    adapter, trace = make(), MemoryTrace()
    agreed, sizes = book.of_a_run(adapter.lacks, is_observed=False)
    if not await _run(adapter, agreed, sizes, Observed(), trace):
        return _stands_still(rule, adapter, counted(len(trace.events), "recorded event"))
    if not trace.events:
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "it recorded nothing")
    rests = Feature.IDLE_FLUSH not in adapter.lacks
    verdicts = [verdict for by_end in (False, True) for verdict in judge_all(trace.trace(), by_end=by_end)]
    for verdict in verdicts:
        if not verdict.is_valid or (rests and not verdict.is_at_rest):
            finding = "leaves the specification" if not verdict.is_valid else "does not come to rest"
            return RuleVerdict(rule, Outcome.BREAKS, f"{finding}, as it recorded itself", (verdict.describe(),))
    of_streams = counted(len(trace.trace().channels), "stream")
    finding = f"{counted(len(trace.events), 'recorded event')} of {of_streams}"
    return RuleVerdict(rule, Outcome.HOLDS, f"{finding}, at rest in the end" if rests else finding)


# The end of a stream.


class _Ending:
    """A channel that is full, or at rest, and is about to end."""

    def __init__(self, adapter: BoundedAdapter, capacity: int) -> None:
        self.adapter = adapter
        self.due: list[int] = []
        """The serial numbers of the chunks that were sent."""
        self._capacity = capacity

    async def fill(self) -> Call:
        """Send until one chunk should wait, and return its call."""
        self.due = list(range(1, self._capacity + 2))
        sends = [self.adapter.send(serial, 1) for serial in self.due]
        for call in sends[:-1]:
            await self.adapter.has_ended(call)
        await self.adapter.pause()
        return sends[-1]

    async def receive_all(self) -> tuple[list[int | None], Exception | None]:
        """The serial numbers that are received, and how it ends: None if nothing more comes."""
        received: list[int | None] = []
        while True:
            call = self.adapter.take()
            if not await self.adapter.has_ended(call):
                return received, None
            try:
                received.append(self.adapter.result(call).value)
                if self.adapter.acknowledges:
                    self.adapter.consume()
            except AdapterError:
                raise
            except Exception as error:
                return received, error

    async def cancel_end(self, number: int, *, is_asleep: bool) -> tuple[bool, list[int | None], Exception | None]:
        """Cancel an end at this await, and end the stream again: was it there, and what is received?

        Raises:
            AdapterError: an end does not end.
        """
        adapter = self.adapter
        counted = Counted(adapter.ending(), number, lambda: None if is_asleep else call.cancel())
        call = adapter.begin(counted.run(), END)
        await adapter.pause()
        is_met = is_asleep and counted.awaits >= number and not call.done()
        if is_met:
            call.cancel()
        received, error = await self.receive_all() if not is_asleep else ([], None)
        is_met = is_met or counted.was_woken
        if is_met:
            if not await adapter.give_up(call):
                raise AdapterError(adapter.habits.faults[END])
            again = adapter.end()
            if error is None:
                more, error = await self.receive_all()
                received += more
            if not await adapter.has_ended(again):
                raise AdapterError("your end does not return, after another end was cancelled")
            adapter.result(again)
        return is_met, received, error

    async def stop(self, *, is_full: bool, then_ends: bool) -> str:
        """Stop the stream from its receiver; what is wrong with what comes of it.

        Raises:
            AdapterError: a call does what no call may do.
        """
        adapter = self.adapter
        waiting = await self.fill() if is_full else None
        end = adapter.end() if then_ends and Feature.END not in adapter.lacks else None
        if is_full and adapter.acknowledges:  # one is in use
            await adapter.has_ended(taken := adapter.take())
            adapter.result(taken)
        await adapter.pause()
        is_judged = waiting is not None and not waiting.done()
        stop = adapter.stop()
        await adapter.pause()
        if not await adapter.has_ended(stop):
            return "does not return from a stop"
        adapter.result(stop)
        if is_judged and waiting is not None:
            if (fate := await self._fate(waiting)) is None:
                return "lets a send wait for ever when the receiver stops the stream"
            if fate and adapter.hops == 1:  # in a chain, a place may come free before the sender hears of it
                return "says that a chunk has left, though the receiver has stopped the stream"
        if end is not None and not await adapter.has_ended(end):
            return "lets an end wait for ever when the receiver stops the stream"
        for _ in range(1 if adapter.hops == 1 else self._capacity + 1):
            await adapter.pause()
            fate = await self._fate(adapter.send(1_000, 1))
            if fate is None:
                return "lets a send wait for ever that begins when the receiver has stopped the stream"
            if not fate:
                return ""
        return "sends on, though the receiver has stopped the stream"

    async def _fate(self, send: Call) -> bool | None:
        """Whether a send succeeds; None: it waits on."""
        if not await self.adapter.has_ended(send):
            return None
        try:
            self.adapter.result(send)
        except AdapterError:
            raise
        except Exception:
            return False
        return True

    async def is_told(self, call: Call, kind: type[Exception]) -> bool:
        """Does a call end with such an error?"""
        return await self.adapter.has_ended(call) and isinstance(self.adapter.error(call), kind)


@asynccontextmanager
async def _ending(book: Rulebook, make: MakeBounded) -> AsyncIterator[_Ending]:
    """A small channel that is open in the block."""
    adapter = make()
    capacity = capacity_of(book, adapter)
    async with adapter.opened(book.plain, MemoryTrace().recorder):
        yield _Ending(adapter, capacity)


def _in_words(received: Sequence[int | None], error: Exception | None) -> str:
    return f"received {received}, then {'nothing more came' if error is None else repr(error)}"


def _end_is_wrong(
    rule: Rule, due: Sequence[int], received: Sequence[int | None], error: Exception | None, when: str
) -> RuleVerdict | None:
    """The verdict, if not exactly what was due was received, and then the end."""
    run = (when, _in_words(received, error))
    if not isinstance(error, Ended):
        return RuleVerdict(rule, Outcome.BREAKS, "does not tell the receiver that the stream has ended", run)
    if received != due:
        return RuleVerdict(rule, Outcome.BREAKS, "ends before everything was received", run)
    return None


async def end_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """End a stream while it is full and a chunk waits; and while a receiver waits."""
    async with _ending(book, make) as full:
        last = await full.fill()
        waits = not last.done()
        full.adapter.end()
        received, error = await full.receive_all()
        when = f"chunks {full.due} are sent, the last one {'waits' if waits else 'as well'}; the stream is ended"
        if wrong := _end_is_wrong(rule, full.due, received, error, when):
            return wrong
    async with _ending(book, make) as idle:
        waiting = idle.adapter.take()
        await idle.adapter.pause()
        idle.adapter.end()
        if not await idle.is_told(waiting, Ended):
            run = ("a receiver waits; the stream is ended", f"it {idle.adapter.fate(waiting)}")
            return RuleVerdict(rule, Outcome.BREAKS, "does not tell a waiting receiver that the stream has ended", run)
    how = "one of them waiting" if waits else "none of which had to wait"
    return RuleVerdict(rule, Outcome.HOLDS, f"{len(full.due)} chunks, {how}, then the end; also to one who waits")


async def cancelled_end_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Cancel the end of a full stream at each await, asleep and awake; then ask for it again."""
    met: Counter[str] = Counter()
    for number in range(1, MOST_AWAITS + 1):
        states: set[str] = set()
        for state in ("asleep", "woken"):
            async with _ending(book, make) as full:
                await full.fill()
                try:
                    is_met, received, error = await full.cancel_end(number, is_asleep=state == "asleep")
                except AdapterError as fault:
                    return RuleVerdict(rule, Outcome.BREAKS, str(fault))
                if not is_met:
                    continue
                states.add(state)
                when = f"an end is cancelled at its await number {number}, {state}; the stream is ended again"
                if wrong := _end_is_wrong(rule, full.due, received, error, when):
                    return wrong
        if not states:
            break
        met.update(states)
    finding = cancellations_in_words(met, number - 1) if met else "an end never waits: there is nothing to cancel"
    return RuleVerdict(rule, Outcome.HOLDS, finding)


async def abort_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Abort a stream that holds a chunk; one whose receiver waits; and one whose sender does."""
    finding = "does not tell the receiver that the stream was given up"
    async with _ending(book, make) as one:
        sent = one.adapter.send(1, 1)
        await one.adapter.has_ended(sent)
        one.adapter.abort()
        received, error = await one.receive_all()
        if not isinstance(error, Aborted):
            run = ("chunk 1 is sent; the stream is given up", _in_words(received, error))
            return RuleVerdict(rule, Outcome.BREAKS, finding, run)
    async with _ending(book, make) as idle:
        waiting = idle.adapter.take()
        await idle.adapter.pause()
        idle.adapter.abort()
        if not await idle.is_told(waiting, Aborted):
            run = ("a receiver waits; the stream is given up", f"it {idle.adapter.fate(waiting)}")
            return RuleVerdict(rule, Outcome.BREAKS, finding, run)
    async with _ending(book, make) as full:
        last = await full.fill()
        waits = not last.done()
        full.adapter.abort()
        if not await full.adapter.has_ended(last):
            run = (f"chunk {full.due[-1]} waits to be sent; the stream is given up", "the send waits on")
            return RuleVerdict(rule, Outcome.BREAKS, "lets a send wait for ever that was given up", run)
    told = "the receiver is told, also one who waits"
    return RuleVerdict(rule, Outcome.HOLDS, f"{told}; a send that waits ends" if waits else told)


async def stop_run(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Stop a full stream from its receiver while a chunk waits, alone and with an end behind it; and an idle stream."""
    for is_full, then_ends in ((True, False), (True, True), (False, False)):
        async with _ending(book, make) as one:
            found = await one.stop(is_full=is_full, then_ends=then_ends)
            if found:
                when = f"chunks {one.due} are sent" if one.due else "nothing is sent"
                when += ", then the end" if then_ends else ""
                return RuleVerdict(rule, Outcome.BREAKS, found, (f"{when}; the receiver stops the stream",))
    return RuleVerdict(rule, Outcome.HOLDS, "a send that waits fails, and a later one; in an idle stream, too")
