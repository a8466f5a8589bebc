"""Chunks that came as the rows of one batch, and are cut off it only where somebody asks for a single one.

Slicing a batch of small chunks, and making a message of each slice, is most of what receiving them takes; and a
vectorised reader joins them again.  So ``FoldedChunks`` stands in the inbox of an end for each chunk of such a
batch.  A joined read hands the batch over as ``JoinedChunks``; every other way to receive comes after ``unfold``.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, takewhile
from typing import NamedTuple, cast

import pyarrow as pa

from permitflow.protocol.flow import Inbound
from permitflow.protocol.frames import Chunks, UpstreamFrame
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import LONE_BODY_AT, EncodedChunks, WireFrame, decode_upstream, lone_chunks

__all__ = ["Arrivals", "FoldedChunks", "JoinedChunks", "oldest_joined", "unfold", "whole_batch"]

# Of neighbours that came one by one: smaller batches cost their reader more than a copy of them costs here.
_COPIED_BELOW_BYTES = 16 << 10
# Whoever keeps some of these rows keeps all.
_COPIED_BYTES = 512 << 10


@dataclass(slots=True, eq=False)
class JoinedChunks:
    """Chunks that follow each other, as the rows of one batch; iterating over it yields each of them as a slice.

    Nothing changes it; frozen, it would take three times as long to make, for every read.
    """

    batch: pa.RecordBatch
    """The rows of all of them, in order."""
    rows: tuple[int, ...]
    """Of each chunk.  There is at least one; a chunk may be empty."""

    @property
    def num_rows(self) -> int:
        """Rows of all chunks together."""
        count: int = self.batch.num_rows
        return count

    def __len__(self) -> int:
        """How many chunks there are."""
        return len(self.rows)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Each chunk, cut off when it is asked for; it keeps all of the batch in memory."""
        return map(self.batch.slice, accumulate(self.rows, initial=0), self.rows)


class FoldedChunks:
    """Stands in an inbox for each chunk of a batch; knows how many of them were handed over as ``JoinedChunks``."""

    __slots__ = ("_ends", "_next", "_next_row", "batch", "rows")

    def __init__(self, batch: pa.RecordBatch, rows: Sequence[int]) -> None:
        """The rows of its chunks are those of the batch."""
        self.batch = batch
        self.rows = tuple(rows)
        self._ends: Sequence[int] = ()
        self._next = self._next_row = 0

    def __len__(self) -> int:
        """How many chunks were not handed over."""
        return len(self.rows) - self._next

    def fitting(self, count: int, max_rows: int) -> int:
        """How many of the first so many of these have at most ``max_rows`` together."""
        if count == len(self) and self.batch.num_rows - self._next_row <= max_rows:
            return count
        # Once for all parts of a batch, however many there are.
        self._ends = self._ends or tuple(accumulate(self.rows))
        return bisect_right(self._ends, self._next_row + max_rows, self._next, self._next + count) - self._next

    def cut(self, count: int) -> Iterator[pa.RecordBatch]:
        """The first so many of these, each as a slice."""
        rows = self.rows[self._next : self._next + count]
        return map(self.batch.slice, accumulate(rows, initial=self._next_row), rows)

    def joined(self, count: int) -> JoinedChunks:
        """The first so many of these; that changes nothing here."""
        if count == len(self.rows):
            return JoinedChunks(self.batch, self.rows)
        rows = self.rows[self._next : self._next + count]
        return JoinedChunks(self.batch.slice(self._next_row, sum(rows)), rows)

    def note_handed_over(self, joined: JoinedChunks) -> None:
        """What ``joined`` has shown is the reader's."""
        self._next += len(joined)
        self._next_row += joined.num_rows


def unfold(receiver: Inbound[object], newest: int) -> None:
    """Let every chunk that was not taken be a batch of its own; only so many of the newest messages may lie folded.

    What was unfolded before is not looked at again: a slow consumer may have a whole window of it.
    """
    entries = list(islice(reversed(receiver.payloads), min(newest, receiver.untaken)))
    entries.reverse()
    receiver.replace_newest(_unfolded(entries))


def _unfolded(entries: Sequence[object]) -> list[object]:
    """Entries of an inbox, with each chunk as a batch of its own."""
    unfolded: list[object] = []
    position = 0
    while position < len(entries):
        position += _append_unfolded(unfolded, entries, position)
    return unfolded


def _append_unfolded(unfolded: list[object], entries: Sequence[object], position: int) -> int:
    """Append the entry here, or all of one batch with each chunk as a batch of its own; say how many they are."""
    if (folded := _folded(entries[position])) is None:
        unfolded.append(entries[position])
        return 1
    count = _count_here(entries, position, folded)
    run, chunks = entries[position : position + count], folded.cut(count)
    unfolded.extend(chunks if run.count(folded) == count else map(_in_place_of, run, chunks))
    return count


def _in_place_of(entry: object, chunk: pa.RecordBatch) -> object:
    return Message(entry.kind, chunk, entry.rows) if isinstance(entry, Message) else chunk


def _folded(entry: object) -> FoldedChunks | None:
    """What stands for the chunk of this entry; an empty chunk is a whole message."""
    payload = entry.payload if isinstance(entry, Message) else entry
    return payload if isinstance(payload, FoldedChunks) else None


def _count_here(entries: Sequence[object], position: int, folded: FoldedChunks) -> int:
    """How many of the chunks that were not handed over are here: of a peer that broke the rules, perhaps not all."""
    count = len(folded)
    if position + count <= len(entries) and _folded(entries[position + count - 1]) is folded:
        return count
    return sum(1 for _ in takewhile(lambda entry: _folded(entry) is folded, islice(entries, position, None)))


class _Part(NamedTuple):
    """Chunks of one batch that follow each other in an inbox."""

    folded: FoldedChunks
    joined: JoinedChunks
    is_all: bool
    """Is nothing of the batch left behind them?"""


class OldestChunks(NamedTuple):
    """The oldest chunks that were not taken, as far as they are rows of one batch; nothing was changed by looking."""

    joined: JoinedChunks
    parts: Sequence[_Part]

    def note_handed_over(self) -> None:
        """They are the reader's, who tells the receiver so as well."""
        for part in self.parts:
            part.folded.note_handed_over(part.joined)


def whole_batch(entries: Sequence[object], codec: BatchCodec, max_rows: int | None) -> JoinedChunks | None:
    """The oldest chunks, if one look shows that they are all of a batch; else ``oldest_joined`` has to look closer.

    Args:
        entries: of an inbox of which nothing was taken; there is at least one.
        codec: of the stream; where it can join, a small batch with something behind it has to be looked at closer.
        max_rows: of all these chunks together; the first one alone may have more.
    """
    oldest = entries[0]
    rows: tuple[int, ...]
    if isinstance(oldest, pa.RecordBatch):
        batch, rows = oldest, (oldest.num_rows,)
    elif isinstance(oldest, FoldedChunks):
        batch, rows = oldest.batch, oldest.rows
        if len(entries) < len(rows) or entries[len(rows) - 1] is not oldest:
            return None
        if max_rows is not None and batch.num_rows > max_rows:
            return None
    else:
        return None
    if len(entries) > len(rows) and codec.can_join and codec.size_of(batch) < _COPIED_BELOW_BYTES:
        return None
    return JoinedChunks(batch, rows)


def oldest_joined(receiver: Inbound[object], codec: BatchCodec, max_rows: int | None) -> OldestChunks | None:
    """Look at the oldest chunks that were not taken; None if the oldest message is no chunk.

    Args:
        receiver: something in it was not taken.
        codec: of the stream; where it can join, small batches that are here are copied into one.
        max_rows: of all these chunks together; the first one alone may have more.
    """
    payloads = receiver.payloads
    position = len(payloads) - receiver.untaken
    first = _part_at(payloads, position, max_rows, least=1)
    if first is None:
        return None
    parts = [first]
    if codec.can_join and len(first.joined) < receiver.untaken:
        parts += _small_parts(payloads, position, codec, max_rows, first)
    return OldestChunks(_copied(parts), parts)


def _small_parts(
    entries: Sequence[object], position: int, codec: BatchCodec, max_rows: int | None, part: _Part
) -> Iterator[_Part]:
    """What follows a part as long as all are small, and few."""
    rows = size_bytes = 0
    while part.is_all:
        part_bytes = codec.size_of(part.joined.batch)
        position += len(part.joined)
        rows += part.joined.num_rows
        size_bytes += part_bytes
        if part_bytes >= _COPIED_BELOW_BYTES or size_bytes >= _COPIED_BYTES or position == len(entries):
            return
        following = _part_at(entries, position, None if max_rows is None else max_rows - rows, least=0)
        if following is None or codec.size_of(following.joined.batch) >= _COPIED_BELOW_BYTES:
            return
        yield (part := following)


def _part_at(entries: Sequence[object], position: int, max_rows: int | None, least: int) -> _Part | None:
    """The chunks from here on that are rows of one batch, at least so many of them; None if that would be none."""
    entry = entries[position]
    if isinstance(entry, Message) and entry.kind is not Kind.CHUNK:
        return None
    if (folded := _folded(entry)) is None:
        batch: pa.RecordBatch = entry.payload if isinstance(entry, Message) else entry
        folded = FoldedChunks(batch, (batch.num_rows,))
        here = 1
    else:
        here = _count_here(entries, position, folded)
    count = here if max_rows is None else max(least, folded.fitting(here, max_rows))
    return _Part(folded, folded.joined(count), count == here) if count else None


def _copied(parts: Sequence[_Part]) -> JoinedChunks:
    if len(parts) == 1:
        return parts[0].joined
    rows = chain.from_iterable(part.joined.rows for part in parts)
    return JoinedChunks(pa.concat_batches([part.joined.batch for part in parts]), tuple(rows))


class Arrivals(ABC):
    """A part of a receiving end: from a message of the carrier to what lies in the session's inbox."""

    _session: DownstreamSession[object]
    _batches: BatchCodec | None
    # Of the messages that are here, so many of the newest may lie joined in one batch.
    _newest_folded = 0

    def _take_in(self, message: Received) -> None:
        """Take a message of the peer in."""
        view, batches = memoryview(message), self._batches
        said = lone_chunks(bytes(view[:LONE_BODY_AT]), len(view))
        if said is None or batches is None:
            self._take_frames(view)
        else:
            self._take_chunks(batches, said, view[LONE_BODY_AT:])

    def _take_chunks(self, batches: BatchCodec, rows: Sequence[int], arrow: Buffer) -> None:
        count = len(rows)
        self._session.require_room(count)
        batch = batches.decode(arrow, rows)
        if count > 1 or self._newest_folded:
            self._newest_folded += count  # before they are here: what runs meanwhile must know that they lie folded
        payloads = (batch,) if count == 1 else [FoldedChunks(batch, rows)] * count
        self._session.receive_chunks(payloads, rows)

    def _take_frames(self, message: Received) -> None:
        for frame in decode_upstream(message):
            if not isinstance(frame, EncodedChunks):
                if self._newest_folded:
                    self._newest_folded += 1  # it does no harm where the frame is no message
                self._session.receive(cast("UpstreamFrame[object]", frame))
                self._note(frame)
            elif self._batches is None:
                self._session.receive(Chunks((), frame.rows))  # before the agreement: it refuses them
            else:
                (arrow,) = frame.arrow
                self._take_chunks(self._batches, frame.rows, arrow)

    @abstractmethod
    def _note(self, frame: WireFrame) -> None:
        """The session has taken a frame that is no chunks."""

    def _unfold(self) -> None:
        """Let each chunk that is here be a batch of its own."""
        unfold(self._session.inbound, self._newest_folded)
        self._newest_folded = 0
