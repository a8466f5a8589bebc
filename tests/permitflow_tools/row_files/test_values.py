"""Values of rows in Python and in JSON, also those of times that Python does not have."""

from typing import Any

import pyarrow as pa
import pytest

from permitflow_tools.row_files.values import as_json, rows_of, values_of

NANOSECONDS = 1_700_000_000_000_000_001
TEXT = "2023-11-14T22:13:20.000000001"
FAR = 2**53


def column(value: int, kind: pa.DataType) -> pa.Array:
    return pa.array([value, None], pa.int64()).view(kind)


TIMES = column(NANOSECONDS, pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("times", "value"),
    [
        (TIMES, TEXT),
        (column(-1, pa.timestamp("ns", "UTC")), "1969-12-31T23:59:59.999999999+00:00"),
        (column(NANOSECONDS, pa.timestamp("ns", "Europe/Berlin")), f"{TEXT}+00:00"),
        (column(5, pa.timestamp("s", "No/Where")), "1970-01-01T00:00:05+00:00"),
        (column(2**48, pa.timestamp("ms")), "10889-08-02 05:31:50.656"),
        (column(2**62, pa.timestamp("s")), f"<value out of range: {2**62}>"),
        (column(1, pa.time64("ns")), "00:00:00.000000001"),
        (column(1_001, pa.duration("ns")), 1.001e-06),
        (column(FAR, pa.duration("s")), float(FAR)),
    ],
    ids=str,
)
def test_a_time_that_python_does_not_have_is_told(times: pa.Array, value: object) -> None:
    assert as_json(values_of(times)) == [value, None]


@pytest.mark.parametrize(
    ("nested", "value"),
    [
        (pa.ListArray.from_arrays(pa.array([0, 1, 2]), TIMES), [TEXT]),
        (pa.StructArray.from_arrays([TIMES], names=["a"]), {"a": TEXT}),
        (pa.StructArray.from_arrays([TIMES, TIMES], names=["a", "a"]), [["a", TEXT], ["a", TEXT]]),
        (pa.MapArray.from_arrays(pa.array([0, 1, 2]), pa.array(["k", "l"]), TIMES), [["k", TEXT]]),
        (TIMES.dictionary_encode(), TEXT),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2]), TIMES), TEXT),
        (pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [TIMES]), TEXT),
    ],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else "",
)
def test_such_a_time_may_stand_within_other_values(nested: pa.Array, value: Any) -> None:
    assert as_json(values_of(nested)[0]) == value
    assert as_json(rows_of(pa.record_batch([nested], names=["n"]))[0]) == {"n": value}
