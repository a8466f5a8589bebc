"""A filter lets every row pass that Spark takes, and says which rows need not be read."""

from datetime import date

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from permitflow.spark.filters import RowFilter
from permitflow.spark.schema import spark_schema, united_schema
from permitflow.spark.shape import RowShape
from permitflow.spark.stream_planning import RowRange

SCHEMA = pa.schema(
    [("n", pa.int64()), ("small", pa.int8()), ("text", pa.string()), ("day", pa.date32()), ("ratio", pa.float64())]
)
SHAPE = RowShape(include_metadata=True)
RANGES = [RowRange("a/0", "log", 10, 20), RowRange("a/1", "log", 0, 5)]


def made(*filters: Filter, shape: RowShape = SHAPE) -> RowFilter:
    return RowFilter.of(filters, united_schema({"a/0": SCHEMA}, shape), shape)


@pytest.mark.parametrize(
    ("one", "rows"),
    [
        (EqualTo(("n",), 2), [2]),
        (Not(EqualTo(("n",), 2)), [1, 3]),
        (GreaterThan(("n",), 1), [2, 3]),
        (GreaterThanOrEqual(("n",), 2), [2, 3]),
        (LessThan(("n",), 2), [1]),
        (LessThanOrEqual(("n",), 2), [1, 2]),
        (In(("n",), (1, 3, 9)), [1, 3]),
        (IsNull(("n",)), [None]),
        (IsNotNull(("n",)), [1, 2, 3]),
        (StringStartsWith(("text",), "a"), [1, 2]),
        (StringEndsWith(("text",), "c"), [2, 3]),
        (StringContains(("text",), "b"), [1, 3]),
        (GreaterThan(("day",), date(2024, 2, 28)), [2, 3]),
    ],
)
def test_rows_that_spark_would_refuse_do_not_go_to_it(one: Filter, rows: list[int | None]) -> None:
    columns = {"n": [1, 2, 3, None], "text": ["ab", "ac", "bc", None]}
    batch = pa.record_batch(
        {
            **columns,
            "day": pa.array([date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1), None]),
        }
    )
    schema = spark_schema(batch.schema, channel="a")
    assert RowFilter.of([one], schema, RowShape()).apply(batch)["n"].to_pylist() == rows


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("ratio",), 0.5),
        EqualTo(("small",), 1_000),
        EqualTo(("n",), "x"),
        EqualTo(("n",), None),
        EqualTo(("inner", "n"), 1),
        EqualTo(("unknown",), 1),
        EqualNullSafe(("n",), 1),
        StringStartsWith(("n",), "1"),
    ],
)
def test_a_filter_that_could_differ_from_sparks_is_left_to_spark(one: Filter) -> None:
    assert made(one, Not(one)).filters == ()


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([], RANGES),
        ([EqualTo(("_channel",), "a/1")], RANGES[1:]),
        ([Not(EqualTo(("_channel",), "a/1"))], RANGES[:1]),
        ([In(("_channel",), ("a/0", "b/0"))], RANGES[:1]),
        ([StringEndsWith(("_channel",), "/1")], RANGES[1:]),
        ([GreaterThan(("_row",), 12), LessThanOrEqual(("_row",), 15)], [RowRange("a/0", "log", 13, 16)]),
        ([GreaterThanOrEqual(("_row",), 4)], [RANGES[0], RowRange("a/1", "log", 4, 5)]),
        ([EqualTo(("_row",), 19)], [RowRange("a/0", "log", 19, 20)]),
        ([LessThan(("_row",), 0)], []),
        ([EqualTo(("n",), 1)], RANGES),
    ],
)
def test_rows_are_not_read_that_cannot_pass(filters: list[Filter], ranges: list[RowRange]) -> None:
    assert made(*filters).ranges(RANGES) == ranges


def test_a_column_of_the_users_is_no_row_number() -> None:
    own = RowFilter.of(
        [EqualTo(("_row",), 1)], spark_schema(pa.schema([("_row", pa.int64())]), channel="a"), RowShape()
    )
    assert own.ranges(RANGES) == RANGES
