"""Maps between Spark's and Arrow's types, and converts batches to the form that Spark demands."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

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


def require_distinct(names: Iterable[str], whose: str) -> None:
    """Require columns that differ by more than case: as it is set by default, Spark does not tell the others apart.

    Raises:
        SchemaMismatchError: two do not.
    """
    seen = dict[str, str]()
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaMismatchError(
                ours="Spark does not tell columns apart that differ only by case: state a schema yourself, in a "
                "session with spark.sql.caseSensitive=true",
                theirs=f"{whose} has {other!r} and {name!r}",
            )


def check_user_schema(user: StructType, schema: pa.Schema, *, channel: str) -> None:
    """Compare the user's schema with the channel's: names, order, types, and whether nulls may come.

    Raises:
        SchemaMismatchError: with both schemas.
    """
    found = spark_schema(schema, channel=channel)
    if not _takes(user, found):
        first, second = ("the frame has", user.simpleString()), (f"channel {channel!r} has", found.simpleString())
        hint = (
            "schema() must state the columns of the channels, or be left out; if these differ from each other, set "
            "option 'channelColumn'"
        )
        raise SchemaMismatchError.between(first, second, hint=hint)


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


def united_schema(channels: Mapping[str, pa.Schema], channel_column: str) -> StructType:
    """The Spark schema for rows of channels with different columns: the channel's name, then all columns by name.

    A column that a channel lacks is null in its rows.

    Raises:
        SchemaMismatchError: two channels have a column of one name and different types; the name of the first column is
            taken; names differ only by case; or Spark has no type for a column.
    """
    schemas = {channel: spark_schema(schema, channel=channel) for channel, schema in channels.items()}
    fields = {channel_column: StructField(channel_column, StringType(), nullable=False)}
    owners = {channel_column: f"option channelColumn: {fields[channel_column].simpleString()}"}
    for channel, schema in schemas.items():
        for field in schema:
            known, owner = fields.get(field.name), f"channel {channel!r}: {field.simpleString()}"
            if field.name == channel_column or (known is not None and known.dataType != field.dataType):
                raise SchemaMismatchError(ours=owners[field.name], theirs=owner)
            is_everywhere = all(field.name in other.names for other in schemas.values())
            nullable = field.nullable or not is_everywhere or (known is not None and known.nullable)
            fields[field.name] = StructField(field.name, field.dataType, nullable)
            owners[field.name] = owner
    require_distinct(fields, "the rows of all channels")
    return StructType([*fields.values()])


class RowForm:
    """The form in which Spark wants the rows of a channel."""

    def __init__(self, schema: StructType, channel_column: str = "") -> None:
        """Rows of ``schema``.

        ``channel_column``: the name of the column for the channel's name; then a channel may lack columns.  Empty: it
        has all columns, in this order.
        """
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._channel_column = channel_column

    def require_fitting(self, schema: pa.Schema, *, channel: str) -> None:
        """Compare this form with a channel's schema.

        Raises:
            SchemaMismatchError: with both schemas.
        """
        if not self._channel_column:
            check_user_schema(self._schema, schema, channel=channel)
            return
        found = spark_schema(schema, channel=channel)
        has_all = {self._channel_column, *found.names} <= {*self._schema.names}
        if not (
            has_all
            and self._channel_column not in found.names
            and all(self._fits(each, found) for each in self._schema)
        ):
            wanted = f"{self._schema.simpleString()}, with the channel's name in {self._channel_column!r}"
            raise SchemaMismatchError(ours=wanted, theirs=f"channel {channel!r}: {found.simpleString()}")

    def _fits(self, field: StructField, found: StructType) -> bool:
        if field.name == self._channel_column:
            return isinstance(field.dataType, StringType)
        if field.name not in found.names:
            return field.nullable
        theirs = found[field.name]
        return _takes(field.dataType, theirs.dataType) and field.nullable >= theirs.nullable

    def conform(self, batch: pa.RecordBatch, *, channel: str) -> pa.RecordBatch:
        """Convert a batch of a channel to this form.

        Raises:
            SchemaMismatchError: as ``conform``.
        """
        if not self._channel_column:
            return conform(batch, self._arrow)
        given = dict(zip(batch.schema.names, batch.columns, strict=True))
        given[self._channel_column] = pa.repeat(channel, batch.num_rows)
        columns = [
            _cast(given[field.name], field) if field.name in given else pa.nulls(batch.num_rows, field.type)
            for field in self._arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)


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
