"""The books of a channel that keeps its rows until every consumer has acknowledged them.

Rows are numbered from 0.  What is kept lies between the first row that some consumer has not acknowledged and the next
one that will come.  A producer's chunk comes in if no more than ``limit_rows`` are kept then: this is the ledger of a
channel whose receiver consumes by acknowledging.  A published batch comes in at once.  Its rows beyond ``limit_rows``
take room of the staging area, which bounds them.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    RowsForgottenError,
    RowsNotThereError,
    UnknownConsumerError,
    WouldBlock,
)
from permitflow.protocol.names import require_name

__all__ = [
    "DEFAULT_CONSUMER",
    "DEFAULT_KEPT_ROWS",
    "KEPT_CHUNK_ROWS",
    "MOST_PRODUCERS",
    "ReplayBooks",
    "Retention",
    "require_consumers",
]

DEFAULT_CONSUMER = "default"
"""Whose reading it is where nobody says whose."""

DEFAULT_KEPT_ROWS = 1_048_576
"""Where nobody has chosen how many.  A micro-batch of Spark holds half of them and takes at least some 0.2 s, whatever
it holds: two channels of 32,768 rows pass on 0.15 million rows a second, two of a million rows nearly what Spark does
with rows in memory: `make streaming-read`, docs/guides/spark-streaming.md.  A bound in rows is none in bytes: so many
rows of 100 bytes are 100 MiB, once they are all there."""

KEPT_CHUNK_ROWS = 32_768
"""Larger chunks are cut, where so many are kept: what travels in one piece holds up others, and has 256 MiB at most."""

MOST_PRODUCERS = 65_536
"""Names of producers that a channel remembers, for as long as it is there."""


class Retention(StrEnum):
    """What becomes of the rows of a channel once a consumer has read them."""

    ONCE = "once"
    """They are gone."""
    REPLAY = "replay"
    """They are kept until every consumer has acknowledged them, and can be read again until then."""


class ReplayBooks:
    """Which rows are kept, for whom, and how many more may come.  Not thread-safe; does no I/O.

    Spec: Produce, Acknowledge of SparkMicroBatch.
    """

    def __init__(
        self,
        limit_rows: int,
        consumers: Sequence[str] = (DEFAULT_CONSUMER,),
        *,
        channel: str = "",
        next_row: int = 0,
        acknowledged: Mapping[str, int] | None = None,
    ) -> None:
        """Begin, or go on where a store has kept the rows.

        Args:
            limit_rows: the most rows that are kept at once, unless more are published.
            consumers: for whom rows are kept; each reads and acknowledges on its own.
            channel: its name, for errors.
            next_row: the number of the next row that will come.
            acknowledged: by each consumer that there was; one that is new begins with the first row that was kept.

        Raises:
            InvalidParametersError: there is no consumer, or one is named twice or not at all.
        """
        require_consumers(consumers)
        self.limit_rows = limit_rows
        self.channel = channel
        self.next_row = next_row
        """The number of the next row that will come."""
        kept_from = min((acknowledged or {}).values(), default=next_row)
        self._acknowledged = {name: (acknowledged or {}).get(name, kept_from) for name in consumers}
        self.peak_kept_rows = self.kept_rows

    @property
    def acknowledged(self) -> dict[str, int]:
        """By each consumer: the first row that it still needs."""
        return dict(self._acknowledged)

    @property
    def first_kept_row(self) -> int:
        """The first row that some consumer still needs."""
        return min(self._acknowledged.values())

    @property
    def kept_rows(self) -> int:
        """How many rows are kept."""
        return self.next_row - self.first_kept_row

    @property
    def room_rows(self) -> int:
        """How many rows may come now; less than 0 if more were published than may be kept."""
        return self.limit_rows - self.kept_rows

    @property
    def excess_rows(self) -> int:
        """How many rows are kept beyond the limit."""
        return max(0, -self.room_rows)

    def has_room(self, rows: int) -> bool:
        """May a chunk of so many rows be taken over?"""
        return rows <= self.room_rows

    def produce(self, rows: int) -> int:
        """Take a chunk over; the number of its first row.

        Raises:
            WouldBlock: there is no room for it now.

        Spec: Produce of SparkMicroBatch.
        """
        if rows < 0:
            raise LocalProtocolError(f"a chunk cannot have {rows} rows")
        if not self.has_room(rows):
            raise WouldBlock(f"{rows} rows need room, and there is room for {self.room_rows} of {self.limit_rows}")
        return self._take(rows)

    def publish(self, rows: int) -> int:
        """Take rows over that were staged for the channel, whether there is room or not; the number of the first.

        Spec: ProduceBatch of SparkMicroBatch.
        """
        return self._take(rows)

    def _take(self, rows: int) -> int:
        first_row = self.next_row
        self.next_row += rows
        self.peak_kept_rows = max(self.peak_kept_rows, self.kept_rows)
        return first_row

    def acknowledge(self, consumer: str, row: int) -> int:
        """Note that a consumer needs no row before this one any more; how many rows are forgotten by that.

        Less than was acknowledged before changes nothing.

        Raises:
            UnknownConsumerError: rows are not kept for it.
            RowsNotThereError: it acknowledges rows that have not come.

        Spec: Acknowledge of SparkMicroBatch.
        """
        before = self.require_acknowledgeable(consumer, row)
        first_kept_row = self.first_kept_row
        self._acknowledged[consumer] = max(before, row)
        return self.first_kept_row - first_kept_row

    def require_acknowledgeable(self, consumer: str, row: int) -> int:
        """Refuse what ``acknowledge`` would refuse; what the consumer has acknowledged so far."""
        before = self.acknowledged_by(consumer)
        if row > self.next_row:
            raise RowsNotThereError(channel=self.channel, wanted_row=row, next_row=self.next_row)
        return before

    def acknowledged_by(self, consumer: str) -> int:
        """The first row that this consumer still needs.

        Raises:
            UnknownConsumerError: rows are not kept for it.
            InvalidParametersError: nor could they be: the name is too long.
        """
        try:
            return self._acknowledged[consumer]
        except KeyError:
            require_name("consumer", consumer)
            known = tuple(self._acknowledged)
            raise UnknownConsumerError(channel=self.channel, consumer=consumer, known=known) from None

    def require_readable(self, consumer: str, from_row: int | None = None, to_row: int | None = None) -> int:
        """Refuse to read what is not here; the row at which reading begins.

        Args:
            consumer: whose reading it is.
            from_row: the first row that is wanted; None: the first one that it has not acknowledged.
            to_row: the first row that is not wanted any more; None: whatever comes is wanted.

        Raises:
            UnknownConsumerError: rows are not kept for it.
            InvalidParametersError: this is no range.
            RowsForgottenError: it has acknowledged some of these rows.
            RowsNotThereError: some of these rows have not come.

        Spec: RunTask of SparkMicroBatch.
        """
        acknowledged = self.acknowledged_by(consumer)
        start = acknowledged if from_row is None else from_row
        _require_range(start, to_row)
        if start < acknowledged:
            raise RowsForgottenError(channel=self.channel, wanted_row=start, first_kept_row=acknowledged)
        end = start if to_row is None else to_row
        if end > self.next_row:
            raise RowsNotThereError(channel=self.channel, wanted_row=end, next_row=self.next_row)
        return start


def _require_range(start: int, end: int | None) -> None:
    if start < 0:
        raise InvalidParametersError(name="from_row", value=start, rule="must be at least 0")
    if end is not None and end < start:
        raise InvalidParametersError(name="to_row", value=end, rule=f"must be at least from_row = {start}")


def require_consumers(consumers: Sequence[str]) -> None:
    """Refuse consumers for whom no rows can be kept.

    Raises:
        InvalidParametersError: there is none, or one is named twice or not at all.
    """
    if isinstance(consumers, str) or not consumers:
        rule = "must be one name at least; who reads without a name is the consumer 'default'"
        raise InvalidParametersError(name="consumers", value=consumers, rule=rule)
    for name in consumers:
        if not isinstance(name, str) or not name:
            raise InvalidParametersError(name="consumers", value=name, rule="must be names that are not empty")
    if len(set(consumers)) < len(consumers):
        raise InvalidParametersError(name="consumers", value=tuple(consumers), rule="must not name one twice")
