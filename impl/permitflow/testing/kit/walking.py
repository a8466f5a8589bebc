"""A walk over whole state graphs, as far as applications can see them, one for each group of features.

In every state every move is made, also those that have to wait or to be refused.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.kit.adapter import Feature, lacks_of
from permitflow.testing.kit.leading import Led, steps_in_words
from permitflow.testing.kit.outside import Outside, World, canonical
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule, constants
from permitflow.testing.moves import Divergence, Move

__all__ = [
    "Coverage",
    "Graph",
    "alphabet_for",
    "constants_for",
    "graph_for",
    "outside_for",
    "sizes_for",
    "tour",
    "walk_graphs",
]

Belief: TypeAlias = frozenset[World]
"""The worlds in which a channel may be after what was seen."""

Lacks: TypeAlias = frozenset[Feature]


def constants_for(lacks: Lacks, hops: int) -> ChannelParameters:
    """The smallest channel that shows everything a channel without these features can do."""
    return constants(2) if hops > 1 or Feature.BATCHING in lacks else constants(3, 2, clamp=2)


def sizes_for(lacks: Lacks) -> tuple[int, ...]:
    """Sizes of chunks, in rows."""
    return (1,) if Feature.WEIGHTS in lacks else (1, 2)


def outside_for(lacks: Lacks, hops: int) -> Outside:
    """The model of such a channel."""
    parameters = parameters_of(constants_for(lacks, hops), sizes_for(lacks), idle_flush=Feature.IDLE_FLUSH not in lacks)
    return Outside(parameters, hops=hops)


def alphabet_for(lacks: Lacks) -> tuple[Move, ...]:
    """What the applications of a channel without these features can do."""
    sizes = [(rows,) for rows in sizes_for(lacks)]
    optional = {
        Feature.REFUSALS: [Move("SendChunkNow", size) for size in sizes],
        Feature.CANCELLATION: [Move("WithdrawChunk", (position,)) for position in range(2)],
        Feature.BARRIERS: [Move("OfferBarrier")],
        Feature.WATERMARKS: [Move("OfferWatermark")],
    }
    moves = [Move("OfferChunk", size) for size in sizes]
    for feature, more in optional.items():
        moves += more if feature not in lacks else []
    if not {Feature.BARRIERS, Feature.CANCELLATION} & lacks:
        moves.append(Move("WithdrawBarrier"))
    receiving = ["Receive"] if Feature.ACKNOWLEDGEMENT in lacks else ["Take", "Consume"]
    return (*moves, *map(Move, receiving))


@dataclass
class Graph:
    """What may be known about a channel, and where each move leads from there."""

    start: Belief
    edges: dict[Belief, dict[Move, tuple[Belief, ...]]] = field(default_factory=dict)
    """Several beliefs where the specification leaves a choice."""

    @property
    def size(self) -> int:
        """Edges: pairs of a state and a move."""
        return sum(map(len, self.edges.values()))


@cache
def graph_for(lacks: Lacks, hops: int) -> Graph:
    """Explore everything that a channel without these features can do."""
    outside, alphabet = outside_for(lacks, hops), alphabet_for(lacks)
    graph = Graph(frozenset({outside.start()}))
    todo = deque([graph.start])
    while todo:
        belief = todo.popleft()
        if belief in graph.edges:
            continue
        graph.edges[belief] = {move: _after(outside, belief, move) for move in _possible(outside, belief, alphabet)}
        todo.extend(after for several in graph.edges[belief].values() for after in several)
    return graph


def _possible(outside: Outside, belief: Belief, alphabet: Iterable[Move]) -> Iterable[Move]:
    return outside.moves(next(iter(belief)), alphabet)


def _after(outside: Outside, belief: Belief, move: Move) -> tuple[Belief, ...]:
    by_seen: dict[object, set[World]] = {}
    for world in belief:
        for seen, after in outside.make(world, move):
            by_seen.setdefault(seen, set()).add(canonical(after))
    return tuple(map(frozenset, by_seen.values()))


@dataclass(frozen=True)
class Coverage:
    """How far a walk went."""

    edges: int
    states: int
    of_edges: int
    moves: int
    """All moves that were made, also on the way to what was still to be walked."""

    def __str__(self) -> str:
        """In words."""
        return f"{self.edges:,} of {self.of_edges:,} edges, {self.states:,} states, {self.moves:,} moves"


async def tour(led: Led, graph: Graph) -> Coverage:
    """Walk every edge at least once, in one long run.

    Edges behind a choice that the channel never makes stay open; the coverage shows how many.

    Raises:
        Divergence: the channel does something else than the model.
    """
    open_moves = {belief: dict.fromkeys(edges) for belief, edges in graph.edges.items()}
    visited: set[Belief] = set()
    moves = 0
    while True:
        belief = frozenset(map(canonical, led.worlds))
        visited.add(belief)
        way = _way_to_open_edge(graph, open_moves, belief)
        if not way or moves > 20 * graph.size:
            break
        for move in way:
            here = frozenset(map(canonical, led.worlds))
            if move not in graph.edges[here]:
                break  # the channel has chosen another way
            await led.make(move)
            moves += 1
            visited.add(here)
            open_moves[here].pop(move, None)
    left = sum(map(len, open_moves.values()))
    return Coverage(graph.size - left, len(visited), graph.size, moves)


def _way_to_open_edge(graph: Graph, open_moves: dict[Belief, dict[Move, None]], start: Belief) -> tuple[Move, ...]:
    todo: deque[tuple[Belief, tuple[Move, ...]]] = deque([(start, ())])
    met = {start}
    while todo:
        belief, way = todo.popleft()
        if open_moves[belief]:
            return (*way, next(iter(open_moves[belief])))
        for move, following in graph.edges[belief].items():
            for after in following:
                if after not in met:
                    met.add(after)
                    todo.append((after, (*way, move)))
    return ()


def shortest_way(graph: Graph, target: Belief) -> tuple[Move, ...]:
    """The shortest run from rest to a state, if the channel makes the right choices."""
    only = {belief: dict.fromkeys([Move("Take")] if belief == target else []) for belief in graph.edges}
    return _way_to_open_edge(graph, only, graph.start)[:-1]


_CLASSES = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
# Beside barriers or watermarks, chunks of one size that need no batches show all that there is to see.
_SMALL = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.REFUSALS})


def graphs_of(lacks: frozenset[Feature], hops: int) -> tuple[frozenset[Feature], ...]:
    """The features that are left out of each graph; together the graphs have all that the channel has.

    A chain of channels is walked with chunks of one size only, sent by those who wait: all of it would be a hundred
    times as many edges.
    """
    if hops > 1:
        return (lacks | _CLASSES | _SMALL,)
    beside = (lacks | _SMALL | (_CLASSES - {kind}) for kind in sorted(_CLASSES - lacks))
    return tuple(dict.fromkeys((lacks | _CLASSES, *beside)))


async def walk_graphs(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Walk every edge of every graph; stop at the first step that is not the model's."""
    edges = of_edges = states = 0
    adapter = make()
    for left_out in graphs_of(lacks_of(adapter), adapter.hops):
        found = await _walk(rule, make, left_out)
        if isinstance(found, RuleVerdict):
            return found
        edges, of_edges, states = edges + found.edges, of_edges + found.of_edges, states + found.states
    finding = f"{edges:,} of {of_edges:,} edges walked, in {states:,} states"
    return RuleVerdict(rule, Outcome.HOLDS, finding)


async def _walk(rule: Rule, make: MakeAdapter, left_out: frozenset[Feature]) -> Coverage | RuleVerdict:
    adapter = make()
    led = Led(adapter, outside_for(left_out, adapter.hops), constants_for(left_out, adapter.hops))
    graph = graph_for(left_out, adapter.hops)
    await led.open()
    try:
        return await tour(led, graph)
    except Divergence:
        pass
    finally:
        await led.close()
    wrong = led.steps[-1].move
    here = frozenset(map(canonical, led.worlds))
    shorter = await _again(make, left_out, (*shortest_way(graph, here), wrong))
    steps = led.steps if shorter is None else shorter.steps
    finding = f"does something else than the model, after {len(led.steps) - 1:,} moves that were right"
    return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(steps)[-12:]))


async def _again(make: MakeAdapter, left_out: frozenset[Feature], moves: tuple[Move, ...]) -> Led | None:
    """Does a short run go wrong, too?"""
    adapter = make()
    led = Led(adapter, outside_for(left_out, adapter.hops), constants_for(left_out, adapter.hops))
    await led.open()
    try:
        for move in moves:
            await led.make(move)
    except Divergence:
        return led
    finally:
        await led.close()
    return None
