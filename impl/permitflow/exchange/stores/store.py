"""The store of an exchange's replay channels: in memory and, for a durable store, also on disk.

The exchange keeps the ledger; the store keeps the data.  A write of a durable store that has returned survives a crash
of the process and of the machine; a store in memory ends with its process.  A call that raises has changed nothing that
this process sees; if the disk failed to flush, the next one to open the store may find what was refused.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import time
from types import MappingProxyType
from typing import ClassVar, NamedTuple
from uuid import uuid4

import pyarrow as pa

from permitflow.errors import InvalidParametersError, PeerGoneError, StoreError
from permitflow.flows.seam import Parameters
from permitflow.stream.control import ChannelState, KeptBarrier
from permitflow.stream.frames import Staging
from permitflow.wire.arrow import BatchCodec, joined, runs

# This many bytes are worth a batch of their own; a batch takes about a kilobyte besides its rows, and a call to read.
_SMALL_BYTES = 4 << 10
# What is joined is let go of as a whole: a few rows that a consumer needs should not hold a window of others.
_JOINED_BYTES = 256 << 10


class PublishedPart(NamedTuple):
    """An attempt to publish in its channel."""

    channel: str
    staging: Staging
    first_row: int
    """The number of its first row."""


class KeptBatch(NamedTuple):
    """Rows that are kept together, and go together."""

    first_row: int
    rows: pa.RecordBatch
    taken_at: int
    """When the channel took them over, in microseconds since 1970 by this machine's clock."""


class Expiry(NamedTuple):
    """When kept rows expire, needed or not; whole batches at a time."""

    seconds: float | None = None
    """Rows expire after this long in the channel; None: never."""
    most_bytes: int | None = None
    """The oldest, above this many bytes in memory, but for the newest batch; None: never."""

    def __bool__(self) -> bool:
        """Do any rows expire?"""
        return self.seconds is not None or self.most_bytes is not None


NEVER = Expiry()
"""Rows stay until all consumers have acknowledged them."""


def require_expiry(seconds: float | None, most_bytes: int | None) -> Expiry:
    """When rows expire.

    Raises:
        InvalidParametersError: ``seconds`` is not above 0, or ``most_bytes`` is below 1.
    """
    if seconds is not None and not 0 < seconds < inf:
        raise InvalidParametersError(name="expire_seconds", value=seconds, rule="must be above 0, or None for never")
    if most_bytes is not None and most_bytes < 1:
        raise InvalidParametersError(
            name="expire_bytes", value=most_bytes, rule="must be at least 1, or None for never"
        )
    return Expiry(seconds, most_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptChannel:
    """The stored data of a channel."""

    log_id: str = field(default_factory=lambda: uuid4().hex)
    """The name of the log: made when the channel was first opened, and kept with its rows."""
    next_row: int = 0
    """The number that the next appended row gets."""
    acknowledged: Mapping[str, int] | None = None
    """The first row that each consumer still needs; None: the channel is new."""
    expired_row: int = 0
    """All rows before it are gone, though some consumer may need them."""
    producers: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each named producer were ever appended."""
    schema: pa.Schema | None = None
    """The newest one."""
    schemas: int = 0
    """How many it has had; each extends the one before."""
    state: ChannelState = ChannelState.OPEN
    reason: str = ""
    """The reason why it is broken; else empty."""
    staged: Mapping[Staging, Sequence[int]] = field(default_factory=dict)
    """The rows of each chunk of each unpublished attempt, in the order in which the attempts began."""
    prepared: Collection[Staging] = ()
    """Those of these attempts that do not expire."""
    barriers: Sequence[KeptBarrier] = ()
    """Those that are needed, and the newest one, in order."""


class ChannelStore:
    """Keeps one channel; this one in memory, for as long as the exchange lives.

    The exchange makes one call of ``declare``, ``append``, ``keep_barrier``, ``finish``, and ``Store.publish`` for this
    channel, at a time, one of ``acknowledge`` and ``expire``, and for each attempt one of ``stage`` and ``forget``;
    these, and any number of ``read``, may be under way together.  It never cancels a call that writes.

    A batch of which one row is needed stays as a whole: slices free no memory.
    """

    def __init__(
        self,
        kept: KeptChannel | None = None,
        batches: Iterable[KeptBatch] = (),
        staged: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({}),
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Begin a new log, or continue with a durable store's data.

        Args:
            kept: the stored data of the channel; None: it is new.
            batches: the kept batches, in order.
            staged: the chunks of each attempt.
            clock: returns the seconds since 1970; None: this machine's.
        """
        self._clock = clock or time
        self._kept = kept or KeptChannel()
        self._codec = None if self._kept.schema is None else BatchCodec(self._kept.schema)
        """None: no schema was declared yet."""
        self._batches = [*batches]
        self._first_rows = [batch.first_row for batch in self._batches]
        self._sizes: list[int] = []
        """Bytes of the first batches, as many of them as were asked for."""
        self._sized_bytes = 0
        """The bytes of all of these batches together."""
        self._staged = {staging: [*chunks] for staging, chunks in staged.items()}

    @property
    def is_writable(self) -> bool:
        """Can it be written?"""
        return True

    def load(self) -> KeptChannel:
        """Return the stored data; called once, before all other methods."""
        return self._kept

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema, before the first ``append``; or a newer one, which extends it.

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
        self._append(first_row, self._joined(batches), self.now())

    def now(self) -> int:
        """The time, in microseconds since 1970."""
        return int(self._clock() * 1e6)

    def _append(self, first_row: int, batches: Sequence[pa.RecordBatch], taken_at: int) -> None:
        for batch in batches:
            self._first_rows.append(first_row)
            self._batches.append(KeptBatch(first_row, batch, taken_at))
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
        return [batch.rows for batch in await self.read_kept(from_row, to_row)]

    async def read_kept(self, from_row: int, to_row: int) -> list[KeptBatch]:
        """As ``read``, with the time at which each batch came."""
        found: list[KeptBatch] = []
        position = bisect_right(self._first_rows, from_row) - 1
        if position < 0:
            return []
        while from_row < to_row:
            first_row, batch, taken_at = self._batches[position]
            start, stop = from_row - first_row, min(batch.num_rows, to_row - first_row)
            whole = stop - start == batch.num_rows
            found.append(KeptBatch(from_row, batch if whole else batch.slice(start, stop - start), taken_at))
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
        self._forget(first_kept_row)

    async def expire(self, row: int, next_barrier: int = 0) -> None:
        """Note that the rows before this one have expired; they and barriers as for ``acknowledge`` need not be kept.

        Raises:
            StoreError: the write failed.
        """
        self._forget(row)

    def _forget(self, first_kept_row: int) -> None:
        unneeded = bisect_right(self._first_rows, first_kept_row) - 1
        if unneeded == len(self._batches) - 1 >= 0:
            unneeded += first_kept_row >= self._end_of(-1)
        if unneeded > 0:
            self._sized_bytes -= sum(self._sizes[:unneeded])
            del self._batches[:unneeded], self._first_rows[:unneeded], self._sizes[:unneeded]

    def _end_of(self, position: int) -> int:
        first_row, batch, _ = self._batches[position]
        rows: int = batch.num_rows
        return first_row + rows

    @property
    def kept_bytes(self) -> int:
        """Bytes of the kept batches."""
        new = [batch.rows.nbytes for batch in self._batches[len(self._sizes) :]]
        self._sizes += new
        self._sized_bytes += sum(new)
        return self._sized_bytes

    def expirable_row(self, expiry: Expiry) -> int:
        """The row before which all rows are to expire now; 0: none are."""
        batches, position = self._batches, 0
        if expiry.seconds is not None:
            oldest = self.now() - int(expiry.seconds * 1e6)
            while position < len(batches) and batches[position].taken_at <= oldest:
                position += 1
        if expiry.most_bytes is not None:
            excess_bytes = self.kept_bytes - sum(self._sizes[:position]) - expiry.most_bytes
            while excess_bytes > 0 and position < len(batches) - 1:
                excess_bytes -= self._sizes[position]
                position += 1
        return self._end_of(position - 1) if position else 0

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

    def publish(self, staging: Staging, first_row: int, taken_at: int) -> None:
        """Make an attempt's chunks part of the channel, at this time."""
        self._append(first_row, self._staged.pop(staging, ()), taken_at)

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

    def clear(self) -> None:
        """Hold no rows any more: the channel was removed."""
        self._first_rows, self._batches, self._sizes = [], [], []
        self._staged.clear()


class Store:
    """Keeps the replay channels of one exchange; this one in memory."""

    is_durable: ClassVar[bool] = False
    """Do the kept rows survive the exchange?"""

    def __init__(self, published_batches: Mapping[str, int] = MappingProxyType({})) -> None:
        """Without channels; what was published before is remembered."""
        self.clock: Callable[[], float] = time
        """Returns the seconds since 1970."""
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
        places = {name: ChannelStore(clock=lambda: self.clock()) for name in names}
        self._channels |= places
        return list(places.values())

    async def remove(self, names: Collection[str]) -> None:
        """Forget channels and all their rows, all or none; the exchange writes nothing into them meanwhile, or later.

        Raises:
            StoreError: the write failed.
        """
        for name in names:
            if (place := self._channels.pop(name, None)) is not None:
                place.clear()

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order of publishing."""
        return dict(self._published_batches)

    async def prepare(self, parts: Sequence[tuple[str, Staging]]) -> None:
        """Note that attempts do not expire, all or none.

        Args:
            parts: each with its channel; the store may have nothing of a part without rows, or of a removed channel.

        Raises:
            StoreError: the write failed.
        """

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
        self._publish(query, batch, parts, forgotten, int(self.clock() * 1e6))

    def _publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str], taken_at: int
    ) -> None:
        for channel, staging, first_row in parts:
            if channel in self._channels:
                self._channels[channel].publish(staging, first_row, taken_at)
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

    @property
    def is_own(self) -> bool:
        """Is it sure that no other exchange has taken the store meanwhile?  Most are never shared."""
        return True

    def require_own(self) -> None:
        """Require ``is_own``.

        Raises:
            PeerGoneError: another one may have it; clients look for that one.
        """
        if not self.is_own:
            reason = "the database of its store does not answer, and another exchange may have its store"
            raise PeerGoneError(who="the exchange", reason=reason)

    def close(self) -> None:
        """Release the store's resources; the exchange calls no method afterwards.  Closing twice is harmless."""
