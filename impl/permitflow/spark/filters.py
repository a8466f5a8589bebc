"""Filters that Spark hands to a batch reader: conditions of a ``WHERE`` that all rows of the result fulfil.

Those on ``_channel`` and ``_row`` say which rows need not be read at all.  Those on other columns are applied in the
task, before rows go to the JVM.  Spark applies all of them again, so a filter may let a row pass that Spark refuses,
and must refuse none that Spark takes: hence only types whose comparisons are the same in Arrow and in Spark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
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
from pyspark.sql.types import StructType

from permitflow.spark.schema import arrow_schema
from permitflow.spark.shape import Origin, RowShape
from permitflow.spark.stream_planning import RowRange

_COMPARED: Mapping[type[Filter], Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_MATCHED: Mapping[type[Filter], Callable[..., pa.Array]] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def _is_usable(kind: pa.DataType) -> bool:
    # Not floats, for NaN; not times, for their zones; not decimals, for their scales.
    of = pa.types
    return any(check(kind) for check in (of.is_integer, of.is_string, of.is_boolean, of.is_date32))


@dataclass(frozen=True)
class RowFilter:
    """The filters that can be applied; picklable."""

    filters: tuple[Filter, ...]
    kinds: Mapping[str, pa.DataType]
    """The columns that filters may name."""
    origins: Mapping[str, Origin]

    @classmethod
    def of(cls, filters: Iterable[Filter], schema: StructType, shape: RowShape) -> "RowFilter":
        """The filters of the frame's columns that can be applied."""
        kinds = {field.name: field.type for field in arrow_schema(schema) if _is_usable(field.type)}
        made = cls((), kinds, {name: origin for name, origin in shape.origins.items() if name in kinds})
        nothing = pa.RecordBatch.from_arrays(
            [pa.array([], kind) for kind in kinds.values()], schema=pa.schema(kinds.items())
        )
        return cls(tuple(each for each in filters if made._can_apply(each, nothing)), kinds, made.origins)

    def _can_apply(self, each: Filter, nothing: pa.RecordBatch) -> bool:
        try:
            self._mask(each, nothing)
        except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException):
            return False
        return True

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass."""
        if not self.filters:
            return batch
        return batch.filter(reduce(pc.and_, (self._mask(each, batch) for each in self.filters)))

    def ranges(self, ranges: Sequence[RowRange]) -> list[RowRange]:
        """The parts of ranges in which a row can pass."""
        found = []
        for each in ranges:
            start, end = each.from_row, each.to_row
            for one in self.filters:
                least, most = self._rows(one, each.channel, start, end)
                start, end = max(start, least), min(end, most)
            if start < end:
                found.append(RowRange(each.channel, each.log_id, start, end))
        return found

    def _rows(self, each: Filter, channel: str, start: int, end: int) -> tuple[int, int]:
        """The first row of a channel that a filter lets pass, and the one behind the last."""
        name = _column(each)
        origin = self.origins.get(name)
        if origin is Origin.CHANNEL:
            one = pa.RecordBatch.from_arrays([pa.array([channel], self.kinds[name])], [name])
            return (start, end) if self._mask(each, one)[0].as_py() else (end, end)
        if origin is not Origin.ROW:
            return start, end
        match each:
            case EqualTo(_, row):
                return row, row + 1
            case GreaterThan(_, row):
                return row + 1, end
            case GreaterThanOrEqual(_, row):
                return row, end
            case LessThan(_, row):
                return start, row
            case LessThanOrEqual(_, row):
                return start, row + 1
        return start, end

    def _mask(self, each: Filter, batch: pa.RecordBatch) -> pa.Array:
        """True for rows that pass; null and false for others."""
        if isinstance(each, Not):
            return pc.invert(self._mask(each.child, batch))
        name = _column(each)
        column, kind = batch.column(name), self.kinds[name]
        match each:
            case IsNull():
                return pc.is_null(column)
            case IsNotNull():
                return pc.is_valid(column)
            case In(_, values):
                return pc.is_in(column, value_set=pa.array(values, kind))
            case StringStartsWith(_, text) | StringEndsWith(_, text) | StringContains(_, text):
                return _MATCHED[type(each)](column, pattern=text)
        return _COMPARED[type(each)](column, pa.scalar(_value(each), kind))


def _column(each: Any) -> str:
    """The column of a filter; empty: it is a part of one."""
    if isinstance(each, Not):
        return _column(each.child)
    return each.attribute[0] if len(each.attribute) == 1 else ""


def _value(each: Any) -> object:
    if each.value is None:
        raise ValueError("null")
    return each.value
