"""One cell of a grid: which numbers, and what becomes of them.

Solver and model are loaded where a cell is checked, not where it is only talked about.
"""

import time
from dataclasses import dataclass, replace

from permitflow.checking.findings import MOST_STATES, Check, Finding
from permitflow.checking.grid import Grid
from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.read import KEYS
from permitflow.simulation.setting import Setting
from permitflow.simulation.sweep import Point

__all__ = ["Cell", "cells_of", "check_cell"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of numbers."""

    point: Point
    setting: Setting | None
    """None if there is no such channel."""

    reason: str = ""
    """Why there is none."""

    @property
    def states(self) -> int:
        """How many there are at most."""
        from permitflow.checking.exploring import model_of, most_states

        return 0 if self.setting is None else most_states(model_of(self.setting))


def cells_of(grid: Grid) -> list[Cell]:
    """All combinations; the last axis turns fastest."""
    return [_cell(grid.setting, point) for point in grid.points()]


def check_cell(check: Check, cell: Cell, *, max_states: int = MOST_STATES) -> Finding:
    """Check one combination.

    Args:
        check: how.
        cell: what.
        max_states: to explore at most; beyond it the verdict is "too large".
    """
    values = {name: int(value) for name, value in cell.point.values.items()}
    if cell.setting is None:
        return Finding(values=values, verdict="impossible", reason=cell.reason)
    begin = time.perf_counter()
    if check is Check.DECIDE:
        from permitflow.checking.deciding import finding_of

        finding = finding_of(cell.setting, values)
    else:
        from permitflow.checking.exploring import explored_finding

        finding = explored_finding(cell.setting, values, max_states=max_states)
    return replace(finding, seconds=time.perf_counter() - begin)


def _cell(setting: Setting, point: Point) -> Cell:
    try:
        return Cell(point, point.applied_to(setting))
    except InvalidParametersError as error:
        reason = f"{KEYS.get(error.name, error.name)} {error.rule.replace('row_permits', 'row_count')}"
        return Cell(point, None, reason)
