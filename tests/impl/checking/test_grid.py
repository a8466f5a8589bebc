"""Work is shared out evenly, and what takes longest is begun first."""

from hypothesis import given
from hypothesis import strategies as st

from permitflow.checking.grid import shares


@given(efforts=st.lists(st.integers(0, 10**9), max_size=60), most=st.integers(1, 12))
def test_every_cell_is_in_one_task_and_no_task_has_much_more_than_another(efforts: list[int], most: int) -> None:
    tasks = shares(efforts, most=most)
    assert sorted(cell for task in tasks for cell in task) == list(range(len(efforts)))
    assert len(tasks) == min(most, len(efforts))
    assert all(tasks)
    sums = [sum(max(1, efforts[cell]) for cell in task) for task in tasks]
    for task, effort in zip(tasks, sums, strict=True):
        # Without the last that it was given, each task had no more than any other has now.
        assert effort - min(max(1, efforts[cell]) for cell in task) <= min(sums)


def test_the_longest_is_first_and_alone() -> None:
    assert shares([1, 1, 50, 1, 1, 1], most=3) == [[2], [0, 3, 5], [1, 4]]


def test_a_grid_of_equal_cells_is_dealt_out() -> None:
    assert sorted(map(len, shares([1] * 10, most=4))) == [2, 2, 3, 3]
