"""A channel that keeps its rows until every consumer has acknowledged them: its ledger decides, its store writes.

The ledger counts a row after the store has kept it, and frees it after the store has noted its acknowledgements.
Producers wait for room in turn.  A producer's message is consumed once it is kept; a producer that vanishes leaves the
channel open, so that it or another one may continue.  A consumer reads a range, or follows the channel to its end.
Reading acknowledges nothing, so any number of streams may read the same rows, and may leave at any time.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from itertools import accumulate, groupby
from time import monotonic
from typing import ClassVar, ParamSpec, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.change import Change
from permitflow.channels.local import Purged
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import Stopwatch
from permitflow.chunks import DEFAULT_CHUNK_ROWS, slices
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelError,
    ChannelRemovedError,
    ChannelResetError,
    EndOfStream,
    InvalidParametersError,
    LogReplacedError,
    ProducerEndedError,
    ProducerReplacedError,
    RetentionError,
    RowsForgottenError,
    StagingError,
    TooManyProducersError,
)
from permitflow.exchange.books.attempts import AttemptBooks
from permitflow.exchange.books.bridge import BridgeState
from permitflow.exchange.books.kept_barriers import KeptBarriers
from permitflow.exchange.books.replay import DEFAULT_CONSUMER, MOST_PRODUCERS, ReplayBooks
from permitflow.exchange.channels.expiring import Expiring
from permitflow.exchange.channels.streams import AnyStream, ConsumerStream, Direction, ProducerStream, Streams
from permitflow.exchange.stores.store import NEVER, ChannelStore, Expiry, KeptBatch
from permitflow.exchange.turns import Stint
from permitflow.flows.byte_window import DEFAULT_WINDOW, ByteWindow
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Parameters
from permitflow.names import require_name
from permitflow.stream.control import ChannelPosition, ChannelState, KeptBarrier, Retention
from permitflow.stream.frames import Abort, End, EndOutcome, Get, Put
from permitflow.stream.traffic import ChannelTraffic, KeptRows
from permitflow.wire.arrow import MAX_CHUNK_BYTES, BatchCodec, owned
from permitflow.wire.schemas import (
    OF_KEPT_PRODUCER,
    TIME_FIELD,
    extends,
    fitted,
    require_equal_schemas,
    resized,
    widened,
)

A = ParamSpec("A")
T = TypeVar("T")

Keep: TypeAlias = Callable[[Sequence[pa.RecordBatch]], Awaitable[int]]
"""Waits until there is room for the first chunk, keeps as many chunks as fit, and returns how many."""

# Messages per step: enough to make each one cheap, few enough to let other tasks run.
_AT_ONCE = 512


def settled(write: Callable[A, Coroutine[object, object, T]]) -> Callable[A, Coroutine[object, object, T]]:
    """Let each call finish its write and its bookkeeping, even if the caller is cancelled meanwhile."""

    @wraps(write)
    async def until_done(*arguments: A.args, **named: A.kwargs) -> T:
        task = asyncio.create_task(write(*arguments, **named))
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

    return until_done


class ReplayChannel:
    """A named channel between any number of producers and its consumers, which may read rows again.

    It is a log of numbered rows; each row is kept until all consumers have acknowledged it, or it expires.
    """

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        schema: pa.Schema | None,
        store: ChannelStore,
        consumers: Sequence[str],
        limit_rows: int,
        attempts: AttemptBooks,
        told_name: str = "",
        window: ByteWindow = DEFAULT_WINDOW,
        expiry: Expiry = NEVER,
    ) -> None:
        """Continue with the store's rows, which have this schema, if any; use ``Exchange.add_channel``.

        ``told_name`` is used in the names of streams.

        Raises:
            InvalidParametersError: the consumers are invalid.
            StoreError: the store cannot be read.
        """
        kept = store.load()
        self.name = name
        self.attempts = attempts
        self.parameters = parameters
        self.window = window
        """The largest byte window of each of its streams."""
        self.most_rows = min(limit_rows, parameters.most_rows or DEFAULT_CHUNK_ROWS)
        """The most rows of a kept piece: larger chunks are split."""
        self.log_id = kept.log_id
        """The name of the log; it changes when rows are lost."""
        self.books = books = ReplayBooks(
            limit_rows,
            consumers,
            channel=name,
            next_row=kept.next_row,
            acknowledged=kept.acknowledged,
            expired_row=kept.expired_row,
        )
        gone = {consumer: max(row, books.expired_row) for consumer, row in books.acknowledged.items()}
        self.barriers = KeptBarriers(gone, channel=name, kept=kept.barriers)
        """The barriers among the rows."""
        self.state, self.reason = kept.state, kept.reason
        self.schema = kept.schema or schema
        """None: no producer has stated it yet."""
        self.found = kept
        """The store's contents at the time of opening."""
        self.store = store
        self.waiting = Stopwatch(monotonic)
        """Measures the time in which producers waited for room."""
        self.writing = asyncio.Lock()
        """Held while rows are appended, or the log is ended."""
        self.streams = Streams(told_name or name)
        self.require_endable: Callable[[], None] = lambda: None
        """Raises if the channel must not end now; its staging area sets it."""
        self._producers: dict[str, ReplayProducer] = {}
        """Named producers that put now."""
        self._claiming = asyncio.Lock()
        """Held while a producer takes its name: one that waits for that must not replace a newer one, which did not."""
        self._waiting_rows = self._purged_rows = self._expired_rows = 0
        self._opened_with = books.next_row, books.first_kept_row
        self._turn = asyncio.Lock()
        self._is_declared = kept.schema is not None
        self._mixes_schemas = kept.schemas > 1
        """Are some of its rows, or will some be, from producers with less columns than others?"""
        self._producer_rows = dict(kept.producers)
        self._is_removed = False
        self._dismissal = ChannelResetError(channel=name)
        """The error of those who were dismissed last."""
        self._changed = Change()
        self._forgetting = asyncio.Lock()
        """Held while rows are acknowledged, or expire."""
        self.expiring = Expiring(self, expiry)

    @property
    def stream_most_bytes(self) -> int:
        """The most bytes of chunks at the exchange's end of a stream, besides kept rows."""
        return self.window.most_bytes(MAX_CHUNK_BYTES)

    # Waiting.

    def note_change(self) -> None:
        """Wake all waiting tasks."""
        self._changed.note()

    async def room(self, find: Callable[[], T], require: Callable[[], None]) -> T:
        """Wait until there is room: call ``find`` at each change, and return its first true result.

        Args:
            find: returns a false value if there is no room.
            require: raises if the wait must end.
        """
        if found := find():
            return found
        self.expiring.go_on()  # rows that were in the store before the event loop ran
        self.waiting.start()
        try:
            while not found:
                require()
                await self._changed.wait()
                require()
                found = find()
            return found
        finally:
            self.waiting.stop()

    async def known_schema(self) -> pa.Schema:
        """Wait until a producer has stated the schema, and return it.

        Raises:
            ChannelError: no producer will state it, or the channel has ended the streams that wait for it.
        """
        told = self._dismissal
        while self.schema is None:
            self.require_appendable()
            if self._dismissal is not told:
                raise ChannelResetError(channel=self.name, reason=self._dismissal.reason)
            await self._changed.wait()
        return self.schema

    # Producers.

    def require_appendable(self, schema: pa.Schema | None = None, producer: str = "") -> None:
        """Refuse rows that are too late, or have another schema.

        Raises:
            ChannelAbortedError: the channel is broken, or was removed.
            ChannelClosedError: the channel has ended.
            ProducerEndedError: the same for a producer with a name, which learns how many of its rows are there.
            SchemaMismatchError: the channel has another schema, and none of the two extends the other.
        """
        if self._is_removed or self.state is not ChannelState.OPEN:
            raise self._refusal(producer)
        if schema is None or self.schema is None:
            return
        schema = fitted(schema, self.schema)
        if extends(schema, self.schema) or extends(self.schema, schema):
            return
        require_equal_schemas(ours=self.schema, theirs=schema, owners=OF_KEPT_PRODUCER)

    def _refusal(self, producer: str = "") -> ChannelError | ProducerEndedError:
        if self._is_removed:
            return ChannelRemovedError(channel=self.name)
        if self.state is ChannelState.BROKEN:
            again = f"{self.reason}; permitflow channel reset opens it again, and its rows stay"
            return ChannelAbortedError(channel=self.name, reason=again)
        if producer:
            return ProducerEndedError(channel=self.name, producer=producer, rows=self.rows_of(producer))
        why = "a producer has ended the channel, and its rows are there: take another one, or open it again for more "
        why += "(permitflow channel reset; its rows stay)"
        return ChannelClosedError(end=f"sender of channel {self.name!r} ({why})")

    async def declare(self, schema: pa.Schema) -> pa.Schema:
        """Note the schema of the first accepted producer, and of each that extends it; return that of its rows here.

        Raises:
            StoreError: the write failed.
            ChannelError, SchemaMismatchError: as ``require_appendable``.
        """
        self.require_appendable(schema)
        schema = fitted(schema, self.schema)
        if not self._is_declared or (self.schema is not None and extends(schema, self.schema)):
            schema = await self._declare(schema)
        self._mixes_schemas |= self.schema is not None and len(self.schema) != len(schema)
        return schema

    @settled
    async def _declare(self, schema: pa.Schema) -> pa.Schema:
        async with self.writing:
            self.require_appendable(schema)
            schema = fitted(schema, self.schema)  # it may be known only now
            is_new = self.schema is not None and extends(schema, self.schema)
            if not self._is_declared or is_new:
                widest = schema if self.schema is None or len(schema) >= len(self.schema) else self.schema
                await self.store.declare(widest)
                self.schema, self._is_declared = widest, True
                self._mixes_schemas |= is_new
                self.note_change()
            return schema

    def as_declared(self, batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
        """Rows in the newest schema: null in the columns that their producer does not know."""
        schema = self.schema
        if not self._mixes_schemas or schema is None:
            return batches
        return [resized(batch, schema) for batch in batches]

    def rows_of(self, producer: str) -> int:
        """The number of rows that a named producer ever appended."""
        return self._producer_rows.get(producer, 0)

    async def claim(self, name: str, producer: "ReplayProducer") -> int:
        """Give the name to this producer, and replace an older one; return ``rows_of`` the name.

        The older producer may be a dead process whose connection has not timed out yet.

        Raises:
            TooManyProducersError: the name is new, and the channel remembers too many names.

        Spec: ReplaceHolder, TakeName of NamedProducer.
        """
        async with self._claiming:
            if (older := self._producers.get(name)) is not None:
                await older.replaced(ProducerReplacedError(channel=self.name, producer=name, by=producer.peer))
            known = self._producer_rows
            others = sum(other not in known for other in self._producers)
            if name not in known and len(known) + others >= MOST_PRODUCERS:
                raise TooManyProducersError(channel=self.name, producer=name, limit=MOST_PRODUCERS)
            self._producers[name] = producer
            return self.rows_of(name)

    def disclaim(self, name: str, producer: "ReplayProducer") -> None:
        """Free the name for its next producer.

        Spec: FreeName of NamedProducer.
        """
        if self._producers.get(name) is producer:
            del self._producers[name]

    async def append(self, chunk: pa.RecordBatch, producer: str = "") -> None:
        """Append a chunk, as a remote producer does; wait until there is room for it.

        A chunk above ``most_rows``, or longer than a message, is appended in slices; a cancellation may leave only
        some of them appended.

        Raises:
            ChannelError: the channel is over.
            SchemaMismatchError: the channel has another schema.
            ChunkTooLargeError: a single row of it does not fit into a message.
            StoreError: the write failed.
        """
        chunk = widened(chunk, await self.declare(chunk.schema))
        for piece in BatchCodec(chunk.schema).cut(chunk, self.most_rows):
            if piece.num_rows:
                await self.keep((piece,), producer)

    async def keep(
        self, batches: Sequence[pa.RecordBatch], producer: str = "", require: Callable[[], None] | None = None
    ) -> int:
        """Wait until there is room for the first batch; then keep as many as fit, and return how many.

        Waiting calls are served in turn.  A cancelled call has kept all of the fitting batches or none.

        Args:
            batches: of the declared schema, none empty, none above the limit.
            producer: the name of their producer; empty: it has none.
            require: called before each write; raises if nothing may be kept any more; by default
                ``require_appendable``.

        Raises:
            ChannelError: the channel is over.
            InvalidParametersError: the first batch will never fit.
            StoreError: the write failed; nothing was kept.

        Spec: Produce of SparkMicroBatch.
        Spec: BeginWrite, WriteRows, NoteRows, FailWrite of NamedProducer.
        """
        rows, limit_rows = batches[0].num_rows, self.books.limit_rows
        if rows > limit_rows:
            rule = f"must be at most the {limit_rows} rows that are kept at once: cut the chunk first"
            raise InvalidParametersError(name="rows", value=rows, rule=rule)

        require = require or self.require_appendable
        count = 0
        async with self._turn:
            self._waiting_rows = rows
            try:
                while not count:
                    await self.room(lambda: self.books.has_room(rows), require)
                    count = await self._keep(batches, producer, require)
            finally:
                self._waiting_rows = 0
        return count

    @settled
    async def _keep(self, batches: Sequence[pa.RecordBatch], producer: str, require: Callable[[], None]) -> int:
        async with self.writing:
            require()
            batches = self.as_declared(batches)
            chunk_rows = [batch.num_rows for batch in batches]
            # A batch published meanwhile may have taken the room.
            count = sum(self.books.has_room(total) for total in accumulate(chunk_rows))
            if count:
                rows = sum(chunk_rows[:count])
                producer_rows = self.rows_of(producer) + rows if producer else 0
                await self.store.append(self.books.next_row, batches[:count], producer, producer_rows)
                if producer:
                    self._producer_rows[producer] = producer_rows
                self.books.produce(rows)
                self._waiting_rows = 0  # at this moment: a position must not tell rows twice
                self.note_appended()
        return count

    async def keep_barrier(self, payload: object = None, require: Callable[[], None] | None = None) -> None:
        """Wait until there is room; then keep a barrier behind all rows that are here.  An older one is void.

        Args:
            payload: its number; None: one more than the newest number.
            require: as for ``keep``.

        Raises:
            RetentionError: the payload is not a number from 1 on.
            ChannelError: the channel is over.
            StoreError: the write failed; nothing was kept.
        """
        require = require or self.require_appendable
        async with self._turn:
            number = self.barriers.number_of(payload)
            if not self.barriers.is_void(number):
                await self.room(self.barriers.has_room, require)
                await self._keep_barrier(number, require)

    @settled
    async def _keep_barrier(self, number: int, require: Callable[[], None]) -> None:
        async with self.writing:
            require()
            barrier = KeptBarrier(number, self.books.next_row)
            await self.store.keep_barrier(barrier)
            self.barriers.keep(barrier)
        self.note_change()

    def note_appended(self) -> None:
        """Note that more rows are in the log."""
        self.expiring.go_on()
        self.note_change()

    async def end(self) -> None:
        """End the channel: consumers read the remaining rows, then the end.  No effect if it is over.

        Raises:
            PreparedRowsError: rows of it are prepared, and wait to be published.
            StoreError: the write failed.
        """
        await self._finish(ChannelState.ENDED, "", self.require_endable)

    async def break_(self, reason: str) -> None:
        """Break the channel: its rows are incomplete, and consumers get an error after them.

        Raises:
            StoreError: the write failed.
        """
        await self._finish(ChannelState.BROKEN, reason)

    @settled
    async def _finish(self, state: ChannelState, reason: str, require: Callable[[], None] = lambda: None) -> None:
        async with self.writing:
            if self._is_removed or self.state is not ChannelState.OPEN:
                return
            require()
            await self.store.finish(state, reason)
            self.state, self.reason = state, reason
        self.note_change()

    # Administration.

    @property
    def users(self) -> list[AnyStream]:
        """The streams that are open."""
        return self.streams.live

    @property
    def backlog(self) -> Purged:
        """The rows and barriers that some consumer has not acknowledged."""
        barriers = len(self.barriers.kept)
        return Purged(self.books.kept_rows + barriers, self.books.kept_rows, barriers)

    @contextlib.asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """Nothing is written into it while the block runs, but staged rows."""
        async with self.writing, self._forgetting:
            yield

    def remove(self) -> int:
        """Be no channel of the exchange any more: its users get an error.  Return how many these were."""
        self._is_removed = True
        self.expiring.stop()
        error = ChannelRemovedError(channel=self.name)
        self.state, self.reason = ChannelState.BROKEN, error.reason
        self.note_change()
        return self.streams.end_all(error)

    def dismiss(self, error: ChannelResetError) -> int:
        """End all streams with this error, and the wait for a schema; return how many streams these were."""
        self._dismissal = error
        self.note_change()
        return self.streams.end_all(error)

    def is_untouched_but_for(self, _job: str) -> bool:
        """Has no row ever come, and does no producer put?"""
        puts = any(stream.direction is Direction.PUT for stream in self.streams.live)
        return self.state is ChannelState.OPEN and not self.books.next_row and not puts

    async def reopen(self) -> None:
        """Let producers append again.

        Rows, their numbers, what consumers have acknowledged and how many rows each named producer has kept stay.

        Raises:
            StoreError: the write failed; the channel stays as it was.
        """
        async with self.writing:
            if self._is_removed:
                raise self._refusal()
            if self.state is not ChannelState.OPEN:
                await self.store.finish(ChannelState.OPEN, "")
                self.state, self.reason = ChannelState.OPEN, ""

    async def purge(self, consumer: str = "") -> Purged:
        """Acknowledge all rows and barriers that are here, for one consumer or for all; return how many it had not.

        A stream that reads rows which were purged meanwhile gets ``RowsForgottenError``.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            StoreError: a write failed; some consumers may be done.

        Spec: Acknowledge of SparkMicroBatch.
        """
        books, consumers = self.books, [consumer] if consumer else [*self.books.acknowledged]
        row, newest = books.next_row, self.barriers.newest
        rows = row - max(books.expired_row, min(map(books.acknowledged_by, consumers)))
        barriers = max(len(self.barriers.needed_by(each)) for each in consumers)
        for each in consumers:
            await self.acknowledge(row, each, next_barrier=newest + 1)
        self._purged_rows += rows
        return Purged(rows + barriers, rows, barriers)

    async def peek(self, rows: int, consumer: str = "") -> list[pa.RecordBatch]:
        """The first rows that a consumer has not acknowledged; nothing changes.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            StoreError: the rows cannot be read.
        """
        start = max(self.books.expired_row, self.books.acknowledged_by(consumer or DEFAULT_CONSUMER))
        return [*self.as_declared(await self.store.read(start, min(self.books.next_row, start + rows)))]

    # Consumers.

    def position(self, consumer: str = "") -> ChannelPosition[pa.Schema]:
        """The channel's position for a consumer.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
        """
        consumer, waiting_rows = consumer or DEFAULT_CONSUMER, self._waiting_rows
        return ChannelPosition(
            channel=self.name,
            acknowledged_row=self.books.acknowledged_by(consumer),
            next_row=self.books.next_row,
            state=self.state,
            reason=self.reason,
            parameters=self.parameters,
            schema=self.schema,
            log_id=self.log_id,
            limit_rows=self.books.limit_rows,
            barriers=self.barriers.needed_by(consumer),
            # The producer may not have heard yet that there is room.
            waiting_rows=0 if self.books.has_room(waiting_rows) else waiting_rows,
            waiting_seconds=self.waiting.seconds,
            expired_row=self.books.expired_row,
        )

    def require_log(self, log_id: str) -> None:
        """Refuse a peer whose row numbers belong to a lost log.

        Args:
            log_id: the log of the peer's row numbers; empty: any.

        Raises:
            LogReplacedError: the channel has another log.
        """
        if log_id and log_id != self.log_id:
            raise LogReplacedError(channel=self.name, wanted_log=log_id, log=self.log_id)

    def require_acknowledgeable(self, row: int, consumer: str = "", log_id: str = "", next_barrier: int = 0) -> bool:
        """Raise as ``acknowledge`` would; return whether it would change anything."""
        self.require_log(log_id)
        consumer = consumer or DEFAULT_CONSUMER
        is_new = row > self.books.require_acknowledgeable(consumer, row)
        return is_new or self.barriers.passes(consumer, row, next_barrier)

    @settled
    async def acknowledge(self, row: int, consumer: str = "", log_id: str = "", next_barrier: int = 0) -> None:
        """Note that a consumer needs no row before ``row`` any more.  A lower row than before changes nothing.

        Args:
            row: the first row that it still needs.
            consumer: its name; empty: ``default``.
            log_id: as for ``require_log``.
            next_barrier: the least number of a barrier that it still needs; 0: none that stands at the row or before.

        Raises:
            UnknownConsumerError: the channel keeps no rows for this consumer.
            RowsNotThereError: some of the rows do not exist yet.
            LogReplacedError: the row number belongs to a lost log.
            StoreError: the write failed.

        Spec: Acknowledge of SparkMicroBatch.
        """
        self.require_acknowledgeable(row, consumer, log_id)
        consumer = consumer or DEFAULT_CONSUMER
        async with self._forgetting:
            first = max(row, self.books.acknowledged_by(consumer))
            is_new = first > self.books.acknowledged_by(consumer)
            if self._is_removed or not (is_new or self.barriers.passes(consumer, row, next_barrier)):
                return
            others = (at for name, at in self.books.acknowledged.items() if name != consumer)
            needed = self.barriers.needed_after(consumer, row, next_barrier)
            kept_from = max(self.books.expired_row, min(first, *others, first))
            await self.store.acknowledge(consumer, first, kept_from, needed)
            freed = self.books.acknowledge(consumer, row)
            makes_room = self.barriers.acknowledge(consumer, row, next_barrier)
        if freed or makes_room:
            self.note_change()

    @property
    def keeps_rows(self) -> bool:
        """Are there rows that may expire?"""
        return self.books.kept_rows > 0 and self.store.is_writable and not self._is_removed

    def expirable_row(self, expiry: Expiry) -> int:
        """The row before which rows are to expire now; 0: none that a consumer needs."""
        row = self.store.expirable_row(expiry) if self.keeps_rows else 0
        return row if row > self.books.first_kept_row else 0

    @settled
    async def expire(self, row: int) -> None:
        """Give up the rows before this one: a consumer that still needs them gets ``RowsExpiredError``.

        Raises:
            RowsNotThereError: some of the rows do not exist yet.
            StoreError: the write failed; nothing has expired.

        Spec: Expire of SparkMicroBatch.
        """
        async with self._forgetting:
            if row <= self.books.first_kept_row or not self.keeps_rows:
                return
            self.books.require_there(row)
            await self.store.expire(row, self.barriers.needed_after_expiry(row))
            self._expired_rows += self.books.expire(row)
            self.barriers.expire(row)
        self.note_change()

    async def read(
        self, consumer: str = DEFAULT_CONSUMER, from_row: int | None = None, to_row: int | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows ``[from_row, to_row)``, as a remote consumer gets them.

        Args:
            consumer: the reading consumer; reading acknowledges nothing.
            from_row: the first row; None: the first row that this consumer has not acknowledged.
            to_row: the row after the last; None: read until the channel ends.

        Raises:
            ReplayError: this consumer cannot read these rows, or has acknowledged some of them meanwhile.
            ChannelAbortedError: the channel is broken, after all its kept rows; or it was removed.
            StoreError: the rows cannot be read.
        """
        start = self.books.require_readable(consumer, from_row, to_row)
        async for batches in self.read_runs(consumer, start, to_row, most_rows=self.books.limit_rows):
            for batch in batches:
                yield batch

    async def read_runs(
        self,
        consumer: str,
        from_row: int,
        to_row: int | None,
        *,
        most_rows: int,
        with_time: bool = False,
        schema: pa.Schema | None = None,
    ) -> AsyncIterator[list[pa.RecordBatch]]:
        """As ``read``, in lists of at most ``most_rows`` rows; ``with_time`` adds the column ``_time``.

        ``schema``: of the rows; the channel's newest one extends it.  None: that one.

        Spec: RunTask of SparkMicroBatch.
        """
        row = self.books.require_readable(consumer, from_row, to_row)
        while to_row is None or row < to_row:
            self._require_kept(consumer, row)
            stop = min(self.books.next_row if to_row is None else to_row, row + most_rows)
            if stop > row:
                kept = await self.store.read_kept(row, stop)
                if self._mixes_schemas and (wanted := schema or self.schema) is not None:
                    kept = [batch._replace(rows=resized(batch.rows, wanted)) for batch in kept]
                batches = [_timed(batch) if with_time else batch.rows for batch in kept]
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

    # Streams.

    def producing(self, end: RemoteReceiver, peer: str) -> "ReplayProducer":
        """The stream of a producer that has dialled from ``peer``."""
        return ReplayProducer(self, end, peer)

    def consuming(self, end: RemoteSender, peer: str) -> "ReplayConsumer":
        """The stream of a consumer that has dialled from ``peer``."""
        return ReplayConsumer(self, end, peer)

    def statistics(self) -> ChannelTraffic:
        """A snapshot of the channel, without its staged rows."""
        books = self.books
        return self.streams.traffic(
            self.name,
            self._bridge_state(),
            self.reason,
            self._numbers(),
            purged_rows=self._purged_rows,
            expired_rows=self._expired_rows,
            kept=KeptRows(
                next_row=books.next_row,
                acknowledged=books.acknowledged,
                published_rows=books.excess_rows,
                expired_row=books.expired_row,
                kept_bytes=self.store.kept_bytes,
                log_id=self.log_id,
            ),
        )

    def _bridge_state(self) -> BridgeState:
        if self.state is ChannelState.OPEN and self.schema is None:
            return BridgeState.WAITING
        if self.state is ChannelState.ENDED and not self.books.kept_rows:
            return BridgeState.SPENT
        return BridgeState(self.state.value)

    def _numbers(self) -> ChannelStatistics:
        books = self.books
        next_row, first_kept_row = self._opened_with
        return ChannelStatistics(
            name=self.name,
            sent_rows=books.next_row - next_row,
            consumed_rows=books.first_kept_row - first_kept_row,
            window_rows=books.limit_rows,
            byte_window=self.window.window_bytes,
            rows_held=min(books.kept_rows, books.limit_rows),
            peak_rows_held=min(books.peak_kept_rows, books.limit_rows),
            waiting_seconds=self.waiting.seconds,
        )


class KeepingProducer(ProducerStream[ReplayChannel]):
    """A producer whose rows are kept."""

    KEEPS: ClassVar[str] = "staged rows"
    """What, in words."""

    async def _break(self, reason: str) -> None:
        await self._channel.break_(reason)

    async def _keep_all(self, keep: Keep) -> End | None:
        """Keep the producer's rows and barriers; return its End, or None if it gave up."""
        stint = Stint()
        try:
            while True:
                await stint.pause()
                for is_chunk, messages in groupby(await self._end.take_many(_AT_ONCE), _is_chunk):
                    if is_chunk:
                        await self._keep([*messages], keep)
                        continue
                    for marker in messages:
                        await self._keep_marker(marker)
                        self._end.consume()
        except EndOfStream:
            pass
        except (ChannelError, StagingError):
            if not isinstance(self._end.ended_with, Abort):
                raise
        match self._end.ended_with:
            case Abort() as abort:
                await self.give_up(abort)
            case End() as end:
                return end
        return None

    async def _keep_marker(self, message: Message[object]) -> None:
        """Keep a barrier or a watermark; this one refuses both.

        Raises:
            RetentionError: the channel cannot keep it.
        """
        what = f"keeps {self.KEEPS} of this producer, and no {message.kind.value}"
        rule = f"{what}: send it on a channel that is read once, or say it in a column"
        raise RetentionError(channel=self._channel.name, retention=Retention.REPLAY.value, rule=rule)

    async def _keep(self, messages: Sequence[Message[pa.RecordBatch]], keep: Keep) -> None:
        """Keep the messages' rows, and consume each message once all its rows are kept."""
        pieces, ends = _cut([message.payload for message in messages], self._channel.most_rows)
        if self._end.shares_memory:
            # Copy shared memory: the producer's process could change it while the rows are kept.
            pieces = owned(pieces)
        kept = consumed = 0
        while consumed < len(messages):
            done = bisect_right(ends, kept)
            if done > consumed:
                self._end.consume(done - consumed)
                consumed = done
            if kept < len(pieces):
                kept += await keep(pieces[kept:])


def _is_chunk(message: Message[pa.RecordBatch]) -> bool:
    return message.kind is Kind.CHUNK


def _cut(chunks: Sequence[pa.RecordBatch], most_rows: int) -> tuple[list[pa.RecordBatch], list[int]]:
    """Cut chunks into pieces; for each chunk, also return the number of pieces up to its end."""
    pieces = [[piece for piece in slices(chunk, most_rows) if piece.num_rows] for chunk in chunks]
    return [piece for own in pieces for piece in own], list(accumulate(map(len, pieces)))


class ReplayProducer(KeepingProducer):
    """A producer of rows that can be read as soon as they are kept.

    If it fails, its kept rows stay; it may send the rest again.
    """

    KEEPS: ClassVar[str] = "rows and barriers"

    def __init__(self, channel: ReplayChannel, end: RemoteReceiver, peer: str) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer)
        self._replacement: ProducerReplacedError | None = None
        self._left = asyncio.Event()

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Accept the producer, and keep its rows; free its name for the next producer once no more rows are kept."""
        channel, name = self._channel, put.producer
        require_name("producer", name)
        channel.require_appendable(producer=name)
        rows = fitted(schema, channel.schema) if put.failed_job else await channel.declare(schema)
        await self._end.meet()
        try:
            first_row = await channel.claim(name, self) if name else None
            # Another producer may have ended the channel meanwhile.
            channel.require_appendable(rows, name)
            await self._begin(put)
            self._agree(schema, first_row, rows=rows)
            end = await self._keep_all(lambda pieces: channel.keep(pieces, name, self._require_here))
        finally:
            channel.disclaim(name, self)
            self._left.set()
        if end is not None:
            await self._require_whole(end)
            if end.closes_channel:
                await channel.end()
            self._end_attempt()
            self._end.answer_end(EndOutcome.ACCEPTED)

    async def _keep_marker(self, message: Message[object]) -> None:
        """Keep a barrier."""
        if message.kind is not Kind.BARRIER:
            await super()._keep_marker(message)
        await self._channel.keep_barrier(message.payload, self._require_here)

    def _require_here(self) -> None:
        self._channel.require_appendable()
        if self._replacement is not None:
            raise self._replacement

    async def replaced(self, error: ProducerReplacedError) -> None:
        """Keep no more rows, because a newer producer has the name; return once the name is free."""
        self._replacement = error
        self._end.break_off(error)
        self._channel.note_change()
        await self._left.wait()

    async def give_up(self, abort: Abort) -> None:
        """Break the channel: its rows are incomplete; unless this is an attempt that has sent nothing."""
        if self.name and self._replacement is None and not self._is_bare:
            await self._break(f"the producer at {self.peer} gave up: {abort.reason}")


def _timed(batch: KeptBatch) -> pa.RecordBatch:
    """Its rows, with the column ``_time``."""
    times = pa.repeat(pa.scalar(batch.taken_at, TIME_FIELD.type), batch.rows.num_rows)
    return pa.RecordBatch.from_arrays([*batch.rows.columns, times], schema=batch.rows.schema.append(TIME_FIELD))


class ReplayConsumer(ConsumerStream[ReplayChannel]):
    """A consumer of rows that can be read again."""

    async def serve(self, get: Get, schema: pa.Schema | None) -> None:
        """Accept the consumer, and send the rows it wants.

        Where the channel is broken, the stream is broken off behind the last row: Abort would drop those that the
        consumer has not taken yet.

        Spec: ReadLogEnd of KeptChannel.
        """
        if get.probe:
            self._agree(await self._meet(schema), is_probe=True)
        else:
            self._start_of(get)
            met = await self._meet(schema)
            # The consumer may have acknowledged rows meanwhile.
            start = self._start_of(get)
            has_all = all(met.get_field_index(name) >= 0 for name in get.columns)
            columns = [*get.columns] if has_all else []
            agreed = pa.schema([met.field(name) for name in columns], met.metadata) if columns else met
            if get.with_time:
                if met.get_field_index(TIME_FIELD.name) >= 0:
                    rule = f"must be false where the channel has a column {TIME_FIELD.name!r} of its own"
                    raise InvalidParametersError(name="with_time", value=True, rule=rule)
                agreed = agreed.append(TIME_FIELD)
                columns = [*columns, TIME_FIELD.name] if columns else []
            self._agree(agreed, start)
            try:
                await self._send(get, start, columns, met)
            except ChannelAbortedError as error:
                if self._end.break_off(error, behind_all=True):
                    await self._end.delivered()
                raise
        await self._end.end(closes_channel=False)

    def _start_of(self, get: Get) -> int:
        self._channel.require_log(get.log_id)
        return self._channel.books.require_readable(get.consumer or DEFAULT_CONSUMER, get.from_row, get.to_row)

    def _fit(self, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
        """A consumer that knows less columns gets those."""
        return wanted if extends(schema, wanted) else super()._fit(schema, wanted)

    async def _send(self, get: Get, start: int, columns: list[str], schema: pa.Schema) -> None:
        consumer = get.consumer or DEFAULT_CONSUMER
        # At most the stream's window at a time: rows that were read stay in memory until they have left.
        most_rows = self._end.parameters.window_rows or self._channel.most_rows
        runs = self._channel.read_runs(
            consumer, start, get.to_row, most_rows=most_rows, with_time=get.with_time, schema=schema
        )
        async for batches in runs:
            chosen = (batch.select(columns) for batch in batches) if columns else batches
            await self._end.send_many(deque(chosen))
