"""The ledger of a channel that keeps its rows until every consumer has acknowledged them.

Rows are numbered from 0.  The channel keeps the rows from the first one that some consumer has not acknowledged to the
newest one.  It accepts a producer's chunk if it then keeps at most ``limit_rows`` rows: acknowledging gives room back.
It accepts a published batch at once; rows beyond ``limit_rows`` take room of the staging area, which bounds them.

Rows may expire: then they are gone, and their room is free, though a consumer still needs them.  Its position stays, so
that it hears of its loss, and goes on once it acknowledges the rows.
"""

from collections.abc import Mapping, Sequence

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    RowsExpiredError,
    RowsForgottenError,
    RowsNotThereError,
    UnknownConsumerError,
    WouldBlock,
)
from permitflow.names import require_name

DEFAULT_CONSUMER = "default"
"""The consumer that reads if no name is given."""

MOST_PRODUCERS = 65_536
"""The most producer names that a channel remembers, for its lifetime."""


class ReplayBooks:
    """Counts the rows that are kept, for which consumers, and the room for more.  Not thread-safe; does no I/O.

    Spec: Produce, Acknowledge, Expire of SparkMicroBatch.
    Spec: Produce, ProduceBatch, BeginReading, SendRow, Acknowledge, Expire of KeptChannel.
    """

    def __init__(
        self,
        limit_rows: int,
        consumers: Sequence[str] = (DEFAULT_CONSUMER,),
        *,
        channel: str = "",
        next_row: int = 0,
        acknowledged: Mapping[str, int] | None = None,
        expired_row: int = 0,
    ) -> None:
        """Begin empty, or continue from the numbers of a store.

        Args:
            limit_rows: the most rows kept at once, except for published ones beyond it.
            consumers: the consumers that rows are kept for; each reads and acknowledges independently.
            channel: its name, for errors.
            next_row: the number of the next row to arrive.
            acknowledged: for each consumer in the store, its position; a new consumer begins with the first kept row.
            expired_row: all rows before it have expired, unless they were acknowledged.

        Raises:
            InvalidParametersError: there is no consumer, or a name is repeated or empty.
        """
        require_consumers(consumers)
        self.limit_rows = limit_rows
        self.channel = channel
        self.next_row = next_row
        """The number of the next row to arrive."""
        self.expired_row = expired_row
        """All rows before it are gone, though some consumer may need them."""
        kept_from = max(expired_row, min((acknowledged or {}).values(), default=next_row))
        self._acknowledged = {name: (acknowledged or {}).get(name, kept_from) for name in consumers}
        self.peak_kept_rows = self.kept_rows

    @property
    def acknowledged(self) -> dict[str, int]:
        """The first row that each consumer still needs."""
        return dict(self._acknowledged)

    @property
    def first_kept_row(self) -> int:
        """The first row that some consumer still needs, and that has not expired."""
        return max(self.expired_row, min(self._acknowledged.values()))

    @property
    def kept_rows(self) -> int:
        """How many rows are kept."""
        return self.next_row - self.first_kept_row

    @property
    def room_rows(self) -> int:
        """How many rows may arrive now; below 0 if publishing has exceeded the limit."""
        return self.limit_rows - self.kept_rows

    @property
    def excess_rows(self) -> int:
        """How many rows are kept beyond the limit."""
        return max(0, -self.room_rows)

    def has_room(self, rows: int) -> bool:
        """May a chunk of this many rows be accepted?"""
        return rows <= self.room_rows

    def produce(self, rows: int) -> int:
        """Accept a chunk; return the number of its first row.

        Raises:
            WouldBlock: there is no room for it now.

        Spec: Produce of SparkMicroBatch.
        """
        if rows < 0:
            raise LocalProtocolError(f"a chunk cannot have {rows} rows")
        if not self.has_room(rows):
            raise WouldBlock(f"a chunk of {rows} rows must wait: {self.room_rows} of {self.limit_rows} rows are free")
        return self._take(rows)

    def publish(self, rows: int) -> int:
        """Accept staged rows, with or without room; return the number of the first.

        Spec: ProduceBatch of SparkMicroBatch.
        """
        return self._take(rows)

    def _take(self, rows: int) -> int:
        first_row = self.next_row
        self.next_row += rows
        self.peak_kept_rows = max(self.peak_kept_rows, self.kept_rows)
        return first_row

    def acknowledge(self, consumer: str, row: int) -> int:
        """Note that a consumer no longer needs the rows before this one; return how many rows that frees.

        A row before the consumer's position changes nothing.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            RowsNotThereError: the row has not arrived yet.

        Spec: Acknowledge of SparkMicroBatch.
        """
        before = self.require_acknowledgeable(consumer, row)
        first_kept_row = self.first_kept_row
        self._acknowledged[consumer] = max(before, row)
        return self.first_kept_row - first_kept_row

    def expire(self, row: int) -> int:
        """Give up the rows before this one, needed or not; return how many rows that frees.

        A row before the first kept one changes nothing: what all consumers have acknowledged is not lost.

        Raises:
            RowsNotThereError: the row has not arrived yet.

        Spec: Expire of SparkMicroBatch.
        """
        self.require_there(row)
        freed = max(0, row - self.first_kept_row)
        if freed:
            self.expired_row = row
        return freed

    def require_acknowledgeable(self, consumer: str, row: int) -> int:
        """Raise as ``acknowledge`` would; return the consumer's position."""
        before = self.acknowledged_by(consumer)
        self.require_there(row)
        return before

    def require_there(self, row: int) -> None:
        """Require that all rows before this one have arrived.

        Raises:
            RowsNotThereError: they have not.
        """
        if row > self.next_row:
            raise RowsNotThereError(channel=self.channel, wanted_row=row, next_row=self.next_row)

    def acknowledged_by(self, consumer: str) -> int:
        """The first row that this consumer still needs.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            InvalidParametersError: the name is too long.
        """
        try:
            return self._acknowledged[consumer]
        except KeyError:
            require_name("consumer", consumer)
            known = tuple(self._acknowledged)
            raise UnknownConsumerError(channel=self.channel, consumer=consumer, known=known) from None

    def require_readable(self, consumer: str, from_row: int | None = None, to_row: int | None = None) -> int:
        """Check that a range can be read; return its first row.

        Args:
            consumer: the consumer that reads.
            from_row: the first row to read; None: the first row that the consumer has not acknowledged.
            to_row: the row before which reading ends; None: read every row that will arrive.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            InvalidParametersError: the range is negative or reversed.
            RowsForgottenError: the consumer has acknowledged some of these rows.
            RowsExpiredError: some of these rows have expired.
            RowsNotThereError: some of these rows have not arrived yet.

        Spec: RunTask of SparkMicroBatch.
        """
        acknowledged = self.acknowledged_by(consumer)
        start = acknowledged if from_row is None else from_row
        _require_range(start, to_row)
        if start < acknowledged:
            first_kept_row = max(acknowledged, self.expired_row)
            raise RowsForgottenError(channel=self.channel, wanted_row=start, first_kept_row=first_kept_row)
        if start < self.expired_row:
            raise RowsExpiredError(channel=self.channel, wanted_row=start, first_kept_row=self.expired_row)
        end = start if to_row is None else to_row
        self.require_there(end)
        return start


def _require_range(start: int, end: int | None) -> None:
    if start < 0:
        raise InvalidParametersError(name="from_row", value=start, rule="must be at least 0")
    if end is not None and end < start:
        raise InvalidParametersError(name="to_row", value=end, rule=f"must be at least from_row = {start}")


def require_consumers(consumers: Sequence[str]) -> None:
    """Check the names of consumers.

    Raises:
        InvalidParametersError: there is no name, or a name is repeated or empty.
    """
    if isinstance(consumers, str) or not consumers:
        rule = "must be at least one name; a reader without a name is the consumer 'default'"
        raise InvalidParametersError(name="consumers", value=consumers, rule=rule)
    for name in consumers:
        if not isinstance(name, str) or not name:
            raise InvalidParametersError(name="consumers", value=name, rule="must not be empty names")
    if len(set(consumers)) < len(consumers):
        raise InvalidParametersError(name="consumers", value=tuple(consumers), rule="must be different names")
