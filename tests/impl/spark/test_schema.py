"""Arrow's types and Spark's: what a channel looks like to Spark, and batches in the form that Spark demands."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from permitflow.errors import InvalidOptionError, SchemaMismatchError
from permitflow.spark.schema import RowForm, arrow_schema, check_user_schema, conform, spark_schema, united_schema
from permitflow.spark.shape import RowShape

MOMENT = datetime(2024, 2, 29, 12, tzinfo=UTC)
FOREIGN = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("local", pa.timestamp("ms")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("at", pa.timestamp("ms", "UTC"))])),
        ("code", pa.dictionary(pa.int8(), pa.string())),
        ("view", pa.string_view()),
        ("large", pa.large_string()),
        ("bytes", pa.large_binary()),
        ("span", pa.duration("s")),
        ("nothing", pa.null()),
    ]
)
ROW = {
    "key": 1,
    "at": MOMENT.astimezone(ZoneInfo("Europe/Berlin")),
    "local": datetime(2024, 2, 29, 13),
    "day": date(2024, 2, 29),
    "price": Decimal("12.50"),
    "list": [1, None],
    "map": [("a", 1), ("b", None)],
    "inner": {"at": MOMENT},
    "code": "x",
    "view": "y",
    "large": "z",
    "bytes": b"w",
    "span": timedelta(seconds=3),
    "nothing": None,
}


def test_rows_of_foreign_types_keep_their_values() -> None:
    empty = dict.fromkeys(ROW, None) | {"key": 2}
    batch = pa.RecordBatch.from_pylist([ROW, empty], schema=FOREIGN)
    target = arrow_schema(spark_schema(FOREIGN, channel="c"))
    conformed = conform(batch, target)
    conformed.validate(full=True)
    assert conformed.schema.equals(target)
    assert conformed.schema.field("at").type == pa.timestamp("us", "UTC")
    assert conformed.to_pylist() == [ROW, empty]


def test_a_type_that_spark_lacks_is_refused_with_its_column() -> None:
    with pytest.raises(SchemaMismatchError, match=r"Spark has no type for uint16(.|\n)*channel 'c'.*small: uint16"):
        spark_schema(pa.schema([("small", pa.uint16())]), channel="c")


def test_a_value_that_would_be_lost_is_refused() -> None:
    batch = pa.record_batch({"at": pa.array([1], pa.timestamp("ns", "UTC"))})
    with pytest.raises(SchemaMismatchError, match="would lose data"):
        conform(batch, pa.schema([("at", pa.timestamp("us", "UTC"))]))


def test_a_null_where_none_may_be_is_refused() -> None:
    batch = pa.record_batch({"x": pa.array([1, None], pa.int64())})
    form = RowForm(StructType().add("x", LongType(), nullable=False))
    form.require_fitting(batch.schema, channel="c")
    assert form.conform(batch[:1], channel="c", first_row=0, log_id=None).to_pylist() == [{"x": 1}]
    with pytest.raises(SchemaMismatchError, match=r"the channel has 1 nulls in this column: state .* without NOT NULL"):
        form.conform(batch, channel="c", first_row=0, log_id=None)


CHANNEL = pa.schema(
    [
        ("x", pa.int64()),
        pa.field("list", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False),
        ("map", pa.map_(pa.string(), pa.int32())),
    ]
)


def user(
    *, x: type[LongType] | type[IntegerType] = LongType, contains_null: bool = True, values_null: bool = True
) -> StructType:
    numbers = ArrayType(IntegerType(), contains_null)
    return StructType().add("x", x()).add("list", numbers).add("map", MapType(StringType(), IntegerType(), values_null))


@pytest.mark.parametrize("schema", [user(), user(contains_null=False)])
def test_a_schema_of_the_users_may_allow_nulls_that_never_come(schema: StructType) -> None:
    check_user_schema(schema, CHANNEL, channel="c")


@pytest.mark.parametrize(
    "schema",
    [
        user(x=IntegerType),
        user(values_null=False),
        StructType([user()["x"], user()["map"], user()["list"]]),
        StructType(user().fields[:2]),
    ],
    ids=["other type", "nulls may come", "other order", "a column less"],
)
def test_another_schema_of_the_users_is_refused_with_both(schema: StructType) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        check_user_schema(schema, CHANNEL, channel="c")
    assert "struct<x:bigint,list:array<int>,map:map<string,int>>" in str(caught.value)
    assert schema.simpleString() in str(caught.value)


ORDERS = pa.schema([pa.field("key", pa.int64(), nullable=False), ("price", pa.float64())])
PAYMENTS = pa.schema([("key", pa.int64()), pa.field("method", pa.string(), nullable=False)])

NAMED = RowShape(channel_column="channel")


def test_channels_with_different_columns_are_united_by_name() -> None:
    united = united_schema({"orders/0": ORDERS, "orders/1": ORDERS, "payments/0": PAYMENTS}, NAMED)
    assert united.simpleString() == "struct<channel:string,key:bigint,price:double,method:string>"
    assert [field.nullable for field in united] == [False, True, True, True]
    alike = united_schema({"orders/0": ORDERS, "orders/1": ORDERS}, NAMED)
    assert [field.nullable for field in alike] == [False, False, True]


@pytest.mark.parametrize(
    ("other", "column", "words"),
    [
        (pa.schema([("key", pa.string())]), "channel", "key:bigint.*key:string"),
        (PAYMENTS, "price", "option channelColumn: price:string.*price:double"),
        (pa.schema([("Price", pa.float64())]), "channel", "has 'price' and 'Price'"),
    ],
    ids=["another type", "taken name", "another case"],
)
def test_columns_of_one_name_must_mean_the_same(other: pa.Schema, column: str, words: str) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        united_schema({"orders/0": ORDERS, "other": other}, RowShape(channel_column=column))


def test_a_row_tells_its_channel_and_has_null_for_missing_columns() -> None:
    form = RowForm(united_schema({"orders/0": ORDERS, "payments/0": PAYMENTS}, NAMED), NAMED)
    form.require_fitting(PAYMENTS, channel="payments/0")
    batch = pa.RecordBatch.from_pylist([{"key": 1, "method": "card"}], schema=PAYMENTS)
    conformed = form.conform(batch, channel="payments/0", first_row=0, log_id="first")
    assert conformed.to_pylist() == [{"channel": "payments/0", "key": 1, "price": None, "method": "card"}]
    conformed.validate(full=True)


@pytest.mark.parametrize(
    "user",
    [
        StructType().add("key", LongType()).add("method", StringType()),
        StructType().add("channel", LongType()).add("key", LongType()).add("method", StringType()),
        StructType().add("channel", StringType()).add("key", LongType()),
        StructType().add("channel", StringType()).add("key", StringType()).add("method", StringType()),
        StructType()
        .add("channel", StringType())
        .add("key", LongType())
        .add("method", StringType())
        .add("price", LongType(), nullable=False),
    ],
    ids=["no channel", "channel is a number", "column is missing", "another type", "never filled"],
)
def test_a_form_that_a_channel_does_not_fit_is_refused(user: StructType) -> None:
    with pytest.raises(SchemaMismatchError, match="with the channel's name in 'channel'"):
        RowForm(user, NAMED).require_fitting(PAYMENTS, channel="payments/0")


def test_rows_tell_where_they_are_from_if_that_is_wanted() -> None:
    shape = RowShape(include_metadata=True)
    united = united_schema({"orders/0": ORDERS}, shape)
    assert united.simpleString() == "struct<key:bigint,price:double,_channel:string,_row:bigint,_log:string>"
    form = RowForm(united, shape)
    form.require_fitting(ORDERS, channel="orders/0")
    batch = pa.RecordBatch.from_pylist([{"key": 1, "price": 0.5}, {"key": 2, "price": 0.5}], schema=ORDERS)
    kept = form.conform(batch, channel="orders/0", first_row=40, log_id="5f0c")
    kept.validate(full=True)
    assert [[*row.values()] for row in kept.to_pylist()] == [
        [1, 0.5, "orders/0", 40, "5f0c"],
        [2, 0.5, "orders/0", 41, "5f0c"],
    ]
    once = form.conform(batch, channel="orders/0", first_row=0, log_id=None)
    assert once["_log"].null_count == 2
    assert form.conform(batch.slice(0, 0), channel="orders/0", first_row=0, log_id=None).num_rows == 0
    taken = pa.schema([("_row", pa.int64())])
    with pytest.raises(SchemaMismatchError, match=r"option includeMetadata: _row:bigint.*channel 'b': _row:bigint"):
        united_schema({"b": taken}, shape)


def test_columns_are_chosen_by_name_in_the_order_of_the_option() -> None:
    shape = RowShape(columns=("method", "key"), merge_schema=True)
    united = united_schema({"orders/0": ORDERS, "payments/0": PAYMENTS}, shape)
    assert united.simpleString() == "struct<method:string,key:bigint>"
    form = RowForm(united, shape)
    form.require_fitting(ORDERS, channel="orders/0")
    batch = pa.RecordBatch.from_pylist([{"key": 1, "price": 0.5}], schema=ORDERS)
    assert form.conform(batch, channel="orders/0", first_row=0, log_id=None).to_pylist() == [{"method": None, "key": 1}]
    with pytest.raises(InvalidOptionError, match=r"did you mean 'price'.*there are key, price\): 'prise'"):
        united_schema({"orders/0": ORDERS}, RowShape(columns=("prise",)))


def test_a_channel_with_more_columns_later_asks_for_a_new_start() -> None:
    shape = RowShape(merge_schema=True)
    form = RowForm(united_schema({"orders/0": ORDERS}, shape), shape)
    with pytest.raises(SchemaMismatchError, match="start the query again: its columns are decided then"):
        form.require_fitting(ORDERS.append(pa.field("note", pa.string())), channel="orders/1")
    form.require_fitting(ORDERS.remove(1), channel="orders/2")
