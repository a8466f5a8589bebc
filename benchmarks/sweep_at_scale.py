"""A sweep of explored channels on Spark: does a second core halve the time?

Explores a grid on Spark with two task slots, and asks how much of the slots' time was spent in exploring.  Two cores
do twice the work of one only if the machine lets them: so the same grid is also explored by two plain processes that
share nothing, in turns; that is what the machine can do, and the sweep is held against it.
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.results import Record, Results, Series, describe_machine
from permitflow.checking import Cell, Check, cells_of, check_cell, grid_of
from permitflow.checking.grid import shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LEAST_SWEEP", "PART", "SweepSpeed"]

SLOTS = 2
GRID = {"row_permits": range(5, 10), "permit_batch": (1, 2, 4, 8), "max_chunk_cost": range(2, 11)}
SMOKE_GRID = {"row_permits": range(4, 7), "permit_batch": range(1, 4), "max_chunk_cost": range(2, 7)}


PART = "sweep"
"""Under this name it stands among all results."""

LEAST_SWEEP = 0.9
"""Of what as many processes do that share nothing."""


@dataclass(frozen=True)
class SweepSpeed(Record):
    """One grid, explored on Spark and by plain processes, in turns."""

    channels: int
    states: int
    """Of all channels together."""
    slots: int
    """Of Spark, and as many processes beside it."""
    seconds: Series
    ideal_seconds: Series
    """Of the processes."""
    busy_seconds: Series
    """Of all channels of the sweep together, as each was timed where it was explored."""

    @property
    def of_ideal(self) -> Series:
        """Speed, as a share of what the processes do."""
        return self.ideal_seconds.ratio_to(self.seconds)

    @property
    def slots_busy(self) -> Series:
        """Of the time of all slots, the share in which channels were explored."""
        return Series.of(
            busy / (self.slots * wall) for busy, wall in zip(self.busy_seconds.values, self.seconds.values, strict=True)
        )

    @property
    def promise(self) -> str:
        """For a table."""
        return f"Spark sweep of {self.channels} channels ÷ {self.slots} processes that share nothing"

    def rows(self) -> Iterator[list[str]]:
        """For a table: what explored, seconds, thousand states a second."""
        ours = f"permitflow.spark.sweep, {self.channels} channels"
        for what, seconds in ((ours, self.seconds), (f"{self.slots} plain processes", self.ideal_seconds)):
            yield [what, seconds.told(), Series.of(self.states / value / 1e3 for value in seconds.values).told()]


class Round(NamedTuple):
    """One round: seconds, see ``SweepSpeed``; and how many states were visited."""

    wall: float
    busy: float
    ideal: float
    states: int


def on_spark(spark: "SparkSession", grid: dict[str, Iterable[int]]) -> tuple[float, float, int]:
    """Seconds, seconds of all channels together, states."""
    # Spark is loaded only if it is asked for: tables of its figures need none.
    from permitflow.spark import sweep

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


def measure(grid: dict[str, Iterable[int]], rounds: int) -> Iterator[Round]:
    """Round by round."""
    from permitflow.demo.spark_session import local_session

    with (
        tempfile.TemporaryDirectory() as folder,
        local_session("sweep", master=f"local[{SLOTS}]", work_dir=Path(folder)) as spark,
    ):
        on_spark(spark, {"row_permits": [4], "max_chunk_cost": [1, 2, 3]})  # workers are started, modules loaded
        for _ in range(rounds):
            wall, busy, states = on_spark(spark, grid)
            ideal, same = in_processes(grid)
            if states != same:
                raise AssertionError(f"{states:,} states on Spark, {same:,} without")
            yield Round(wall, busy, ideal, states)


def summed_up(cells: int, rounds: Sequence[Round]) -> SweepSpeed:
    """All rounds together."""
    return SweepSpeed(
        channels=cells,
        states=rounds[0].states,
        slots=SLOTS,
        seconds=Series.of(one.wall for one in rounds),
        ideal_seconds=Series.of(one.ideal for one in rounds),
        busy_seconds=Series.of(one.busy for one in rounds),
    )


def main() -> None:
    """Print a table and the verdict, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a small grid, once: does it still run?")
    parser.add_argument("--folder", type=Path, help="keep the figures among the results in this folder")
    arguments = parser.parse_args()
    grid: dict[str, Iterable[int]] = dict(SMOKE_GRID if arguments.smoke else GRID)
    cells = len(cells_of(grid_of(grid)))
    print(f"{cells} channels, {SLOTS} task slots")
    measured: list[Round] = []
    for one in measure(grid, 1 if arguments.smoke else arguments.rounds):
        measured.append(one)
        print(f"{one.states:,} states: sweep {one.wall:.1f} s, two processes {one.ideal:.1f} s", flush=True)
    speed = summed_up(cells, measured)
    print(f"slots busy {speed.slots_busy.told()}, {speed.of_ideal.told()} of ideal")
    verdict = "met" if speed.of_ideal.median >= LEAST_SWEEP else "not met"
    print(f"{speed.promise}: target ≥ {LEAST_SWEEP:g}, {verdict}")
    if arguments.folder:
        Results.keep_in(arguments.folder, describe_machine(), PART, [speed], rounds=len(measured))


if __name__ == "__main__":
    main()
