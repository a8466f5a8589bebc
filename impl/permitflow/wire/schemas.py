"""Schemas, and what an end of a stream must know of one: found once for each schema, however many streams have it.

A schema of ten thousand fields takes some 50 ms.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from permitflow.errors import InvalidParametersError, SchemaMismatchError, UndecodableDataError, shortened
from permitflow.wire.arrow_metadata import MAX_DICTIONARIES, MAX_SCHEMA_BYTES, check_message, check_schema, front
from permitflow.wire.texts import sendable

# Of a schema that differs: enough to show how, few enough for the metadata of gRPC.
_SHOWN_FIELDS = 5
_SHOWN_CHARACTERS = 120
# Of schemas that no stream has now, serialised; in memory they take several times as much.
_REMEMBERED_BYTES = 8 << 20
# What the memory of a small schema takes besides its bytes.
_ENTRY_BYTES = 1 << 10
# Arrow's writers may round buffers up to 64 bytes.  A column of fixed width has two.
_PADDING_BYTES = 128


TIME_FIELD: pa.Field = pa.field("_time", pa.timestamp("us", tz="UTC"), nullable=False)
"""The column for the time at which an exchange took a row over."""


class SchemaFacts(NamedTuple):
    """What an end of a stream must know of a schema."""

    encoded: bytes
    """The schema as the handshake carries it."""
    columns: int
    """How many columns a batch has, nested ones included."""
    fields: int
    """Nested ones included, and those of dictionaries' values."""
    row_bytes: float | None
    """About how many bytes a row takes; None unless all columns have a fixed width."""
    empty_bytes: int
    """The most bytes of a batch without rows, if all columns have a fixed width."""
    dictionaries: int
    """How many, at any depth."""
    has_text_views: bool
    """Texts that may share their bytes, at any depth."""


class _Remembered:
    """The facts of all schemas in use, and of those that were used last.  Safe in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_bytes = OrderedDict[bytes, tuple[pa.Schema, SchemaFacts]]()
        self._size_bytes = 0
        # By identity: hashing or comparing schemas takes as long as reading them.
        self._by_schema: dict[int, tuple[weakref.ref[pa.Schema], SchemaFacts]] = {}

    def of_schema(self, schema: pa.Schema) -> SchemaFacts | None:
        found = self._by_schema.get(id(schema))
        return None if found is None or found[0]() is not schema else found[1]

    def of_bytes(self, data: bytes) -> tuple[pa.Schema, SchemaFacts] | None:
        with self._lock:
            if (found := self._by_bytes.get(data)) is not None:
                self._by_bytes.move_to_end(data)
            return found

    def remember(self, data: bytes, schema: pa.Schema, facts: SchemaFacts) -> None:
        place = id(schema)

        def forget(reference: "weakref.ref[pa.Schema]") -> None:
            # Meanwhile, another schema may have its place.
            if (found := self._by_schema.get(place)) is not None and found[0] is reference:
                del self._by_schema[place]

        self._by_schema[place] = weakref.ref(schema, forget), facts
        dropped = []  # leaves memory without the lock
        with self._lock:
            if data not in self._by_bytes:
                self._by_bytes[data] = schema, facts
                self._size_bytes += len(data) + _ENTRY_BYTES
            while self._size_bytes > _REMEMBERED_BYTES:
                oldest, entry = self._by_bytes.popitem(last=False)
                self._size_bytes -= len(oldest) + _ENTRY_BYTES
                dropped.append(entry)


_remembered = _Remembered()


def facts_of(schema: pa.Schema) -> SchemaFacts:
    """The facts of a schema; at once if it is in use, or was used lately.

    Raises:
        InvalidParametersError: Arrow cannot write it, as one whose types are nested too deeply.
    """
    if (facts := _remembered.of_schema(schema)) is not None:
        return facts
    try:
        encoded: bytes = schema.serialize().to_pybytes()
        found = _remembered.of_bytes(encoded)
        facts = _learnt(schema) if found is None else found[1]
    except pa.ArrowException as error:
        shown, rule = shortened(str(schema), _SHOWN_CHARACTERS), f"must be one that Arrow can write: {error}"
        raise InvalidParametersError(name="schema", value=shown, rule=rule) from error
    _remembered.remember(encoded, schema, facts)
    return facts


def read_schema(data: bytes) -> pa.Schema:
    """Decode a schema that the peer sent.

    Raises:
        UndecodableDataError: it is not a schema, or exceeds ``MAX_SCHEMA_BYTES``, ``MAX_SCHEMA_FIELDS`` or
            ``MAX_DICTIONARIES``.
    """
    if (found := _remembered.of_bytes(data)) is not None:
        return found[0]
    _require_bytes(len(data))
    try:
        check_schema(front(data)[0])
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        facts = _learnt(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UndecodableDataError(what="the schema", reason=str(error)) from error
    # Written again, it may take more: another writer may let fields share their names.
    _require_bytes(len(facts.encoded))
    if facts.dictionaries > MAX_DICTIONARIES:
        reason = f"it has {facts.dictionaries} dictionaries; {MAX_DICTIONARIES} are the most"
        raise UndecodableDataError(what="the schema", reason=reason)
    _remembered.remember(data, schema, facts)
    return schema


def _require_bytes(size_bytes: int) -> None:
    if size_bytes > MAX_SCHEMA_BYTES:
        what, reason = f"a schema of {size_bytes} bytes", f"{MAX_SCHEMA_BYTES} bytes are the most"
        raise UndecodableDataError(what=what, reason=reason)


def _learnt(schema: pa.Schema) -> SchemaFacts:
    """Find the facts of a schema.

    Raises:
        UnicodeDecodeError: a name is not UTF-8, which Arrow checks only on reading it.
    """
    encoded: bytes = schema.serialize().to_pybytes()
    fields: list[pa.Field] = list(schema)
    count, dictionaries, has_text_views = _kinds(fields)
    # As one struct, Arrow makes all columns at once.
    batch = pa.RecordBatch.from_struct_array(pa.nulls(0, pa.struct(fields)))
    empty = memoryview(batch.serialize())
    return SchemaFacts(
        encoded=encoded,
        columns=check_message(empty).columns,
        fields=count,
        row_bytes=_row_bytes(fields),
        empty_bytes=len(empty) + _PADDING_BYTES * (1 + len(fields)),
        dictionaries=dictionaries,
        has_text_views=has_text_views,
    )


def _row_bytes(fields: Sequence[pa.Field]) -> float | None:
    size = 0.0
    for field in fields:
        try:
            size += (field.type.bit_width + 1) / 8
        except ValueError:
            return None
    return size


def _kinds(fields: Sequence[pa.Field]) -> tuple[int, int, bool]:
    """Read each name, nested ones included; count fields and dictionaries; is there a text view?"""
    count = dictionaries = 0
    has_text_views = False
    rest = list(fields)
    while rest:
        field = rest.pop()
        _ = field.name
        kind = field.type
        while isinstance(kind, (pa.DictionaryType, pa.BaseExtensionType)):
            is_dictionary = isinstance(kind, pa.DictionaryType)
            dictionaries += is_dictionary
            kind = kind.value_type if is_dictionary else kind.storage_type
        has_text_views |= pa.types.is_string_view(kind)
        rest.extend(map(kind.field, range(kind.num_fields)))
        count += 1
    return count, dictionaries, has_text_views


class Owners(NamedTuple):
    """Whose two schemas are compared, in words, and what to do if they differ."""

    ours: str
    theirs: str
    hint: str


OF_PRODUCER = Owners(
    "the channel has",
    "this producer has",
    "a channel keeps the schema of its first producer, or the declared one; fill the missing columns with nulls, cast, "
    "state that there are no nulls where it has none (in Spark: coalesce), or take another channel",
)
OF_KEPT_PRODUCER = Owners(
    OF_PRODUCER.ours,
    OF_PRODUCER.theirs,
    "a channel that keeps its rows takes more columns only at the end, and with new names; fill the missing columns "
    "with nulls, cast, state that there are no nulls where it has none (in Spark: coalesce), or take another channel",
)
OF_CONSUMER = Owners("the channel has", "this consumer wants", "ask for what the channel has, or for no schema")
OF_STORE = Owners("the store has", "declared now", "declare the stored one, or take another store")
OF_BATCH = Owners("the stream has", "this batch has", "cast the batch, or open the stream with its schema")


def extends(newer: pa.Schema, older: pa.Schema) -> bool:
    """Has one schema the columns of the other, and behind them more ones, which are nullable and have new names?

    One without columns is the beginning of none: its rows would be rows of nulls.
    """
    count = len(older)
    if not 0 < count < len(newer) or not pa.schema([newer.field(place) for place in range(count)]).equals(older):
        return False
    added = [newer.field(place) for place in range(count, len(newer))]
    return all(field.nullable for field in added) and len({*newer.names}) == len({*older.names}) + len(added)


def fitted(stated: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """The schema of a producer's rows in a channel, which may allow nulls that this producer never sends.

    Columns that the channel lacks have nulls in its other rows, so they allow them.  A column that does not fit stays
    as it is stated.

    Args:
        stated: by the producer.
        known: the channel's; None: it will be the producer's.
    """
    if known is None or stated.equals(known):
        return stated
    ours = [*known, *(field.with_nullable(True) for field in [*stated][len(known) :])]
    pairs = zip(ours, stated, strict=False)
    fields = [our if our.name == field.name and _allows(our, field) else field for our, field in pairs]
    return pa.schema(fields, stated.metadata)


def _allows(wide: pa.Field, narrow: pa.Field) -> bool:
    """Can each value of one column be in the other?"""
    ours, theirs = wide.type, narrow.type
    if narrow.nullable > wide.nullable:
        return False
    if theirs.equals(ours):
        return True
    if theirs.id != ours.id or theirs.num_fields != ours.num_fields:
        return False
    if pa.types.is_struct(ours):
        return all(our.name == their.name and _allows(our, their) for our, their in zip(ours, theirs, strict=True))
    if pa.types.is_map(ours):
        has_same_keys = theirs.key_type.equals(ours.key_type) and theirs.keys_sorted == ours.keys_sorted
        return has_same_keys and _allows(ours.item_field, theirs.item_field)
    is_list = pa.types.is_list(ours) or pa.types.is_large_list(ours)
    if pa.types.is_fixed_size_list(ours):
        is_list = theirs.list_size == ours.list_size
    return is_list and _allows(ours.value_field, theirs.value_field)


def widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the schema that ``fitted`` has made of its own."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def resized(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in this schema, which extends its own, or is extended by it: without its last columns, or with nulls."""
    if batch.num_columns == len(schema):
        return batch
    missing = [schema.field(place).type for place in range(batch.num_columns, len(schema))]
    columns = [*batch.columns[: len(schema)], *(pa.nulls(batch.num_rows, kind) for kind in missing)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def require_equal_schemas(*, ours: pa.Schema, theirs: pa.Schema, owners: Owners) -> None:
    """Refuse schemas whose names, types or nullability differ; metadata may.

    Raises:
        SchemaMismatchError: they differ; the message shows in which fields.
    """
    if ours is not theirs and not ours.equals(theirs, check_metadata=False):
        mine, others = list(map(_text, ours)), list(map(_text, theirs))
        first, second = (owners.ours, _differing(mine, others)), (owners.theirs, _differing(others, mine))
        raise SchemaMismatchError.between(first, second, hint=owners.hint)


def _text(field: pa.Field) -> str:
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"


def _differing(fields: Sequence[str], others: Sequence[str]) -> str:
    """The first fields that the other schema lacks; if it lacks none, those at another position."""
    known = set(others)
    found = [field for field in fields if field not in known]
    if not found and known.issubset(fields):
        found = [field for place, field in enumerate(fields) if others[place : place + 1] != [field]] or [*fields]
    shown = [sendable(field, _SHOWN_CHARACTERS) for field in found[:_SHOWN_FIELDS]] or ["nothing more"]
    return ", ".join(shown if len(found) <= _SHOWN_FIELDS else [*shown, f"and {len(found) - _SHOWN_FIELDS} more"])
