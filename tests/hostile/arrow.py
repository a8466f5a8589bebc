"""Hostile schemas and batches of Arrow: of any type, nested, with dictionaries, compressed; and mistakes in these."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from permitflow.errors import UndecodableDataError
from permitflow.stream.compression import Codec
from permitflow.wire.arrow import MAX_MESSAGE_BYTES, BatchCodec
from permitflow.wire.schemas import read_schema
from tests.hostile.grammar import mutated
from tests.hostile.memory import Broken

_VALUES: Final[dict[pa.DataType, Any]] = {
    pa.int8(): 1,
    pa.int64(): 2,
    pa.float64(): 0.5,
    pa.bool_(): True,
    pa.string(): "text",
    pa.large_string(): "text",
    pa.large_binary(): b"bytes",
    pa.string_view(): "longer than what fits into a view",
    pa.binary_view(): b"short",
    pa.binary(3): b"abc",
    pa.decimal128(38, 2): Decimal("1.25"),
    pa.timestamp("us", "UTC"): datetime(2026, 1, 1, tzinfo=UTC),
    pa.null(): None,
    pa.date32(): date(2026, 1, 1),
    pa.duration("ns"): timedelta(seconds=1),
}
_SIMPLE: Final = tuple(_VALUES)
_ROWS: Final = 3
_MOST_MEMORY: Final = 4 * MAX_MESSAGE_BYTES
"""Of what decoding one message may take at a time: the message decompressed, and what Arrow makes of it."""


def _nested(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inside.map(pa.list_),
        inside.map(lambda kind: pa.list_(kind, 2)),
        inside.map(pa.large_list),
        inside.map(pa.list_view),
        inside.map(lambda kind: pa.struct([("x", kind), ("y", kind)])),
        inside.map(lambda kind: pa.map_(pa.int8(), kind)),
        st.sampled_from((pa.string(), pa.int64())).map(lambda kind: pa.dictionary(pa.int8(), kind)),
        inside.map(lambda kind: pa.sparse_union([pa.field("a", kind), pa.field("b", pa.int8())])),
        inside.map(lambda kind: pa.dense_union([pa.field("a", kind), pa.field("b", pa.int8())])),
    )


types = st.recursive(st.sampled_from(_SIMPLE), _nested, max_leaves=4) | st.sampled_from(_SIMPLE).map(
    lambda kind: pa.run_end_encoded(pa.int16(), kind)
)
schemas = st.lists(types, max_size=3).map(
    lambda kinds: pa.schema([(f"c{place}", each) for place, each in enumerate(kinds)])
)


def _value(kind: pa.DataType) -> Any:
    """One of this type, or none: of a union."""
    of = pa.types
    if kind in _VALUES:
        return _VALUES[kind]
    if of.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if of.is_map(kind):
        return [(1, _value(kind.item_type))]
    if of.is_dictionary(kind):
        return _value(kind.value_type)
    return None if of.is_union(kind) else [_value(kind.value_type)] * 2


def _array(kind: pa.DataType, rows: int) -> pa.Array:
    """Values, so that offsets, views and dictionaries lead somewhere; unions, and what is in them, are null."""
    if pa.types.is_run_end_encoded(kind):
        ends = pa.array(range(1, rows + 1), kind.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, _array(kind.value_type, rows), kind)
    try:
        return pa.array([_value(kind)] * rows, kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(rows, kind)


@dataclass(frozen=True)
class Chunk:
    """A schema that was agreed on, and what comes as a batch of it."""

    schema: pa.Schema
    data: bytes
    rows: int
    codec: Codec | None
    uncompressed_bytes: int


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    """A batch of a schema or of another one, compressed or not, with mistakes or without."""
    schema = draw(schemas)
    other = schema if draw(st.integers(0, 4)) else draw(schemas)
    rows = draw(st.sampled_from((0, 1, _ROWS)))
    batch = pa.RecordBatch.from_arrays([_array(field.type, rows) for field in other], schema=other)
    if not len(other):
        batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    data = b"".join(map(bytes, BatchCodec(other).encode([batch])))
    if draw(st.integers(0, 3)):
        data = draw(mutated(st.just(data)))
    codec = draw(st.sampled_from((None, None, *Codec)))
    stated = 0
    if codec is not None and draw(st.booleans()):
        stated = draw(st.sampled_from((len(data), len(data) + 1, MAX_MESSAGE_BYTES, 2**40)))
        data = pa.compress(data, codec=codec.value, asbytes=True)
        if draw(st.booleans()):
            data = draw(mutated(st.just(data)))
    return Chunk(schema, data, draw(st.sampled_from((rows, rows, rows + 1))), codec, stated)


schema_bytes = schemas.map(lambda schema: bytes(schema.serialize()))
hostile_schemas = schema_bytes | mutated(schema_bytes) | mutated(mutated(schema_bytes))


def decode_schema(data: bytes) -> None:
    """Decode a peer's schema.

    Raises:
        Broken: it was refused without a type, took too much memory, or cannot be used.
    """
    with _bounded():
        try:
            schema = read_schema(data)
        except UndecodableDataError:
            return
        BatchCodec(schema)
        schema.to_string()


def decode_chunk(chunk: Chunk) -> None:
    """Decode a peer's chunk.

    Raises:
        Broken: likewise.
    """
    with _bounded():
        try:
            batch = BatchCodec(chunk.schema, chunk.codec).decode(chunk.data, [chunk.rows], chunk.uncompressed_bytes)
        except UndecodableDataError:
            return
        batch.to_pylist()
        BatchCodec(chunk.schema).encode([batch])


class _bounded:  # noqa: N801  # read as a word
    """What the block takes at most of Arrow's memory is bounded."""

    def __enter__(self) -> None:
        self._before = pa.total_allocated_bytes()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        taken = pa.total_allocated_bytes() - self._before
        if taken > _MOST_MEMORY:
            raise Broken(f"it took {taken} bytes")
