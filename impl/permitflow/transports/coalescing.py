"""Which chunks travel together, and as what: record batches into messages.

Small chunks that follow each other travel as the rows of one batch: joining and slicing them costs a fraction of what
encoding and decoding each of them would.  Large ones are not copied more often than needed.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import cast

import pyarrow as pa

from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Chunks, Data, UpstreamFrame
from permitflow.protocol.messages import Message
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.arrow_compression import compressed
from permitflow.transports.carrier import Buffer
from permitflow.transports.codec import (
    FULL_MESSAGE_BYTES,
    EncodedChunks,
    WireFrame,
    checked_marker,
    encode_batch,
    encode_upstream,
)
from permitflow.transports.joined import JoinedChunks

__all__ = [
    "MessageWriter",
    "collected_rows",
    "even_rows",
    "rows_in_message",
    "rows_in_whole_batches",
]


# Below this size a chunk is copied, if need be, to travel as rows of one batch with its neighbours.  A larger one
# travels so only where nothing is copied for that; else it is an IPC message of its own.
_SMALL_BYTES = 128 << 10
# Whoever holds one of the joined chunks keeps all of them in memory.
_JOINED_BYTES = 512 << 10
_JOINED_CHUNKS = 8_192
# More than this share of the window in one batch, and the two ends would take turns instead of working side by side.
_WINDOW_SHARE = 2
# Of a flow that has no window: what is written before the peer can say that it is too much.
_MOST_COLLECTED = 65_536
_NO_LIMIT = 1 << 62
# A stream's chunks are of a few lengths.
_CHUNK_SIZES = 64


def collected_rows(parameters: Parameters) -> int:
    """How many rows are collected before the first of them leave."""
    return _MOST_COLLECTED if parameters.window_rows is None else max(1, parameters.window_rows // _WINDOW_SHARE)


def rows_in_message(row_bytes: float | None) -> int:
    """About how many rows fill a message; without a limit where that depends on the rows."""
    return max(1, int(FULL_MESSAGE_BYTES / row_bytes)) if row_bytes else _NO_LIMIT


@lru_cache(maxsize=_CHUNK_SIZES)
def rows_in_whole_batches(rows: int, row_bytes: float | None) -> int:
    """How many rows fill a message with whole batches of joined chunks, where all chunks have so many ``rows``.

    What is sent at once and needs a message and a bit would leave as a full one and a short one, each for the price
    of one.
    """
    in_batch = int(_JOINED_BYTES / row_bytes) // rows * rows if row_bytes and rows else 0
    if not in_batch or not row_bytes:
        return _NO_LIMIT
    return max(1, int(FULL_MESSAGE_BYTES / (in_batch * row_bytes))) * in_batch


@lru_cache(maxsize=_CHUNK_SIZES)
def even_rows(rows: int, most_rows: int, window_rows: int) -> int:
    """How many rows fill a message, where that has at most ``most_rows`` and all chunks have so many ``rows``.

    A window of full messages and a bit takes as many as one of even ones.  The bit would stay one, because as many
    rows leave as come back.
    """
    in_window, most = window_rows // rows, most_rows // rows
    if most < 2:
        return _NO_LIMIT
    messages = -(-in_window // most)
    return -(-in_window // messages) * rows


class MessageWriter:
    """Prepares what a session has posted for the codec; the chunks are record batches, accepted by ``batches``."""

    def __init__(self, batches: BatchCodec, parameters: Parameters) -> None:
        """Of the agreement."""
        self._batches = batches
        self._window_rows = parameters.window_rows
        self._most_rows = collected_rows(parameters)
        # Where a row takes the same in each chunk, numbers of rows tell how chunks are to travel.
        self._row_bytes = row_bytes = batches.row_bytes if batches.can_join else None
        if row_bytes:
            self._small_rows = math.ceil(_SMALL_BYTES / row_bytes)
            # Chunks of so many are so large that columns can be sent from where they lie, or are not worth a copy.
            self._staying_rows = math.ceil(min(_SMALL_BYTES, batches.gathered_from_bytes) / row_bytes)
            self._rows_gathered = min(self._most_rows, int(FULL_MESSAGE_BYTES / row_bytes))
            self._rows_in_copy = min(self._most_rows, int(_JOINED_BYTES / row_bytes))

    def message_rows(self, rows: int) -> int:
        """How many rows are worth a message of their own, where all chunks have so many ``rows``."""
        if not self._row_bytes or rows < self._staying_rows:
            return rows_in_whole_batches(rows, self._row_bytes)
        if self._rows_gathered == self._most_rows or self._window_rows is None:
            return _NO_LIMIT
        return even_rows(rows, self._rows_gathered, self._window_rows)

    def encoded(self, frames: Iterable[UpstreamFrame[object]]) -> Iterator[WireFrame]:
        """The frames with their chunks in bytes, lazily: what was encoded may leave before the rest is.

        Raises:
            ChunkTooLargeError: a chunk does not fit into one message.
            InvalidParametersError: a barrier or watermark carries something that the wire does not.
        """
        run: list[pa.RecordBatch] = []
        rows: list[int] = []
        for frame in frames:
            if isinstance(frame, Chunks):
                run.extend(frame.payloads)
                rows.extend(frame.rows)
            else:
                yield from self._chunks(run, rows)
                run, rows = [], []
                yield _marked(frame)
        yield from self._chunks(run, rows)

    def messages(self, chunks: Chunks[object]) -> Iterable[list[Buffer]]:
        """Chunks that travel alone, in messages: what ``encoded`` and ``encode_upstream`` make of them.

        Nearly always they become the rows of one batch, and that in fewer steps.

        Raises:
            ChunkTooLargeError: as for ``encoded``.
        """
        rows = tuple(chunks.rows)
        total, arrow = sum(rows), None
        run = [chunks.payloads.batch] if isinstance(chunks.payloads, JoinedChunks) else chunks.payloads
        if len(run) == 1:
            arrow = self._batches.encode(run, total)
        elif self._row_bytes and min(rows) >= self._staying_rows:
            if total <= self._rows_gathered and (arrow := self._batches.gathered(run, total)) is None:
                return encode_upstream(self._copied(run, rows))
        elif self._row_bytes and max(rows) < self._small_rows and len(rows) <= _JOINED_CHUNKS:
            arrow = self._batches.encode(run, total) if total <= self._rows_in_copy else None
        if arrow is None:
            return encode_upstream(self._chunks(run, rows))
        return (encode_batch(self._as_sent(rows, arrow)),)

    def _as_sent(self, rows: tuple[int, ...], arrow: Sequence[Buffer]) -> EncodedChunks:
        return EncodedChunks(rows, *compressed(arrow, self._batches.codec))

    def _chunks(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[EncodedChunks]:
        start = 0
        for stop in self._cuts(run, rows):
            yield from self._encoded(run[start:stop], tuple(rows[start:stop]))
            start = stop

    def _encoded(self, run: Sequence[pa.RecordBatch], rows: tuple[int, ...]) -> Iterator[EncodedChunks]:
        """Chunks as one batch, or as several where they would have to be copied for that."""
        if len(run) > 1 and self._may_stay(rows):
            if (pieces := self._batches.gathered(run, sum(rows))) is not None:
                yield self._as_sent(rows, pieces)
                return
            yield from self._copied(run, rows)
            return
        yield self._as_sent(rows, self._batches.encode(run, sum(rows)))

    def _copied(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[EncodedChunks]:
        """Chunks of which not all could stay where they are: large ones singly, others as rows of small batches."""
        row_bytes = self._batches.row_bytes or _JOINED_BYTES
        most_rows = 0 if max(rows) * row_bytes >= _SMALL_BYTES else int(_JOINED_BYTES / row_bytes)
        start = 0
        for stop in self._cuts_by_rows(rows, min(self._most_rows, most_rows)):
            part = tuple(rows[start:stop])
            yield self._as_sent(part, self._batches.encode(run[start:stop], sum(part)))
            start = stop

    def _may_stay(self, rows: Sequence[int]) -> bool:
        return bool(self._row_bytes) and min(rows) >= self._staying_rows

    def _cuts(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[int]:
        """Where one batch ends and the next one begins."""
        if len(run) == 1:
            return iter((1,))
        if run and self._row_bytes:
            if self._may_stay(rows):
                return self._cuts_by_rows(rows, self._rows_gathered)
            if max(rows) < self._small_rows:
                return self._cuts_by_rows(rows, self._rows_in_copy)
        return self._cuts_by_size(run, rows)

    def _cuts_by_rows(self, rows: Sequence[int], most_rows: int) -> Iterator[int]:
        ends = list(accumulate(rows))
        stop = before = 0
        while stop < len(ends):
            start = stop
            stop = bisect_right(ends, before + most_rows, start + 1, min(len(ends), start + _JOINED_CHUNKS))
            before = ends[stop - 1]
            yield stop

    def _cuts_by_size(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[int]:
        can_join, size_of = self._batches.can_join, self._batches.size_of
        start = joined_rows = joined_bytes = 0
        for position, (batch, count) in enumerate(zip(run, rows, strict=True)):
            size = size_of(batch) if can_join else _SMALL_BYTES
            joined_rows += count
            joined_bytes += size if size < _SMALL_BYTES else _JOINED_BYTES
            is_full = joined_rows > self._most_rows or joined_bytes >= _JOINED_BYTES
            if position > start and (is_full or position - start >= _JOINED_CHUNKS):
                yield position
                start, joined_rows = position, count
                joined_bytes = size if size < _SMALL_BYTES else _JOINED_BYTES
        if run:
            yield len(run)


def _marked(frame: UpstreamFrame[object]) -> WireFrame:
    """What is no chunks, as the wire takes it."""
    if not isinstance(frame, Data):
        return cast("WireFrame", frame)
    message = frame.message
    return Data(Message(message.kind, checked_marker(message.payload, name=message.kind.value)))
