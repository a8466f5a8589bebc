"""The calls of a sending end, the same over every carrier.  ``BulkSend`` documents each of them."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeAlias, TypeVar, cast

from permitflow.change import Change
from permitflow.channels.waiting import ParkedSend
from permitflow.chunks import tail
from permitflow.errors import PermitflowError, WouldBlock
from permitflow.flows.messages import Kind, Offered
from permitflow.flows.seam import Outbound

T = TypeVar("T")
Pieces: TypeAlias = Sequence[tuple[T, int, int | None]]
"""The pieces of a chunk, each with its rows and what it takes of the byte window; most chunks are one piece."""


class SendingEnd(ABC, Generic[T]):
    """Sends through the flow's end; a subclass says when that may be, and carries the messages."""

    _core: Outbound[T]
    _stopped_accepting: Change
    """Noted when no message may be sent any more."""

    # What a subclass adds.

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """May messages be sent?"""

    @abstractmethod
    def _refusal(self, undelivered: object) -> PermitflowError:
        """Why no message may be sent."""

    @abstractmethod
    def _cut(self, chunk: T, rows: int | None) -> Pieces[T]:
        """The pieces in which a chunk has to leave; raises if it is no chunk, or if ``rows`` contradicts it."""

    @abstractmethod
    def _send_one(self, chunk: T, rows: int | None) -> bool:
        """Send a usual chunk that may leave now; False: the long way decides."""

    @abstractmethod
    def _send_first(self, chunks: deque[T]) -> int:
        """Send the first chunks that may leave now, as many as are worth it; return how many.

        None leave while others wait, or unless the end is open.  The long way is for unusual chunks.
        """

    @abstractmethod
    def _queue(self, kind: Kind, payload: T, rows: int = 0, size_bytes: int | None = None) -> Offered[T]:
        """Let the flow queue a message."""

    @abstractmethod
    def _offer_watermark(self, value: T) -> None:
        """Let the flow keep a watermark until it may leave."""

    @abstractmethod
    def _line_up(self, offered: Sequence[Offered[T]]) -> ParkedSend[T]:
        """Queue a send; messages that may leave now have left."""

    @abstractmethod
    async def _leave(self, parked: ParkedSend[T]) -> None:
        """Wait until a queued send has left, or was refused; a cancellation withdraws it."""

    @abstractmethod
    def _advance(self) -> None:
        """Send the waiting messages that may leave."""

    @property
    @abstractmethod
    def _waiting_sends(self) -> int:
        """Sends that wait."""

    async def _make_room(self) -> None:
        """Wait while too much is sent and not written."""

    def _check_marker(self, payload: object, name: str) -> None:
        """Require a value that can be carried."""

    def _expect(self, chunks: deque[T]) -> None:
        """Note the chunks that will be sent next; none: no more are known."""

    # Sending.

    def send_nowait(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk now, whole or not at all."""
        pieces = self._cut(chunk, rows)
        self._require_open(chunk)
        self._require_first()
        core, rows_of_each = self._core, [rows for _, rows, _ in pieces]
        if core.admits(rows_of_each) < len(pieces):
            raise WouldBlock(core.lack(Kind.CHUNK, rows_of_each))
        sums = [*accumulate((size_bytes or 0 for _, _, size_bytes in pieces), initial=0)]
        if core.byte_ledger.fitting(sums, len(pieces)) < len(pieces):
            raise WouldBlock(core.byte_ledger.lack(sums[-1]))
        self._park(pieces)

    async def send(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk; wait until there are permits for it."""
        await self._make_room()
        if self._send_one(chunk, rows):
            return
        pieces = self._cut(chunk, rows)
        self._require_open(chunk)
        parked = self._park(pieces)
        await self._leave(parked)
        if parked.is_refused:
            raise self._refusal(tail(chunk, parked.sent_rows))

    async def send_many(self, chunks: deque[T]) -> None:
        """Send all chunks of a queue, from the left, until it is empty."""
        try:
            await self._send_all(chunks)
        finally:
            if chunks:
                self._expect(deque())

    async def _send_all(self, chunks: deque[T]) -> None:
        while chunks:
            await self._make_room()
            if sent := self._send_first(chunks):
                for _ in range(sent):
                    chunks.popleft()
                continue
            chunk = chunks[0]
            self._require_open(chunks)
            pieces = self._cut(chunk, None)
            self._require_open(chunks)  # asking a chunk for its rows may run any code
            self._expect(chunks)
            parked = self._park(pieces)
            try:
                await self._leave(parked)
            finally:
                if parked.sent:
                    chunks.popleft()
            if parked.is_refused:
                if parked.sent_rows:
                    chunks.appendleft(tail(chunk, parked.sent_rows))
                raise self._refusal(chunks)

    def _park(self, pieces: Pieces[T]) -> ParkedSend[T]:
        return self._line_up([self._queue(Kind.CHUNK, *piece) for piece in pieces])

    # Markers.

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now."""
        barrier = self._marker(payload, "barrier")
        self._require_first()
        if not self._core.admits_barrier():
            raise WouldBlock(self._core.lack(Kind.BARRIER))
        self._line_up((self._queue(Kind.BARRIER, barrier),))

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until every message before it has left, and there is a barrier permit."""
        self._check_marker(payload, "barrier")
        # Earlier chunks may wait too: without this, the barrier would overtake them.
        await self._make_room()
        barrier = self._marker(payload, "barrier")
        parked = self._line_up((self._queue(Kind.BARRIER, barrier),))
        await self._leave(parked)
        if parked.is_refused:
            raise self._refusal(payload)

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits."""
        self._offer_watermark(self._marker(value, "watermark"))
        self._advance()

    async def until_refused(self) -> PermitflowError:
        """Wait until no message may be sent any more, and return the error that ``send`` would raise."""
        await self._stopped_accepting.until(lambda: not self._is_open)
        return self._refusal(None)

    def _marker(self, payload: object, name: str) -> T:
        """The payload of a barrier or watermark, which has to be able to leave."""
        self._check_marker(payload, name)
        self._require_open(payload)
        return cast("T", payload)  # Message.kind tells that it is not a chunk

    def _require_open(self, undelivered: object) -> None:
        if not self._is_open:
            raise self._refusal(undelivered)

    def _require_first(self) -> None:
        """Require that no task waits to send."""
        if waiting := self._waiting_sends:
            raise WouldBlock(f"{waiting} sends wait before this one")
