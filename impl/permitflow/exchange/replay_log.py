"""The log of a channel that keeps its rows: where the books meet the store.

Rows are counted once they are kept, and forgotten once that is noted.  Producers wait here for room, in the order in
which they came; readers read what is kept, again and again, each on its own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from itertools import accumulate
from time import monotonic
from typing import TypeVar

import pyarrow as pa

from permitflow.channels.waiting import Stopwatch
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelError,
    InvalidParametersError,
    LogReplacedError,
    RowsForgottenError,
    TooManyProducersError,
)
from permitflow.exchange.stores.store import ChannelStore
from permitflow.protocol.control import ChannelState
from permitflow.protocol.replay import MOST_PRODUCERS, ReplayBooks
from permitflow.transports.arrow import require_equal_schemas

__all__ = ["ReplayLog", "settled"]

T = TypeVar("T")


async def settled(writing: Coroutine[object, object, T]) -> T:
    """Finish a write, and what notes it, even if the caller is cancelled meanwhile."""
    task = asyncio.create_task(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            # The caller may be cancelled again.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
        raise


def _nothing() -> None:
    """Require nothing."""


class ReplayLog:
    """The rows of one channel, numbered, each kept until all consumers have acknowledged it."""

    def __init__(
        self,
        name: str,
        limit_rows: int,
        schema: pa.Schema | None,
        store: ChannelStore,
        consumers: Sequence[str],
    ) -> None:
        """Go on with what the store has kept.

        Raises:
            InvalidParametersError: the consumers are none.
            SchemaMismatchError: the store has kept rows of another schema.
            StoreError: it cannot be read.
        """
        kept = store.load()
        if schema is not None and kept.schema is not None:
            require_equal_schemas(ours=kept.schema, theirs=schema)
        self.name = name
        self.log_id = kept.log_id
        """Its name; another one after rows were lost."""
        self.books = ReplayBooks(
            limit_rows,
            consumers,
            channel=name,
            next_row=kept.next_row,
            acknowledged=kept.acknowledged,
        )
        self.state, self.reason = kept.state, kept.reason
        self.schema = kept.schema or schema
        """None: no producer has stated it yet."""
        self.found = kept
        """What was there when it was opened."""
        self.store = store
        self.appended_chunks = 0
        """That have come since the log was opened."""
        self.waiting = Stopwatch(monotonic)
        """The time in which producers waited for room."""
        self.writing = asyncio.Lock()
        """Held while rows are added behind the last one, or the log is ended."""
        self._turn = asyncio.Lock()
        self._is_declared = kept.schema is not None
        self._producer_rows = dict(kept.producers)
        self._is_removed = False
        self._changed = asyncio.Event()
        self._acknowledging = asyncio.Lock()

    # Waiting.

    def note_change(self) -> None:
        """Wake all that wait in ``changed``."""
        self._changed.set()
        self._changed.clear()

    async def changed(self) -> None:
        """Wait until something has changed."""
        await self._changed.wait()

    async def known_schema(self) -> pa.Schema:
        """The schema, as soon as a producer has stated it.

        Raises:
            ChannelError: none will.
        """
        while self.schema is None:
            self.require_appendable()
            await self._changed.wait()
        return self.schema

    # Producers.

    def require_appendable(self, schema: pa.Schema | None = None) -> None:
        """Refuse rows that come too late, or have another schema.

        Raises:
            ChannelAbortedError: the channel is broken, or was removed.
            ChannelClosedError: it has ended.
            SchemaMismatchError: it has another schema.
        """
        if self._is_removed or self.state is not ChannelState.OPEN:
            raise self._refusal()
        if schema is not None and self.schema is not None:
            require_equal_schemas(ours=self.schema, theirs=schema)

    def _refusal(self) -> ChannelError:
        if self._is_removed or self.state is ChannelState.BROKEN:
            return ChannelAbortedError(channel=self.name, reason=self.reason)
        return ChannelClosedError(end=f"sender of channel {self.name!r}")

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema of the first producer that was accepted.

        Raises:
            StoreError: it could not be written.
            ChannelError, SchemaMismatchError: as ``require_appendable``.
        """
        self.require_appendable(schema)
        if not self._is_declared:
            await settled(self._declare(schema))

    async def _declare(self, schema: pa.Schema) -> None:
        async with self.writing:
            self.require_appendable(schema)
            if not self._is_declared:
                await self.store.declare(schema)
                self.schema, self._is_declared = schema, True
                self.note_change()

    def rows_of(self, producer: str) -> int:
        """How many rows of a named producer were ever appended."""
        return self._producer_rows.get(producer, 0)

    def require_nameable(self, producer: str, others: Iterable[str]) -> None:
        """Refuse a producer with a new name where too many are remembered, with the names of those that put now.

        Raises:
            TooManyProducersError: there are.
        """
        known = self._producer_rows
        if producer not in known and len(known) + sum(other not in known for other in others) >= MOST_PRODUCERS:
            raise TooManyProducersError(channel=self.name, producer=producer, limit=MOST_PRODUCERS)

    async def append(
        self, batches: Sequence[pa.RecordBatch], producer: str = "", require: Callable[[], None] = _nothing
    ) -> int:
        """Wait until there is room for the first batch; then keep as many as there is room for, and say how many.

        Those who wait are served in the order in which they came.  Cancelled, it has kept all of these or none.

        Args:
            batches: of the schema that was declared, none empty, none above the limit.
            producer: whose they are; empty: of no named producer.
            require: called before anything is kept; raises if it must not be any more.

        Raises:
            ChannelError: the channel is over.
            InvalidParametersError: the first batch will never fit.
            StoreError: they could not be written; nothing was kept.

        Spec: Produce of SparkMicroBatch.
        """
        rows, limit_rows = batches[0].num_rows, self.books.limit_rows
        if rows > limit_rows:
            rule = f"must be at most the {limit_rows} rows that are kept at once: cut the chunk first"
            raise InvalidParametersError(name="rows", value=rows, rule=rule)

        def require_open() -> None:
            self.require_appendable()
            require()

        count = 0
        async with self._turn:
            while not count:
                await self._room(rows, require_open)
                count = await settled(self._append(batches, producer, require_open))
        return count

    async def _room(self, rows: int, require: Callable[[], None]) -> None:
        if self.books.has_room(rows):
            return
        self.waiting.start()
        try:
            while not self.books.has_room(rows):
                require()
                await self._changed.wait()
        finally:
            self.waiting.stop()

    async def _append(self, batches: Sequence[pa.RecordBatch], producer: str, require: Callable[[], None]) -> int:
        async with self.writing:
            require()
            chunk_rows = [batch.num_rows for batch in batches]
            # A batch that was published meanwhile may have taken the room.
            count = sum(self.books.has_room(total) for total in accumulate(chunk_rows))
            if count:
                rows = sum(chunk_rows[:count])
                producer_rows = self.rows_of(producer) + rows if producer else 0
                await self.store.append(self.books.next_row, batches[:count], producer, producer_rows)
                if producer:
                    self._producer_rows[producer] = producer_rows
                self.books.produce(rows)
                self.note_appended(count)
        return count

    def note_appended(self, chunks: int) -> None:
        """So many chunks are part of the log now."""
        self.appended_chunks += chunks
        self.note_change()

    async def finish(self, state: ChannelState, reason: str = "") -> None:
        """No row will come any more.  A log that has been finished stays as it is.

        Raises:
            StoreError: that could not be written.
        """
        await settled(self._finish(state, reason))

    async def _finish(self, state: ChannelState, reason: str) -> None:
        async with self.writing:
            if self._is_removed or self.state is not ChannelState.OPEN:
                return
            await self.store.finish(state, reason)
            self.state, self.reason = state, reason
        self.note_change()

    def remove(self, reason: str) -> None:
        """Forget all of it; its users get an error."""
        self._is_removed = True
        self.state, self.reason = ChannelState.BROKEN, reason
        self.store.remove()
        self.note_change()

    # Consumers.

    def require_log(self, log_id: str) -> None:
        """Refuse a peer that means rows that are lost.

        Args:
            log_id: the log in which it has counted; empty: any.

        Raises:
            LogReplacedError: it is another one.
        """
        if log_id and log_id != self.log_id:
            raise LogReplacedError(channel=self.name, wanted_log=log_id, log=self.log_id)

    def require_acknowledgeable(self, consumer: str, row: int, log_id: str = "") -> None:
        """Refuse what ``acknowledge`` would refuse."""
        self.require_log(log_id)
        self.books.require_acknowledgeable(consumer, row)

    async def acknowledge(self, consumer: str, row: int, log_id: str = "") -> None:
        """Note that a consumer needs no row before this one any more.  Less than before changes nothing.

        Raises:
            UnknownConsumerError: rows are not kept for it.
            RowsNotThereError: it acknowledges rows that have not come.
            LogReplacedError: it has counted rows that are lost.
            StoreError: it could not be written.

        Spec: Acknowledge of SparkMicroBatch.
        """
        self.require_acknowledgeable(consumer, row, log_id)
        await settled(self._acknowledge(consumer, row))

    async def _acknowledge(self, consumer: str, row: int) -> None:
        async with self._acknowledging:
            if self._is_removed or row <= self.books.acknowledged_by(consumer):
                return
            others = (at for name, at in self.books.acknowledged.items() if name != consumer)
            await self.store.acknowledge(consumer, row, min(row, *others, row))
            freed = self.books.acknowledge(consumer, row)
        if freed:
            self.note_change()

    async def read(
        self, consumer: str, from_row: int, to_row: int | None, *, most_rows: int
    ) -> AsyncIterator[list[pa.RecordBatch]]:
        """The rows ``[from_row, to_row)``, a few at a time; without ``to_row`` all that will ever come.

        Args:
            consumer: whose reading it is; nothing is acknowledged by it.
            from_row: a row that is kept, or the next that will come.
            to_row: all rows before it must have come.
            most_rows: that are handed over at a time.

        Raises:
            ReplayError: this consumer cannot read these rows, or has acknowledged some of them meanwhile.
            ChannelAbortedError: the channel is broken, and all that it kept was read; or it was removed.
            StoreError: they cannot be read.

        Spec: RunTask of SparkMicroBatch.
        """
        row = self.books.require_readable(consumer, from_row, to_row)
        while to_row is None or row < to_row:
            self._require_kept(consumer, row)
            stop = min(self.books.next_row if to_row is None else to_row, row + most_rows)
            if stop > row:
                batches = await self.store.read(row, stop)
                if sum(batch.num_rows for batch in batches) != stop - row:
                    self._require_kept(consumer, row)
                    raise RowsForgottenError(
                        channel=self.name, wanted_row=row, first_kept_row=self.books.first_kept_row
                    )
                yield batches
                row = stop
            elif self.state is ChannelState.ENDED:
                return
            elif self.state is ChannelState.BROKEN:
                raise ChannelAbortedError(channel=self.name, reason=self.reason)
            else:
                await self._changed.wait()

    def _require_kept(self, consumer: str, row: int) -> None:
        if self._is_removed:
            raise self._refusal()
        self.books.require_readable(consumer, row)
