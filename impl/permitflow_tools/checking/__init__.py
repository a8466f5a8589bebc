"""Decides by the theorems, or explores with the model, whether a channel or a grid of channels can get stuck.

Spark and the command line share it: both check a cell of a grid with ``check_cell``.
"""

from permitflow_tools.checking.deciding import Finding
from permitflow_tools.checking.grid import Cell, Check, Grid, cells_of, check_cell, grid_of

__all__ = ["Cell", "Check", "Finding", "Grid", "cells_of", "check_cell", "grid_of"]
