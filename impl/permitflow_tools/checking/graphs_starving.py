"""Does an input of a merge starve: is there a fair run in which it is never taken any more?"""

from collections.abc import Collection
from typing import NamedTuple

from permitflow_tools.checking.graphs_search import Edge, Move, Search, moves_of


class Starved(NamedTuple):
    """An inlet that can starve."""

    inlet: int
    moves: list[Move]
    """A run into the circle in which it is not taken, and once round in it."""


def starved(search: Search, merge: int) -> Starved | None:
    """An inlet that can starve, in a graph that was explored whole; None: none of this merge can.

    A run ends in states that it visits again and again.  It is fair if what the outside can do in all of them happens
    in one of them.
    """
    part = search.parameters.parts[merge]
    for inlet, arc in enumerate(part.inlets[1:], 1):
        holding = {n for n, state in enumerate(search.states) if arc in state.stages[merge]}
        kept = {
            n: [edge for edge in search.edges[n] if edge.target in holding and not _takes(edge, merge, arc)]
            for n in holding
        }
        for component in _components(kept):
            if _is_fair(search, component, kept):
                first = min(component)
                return Starved(inlet, search.path_to(first) + _once_round(first, component, kept))
    return None


def _once_round(first: int, component: Collection[int], kept: dict[int, list[Edge]]) -> list[Move]:
    """The moves of a shortest way from a state back to it."""
    parents: dict[int, Edge] = {}
    ahead = [first]
    for position in ahead:
        for edge in kept[position]:
            if edge.target in component and edge.target not in parents:
                parents[edge.target] = edge
                ahead.append(edge.target)
    moves, position = [], first
    while True:
        edge = parents[position]
        moves.append(edge.move)
        position = edge.source
        if position == first:
            return moves[::-1]


def _takes(edge: Edge, merge: int, arc: int) -> bool:
    return any(taken.stage == merge and taken.arc == arc for taken in edge.taken)


def _components(kept: dict[int, list[Edge]]) -> list[set[int]]:
    from networkx import DiGraph, strongly_connected_components

    graph = DiGraph((edge.source, edge.target) for edges in kept.values() for edge in edges)
    found = strongly_connected_components(graph)
    return [each for each in found if len(each) > 1 or any(graph.has_edge(n, n) for n in each)]


def _is_fair(search: Search, component: Collection[int], kept: dict[int, list[Edge]]) -> bool:
    done = {edge.move[:2] for n in component for edge in kept[n] if edge.target in component}
    always = None
    for n in component:
        possible = {move[:2] for move in moves_of(search.parameters, search.states[n])}
        always = possible if always is None else always & possible
    return not (always or set()) - done
