"""Where an exchange keeps the rows of its replay channels: in memory and, if the store writes them down first, on disk.

The exchange does the books; a store keeps what it is told.  When a call that writes has returned, what it was told
survives whatever the store promises to survive: nothing if it is memory, a crash of the process or of the machine if
it is a disk.  A call that raises has changed nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import ClassVar, NamedTuple
from uuid import uuid4

import pyarrow as pa

from permitflow.protocol.control import ChannelState
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec, joined, runs

__all__ = ["ChannelStore", "KeptChannel", "PublishedPart", "Store"]

# A list is cut at its beginning as a whole: only when that is worth it.
_CUT_AT = 256
# So many bytes are worth a batch of their own; a batch takes about a kilobyte besides its rows, and a call to read.
_SMALL_BYTES = 4 << 10
# What is joined is let go of as a whole: a few rows that a consumer needs should not hold a window of others.
_JOINED_BYTES = 256 << 10


class PublishedPart(NamedTuple):
    """An attempt whose rows become rows of its channel."""

    channel: str
    staging: Staging
    first_row: int
    """The number of its first row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptChannel:
    """What a store has of a channel."""

    log_id: str = field(default_factory=lambda: uuid4().hex)
    """The name of the log: made when the channel was first opened, and kept with its rows."""
    next_row: int = 0
    """The number of the next row that will come."""
    acknowledged: Mapping[str, int] | None = None
    """By each consumer; None: the channel is new."""
    producers: Mapping[str, int] = field(default_factory=dict)
    """Rows of each named producer that were ever appended."""
    schema: pa.Schema | None = None
    state: ChannelState = ChannelState.OPEN
    reason: str = ""
    """Why it is broken; else empty."""
    staged: Mapping[Staging, Sequence[int]] = field(default_factory=dict)
    """Of attempts that are not published, in the order in which they began: rows of each chunk."""


def _nothing() -> None:
    """Do nothing when the place is removed."""


class ChannelStore:
    """Keeps one channel; this one in memory, for as long as the exchange lives.

    The exchange makes one call of ``declare``, ``append``, ``finish``, and ``Store.publish`` for this channel, at a
    time, one of ``acknowledge``, and for each attempt one of ``stage`` and ``forget``; these, and any number of
    ``read``, may be under way together.  It never cancels a call that writes.

    A batch of which one row is needed stays as a whole: slices free no memory.
    """

    def __init__(
        self,
        kept: KeptChannel | None = None,
        batches: Iterable[tuple[int, pa.RecordBatch]] = (),
        staged: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({}),
        on_removal: Callable[[], object] = _nothing,
    ) -> None:
        """Begin a new log, or with what a durable store has.

        Args:
            kept: what is known of the channel; None: it is new.
            batches: each batch that is kept with the number of its first row, in order.
            staged: the chunks of each attempt.
            on_removal: called when the place is removed.
        """
        self._on_removal = on_removal
        self._kept = kept or KeptChannel()
        self._codec = None if self._kept.schema is None else BatchCodec(self._kept.schema)
        """None: no schema was declared yet."""
        rows = [*batches]
        self._first_rows = [first_row for first_row, _ in rows]
        self._batches: list[pa.RecordBatch] = [batch for _, batch in rows]
        self._forgotten = 0
        self._staged = {staging: [*chunks] for staging, chunks in staged.items()}

    def load(self) -> KeptChannel:
        """What was there; called once, before everything else."""
        return self._kept

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema; called once, before the first ``append``.

        Raises:
            StoreError: it could not be written.
        """
        self._codec = BatchCodec(schema)

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows, all or none; what was ready together comes together, so that it can be written at once.

        Args:
            first_row: the number of the first of these rows; all rows before it were appended already.
            batches: the rows, in order; none is empty.
            producer: whose they are; empty: of no named producer.
            producer_rows: how many rows of this producer were ever appended, these included.

        Raises:
            StoreError: they could not be written.
        """
        self._append(first_row, self._joined(batches))

    def _append(self, first_row: int, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._first_rows.append(first_row)
            self._batches.append(batch)
            first_row += batch.num_rows

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
        """The same rows; small neighbours in one batch."""
        if len(batches) < 2:
            return batches
        codec = self._codec = self._codec or BatchCodec(batches[0].schema)
        if not codec.can_join:
            return batches
        found = runs(batches, codec.size_of, most_bytes=_JOINED_BYTES, small_bytes=_SMALL_BYTES)
        return [batch for run in found for batch in joined(run)]

    async def read(self, from_row: int, to_row: int) -> list[pa.RecordBatch]:
        """The rows ``[from_row, to_row)``, in order, sliced at both ends; they were appended and not forgotten.

        Of rows that are acknowledged while this call waits, fewer may come, or none.

        Raises:
            StoreError: they could not be read.
        """
        found: list[pa.RecordBatch] = []
        position = bisect_right(self._first_rows, from_row, lo=self._forgotten) - 1
        if position < self._forgotten:
            return []
        while from_row < to_row:
            batch, start = self._batches[position], from_row - self._first_rows[position]
            stop = min(batch.num_rows, to_row - self._first_rows[position])
            found.append(batch if stop - start == batch.num_rows else batch.slice(start, stop - start))
            from_row += stop - start
            position += 1
        return found

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int) -> None:
        """Note how far a consumer has come; rows before ``first_kept_row`` need not be kept any more.

        They may stay for longer, for instance until all rows of a batch are forgotten.

        Raises:
            StoreError: it could not be written.
        """
        needed = bisect_right(self._first_rows, first_kept_row, lo=self._forgotten) - 1
        if needed == len(self._batches) - 1 >= self._forgotten:
            last = self._batches[-1]
            needed += first_kept_row >= self._first_rows[-1] + last.num_rows
        for position in range(self._forgotten, needed):
            self._batches[position] = None
        self._forgotten = max(self._forgotten, needed)
        if self._forgotten >= _CUT_AT and 2 * self._forgotten >= len(self._batches):
            del self._batches[: self._forgotten], self._first_rows[: self._forgotten]
            self._forgotten = 0

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Keep chunks of an attempt, after those that it has; they are not part of the channel.

        Args:
            staging: the attempt.
            batches: its chunks, in order; none is empty.

        Raises:
            StoreError: they could not be written.
        """
        self._staged.setdefault(staging, []).extend(self._joined(batches))

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Attempts that were not published are not needed; of some of them, nothing may be here.

        Raises:
            StoreError: it could not be written.
        """
        for staging in stagings:
            self._staged.pop(staging, None)

    def publish(self, staging: Staging, first_row: int) -> None:
        """The chunks of an attempt become part of the channel."""
        self._append(first_row, self._staged.pop(staging, ()))

    def forget_older(self, query: str, batch: int) -> None:
        """Let go of all attempts at this batch and at older ones."""
        for staging in [*self._staged]:
            if staging.query == query and staging.batch <= batch:
                del self._staged[staging]

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that no row will come any more: the channel has ended, or is broken.

        Raises:
            StoreError: it could not be written.
        """

    def remove(self) -> None:
        """Forget the channel and all its rows; the exchange calls nothing afterwards."""
        self._on_removal()
        self._first_rows, self._batches, self._forgotten = [], [], 0
        self._staged.clear()


class Store:
    """Keeps the replay channels of one exchange; this one in memory."""

    is_durable: ClassVar[bool] = False
    """Does what it keeps survive the exchange?"""

    def __init__(self, published_batches: Mapping[str, int] = MappingProxyType({})) -> None:
        """Without channels; what was published before is remembered."""
        self._channels: dict[str, ChannelStore] = {}
        self._published_batches = dict(published_batches)

    def open_channels(
        self,
        names: Sequence[str],
        *,
        parameters: Parameters,
        consumers: Sequence[str],
        schema: pa.Schema | None = None,
    ) -> Sequence[ChannelStore]:
        """The places of channels, with what was kept of each before; the new ones are made together, all or none.

        Args:
            names: unique in this exchange.
            parameters: with which the channels are opened now.
            consumers: for whom rows are kept from now on; the first time, or others than before.
            schema: what all of them must have; None: whatever they have.

        Raises:
            SchemaMismatchError: one was kept with another schema; nothing was opened.
            StoreError: there is something that does not fit; nothing was opened.
        """
        places = {name: ChannelStore(on_removal=partial(self._channels.pop, name, None)) for name in names}
        self._channels |= places
        return list(places.values())

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order in which they were published."""
        return dict(self._published_batches)

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, all or nothing.

        The rows of these attempts become rows of their channels, as if they were appended.  Everything else that was
        staged for this batch of the query, or for older ones, is forgotten.

        Args:
            query: whose batch it is.
            batch: from now on the last one of this query that was published.
            parts: in the order of their rows; of one without rows, nothing may be here, nor of a channel that was
                removed.
            forgotten: queries whose last published batch need not be remembered any more.

        Raises:
            StoreError: it could not be written.
        """
        for channel, staging, first_row in parts:
            if channel in self._channels:
                self._channels[channel].publish(staging, first_row)
        for place in self._channels.values():
            place.forget_older(query, batch)
        for old in (query, *forgotten):
            self._published_batches.pop(old, None)
        self._published_batches[query] = batch

    def close(self) -> None:
        """Release what the store holds; the exchange calls nothing afterwards.  Closing twice is harmless."""
