"""The number of states is known before they are visited, so that work can be shared out, and refused."""

from itertools import pairwise

from permitflow.checking.exploring import most_states
from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters

# With chunks of one row, every spread of the permits can be reached.
WITH_ONES = [
    Parameters(row_count=rows, batch=batch, clamp=largest, sizes=tuple(range(1, largest + 1)), flush_idle=flush_idle)
    for rows in (1, 3, 5)
    for batch in (1, 2, 4, 7)
    for largest in (1, rows + 1, rows + 2)
    for flush_idle in (False, True)
] + [
    Parameters(row_count=7, batch=3, clamp=4, sizes=(1, 4)),
    Parameters(row_count=5, batch=2, clamp=7, sizes=(1, 2, 7)),
    Parameters(row_count=5, batch=9, clamp=7, sizes=(1, 2, 7), flush_idle=True),
]
WITHOUT_ONES = [
    Parameters(row_count=8, batch=batch, clamp=max(sizes), sizes=sizes)
    for batch in (3, 4)
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


def test_what_has_many_more_states_is_counted_as_more() -> None:
    """Without chunks of one row the count is only a bound; it still tells what takes long."""
    counts = [(count(parameters), most_states(parameters)) for parameters in WITHOUT_ONES + WITH_ONES]
    far_apart = [(small, large) for small in counts for large in counts if large[0] >= 10 * small[0]]
    assert len(far_apart) > 100
    assert all(small[1] < large[1] for small, large in far_apart)


def test_counting_takes_no_time_for_windows_that_nobody_could_explore() -> None:
    huge = Parameters(row_count=1 << 17, batch=1 << 12, clamp=1 << 16, sizes=tuple(range(1, 1 << 16)))
    assert most_states(huge) > 10**18


def test_long_queues_of_equal_chunks_are_still_counted() -> None:
    equal = Parameters(row_count=2_000, batch=1, clamp=1, sizes=(1,))
    assert 10**9 < most_states(equal) < 10**18


def test_a_larger_window_has_more_states() -> None:
    counts = [most_states(Parameters(row_count=rows, batch=3, clamp=4, sizes=(1, 2, 3, 4))) for rows in range(1, 40)]
    assert all(small < large for small, large in pairwise(counts))
