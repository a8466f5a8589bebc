"""A grid of channels: the varied numbers, and the check of each combination.

Solver and model are loaded only where a cell is checked.
"""

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import StatedParameters
from permitflow_tools.checking.deciding import Finding, finding_of
from permitflow_tools.parameters.read import refusal_in_words
from permitflow_tools.simulation.chunk_sizes import UniformSizes
from permitflow_tools.simulation.setting import Axis, SimulationSetting, combinations, varied

MOST_STATES = 1_000_000
"""The most states of one channel: about a gigabyte and a minute."""


class Check(StrEnum):
    """How a cell is checked."""

    DECIDE = "decide"
    """By the theorems: at once, for numbers of any size."""
    EXPLORE = "explore"
    """By the model: every state that can be reached is visited, which only small numbers allow."""


NAMES = ("row_permits", "permit_batch", "max_chunk_cost", "chunk_rows")
"""The numbers that may vary: rates and delays change no verdict."""


@dataclass(frozen=True)
class Grid:
    """One channel with many numbers."""

    setting: SimulationSetting
    """The numbers that do not vary."""
    axes: Sequence[Axis]

    @property
    def names(self) -> list[str]:
        """The names of the axes."""
        return [axis.name for axis in self.axes]


def grid_of(varied: Mapping[str, Iterable[int]], *, flush_idle: bool = False) -> Grid:
    """A grid of a channel in which chunks of every size up to ``max_chunk_cost`` may come.

    Args:
        varied: values of ``row_permits`` (must be there), ``permit_batch``, ``max_chunk_cost``, ``chunk_rows``; all
            in rows, at least 1.  If it is not varied, ``permit_batch`` is an eighth of ``row_permits``, and
            ``max_chunk_cost`` is ``row_permits - permit_batch``.
        flush_idle: does an idle receiver return less than a permit batch?

    Raises:
        InvalidParametersError: a name is unknown, has no value, or one below 1.
    """
    axes = [Axis(name, tuple(values)) for name, values in varied.items()]
    for axis in axes:
        if axis.name not in NAMES:
            rule = f"must be one of {', '.join(NAMES)}"
            raise InvalidParametersError(name="grid", value=axis.name, rule=rule)
        if not axis.values or not all(isinstance(value, int) and value >= 1 for value in axis.values):
            rule = "must be one or more whole numbers of at least 1"
            raise InvalidParametersError(name=axis.name, value=axis.values, rule=rule)
    if "row_permits" not in varied:
        raise InvalidParametersError(name="grid", value=list(varied), rule="must say row_permits")
    largest = int(max(value for axis in axes for value in axis.values))
    # A window of one row leaves no room for a batch; every point states its own.
    stated = StatedParameters(row_permits=largest + 1)
    return Grid(SimulationSetting(upstream=stated, chunks=UniformSizes(1, largest), flush_idle=flush_idle), axes)


def shares(efforts: Sequence[int], *, most: int) -> list[list[int]]:
    """Numbers of cells for each task: about equal efforts, the largest first.

    Greedy: the largest remaining cell goes to the task with the least work.  A cell larger than an equal share is alone
    in its task.

    Args:
        efforts: of each cell, in any unit.
        most: the most tasks.
    """
    tasks: list[list[int]] = [[] for _ in range(min(most, len(efforts)))]
    ahead = [(0, number) for number in range(len(tasks))]
    for cell in sorted(range(len(efforts)), key=lambda cell: -efforts[cell]):
        effort, number = heapq.heappop(ahead)
        tasks[number].append(cell)
        heapq.heappush(ahead, (effort + max(1, efforts[cell]), number))
    return sorted(tasks, key=lambda cells: -sum(efforts[cell] for cell in cells))


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of numbers."""

    values: Mapping[str, int]
    """By the name of the axis."""
    setting: SimulationSetting | None
    """None if such a channel is impossible."""
    reason: str = ""
    """Why it is impossible."""

    @property
    def states(self) -> int:
        """An upper bound of the number of states."""
        from permitflow_tools.checking.permits import model_of, most_states

        return 0 if self.setting is None else most_states(model_of(self.setting))


def cells_of(grid: Grid) -> list[Cell]:
    """All combinations; the last axis turns fastest."""
    cells = []
    for combination in combinations(grid.axes):
        values = {name: int(value) for name, value in combination.items()}
        try:
            cells.append(Cell(values, varied(grid.setting, values)))
        except InvalidParametersError as error:
            cells.append(Cell(values, None, refusal_in_words(error)))
    return cells


def check_cell(check: Check, cell: Cell, *, max_states: int = MOST_STATES) -> Finding:
    """Check one combination.

    Args:
        check: the way to check.
        cell: what.
        max_states: the most states to explore; beyond it the verdict is "too large".
    """
    if cell.setting is None:
        return Finding(values=cell.values, verdict="impossible", reason=cell.reason)
    begin = time.perf_counter()
    if check is Check.DECIDE:
        finding = finding_of(cell.setting, cell.values)
    else:
        from permitflow_tools.checking.permits import explored_finding

        finding = explored_finding(cell.setting, cell.values, max_states=max_states)
    return replace(finding, seconds=time.perf_counter() - begin)
