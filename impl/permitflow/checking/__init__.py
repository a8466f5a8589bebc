"""Can these numbers get stuck?  Decided by the theorems, or explored by the model; for one channel, or for a grid.

What Spark and the command line share: one cell of a grid is checked by ``check_cell``, wherever that is.
"""

from permitflow.checking.deciding import Finding
from permitflow.checking.grid import Cell, Check, Grid, cells_of, check_cell, grid_of

__all__ = ["Cell", "Check", "Finding", "Grid", "cells_of", "check_cell", "grid_of"]
