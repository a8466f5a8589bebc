"""A method's messages as rows, and rows as messages: by the fields of protobuf, or by the user's functions.

A message's fields are columns of the same names.  Repeated fields are arrays, maps are maps, messages structs,
``google.protobuf.Timestamp`` a timestamp, enumerations their words, ``uint64`` a decimal.  A field that is not set, and
whose absence protobuf keeps, is null.  Where it does not, a null is refused, or becomes the field's default.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from inspect import isasyncgenfunction, iscoroutinefunction
from traceback import extract_tb, format_list
from typing import Any, NamedTuple, NoReturn, TypeAlias

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from permitflow.errors import InvalidOptionError, SchemaMismatchError
from permitflow.spark.calls.options import CallOptions, Nulls
from permitflow.spark.schema import arrow_schema, require_distinct

# Protobuf has several implementations of these, without a common type.
_Field: TypeAlias = Any
_Fields: TypeAlias = Any

_TIMESTAMP = Timestamp.DESCRIPTOR.full_name
_WIDE = DecimalType(20, 0)  # holds any uint64
_PLAIN: dict[int, DataType] = {
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_FIXED64: _WIDE,
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_UINT64: _WIDE,
}


# Methods.


class Method(NamedTuple):
    """A method and its messages."""

    name: str
    """As gRPC wants it: ``/package.Service/Method``."""
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]
    request: type[Message] | None
    """None: only the user's functions know it."""
    response: type[Message] | None

    def request_of(self, text: str) -> object:
        """The request that the option ``request`` states.

        Raises:
            InvalidOptionError: it does not fit.
        """
        if self.request is None:
            return text
        try:
            return json_format.Parse(text, self.request())
        except json_format.ParseError as error:
            raise InvalidOptionError(option="request", value=text, reason=f"does not fit ({error})") from None


def function_of(option: str, name: str) -> Callable[..., Any]:
    """The user's function with this name, as in ``module:function``.

    Raises:
        InvalidOptionError: it cannot be imported, or is asynchronous.
    """
    module, _, attribute = name.partition(":")
    found = getattr(_imported(option, name, module), attribute, None)
    if not callable(found):
        raise InvalidOptionError(
            option=option, value=name, reason=f"must be a function: {module} has none of this name"
        )
    if iscoroutinefunction(found) or isasyncgenfunction(found):
        raise InvalidOptionError(option=option, value=name, reason="must be no async function: it is called as it is")
    return found  # type: ignore[no-any-return]  # the user's


def require_channel(options: CallOptions) -> None:
    """Look the function up that opens the channel, if there is one.

    Raises:
        InvalidOptionError: there is none of that name.
    """
    if options.channel:
        function_of("channel", options.channel)


_KINDS = {
    (False, True): "server-streaming, to read rows",
    (True, False): "client-streaming, to write rows",
    (True, True): "bidirectional, for rows to go through it",
}


def method_of(options: CallOptions, *, client_streams: bool, server_streams: bool | None = None) -> Method:
    """Look the method up; unless that is said, its server streams if its client does not.

    Raises:
        InvalidOptionError: there is no such module, service or method, or it streams in another direction.
    """
    name = f"/{options.method}"
    if not options.module:
        serialize = function_of("serializer", options.serializer)
        return Method(name, serialize, function_of("deserializer", options.deserializer), None, None)
    module = _imported("module", options.module, options.module)
    service_name, _, method_name = options.method.partition("/")
    file = getattr(module, "DESCRIPTOR", None)
    services = {service.full_name: service for service in file.services_by_name.values()} if file is not None else {}
    if service_name not in services:
        known = (
            f"it has {', '.join(services)}" if services else "name the module that protoc has made, as telemetry_pb2"
        )
        reason = f"must name a service of module {options.module!r}: {known}"
        raise InvalidOptionError(option="method", value=options.method, reason=reason)
    methods = services[service_name].methods_by_name
    if method_name not in methods:
        reason = f"must name a method of {service_name}: it has {', '.join(methods)}"
        raise InvalidOptionError(option="method", value=options.method, reason=reason)
    found = methods[method_name]
    wanted = client_streams, not client_streams if server_streams is None else server_streams
    if (found.client_streaming, found.server_streaming) != wanted:
        raise InvalidOptionError(option="method", value=options.method, reason=f"must be {_KINDS[wanted]}")
    request, response = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
    return Method(name, request.SerializeToString, response.FromString, request, response)


def _imported(option: str, value: str, module: str) -> Any:
    try:
        return import_module(module)
    except Exception as error:  # the user's code
        if isinstance(error, ImportError):
            reason = (
                f"cannot be imported by Spark's Python ({error}): install it there, or put its folder on PYTHONPATH "
                "before the session is created"
            )
        else:
            reason = f"cannot be imported: it raises {type(error).__name__}: {error}"
        refused = InvalidOptionError(option=option, value=value, reason=reason)
        # Spark is told nothing else of where it was raised.  The first two calls are ours.
        calls = [call for call in extract_tb(error.__traceback__)[2:] if "importlib" not in call.filename]
        if calls:
            refused.add_note("".join(["raised in:\n", *format_list(calls)]))
        raise refused from error


# Columns.


def columns_of(descriptor: _Fields, within: tuple[str, ...] = ()) -> StructType:
    """The columns of a message.

    Raises:
        SchemaMismatchError: it contains itself, or fields of it differ only by case.
    """
    if descriptor.full_name in within:
        hint = "name a function with option 'rows' or 'message', and state a schema"
        raise SchemaMismatchError(ours=f"Spark has no type for it: {hint}", theirs=f"{within[-1]} contains itself")
    here = (*within, descriptor.full_name)
    columns = StructType([_column(field, here) for field in descriptor.fields])
    require_distinct(columns.names, descriptor.full_name)
    return columns


def _column(field: _Field, within: tuple[str, ...]) -> StructField:
    if _is_map(field):
        key, value = (_kind(each, within) for each in field.message_type.fields)
        return StructField(field.name, MapType(key, value, valueContainsNull=False), nullable=False)
    kind = _kind(field, within)
    if field.is_repeated:
        return StructField(field.name, ArrayType(kind, containsNull=False), nullable=False)
    return StructField(field.name, kind, nullable=field.has_presence)


def _kind(field: _Field, within: tuple[str, ...]) -> DataType:
    if field.message_type is None:
        return _PLAIN[field.type]
    return TimestampType() if field.message_type.full_name == _TIMESTAMP else columns_of(field.message_type, within)


def _is_map(field: _Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# Rows of messages.


class Rows:
    """Makes batches of rows from messages."""

    def __init__(self, method: Method, function: str, schema: StructType) -> None:
        """``function``: the user's, by name; empty: the fields that ``schema`` has are the columns.

        Raises:
            InvalidOptionError: there is no such function, or one is needed.
            SchemaMismatchError: the message lacks a column.
        """
        self._arrow = arrow_schema(schema)
        self._names = schema.names
        self._rows: Callable[[Any], Any] = self._fields
        if function:
            self._rows = function_of("rows", function)
            return
        if method.response is None:
            reason = "is missing: without option 'module', a function makes the rows of a message"
            raise InvalidOptionError(option="rows", value=None, reason=reason)
        self._columns = _chosen(method.response.DESCRIPTOR, schema)

    def _fields(self, message: Message) -> dict[str, object]:
        return {field.name: _value(field, message) for field in self._columns}

    def batch(self, messages: Iterable[object]) -> pa.RecordBatch:
        """The rows of messages.

        Raises:
            SchemaMismatchError: a row does not fit.
        """
        return self.counted(messages)[0]

    def counted(self, messages: Iterable[object]) -> tuple[pa.RecordBatch, list[int]]:
        """The rows of messages, and how many of them each message has.

        Raises:
            SchemaMismatchError: a row does not fit.
        """
        groups = [list(self._rows_of(message)) for message in messages]
        rows = [row for group in groups for row in group]
        try:
            return pa.RecordBatch.from_pylist(rows, schema=self._arrow), list(map(len, groups))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise SchemaMismatchError(ours=", ".join(map(str, self._arrow)), theirs=f"a row: {error}") from error

    def _rows_of(self, message: object) -> Iterable[Mapping[str, object]]:
        given = self._rows(message)
        single = isinstance(given, Mapping | Row) or (isinstance(given, tuple) and len(given) == len(self._names))
        if not single and not isinstance(given, Iterable):
            self._refuse(given)
        return map(self._named, [given] if single else given)

    def _named(self, row: Any) -> Mapping[str, object]:
        if isinstance(row, Row):
            return row.asDict(recursive=True)
        if isinstance(row, Mapping):
            return row
        if not isinstance(row, Sequence) or len(row) != len(self._names):
            self._refuse(row)
        return dict(zip(self._names, row, strict=True))

    def _refuse(self, given: object) -> NoReturn:
        theirs = f"{given!r} from the function of option 'rows', which is not a row of these columns"
        raise SchemaMismatchError(ours=", ".join(self._names), theirs=theirs)


def _chosen(descriptor: _Fields, schema: StructType) -> Sequence[_Field]:
    fields = {field.name: field for field in descriptor.fields}
    if missing := [name for name in schema.names if name not in fields]:
        theirs = f"{descriptor.full_name} with the fields {', '.join(fields)}"
        if other := next((name for name in fields if name.lower() == missing[0].lower()), None):
            theirs = f"{descriptor.full_name} spells it {other!r}, and cases differ there: rename the column"
        raise SchemaMismatchError(ours=f"column {missing[0]!r} of {schema.simpleString()}", theirs=theirs)
    return [fields[name] for name in schema.names]


def _value(field: _Field, message: Message) -> object:
    if not field.is_repeated:
        if field.has_presence and not message.HasField(field.name):
            return None
        return _one(field, getattr(message, field.name))
    given = getattr(message, field.name)
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        return [(key, _one(value, given[key])) for key in given]
    return [_one(field, each) for each in given]


def _one(field: _Field, value: Any) -> object:
    if field.message_type is None:
        return _word(field.enum_type, value) if field.enum_type is not None else value
    if field.message_type.full_name == _TIMESTAMP:
        return value.ToDatetime(tzinfo=UTC)
    return {each.name: _value(each, value) for each in field.message_type.fields}


def _word(kind: Any, number: int) -> str:
    """The word of an enumeration; a number that it does not know stays one."""
    found = kind.values_by_number.get(number)
    return str(number if found is None else found.name)


# Messages of rows.


class Messages:
    """Makes the message of a row."""

    def __init__(self, method: Method, function: str, schema: StructType, nulls: Nulls = Nulls.REFUSE) -> None:
        """Look the function up.

        Args:
            method: whose requests are made.
            function: the user's, by name; empty: columns are the fields of the message.
            schema: of the rows.
            nulls: what becomes of a null where protobuf does not keep the absence of a value.

        Raises:
            InvalidOptionError: there is no such function.
            SchemaMismatchError: the message lacks a field for a column.
        """
        self._kind = method.request
        self._nulls = nulls
        self._function = function_of("message", function) if function else None
        if self._function is None:
            assert self._kind is not None, "options without a module have a function"
            _chosen(self._kind.DESCRIPTOR, schema)

    def of(self, rows: pa.RecordBatch) -> list[Any]:
        """The message of each row.

        Raises:
            SchemaMismatchError: a value does not fit into its field.
        """
        if self._function is not None:
            return [self._own(self._function(row)) for row in rows.to_pylist()]
        assert self._kind is not None
        return [self._message(self._kind.DESCRIPTOR, row) for row in rows.to_pylist()]

    def _own(self, message: object) -> object:
        """The message that the user's function has made."""
        if self._kind is not None and not isinstance(message, self._kind):
            ours = f"{type(message).__name__} from the function of option 'message'"
            raise SchemaMismatchError(ours=ours, theirs=self._kind.DESCRIPTOR.full_name)
        return message

    def _message(self, descriptor: _Fields, row: Mapping[str, Any]) -> Message:
        fields = descriptor.fields_by_name
        given = {}
        for name, value in row.items():
            try:
                if value is None:
                    self._require_possible_null(fields[name])
                else:
                    given[name] = self._given(fields[name], value)
            except (KeyError, TypeError, ValueError) as error:
                raise _misfit(descriptor, name, error) from error
        try:
            return GetMessageClass(descriptor)(**given)
        except (TypeError, ValueError) as error:
            raise _misfit(descriptor, ", ".join(given), error) from error

    def _require_possible_null(self, field: _Field) -> None:
        if self._nulls is Nulls.REFUSE and not field.has_presence:
            raise ValueError(
                "it is null, and the service could not tell that from 0 or an empty value: declare the field "
                "'optional' in its .proto file, fill the nulls, or set option 'nulls' to 'default'"
            )

    def _given(self, field: _Field, value: Any) -> object:
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            return {key: self._stored(inner, each) for key, each in value}
        return [self._stored(field, each) for each in value] if field.is_repeated else self._stored(field, value)

    def _stored(self, field: _Field, value: Any) -> object:
        if value is None:
            raise ValueError("an element is null, and protobuf has no null in lists and maps")
        if field.enum_type is not None:
            known = field.enum_type.values_by_name
            return known[value].number if value in known else int(value)
        if field.message_type is None:
            return int(value) if _PLAIN[field.type] is _WIDE else value
        if field.message_type.full_name != _TIMESTAMP:
            return self._message(field.message_type, value)
        if not isinstance(value, datetime):
            raise TypeError(f"a timestamp is needed, not {value!r}")
        timestamp = Timestamp()
        timestamp.FromDatetime(value)
        return timestamp


def _misfit(descriptor: _Fields, name: str, error: Exception) -> SchemaMismatchError:
    return SchemaMismatchError(ours=f"a value of column {name}", theirs=f"{descriptor.full_name}: {error}")
