"""Judges free runs, with two producers and a consumer at their own pace, and the end of a stream.

The kit's observations at the adapter form a trace without the protocol's own steps; the model fills them in, in all
possible ways.  The channel's own recording is a trace with all steps.  The specification does not cover the end of a
stream; the channels' interface does.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.adapter import Aborted, ChannelAdapter, Ended, Feature, Received, lacks_of
from permitflow.testing.kit.cancelling import capacity_of
from permitflow.testing.kit.outside import Outside, World
from permitflow.testing.kit.rules import MakeAdapter, Outcome, Rule, Rulebook, RuleVerdict
from permitflow.testing.traces import judge_all
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.system import Disabled

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

    def taken(self, received: Received) -> None:
        """Note that a message was handed over."""
        number = self.numbers.get(received.value or 0, -1) if received.value is not None else -2
        self.events.append(("taken", number, received.rows))


async def _run(
    adapter: ChannelAdapter, agreed: Any, sizes: Sequence[int], observed: Observed, trace: MemoryTrace
) -> None:
    await adapter.open(agreed, trace.recorder)
    choose = random.Random(SEED)
    has_consume = Feature.ACKNOWLEDGEMENT not in lacks_of(adapter)

    async def produce(first: int) -> None:
        for serial in range(first, first + CHUNKS_OF_EACH):
            rows = choose.choice(sizes)
            observed.offered(serial, rows)
            await adapter.offer_chunk(serial, rows)
            observed.left(serial)
            await _give_way(choose.randrange(3))

    async def consume() -> None:
        for _ in range(2 * CHUNKS_OF_EACH):
            observed.taken(await adapter.take())
            if has_consume:
                await _give_way(choose.randrange(4))
                adapter.consume()
            observed.events.append(("consumed", 0, 0))

    try:
        async with asyncio.timeout(10 * adapter.timeout_seconds), asyncio.TaskGroup() as group:
            for first in (1, 1001):
                group.create_task(produce(first))
            group.create_task(consume())
    finally:
        if not _is_at_rest(trace):
            await _come_to_rest(adapter, trace)
        await adapter.close()


async def _give_way(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def _come_to_rest(adapter: ChannelAdapter, trace: MemoryTrace) -> None:
    """Wait until the channel has finished all that is under way."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + adapter.timeout_seconds
    while trace.events and not _is_at_rest(trace) and loop.time() < deadline:  # noqa: ASYNC110 - a recorder tells nobody
        await asyncio.sleep(adapter.quiet_seconds)


def _is_at_rest(trace: MemoryTrace) -> bool:
    return all(verdict.is_at_rest for verdict in judge_all(trace.trace()))


async def observe_run(book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Does the model explain the observations of a run?"""
    adapter = make()
    if adapter.hops > 1:
        finding = f"{adapter.hops} control loops in a chain are judged by what they record"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    observed, lacks = Observed(), lacks_of(adapter)
    agreed, sizes = book.of_a_run(lacks, is_observed=True)
    try:
        await _run(adapter, agreed, sizes, observed, MemoryTrace())
    except TimeoutError:
        return RuleVerdict(rule, Outcome.BREAKS, f"stands still after {len(observed.events)} events")
    return _explained(rule, book.seen(agreed, sizes, lacks=lacks, waiters=2 * CHUNKS_OF_EACH), observed)


def _explained(rule: Rule, outside: Outside, observed: Observed) -> RuleVerdict:
    worlds = {outside.start()}
    for position, event in enumerate(observed.events):
        following = {after for world in _all_that_follows(outside, worlds) for after in _explain(outside, world, event)}
        if not following:
            last = [
                " ".join(map(str, one)).removesuffix(" 0")
                for one in observed.events[max(0, position - 6) : position + 1]
            ]
            finding = f"does what no behaviour explains, at event {position + 1} of {len(observed.events)}"
            return RuleVerdict(rule, Outcome.BREAKS, finding, (*last[:-1], f"{last[-1]}  <- not explained"))
        worlds = following
    return RuleVerdict(rule, Outcome.HOLDS, f"{len(observed.events)} events of two producers and a consumer explained")


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
            if outcome == Received(Kind.CHUNK, number if number != -2 else getattr(outcome, "value", None), rows):
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


async def record_run(book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Is the channel's recording of a run a behaviour, and does it come to rest?"""
    adapter, trace = make(), MemoryTrace()
    lacks = lacks_of(adapter)
    agreed, sizes = book.of_a_run(lacks, is_observed=False)
    try:
        await _run(adapter, agreed, sizes, Observed(), trace)
    except TimeoutError:
        return RuleVerdict(rule, Outcome.BREAKS, f"stands still after {len(trace.events)} recorded events")
    if not trace.events:
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, "it recorded nothing")
    verdicts = [verdict for by_end in (False, True) for verdict in judge_all(trace.trace(), by_end=by_end)]
    for verdict in verdicts:
        if not verdict.is_valid or not (verdict.is_at_rest or Feature.IDLE_FLUSH in lacks):
            finding = "leaves the specification" if not verdict.is_valid else "does not come to rest"
            return RuleVerdict(rule, Outcome.BREAKS, f"{finding}, as it recorded itself", (verdict.describe(),))
    channels = len(trace.trace().channels)
    return RuleVerdict(
        rule, Outcome.HOLDS, f"{len(trace.events)} recorded events of {channels} streams, at rest in the end"
    )


async def end_run(book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """End a stream while it is full and a chunk waits."""
    adapter = make()
    await adapter.open(book.plain, MemoryTrace().recorder)
    due = list(range(1, capacity_of(book, adapter) + 2))
    sends = [asyncio.create_task(adapter.offer_chunk(serial, 1)) for serial in due]
    try:
        await asyncio.wait(sends[:-1], timeout=adapter.timeout_seconds)
        ending = asyncio.create_task(adapter.end())
        sends.append(ending)
        received, error = await _receive_all(adapter)
    finally:
        await _close(adapter, sends)
    run = (f"chunks {due} are sent, the last one waits; the stream is ended", f"received {received}, then {error!r}")
    if not isinstance(error, Ended):
        return RuleVerdict(rule, Outcome.BREAKS, "does not tell the receiver that the stream has ended", run)
    if received != due:
        return RuleVerdict(rule, Outcome.BREAKS, "ends before everything was received", run)
    return RuleVerdict(rule, Outcome.HOLDS, f"{len(due)} chunks, one of them waiting, then the end")


async def abort_run(book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Abort a stream that holds a chunk."""
    adapter = make()
    await adapter.open(book.plain, MemoryTrace().recorder)
    try:
        await adapter.offer_chunk(1, 1)
        adapter.abort()
        received, error = await _receive_all(adapter)
    finally:
        await _close(adapter, [])
    if isinstance(error, Aborted):
        return RuleVerdict(rule, Outcome.HOLDS, "the receiver is told")
    run = ("chunk 1 is sent; the stream is given up", f"received {received}, then {error!r}")
    return RuleVerdict(rule, Outcome.BREAKS, "does not tell the receiver that the stream was given up", run)


async def _receive_all(adapter: ChannelAdapter) -> tuple[list[int | None], Exception | None]:
    received: list[int | None] = []
    try:
        while True:
            async with asyncio.timeout(adapter.timeout_seconds):
                received.append((await adapter.take()).value)
            if Feature.ACKNOWLEDGEMENT not in lacks_of(adapter):
                adapter.consume()
    except TimeoutError:
        return received, None
    except Exception as error:
        return received, error


async def _close(adapter: ChannelAdapter, tasks: list[asyncio.Task[None]]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(adapter.timeout_seconds):
            await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await adapter.close()
