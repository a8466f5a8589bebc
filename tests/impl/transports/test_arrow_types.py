"""Which values may hold any bytes: what need not be looked at again in the next batch that looks the same."""

import random

import pyarrow as pa
import pytest

from permitflow.transports.arrow_types import holds_any_bytes

ROWS = 33
ANY_BYTES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.binary(5)),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", tz="Europe/Berlin"),
]
SOME_BYTES = [
    *(pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.decimal128(5), pa.decimal256(5), pa.string(), pa.large_string(), pa.binary(), pa.string_view()),
    *(pa.list_(pa.int64()), pa.struct({"n": pa.int64()}), pa.dictionary(pa.int8(), pa.int64()), pa.null()),
]


@pytest.mark.parametrize("kind", ANY_BYTES, ids=str)
def test_arrow_finds_nothing_wrong_with_any_bytes_of_these(kind: pa.DataType) -> None:
    assert holds_any_bytes(pa.schema({"a": kind, "b": pa.int64()}))
    chance = random.Random(str(kind))
    for values in (bytes(16 * ROWS), b"\xff" * 16 * ROWS, *(chance.randbytes(16 * ROWS) for _ in range(20))):
        pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(values)], null_count=0).validate(full=True)


@pytest.mark.parametrize("kind", SOME_BYTES, ids=str)
def test_others_are_looked_at_each_time(kind: pa.DataType) -> None:
    assert not holds_any_bytes(pa.schema({"a": pa.int64(), "b": kind}))


@pytest.mark.parametrize("kind", [pa.date64(), pa.time32("s"), pa.time64("us"), pa.decimal128(5)], ids=str)
def test_arrow_finds_something_wrong_with_some_bytes_of_others(kind: pa.DataType) -> None:
    values = [None, pa.py_buffer(b"\x77" * 16 * ROWS)]
    with pytest.raises(pa.ArrowInvalid):
        pa.Array.from_buffers(kind, ROWS, values, null_count=0).validate(full=True)
