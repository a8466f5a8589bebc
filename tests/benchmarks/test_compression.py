"""The figures of compression: of the same rows, and with what they cost."""

import asyncio

import pyarrow as pa

from benchmarks.compression import measure

ROWS = 8_192
BATCH = pa.record_batch({"n": pa.array(range(ROWS)), "t": pa.array(["a word"] * ROWS)})


def test_each_codec_has_its_figures() -> None:
    none, lz4, zstd = asyncio.run(measure([BATCH] * 4, megabits=[], rounds=1))
    assert [one.codec for one in (none, lz4, zstd)] == ["none", "lz4", "zstd"]
    assert none.row_bytes > lz4.row_bytes > zstd.row_bytes > 0
    assert all(one.megabits is None for one in (none, lz4, zstd))
    assert all(one.sender_seconds.low > 0 and one.receiver_seconds.low > 0 for one in (none, lz4, zstd))
