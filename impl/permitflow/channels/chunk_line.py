"""Chunks that wait for permits in a local channel, and whether a chunk may leave without asking."""

from typing import TypeVar

from permitflow.channels.waiting import BURST, ParkedSend, ReceiveLine, SendLine, Stopwatch
from permitflow.protocol.messages import Offered
from permitflow.protocol.sender import PermitSender

__all__ = ["ChunkLine"]

T = TypeVar("T")


class ChunkLine(SendLine[T]):
    """Chunks that wait, oldest first; before them, perhaps, one whose task lets all others have a turn of the loop.

    That one is not in the line and not offered yet, because nobody needs to know of it: most often its permits are
    back after the turn.  Whoever comes meanwhile gives it its place first (``seat``).
    """

    __slots__ = ("_is_open", "_seated", "_sender", "_sent_before", "_takers", "_waiting", "at_once", "turning")

    def __init__(self, sender: PermitSender[T], takers: ReceiveLine[T], waiting: Stopwatch) -> None:
        """Nobody waits."""
        super().__init__(sender.sendable_chunks, sender.send_chunk, sender.withdraw, takers.deliver)
        self.at_once = sender.largest_at_once
        """The largest chunk that may leave unasked; 0 while anybody waits at either end, or once the stream is over."""
        self._sender = sender
        self._takers = takers
        self._waiting = waiting
        self._is_open = True
        self._sent_before = 0
        self.turning: tuple[T, int] | None = None
        """What lets others have a turn, and its rows: to be asked before ``seat``, by those who ask for each chunk."""
        self._seated: ParkedSend[T] | None = None

    def reckon(self) -> None:
        """Somebody has left one of the lines: may chunks leave unasked again?"""
        is_free = self._is_open and self.turning is None and not (self.parked or self._takers.futures)
        self.at_once = self._sender.largest_at_once if is_free else 0

    def close(self) -> None:
        """The stream is over: nothing leaves unasked any more."""
        self.seat()
        self._is_open = False
        self.at_once = 0

    def stand(self, offered: list[Offered[T]]) -> ParkedSend[T]:
        """Stand at the end of the line with what the core was offered."""
        parked = ParkedSend(offered)
        self.parked.append(parked)
        self.at_once = 0
        return parked

    # Turns.

    def begin_turn(self, chunk: T, rows: int) -> bool:
        """Let a send that has to wait try again after a turn of the loop, if that is worth while.

        It is if a burst of chunks has left since the last wait: then the receiver is busy, and may soon return permits.
        """
        sent = self._sender.sent_chunks
        before, self._sent_before = self._sent_before, sent
        if sent - before < BURST or not 0 < rows <= self.at_once:
            return False
        self.at_once = 0
        self.turning = chunk, rows
        waiting = self._waiting  # as ``start``, without its call
        if not waiting.running:
            waiting.since = waiting.clock()
        waiting.running += 1
        return True

    def end_turn(self) -> ParkedSend[T] | None:
        """The turn is over; the place in the line, if somebody came meanwhile."""
        waiting = self._waiting  # as ``stop``, without its call
        waiting.running -= 1
        if not waiting.running:
            waiting.total += waiting.clock() - waiting.since
        if self.turning is not None:
            self.turning = None
            if not self._takers.futures:  # as ``reckon``: nobody came to the line, and nobody has closed it
                self.at_once = self._sender.largest_at_once
            return None
        parked, self._seated = self._seated, None
        return parked

    def abandon_turn(self) -> bool:
        """The send that let others have a turn was cancelled; did it leave a place in the line?"""
        parked = self.end_turn()
        if parked is None:
            return False
        self.give_up(parked)
        self.reckon()
        return True

    def seat(self) -> None:
        """Somebody comes: give the send that lets others have a turn its place, which is before them."""
        if self.turning is None:
            return
        chunk, rows = self.turning
        self.turning = None
        self._seated = self.stand([self._sender.offer_chunk(chunk, rows)])
