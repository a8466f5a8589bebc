"""The byte window: how many bytes may be in a channel at once, whatever its flow says about rows.

It is a second ledger beside the flow's own, one for all flows; a chunk leaves when both admit it.  Nothing is created
and nothing is lost:

    outstanding  =  on the way  +  in the inbox  +  unreturned  +  on the way back
    at the sender                                  at the receiver

A chunk may leave if it fits into the window, **or while less than a batch is outstanding**.  So a chunk larger than the
window passes too, alone but for less than a batch; and a sender never waits for bytes that the receiver only collects,
because the receiver returns them as soon as a batch is complete.  At most ``max(window_bytes, batch_bytes - 1 + C)``
bytes are outstanding, if the largest chunk has C.

Barriers and watermarks are not counted: permits of their own bound them.

Specified in spec/byte_window/ByteWindow.tla; its model leads both ends.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from permitflow.errors import ByteOverrunError, ByteOverspendError, InvalidParametersError

DEFAULT_BYTE_WINDOW = 16 << 20
"""Bytes.  No brake for usual rows: 131,072 rows of 24 bytes take 3 MiB."""
_BATCHES_IN_WINDOW = 4


class Sums(Protocol):
    """``sums[n]``: the bytes of the first ``n`` chunks of a run."""

    def __getitem__(self, count: int, /) -> int: ...


class RunSums:
    """The sums of chunks that came in runs: the chunks of a run share its bytes by their rows."""

    __slots__ = ("_rows", "_runs")

    def __init__(self, rows: Sequence[int], runs: Sequence[tuple[int, int]]) -> None:
        """``rows`` of each chunk; of each run, how many chunks it has, and their bytes together."""
        self._rows, self._runs = rows, runs

    def __getitem__(self, count: int) -> int:
        """The bytes of the first ``count`` chunks; of a part of a run its share, rounded up."""
        start = size_bytes = 0
        for chunks, run_bytes in self._runs:
            if count < start + chunks:
                rows = self._rows[start : start + chunks]
                return size_bytes - (-run_bytes * sum(rows[: count - start]) // max(1, sum(rows)))
            start += chunks
            size_bytes += run_bytes
        return size_bytes


@dataclass(frozen=True, slots=True)
class ByteWindow:
    """The numbers by which both ends count bytes.

    Spec: WindowBytes, BatchBytes.
    """

    window_bytes: int = DEFAULT_BYTE_WINDOW
    """The most bytes that are outstanding at once, unless a chunk is larger."""
    batch_bytes: int = 0
    """The receiver returns bytes once it has collected this many; 0: a quarter of the window."""

    def __post_init__(self) -> None:
        """Choose the batch, and refuse numbers that cannot work.

        Raises:
            InvalidParametersError: a number is not whole, or the batch is not within 1 and the window.
        """
        window = require_byte_window(self.window_bytes)
        if not self.batch_bytes:
            object.__setattr__(self, "batch_bytes", max(1, window // _BATCHES_IN_WINDOW))
        batch = self.batch_bytes
        if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= window:
            rule = f"must be a whole number within 1 and the window of {window} bytes"
            raise InvalidParametersError(name="batch_bytes", value=batch, rule=rule)

    def most_bytes(self, largest_chunk_bytes: int) -> int:
        """The most bytes that are ever outstanding, if no chunk is larger than this."""
        return max(self.window_bytes, self.batch_bytes - 1 + largest_chunk_bytes)

    def admits(self, outstanding_bytes: int, size_bytes: int) -> bool:
        """The rule: may a chunk of this size leave while so much is outstanding?

        Spec: Admits.
        """
        return outstanding_bytes + size_bytes <= self.window_bytes or outstanding_bytes < self.batch_bytes


def require_byte_window(size_bytes: object) -> int:
    """Check a window that a caller gave.

    Raises:
        InvalidParametersError: it is not a whole number of at least 1 that 64 bits can hold.
    """
    if isinstance(size_bytes, int) and not isinstance(size_bytes, bool) and 1 <= size_bytes < 2**63:
        return size_bytes
    rule = "must be a whole number of bytes, at least 1 and below 2**63; a large one sets no limit"
    raise InvalidParametersError(name="byte_window", value=size_bytes, rule=rule)


DEFAULT_WINDOW = ByteWindow()


class OutstandingBytes:
    """The sender's end: bytes that have left and have not returned.

    Over a carrier, a chunk leaves with an upper bound of its bytes, because it is encoded later: ``shorten`` corrects
    that before it is written.  What counts at both ends are the bytes of the encoded chunk.

    Spec: the variable outstanding.
    """

    __slots__ = ("_is_written_later", "outstanding_bytes", "peak_bytes", "unwritten_bytes", "window")

    def __init__(self, window: ByteWindow, *, is_written_later: bool = False) -> None:
        """Start with nothing outstanding.

        Args:
            window: the agreed one.
            is_written_later: sent chunks count as unwritten until ``write``.
        """
        self.window = window
        self._is_written_later = is_written_later
        self.outstanding_bytes = self.peak_bytes = 0
        """Bytes that have left and not returned, and the most there ever were."""
        self.unwritten_bytes = 0
        """The part of them that is not on the wire yet; an upper bound."""

    def admits(self, size_bytes: int) -> bool:
        """May a chunk of this size leave now?"""
        return self.window.admits(self.outstanding_bytes, size_bytes)

    def fitting(self, sums: Sums, count: int) -> int:
        """How many of the first ``count`` chunks may leave now, one after the other."""
        window, outstanding = self.window, self.outstanding_bytes
        if outstanding + sums[count] <= window.window_bytes:
            return count

        def is_refused(position: int) -> bool:
            return not window.admits(outstanding + sums[position], sums[position + 1] - sums[position])

        return bisect_left(range(count), True, key=is_refused)

    def send(self, size_bytes: int) -> None:
        """The update: chunks of this size have left.

        Spec: Send.
        """
        self.outstanding_bytes = outstanding = self.outstanding_bytes + size_bytes
        if outstanding > self.peak_bytes:
            self.peak_bytes = outstanding
        if self._is_written_later:
            self.unwritten_bytes += size_bytes

    def write(self, size_bytes: int) -> None:
        """Note that a message of this size is written."""
        self.unwritten_bytes -= size_bytes

    def shorten(self, size_bytes: int) -> None:
        """Correct the upper bound of chunks that are written now: they are so much shorter."""
        self.unwritten_bytes -= size_bytes
        self.outstanding_bytes -= size_bytes

    def on_return(self, size_bytes: int) -> None:
        """Take in returned bytes.

        Raises:
            ByteOverrunError: the peer has returned more than it holds, or nothing; nothing was changed.

        Spec: ReturnBytes.
        """
        most = self.outstanding_bytes - self.unwritten_bytes
        if not 0 < size_bytes <= most:
            raise ByteOverrunError(returned=size_bytes, outstanding=most)
        self.outstanding_bytes -= size_bytes

    def lack(self, size_bytes: int) -> str:
        """Why a chunk of this size may not leave now, in words."""
        return (
            f"the chunk has {size_bytes:,} bytes; {self.outstanding_bytes:,} of the byte window of "
            f"{self.window.window_bytes:,} are out"
        )


class UnreturnedBytes:
    """The receiver's end: bytes that have arrived and were not returned, and which of them are collected.

    Spec: the variables inbox and unreturnedBytes.
    """

    __slots__ = ("held_bytes", "unreturned_bytes", "window")

    def __init__(self, window: ByteWindow) -> None:
        """Start empty."""
        self.window = window
        self.held_bytes = 0
        """Bytes that have arrived and were not returned; as far as this end knows, no more are outstanding."""
        self.unreturned_bytes = 0
        """Bytes of consumed chunks, collected to be returned."""

    @property
    def inbox_bytes(self) -> int:
        """Bytes that have arrived and are not consumed."""
        return self.held_bytes - self.unreturned_bytes

    @property
    def is_due(self) -> bool:
        """Is a batch collected?  Then the sender may be waiting for it."""
        return self.unreturned_bytes >= self.window.batch_bytes

    def require_room(self, size_bytes: int) -> None:
        """The guard of ``accept``.

        Raises:
            ByteOverspendError: the peer has sent what the window does not admit; nothing was changed.
        """
        if not self.window.admits(self.held_bytes, size_bytes):
            window = self.window.window_bytes
            raise ByteOverspendError(size_bytes=size_bytes, outstanding=self.held_bytes, window_bytes=window)

    def accept(self, size_bytes: int) -> None:
        """The update: chunks of this size have arrived.

        Spec: Deliver.
        """
        self.held_bytes += size_bytes

    def consume(self, size_bytes: int) -> None:
        """Chunks of this size are consumed: their bytes are collected.

        Spec: Consume.
        """
        self.unreturned_bytes += size_bytes

    def drop(self) -> None:
        """Forget what is here: the stream is over."""
        self.held_bytes = self.unreturned_bytes = 0

    def take(self) -> int:
        """The bytes to return now; the sender has them from here on.

        Call this as soon as a batch ``is_due``, and whenever the flow returns something anyway.
        """
        taken, self.unreturned_bytes = self.unreturned_bytes, 0
        self.held_bytes -= taken
        return taken
