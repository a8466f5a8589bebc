"""What is joined, what stays as it came, and what can be held by no single batch."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from permitflow.transports.arrow import joined, owned, runs

# The rows of a batch say how many bytes it is to take.
SMALL_BYTES, MOST_BYTES = 10, 100


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


def nulls(values: int) -> pa.RecordBatch:
    """One row, a list of nulls: as many as one likes take no memory."""
    return pa.record_batch({"n": pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), pa.nulls(values))})


def address_of(chunk: pa.RecordBatch) -> int:
    return int(chunk.column(0).buffers()[1].address)


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([], []),
        ([5], [[5]]),
        ([200], [[200]]),
        ([5, 5, 5], [[5, 5, 5]]),
        ([5, 200, 200], [[5], [200], [200]]),
        ([200, 5, 200], [[200], [5], [200]]),
        ([5, 5, 11, 5, 5], [[5, 5], [11], [5, 5]]),
        ([10] * 12, [[10] * 10, [10] * 2]),
    ],
)
def test_small_neighbours_stand_together_up_to_a_bound(sizes: Sequence[int], found: list[list[int]]) -> None:
    batches = [batch(size) for size in sizes]
    together = runs(batches, lambda each: each.num_rows, small_bytes=SMALL_BYTES, most_bytes=MOST_BYTES)
    assert [[each.num_rows for each in run] for run in together] == found


def test_rows_are_bounded_as_well() -> None:
    together = runs([batch(3) for _ in range(5)], lambda _: 1, most_bytes=MOST_BYTES, most_rows=7)
    assert [len(run) for run in together] == [2, 2, 1]


def test_batches_that_one_could_not_hold_stay_as_they_came() -> None:
    many = [nulls(1_500_000_000), nulls(1_500_000_000)]
    assert joined(many) == many
    assert [each.num_rows for each in joined([nulls(1), nulls(2)])] == [2]
    assert [len(each.column(0)[0]) for each in owned(many)] == [1_500_000_000] * 2


def test_what_is_owned_lies_elsewhere_with_the_same_rows() -> None:
    given = [batch(3), batch(1), batch(5)]
    taken = owned(given)
    assert taken == given
    assert not {address_of(each) for each in taken} & {address_of(each) for each in given}
    assert owned([]) == []
