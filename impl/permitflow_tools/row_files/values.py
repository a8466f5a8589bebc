"""Values of rows, as Python and JSON have them."""

import base64
from collections.abc import Iterable
from datetime import date, time, timedelta
from math import isfinite
from typing import Any

import pyarrow as pa

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def rows_of(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """As ``to_pylist``, with the values of ``values_of``."""
    try:
        return list(rows.to_pylist())
    except (ValueError, OverflowError):
        columns, names = map(values_of, rows.columns), rows.schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(column: "pa.Array | pa.ChunkedArray") -> list[Any]:
    """As ``to_pylist``, also of times that Python does not have, with nanoseconds or far away: they are text.

    A time in a zone that this machine does not have is in UTC.
    """
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return _each(column)


def _each(scalars: Iterable[Any]) -> list[Any]:
    return [_value(scalar) for scalar in scalars]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        kind = scalar.type
    match scalar:
        case pa.StructScalar():
            named = [(field.name, _value(scalar[place])) for place, field in enumerate(kind)]
            return dict(named) if len({name for name, _ in named}) == len(named) else named
        case pa.MapScalar():
            return [tuple(_each(entry.values())) for entry in scalar.values]
        case pa.ListScalar():
            return _each(scalar.values)
        case pa.DictionaryScalar() | pa.ExtensionScalar() | pa.RunEndEncodedScalar() | pa.UnionScalar():
            return _value(scalar.value)
        case pa.DurationScalar():
            return scalar.value / _PER_SECOND[kind.unit]
        case pa.TimestampScalar() if kind.tz not in (None, "UTC"):
            return _value(pa.scalar(scalar.value, pa.timestamp(kind.unit, "UTC")))
        case pa.TimestampScalar() if kind.unit == "ns":
            return _with_nanoseconds(scalar, pa.timestamp("us", kind.tz))
        case pa.Time64Scalar() if kind.unit == "ns":
            return _with_nanoseconds(scalar, pa.time64("us"))
    return scalar.cast(pa.string()).as_py()


def _with_nanoseconds(scalar: Any, coarser: pa.DataType) -> str:
    microseconds, rest = divmod(scalar.value, 1000)
    text = pa.scalar(microseconds, coarser).as_py().isoformat(timespec="microseconds")
    end = text.index(".") + 7  # a time zone may follow
    return f"{text[:end]}{rest:03}{text[end:]}"


def as_json(value: Any) -> Any:
    """A value as JSON has it: what is not a number is null, and what JSON does not know is text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else None
        case dict():
            return {name: as_json(each) for name, each in value.items()}
        case list() | tuple():
            return [as_json(each) for each in value]
        case date() | time():  # and what has both
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode()
    return str(value)
