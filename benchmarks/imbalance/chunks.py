"""The chunks of both upstreams: what a strict filter leaves."""

import pyarrow as pa

__all__ = ["CHUNK_ROWS", "filtered_chunk"]

SCANNED_ROWS = 1_024
VISIBLE_SHARE = 0.05
CHUNK_ROWS = round(SCANNED_ROWS * VISIBLE_SHARE)


def filtered_chunk(row_bytes: int) -> pa.RecordBatch:
    """The visible rows of a chunk, each of so many bytes."""
    rows = pa.record_batch({"row": pa.array([bytes(row_bytes)] * SCANNED_ROWS, pa.binary(row_bytes))})
    is_visible = [number % (SCANNED_ROWS // CHUNK_ROWS) == 0 for number in range(SCANNED_ROWS)]
    return rows.filter(pa.array(is_visible)).slice(0, CHUNK_ROWS)
