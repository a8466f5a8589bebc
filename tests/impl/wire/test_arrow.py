"""Record batches and schemas as bytes: every kind of column, gathered, joined or copied; and peers that lie."""

import random
from collections.abc import Iterable
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import ChunkTooLargeError, PermitflowError, SchemaMismatchError, UndecodableDataError
from permitflow.wire import arrow
from permitflow.wire.arrow import BatchCodec, joined, owned
from permitflow.wire.schemas import OF_BATCH, read_schema, require_equal_schemas

NUMBERS = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "zz"]})


def batches() -> dict[str, pa.RecordBatch]:
    dictionary = pa.array(["x", "y", "x"]).dictionary_encode()
    nested = pa.array([["x"], [], ["y", "x"]]).cast(pa.list_(pa.dictionary(pa.int8(), pa.string())))
    kinds, either = pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, None]), pa.array(["a", "b", "c"])]
    return {
        "plain": NUMBERS,
        "empty": NUMBERS.slice(0, 0),
        "without columns": pa.RecordBatch.from_arrays([], schema=pa.schema([])),
        "slice": pa.record_batch({"a": list(range(100)), "b": [str(n) for n in range(100)]}).slice(37, 11),
        "nested": pa.record_batch({"l": [[1], None, [2, 3]], "s": [{"x": 1}, {"x": None}, None]}),
        "times": pa.record_batch({"t": pa.array([1, 2, None], pa.timestamp("us", tz="UTC")), "n": pa.nulls(3)}),
        "decimals": pa.record_batch({"d": pa.array([1, 2, 3]).cast(pa.decimal128(38, 2))}),
        "dictionary": pa.record_batch({"d": dictionary, "a": [1, 2, 3]}),
        "dictionary in a list": pa.record_batch({"d": nested}),
        "empty dictionary": pa.record_batch({"d": dictionary}).slice(0, 0),
        "sparse union": pa.record_batch({"u": pa.UnionArray.from_sparse(kinds, either)}),
        "dense union": pa.record_batch({"u": pa.UnionArray.from_dense(kinds, pa.array([0, 1, 2], pa.int32()), either)}),
        "views": pa.record_batch({"v": pa.array(["a", "long enough for a buffer", None], pa.string_view())}),
    }


@pytest.mark.parametrize("kind", list(batches()))
def test_a_batch_survives_the_wire(kind: str) -> None:
    batch = batches()[kind]
    sending = BatchCodec(batch.schema)
    receiving = BatchCodec(read_schema(sending.schema_bytes))
    arrived = receiving.decode(b"".join(sending.encode([batch])), [batch.num_rows])
    assert arrived.equals(batch)
    assert arrived.schema.equals(batch.schema)


@pytest.mark.parametrize("kind", ["plain", "slice", "nested", "times", "decimals"])
def test_a_large_batch_is_encoded_without_a_copy_of_it(kind: str) -> None:
    batch = batches()[kind]
    repeated = pa.concat_batches([batch] * (400_000 // max(1, batch.nbytes)))
    for large in (repeated, repeated.slice(1), repeated.slice(3, repeated.num_rows // 2)):
        pieces = BatchCodec(batch.schema).encode([large])
        assert b"".join(pieces) == large.serialize().to_pybytes()
        assert len(pieces) < 20
    before = pa.total_allocated_bytes()
    pieces = BatchCodec(batch.schema).encode([repeated])
    assert pa.total_allocated_bytes() - before < repeated.nbytes / 10


def widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With a column that is not in its schema."""
    return batch.append_column("smuggled", pa.array([True] * batch.num_rows))


@pytest.mark.parametrize("rows", [(3,), (1, 2), (1_000, 2_000)], ids=["alone", "joined", "large"])
@pytest.mark.parametrize("kind", list(batches()))
def test_a_batch_with_more_columns_than_were_agreed_is_refused(kind: str, rows: tuple[int, ...]) -> None:
    batch = batches()[kind]
    if not batch.num_rows:
        batch = pa.record_batch({"n": [1, 2, 3]}).select([])
    narrow = pa.concat_batches([batch.slice(0, 1)] * sum(rows))
    agreed, wide = BatchCodec(narrow.schema), BatchCodec(widened(narrow).schema)
    lie = b"".join(wide.encode([widened(narrow)]))
    if not agreed.can_join and len(narrow.schema):  # whole streams, which begin with their schema
        lie = agreed.schema_bytes + lie[len(wide.schema_bytes) :]
    with pytest.raises(UndecodableDataError, match="columns"):
        agreed.decode(lie, rows)
    assert agreed.decode(b"".join(agreed.encode([narrow])), rows).num_rows == sum(rows)


@pytest.mark.parametrize("rows", [0, 2, 4, -1, 2**62])
def test_stated_rows_that_are_not_those_of_the_batch_are_refused(rows: int) -> None:
    codec = BatchCodec(NUMBERS.schema)
    with pytest.raises(UndecodableDataError, match=rf"a chunk of {rows} rows cannot be decoded: it holds 3 rows"):
        codec.decode(b"".join(codec.encode([NUMBERS])), [rows])


def test_a_batch_of_another_schema_is_refused_before_it_is_sent() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        BatchCodec(NUMBERS.schema).cut(pa.record_batch({"a": [1.0], "b": ["x"]}))
    assert str(caught.value) == (
        "schemas differ: the stream has a: int64; this batch has a: double: "
        "cast the batch, or open the stream with its schema"
    )


def test_schemas_may_differ_in_metadata_only() -> None:
    plain = NUMBERS.schema
    require_equal_schemas(ours=plain, theirs=plain.with_metadata({"pandas": "{}"}), owners=OF_BATCH)
    for other in (pa.schema([]), pa.schema([plain.field(1), plain.field(0)]), pa.schema([plain.field(0)])):
        with pytest.raises(SchemaMismatchError):
            require_equal_schemas(ours=plain, theirs=other, owners=OF_BATCH)
    with pytest.raises(SchemaMismatchError, match="not null"):
        require_equal_schemas(
            ours=plain, theirs=pa.schema([pa.field("a", pa.int64(), nullable=False), plain.field(1)]), owners=OF_BATCH
        )


@pytest.mark.parametrize(
    "data", [b"", b"no schema", NUMBERS.serialize().to_pybytes()], ids=["empty", "junk", "a batch"]
)
def test_a_schema_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(UndecodableDataError, match="the schema cannot be decoded"):
        read_schema(data)


@pytest.mark.parametrize("kind", ["plain", "nested", "dictionary", "views"])
def test_damaged_chunks_are_refused_or_sound(kind: str) -> None:
    """A lying length or offset must never reach a reader of the batch: that would be a crash, not an error."""
    batch = batches()[kind]
    codec = BatchCodec(batch.schema)
    sound = b"".join(codec.encode([batch]))
    dice = random.Random(20221117)
    refused = 0
    for _ in range(1_500):
        damaged = bytearray(sound)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        try:
            arrived = codec.decode(bytes(damaged), [batch.num_rows])
        except PermitflowError as error:
            assert isinstance(error, UndecodableDataError)  # noqa: PT017
            refused += 1
        else:
            arrived.validate(full=True)
            arrived.slice(1).to_pylist()
            codec.encode([arrived.slice(1)])
    assert refused > 100


@pytest.mark.parametrize("count", [0, 2])
def test_a_chunk_with_dictionaries_is_one_batch(count: int) -> None:
    batch = batches()["dictionary"]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(count):
            writer.write_batch(batch)
    with pytest.raises(UndecodableDataError, match=f"it holds {count} batches, not 1"):
        BatchCodec(batch.schema).decode(sink.getvalue().to_pybytes(), [batch.num_rows])


@pytest.mark.parametrize("names", [("é", "b"), ("a", "é")], ids=["a column", "inside of a column"])
def test_a_schema_with_a_name_that_is_not_utf8_is_refused(names: tuple[str, str]) -> None:
    outer, inner = names
    data = (
        pa.schema([(outer, pa.struct([(inner, pa.int64())]))]).serialize().to_pybytes().replace("é".encode(), b"\xf6z")
    )
    with pytest.raises(UndecodableDataError, match="the schema cannot be decoded: 'utf-8' codec"):
        read_schema(data)


@pytest.mark.parametrize("rows", [[3, 3, 1], [3, 4, -1], [7], [], [2, 2]])
def test_rows_of_joined_chunks_that_do_not_add_up_are_refused(rows: list[int]) -> None:
    codec = BatchCodec(NUMBERS.schema)
    with pytest.raises(UndecodableDataError, match="it holds 6 rows"):
        codec.decode(b"".join(codec.encode([NUMBERS, NUMBERS])), rows)


KINDS = (pa.int64(), pa.int16(), pa.float32(), pa.timestamp("us"), pa.decimal128(30, 2), pa.int8())
ROWS = 20_000


@cache
def columns() -> pa.RecordBatch:
    """A batch of which each column is large enough to travel from where it lies."""
    numbers = pa.array([number % 100 for number in range(2 * ROWS)])
    return pa.RecordBatch.from_arrays([numbers.cast(kind) for kind in KINDS], names=[str(kind) for kind in KINDS])


@given(st.lists(st.tuples(st.integers(0, ROWS), st.integers(ROWS - 9, ROWS)), min_size=1, max_size=4))
def test_slices_of_odd_lengths_arrive_as_one_batch(places: list[tuple[int, int]]) -> None:
    batches = [columns().slice(start, rows) for start, rows in places]
    codec = BatchCodec(batches[0].schema)
    pieces = codec.encode(batches)
    message = b"".join(pieces)
    arrived = codec.decode(message, [sum(batch.num_rows for batch in batches)])
    assert arrived.equals(pa.concat_batches(batches))
    assert b"".join(codec.encode(batches)) == message


def places(buffers: Iterable[pa.Buffer | None]) -> set[int]:
    return {buffer.address for buffer in buffers if buffer is not None}


def with_nulls() -> pa.RecordBatch:
    holes = pa.array([None if number % 7 == 0 else number for number in range(ROWS)], pa.int64())
    return pa.record_batch({"a": holes})


@pytest.mark.parametrize(
    "odd",
    [
        with_nulls(),
        pa.record_batch({"a": pa.array([number % 2 == 0 for number in range(8 * ROWS)])}),
        pa.record_batch({"a": [str(number) for number in range(ROWS)]}),
        pa.record_batch({"a": pa.array(range(ROWS)), "b": pa.nulls(ROWS)}),
        pa.record_batch({"a": pa.array([[number] for number in range(ROWS)])}),
    ],
    ids=["nulls", "bits", "text", "only nulls", "lists"],
)
def test_columns_that_cannot_be_gathered_are_joined(odd: pa.RecordBatch) -> None:
    codec = BatchCodec(odd.schema)
    for batches in ([odd] * 3, [odd.slice(5), odd.slice(0, ROWS - 3)]):
        arrived = codec.decode(b"".join(codec.encode(batches)), [sum(batch.num_rows for batch in batches)])
        assert arrived.equals(pa.concat_batches(batches))


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


def nulls(values: int) -> pa.RecordBatch:
    """One row, a list of nulls: as many as one likes take no memory."""
    return pa.record_batch({"n": pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), pa.nulls(values))})


def test_batches_that_one_could_not_hold_stay_as_they_came() -> None:
    many = [nulls(1_500_000_000)] * 2
    assert joined(many) == many
    assert [each.num_rows for each in joined([nulls(1), nulls(2)])] == [2]
    assert [len(each.column(0)[0]) for each in owned(many)] == [1_500_000_000] * 2


def test_a_batch_is_cut_where_its_rows_no_longer_fit_into_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 5_000)
    batch = pa.record_batch({"t": ["x" * length for length in (4_000, 10, 10, 4_000, 4_000, 10)]})
    codec = BatchCodec(batch.schema)
    pieces = codec.cut(batch)
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([batch])
    assert all(sum(map(len, codec.encode([piece]))) <= 5_000 for piece in pieces)
    assert codec.cut(batch.slice(1, 2)) == [batch.slice(1, 2)]
    assert [piece.num_rows for piece in codec.cut(batch.slice(1, 2), most_rows=1)] == [1, 1]


def test_dictionaries_count_for_the_size_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 10_000)
    batch = pa.record_batch({"d": pa.array([str(n) * 10 for n in range(500)]).dictionary_encode()}).slice(0, 1)
    with pytest.raises(ChunkTooLargeError):
        BatchCodec(batch.schema).encode([batch])
