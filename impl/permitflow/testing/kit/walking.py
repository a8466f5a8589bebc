"""A walk over whole state graphs, as far as applications can see them, one for each group of features.

In every state every move is made, also those that have to wait or to be refused.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from permitflow.protocol.permits import ChannelParameters
from permitflow.testing.kit.adapter import Feature, lacks_of
from permitflow.testing.kit.leading import Led, lead, steps_in_words
from permitflow.testing.kit.outside import Outside, World, canonical
from permitflow.testing.kit.probes import parameters_of
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule, constants
from permitflow.testing.moves import Divergence, Move

__all__ = ["alphabet_for", "walk_graphs"]

Lacks: TypeAlias = frozenset[Feature]

Belief: TypeAlias = frozenset[World]
"""The worlds in which a channel may be after what was seen."""

_CLASSES = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
# Beside barriers or watermarks, chunks of one size that need no batches show all that there is to see.
_SMALL = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.REFUSALS})


async def walk_graphs(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Walk every edge of every graph; stop at the first step that is not the model's."""
    edges = of_edges = states = 0
    adapter = make()
    for left_out in _graphs_of(lacks_of(adapter), adapter.hops):
        graph = _graph_without(left_out, adapter.hops)
        led = Led(make(), graph.outside, graph.agreed)
        await led.open()
        try:
            walked, visited = await _tour(led, graph)
        except Divergence:
            pass  # the last step says it
        finally:
            await led.close()
        if not led.steps[-1].is_right:
            # The shortest run to that state, if the channel makes the right choices on its way, and goes wrong, too.
            way, _ = _way(graph, graph.start, [_belief(led.worlds)].__contains__)
            shorter = await lead(make(), graph.outside, graph.agreed, (*way, led.steps[-1].move))
            steps = led.steps if shorter[-1].is_right else shorter
            finding = f"does something else than the model, after {len(led.steps) - 1:,} moves that were right"
            return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(steps)[-12:]))
        edges, of_edges, states = edges + walked, of_edges + graph.size, states + visited
    return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, in {states:,} states")


def _graphs_of(lacks: Lacks, hops: int) -> tuple[Lacks, ...]:
    """The features that are left out of each graph; together the graphs have all that the channel has.

    A chain of channels is walked with chunks of one size only, sent by those who wait: all of it would be a hundred
    times as many edges.
    """
    if hops > 1:
        return (lacks | _CLASSES | _SMALL,)
    beside = (lacks | _SMALL | (_CLASSES - {kind}) for kind in sorted(_CLASSES - lacks))
    return tuple(dict.fromkeys((lacks | _CLASSES, *beside)))


def alphabet_for(lacks: Lacks, sizes: Iterable[int]) -> tuple[Move, ...]:
    """What the applications of a channel without these features can do, with chunks of these sizes."""
    moves = [Move("OfferChunk", (rows,)) for rows in sizes]
    if Feature.REFUSALS not in lacks:
        moves += [Move("SendChunkNow", (rows,)) for rows in sizes]
    if Feature.CANCELLATION not in lacks:
        moves += [Move("WithdrawChunk", (position,)) for position in range(2)]
    if Feature.BARRIERS not in lacks:
        moves += [Move("OfferBarrier")]
    if Feature.WATERMARKS not in lacks:
        moves += [Move("OfferWatermark")]
    if not {Feature.BARRIERS, Feature.CANCELLATION} & lacks:
        moves += [Move("WithdrawBarrier", (position,)) for position in range(2)]
    return (*moves, *([Move("Receive")] if Feature.ACKNOWLEDGEMENT in lacks else [Move("Take"), Move("Consume")]))


@dataclass(frozen=True, eq=False)
class _Graph:
    """What may be known about the smallest channel that shows everything, and where each move leads from there."""

    outside: Outside
    agreed: ChannelParameters
    start: Belief
    edges: dict[Belief, dict[Move, tuple[Belief, ...]]]
    """Several beliefs where the specification leaves a choice."""

    @property
    def size(self) -> int:
        """Edges: pairs of a state and a move."""
        return sum(map(len, self.edges.values()))


@cache
def _graph_without(lacks: Lacks, hops: int) -> _Graph:
    """Explore everything that a channel without these features can do."""
    sizes = (1,) if Feature.WEIGHTS in lacks else (1, 2)
    agreed = constants(2) if hops > 1 or Feature.BATCHING in lacks else constants(3, 2, clamp=2)
    outside = Outside(parameters_of(agreed, sizes, idle_flush=Feature.IDLE_FLUSH not in lacks), hops=hops)
    alphabet = alphabet_for(lacks, sizes)
    graph = _Graph(outside, agreed, frozenset({outside.start()}), {})
    todo = deque([graph.start])
    while todo:
        belief = todo.popleft()
        if belief not in graph.edges:
            moves = outside.moves(next(iter(belief)), alphabet)
            edges = {move: tuple(map(_belief, outside.make_in(belief, move).values())) for move in moves}
            graph.edges[belief] = edges
            todo.extend(after for several in edges.values() for after in several)
    return graph


def _belief(worlds: Iterable[World]) -> Belief:
    return frozenset(map(canonical, worlds))


async def _tour(led: Led, graph: _Graph) -> tuple[int, int]:
    """Walk every edge at least once, in one long run; how many edges, and how many states were seen.

    Edges behind a choice that the channel never makes stay open.

    Raises:
        Divergence: the channel does something else than the model.
    """
    left = {belief: list(edges) for belief, edges in graph.edges.items()}
    visited = {graph.start}
    while len(led.steps) <= 20 * graph.size:
        way, target = _way(graph, _belief(led.worlds), left.__getitem__)
        if target is None:
            break
        for move in (*way, left[target][0]):
            here = _belief(led.worlds)
            visited.add(here)
            if move not in graph.edges[here]:
                break  # the channel has chosen another way
            await led.make(move)
            if move in left[here]:
                left[here].remove(move)
    visited.add(_belief(led.worlds))
    return graph.size - sum(map(len, left.values())), len(visited)


def _way(graph: _Graph, start: Belief, is_sought: Callable[[Belief], object]) -> tuple[Sequence[Move], Belief | None]:
    """The shortest run to a state that is sought, if the channel makes the right choices; and that state."""
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
