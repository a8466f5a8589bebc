"""Compressed record batches: they survive the wire, and no peer can make more of them than was agreed and paid for."""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh32_intdigest

from permitflow.errors import UndecodableDataError
from permitflow.stream.compression import Codec
from permitflow.wire.arrow import MAX_CHUNK_BYTES, BatchCodec
from permitflow.wire.arrow_compression import MOST_EXPANSION, compressed

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


def plain(batch: pa.RecordBatch) -> bytes:
    return b"".join(BatchCodec(batch.schema).encode([batch]))


def encoded(batch: pa.RecordBatch, codec: Codec) -> tuple[bytes, int]:
    """What travels, and what it states to become; 0: it is not compressed."""
    pieces, size = compressed([plain(batch)], codec)
    return b"".join(pieces), size


@codecs
@pytest.mark.parametrize("kind", list(batches()))
def test_a_batch_survives_compression(kind: str, codec: Codec) -> None:
    batch = batches()[kind]
    message, size = encoded(batch, codec)
    arrived = BatchCodec(batch.schema, codec).decode(message, [batch.num_rows], size)
    assert arrived.equals(batch)
    if kind != "noise" or size:
        assert size == len(plain(batch))
        assert len(message) < size * 0.9


@pytest.mark.parametrize("agreed", [None, *Codec])
@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("kind", ["numbers", "dictionary"])
def test_only_the_codec_that_was_agreed_is_decompressed(kind: str, sent: Codec, agreed: Codec | None) -> None:
    batch = batches()[kind]
    receiving, (message, size) = BatchCodec(batch.schema, agreed), encoded(batch, sent)
    if sent is agreed:
        assert receiving.decode(message, [batch.num_rows], size).equals(batch)
        return
    words = "which nobody has agreed to" if agreed is None else f"it is not compressed as was agreed, by {agreed}"
    with pytest.raises(UndecodableDataError, match=words):
        receiving.decode(message, [batch.num_rows], size)


@codecs
@pytest.mark.parametrize("kind", ["numbers", "dictionary"])
@pytest.mark.parametrize("as_of_old", [False, True])
def test_arrows_compression_is_refused_inside_agreed_compression(kind: str, as_of_old: bool, codec: Codec) -> None:
    """Arrow's reader would decompress it without a bound."""
    batch, sink = batches()[kind], pa.BufferOutputStream()
    options, custom = pa.ipc.IpcWriteOptions(compression=codec.value), {}
    if as_of_old:  # version 0.17 wrote its codec among the custom metadata
        options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
        custom = {"ARROW:experimental_compression": codec.value}
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata=custom)
    stream = sink.getvalue()
    message = stream if kind == "dictionary" else [*pa.ipc.MessageReader.open_stream(stream)][1].serialize()
    # Readers heed nothing behind a stream, and what is short is not compressed.
    data = message.to_pybytes() + (bytes(5_000) if kind == "dictionary" else b"")
    receiving = BatchCodec(batch.schema, codec)
    pieces, size = compressed([data], codec)
    assert size
    for arrow_message, stated in ((data, 0), (b"".join(pieces), size)):
        with pytest.raises(UndecodableDataError, match="Arrow has compressed its buffers: a message is compressed as"):
            receiving.decode(arrow_message, [batch.num_rows], stated)


@codecs
@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
@pytest.mark.parametrize("stated", [GIGABYTES, 2**62, 2**63 - 1, MAX_CHUNK_BYTES + 1, -1])
def test_a_few_bytes_cannot_become_gigabytes(kind: str, stated: int, codec: Codec) -> None:
    """Nothing is decompressed: no memory is taken."""
    batch = batches()[kind]
    receiving, (message, _) = BatchCodec(batch.schema, codec), encoded(batch, codec)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(UndecodableDataError, match=f"it would take {stated} bytes, .* rows may take at most"):
        receiving.decode(message, [2**40], stated)
    assert pa.default_memory_pool().max_memory() == before


@codecs
def test_rows_of_a_fixed_width_take_no_more_than_they_can(codec: Codec) -> None:
    """A thousand rows are paid for, and four thousand come."""
    receiving, (message, size) = BatchCodec(NUMBERS.schema, codec), encoded(NUMBERS, codec)
    with pytest.raises(UndecodableDataError, match=rf"it would take {size} bytes, decompressed; its 1000 rows may"):
        receiving.decode(message, [500, 500], size)
    assert receiving.decode(message, [ROWS], size)


@cache
def monotonous(kind: str) -> pa.RecordBatch:
    """Of which a codec leaves next to nothing."""
    columns = {
        "numbers": pa.array([0] * 1_000_000),
        "text": pa.array(["x" * 1_000_000] * 8),
        "dictionary": pa.array(["the same"] * 1_000_000).dictionary_encode(),
    }
    return pa.record_batch({"c": columns[kind]})


@codecs
@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
def test_a_message_is_long_enough_for_what_becomes_of_it(kind: str, codec: Codec) -> None:
    """Permits bound rows, and rows may be texts of any length: so a short message may not become a long one."""
    batch = monotonous(kind)
    (message, size), receiving = encoded(batch, codec), BatchCodec(batch.schema, codec)
    assert size / MOST_EXPANSION <= len(message) < size / 200
    assert receiving.decode(message, [batch.num_rows], size).equals(batch)
    with pytest.raises(UndecodableDataError, match=r"decompressed; a block of \d+ bytes may become at most"):
        receiving.decode(message[: size // MOST_EXPANSION], [batch.num_rows], size)


@codecs
@pytest.mark.parametrize("lie", [-1, 1, 64, -64])
@pytest.mark.parametrize("kind", ["numbers", "text", "dictionary"])
def test_a_message_of_another_size_than_it_states_is_refused(kind: str, lie: int, codec: Codec) -> None:
    batch = batches()[kind]
    message, size = encoded(batch, codec)
    with pytest.raises(UndecodableDataError, match=rf"or does not become {size + lie} bytes as it states"):
        BatchCodec(batch.schema, codec).decode(message, [batch.num_rows], size + lie)


def lz4_stating(frame: bytes, size: int) -> bytes:
    """A frame of LZ4 whose header states another size, in good order otherwise."""
    header = frame[4:6] + size.to_bytes(8, "little")
    return frame[:4] + header + bytes([xxh32_intdigest(header) >> 8 & 0xFF]) + frame[15:]


@pytest.mark.parametrize("kind", ["text", "dictionary"])
def test_nothing_from_memory_follows_a_short_lz4_frame(kind: str) -> None:
    """pyarrow hands out all of the memory that it was told to take, whatever was written into it."""
    batch = batches()[kind]
    (message, size), receiving = encoded(batch, Codec.LZ4), BatchCodec(batch.schema, Codec.LZ4)
    assert receiving.decode(lz4_stating(message, size), [batch.num_rows], size).equals(batch)
    skipped = b"\x50\x2a\x4d\x18" + (2_000).to_bytes(4, "little") + bytes(2_000)
    as_pyarrow = pa.compress(plain(batch), codec="lz4", asbytes=True)
    for lie in (lz4_stating(message, size + 8), as_pyarrow, skipped, skipped + message, b""):
        for stated in (size, size + 8):
            with pytest.raises(UndecodableDataError):
                receiving.decode(lie, [batch.num_rows], stated)


@settings(max_examples=60)
@given(
    st.sampled_from(list(Codec)),
    st.sampled_from(["numbers", "text", "dictionary"]),
    st.lists(st.tuples(st.integers(0, 1_500), st.binary(min_size=1, max_size=8)), max_size=4),
    st.integers(0, 2**40),
    st.integers(-(2**63), 2**63 - 1),
)
def test_no_change_of_a_message_takes_more_memory_than_a_chunk_may(
    codec: Codec, kind: str, changes: list[tuple[int, bytes]], rows: int, lie: int
) -> None:
    batch = batches()[kind]
    sound, size = encoded(batch, codec)
    message = bytearray(sound)
    for at, change in changes:
        message[at : at + len(change)] = change
    pool = pa.default_memory_pool()
    most = max(pool.max_memory(), pool.bytes_allocated() + 2 * MAX_CHUNK_BYTES)
    for stated in (size, lie):
        try:
            arrived = BatchCodec(batch.schema, codec).decode(bytes(message), [rows], stated)
        except UndecodableDataError:
            pass
        else:
            assert arrived.num_rows == rows
    assert pool.max_memory() <= most
