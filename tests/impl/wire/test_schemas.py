"""Schemas: learnt once; and short messages that Arrow would make long."""

import gc
import weakref
from collections.abc import Callable

import pyarrow as pa
import pytest

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.arrow_metadata import MAX_SCHEMA_FIELDS
from permitflow.wire.schemas import facts_of, read_schema
from tests.support import shared_flatbuffers


def wide(names: str, fields: int = MAX_SCHEMA_FIELDS, kind: pa.DataType | None = None) -> bytes:
    schema = pa.schema([(f"{names}{number}", kind or pa.int64()) for number in range(fields)])
    encoded: bytes = schema.serialize().to_pybytes()
    return encoded


def long(name: str) -> bytes:
    """A schema that takes as many bytes as one may, and little time."""
    encoded: bytes = pa.schema([(name, pa.int8())], metadata={"k": "x" * 1_000_000}).serialize().to_pybytes()
    return encoded


def test_a_schema_that_is_read_again_is_the_same() -> None:
    data = wide("same", 3)
    assert read_schema(data) is read_schema(bytes(bytearray(data)))


def test_facts_are_found_once_for_equal_schemas() -> None:
    fields = [("equal", pa.int64()), ("text", pa.string())]
    assert facts_of(pa.schema(fields)) is facts_of(pa.schema(fields))


def test_schemas_that_nobody_uses_are_forgotten() -> None:
    first = weakref.ref(read_schema(long("first")))
    assert first() is not None
    for number in range(10):
        read_schema(long(f"other {number}"))
    gc.collect()
    assert first() is None


def test_a_schema_in_use_keeps_its_facts() -> None:
    used = read_schema(long("used"))
    facts = facts_of(used)
    for number in range(10):
        read_schema(long(f"later {number}"))
    assert facts_of(used) is facts


KINDS = (
    pa.int8(),
    pa.string(),
    pa.string_view(),
    pa.list_(pa.struct([("a", pa.string_view()), ("b", pa.dictionary(pa.int8(), pa.string()))])),
    pa.map_(pa.string(), pa.decimal128(9, 2)),
    pa.run_end_encoded(pa.int32(), pa.float64()),
    pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
    pa.uuid(),
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_facts_tell_the_columns_that_arrow_writes(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("c", kind), pa.field("n", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    assert facts_of(schema).empty_bytes > len(batch.serialize())
    codec = BatchCodec(schema)
    assert codec.decode(b"".join(codec.encode([batch])), [0]).schema.equals(schema)


def test_a_schema_that_arrow_cannot_write_is_refused() -> None:
    kind: pa.DataType = pa.int64()
    for _ in range(100):
        kind = pa.list_(kind)
    with pytest.raises(InvalidParametersError, match=r"must be one that Arrow can write: .*depth"):
        facts_of(pa.schema([("deep", kind)]))


def test_facts_find_dictionaries_and_views_at_any_depth() -> None:
    facts = facts_of(pa.schema([("plain", pa.int8()), ("deep", KINDS[3])]))
    assert (facts.dictionaries, facts.has_text_views, facts.fields) == (1, True, 5)
    assert facts_of(pa.schema([("c", pa.dictionary(pa.int8(), pa.string_view()))])).has_text_views


SHARED: tuple[Callable[[], bytes], ...] = (
    shared_flatbuffers.of_one_name,
    shared_flatbuffers.of_one_metadata,
    shared_flatbuffers.of_one_time_zone,
)


@pytest.mark.parametrize("made", SHARED)
def test_a_schema_whose_fields_share_their_bytes_is_refused(made: Callable[[], bytes]) -> None:
    """Arrow would copy them for each: 919 kB became 2.9 GB."""
    data = made()
    assert len(data) < 300_000
    with pytest.raises(UndecodableDataError, match="with names and metadata that its fields share"):
        read_schema(data)


TEXTS = pa.record_batch({"a": ["x" * 1_000], "b": ["y"], "c": ["z"]})


def test_a_chunk_with_much_custom_metadata_is_refused() -> None:
    """Arrow would copy the same text for each pair: a message of 260 kB made the process abort."""
    codec = BatchCodec(TEXTS.schema)
    assert codec.decode(shared_flatbuffers.with_custom_metadata(TEXTS, 2, 10), [1]).equals(TEXTS)
    with pytest.raises(UndecodableDataError, match="more than 65536 bytes of metadata besides its batch"):
        codec.decode(shared_flatbuffers.with_custom_metadata(TEXTS, 100, 1_000), [1])


def test_a_chunk_whose_columns_share_their_buffers_is_refused() -> None:
    with pytest.raises(UndecodableDataError, match=r"its buffers would take 30\d\d bytes, and its body has"):
        BatchCodec(TEXTS.schema).decode(shared_flatbuffers.of_one_column(TEXTS), [1])


@pytest.mark.parametrize("kind", ["column", "list", "dictionary"])
def test_views_of_one_long_text_are_refused(kind: str) -> None:
    """Arrow would check the same bytes for each row."""
    long = pa.array(["x" * (1 << 20)], pa.string_view())
    _, view, text = long.buffers()
    rows = 300
    views = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(view.to_pybytes()[:16] * rows), text])
    columns = {
        "column": lambda: views,
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), views),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), views),
    }
    batch = pa.record_batch({"v": columns[kind]()})
    codec = BatchCodec(batch.schema)
    with pytest.raises(UndecodableDataError, match="its texts would take 314572800 bytes"):
        codec.decode(b"".join(codec.encode([batch])), [batch.num_rows])


@pytest.mark.parametrize("what", ["schema", "dictionary", "batch"])
def test_a_chunk_with_a_message_too_many_is_refused(what: str) -> None:
    batch = pa.record_batch({"d": pa.array(["x", "y"]).dictionary_encode()})
    codec = BatchCodec(batch.schema)
    stream = b"".join(codec.encode([batch]))
    messages = [each.serialize().to_pybytes() for each in pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))]
    again = ["schema", "dictionary", "batch"].index(what)
    with pytest.raises(UndecodableDataError, match="it holds 2 "):
        codec.decode(b"".join([*messages[: again + 1], *messages[again:]]), [2])


def test_a_chunk_with_a_schema_of_too_many_fields_is_refused() -> None:
    batch = pa.record_batch({"d": pa.array(["x", "y"]).dictionary_encode()})
    codec = BatchCodec(batch.schema)
    stream = b"".join(codec.encode([batch]))
    first, *rest = [each.serialize().to_pybytes() for each in pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))]
    with pytest.raises(UndecodableDataError, match=r"has 10,001 fields or more, .* and 10,000 are the most"):
        codec.decode(b"".join([wide("many", MAX_SCHEMA_FIELDS + 1), *rest]), [2])
    assert codec.decode(b"".join([first, *rest]), [2]).equals(batch)
