"""The ledger of the barriers in a channel that keeps its rows: where they stand, and who has passed them.

A barrier stands before a row.  Its number is above those of the barriers before it, and an older one is void: so a
producer that starts again may send its last barrier again.  A consumer passes barriers by acknowledging rows; the
channel keeps a barrier until every consumer has passed it, and at most ``MOST_BARRIERS``: then producers wait.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from permitflow.errors import RetentionError, WouldBlock
from permitflow.stream.control import KeptBarrier, Retention

MOST_BARRIERS = 256
"""The most barriers that a channel keeps: each look of a streaming query tells all of them."""

_MOST_NUMBER = 2**63 - 2  # the number behind it fits 64 bits, too


class KeptBarriers:
    """Counts the barriers of one channel.  Not thread-safe; does no I/O."""

    def __init__(self, acknowledged: Mapping[str, int], *, channel: str = "", kept: Sequence[KeptBarrier] = ()) -> None:
        """Begin empty, or continue with the barriers of a store.

        Args:
            acknowledged: for each consumer, the first row that it still needs.
            channel: its name, for errors.
            kept: the stored barriers, in order: those that some consumer has not passed, and the newest one.
        """
        self._channel = channel
        self._kept = deque(kept)
        self.newest = kept[-1].number if kept else 0
        """The number of the newest barrier that ever came; 0: none did."""
        # Barriers at the very row may be of empty epochs: they are passed once they are acknowledged again.
        self._passed = {name: self._newest_before(row) for name, row in acknowledged.items()}
        self._forget()

    @property
    def kept(self) -> tuple[KeptBarrier, ...]:
        """The barriers that some consumer has not passed, in order."""
        return tuple(self._kept)

    def number_of(self, payload: object) -> int:
        """A barrier's number: its payload, or one more than the newest number if it has none.

        Raises:
            RetentionError: the payload is not a number that can be kept.
        """
        if payload is None:
            return self.newest + 1
        if isinstance(payload, int) and not isinstance(payload, bool) and 1 <= payload <= _MOST_NUMBER:
            return payload
        rule = f"keeps of a barrier its number only, and {payload!r} is none: send a whole number from 1 on, or None"
        raise RetentionError(channel=self._channel, retention=Retention.REPLAY.value, rule=rule)

    def is_void(self, number: int) -> bool:
        """Is it no newer than one that came before?"""
        return number <= self.newest

    def has_room(self) -> bool:
        """May one more barrier be kept?"""
        return len(self._kept) < MOST_BARRIERS

    def keep(self, barrier: KeptBarrier) -> None:
        """Keep a barrier that is not void.

        Raises:
            WouldBlock: there is no room for it now.
        """
        if not self.has_room():
            raise WouldBlock(f"barrier {barrier.number} must wait: {MOST_BARRIERS} barriers are kept")
        self._kept.append(barrier)
        self.newest = barrier.number
        self._forget()

    def needed_by(self, consumer: str) -> tuple[KeptBarrier, ...]:
        """The kept barriers that this consumer has not passed, in order."""
        passed = self._passed[consumer]
        return tuple(barrier for barrier in self._kept if barrier.number > passed)

    def passes(self, consumer: str, row: int, next_barrier: int = 0) -> bool:
        """Does the consumer pass any barrier if it acknowledges this?  See ``acknowledge``."""
        return self._passed_with(consumer, row, next_barrier) > self._passed[consumer]

    def needed_after(self, consumer: str, row: int, next_barrier: int = 0) -> int:
        """The least number to keep once the consumer acknowledges this; the newest barrier is kept in any case."""
        others = (passed for name, passed in self._passed.items() if name != consumer)
        passed = self._passed_with(consumer, row, next_barrier)
        return min(min(passed, *others, passed) + 1, self.newest)

    def acknowledge(self, consumer: str, row: int, next_barrier: int = 0) -> bool:
        """Note what a consumer has passed; return whether that makes room.

        Args:
            consumer: who acknowledges.
            row: the first row that it still needs.
            next_barrier: the least number that it still needs; 0: none that stands at ``row`` or before it.
        """
        self._passed[consumer] = self._passed_with(consumer, row, next_barrier)
        before = len(self._kept)
        self._forget()
        return len(self._kept) < before

    def needed_after_expiry(self, row: int) -> int:
        """The least number to keep once the rows before this one have expired; the newest barrier is always kept."""
        passed = self._newest_before(row)
        return min(min(max(each, passed) for each in self._passed.values()) + 1, self.newest)

    def expire(self, row: int) -> None:
        """Forget the barriers that stood before rows which have expired: those before this row."""
        for consumer in self._passed:
            self._passed[consumer] = max(self._passed[consumer], self._newest_before(row))
        self._forget()

    def _passed_with(self, consumer: str, row: int, next_barrier: int) -> int:
        rows = self._newest_before(row if next_barrier else row + 1)
        return max(self._passed[consumer], next_barrier - 1, rows)

    def _newest_before(self, row: int) -> int:
        return max((barrier.number for barrier in self._kept if barrier.row < row), default=0)

    def _forget(self) -> None:
        passed = min(self._passed.values())
        while self._kept and self._kept[0].number <= passed:
            self._kept.popleft()
