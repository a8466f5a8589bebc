"""Decides before a run whether a channel, a grid of channels or a graph of stages can get stuck.

By theorems, by the form of a graph, or by exploring the model.  Spark and the command line share it: both check a cell
of a grid with ``check_cell``, and a graph with ``check_graph``.
"""

from typing import TYPE_CHECKING, Any

from permitflow_tools.checking.deciding import Finding
from permitflow_tools.checking.grid import Cell, Check, Grid, cells_of, check_cell, grid_of

if TYPE_CHECKING:
    from permitflow_tools.checking.graphs import GraphStep, GraphVerdict, GraphWait, check_graph

__all__ = [
    "Cell",
    "Check",
    "Finding",
    "GraphStep",
    "GraphVerdict",
    "GraphWait",
    "Grid",
    "cells_of",
    "check_cell",
    "check_graph",
    "grid_of",
]


def __getattr__(name: str) -> Any:
    """What is about graphs loads the model, which help does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from permitflow_tools.checking import graphs

    return getattr(graphs, name)
