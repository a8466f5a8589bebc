"""Chunks that came as the rows of one batch, which is sliced only if the reader asks for a single chunk.

Slicing a batch of small chunks into messages is most of the cost of receiving them; and a vectorised reader joins
them again.  So an end's inbox holds such a batch as it came, as a run of its chunks.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import cast, overload

import pyarrow as pa

from permitflow.flows.messages import Message
from permitflow.flows.seam import Inbound
from permitflow.wire.arrow import BatchCodec

# Of neighbours that came singly: smaller batches cost their reader more than copying them costs here.
_COPIED_BELOW_BYTES = 16 << 10
# A reader that keeps some of these rows keeps all.
_COPIED_BYTES = 512 << 10


class JoinedChunks(Sequence[pa.RecordBatch]):
    """Consecutive chunks as the rows of one batch; the batch is sliced when a chunk is read.

    Immutable.  A sliced chunk keeps the whole batch in memory.
    """

    __slots__ = ("_chunks", "_sums", "batch", "rows")

    batch: pa.RecordBatch
    """The rows of all chunks, in order."""
    rows: tuple[int, ...]
    """The rows of each chunk, at least one chunk; a chunk may be empty."""

    def __init__(self, batch: pa.RecordBatch, rows: tuple[int, ...]) -> None:
        self.batch = batch
        self.rows = rows
        self._chunks: list[pa.RecordBatch] = [batch] if len(rows) == 1 else []
        self._sums: tuple[int, ...] = ()

    def _ends(self) -> tuple[int, ...]:
        # Summed once for all slices.
        self._sums = self._sums or tuple(accumulate(self.rows, initial=0))
        return self._sums

    @property
    def num_rows(self) -> int:
        """Rows of all chunks together."""
        count: int = self.batch.num_rows
        return count

    def __len__(self) -> int:
        """The number of chunks."""
        return len(self.rows)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._chunks:
            return iter(self._chunks)
        return map(self.batch.slice, accumulate(self.rows, initial=0), self.rows)

    @overload
    def __getitem__(self, at: int) -> pa.RecordBatch: ...
    @overload
    def __getitem__(self, at: slice) -> "JoinedChunks": ...
    def __getitem__(self, at: int | slice) -> "pa.RecordBatch | JoinedChunks":
        """A chunk, or a range of chunks."""
        if isinstance(at, int):
            # All at once: the reader will ask for the next ones as well.
            self._chunks = self._chunks or list(self)
            return self._chunks[at]
        places = range(len(self.rows))[at]
        if places.step != 1:
            raise ValueError(f"chunks of one batch follow each other: there is no slice of every {places.step}th")
        if len(places) == len(self.rows):
            return self
        rows = self.rows[places.start : places.stop]
        return JoinedChunks(self.batch.slice(self._ends()[places.start], sum(rows)), rows)

    def part(self, start: int, max_rows: int | None) -> "JoinedChunks":
        """The chunks from ``start`` on, at least one, with at most ``max_rows`` rows together."""
        if max_rows is None or self.num_rows <= max_rows:
            return self[start:]
        ends = self._ends()
        return self[start : max(start + 1, bisect_right(ends, ends[start] + max_rows, start + 1) - 1)]


def oldest_joined(receiver: Inbound[object], codec: BatchCodec, max_rows: int | None) -> JoinedChunks | None:
    """The oldest untaken chunks that are rows of one batch; None if the oldest message is not a chunk.

    Args:
        receiver: holds an untaken message; it is not changed.
        codec: of the stream; if it can join, small batches in the inbox are copied into one.
        max_rows: of all these chunks together; the first one alone may have more.
    """
    parts: list[JoinedChunks] = []
    rows = size_bytes = 0
    for run in receiver.runs:
        if isinstance(run, Message):
            break
        chunks, start = cast("JoinedChunks", run[0]), run[2]
        left = None if max_rows is None else max_rows - rows
        if parts and left is not None and chunks.rows[start] > left:
            break
        part = chunks.part(start, left)
        if not parts and (not codec.can_join or len(part) == receiver.untaken):
            return part
        part_bytes = codec.size_of(part.batch)
        if parts and part_bytes >= _COPIED_BELOW_BYTES:
            break
        parts.append(part)
        rows += part.num_rows
        size_bytes += part_bytes
        is_all = len(part) == len(chunks) - start
        if not is_all or part_bytes >= _COPIED_BELOW_BYTES or size_bytes >= _COPIED_BYTES:
            break
    if len(parts) < 2:
        return parts[0] if parts else None
    joined = pa.concat_batches([part.batch for part in parts])
    return JoinedChunks(joined, tuple(chain.from_iterable(part.rows for part in parts)))
