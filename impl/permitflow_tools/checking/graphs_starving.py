"""Does an input of a merge starve: is there a fair run in which it is never taken any more?"""

from collections.abc import Collection

from permitflow_tools.checking.graphs_search import Edge, Search, moves_of


def starved(search: Search, merge: int) -> int | None:
    """The number of an inlet that can starve, in a graph that was explored whole; None: none of this merge can.

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
        if any(_is_fair(search, component, kept) for component in _components(kept)):
            return inlet
    return None


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
