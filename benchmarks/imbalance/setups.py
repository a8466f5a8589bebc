"""What is compared."""

from dataclasses import dataclass

__all__ = [
    "BOUNDS",
    "BYTE_WINDOW",
    "CONTROL",
    "EQUAL_COSTS",
    "LOCAL_CHUNKS",
    "PERMITS",
    "ROW_PERMITS",
    "SETUPS",
    "WIDE_BOUNDS",
    "WIDE_PERMITS",
    "Setup",
]

# The bounds before there were permits: chunks in a local channel, and HTTP/2's initial window.
LOCAL_CHUNKS = 16
BYTE_WINDOW = 64 << 10
# RisingWave's ROW_COUNT since 2023.
ROW_PERMITS = 2_048
# What a receiver keeps back, up to BATCH - 1 rows, is missing in the join's next turn: here at most one chunk.
PERMIT_BATCH = 64
# RisingWave's.
LARGE_PERMIT_BATCH = 256

SLIM_ROW_BYTES = 20
WIDE_ROW_BYTES = 500


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One experiment."""

    name: str
    uses_permits: bool
    permit_batch: int = PERMIT_BATCH
    row_bytes: int = SLIM_ROW_BYTES
    join_seconds: float = 425e-6
    """What a chunk costs the join."""
    local_seconds: float = 94e-6
    """What a chunk costs the upstream beside the join; the join stands still meanwhile."""
    remote_seconds: float = 485e-6
    """What a chunk costs the upstream in another process."""
    yields_after_each_chunk: bool = False
    """The join lets others run after each chunk, rather than after all that are ready."""


EQUAL_SECONDS = 485e-6
BOUNDS = Setup(name="16 chunks and 64 KiB", uses_permits=False)
PERMITS = Setup(name="row permits", uses_permits=True)
LARGE_BATCH = Setup(name="row permits, returned by 256", uses_permits=True, permit_batch=LARGE_PERMIT_BATCH)
EQUAL_COSTS = Setup(name="row permits, equal producers", uses_permits=True, local_seconds=EQUAL_SECONDS)
WIDE_BOUNDS = Setup(name="16 chunks and 64 KiB, rows of 500 bytes", uses_permits=False, row_bytes=WIDE_ROW_BYTES)
WIDE_PERMITS = Setup(name="row permits, rows of 500 bytes", uses_permits=True, row_bytes=WIDE_ROW_BYTES)
CONTROL = Setup(name="control: 16 chunks and 64 KiB, join yields", uses_permits=False, yields_after_each_chunk=True)
SETUPS = (BOUNDS, PERMITS, LARGE_BATCH, EQUAL_COSTS, WIDE_BOUNDS, WIDE_PERMITS, CONTROL)
