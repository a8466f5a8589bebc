"""A sweep of explored channels on Spark: does a second core halve the time?

Explores a grid on Spark with two task slots, and asks how much of the slots' time was spent in exploring.  Two cores
do twice the work of one only if the machine lets them: so the same grid is also explored by two plain processes that
share nothing, in turns; that is what the machine can do, and the sweep is held against it.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from permitflow.checking import Cell, Check, cells_of, check_cell, grid_of
from permitflow.checking.grid import shares
from permitflow.demo.spark_session import local_session
from permitflow.spark import sweep

SLOTS = 2
TARGET = 0.9
"""Of what two processes do that share nothing."""

GRID = {"row_count": range(5, 10), "batch": (1, 2, 4, 8), "max_chunk": range(2, 11)}
SMOKE_GRID = {"row_count": range(4, 7), "batch": range(1, 4), "max_chunk": range(2, 7)}


class Round(NamedTuple):
    """One round: seconds."""

    wall: float
    """Of the sweep on Spark."""
    busy: float
    """Of all channels of the sweep together, as each was timed where it was explored."""
    ideal: float
    """Of two plain processes."""

    @property
    def efficiency(self) -> float:
        """Of the time of all slots, the share in which channels were explored."""
        return self.busy / (SLOTS * self.wall)

    @property
    def of_ideal(self) -> float:
        """As a share of what two plain processes do."""
        return self.ideal / self.wall


def on_spark(spark: SparkSession, grid: dict[str, Iterable[int]]) -> tuple[float, float, int]:
    """Seconds, seconds of all channels together, states."""
    begin = time.perf_counter()
    found = sweep(spark, Check.EXPLORE, grid)
    wall = time.perf_counter() - begin
    if any(finding.states is None for finding in found.findings):
        raise AssertionError("every channel of this grid can be explored")
    return wall, sum(each.seconds for each in found.findings), sum(each.states or 0 for each in found.findings)


def explore_all(cells: Sequence[Cell]) -> int:
    """Explore one after the other; the states of all."""
    return sum(check_cell(Check.EXPLORE, cell).states or 0 for cell in cells)


def in_processes(grid: dict[str, Iterable[int]]) -> tuple[float, int]:
    """Seconds, and states, of processes that have been started before."""
    cells = cells_of(grid_of(grid))
    halves = [[cells[number] for number in share] for share in shares([cell.states for cell in cells], most=SLOTS)]
    with multiprocessing.get_context("spawn").Pool(SLOTS) as pool:
        pool.map(explore_all, [cells[:1]] * SLOTS, chunksize=1)
        begin = time.perf_counter()
        states = sum(pool.map(explore_all, halves, chunksize=1))
        return time.perf_counter() - begin, states


def measure(grid: dict[str, Iterable[int]], rounds: int) -> Iterator[tuple[Round, int]]:
    """Rounds, and how many states each has visited."""
    with (
        tempfile.TemporaryDirectory() as folder,
        local_session("sweep", master=f"local[{SLOTS}]", work_dir=Path(folder)) as spark,
    ):
        on_spark(spark, {"row_count": [4], "max_chunk": [1, 2, 3]})  # workers are started, modules loaded
        for _ in range(rounds):
            wall, busy, states = on_spark(spark, grid)
            ideal, same = in_processes(grid)
            if states != same:
                raise AssertionError(f"{states:,} states on Spark, {same:,} without")
            yield Round(wall, busy, ideal), states


def main() -> None:
    """Print a table, and write JSON if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a small grid, once: does it still run?")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    grid: dict[str, Iterable[int]] = dict(SMOKE_GRID if arguments.smoke else GRID)
    cells = len(cells_of(grid_of(grid)))
    print(f"{cells} channels, {SLOTS} task slots")
    print(f"{'states':>10}  {'sweep, s':>9}  {'two processes, s':>16}  {'slots busy':>10}  {'of ideal':>8}", flush=True)
    measured: list[Round] = []
    for one, states in measure(grid, 1 if arguments.smoke else arguments.rounds):
        measured.append(one)
        times = f"{states:>10,}  {one.wall:>9.1f}  {one.ideal:>16.1f}"
        print(f"{times}  {one.efficiency:>10.0%}  {one.of_ideal:>8.2f}", flush=True)
    efficiency = statistics.median(one.efficiency for one in measured)
    of_ideal = statistics.median(one.of_ideal for one in measured)
    verdict = "reached" if of_ideal >= TARGET else "missed"
    print(f"median: slots busy {efficiency:.0%}, {of_ideal:.2f} of ideal; target {TARGET} {verdict}")
    if arguments.json:
        rounds = [one._asdict() | {"efficiency": one.efficiency, "of_ideal": one.of_ideal} for one in measured]
        figures = {"cells": cells, "slots": SLOTS, "rounds": rounds, "target": TARGET}
        arguments.json.write_text(json.dumps(figures | {"efficiency": efficiency, "of_ideal": of_ideal}, indent=2))


if __name__ == "__main__":
    main()
