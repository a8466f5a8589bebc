"""What the receiving ends of a stream do with a message that comes: for asyncio and for blocking callers alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import LONE_BODY_AT, decode_upstream, lone_chunks
from permitflow.transports.joined import FoldedChunks, unfold
from permitflow.transports.payloads import EncodedChunks, WireFrame
from permitflow.transports.trains import residue_waits_below_rows, with_batches

__all__ = ["RESIDUE_SECONDS", "Arrivals"]

RESIDUE_SECONDS = 0.02
"""So long the residue of an idle receiver may wait for more: docs/decisions/0035-a-residue-may-wait.md."""


class _Alike:
    """What is known of every message that begins like the last chunk that came alone, and is as long."""

    __slots__ = ("batches", "front", "is_seen", "is_sound", "permits", "rows", "size_bytes")

    def __init__(self, batches: BatchCodec, front: bytes, size_bytes: int, rows: int, permits: int) -> None:
        """It is one chunk, and was accepted.

        Args:
            batches: has decoded it.
            front: how it begins: all but its values.
            size_bytes: of all of it.
            rows: of the chunk.
            permits: that it holds.
        """
        self.batches = batches
        self.front = front
        self.size_bytes = size_bytes
        self.rows = rows
        self.permits = permits
        self.is_seen = self.is_sound = False
        """Has another one come?  And is any valid, whatever its values are?"""


class Arrivals(ABC):
    """A part of a receiving end: from a message of the carrier to what lies in the session's inbox."""

    _session: DownstreamSession[object]
    _batches: BatchCodec | None
    # Of the messages that are here, so many of the newest may lie joined in one batch.
    _newest_folded = 0
    _alike: _Alike | None = None
    _residue_waits_below_rows = 0

    def _note_parameters(self, parameters: ChannelParameters) -> None:
        self._residue_waits_below_rows = residue_waits_below_rows(parameters)

    @property
    def _may_residue_wait(self) -> bool:
        """May an idle receiver keep what is less than a batch for a moment, instead of returning it with each chunk?"""
        session = self._session
        return 0 < session.receiver.unreturned < self._residue_waits_below_rows and session.end is None

    def _take_in(self, message: Received) -> None:
        """Take a message of the peer in."""
        alike = self._alike
        if alike is None or len(message) != alike.size_bytes:
            self._take_other(message)
        elif type(message) is bytes and message.startswith(alike.front):
            batch = alike.batches.decode_alike(memoryview(message)[LONE_BODY_AT:], alike.rows, is_sound=alike.is_sound)
            if not alike.is_seen:
                alike.is_seen, alike.is_sound = True, alike.batches.is_sound(batch)
            if self._newest_folded:
                self._newest_folded += 1
            self._session.receive_chunk(batch, alike.rows, alike.permits)
        else:
            self._take_other(message)

    def _take_other(self, message: Received) -> None:
        """Take in what is not like the last chunk that came alone."""
        view, batches = memoryview(message), self._batches
        said = lone_chunks(bytes(view[:LONE_BODY_AT]), len(view))
        if said is None or batches is None:
            self._take_frames(view)
            return
        rows, permits = said
        self._take_chunks(batches, rows, permits, view[LONE_BODY_AT:])
        if len(rows) == 1 and type(message) is bytes and (known_bytes := batches.known_bytes):
            front = message[: LONE_BODY_AT + known_bytes]
            self._alike = _Alike(batches, front, len(message), rows[0], permits)

    def _take_chunks(self, batches: BatchCodec, rows: Sequence[int], permits: int, arrow: Buffer) -> None:
        count = len(rows)
        self._session.require_permits(count)
        batch = batches.decode(arrow, rows)
        if count > 1 or self._newest_folded:
            self._newest_folded += count  # also of those that will be refused: some of them may get in before
        payloads = (batch,) if count == 1 else [FoldedChunks(batch, rows)] * count
        self._session.receive_chunks(payloads, rows, permits)

    def _take_frames(self, message: Received) -> None:
        for frame in decode_upstream(message):
            if self._batches is not None and isinstance(frame, EncodedChunks):
                (arrow,) = frame.arrow
                self._take_chunks(self._batches, frame.rows, frame.permits, arrow)
                continue
            if self._newest_folded:
                self._newest_folded += 1  # it does no harm where the frame is no message
            self._session.receive(with_batches(frame, self._batches))
            self._note(frame)

    @abstractmethod
    def _note(self, frame: WireFrame) -> None:
        """The session has taken a frame that is no chunks."""

    def _unfold(self) -> None:
        """Let each chunk that is here be a batch of its own."""
        unfold(self._session.receiver, self._newest_folded)
        self._newest_folded = 0
