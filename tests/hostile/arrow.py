"""Hostile schemas and batches of Arrow: of any type, nested, with dictionaries, compressed; and mistakes in these."""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from permitflow.errors import UndecodableDataError
from permitflow.stream.compression import Codec
from permitflow.wire.arrow import MAX_MESSAGE_BYTES, BatchCodec
from permitflow.wire.schemas import read_schema
from tests.hostile.grammar import mutated
from tests.hostile.memory import Broken

_SIMPLE: Final = (
    pa.int8(),
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.string_view(),
    pa.binary(3),
    pa.decimal128(38, 2),
    pa.timestamp("us", "UTC"),
    pa.null(),
    pa.date32(),
    pa.duration("ns"),
)
_ROWS: Final = 3
_MOST_MEMORY: Final = 4 * MAX_MESSAGE_BYTES
"""Of what decoding one message may take at a time: the message decompressed, and what Arrow makes of it."""


def _nested(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inside.map(pa.list_),
        inside.map(lambda kind: pa.list_(kind, 2)),
        inside.map(lambda kind: pa.struct([("x", kind), ("y", kind)])),
        inside.map(lambda kind: pa.map_(pa.int8(), kind)),
        st.sampled_from((pa.string(), pa.int64())).map(lambda kind: pa.dictionary(pa.int8(), kind)),
        inside.map(lambda kind: pa.sparse_union([pa.field("a", kind), pa.field("b", pa.int8())])),
        inside.map(lambda kind: pa.dense_union([pa.field("a", kind), pa.field("b", pa.int8())])),
    )


types = st.recursive(st.sampled_from(_SIMPLE), _nested, max_leaves=4)
schemas = st.lists(types, max_size=3).map(
    lambda kinds: pa.schema([(f"c{place}", each) for place, each in enumerate(kinds)])
)


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
    batch = pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in other], schema=other)
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
