"""Rows that are kept in memory: for as long as the exchange lives."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar
from uuid import uuid4

import pyarrow as pa

from permitflow.exchange.stores.store import KeptChannel, PublishedPart
from permitflow.protocol.control import ChannelState
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec, joined, runs

__all__ = ["MemoryChannelStore", "MemoryStore"]

# A list is cut at its beginning as a whole: only when that is worth it.
_CUT_AT = 256
# So many bytes are worth a batch of their own; a batch takes about a kilobyte besides its rows, and a call to read.
_SMALL_BYTES = 4 << 10
# What is joined is let go of as a whole: a few rows that a consumer needs should not hold a window of others.
_JOINED_BYTES = 256 << 10


def _nothing() -> None:
    """Do nothing when the place is removed."""


class MemoryChannelStore:
    """See ``ChannelStore``.  A batch of which one row is needed stays as a whole: slices free no memory."""

    def __init__(
        self,
        on_removal: Callable[[], object] = _nothing,
        kept: Iterable[tuple[int, pa.RecordBatch]] = (),
        staged: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({}),
    ) -> None:
        """Begin, with what a durable store has.

        Args:
            on_removal: called when the place is removed.
            kept: each batch of the channel with the number of its first row, in order.
            staged: the chunks of each attempt.
        """
        self._on_removal = on_removal
        self._codec: BatchCodec | None = None
        """None: there was nothing to join yet."""
        rows = [*kept]
        self._first_rows = [first_row for first_row, _ in rows]
        self._batches: list[pa.RecordBatch] = [batch for _, batch in rows]
        self._forgotten = 0
        self._staged = {staging: [*batches] for staging, batches in staged.items()}

    def load(self) -> KeptChannel:
        """A new log: whatever was there before is lost."""
        return KeptChannel(log_id=uuid4().hex)

    async def declare(self, schema: pa.Schema) -> None:
        """Nothing to do."""

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows."""
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
        """The rows ``[from_row, to_row)``."""
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
        """Let go of the batches of which no row is needed."""
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
        """Keep chunks that are not part of the channel."""
        self._staged.setdefault(staging, []).extend(self._joined(batches))

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Let go of attempts."""
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
        """Nothing to do."""

    def remove(self) -> None:
        """Let go of everything."""
        self._on_removal()
        self._first_rows, self._batches, self._forgotten = [], [], 0
        self._staged.clear()


class MemoryStore:
    """See ``Store``."""

    is_durable: ClassVar[bool] = False

    def __init__(self, published_batches: Mapping[str, int] = MappingProxyType({})) -> None:
        """Without channels; what was published before is remembered."""
        self._channels: dict[str, MemoryChannelStore] = {}
        self._published_batches = dict(published_batches)

    def open_channels(
        self,
        names: Sequence[str],
        *,
        parameters: Parameters,
        consumers: Sequence[str],
        schema: pa.Schema | None = None,
    ) -> Sequence[MemoryChannelStore]:
        """Empty places."""
        places = {name: MemoryChannelStore(partial(self._channels.pop, name, None)) for name in names}
        self._channels |= places
        return list(places.values())

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query, in the order in which they were published."""
        return dict(self._published_batches)

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch."""
        for channel, staging, first_row in parts:
            if channel in self._channels:
                self._channels[channel].publish(staging, first_row)
        for place in self._channels.values():
            place.forget_older(query, batch)
        for old in (query, *forgotten):
            self._published_batches.pop(old, None)
        self._published_batches[query] = batch

    def close(self) -> None:
        """Nothing to do."""
