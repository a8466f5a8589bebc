"""A place for each state: one column for each depth; within a column, neighbours of neighbours close together."""

from collections.abc import Sequence
from statistics import fmean

from permitflow.pictures.state_graph import StateGraph

__all__ = ["columns_of", "positions"]

# Each sweep sorts every column by the neighbours on one side; more than a few change nothing.
SWEEPS = 12


def columns_of(graph: StateGraph) -> list[list[int]]:
    """States by depth, in an order in which few edges cross (the barycentre heuristic of Sugiyama's method)."""
    columns: list[list[int]] = [[] for _ in range(max(graph.depths) + 1)]
    for state, depth in enumerate(graph.depths):
        columns[depth].append(state)
    before: list[list[int]] = [[] for _ in graph.states]
    after: list[list[int]] = [[] for _ in graph.states]
    for edge in graph.edges:
        if graph.depths[edge.target] == graph.depths[edge.source] + 1:
            before[edge.target].append(edge.source)
            after[edge.source].append(edge.target)
    for sweep in range(SWEEPS):
        is_forward = sweep % 2 == 0
        neighbours = before if is_forward else after
        for column in columns if is_forward else reversed(columns):
            _sort(column, neighbours, _heights(columns))
    return columns


def positions(columns: Sequence[Sequence[int]]) -> dict[int, tuple[int, float]]:
    """Of each state, its column and its height, counted from the middle of all columns."""
    heights = _heights(columns)
    return {state: (depth, heights[state]) for depth, column in enumerate(columns) for state in column}


def _heights(columns: Sequence[Sequence[int]]) -> dict[int, float]:
    return {state: place - (len(column) - 1) / 2 for column in columns for place, state in enumerate(column)}


def _sort(column: list[int], neighbours: Sequence[Sequence[int]], heights: dict[int, float]) -> None:
    middle = {
        state: fmean(heights[neighbour] for neighbour in neighbours[state]) if neighbours[state] else heights[state]
        for state in column
    }
    column.sort(key=middle.__getitem__)
