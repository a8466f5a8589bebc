"""What the receiving ends of a stream do with a message that comes: for asyncio and for blocking callers alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import LONE_BODY_AT, EncodedChunks, WireFrame, decode_upstream, lone_chunks
from permitflow.transports.joined import FoldedChunks, unfold
from permitflow.transports.trains import with_batches

__all__ = ["RESIDUE_SECONDS", "Arrivals"]

RESIDUE_SECONDS = 0.02
"""So long the residue of an idle receiver may wait for more: docs/decisions/0035-a-residue-may-wait.md."""


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
            self._newest_folded += count  # also of those that will be refused: some of them may get in before
        payloads = (batch,) if count == 1 else [FoldedChunks(batch, rows)] * count
        self._session.receive_chunks(payloads, rows)

    def _take_frames(self, message: Received) -> None:
        for frame in decode_upstream(message):
            if self._batches is not None and isinstance(frame, EncodedChunks):
                (arrow,) = frame.arrow
                self._take_chunks(self._batches, frame.rows, arrow)
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
        unfold(self._session.inbound, self._newest_folded)
        self._newest_folded = 0
