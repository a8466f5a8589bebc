"""Runs that the model does not lead: two producers and a consumer, each at its own pace, and how a stream ends.

What the kit sees at the adapter is a trace without the protocol's own steps; the model fills them in, in all ways that
are possible.  What the channel records itself is a trace with all steps.  The specification is silent about the end of
a stream; the channels' interface is not.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from permitflow.protocol.messages import Kind
from permitflow.protocol.permits import ChannelParameters
from permitflow.testing.kit.adapter import Aborted, ChannelAdapter, Ended, Feature, Received, lacks_of
from permitflow.testing.kit.cancelling import PLAIN, capacity_of
from permitflow.testing.kit.outside import Outside, World
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule, constants
from permitflow.testing.traces import judge_all
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import SYSTEM

__all__ = ["abort_run", "end_run", "observe_run", "record_run"]

CHUNKS_OF_EACH = 12
SEED = 7
BY_ITSELF = tuple(action.name for action in SYSTEM.actions if not action.is_environment and action.name != "Consume")


@dataclass
class Observed:
    """What an onlooker writes down: offered and left with the chunk's number, taken with the message, consumed."""

    events: list[tuple[str, int, int]] = field(default_factory=list)
    """(what, chunk's number, rows)."""

    numbers: dict[int, int] = field(default_factory=dict)
    """The model's number of a chunk, by its serial number."""

    def offered(self, serial: int, rows: int) -> None:
        """A send begins."""
        self.numbers[serial] = len(self.numbers)
        self.events.append(("offered", self.numbers[serial], rows))

    def left(self, serial: int) -> None:
        """A send has returned."""
        self.events.append(("left", self.numbers[serial], 0))

    def taken(self, received: Received) -> None:
        """A message was handed over."""
        number = self.numbers.get(received.value or 0, -1) if received.value is not None else -2
        self.events.append(("taken", number, received.rows))


async def _run(adapter: ChannelAdapter, agreed: ChannelParameters, observed: Observed, trace: MemoryTrace) -> None:
    await adapter.open(agreed, trace.recorder)
    choose = random.Random(SEED)
    sizes = (1,) if Feature.WEIGHTS in lacks_of(adapter) else (1, 2, agreed.max_chunk_cost)
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
    """Let the last permits come home."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + adapter.timeout_seconds
    while trace.events and not _is_at_rest(trace) and loop.time() < deadline:  # noqa: ASYNC110 - a recorder tells nobody
        await asyncio.sleep(adapter.quiet_seconds)


def _is_at_rest(trace: MemoryTrace) -> bool:
    return all(verdict.is_at_rest for verdict in judge_all(trace.trace()))


async def observe_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Is what was seen of a run explained by the model?"""
    adapter = make()
    if adapter.hops > 1:
        finding = f"{adapter.hops} control loops in a chain are judged by what they record"
        return RuleVerdict(rule, Outcome.NOT_APPLICABLE, finding)
    observed, lacks = Observed(), lacks_of(adapter)
    agreed = constants(3) if Feature.BATCHING in lacks else constants(4, 2)
    try:
        await _run(adapter, agreed, observed, MemoryTrace())
    except TimeoutError:
        return RuleVerdict(rule, Outcome.BREAKS, f"stands still after {len(observed.events)} events")
    parameters = parameters_of(agreed, (4,), idle_flush=Feature.IDLE_FLUSH not in lacks)
    return _explained(rule, Outside(replace(parameters, waiters=2 * CHUNKS_OF_EACH)), observed)


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
            yield outside.act(world, 0, "OfferChunk", rows)
        case "left":
            if all(chunk.id != number for chunk in world.hops[0].waiting):
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
        for name in BY_ITSELF:
            try:
                after = outside.act(world, 0, name)
            except Disabled:
                continue
            if after not in met:
                met.add(after)
                todo.append(after)
    return met


async def record_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Is what was recorded of a run a behaviour, and are all permits at home at its end?"""
    adapter, trace = make(), MemoryTrace()
    lacks = lacks_of(adapter)
    agreed = constants(8, 1 if Feature.BATCHING in lacks else 2, clamp=4)
    try:
        await _run(adapter, agreed, Observed(), trace)
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


async def end_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """End a stream while its window is full and a chunk waits."""
    adapter = make()
    await adapter.open(PLAIN, MemoryTrace().recorder)
    due = list(range(1, capacity_of(adapter) + 2))
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


async def abort_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Give a stream up that holds a chunk."""
    adapter = make()
    await adapter.open(PLAIN, MemoryTrace().recorder)
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
