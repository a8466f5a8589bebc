"""A walk over whole state graphs, as far as applications can see them, one for each group of features.

In every state every move is made, also those that have to wait or to be refused.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from permitflow.testing.kit.adapter import lacks_of
from permitflow.testing.kit.leading import Led, lead, steps_in_words
from permitflow.testing.kit.outside import Outside, World
from permitflow.testing.kit.rules import Graph, MakeAdapter, Outcome, Rule, Rulebook, RuleVerdict, alphabet_for
from permitflow.testing.moves import Divergence, Move

__all__ = ["walk_graphs"]

Belief: TypeAlias = frozenset[World]
"""The worlds in which a channel may be after what was seen."""


async def walk_graphs(book: Rulebook, rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Walk every edge of every graph; stop at the first step that is not the model's."""
    edges = of_edges = states = 0
    adapter = make()
    for small in book.graphs(lacks_of(adapter), adapter.hops):
        graph = _explored(book, small, adapter.hops)
        led = Led(make(), graph.outside, small.agreed)
        await led.open()
        try:
            walked, visited = await _tour(led, graph)
        except Divergence:
            pass  # the last step says it
        finally:
            await led.close()
        if not led.steps[-1].is_right:
            # The shortest run to that state, if the channel makes the right choices on its way, and goes wrong, too.
            way, _ = _way(graph, graph.start, [_belief(led.outside, led.worlds)].__contains__)
            shorter = await lead(make(), graph.outside, small.agreed, (*way, led.steps[-1].move))
            steps = led.steps if shorter[-1].is_right else shorter
            finding = f"does something else than the model, after {len(led.steps) - 1:,} moves that were right"
            return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(steps)[-12:]))
        edges, of_edges, states = edges + walked, of_edges + graph.size, states + visited
    return RuleVerdict(rule, Outcome.HOLDS, f"{edges:,} of {of_edges:,} edges walked, in {states:,} states")


@dataclass(frozen=True, eq=False)
class _Graph:
    """What may be known about the smallest channel that shows everything, and where each move leads from there."""

    outside: Outside
    start: Belief
    edges: dict[Belief, dict[Move, tuple[Belief, ...]]]
    """Several beliefs where the specification leaves a choice."""

    @property
    def size(self) -> int:
        """Edges: pairs of a state and a move."""
        return sum(map(len, self.edges.values()))


@cache
def _explored(book: Rulebook, small: Graph, hops: int) -> _Graph:
    """Explore everything that the channel can do."""
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


async def _tour(led: Led, graph: _Graph) -> tuple[int, int]:
    """Walk every edge at least once, in one long run; how many edges, and how many states were seen.

    Edges behind a choice that the channel never makes stay open.

    Raises:
        Divergence: the channel does something else than the model.
    """
    left = {belief: list(edges) for belief, edges in graph.edges.items()}
    visited = {graph.start}
    while len(led.steps) <= 20 * graph.size:
        way, target = _way(graph, _belief(led.outside, led.worlds), left.__getitem__)
        if target is None:
            break
        for move in (*way, left[target][0]):
            here = _belief(led.outside, led.worlds)
            visited.add(here)
            if move not in graph.edges[here]:
                break  # the channel has chosen another way
            await led.make(move)
            if move in left[here]:
                left[here].remove(move)
    visited.add(_belief(led.outside, led.worlds))
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
