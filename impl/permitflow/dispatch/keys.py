"""The virtual node of a key, and the rows of an Arrow batch by the channels of their keys.

A key is one column or several.  Each column gives 8 bytes, little-endian, two's complement:

- a whole number of any width, or a boolean: itself; so keys of 32 and of 64 bits meet;
- a date: days since 1970; a timestamp: microseconds since 1970, in UTC; a time of day: microseconds since midnight;
- text: the CRC-32 of its bytes in UTF-8; bytes: their CRC-32;
- a decimal: the CRC-32 of its unscaled value in 16 bytes, little-endian, two's complement; so both sides of a join need
  the same scale;
- a null: 0.

The virtual node is the CRC-32 of these bytes, of all columns in the order of the key, modulo the number of nodes: the
CRC-32 of zlib, of ``java.util.zip.CRC32`` and of Spark's function ``crc32``.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import TypeAlias, TypeVar
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from permitflow.dispatch.mapping import VNODES
from permitflow.errors import InvalidParametersError, SchemaMismatchError

R = TypeVar("R")

KeyValue: TypeAlias = int | bool | str | bytes | date | datetime | time | Decimal | None
"""What a column of a key may hold."""

_KINDS = "whole numbers, booleans, text, bytes, dates, times, timestamps or decimals"
_KEY_BYTES = 8
_DECIMAL_BYTES = 16
_MICROSECOND = timedelta(microseconds=1)

# CRC-32, reflected.
_POLYNOMIAL = 0xEDB88320
_ALL_BITS = 0xFFFFFFFF
_STEP_BITS = 16

# How Flink and Delta's change data feed call the halves of an update, and what a half is by itself.
_BEFORE = {"-U": "-D", "update_preimage": "delete"}
_AFTER = {"+U": "+I", "update_postimage": "insert"}
CHANGES = (*_BEFORE, *_BEFORE.values(), *_AFTER, *_AFTER.values())
"""What a column of changes may hold."""


def vnode_of(key: Sequence[KeyValue], vnodes: int = VNODES) -> int:
    """The virtual node of a key, given the values of its columns in Python's types.

    Raises:
        InvalidParametersError: a value is not a key.
    """
    return crc32(b"".join(_number_of(value).to_bytes(_KEY_BYTES, "little") for value in key)) % vnodes


def _number_of(value: KeyValue) -> int:
    """Eight bytes as a number of at least 0."""
    match value:
        case None:
            number = 0
        case int():
            number = value
        case str():
            number = crc32(value.encode())
        case bytes():
            number = crc32(value)
        case datetime():
            zone = UTC if value.tzinfo is None else value.tzinfo
            number = (value.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
        case date():
            number = (value - date(1970, 1, 1)).days
        case time():
            number = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case Decimal() if value.is_finite():
            sign, digits, _ = value.as_tuple()
            unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
            number = crc32(unscaled.to_bytes(_DECIMAL_BYTES, "little", signed=True))
        case _:
            raise InvalidParametersError(name="key", value=value, rule=f"must be made of {_KINDS}")
    return number & ((1 << 8 * _KEY_BYTES) - 1)


def rows_by_key(
    key_of: Callable[[R], Sequence[KeyValue]], vnodes: int = VNODES
) -> Callable[[Sequence[R], Sequence[int]], list[list[R] | None]]:
    """What ``Splitter.split`` is for chunks that are sequences of Python's objects.

    Args:
        key_of: the values of a row's key.
        vnodes: the number of virtual nodes.
    """

    def split(chunk: Sequence[R], owners: Sequence[int]) -> list[list[R] | None]:
        parts: list[list[R]] = [[] for _ in range(max(owners) + 1)]
        for row in chunk:
            parts[owners[vnode_of(key_of(row), vnodes)]].append(row)
        return [part or None for part in parts]

    return split


class Splitter:
    """Cuts record batches of a schema into the parts of a stream's channels."""

    def __init__(
        self, schema: pa.Schema, key: Sequence[str], *, changes: str | None = None, vnodes: int = VNODES
    ) -> None:
        """Nothing is cut yet.

        Args:
            schema: of the batches.
            key: the names of one or more columns.
            changes: the name of a column of text that says what each row does: ``-U`` and ``+U``, before and after an
                update, ``+I`` and ``-D``; or ``update_preimage``, ``update_postimage``, ``insert`` and ``delete``.
            vnodes: the number of virtual nodes.

        Raises:
            InvalidParametersError: a column is not there, or holds what is neither a key nor a change.
        """
        self.key = named_columns(key)
        """The names of the key's columns."""
        self._vnodes, self._schema = vnodes, schema
        for field in schema:
            _require_takeable(field)
        self._columns = [(name, _converter(_type_of(schema, name, "key"), name)) for name in self.key]
        self._changes = changes
        if changes is not None and not _is_text(kind := _type_of(schema, changes, "changes")):
            raise InvalidParametersError(name="changes", value=f"{changes}: {kind}", rule="must be a column of text")

    def vnodes_of(self, batch: pa.RecordBatch) -> pa.Array:
        """The virtual node of each row."""
        state = pa.repeat(pa.scalar(_ALL_BITS, pa.uint32()), batch.num_rows)
        for name, convert in self._columns:
            numbers = convert(batch.column(name)).fill_null(0)
            for shift in (0, 32):
                half = pc.bit_wise_and(pc.shift_right(numbers, _unsigned(shift, 64)), _unsigned(_ALL_BITS, 64))
                state = _appended(state, half.cast(pa.uint32()))
        checksum = pc.bit_wise_xor(state, _unsigned(_ALL_BITS, 32)).cast(pa.int64())
        if self._vnodes == VNODES:
            return pc.bit_wise_and(checksum, pa.scalar(VNODES - 1))
        rest = pc.multiply(pc.divide(checksum, self._vnodes), self._vnodes)
        return pc.subtract(checksum, rest)

    def split(self, batch: pa.RecordBatch, owners: Sequence[int]) -> list[pa.RecordBatch | None]:
        """The rows of a batch by channel, in their order; None for a channel without rows.

        An update stays one if both of its halves are for one channel and beside each other in the batch.  A half that
        goes alone is what it is for its channel: the first one a deletion, the second one an insertion.

        Args:
            batch: of the schema.
            owners: the channel of each virtual node.

        Raises:
            SchemaMismatchError: the batch has another schema.
            InvalidParametersError: the column of changes holds something else.
        """
        if not batch.schema.equals(self._schema):
            ours, theirs = ({f"{field.name}: {field.type}" for field in each} for each in (self._schema, batch.schema))
            told = [
                ", ".join(sorted(fields)) or "the same in another order" for fields in (ours - theirs, theirs - ours)
            ]
            raise SchemaMismatchError(ours=told[0], theirs=told[1])
        channels = pa.array(owners, pa.int32()).take(self.vnodes_of(batch))
        if self._changes is not None:
            batch = _with_whole_updates(batch, self._changes, channels)
        parts: list[pa.RecordBatch | None] = [None] * (max(owners) + 1)
        rows_of = {each["values"]: each["counts"] for each in pc.value_counts(channels).to_pylist()}
        if len(rows_of) == 1:
            parts[next(iter(rows_of))] = batch
            return parts
        order, start = pc.array_sort_indices(channels), 0  # stable
        for channel, rows in sorted(rows_of.items()):
            # A copy: a slice of one reordered batch would keep all of it in memory while a slow channel has it.
            parts[channel] = batch.take(order.slice(start, rows))
            start += rows
        return parts


def named_columns(key: Sequence[str]) -> tuple[str, ...]:
    """Check the names of a key's columns.

    Raises:
        InvalidParametersError: there is none, or one is there twice.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len({*names}) != len(names):
        raise InvalidParametersError(name="key", value=names, rule="must name columns, at least one, each of them once")
    return names


def _require_takeable(field: pa.Field) -> None:
    try:
        pa.nulls(0, field.type).take(pa.array([], pa.int64()))
    except pa.ArrowNotImplementedError:
        rule = "must have a type of which Arrow can take single rows; cast views to string or binary"
        raise InvalidParametersError(name=f"column {field.name!r}", value=str(field.type), rule=rule) from None


def _type_of(schema: pa.Schema, name: str, what: str) -> pa.DataType:
    if schema.names.count(name) != 1:
        rule = f"must be a column of the rows ({', '.join(schema.names)})"
        raise InvalidParametersError(name=what, value=name, rule=rule)
    return schema.field(name).type


Convert: TypeAlias = Callable[[pa.Array], pa.Array]
"""A column as unsigned numbers of 64 bits; nulls stay."""


def _converter(kind: pa.DataType, name: str) -> Convert:
    types = pa.types
    if types.is_dictionary(kind):
        inner = _converter(kind.value_type, name)
        return lambda column: inner(column.dictionary).take(column.indices)
    if types.is_boolean(kind) or types.is_unsigned_integer(kind) or types.is_null(kind):
        return lambda column: column.cast(pa.uint64())
    if types.is_signed_integer(kind):
        return _signed
    if types.is_date(kind):
        return lambda column: _signed(column.cast(pa.date32()).view(pa.int32()))
    if types.is_timestamp(kind):
        return lambda column: _signed(_microseconds(column).view(pa.int64()))
    if types.is_time(kind):
        return lambda column: _signed(column.cast(pa.time64("us"), safe=False).view(pa.int64()))
    if types.is_decimal(kind) and kind.bit_width <= 8 * _DECIMAL_BYTES:
        wide = pa.decimal128(kind.precision, kind.scale)
        return lambda column: _checksums(column.cast(wide).view(pa.binary(_DECIMAL_BYTES)))
    if _is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return lambda column: _checksums(column.cast(pa.large_binary()))
    rule = f"must be made of columns of {_KINDS}; cast it to one of them"
    raise InvalidParametersError(name="key", value=f"{name}: {kind}", rule=rule)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _signed(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()).view(pa.uint64())


def _microseconds(column: pa.Array) -> pa.Array:
    """Finer times are rounded down."""
    return pc.floor_temporal(column, unit="microsecond").cast(pa.timestamp("us", column.type.tz), safe=False)


def _checksums(column: pa.Array) -> pa.Array:
    return pa.array([None if value is None else crc32(value) for value in column.to_pylist()], pa.uint64())


def _unsigned(value: int, bits: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64() if bits == 64 else pa.uint32())


@cache
def _table() -> pa.Array:
    """What 16 bits at the end of a CRC's register become."""
    registers = pa.array(range(1 << _STEP_BITS), pa.uint32())
    for _ in range(_STEP_BITS):
        flips = pc.multiply(pc.bit_wise_and(registers, _unsigned(1, 32)), _unsigned(_POLYNOMIAL, 32))
        registers = pc.bit_wise_xor(pc.shift_right(registers, _unsigned(1, 32)), flips)
    return registers


def _appended(state: pa.Array, words: pa.Array) -> pa.Array:
    """CRC-32's registers after 4 more bytes each."""
    state = pc.bit_wise_xor(state, words)
    for _ in range(32 // _STEP_BITS):
        lowest = pc.bit_wise_and(state, _unsigned((1 << _STEP_BITS) - 1, 32))
        state = pc.bit_wise_xor(_table().take(lowest), pc.shift_right(state, _unsigned(_STEP_BITS, 32)))
    return state


def _with_whole_updates(batch: pa.RecordBatch, name: str, channels: pa.Array) -> pa.RecordBatch:
    """The batch, whose halves of updates that go alone are deletions and insertions."""
    changes = batch.column(name)
    _require_changes(changes, name)
    before, after = (_rows_where(changes, words) for words in (_BEFORE, _AFTER))
    target = channels.to_pylist() if before or after else []
    alone = {
        *(row for row in before if row + 1 not in after or target[row] != target[row + 1]),
        *(row for row in after if row - 1 not in before or target[row] != target[row - 1]),
    }
    if not alone:
        return batch
    words = _BEFORE | _AFTER
    told = [words[change] if row in alone else change for row, change in enumerate(changes.to_pylist())]
    return batch.set_column(batch.schema.get_field_index(name), batch.schema.field(name), pa.array(told, changes.type))


def _rows_where(changes: pa.Array, words: Iterable[str]) -> frozenset[int]:
    found = pc.indices_nonzero(pc.is_in(changes, pa.array(words, changes.type)).fill_null(False))
    return frozenset(found.to_pylist())


def _require_changes(changes: pa.Array, name: str) -> None:
    is_known = pc.is_in(changes, pa.array(CHANGES, changes.type))
    if not pc.all(is_known, min_count=0).as_py():
        value = changes.filter(pc.invert(is_known))[0].as_py()
        rule = f"must hold one of {', '.join(CHANGES)} in each row"
        raise InvalidParametersError(name=f"column {name!r}", value=value, rule=rule)
