"""What a chunk counts for, and how it is sliced: values, sequences, Arrow, and what cannot be sliced."""

from array import array
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.chunks import rows_of, slices, tail, whole_rows
from permitflow.errors import InvalidParametersError, UnsplittableChunkError


def batch_of(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(range(rows), pa.int64()), "s": [str(row) for row in range(rows)]})


class WithRows:
    """A chunk that says how many rows it has, and nothing else."""

    def __init__(self, num_rows: object) -> None:
        self.num_rows = num_rows


class Six:
    """A whole number of another library."""

    def __index__(self) -> int:
        return 6


class Unsized:
    """Has a length in principle, as arrays have, but this one has none."""

    def __len__(self) -> int:
        raise TypeError("no dimension")


@pytest.mark.parametrize(
    ("chunk", "rows"),
    [
        (batch_of(7), 7),
        (pa.table({"x": [1, 2]}), 2),
        (pa.array([1, 2, 3]), 3),
        ([1, 2, 3, 4], 4),
        (b"abc", 3),
        (None, 1),
        pytest.param(WithRows(6), 6, id="num_rows"),
        pytest.param(WithRows(Six()), 6, id="index"),
        pytest.param(WithRows(0), 0, id="no rows"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_are_what_the_chunk_says_else_its_length_else_one(chunk: object, rows: int) -> None:
    assert rows_of(chunk) == rows
    assert type(rows_of(chunk)) is int


@pytest.mark.parametrize("wrong", [-1, 2.5, True, None], ids=repr)
def test_a_number_of_rows_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidParametersError, match="rows must be a whole number of at least 0") as caught:
        whole_rows(wrong)
    assert caught.value.value is wrong
    if wrong is not None:
        with pytest.raises(InvalidParametersError, match="num_rows must be a whole number"):
            rows_of(WithRows(wrong))


def test_a_refused_chunk_is_told_by_its_type_alone() -> None:
    with pytest.raises(InvalidParametersError, match="not <class 'str'>") as caught:
        rows_of("x" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_a_chunk_that_cannot_tell_its_length_has_to_be_sent_with_rows() -> None:
    with pytest.raises(
        InvalidParametersError, match=r"chunk must tell its length \(no dimension\), or be sent with rows"
    ):
        rows_of(Unsized())


@given(rows=st.integers(0, 60), max_rows=st.integers(1, 20))
def test_slices_are_full_but_for_the_last_and_together_the_chunk(rows: int, max_rows: int) -> None:
    chunk = list(range(rows))
    pieces = list(slices(chunk, max_rows))
    assert [row for piece in pieces for row in piece] == chunk
    assert [len(piece) for piece in pieces[:-1]] == [max_rows] * (len(pieces) - 1)
    assert (len(pieces[-1]) > 0) == (rows > 0)


@pytest.mark.parametrize(
    "chunk", [batch_of(10), batch_of(10).column(0), pa.Table.from_batches([batch_of(4), batch_of(6)])]
)
def test_arrow_is_sliced_without_copying(chunk: pa.RecordBatch | pa.Array | pa.Table) -> None:
    pa_before = pa.total_allocated_bytes()
    pieces = list(slices(chunk, 4))
    assert pa.total_allocated_bytes() == pa_before
    assert [rows_of(piece) for piece in pieces] == [4, 4, 2]
    assert pieces == [chunk.slice(0, 4), chunk.slice(4, 4), chunk.slice(8, 2)]
    assert tail(chunk, 8) == chunk.slice(8)


@pytest.mark.parametrize("chunk", [b"abcdefg", array("i", range(7))], ids=lambda chunk: type(chunk).__name__)
def test_sequences_keep_their_type(chunk: Sequence[object]) -> None:
    pieces = list(slices(chunk, 3))
    assert [type(piece) for piece in pieces] == [type(chunk)] * 3
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    assert tail(chunk, 6) == chunk[6:]


class Repeats(list[int]):
    """Its slices are longer than they should be."""

    def __getitem__(self, key: object) -> object:  # type: ignore[override]  # wrong on purpose
        return list(self)


@pytest.mark.parametrize(
    ("chunk", "reason"),
    [
        (WithRows(7), "not subscriptable"),
        (Repeats(range(7)), "slice of 3 rows has 7"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unsplittable_chunk_is_an_error_with_its_type(chunk: object, reason: str) -> None:
    with pytest.raises(UnsplittableChunkError, match=reason) as caught:
        list(slices(chunk, 3))
    assert (caught.value.rows, caught.value.max_rows) == (7, 3)
    assert type(chunk).__name__ in str(caught.value)
    assert "oversize = 'whole'" in str(caught.value)
