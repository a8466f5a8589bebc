"""What the model shows by visiting every state is what the theorems say; states are counted before that."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import StatedParameters
from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_proofs import safe_max_chunk_cost
from permitflow_tools.checking import Check, Finding, Grid, cells_of, check_cell, grid_of
from permitflow_tools.checking.grid import shares
from permitflow_tools.checking.permits import most_states
from permitflow_tools.simulation.chunk_sizes import WeightedSizes
from permitflow_tools.simulation.setting import Axis, SimulationSetting

ALL = {"row_permits": range(1, 5), "permit_batch": range(1, 6), "max_chunk_cost": range(1, 6)}


def findings(check: Check, grid: Grid, *, max_states: int = 100_000) -> list[Finding]:
    return [check_cell(check, cell, max_states=max_states) for cell in cells_of(grid)]


def one(check: Check, varied: Mapping[str, Iterable[int]], *, max_states: int = 100_000) -> Finding:
    (finding,) = findings(check, grid_of(varied), max_states=max_states)
    return finding


@pytest.mark.parametrize("flush_idle", [False, True])
def test_exploration_agrees_with_the_proved_line_everywhere(flush_idle: bool) -> None:
    found = findings(Check.EXPLORE, grid_of(ALL, flush_idle=flush_idle))
    assert len(found) == 100
    for each in found:
        proved = safe_max_chunk_cost(each.values["row_permits"], each.values["permit_batch"], flush_idle=flush_idle)
        assert each.holds == (each.values["max_chunk_cost"] <= proved), each
    assert {each.verdict for each in found} == {"live", "deadlock"}


def test_runs_into_deadlocks_are_as_short_as_those_of_the_theorems() -> None:
    grid = grid_of({"row_permits": [4], "permit_batch": [2, 3, 5], "max_chunk_cost": range(1, 6)})
    explored, decided = (findings(check, grid) for check in (Check.EXPLORE, Check.DECIDE))
    assert [(each.verdict, len(each.run)) for each in explored] == [(each.verdict, len(each.run)) for each in decided]
    assert all(bool(each.run) == (each.verdict == "deadlock") for each in explored)


def test_sizes_without_ones_are_explored_as_they_are_decided() -> None:
    setting = SimulationSetting(upstream=StatedParameters(row_permits=8), chunks=WeightedSizes([3, 6]))
    grid = Grid(setting, [Axis("permit_batch", tuple(range(1, 9))), Axis("max_chunk_cost", (3, 6))])
    explored, decided = (findings(check, grid) for check in (Check.EXPLORE, Check.DECIDE))
    assert [each.verdict for each in explored] == [each.verdict for each in decided]
    assert {each.verdict for each in explored} == {"live", "deadlock"}


def test_a_graph_that_is_certainly_too_large_is_refused_at_once() -> None:
    finding = one(Check.EXPLORE, {"row_permits": [2048], "permit_batch": [256], "max_chunk_cost": [1024]})
    assert finding.verdict == "too large"
    assert finding.reason == "it has more than 10^18 states, and at most 100,000 are explored"


def test_a_graph_that_may_be_too_large_is_tried() -> None:
    setting = SimulationSetting(upstream=StatedParameters(row_permits=64), chunks=WeightedSizes([3, 5]))
    grid = Grid(setting, [Axis("permit_batch", (4,))])
    (finding,) = findings(Check.EXPLORE, grid, max_states=100)
    assert finding.verdict == "too large"
    assert finding.reason.startswith("it has up to ")


def test_a_channel_that_cannot_be_says_why() -> None:
    finding = one(Check.DECIDE, {"row_permits": [4], "permit_batch": [4]})
    assert finding.verdict == "impossible"
    assert finding.reason == "permit_batch must be below row_permits = 4 unless max_chunk_cost is stated"


def test_a_window_that_the_receiver_does_not_allow_is_not_live() -> None:
    stated = StatedParameters(row_permits=4, barrier_permits=2)
    setting = SimulationSetting(
        upstream=stated, downstream=StatedParameters(barrier_permits=1), chunks=WeightedSizes([1, 2])
    )
    for check in Check:
        (finding,) = findings(check, Grid(setting, [Axis("max_chunk_cost", (2,))]))
        assert finding.verdict == "overspend"
        assert "2 barriers out at once" in finding.reason


@pytest.mark.parametrize(
    ("varied", "message"),
    [
        (
            {"row_cuont": [4]},
            "grid must be one of row_permits, permit_batch, max_chunk_cost, chunk_rows, not 'row_cuont'",
        ),
        ({"permit_batch": [4]}, "grid must say row_permits"),
        ({"row_permits": []}, "row_permits must be one or more whole numbers of at least 1"),
        ({"row_permits": [4], "permit_batch": [0]}, "permit_batch must be one or more whole numbers of at least 1"),
        ({"row_permits": [4.5]}, "row_permits must be one or more whole numbers of at least 1"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(varied: dict[str, list[int]], message: str) -> None:
    with pytest.raises(InvalidParametersError, match=message):
        grid_of(varied)


# With chunks of one row, every spread of the permits can be reached.
WITH_ONES = [
    Parameters(
        row_permits=rows,
        permit_batch=permit_batch,
        max_chunk_cost=largest,
        sizes=tuple(range(1, largest + 1)),
        flush_idle=flush_idle,
    )
    for rows in (1, 4)
    for permit_batch in (1, 2, 4, 7)
    for largest in (1, rows + 1, rows + 2)
    for flush_idle in (False, True)
] + [
    Parameters(row_permits=7, permit_batch=3, max_chunk_cost=4, sizes=(1, 4)),
    Parameters(row_permits=5, permit_batch=2, max_chunk_cost=7, sizes=(1, 2, 7)),
    Parameters(row_permits=5, permit_batch=9, max_chunk_cost=7, sizes=(1, 2, 7), flush_idle=True),
]
WITHOUT_ONES = [
    Parameters(row_permits=8, permit_batch=permit_batch, max_chunk_cost=max(sizes), sizes=sizes)
    for permit_batch in (3, 4)
    for sizes in ((8,), (3, 5), (2, 4, 8), (4, 5, 6))
]


def count(parameters: Parameters) -> int:
    return explore(SYSTEM, parameters, max_states=100_000).state_count


def test_states_are_counted_exactly_where_chunks_of_one_row_may_come() -> None:
    for parameters in WITH_ONES:
        assert count(parameters) == most_states(parameters), parameters


def test_other_sizes_have_fewer_states_than_counted() -> None:
    for parameters in WITHOUT_ONES:
        assert 0 < count(parameters) < most_states(parameters), parameters


@given(efforts=st.lists(st.integers(0, 10**9), max_size=60), most=st.integers(1, 12))
def test_tasks_share_all_cells_evenly(efforts: list[int], most: int) -> None:
    tasks = shares(efforts, most=most)
    assert sorted(cell for task in tasks for cell in task) == list(range(len(efforts)))
    assert len(tasks) == min(most, len(efforts))
    assert all(tasks)
    sums = [sum(max(1, efforts[cell]) for cell in task) for task in tasks]
    for task, effort in zip(tasks, sums, strict=True):
        # Without the last that it was given, each task had no more than any other has now.
        assert effort - min(max(1, efforts[cell]) for cell in task) <= min(sums)
