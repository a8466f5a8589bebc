"""Checks many channels on Spark: a grid of numbers, cut into tasks of about equal work."""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from permitflow.checking import Cell, Check, Finding, Grid, cells_of, check_cell, grid_of
from permitflow.checking.grid import MOST_STATES, shares
from permitflow.spark.sessions import task_slots

# Enough that a slow task does not hold up the others, few enough that starting them costs nothing.
_TASKS_PER_SLOT = 8
_FOUND = StructType([StructField("cell", IntegerType(), nullable=False), StructField("finding", BinaryType())])
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

    @property
    def holds(self) -> bool:
        """Are all of them live?"""
        return all(finding.holds for finding in self.findings)


def sweep(
    spark: SparkSession, check: Check | str, grid: Grid | Mapping[str, Iterable[int]], *, max_states: int = MOST_STATES
) -> SparkSweep:
    """Check every combination of numbers: can it get stuck?

    Args:
        spark: classic or Connect; its workers must be able to import permitflow.
        check: "decide", by the theorems (workers need ``permitflow[proofs]``), or "explore", by visiting all states.
        grid: values of ``row_permits``, ``permit_batch``, ``max_chunk_cost``, ``chunk_rows``; see
            ``permitflow.checking.grid_of``.
        max_states: the most states to explore of one channel.

    Raises:
        InvalidParametersError: a name of the grid is unknown, has no value, or one below 1.
        ValueError: there is no such check.
    """
    grid, check = grid if isinstance(grid, Grid) else grid_of(grid), Check(check)
    found = _found(spark, _Work(check, max_states, grid))
    findings = [found[number] for number in range(len(found))]
    schema = StructType([*(StructField(name, LongType(), nullable=False) for name in grid.names), *_FIGURES])
    names = [field.name for field in _FIGURES]
    rows = [(*each.values.values(), *(_plain(getattr(each, name)) for name in names)) for each in findings]
    return SparkSweep(grid, findings, spark.createDataFrame(rows, schema))


class SweepDataSource(DataSource):
    """Checks the cells of a grid: an internal data source, because those need no pandas, also through Connect."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "permitflow_sweep"

    def schema(self) -> StructType:
        """A pickled ``Finding`` for each cell."""
        return _FOUND

    def reader(self, schema: StructType) -> "_SweepReader":
        """A reader of the work in the option ``work``, with at most ``tasks`` tasks."""
        work = pickle.loads(bytes.fromhex(self.options["work"]))
        assert isinstance(work, _Work), "it comes from sweep()"
        return _SweepReader(work, int(self.options["tasks"]))


@dataclass(frozen=True, slots=True)
class _Work:
    """The whole sweep, which each task gets: a grid is small, however many cells it has."""

    check: Check
    max_states: int
    grid: Grid

    def effort(self, cell: Cell) -> int:
        """Number of states to visit; 1 to decide, which takes about equally long for all cells."""
        if self.check is Check.DECIDE:
            return 1
        return cell.states if cell.states <= self.max_states else 0


class _Share(InputPartition):
    def __init__(self, numbers: list[int], cells: list[Cell]) -> None:
        super().__init__(numbers)
        self.numbers = numbers
        self.cells = cells


class _SweepReader(DataSourceReader):
    def __init__(self, work: _Work, tasks: int) -> None:
        self._work = work
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """The shares, largest first: Spark starts tasks in this order, so a long task does not start last."""
        cells = cells_of(self._work.grid)
        tasks = shares([self._work.effort(cell) for cell in cells], most=self._tasks)
        return [_Share(numbers, [cells[number] for number in numbers]) for numbers in tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, bytes]]:
        assert isinstance(partition, _Share), "Spark passes the objects that partitions() returned"
        check, max_states = self._work.check, self._work.max_states
        for number, cell in zip(partition.numbers, partition.cells, strict=True):
            yield number, pickle.dumps(check_cell(check, cell, max_states=max_states))


def _found(spark: SparkSession, work: _Work) -> dict[int, Finding]:
    spark.dataSource.register(SweepDataSource)
    reading = spark.read.format(SweepDataSource.name()).option("work", pickle.dumps(work).hex())
    checked = reading.option("tasks", str(task_slots(spark) * _TASKS_PER_SLOT)).load()
    return {row.cell: pickle.loads(row.finding) for row in checked.collect()}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
