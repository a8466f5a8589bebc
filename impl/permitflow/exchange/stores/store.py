"""The store of an exchange's replay channels: in memory and, for a durable store, also on disk.

The exchange keeps the ledger; the store keeps the data.  A write of a durable store that has returned survives a crash
of the process and of the machine; a store in memory ends with its process.  A call that raises has changed nothing that
this process sees; if the disk failed to flush, the next one to open the store may find what was refused.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import ClassVar, NamedTuple
from uuid import uuid4

import pyarrow as pa

from permitflow.errors import StoreError
from permitflow.flows.seam import Parameters
from permitflow.stream.control import ChannelState, KeptBarrier
from permitflow.stream.frames import Staging
from permitflow.wire.arrow import BatchCodec, joined, runs

# So many bytes are worth a batch of their own; a batch takes about a kilobyte besides its rows, and a call to read.
_SMALL_BYTES = 4 << 10
# What is joined is let go of as a whole: a few rows that a consumer needs should not hold a window of others.
_JOINED_BYTES = 256 << 10


class PublishedPart(NamedTuple):
    """An attempt to publish in its channel."""

    channel: str
    staging: Staging
    first_row: int
    """The number of its first row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptChannel:
    """The stored data of a channel."""

    log_id: str = field(default_factory=lambda: uuid4().hex)
    """The name of the log: made when the channel was first opened, and kept with its rows."""
    next_row: int = 0
    """The number that the next appended row gets."""
    acknowledged: Mapping[str, int] | None = None
    """By consumer: the first row that it still needs; None: the channel is new."""
    producers: Mapping[str, int] = field(default_factory=dict)
    """By named producer: the number of its rows ever appended."""
    schema: pa.Schema | None = None
    state: ChannelState = ChannelState.OPEN
    reason: str = ""
    """The reason why it is broken; else empty."""
    staged: Mapping[Staging, Sequence[int]] = field(default_factory=dict)
    """By unpublished attempt, in the order of their beginnings: the rows of each chunk."""
    barriers: Sequence[KeptBarrier] = ()
    """In order: those that are needed, and the newest one."""


def _nothing() -> None:
    """Do nothing when the place is removed."""


class ChannelStore:
    """Keeps one channel; this one in memory, for as long as the exchange lives.

    The exchange makes one call of ``declare``, ``append``, ``keep_barrier``, ``finish``, and ``Store.publish`` for this
    channel, at a time, one of ``acknowledge``, and for each attempt one of ``stage`` and ``forget``; these, and any
    number of ``read``, may be under way together.  It never cancels a call that writes.

    A batch of which one row is needed stays as a whole: slices free no memory.
    """

    def __init__(
        self,
        kept: KeptChannel | None = None,
        batches: Iterable[tuple[int, pa.RecordBatch]] = (),
        staged: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({}),
        on_removal: Callable[[], object] = _nothing,
    ) -> None:
        """Begin a new log, or continue with a durable store's data.

        Args:
            kept: the stored data of the channel; None: it is new.
            batches: the kept batches, each with the number of its first row, in order.
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
        self._staged = {staging: [*chunks] for staging, chunks in staged.items()}

    def load(self) -> KeptChannel:
        """Return the stored data; called once, before all other methods."""
        return self._kept

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema; called once, before the first ``append``.

        Raises:
            StoreError: the write failed.
        """
        self._codec = BatchCodec(schema)

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows, all or none.

        Args:
            first_row: the number of the first of these rows; all rows before it were appended already.
            batches: the rows, in order; none is empty.
            producer: the name of their producer; empty: it has none.
            producer_rows: the number of this producer's rows ever appended, including these.

        Raises:
            StoreError: the write failed.
        """
        self._append(first_row, self._joined(batches))

    def _append(self, first_row: int, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._first_rows.append(first_row)
            self._batches.append(batch)
            first_row += batch.num_rows

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
        """The same rows, with small neighbouring batches joined."""
        if len(batches) < 2:
            return batches
        codec = self._codec = self._codec or BatchCodec(batches[0].schema)
        if not codec.can_join:
            return batches
        found = runs(batches, codec.size_of, most_bytes=_JOINED_BYTES, small_bytes=_SMALL_BYTES)
        return [batch for run in found for batch in joined(run)]

    async def keep_barrier(self, barrier: KeptBarrier) -> None:
        """Keep a barrier; it stands before the row that is appended next.

        Raises:
            StoreError: the write failed.
        """

    async def read(self, from_row: int, to_row: int) -> list[pa.RecordBatch]:
        """The rows ``[from_row, to_row)``, in order, sliced at both ends; they were appended and not forgotten.

        Rows acknowledged while this call waits may be missing.

        Raises:
            StoreError: the rows could not be read.
        """
        found: list[pa.RecordBatch] = []
        position = bisect_right(self._first_rows, from_row) - 1
        if position < 0:
            return []
        while from_row < to_row:
            batch, start = self._batches[position], from_row - self._first_rows[position]
            stop = min(batch.num_rows, to_row - self._first_rows[position])
            found.append(batch if stop - start == batch.num_rows else batch.slice(start, stop - start))
            from_row += stop - start
            position += 1
        return found

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int, next_barrier: int = 0) -> None:
        """Note a consumer's acknowledged row; rows before ``first_kept_row`` need not be kept any more.

        They may stay longer, for instance until all rows of their batch are forgotten.  Barriers with numbers below
        ``next_barrier`` need not be kept either.

        Raises:
            StoreError: the write failed.
        """
        unneeded = bisect_right(self._first_rows, first_kept_row) - 1
        if unneeded == len(self._batches) - 1 >= 0:
            unneeded += first_kept_row >= self._first_rows[-1] + self._batches[-1].num_rows
        if unneeded > 0:
            del self._batches[:unneeded], self._first_rows[:unneeded]

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Append chunks to an attempt; they are not part of the channel yet.

        Args:
            staging: the attempt.
            batches: its next chunks, in order; none is empty.

        Raises:
            StoreError: the write failed.
        """
        self._staged.setdefault(staging, []).extend(self._joined(batches))

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Forget unpublished attempts; the store may have nothing of some of them.

        Raises:
            StoreError: the write failed.
        """
        for staging in stagings:
            self._staged.pop(staging, None)

    def publish(self, staging: Staging, first_row: int) -> None:
        """Make an attempt's chunks part of the channel."""
        self._append(first_row, self._staged.pop(staging, ()))

    def forget_older(self, query: str, batch: int) -> None:
        """Forget all attempts at this batch and at older ones."""
        for staging in [*self._staged]:
            if staging.query == query and staging.batch <= batch:
                del self._staged[staging]

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that the channel has ended, or is broken.

        Raises:
            StoreError: the write failed.
        """

    def remove(self) -> None:
        """Forget the channel and all its rows; the exchange calls no method afterwards."""
        self._on_removal()
        self._first_rows, self._batches = [], []
        self._staged.clear()


class Store:
    """Keeps the replay channels of one exchange; this one in memory."""

    is_durable: ClassVar[bool] = False
    """Do the kept rows survive the exchange?"""

    def __init__(self, published_batches: Mapping[str, int] = MappingProxyType({})) -> None:
        """Without channels; what was published before is remembered."""
        self._channels: dict[str, ChannelStore] = {}
        self._published_batches = dict(published_batches)

    def open_channels(
        self, names: Sequence[str], *, parameters: Parameters, consumers: Sequence[str], schema: pa.Schema | None = None
    ) -> Sequence[ChannelStore]:
        """Open channels, each with its stored data; new ones are made together, all or none.

        Args:
            names: unique in this exchange.
            parameters: of all channels.
            consumers: the consumers to keep rows for from now on.
            schema: the required schema of all channels; None: any.

        Raises:
            SchemaMismatchError: a stored channel has another schema; no channel was opened.
            StoreError: the stored data do not fit; no channel was opened.
        """
        places = {name: ChannelStore(on_removal=partial(self.forget, name)) for name in names}
        self._channels |= places
        return list(places.values())

    def forget(self, name: str) -> None:
        """Forget a channel that is removed."""
        self._channels.pop(name, None)

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order of publishing."""
        return dict(self._published_batches)

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, all or nothing.

        The rows of these attempts become rows of their channels, as if they were appended.  All other rows staged for
        this batch of the query, or for older ones, are forgotten.

        Args:
            query: the query of the batch.
            batch: from now on the last published batch of the query.
            parts: in the order of their rows; the store may have nothing of a part without rows, or of a removed
                channel.
            forgotten: queries whose last published batch need not be remembered any more.

        Raises:
            StoreError: the write failed.
        """
        for channel, staging, first_row in parts:
            if channel in self._channels:
                self._channels[channel].publish(staging, first_row)
        for place in self._channels.values():
            place.forget_older(query, batch)
        for old in (query, *forgotten):
            self._published_batches.pop(old, None)
        self._published_batches[query] = batch

    async def until_lost(self) -> StoreError:
        """Wait until the store can never be written again, because another exchange has it; why.  Most are never lost.

        The exchange ends its streams then, so that its peers dial the other one.
        """
        never: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        return await never

    def close(self) -> None:
        """Release the store's resources; the exchange calls no method afterwards.  Closing twice is harmless."""
