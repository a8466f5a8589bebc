"""Spark finds for a grid what one machine finds for each of its cells."""

from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession

from permitflow_tools.checking import Check, cells_of, check_cell, grid_of
from tests.impl.spark.conftest import Driver

GRID: dict[str, Iterable[int]] = {"row_permits": range(3, 6), "permit_batch": (1, 2, 5), "max_chunk_cost": range(1, 7)}


@pytest.mark.parametrize("check", Check)
def test_a_sweep_finds_what_one_machine_finds(driver: Driver, check: Check) -> None:
    grid = (
        {"row_permits": (4,), "permit_batch": (1, 3), "max_chunk_cost": range(1, 5)} if check is Check.DECIDE else GRID
    )

    def job(spark: SparkSession) -> list[tuple[object, ...]]:
        from permitflow_tools.checking.sweeping import sweep

        found = sweep(spark, check, grid)
        return [(each.values, each.verdict, each.reason, each.run, each.states) for each in found.findings]

    alone = [check_cell(check, cell) for cell in cells_of(grid_of(grid))]
    expected = [(each.values, each.verdict, each.reason, each.run, each.states) for each in alone]
    assert len({each.verdict for each in alone}) == 2
    assert driver.run(job) == expected


def test_the_table_has_a_row_for_each_cell_and_says_what_kept_it_busy(driver: Driver) -> None:
    def job(spark: SparkSession) -> tuple[int, int, list[tuple[object, ...]]]:
        from permitflow_tools.checking.sweeping import sweep

        table = sweep(spark, "explore", GRID).table
        stuck = table.where("row_permits = 4 AND permit_batch = 2 AND max_chunk_cost = 4").select(
            "verdict", "states", "run", "depth"
        )
        return table.count(), table.where("seconds > 0 AND states > 0").count(), [tuple(row) for row in stuck.collect()]

    cells, busy, [(verdict, states, run, depth)] = driver.run(job)
    assert (cells, busy) == (54, 54)
    assert (verdict, states, depth) == ("deadlock", 425, 15)
    assert isinstance(run, list)
    assert len(run) == 5
