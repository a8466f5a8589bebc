"""A place for each state: one column for each depth, in the order in which breadth-first search met the states.

Sorting the columns further (the barycentre heuristic of Sugiyama's method) was tried and made some graphs better and
others worse: the search's own order keeps brothers together already.
"""

from collections.abc import Sequence

from permitflow.pictures.state_graph import StateGraph

__all__ = ["columns_of", "positions"]


def columns_of(graph: StateGraph) -> list[list[int]]:
    """States by depth."""
    columns: list[list[int]] = [[] for _ in range(max(graph.depths) + 1)]
    for state, depth in enumerate(graph.depths):
        columns[depth].append(state)
    return columns


def positions(columns: Sequence[Sequence[int]]) -> dict[int, tuple[int, float]]:
    """Of each state, its column and its height, counted from the middle of all columns."""
    return {
        state: (depth, place - (len(column) - 1) / 2)
        for depth, column in enumerate(columns)
        for place, state in enumerate(column)
    }
