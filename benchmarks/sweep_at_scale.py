"""A sweep of explored channels on Spark: does a second core halve the time?

Two cores do twice the work of one only if the machine lets them: so the same grid is also explored by two plain
processes that share nothing, in turns; that is what the machine can do, and the sweep is held against it.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.field import Settings
from benchmarks.results import Record, Series
from permitflow.checking import Cell, Check, cells_of, check_cell, grid_of
from permitflow.checking.grid import shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LEAST_SWEEP", "SweepSpeed", "measure_sweep"]

SLOTS = 2
MOST_ROUNDS = 3
Numbers = dict[str, Iterable[int]]
GRID: Numbers = {"row_permits": range(5, 10), "permit_batch": (1, 2, 4, 8), "max_chunk_cost": range(2, 11)}
SMOKE_GRID: Numbers = {"row_permits": range(4, 7), "permit_batch": range(1, 4), "max_chunk_cost": range(2, 7)}

LEAST_SWEEP = 0.9
"""Of what as many processes do that share nothing."""


@dataclass(frozen=True)
class SweepSpeed(Record):
    """One grid, explored on Spark and by plain processes, in turns."""

    channels: int
    states: int
    """Of all channels together."""
    seconds: Series
    ideal_seconds: Series
    """Of the processes."""

    @property
    def of_ideal(self) -> Series:
        """Speed, as a share of what the processes do."""
        return self.ideal_seconds.ratio_to(self.seconds)


def measure_sweep(settings: Settings) -> list[SweepSpeed]:
    """Round by round."""
    from permitflow.demo.spark_session import local_session

    grid = SMOKE_GRID if settings.is_smoke else GRID
    cells = cells_of(grid_of(grid))
    on_spark, ideal = list[float](), list[float]()
    with (
        tempfile.TemporaryDirectory() as folder,
        local_session("sweep", master=f"local[{SLOTS}]", work_dir=Path(folder)) as spark,
    ):
        _on_spark(spark, {"row_permits": [4], "max_chunk_cost": [1, 2, 3]})  # workers are started, modules loaded
        for _ in range(min(settings.rounds, MOST_ROUNDS)):
            seconds, states = _on_spark(spark, grid)
            on_spark.append(seconds)
            seconds, same = _in_processes(cells)
            ideal.append(seconds)
            if states != same:
                raise AssertionError(f"{states:,} states on Spark, {same:,} without")
    return [SweepSpeed(len(cells), states, Series.of(on_spark), Series.of(ideal))]


def _on_spark(spark: "SparkSession", grid: Numbers) -> tuple[float, int]:
    """Seconds, and states."""
    # Spark is loaded only if it is asked for: tables of its figures need none.
    from permitflow.spark import sweep

    begin = time.perf_counter()
    found = sweep(spark, Check.EXPLORE, grid).findings
    seconds = time.perf_counter() - begin
    if any(finding.states is None for finding in found):
        raise AssertionError("every channel of this grid can be explored")
    return seconds, sum(finding.states or 0 for finding in found)


def _explore_all(cells: Sequence[Cell]) -> int:
    """Explore one after the other; the states of all."""
    return sum(check_cell(Check.EXPLORE, cell).states or 0 for cell in cells)


def _in_processes(cells: Sequence[Cell]) -> tuple[float, int]:
    """Seconds, and states, of processes that have been started before."""
    halves = [[cells[number] for number in share] for share in shares([cell.states for cell in cells], most=SLOTS)]
    with multiprocessing.get_context("spawn").Pool(SLOTS) as pool:
        pool.map(_explore_all, [cells[:1]] * SLOTS, chunksize=1)
        begin = time.perf_counter()
        states = sum(pool.map(_explore_all, halves, chunksize=1))
        return time.perf_counter() - begin, states
