"""Checks many channels on Spark: a grid of numbers, cut into tasks of about equal work."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType, StructField, StructType

from permitflow_tools.checking import Cell, Check, Finding, Grid, cells_of, check_cell, grid_of
from permitflow_tools.checking.grid import MOST_STATES, shares
from permitflow_tools.checking.sessions import in_tasks, task_slots

# Enough that a slow task does not hold up the others, few enough that starting them costs nothing.
_TASKS_PER_SLOT = 8
_FIGURES = (
    StructField("verdict", StringType(), nullable=False),
    StructField("reason", StringType(), nullable=False),
    StructField("run", ArrayType(StringType(), containsNull=False), nullable=False),
    *(
        StructField(name, LongType())
        for name in ("largest_cost", "safe_max_chunk_cost", "safe_permit_batch", "states", "depth")
    ),
    StructField("seconds", DoubleType(), nullable=False),
)


@dataclass(frozen=True, slots=True)
class SparkSweep:
    """The findings of a sweep, as objects and as a DataFrame."""

    grid: Grid
    findings: list[Finding]
    """In the order of the grid: the last axis varies fastest."""
    table: DataFrame
    """A row for each: the numbers that vary, verdict, reason, run, and the figures of ``Finding``."""


def sweep(
    spark: SparkSession, check: Check | str, grid: Grid | Mapping[str, Iterable[int]], *, max_states: int = MOST_STATES
) -> SparkSweep:
    """Check every combination of numbers: can it get stuck?

    Args:
        spark: classic or Connect; its workers must be able to import permitflow.
        check: "decide", by the theorems, or "explore", by visiting all states.
        grid: values of ``row_permits``, ``permit_batch``, ``max_chunk_cost``, ``chunk_rows``; see
            ``permitflow_tools.checking.grid_of``.
        max_states: the most states to explore of one channel.

    Raises:
        InvalidParametersError: a name of the grid is unknown, has no value, or one below 1.
        ValueError: there is no such check.
    """
    grid, check = grid if isinstance(grid, Grid) else grid_of(grid), Check(check)
    cells = cells_of(grid)
    efforts = [_effort(check, cell, max_states) for cell in cells]
    tasks = shares(efforts, most=task_slots(spark) * _TASKS_PER_SLOT)
    work = partial(_checked, [[cells[cell] for cell in task] for task in tasks], check=check, max_states=max_states)
    checked = in_tasks(spark, work, len(tasks))
    found = {
        cell: finding for task, of in zip(tasks, checked, strict=True) for cell, finding in zip(task, of, strict=True)
    }
    findings = [found[number] for number in range(len(cells))]
    schema = StructType([*(StructField(name, LongType(), nullable=False) for name in grid.names), *_FIGURES])
    names = [field.name for field in _FIGURES]
    rows = [(*each.values.values(), *(_plain(getattr(each, name)) for name in names)) for each in findings]
    return SparkSweep(grid, findings, spark.createDataFrame(rows, schema))


def _effort(check: Check, cell: Cell, max_states: int) -> int:
    """Number of states to visit; 1 to decide, which takes about equally long for all cells."""
    if check is Check.DECIDE:
        return 1
    return cell.states if cell.states <= max_states else 0


def _checked(tasks: Sequence[Sequence[Cell]], number: int, *, check: Check, max_states: int) -> list[Finding]:
    return [check_cell(check, cell, max_states=max_states) for cell in tasks[number]]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
