"""What is compared; the chunks of both upstreams, the work that a chunk costs, and the meter of waiting."""

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

__all__ = [
    "BOUNDS",
    "BYTE_WINDOW",
    "CHUNK_ROWS",
    "CONTROL",
    "EQUAL_COSTS",
    "LOCAL_CHUNKS",
    "PERMITS",
    "ROW_PERMITS",
    "SETUPS",
    "WIDE_BOUNDS",
    "WIDE_PERMITS",
    "Meter",
    "Setup",
    "Work",
    "filtered_chunk",
]

# The bounds before there were permits: chunks in a local channel, and HTTP/2's initial window.
LOCAL_CHUNKS = 16
BYTE_WINDOW = 64 << 10
# RisingWave's ROW_COUNT since 2023.
ROW_PERMITS = 2_048
# What a receiver keeps back, up to permit_batch - 1 rows, is missing in the join's next turn: here at most one chunk.
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


SCANNED_ROWS = 1_024
VISIBLE_SHARE = 0.05
CHUNK_ROWS = round(SCANNED_ROWS * VISIBLE_SHARE)


def filtered_chunk(row_bytes: int) -> pa.RecordBatch:
    """The visible rows of a chunk, each of so many bytes."""
    rows = pa.record_batch({"row": pa.array([bytes(row_bytes)] * SCANNED_ROWS, pa.binary(row_bytes))})
    is_visible = [number % (SCANNED_ROWS // CHUNK_ROWS) == 0 for number in range(SCANNED_ROWS)]
    return rows.filter(pa.array(is_visible)).slice(0, CHUNK_ROWS)


class Work:
    """A cost for each piece, spent asleep.

    A piece ends when it is due: what one sleep takes too long, the next ones make up for.  So a noisy machine changes
    the order of events a little, and rates hardly at all.
    """

    def __init__(self, seconds: float) -> None:
        """For each piece."""
        self._seconds = seconds
        self._due = 0.0

    def begin(self) -> None:
        """Waiting is over; what was not done meanwhile cannot be made up for."""
        self._due = time.monotonic()

    def do(self) -> None:
        """A piece, during which nothing else in this thread runs."""
        self._due += self._seconds
        time.sleep(max(0.0, self._due - time.monotonic()))

    async def do_beside_others(self) -> None:
        """A piece, during which other tasks run."""
        self._due += self._seconds
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))


class Meter:
    """The back-pressure rate: which share of the time a sender waits.  ``with meter: send()``."""

    def __init__(self) -> None:
        """Starts now."""
        self._waiting_since: float | None = None
        self.reset()

    def reset(self) -> None:
        """Begin anew, also in the middle of waiting."""
        self._began = time.monotonic()
        self._waited = 0.0
        if self._waiting_since is not None:
            self._waiting_since = self._began

    def __enter__(self) -> Self:
        """Waiting begins."""
        self._waiting_since = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Waiting ends."""
        since, self._waiting_since = self._waiting_since, None
        assert since is not None, "it has begun"
        self._waited += time.monotonic() - since

    def rate(self) -> float:
        """Between 0 and 1."""
        now, since = time.monotonic(), self._waiting_since
        waiting = self._waited + (now - since if since is not None else 0.0)
        return waiting / (now - self._began)
