"""Which chunks travel together, and as what: record batches into messages.

Small chunks that follow each other travel as the rows of one batch: joining and slicing them costs a fraction of what
encoding and decoding each of them would.  Large ones are not copied more often than needed.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import cast

import pyarrow as pa

from permitflow.flows.byte_window import Sums
from permitflow.flows.messages import Message
from permitflow.flows.seam import Parameters
from permitflow.stream.frames import Announcement, Chunks, Data, UpstreamFrame
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.arrow_compression import compressed
from permitflow.wire.buffers import Buffer
from permitflow.wire.codec import FULL_MESSAGE_BYTES, MOST_EMPTY_CHUNKS, EncodedChunks, WireFrame, checked_marker
from permitflow.wire.joined import JoinedChunks
from permitflow.wire.protobuf_values import encode_announcement

# A chunk below this size is copied, if necessary, into one batch with its neighbours.  A larger one joins them only
# if that copies nothing; else it is an IPC message of its own.
_SMALL_BYTES = 128 << 10
# A reader that holds one of the joined chunks keeps all of them in memory.
_JOINED_BYTES = 512 << 10
# One batch fills at most this share of the window: with more, the two ends would take turns instead of overlapping.
_WINDOW_SHARE = 2
# Of a flow without a window: the rows that are written before the peer can object.
_MOST_COLLECTED = 65_536


def collected_rows(parameters: Parameters, row_bytes: float | None = None) -> int:
    """How many rows are collected before the first ones are sent: a message full of them, if all have the same size."""
    most = _MOST_COLLECTED if parameters.window_rows is None else max(1, parameters.window_rows // _WINDOW_SHARE)
    return min(most, max(1, int(FULL_MESSAGE_BYTES / row_bytes))) if row_bytes else most


class _FixedSums:
    """``MessageWriter.most_sums`` where every row takes the same."""

    __slots__ = ("_empty_bytes", "_most_rows", "_row_bytes", "_rows")

    def __init__(self, rows: Sequence[int], row_bytes: float, empty_bytes: int, most_rows: int) -> None:
        self._rows, self._row_bytes, self._empty_bytes, self._most_rows = rows, row_bytes, empty_bytes, most_rows

    def __getitem__(self, count: int) -> int:
        rows = sum(self._rows[:count])
        size_bytes = math.ceil(rows * self._row_bytes)
        # A batch ends where the next chunk is too long for it, or large: so two neighbours have at least this much.
        in_pairs = size_bytes // _SMALL_BYTES + rows // self._most_rows + count // MOST_EMPTY_CHUNKS
        return size_bytes + min(count, 2 + 2 * in_pairs) * self._empty_bytes


class MessageWriter:
    """Prepares a session's posted frames for the codec; the chunks are record batches that ``batches`` accepts."""

    def __init__(self, batches: BatchCodec, parameters: Parameters) -> None:
        """Use the parameters of the agreement."""
        self._batches = batches
        self._flow = parameters.flow
        self._most_rows = collected_rows(parameters)
        # With rows of fixed size, the numbers of rows decide how chunks travel.
        self._row_bytes = row_bytes = batches.row_bytes if batches.can_join else None
        if row_bytes:
            self._small_rows = math.ceil(_SMALL_BYTES / row_bytes)
            # Chunks of at least this many rows are sent without a copy: they can be gathered, or are too large to copy.
            self._staying_rows = math.ceil(min(_SMALL_BYTES, batches.gathered_from_bytes) / row_bytes)
            self._rows_gathered = collected_rows(parameters, row_bytes)
            self._rows_in_copy = min(self._most_rows, int(_JOINED_BYTES / row_bytes))

    def most_sums(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Sums:
        """The sums of the most bytes that these chunks take, however they come to travel together."""
        if self._row_bytes:
            return _FixedSums(rows, self._row_bytes, self._batches.empty_bytes, self._most_rows)
        return [*accumulate(map(self._batches.most_bytes_of, run), initial=0)]

    def encoded(self, frames: Iterable[UpstreamFrame[object]]) -> Iterator[WireFrame]:
        """Encode the frames' chunks lazily: an encoded frame may leave before the next one is encoded.

        Raises:
            ChunkTooLargeError: a chunk does not fit into one message.
            InvalidParametersError: a barrier's or watermark's value cannot travel over the wire.
        """
        run: list[pa.RecordBatch] = []
        rows: list[int] = []
        for frame in frames:
            joined = frame.payloads if isinstance(frame, Chunks) else None
            if isinstance(frame, Chunks) and not isinstance(joined, JoinedChunks):
                run.extend(frame.payloads)
                rows.extend(frame.rows)
                continue
            yield from self._chunks(run, rows)
            run, rows = [], []
            if isinstance(joined, JoinedChunks):  # rows of one batch already
                yield self._as_sent(joined.rows, self._batches.encode([joined.batch], joined.num_rows))
            else:
                yield self._marked(frame)
        yield from self._chunks(run, rows)

    def _as_sent(self, rows: tuple[int, ...], arrow: Sequence[Buffer]) -> EncodedChunks:
        return EncodedChunks(rows, *compressed(arrow, self._batches.codec))

    def _chunks(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[EncodedChunks]:
        start = 0
        for stop in self._cuts(run, rows):
            yield from self._encoded(run[start:stop], tuple(rows[start:stop]))
            start = stop

    def _encoded(self, run: Sequence[pa.RecordBatch], rows: tuple[int, ...]) -> Iterator[EncodedChunks]:
        """Encode chunks as one batch, or as several if one batch would require a copy."""
        if len(run) > 1 and self._may_stay(rows):
            if (pieces := self._batches.gathered(run, sum(rows))) is not None:
                yield self._as_sent(rows, pieces)
                return
            yield from self._copied(run, rows)
            return
        yield self._as_sent(rows, self._batches.encode(run, sum(rows)))

    def _copied(self, run: Sequence[pa.RecordBatch], rows: Sequence[int]) -> Iterator[EncodedChunks]:
        """Encode chunks that cannot all be gathered: large ones singly, others joined into small batches."""
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
            stop = bisect_right(ends, before + most_rows, start + 1, min(len(ends), start + MOST_EMPTY_CHUNKS))
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
            if position > start and (is_full or position - start >= MOST_EMPTY_CHUNKS):
                yield position
                start, joined_rows = position, count
                joined_bytes = size if size < _SMALL_BYTES else _JOINED_BYTES
        if run:
            yield len(run)

    def _marked(self, frame: UpstreamFrame[object]) -> WireFrame:
        """Check the value of a frame other than chunks, and encode the flow's own frames."""
        if isinstance(frame, Announcement):
            return Announcement(encode_announcement(self._flow, frame.content))
        if not isinstance(frame, Data):
            return cast("WireFrame", frame)
        message = frame.message
        return Data(Message(message.kind, checked_marker(message.payload, name=message.kind.value)))
