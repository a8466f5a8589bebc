"""Tasks have the rows of a batch, each row once, as many tasks as the user wants."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.spark.stream_planning import RowRange
from permitflow.spark.task_ranges import rows_within, task_ranges


def ranges(*sizes: int) -> list[RowRange]:
    return [RowRange(f"c/{number}", "log", 100, 100 + size) for number, size in enumerate(sizes)]


def sizes(tasks: Sequence[Sequence[RowRange]]) -> list[list[int]]:
    return [[each.to_row - each.from_row for each in task] for task in tasks]


def test_a_channel_is_a_task_unless_the_user_says_otherwise() -> None:
    assert sizes(task_ranges(ranges(5, 7))) == [[5], [7]]


def test_large_ranges_are_cut_into_equal_parts() -> None:
    assert sizes(task_ranges(ranges(10, 80), least=6)) == [[10], [16], [16], [16], [16], [16]]
    assert sizes(task_ranges(ranges(2), least=6)) == [[1], [1]]


def test_tasks_have_about_as_many_rows_each() -> None:
    tasks = task_ranges(ranges(50, 10, 20, 30), most=2)
    assert sizes(tasks) == [[50, 10], [20, 30]]
    assert [each.channel for each in tasks[0]] == ["c/0", "c/1"]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 12), st.integers(0, 12))
def test_each_row_is_in_one_task(rows: list[int], least: int, more: int) -> None:
    given_ranges = ranges(*rows)
    tasks = task_ranges(given_ranges, least=least, most=least + more)
    assert min(least, sum(rows)) <= len(tasks) <= max(least + more, 1)
    read = [(each.channel, row) for task in tasks for each in task for row in range(each.from_row, each.to_row)]
    assert sorted(read) == [(each.channel, row) for each in given_ranges for row in range(each.from_row, each.to_row)]
    assert all(tasks)


@pytest.mark.parametrize(
    ("max_bytes", "sampled", "rows"),
    [
        (1_000, [(100, 10.0)], 100),
        (500, [(100, 10.0)], 50),
        (500, [(100, 10.0), (100, 90.0)], 10),
        (1, [(100, 10.0)], 1),
        (500, [], 1),
    ],
)
def test_bytes_become_rows_by_their_average(max_bytes: int, sampled: list[tuple[int, float]], rows: int) -> None:
    assert rows_within(max_bytes, sampled) == rows
