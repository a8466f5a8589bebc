"""Decides before a run whether a channel, a grid of channels or a graph of stages can get stuck.

By theorems, by the form of a graph, or by exploring the model: ``deciding`` is about a channel, ``gate`` about a gate,
``graphs`` about a graph.  Spark and the command line share it: both check a cell of a grid with ``check_cell``, and a
graph with ``check_graph``.
"""

from typing import TYPE_CHECKING

from permitflow.opening import opening
from permitflow_tools.checking.deciding import Finding
from permitflow_tools.checking.grid import Cell, Check, Grid, cells_of, check_cell, grid_of

if TYPE_CHECKING:
    from permitflow_tools.checking.graphs import GraphStep, GraphVerdict, GraphWait
    from permitflow_tools.checking.graphs_advice import check_graph

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


if not TYPE_CHECKING:
    # What is about graphs loads the model, which help does not need.
    __getattr__ = opening(
        __name__, {"graphs": ("GraphStep", "GraphVerdict", "GraphWait"), "graphs_advice": ("check_graph",)}
    )
