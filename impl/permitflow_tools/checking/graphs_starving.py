"""Does an input of a merge starve: is there a fair run in which it is never taken any more?"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from permitflow_tools.checking.graphs_search import Move, RestEdge, Search, moves_of


class Starved(NamedTuple):
    """An inlet that can starve."""

    inlet: int
    moves: list[Move]
    """A run into the circle in which it is not taken, and once round in it, with all that fairness needs."""


def starved(search: Search, merge: int) -> Starved | None:
    """An inlet that can starve, in a graph that was explored whole; None: none of this merge can.

    A run ends in states that it visits again and again.  It is fair if what the outside can do in all of them happens
    in one of them.
    """
    logic = search.parameters.logics[merge]
    for inlet, arc in enumerate(logic.inlets[1:], 1):
        holding = {n for n, state in enumerate(search.states) if arc in state.stages[merge]}
        kept = {
            n: [edge for edge in search.edges[n] if edge.target in holding and not _takes(edge, merge, arc)]
            for n in holding
        }
        for component in _components(kept):
            needed = _always_possible(search, component)
            done = {edge.move[:2] for n in component for edge in kept[n] if edge.target in component}
            if needed <= done:
                first = min(component)
                return Starved(inlet, search.path_to(first) + _fair_round(first, component, kept, needed))
    return None


def _fair_round(
    first: int, component: Collection[int], kept: Mapping[int, Sequence[RestEdge]], needed: set[tuple[str, int]]
) -> list[Move]:
    """The moves of a way from a state back to it, on which all that is needed happens."""
    left, moves, position = set(needed), list[Move](), first
    while left or position != first or not moves:
        way = _way(position, component, kept, first, left)
        moves += [edge.move for edge in way]
        left -= {edge.move[:2] for edge in way}
        position = way[-1].target
    return moves


def _way(
    start: int,
    component: Collection[int],
    kept: Mapping[int, Sequence[RestEdge]],
    first: int,
    left: Collection[tuple[str, int]],
) -> list[RestEdge]:
    """A shortest way to something that is left to do; if nothing is, to the first state."""
    parents: dict[int, RestEdge] = {}
    ahead = [start]
    for position in ahead:
        for edge in kept[position]:
            if edge.target not in component:
                continue
            if edge.move[:2] in left or (not left and edge.target == first):
                way = [edge]
                while way[-1].source != start:
                    way.append(parents[way[-1].source])
                return way[::-1]
            if edge.target not in parents:
                parents[edge.target] = edge
                ahead.append(edge.target)
    raise AssertionError("each state of a component can be reached from each other one")


def _takes(edge: RestEdge, merge: int, arc: int) -> bool:
    return any(taken.stage == merge and taken.arc == arc for taken in edge.taken)


def _components(kept: dict[int, list[RestEdge]]) -> list[set[int]]:
    from networkx import DiGraph, strongly_connected_components

    graph = DiGraph((edge.source, edge.target) for edges in kept.values() for edge in edges)
    found = strongly_connected_components(graph)
    return [each for each in found if len(each) > 1 or any(graph.has_edge(n, n) for n in each)]


def _always_possible(search: Search, component: Collection[int]) -> set[tuple[str, int]]:
    """What the outside can do in all states: in a fair run it does it."""
    possible = ({move[:2] for move in moves_of(search.parameters, search.states[n])} for n in component)
    return set[tuple[str, int]].intersection(*possible)
