"""Parameters that can work are completed, parameters that cannot are refused by name."""

import itertools

import pytest

from permitflow import ChannelParameters, Oversize
from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import KEPT_PARAMETERS, ONCE_PARAMETERS


def test_defaults_leave_room_for_the_largest_chunk() -> None:
    for row_permits in (2, 3, 8, 100, 2_048, 32_768):
        parameters = ChannelParameters(row_permits=row_permits)

        assert parameters.permit_batch == max(1, row_permits // 8)
        assert parameters.max_chunk_cost == row_permits - parameters.permit_batch
        assert parameters.oversize is Oversize.SPLIT


def test_the_defaults_are_those_of_the_first_published_version() -> None:
    assert ChannelParameters() == ChannelParameters(
        row_permits=32_768, permit_batch=4_096, max_chunk_cost=28_672, barrier_permits=1, oversize=Oversize.SPLIT
    )


def test_between_processes_only_the_window_is_larger() -> None:
    assert ONCE_PARAMETERS.row_permits == 131_072
    assert ONCE_PARAMETERS.permit_batch == ChannelParameters().permit_batch
    assert ONCE_PARAMETERS.max_chunk_cost == KEPT_PARAMETERS.max_chunk_cost == 32_768


def test_a_channel_that_keeps_its_rows_has_a_larger_window() -> None:
    assert (KEPT_PARAMETERS.row_permits, KEPT_PARAMETERS.permit_batch) == (1_048_576, 131_072)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        # The published implementation takes all of these, and panics or hangs later.
        ("permit_batch", {"row_permits": 4, "permit_batch": 4}),
        ("barrier_permits", {"row_permits": 4, "permit_batch": 1, "barrier_permits": 0}),
        ("row_permits", {"row_permits": 1}),
        ("permit_batch", {"row_permits": 4, "permit_batch": -1}),
        ("max_chunk_cost", {"row_permits": 8, "permit_batch": 2, "max_chunk_cost": 8}),
        ("initial_permits", {"row_permits": 8, "initial_permits": 9}),
        ("initial_permits", {"initial_permits": -2}),
    ],
)
def test_a_number_out_of_range_is_refused_by_its_name_and_value(name: str, numbers: dict[str, int]) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        ChannelParameters(**numbers)  # type: ignore[arg-type]  # all of them are numbers
    assert caught.value.name == name
    assert caught.value.value == numbers[name]
    assert name in str(caught.value)
    assert repr(numbers[name]) in str(caught.value)


@pytest.mark.parametrize("value", [2.0, "8", None, True, 8j], ids=repr)
@pytest.mark.parametrize(
    "name", ["row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "initial_permits"]
)
def test_numbers_that_are_not_whole_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParametersError, match=f"{name} must be a whole number"):
        ChannelParameters(**{name: value})  # type: ignore[arg-type]  # that is the point


def test_the_largest_clamp_is_the_tight_bound_and_not_one_more() -> None:
    for row_permits, permit_batch in itertools.product(range(2, 9), range(1, 9)):
        if permit_batch >= row_permits:
            continue
        tight = row_permits - permit_batch + 1
        ChannelParameters(row_permits=row_permits, permit_batch=permit_batch, max_chunk_cost=tight)
        with pytest.raises(InvalidParametersError, match="max_chunk_cost"):
            ChannelParameters(row_permits=row_permits, permit_batch=permit_batch, max_chunk_cost=tight + 1)


def test_oversize_may_be_spelt_as_text_and_nothing_else_is_taken() -> None:
    assert ChannelParameters(oversize="whole").oversize is Oversize.WHOLE  # type: ignore[arg-type]  # from a file
    for wrong in ("halved", None, 1):
        with pytest.raises(InvalidParametersError, match=f"oversize must be 'split' or 'whole', not {wrong!r}"):
            ChannelParameters(oversize=wrong)  # type: ignore[arg-type]  # that is the point


def test_the_cost_is_the_rows_but_at_least_one_and_at_most_the_clamp() -> None:
    parameters = ChannelParameters(row_permits=2_048, permit_batch=256)
    assert [parameters.cost_of(rows) for rows in (0, 1, 256, 1_792, 1_793, 10_000)] == [1, 1, 256, 1_792, 1_792, 1_792]
