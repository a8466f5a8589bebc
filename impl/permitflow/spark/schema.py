"""Maps between Spark's and Arrow's types, and converts batches to the form that Spark demands."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import pyarrow as pa
from pyarrow.lib import Type_LIST, Type_MAP, Type_STRUCT
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from permitflow.errors import InvalidOptionError, SchemaMismatchError
from permitflow.spark.shape import TIME_COLUMN, Origin, RowShape
from permitflow.wire.schemas import resized


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
    """Compare the user's schema with the channel's: names, order, types, and whether nulls may come inside of columns.

    A column that the user states as not nullable may have nulls in the channel: ``conform`` refuses those that come.

    Raises:
        SchemaMismatchError: with both schemas.
    """
    found = spark_schema(schema, channel=channel)
    pairs = zip(user, found, strict=False)
    if user.names != found.names or not all(_takes(mine.dataType, theirs.dataType) for mine, theirs in pairs):
        first, second = ("the frame has", user.simpleString()), (f"channel {channel!r} has", found.simpleString())
        hint = (
            "schema() must state the columns of the channels, or be left out; if these differ from each other, set "
            "option 'mergeSchema'"
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


def united_schema(channels: Mapping[str, pa.Schema], shape: RowShape) -> StructType:
    """The Spark schema for the rows of channels: where they are from, and their columns by name.

    A column that a channel lacks is null in its rows.

    Raises:
        SchemaMismatchError: two channels have a column of one name and different types; the name of a column for a
            row's origin is taken; names differ only by case; or Spark has no type for a column.
        InvalidOptionError: no channel has a wanted column.
    """
    schemas = {channel: spark_schema(schema, channel=channel) for channel, schema in channels.items()}
    origins = {name: StructField(name, _TYPES[origin], origin is Origin.LOG) for name, origin in shape.origins.items()}
    fields, owners = dict[str, StructField](), {name: _taken_by(shape, field) for name, field in origins.items()}
    for channel, schema in schemas.items():
        for field in schema:
            known, owner = fields.get(field.name), f"channel {channel!r}: {field.simpleString()}"
            if field.name in origins or (known is not None and known.dataType != field.dataType):
                raise SchemaMismatchError(ours=owners[field.name], theirs=owner)
            is_everywhere = all(field.name in other.names for other in schemas.values())
            nullable = field.nullable or not is_everywhere or (known is not None and known.nullable)
            fields[field.name] = StructField(field.name, field.dataType, nullable)
            owners[field.name] = owner
    for name in shape.columns:
        _require_column(name, fields)
    wanted = {name: fields[name] for name in shape.columns} or fields
    first = {name: field for name, field in origins.items() if name == shape.channel_column}
    found = {**first, **wanted, **origins}
    require_distinct(found, "the rows of all channels")
    return StructType([*found.values()])


_TYPES: Mapping[Origin, DataType] = {
    Origin.CHANNEL: StringType(),
    Origin.ROW: LongType(),
    Origin.LOG: StringType(),
    Origin.TIME: TimestampType(),
}


def _taken_by(shape: RowShape, field: StructField) -> str:
    option = "includeTime" if field.name == TIME_COLUMN else "includeMetadata"
    option = "channelColumn" if field.name == shape.channel_column else option
    return f"option {option}: {field.simpleString()}"


def _require_column(name: str, known: Iterable[str]) -> None:
    names = [*known]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        reason = f"names a column that no channel has{meant} (there are {', '.join(names)})"
        raise InvalidOptionError(option="columns", value=name, reason=reason)


class RowForm:
    """The form in which Spark wants the rows of a channel."""

    def __init__(self, schema: StructType, shape: RowShape = RowShape()) -> None:  # noqa: B008 - it is frozen
        """Rows of ``schema``; if ``shape`` is plain, a channel has all of its columns, in this order."""
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._shape = shape
        self._origins = {name: origin for name, origin in shape.origins.items() if name in schema.names}

    def require_fitting(self, schema: pa.Schema, *, channel: str, may_grow: bool = False) -> None:
        """Compare this form with a channel's schema.

        ``may_grow``: one may have more columns at the end, which are nullable, because the channel has got them since
        the query began, or will get them.

        Raises:
            SchemaMismatchError: with both schemas.
        """
        if self._shape.is_plain:
            user, shared = self._schema, min(len(self._schema), len(schema))
            added = [*user.fields[shared:], *(schema.field(place) for place in range(shared, len(schema)))]
            if may_grow and shared and all(field.nullable for field in added):
                user, schema = StructType(user.fields[:shared]), pa.schema([schema.field(n) for n in range(shared)])
            check_user_schema(user, schema, channel=channel)
            return
        found = spark_schema(schema, channel=channel)
        missing = [name for name in found.names if name not in self._schema.names]
        if not (
            (self._shape.columns or all(may_grow and found[name].nullable for name in missing))
            and not {*self._shape.origins} & {*found.names}
            and self._shape.channel_column in ("", *self._schema.names)
            and all(self._fits(each, found, may_grow=may_grow) for each in self._schema)
        ):
            wanted = self._schema.simpleString()
            if self._shape.channel_column:
                wanted += f", with the channel's name in {self._shape.channel_column!r}"
            hint = "start the query again: its columns are decided then"
            if not missing:
                hint = "schema() must state the columns of the channels and those of the options, or be left out"
            ours, theirs = ("the frame has", wanted), (f"channel {channel!r} has", found.simpleString())
            raise SchemaMismatchError.between(ours, theirs, hint=hint)

    def _fits(self, field: StructField, found: StructType, *, may_grow: bool) -> bool:
        if (origin := self._origins.get(field.name)) is not None:
            return field.dataType == _TYPES[origin] and (field.nullable or origin is not Origin.LOG)
        if field.name not in found.names:
            return field.nullable and (self._shape.unites or may_grow)
        return _takes(field.dataType, found[field.name].dataType)

    def conform(self, batch: pa.RecordBatch, *, channel: str, first_row: int, log_id: str | None) -> pa.RecordBatch:
        """Convert a batch of a channel to this form.

        Args:
            batch: rows of the channel.
            channel: its name.
            first_row: the number of the batch's first row.
            log_id: the log in which rows are numbered; None: the channel keeps no rows.

        Raises:
            SchemaMismatchError: as ``conform``.
        """
        if self._shape.is_plain:
            return conform(_as_wide(batch, self._arrow), self._arrow)
        given, rows = dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows
        for name, origin in self._origins.items():
            if origin is Origin.TIME:
                continue  # the exchange has told it
            if origin is Origin.ROW:
                given[name] = _numbers(first_row, rows)
            else:
                given[name] = pa.repeat(pa.scalar(channel if origin is Origin.CHANNEL else log_id, pa.string()), rows)
        columns = [
            _cast(given[field.name], field) if field.name in given else pa.nulls(rows, field.type)
            for field in self._arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)


def _numbers(first: int, count: int) -> pa.Array:
    # Few want these columns, and Arrow's functions take 50 ms to load in each process of a session.
    import pyarrow.compute as pc

    return pc.cumulative_sum(pa.repeat(pa.scalar(1), count), start=first - 1)


def _as_wide(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with as many columns: without its last ones, or with nulls."""
    if batch.num_columns == len(schema):
        return batch
    if batch.num_columns > len(schema):
        return batch.select([*range(len(schema))])
    added = [schema.field(place) for place in range(batch.num_columns, len(schema))]
    return resized(batch, pa.schema([*batch.schema, *added]))


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


def _is_wider(target: pa.DataType, kind: pa.DataType) -> bool:
    """Is ``target`` the same type, but for names of lists' elements and nulls that it allows in more places?"""
    if kind.equals(target):
        return True
    kinds, wanted = ([each.field(place) for place in range(each.num_fields)] for each in (kind, target))
    is_nested = kind.id in (Type_STRUCT, Type_LIST, Type_MAP) and kind.id == target.id and len(kinds) == len(wanted)
    is_named = kind.id != Type_STRUCT or [each.name for each in kinds] == [each.name for each in wanted]
    return (
        is_nested
        and is_named
        and all(
            wider.nullable >= each.nullable and _is_wider(wider.type, each.type)
            for each, wider in zip(kinds, wanted, strict=True)
        )
    )


class _Retyped:
    """An array as one of a wider type, by Arrow's interface between libraries: nothing is copied or looked at."""

    def __init__(self, array: pa.Array, kind: pa.DataType) -> None:
        self._array, self._kind = array, kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._array.__arrow_c_array__()[1]


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        # Arrow does not cast a variant that is null, even to its own type: a struct whose parts have no nulls.
        if column.type.equals(field.type):
            cast = column
        elif _is_wider(field.type, column.type):
            cast = pa.array(_Retyped(column, field.type))
        else:
            cast = column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaMismatchError(ours=str(field), theirs=f"{column.type}: {error}") from error
    if cast.null_count and not field.nullable:
        first, second = ("the frame has", str(field)), ("the channel has", f"{cast.null_count} nulls in this column")
        raise SchemaMismatchError.between(first, second, hint="state the column without NOT NULL")
    return cast
