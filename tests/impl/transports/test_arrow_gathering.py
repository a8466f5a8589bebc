"""Batches whose columns are sent from where they lie arrive as if they had been joined."""

from collections.abc import Iterable
from functools import cache
from typing import NoReturn

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.transports.arrow import BatchCodec
from permitflow.transports.shared_memory.ring import size_of

MOST_PIECES = 256
KINDS = (pa.int64(), pa.int16(), pa.float32(), pa.timestamp("us"), pa.decimal128(30, 2), pa.int8())
ROWS = 20_000


@cache
def columns(kinds: tuple[pa.DataType, ...] = KINDS) -> pa.RecordBatch:
    """A batch of which each column is large enough to travel from where it lies."""
    numbers = pa.array([number % 100 for number in range(2 * ROWS)])
    return pa.RecordBatch.from_arrays([numbers.cast(kind) for kind in kinds], names=[str(kind) for kind in kinds])


@given(st.lists(st.tuples(st.integers(0, ROWS), st.integers(ROWS - 9, ROWS)), min_size=1, max_size=4))
def test_slices_of_odd_lengths_arrive_as_one_batch(places: list[tuple[int, int]]) -> None:
    batches = [columns().slice(start, rows) for start, rows in places]
    codec = BatchCodec(batches[0].schema)
    pieces = codec.encode(batches)
    message = b"".join(pieces)
    assert size_of(pieces) == len(message), "nobody on its way adds it up again"
    arrived = codec.decode(message, [sum(batch.num_rows for batch in batches)])
    assert arrived.equals(pa.concat_batches(batches))
    assert b"".join(codec.encode(batches)) == message


def places(buffers: Iterable[pa.Buffer | None]) -> set[int]:
    """Where they lie in memory."""
    return {buffer.address for buffer in buffers if buffer is not None}


def test_nothing_is_copied_once_the_length_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [columns(), columns()]
    codec = BatchCodec(batches[0].schema)
    expected = codec.encode(batches)

    def refuse(_: object) -> NoReturn:
        raise AssertionError("batches of a known length are joined")

    monkeypatch.setattr(pa, "concat_batches", refuse)
    pieces = codec.encode(batches)
    assert b"".join(pieces) == b"".join(expected)
    assert places(columns().to_struct_array().buffers()) <= places(map(pa.py_buffer, pieces))


def test_who_would_make_more_pieces_than_a_copy_is_worth_copies() -> None:
    batch = columns()
    codec = BatchCodec(batch.schema)
    assert len(codec.encode([batch] * (MOST_PIECES // len(KINDS)))) > MOST_PIECES // 2
    for batches in ([batch] * (MOST_PIECES // len(KINDS) + 1), [batch.slice(0, 1_000)] * 4):
        assert places(batch.to_struct_array().buffers()).isdisjoint(places(map(pa.py_buffer, codec.encode(batches))))


def with_nulls() -> pa.RecordBatch:
    holes = pa.array([None if number % 7 == 0 else number for number in range(ROWS)], pa.int64())
    return pa.record_batch({"a": holes})


@pytest.mark.parametrize(
    "odd",
    [
        with_nulls(),
        pa.record_batch({"a": pa.array([number % 2 == 0 for number in range(8 * ROWS)])}),
        pa.record_batch({"a": [str(number) for number in range(ROWS)]}),
        pa.record_batch({"a": pa.array(range(ROWS)), "b": pa.nulls(ROWS)}),
        pa.record_batch({"a": pa.array([[number] for number in range(ROWS)])}),
    ],
    ids=["nulls", "bits", "text", "only nulls", "lists"],
)
def test_what_does_not_lie_side_by_side_is_joined(odd: pa.RecordBatch) -> None:
    codec = BatchCodec(odd.schema)
    for batches in ([odd] * 3, [odd.slice(5), odd.slice(0, ROWS - 3)]):
        arrived = codec.decode(b"".join(codec.encode(batches)), [sum(batch.num_rows for batch in batches)])
        assert arrived.equals(pa.concat_batches(batches))


def test_nulls_that_come_later_are_not_lost() -> None:
    holes = with_nulls()
    full = pa.record_batch({"a": pa.array(range(ROWS), pa.int64())})
    codec = BatchCodec(full.schema)
    for batches in ([full, full], [full, holes], [holes, full], [full, full]):
        arrived = codec.decode(b"".join(codec.encode(batches)), [2 * ROWS])
        assert arrived.equals(pa.concat_batches(batches))


def test_more_lengths_than_are_remembered_arrive() -> None:
    batch = columns((pa.int64(),))
    codec = BatchCodec(batch.schema)
    for rows in range(ROWS, ROWS + 200):
        arrived = codec.decode(b"".join(codec.encode([batch.slice(0, rows)])), [rows])
        assert arrived.equals(batch.slice(0, rows))
    assert codec._gathering is not None
    assert 0 < len(codec._gathering._gaps) < 100


def test_columns_that_could_hold_nulls_and_do_not_are_gathered_like_others() -> None:
    values = pa.array(range(ROWS + 7), pa.int64()).buffers()[1]
    could = pa.Array.from_buffers(pa.int64(), ROWS, [pa.py_buffer(b"\xff" * ROWS), values], offset=7)
    numbers = pa.array(range(ROWS), pa.int64())
    batches = [pa.record_batch({"a": could}), pa.record_batch({"a": numbers})]
    codec = BatchCodec(batches[0].schema)
    codec.encode(batches)
    pieces = codec.encode(batches)
    assert {values.address + 7 * 8, numbers.buffers()[1].address} <= places(map(pa.py_buffer, pieces))
    arrived = codec.decode(b"".join(pieces), [2 * ROWS])
    assert arrived.column(0).to_pylist() == [*range(7, ROWS + 7), *range(ROWS)]
