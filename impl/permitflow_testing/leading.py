"""Leads a channel by the model: after each move, the applications' view must be one of the model's.

Where the specification allows several outcomes, the model keeps several worlds until an observation distinguishes them.

``walk_graphs`` leads it through whole state graphs, as far as applications can see them: it makes every move in every
state, also moves that must wait or be refused.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from permitflow.flows.messages import Kind
from permitflow.tracing.file import MemoryTrace
from permitflow_testing.adapter import ReceivedMessage, Refused
from permitflow_testing.bounded import AdapterError, BoundedAdapter, Call, MakeBounded
from permitflow_testing.moves import Divergence, Move
from permitflow_testing.outside import DONE, NOTHING, REFUSED, WITHDRAWN, Outside, Result, Seen, World
from permitflow_testing.rules import Graph, Outcome, Rule, Rulebook, RuleVerdict, alphabet_for


class LedStep(NamedTuple):
    """A move, and the view after it."""

    move: Move
    seen: Seen | str
    """A string if the channel raised an unexpected exception."""
    expected: tuple[Seen, ...]
    error: Exception | None = None
    """That exception."""

    @property
    def is_right(self) -> bool:
        """Does the model allow this view?"""
        return self.seen in self.expected


def steps_in_words(steps: Sequence[LedStep]) -> list[str]:
    """A line for each step; a last line with the expected views, if the run diverged."""
    lines = [f"{number}. {step.move!r}: {step.seen}" for number, step in enumerate(steps, start=1)]
    if steps and not steps[-1].is_right:
        lines.append(f"   expected: {' or '.join(dict.fromkeys(map(str, steps[-1].expected)))}")
    return lines


async def lead(adapter: BoundedAdapter, outside: Outside, agreed: Any, moves: Iterable[Move]) -> list[LedStep]:
    """Lead a channel through these moves until one diverges from the model; return all steps."""
    led = Led(adapter, outside, agreed)
    with suppress(Divergence):  # the last step says it
        await led.run(moves)
    return led.steps


class Led:
    """One run of one channel."""

    def __init__(self, adapter: BoundedAdapter, outside: Outside, agreed: Any) -> None:
        self.adapter = adapter
        self.outside = outside
        self.agreed = agreed
        self.worlds: tuple[World, ...] = (outside.start(),)
        self.steps: list[LedStep] = []
        self.trace = MemoryTrace()
        self._changed = asyncio.Event()
        self.offered: list[int] = []
        """Serial numbers of offered messages that were not withdrawn: the index of each is the model's number."""
        self._serial = 0
        self._sends: dict[int, tuple[str, Call]] = {}
        """Sends that have not returned yet, with their messages, by serial number."""
        self._announced = 0

    def opened(self) -> AbstractAsyncContextManager[None]:
        """The channel is open in the block, at rest at first."""
        return self.adapter.opened(self.agreed, self.trace.recorder)

    async def run(self, moves: Iterable[Move]) -> None:
        """Open the channel, make these moves, and close it; a move may be chosen by what the last one led to.

        Raises:
            Divergence: as ``make`` does.
        """
        async with self.opened():
            for move in moves:
                await self.make(move)

    async def make(self, move: Move) -> LedStep:
        """Make a move, and compare the view after it with the model.

        Raises:
            Divergence: the model does not allow it; its cause is the exception that the channel raised, if any.
        """
        possible = self.outside.make_in(self.worlds, move)
        expected = tuple(possible)
        step = await self._see(move, expected)
        self.steps.append(step)
        if not step.is_right:
            raise Divergence("\n".join(steps_in_words(self.steps))) from step.error
        self.worlds = next(worlds for seen, worlds in possible.items() if seen == step.seen)
        return step

    async def _see(self, move: Move, expected: tuple[Seen, ...]) -> LedStep:
        try:
            outcome = await self._perform(move, expected)
            return LedStep(move, await self._settled(outcome, expected), expected)
        except AdapterError as error:
            return LedStep(move, str(error), expected, error)
        except Exception as error:
            return LedStep(move, f"{type(error).__name__} was raised: {error}", expected, error)

    # The applications' moves.

    async def _perform(self, move: Move, expected: Sequence[Seen]) -> Result:
        match move:
            case Move("OfferChunk", (rows,)):
                serial = self._next()
                self.note_send(serial, move, self.adapter.send(serial, rows))
            case Move("OfferBarrier"):
                self.note_send(self._next(), move, self.adapter.send_barrier())
            case Move("OfferWatermark"):
                self._announced += 1
                self.adapter.announce(self._announced)
            case Move("WithdrawChunk" | "WithdrawBarrier", position):
                await self._withdraw(sum(position) if position else -1)
            case Move("SendChunkNow", (rows,)):
                return await self._send_now(rows, expected)
            case Move("Take"):
                return await self._take(expected)
            case Move("Consume"):
                self.adapter.consume()
            case Move("Receive"):
                outcome = await self._take(expected)
                if isinstance(outcome, ReceivedMessage):
                    self.adapter.consume()
                return outcome
        return DONE

    def next_serial(self) -> int:
        """The number of a message that is offered now; see ``offered``."""
        self._serial += 1
        return self._serial

    def _next(self) -> int:
        self.offered.append(self.next_serial())
        return self._serial

    def note_send(self, serial: int, move: Move, call: Call) -> None:
        """Watch a send that has begun."""
        kind = "barrier" if move.action == "OfferBarrier" else "chunk"
        call.add_done_callback(lambda _: self._changed.set())
        self._sends[serial] = kind, call

    def follow(self, move: Move, outcome: Result) -> None:
        """Let the model make a move that somebody else has made, with this outcome.

        Raises:
            Divergence: the model does not allow it.
        """
        possible = self.outside.make_in(self.worlds, move)
        if isinstance(outcome, ReceivedMessage):
            outcome = self._in_the_models_terms(outcome, _received(possible))
        self.worlds = tuple(world for seen, worlds in possible.items() if seen.outcome == outcome for world in worlds)
        if not self.worlds:
            self.steps.append(LedStep(move, Seen(outcome), tuple(possible)))
            raise Divergence("\n".join(steps_in_words(self.steps)))

    async def _withdraw(self, position: int) -> None:
        serial = list(self._sends)[position]
        self.offered.remove(serial)
        _, call = self._sends.pop(serial)
        if await self.adapter.give_up(call) and not call.cancelled():
            call.result()  # as it was raised instead of the cancellation

    async def _send_now(self, rows: int, expected: Sequence[Seen]) -> Result:
        may_succeed = any(seen.outcome == DONE for seen in expected)
        serial = self._next()

        def attempt() -> bool:
            with suppress(Refused):
                self.adapter.send_now(serial, rows)
                return True
            return False

        # Its permits may still be on their way; a refusal changes nothing, so the send may be repeated.
        if attempt() or (may_succeed and await self._retry(attempt)):
            return DONE
        self.offered.pop()
        return REFUSED

    async def _retry(self, attempt: Callable[[], bool]) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._deadline()):
                while True:
                    await asyncio.sleep(self.adapter.quiet_seconds)
                    if attempt():
                        return True
        return False

    async def _take(self, expected: Sequence[Seen]) -> Result:
        call = self.adapter.take()
        await self.adapter.pause()
        if not call.done() and any(seen.outcome != NOTHING for seen in expected):
            await self._wait_for(call)
        if not call.done() and (not await self.adapter.give_up(call) or call.cancelled()):
            return NOTHING
        received = self.adapter.result(call)
        return self._in_the_models_terms(received, _received(expected))

    def _in_the_models_terms(self, received: ReceivedMessage, due: Sequence[ReceivedMessage]) -> ReceivedMessage:
        kind, value, rows = received
        if value is None:
            # The payload is too small to carry a number: assume the right one.
            value = next((one.value for one in due if (one.kind, one.rows) == (kind, rows)), None)
        elif kind is Kind.CHUNK:
            value = self.offered.index(value) if value in self.offered else WITHDRAWN
        return ReceivedMessage(kind, value, rows)

    # The applications' view.

    async def _settled(self, outcome: Result, expected: Sequence[Seen]) -> Seen:
        deadline = self._deadline()
        while True:
            self._changed.clear()
            await self.adapter.pause()
            self._drop_done()
            waiting = tuple(f"{kind} {self.offered.index(serial)}" for serial, (kind, _) in self._sends.items())
            seen = Seen(outcome, waiting)
            if seen in expected or asyncio.get_running_loop().time() >= deadline:
                return seen
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()

    def _drop_done(self) -> None:
        for serial in [serial for serial, (_, task) in self._sends.items() if task.done()]:
            _, call = self._sends.pop(serial)
            self.adapter.result(call)

    def _deadline(self) -> float:
        # An in-process channel has settled after this many turns of the loop.
        patience = self.adapter.timeout_seconds if self.adapter.quiet_seconds else 0.0
        return asyncio.get_running_loop().time() + patience

    async def _wait_for(self, task: asyncio.Task[ReceivedMessage]) -> None:
        if self.adapter.quiet_seconds:
            await asyncio.wait({task}, timeout=self.adapter.timeout_seconds)
        else:
            await self.adapter.pause()


def _received(possible: Iterable[Seen]) -> list[ReceivedMessage]:
    return [seen.outcome for seen in possible if isinstance(seen.outcome, ReceivedMessage)]


# Whole graphs.

Belief: TypeAlias = frozenset[World]
"""The worlds that are consistent with all observations."""


async def walk_graphs(book: Rulebook, rule: Rule, make: MakeBounded) -> RuleVerdict:
    """Walk every edge of every graph; stop at the first step that diverges from the model."""
    edges = of_edges = states = 0
    adapter = make()
    for small in book.graphs(adapter.lacks, adapter.hops):
        graph = _explored(book, small, adapter.hops)
        led = Led(make(), graph.outside, small.agreed)
        tour = _Tour(led, graph)
        with suppress(Divergence):  # the last step says it
            await led.run(tour)
        if (error := led.steps[-1].error) is not None:
            return RuleVerdict.raised(rule, error, steps_in_words(led.steps)[-12:])
        if not led.steps[-1].is_right:
            # Try the shortest run to that state; it counts if the channel takes this path and diverges there, too.
            way, _ = _way(graph, graph.start, [_belief(led.outside, led.worlds)].__contains__)
            shorter = await lead(make(), graph.outside, small.agreed, (*way, led.steps[-1].move))
            steps = led.steps if shorter[-1].is_right else shorter
            finding = f"does something else than the model, after {len(led.steps) - 1:,} moves that were right"
            return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(steps)[-12:]))
        edges, of_edges, states = edges + tour.walked, of_edges + graph.size, states + len(tour.visited)
    return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, in {states:,} states")


@dataclass(frozen=True, eq=False)
class _Graph:
    """The beliefs that are reachable in a small channel, and the beliefs to which each move leads."""

    outside: Outside
    start: Belief
    edges: dict[Belief, dict[Move, tuple[Belief, ...]]]
    """Several beliefs for a move if the specification allows several outcomes."""

    @property
    def size(self) -> int:
        """The number of edges: pairs of a state and a move."""
        return sum(map(len, self.edges.values()))


@cache
def _explored(book: Rulebook, small: Graph, hops: int) -> _Graph:
    """Explore the whole behaviour of the channel."""
    outside = book.seen(small.agreed, small.sizes, hops=hops, lacks=small.lacks, waiters=small.waiters)
    alphabet = alphabet_for(small.lacks, small.sizes)
    graph = _Graph(outside, frozenset({outside.start()}), {})
    todo = deque([graph.start])
    while todo:
        belief = todo.popleft()
        if belief not in graph.edges:
            moves = outside.moves(next(iter(belief)), alphabet)
            edges = {move: tuple(_belief(outside, x) for x in outside.make_in(belief, move).values()) for move in moves}
            graph.edges[belief] = edges
            todo.extend(after for several in edges.values() for after in several)
    return graph


def _belief(outside: Outside, worlds: Iterable[World]) -> Belief:
    return frozenset(map(outside.canonical, worlds))


class _Tour:
    """The moves of one long run that makes every move in every state at least once.

    Edges behind an outcome that the channel never produces stay unvisited.
    """

    def __init__(self, led: Led, graph: _Graph) -> None:
        self.visited = {graph.start}
        self._led = led
        self._graph = graph
        self._left = {belief: list(edges) for belief, edges in graph.edges.items()}

    @property
    def walked(self) -> int:
        """The number of edges so far."""
        return self._graph.size - sum(map(len, self._left.values()))

    def _here(self) -> Belief:
        here = _belief(self._led.outside, self._led.worlds)
        self.visited.add(here)
        return here

    def __iter__(self) -> Iterator[Move]:
        while len(self._led.steps) <= 20 * self._graph.size:
            way, target = _way(self._graph, self._here(), self._left.__getitem__)
            if target is None:
                break
            for move in (*way, self._left[target][0]):
                here = self._here()
                if move not in self._graph.edges[here]:
                    break  # the channel has taken another path
                yield move
                if move in self._left[here]:
                    self._left[here].remove(move)


def _way(graph: _Graph, start: Belief, is_sought: Callable[[Belief], object]) -> tuple[Sequence[Move], Belief | None]:
    """The shortest path to a wanted state, and that state; the channel may take other outcomes on its way."""
    todo: deque[tuple[Belief, tuple[Move, ...]]] = deque([(start, ())])
    met = {start}
    while todo:
        belief, way = todo.popleft()
        if is_sought(belief):
            return way, belief
        for move, following in graph.edges[belief].items():
            for after in following:
                if after not in met:
                    met.add(after)
                    todo.append((after, (*way, move)))
    return (), None
