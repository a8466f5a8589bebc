"""Which chunks that travel together become the rows of one batch."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.stream.compression import Codec
from permitflow.stream.frames import Chunks
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.coalescing import MessageWriter
from permitflow.wire.codec import EncodedChunks

LARGE_ROWS = 32_768
"""256 KiB of them."""
WINDOW = ChannelParameters(row_permits=32 * LARGE_ROWS)
COPIED_BYTES = 512 << 10


def numbers(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


def with_a_null(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array([None, *range(rows - 1)], pa.int64())})


def written(
    chunks: Sequence[pa.RecordBatch], parameters: ChannelParameters = WINDOW, compression: Codec | None = None
) -> list[EncodedChunks]:
    """What becomes of chunks that travel together; each batch must hold its chunks."""
    codec = BatchCodec(chunks[0].schema, compression)
    rows = [chunk.num_rows for chunk in chunks]
    writer, sent = MessageWriter(codec, parameters), Chunks[object](list(chunks), rows)
    encoded = [frame for frame in writer.encoded([sent]) if isinstance(frame, EncodedChunks)]
    arrived = [codec.decode(b"".join(each.arrow), each.rows, each.uncompressed_bytes) for each in encoded]
    assert pa.Table.from_batches(arrived).equals(pa.Table.from_batches(chunks))
    assert [count for each in encoded for count in each.rows] == rows
    return encoded


def test_large_chunks_are_rows_of_one_batch_and_stay_where_they_are() -> None:
    chunk = numbers(LARGE_ROWS)
    (together,) = written([chunk] * 4)
    (values,) = (buffer for buffer in chunk.column(0).buffers() if buffer is not None)
    assert [pa.py_buffer(piece).address for piece in together.arrow].count(values.address) == 4


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("rows", [100, 1_500, LARGE_ROWS], ids=["copied", "gathered", "large"])
def test_chunks_that_travel_together_are_compressed_together(rows: int, codec: Codec) -> None:
    chunks = [numbers(rows)] * 8
    plain, small = written(chunks), written(chunks, compression=codec)
    assert [each.rows for each in small] == [each.rows for each in plain]
    assert [each.uncompressed_bytes for each in small] == [sum(map(len, each.arrow)) for each in plain]


def test_a_batch_has_at_most_half_the_window() -> None:
    half = ChannelParameters(row_permits=4 * LARGE_ROWS)
    assert [len(each.rows) for each in written([numbers(LARGE_ROWS)] * 6, half)] == [2, 2, 2]


@pytest.mark.parametrize("other", [with_a_null(LARGE_ROWS), numbers(100)], ids=["a null", "a small neighbour"])
def test_large_chunks_are_batches_of_their_own_uncopied(other: pa.RecordBatch) -> None:
    large = numbers(LARGE_ROWS)
    assert [len(each.rows) for each in written([large, other, large])] == [1, 1, 1]
    assert [len(each.rows) for each in written([large, other])] == [1, 1]


def test_small_chunks_are_copied_into_one_batch() -> None:
    assert [len(each.rows) for each in written([numbers(100), with_a_null(100), numbers(50)])] == [3]


@pytest.mark.parametrize("texts", [["a"], ["a" * 100_000]], ids=["short", "long"])
def test_chunks_of_texts_are_joined_by_their_size(texts: list[str]) -> None:
    chunk = pa.record_batch({"t": pa.array(texts)})
    assert [len(each.rows) for each in written([chunk] * 6)] == ([6] if len(texts[0]) < COPIED_BYTES // 6 else [5, 1])


def test_chunks_with_dictionaries_travel_singly() -> None:
    chunk = pa.record_batch({"d": pa.array(["x", "y", "x"]).dictionary_encode()})
    assert [len(each.rows) for each in written([chunk] * 3)] == [1, 1, 1]
