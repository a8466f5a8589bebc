"""Maps between Spark's and Arrow's types, and converts batches to the form that Spark demands."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from permitflow.errors import SchemaMismatchError


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema: batches must have exactly this one, time zone included."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_schema(schema: pa.Schema, *, channel: str) -> StructType:
    """The Spark schema of a channel's Arrow schema.

    Raises:
        SchemaMismatchError: Spark has no type for a column.
    """
    return StructType([_spark_field(field, channel) for field in schema])


def check_user_schema(user: StructType, schema: pa.Schema, *, channel: str) -> None:
    """Compare the user's schema with the channel's: names, order, types, and whether nulls may come.

    Raises:
        SchemaMismatchError: with both schemas.
    """
    found = spark_schema(schema, channel=channel)
    if not _takes(user, found):
        raise SchemaMismatchError(ours=user.simpleString(), theirs=f"channel {channel!r}: {found.simpleString()}")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to ``schema``: other time zones, units, field names of lists, or string encodings.

    Raises:
        SchemaMismatchError: a value would be lost, as with nanoseconds in microseconds, or is null where nulls are
            not allowed.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise SchemaMismatchError(ours=", ".join(schema.names), theirs=", ".join(batch.schema.names))
    columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _spark_field(field: pa.Field, channel: str) -> StructField:
    try:
        return StructField(field.name, from_arrow_type(_decoded(field.type)), field.nullable)
    except PySparkException as error:
        raise SchemaMismatchError(
            ours=f"Spark has no type for {field.type}", theirs=f"channel {channel!r}: {field}"
        ) from error


def _decoded(kind: pa.DataType) -> pa.DataType:
    """The plain type behind an encoding that Spark does not know."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def _takes(user: DataType, found: DataType) -> bool:
    """Can every value of ``found`` be one of ``user``?  Types must match; ``user`` may allow nulls that never come."""
    if isinstance(user, StructType) and isinstance(found, StructType):
        return user.names == found.names and all(
            _takes(mine.dataType, theirs.dataType) and mine.nullable >= theirs.nullable
            for mine, theirs in zip(user, found, strict=True)
        )
    if isinstance(user, ArrayType) and isinstance(found, ArrayType):
        return _takes(user.elementType, found.elementType) and user.containsNull >= found.containsNull
    if isinstance(user, MapType) and isinstance(found, MapType):
        values = _takes(user.valueType, found.valueType) and user.valueContainsNull >= found.valueContainsNull
        return values and _takes(user.keyType, found.keyType)
    return user == found


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        cast = column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaMismatchError(ours=str(field), theirs=f"{column.type}: {error}") from error
    if cast.null_count and not field.nullable:
        raise SchemaMismatchError(ours=str(field), theirs=f"{cast.null_count} nulls in this column")
    return cast
