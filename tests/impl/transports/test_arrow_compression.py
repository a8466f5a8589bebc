"""Compressed record batches: they survive the wire, and no peer can make more of them than was agreed and paid for."""

import random
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow.errors import ChunkTooLargeError, PermitflowError, UndecodableDataError
from permitflow.protocol.compression import Codec
from permitflow.transports import arrow
from permitflow.transports.arrow import MAX_CHUNK_BYTES, BatchCodec
from permitflow.transports.arrow_compression import (
    MOST_EXPANSION,
    UNREADABLE,
    available_codecs,
    described,
    metadata_place,
)

ROWS = 4_000
NUMBERS = pa.record_batch({"n": pa.array(range(ROWS)), "half": pa.array([n / 2 for n in range(ROWS)])})
GIGABYTES = 8 << 30

codecs = pytest.mark.parametrize("codec", list(Codec))


def batches() -> dict[str, pa.RecordBatch]:
    """One of each kind of schema, long enough to be compressed."""
    words = ["x", None, "long enough for a buffer of its own"] * (ROWS // 3)
    some, bits = [None, 1, 2] * (ROWS // 3), [None, True, False] * (ROWS // 3)
    return {
        "numbers": NUMBERS,
        "slice": NUMBERS.slice(37, ROWS // 2),
        "nulls": pa.record_batch({"a": pa.array(some), "b": bits, "n": pa.nulls(len(some))}),
        "text": pa.record_batch({"t": words, "v": pa.array(words, pa.string_view())}),
        "nested": pa.record_batch({"l": [[1], None, [2, 3]] * ROWS, "s": [{"x": 1}, {"x": None}, None] * ROWS}),
        "dictionary": pa.record_batch({"d": pa.array(words).dictionary_encode(), "a": some}),
        "noise": pa.record_batch({"n": np.random.default_rng(7).integers(0, 2**62, ROWS)}),
    }


def encoded(batch: pa.RecordBatch, codec: Codec | None) -> bytes:
    return b"".join(BatchCodec(batch.schema, codec).encode([batch]))


@codecs
@pytest.mark.parametrize("kind", list(batches()))
def test_a_batch_survives_compression(kind: str, codec: Codec) -> None:
    batch = batches()[kind]
    message = encoded(batch, codec)
    arrived = BatchCodec(batch.schema, codec).decode(message, [batch.num_rows])
    assert arrived.equals(batch)
    if kind != "noise":
        assert len(message) < len(encoded(batch, None)) * 0.9


@codecs
def test_chunks_that_travel_together_are_compressed_together(codec: Codec) -> None:
    parts = [NUMBERS.slice(start, 100) for start in range(0, ROWS, 100)]
    batches_of = BatchCodec(NUMBERS.schema, codec)
    message = b"".join(batches_of.encode(parts))
    start, end = metadata_place(message)
    assert described(message[start:end]).compressed
    assert len(message) < sum(len(encoded(part, codec)) for part in parts)
    arrived = batches_of.decode(message, [part.num_rows for part in parts])
    assert arrived.equals(NUMBERS)


@codecs
def test_what_is_short_is_not_compressed(codec: Codec) -> None:
    short = NUMBERS.slice(0, 10)
    assert encoded(short, codec) == encoded(short, None)
    arrived = BatchCodec(NUMBERS.schema, codec).decode(encoded(short, None), [10])
    assert arrived.equals(short)


@pytest.mark.parametrize("agreed", [None, *Codec])
@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("kind", ["numbers", "dictionary"])
def test_only_the_codec_that_was_agreed_is_decompressed(kind: str, sent: Codec, agreed: Codec | None) -> None:
    batch = batches()[kind]
    receiving = BatchCodec(batch.schema, agreed)
    if sent is agreed:
        assert receiving.decode(encoded(batch, sent), [batch.num_rows]).equals(batch)
        return
    words = "which nobody has agreed to" if agreed is None else f"it is not compressed as was agreed, by {agreed}"
    with pytest.raises(UndecodableDataError, match=words):
        receiving.decode(encoded(batch, sent), [batch.num_rows])


@codecs
def test_what_is_compressed_is_refused_behind_messages_that_are_not_and_begin_alike(codec: Codec) -> None:
    plain, small = encoded(NUMBERS, None), encoded(NUMBERS, codec)
    ends = [metadata_place(message)[1] for message in (plain, small)]
    # Readers do not heed zeros behind the metadata.
    alike = small[:8] + plain[8 : ends[0]] + bytes(ends[1] - ends[0]) + plain[ends[0] :]
    reader = BatchCodec(NUMBERS.schema)
    for before in (plain, alike):
        assert reader.decode(before, [ROWS]).equals(NUMBERS)
        with pytest.raises(UndecodableDataError, match="which nobody has agreed to"):
            reader.decode(small, [ROWS])


@codecs
def test_a_message_whose_metadata_are_cut_off_says_nothing_about_those_that_begin_alike(codec: Codec) -> None:
    small = encoded(NUMBERS, codec)
    start, end = metadata_place(small)
    reader = BatchCodec(NUMBERS.schema)
    for length in range(start, end):
        with pytest.raises(UndecodableDataError):
            reader.decode(small[:length], [ROWS])
        with pytest.raises(UndecodableDataError, match="which nobody has agreed to"):
            reader.decode(small, [ROWS])


@codecs
def test_what_is_compressed_as_of_old_is_not_decompressed(codec: Codec) -> None:
    """Arrow's reader heeds what version 0.17 wrote among the custom metadata, where no lengths are looked for."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, NUMBERS.schema, options=options) as writer:
        writer.write_batch(NUMBERS, custom_metadata={"ARROW:experimental_compression": codec.value})
    _, batch = pa.ipc.MessageReader.open_stream(sink.getvalue())
    assert described(memoryview(batch.metadata)).compressed == UNREADABLE
    with pytest.raises(UndecodableDataError, match="not compressed as was agreed"):
        BatchCodec(NUMBERS.schema, codec).decode(batch.serialize().to_pybytes(), [ROWS])


def with_length(message: bytes, stated: int, *, buffer: int = 0) -> bytes:
    """The message, in which one of the buffers states another length."""
    start, end = metadata_place(message)
    found = described(message[start:end]).compressed
    assert found is not None
    offset, _ = [place for place in found.buffers if place[1]][buffer]
    changed = bytearray(message)
    struct.pack_into("<q", changed, end + offset, stated)
    return bytes(changed)


@codecs
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_a_few_bytes_cannot_become_gigabytes(kind: str, codec: Codec) -> None:
    """Nothing is decompressed: no memory is taken."""
    batch = batches()[kind]
    receiving, honest = BatchCodec(batch.schema, codec), encoded(batch, codec)
    before = pa.default_memory_pool().max_memory()
    for stated in (GIGABYTES, 2**62, 2**63 - 1, MAX_CHUNK_BYTES + 1):
        with pytest.raises(UndecodableDataError, match=f"it would take .* a chunk may take at most {MAX_CHUNK_BYTES}"):
            receiving.decode(with_length(honest, stated), [batch.num_rows])
    assert pa.default_memory_pool().max_memory() - before < MAX_CHUNK_BYTES


@codecs
def test_lengths_are_added_up(codec: Codec) -> None:
    """Each buffer alone would be small enough."""
    half = MAX_CHUNK_BYTES // 2 + 1
    message = with_length(with_length(encoded(NUMBERS, codec), half), half, buffer=1)
    with pytest.raises(UndecodableDataError, match="it would take"):
        BatchCodec(NUMBERS.schema, codec).decode(message, [ROWS])


@codecs
def test_rows_of_a_fixed_width_take_no_more_than_they_can(codec: Codec) -> None:
    """A thousand rows are paid for, and four thousand come."""
    receiving = BatchCodec(NUMBERS.schema, codec)
    with pytest.raises(UndecodableDataError, match=r"it would take 64000 bytes, decompressed; its 1000 rows take"):
        receiving.decode(encoded(NUMBERS, codec), [500, 500])
    assert receiving.decode(encoded(NUMBERS, codec), [ROWS])


def monotonous(kind: str) -> pa.RecordBatch:
    """Of which a codec leaves next to nothing."""
    columns = {
        "numbers": pa.array([0] * 1_000_000),
        "text": pa.array(["x" * 1_000_000] * 8),
        "dictionary": pa.array(["the same"] * 1_000_000).dictionary_encode(),
    }
    return pa.record_batch({"c": columns[kind]})


@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
def test_a_message_is_long_enough_for_what_becomes_of_it(kind: str) -> None:
    """Permits bound rows, and rows may be texts of any length: so a short message may not become a long one."""
    batch = monotonous(kind)
    message, receiving = encoded(batch, Codec.ZSTD), BatchCodec(batch.schema, Codec.ZSTD)
    assert batch.nbytes / MOST_EXPANSION <= len(message) < batch.nbytes / 200
    assert receiving.decode(message, [batch.num_rows]).equals(batch)
    with pytest.raises(UndecodableDataError, match=r"decompressed; a message of \d+ bytes may become at most"):
        receiving.decode(message.rstrip(b"\0") + bytes(8), [batch.num_rows])


LIES: dict[str, Callable[[int], int]] = {
    "one byte less": lambda length: length - 1,
    "one byte more": lambda length: length + 1,
    "nothing": lambda _: 0,
    "less than nothing": lambda _: -2,
    "not compressed": lambda _: -1,
}


@codecs
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("buffer", [0, 1])
def test_a_buffer_of_another_length_than_it_states_is_refused(lie: str, codec: Codec, buffer: int) -> None:
    length = NUMBERS.column(buffer).nbytes
    message = with_length(encoded(NUMBERS, codec), LIES[lie](length), buffer=buffer)
    with pytest.raises(UndecodableDataError, match="a chunk of 4000 rows"):
        BatchCodec(NUMBERS.schema, codec).decode(message, [ROWS])


@codecs
@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
def test_a_message_that_is_cut_off_is_refused(kind: str, codec: Codec) -> None:
    batch = batches()[kind]
    message, receiving = encoded(batch, codec), BatchCodec(batch.schema, codec)
    for length in range(0, len(message) - 8, 97):
        with pytest.raises(UndecodableDataError):
            receiving.decode(message[:length], [batch.num_rows])


@codecs
@pytest.mark.parametrize("kind", ["numbers", "nulls", "text", "dictionary"])
def test_damaged_bytes_are_an_error_or_a_batch(kind: str, codec: Codec) -> None:
    """No lying offset or length reaches whoever reads, and nothing else than our error."""
    batch = batches()[kind]
    receiving, sound = BatchCodec(batch.schema, codec), encoded(batch, codec)
    dice = random.Random(20221120)
    refused = 0
    for _ in range(400):
        damaged = bytearray(sound)
        for _ in range(dice.randint(1, 4)):
            # Most lies are about lengths: they stand at the beginning, and before each buffer.
            at = dice.randrange(min(len(damaged), dice.choice((600, len(damaged)))))
            damaged[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        try:
            arrived = receiving.decode(bytes(damaged), [batch.num_rows])
        except PermitflowError as error:
            assert isinstance(error, UndecodableDataError)  # noqa: PT017
            refused += 1
        else:
            arrived.validate(full=True)
            assert arrived.get_total_buffer_size() <= MAX_CHUNK_BYTES
    assert refused > 50


@settings(max_examples=60)
@given(
    st.sampled_from(list(Codec)),
    st.sampled_from(["numbers", "text", "dictionary"]),
    st.lists(st.tuples(st.integers(0, 1_500), st.binary(min_size=1, max_size=8)), max_size=4),
    st.integers(0, 2**40),
)
def test_no_change_of_a_message_takes_more_memory_than_a_chunk_may(
    codec: Codec, kind: str, changes: list[tuple[int, bytes]], rows: int
) -> None:
    batch = batches()[kind]
    message = bytearray(encoded(batch, codec))
    for at, change in changes:
        message[at : at + len(change)] = change
    pool = pa.default_memory_pool()
    most = max(pool.max_memory(), pool.bytes_allocated() + 2 * MAX_CHUNK_BYTES)
    try:
        arrived = BatchCodec(batch.schema, codec).decode(bytes(message), [rows])
    except UndecodableDataError:
        pass
    else:
        assert arrived.num_rows == rows
    assert pool.max_memory() <= most


@given(st.binary(max_size=200))
def test_no_bytes_confuse_whoever_looks_for_lengths(data: bytes) -> None:
    for codec in Codec:
        with pytest.raises(UndecodableDataError):
            BatchCodec(NUMBERS.schema, codec).decode(data, [ROWS])
    described(data)


@codecs
def test_a_sender_refuses_dictionaries_that_its_receiver_would_refuse(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressed, they would fit: what counts is what they take at the other end."""
    batch = pa.record_batch({"d": pa.array([f"{n:0100}" for n in range(1_000)]).dictionary_encode()})
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 50_000)
    sending = BatchCodec(batch.schema, codec)
    with pytest.raises(ChunkTooLargeError):
        sending.encode([batch])


def test_this_pyarrow_has_both_codecs() -> None:
    assert available_codecs() == tuple(Codec)
