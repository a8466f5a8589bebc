"""The staging areas of an exchange: rows that no consumer sees before their whole batch is published.

Published rows join their channels at once.  Rows beyond a channel's limit take room in its staging area until rows are
acknowledged, so that a slow consumer stops direct producers first, then the writers of the next batch.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import monotonic
from typing import NamedTuple

import pyarrow as pa

from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.errors import InvalidParametersError, StoreError
from permitflow.exchange.books.staging import (
    DEFAULT_TIMEOUT_SECONDS,
    Part,
    PartState,
    Publication,
    StagingArea,
    StagingBooks,
    require_key,
)
from permitflow.exchange.channels.replay_channel import KeepingProducer, ReplayChannel, settled
from permitflow.exchange.stores.store import PublishedPart, Store
from permitflow.exchange.turns import Turns
from permitflow.stream.control import StagedPart
from permitflow.stream.frames import Abort, EndOutcome, Put, Staging

_log = logging.getLogger(__name__)

# So few attempts are looked for without waiting for a turn.
_FEW_ATTEMPTS = 50

# Seconds between looks for expired attempts, and for chunks that wait for too long, while any rows are staged.
_TIDY_SECONDS = 1.0


class _Place(NamedTuple):
    """The staging area of one channel."""

    channel: ReplayChannel
    area: StagingArea


class StagingAreas:
    """The staged rows of an exchange.  For one event loop."""

    def __init__(
        self,
        store: Store,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        clock: Callable[[], float] = monotonic,
        turns: Turns | None = None,
    ) -> None:
        """Begin without channels.

        Args:
            store: keeps the staged rows; ``add_channel`` continues with those it has.
            timeout_seconds: the staged rows of a query are dropped after this many seconds without its requests.
            clock: returns seconds that do not go backwards.
            turns: the exchange's.
        """
        self.books = StagingBooks(timeout_seconds)
        self.books.restore(store.published_batches())
        self._store = store
        self._clock = clock
        self._turns = turns or Turns()
        self._places: dict[str, _Place] = {}
        self._left_over: list[Part] = []
        """Late attempts that an exchange before this one left in the store."""
        self.ordering = asyncio.Lock()
        """Held by one order at a time about what is staged, or about channels: none goes meanwhile, nor does an ended
        attempt expire."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidying: asyncio.TimerHandle | None = None

    def add_channel(self, channel: ReplayChannel, limit_rows: int) -> None:
        """Add a channel with room for ``limit_rows`` staged rows, and continue with its stored ones.

        Raises:
            InvalidParametersError: the room is below one row.
        """
        area = self.books.add_channel(channel.name, limit_rows, channel.books)
        self._places[channel.name] = _Place(channel, area)
        channel.require_endable = partial(self.require_none_prepared, channel.name, "ended")
        for staging, chunk_rows in channel.found.staged.items():
            part = self.books.restore_part(
                channel.name, staging, chunk_rows, self._clock(), is_prepared=staging in channel.found.prepared
            )
            if part.state is PartState.LATE:
                self._left_over.append(part)
        self.go_on()

    def remove_channel(self, name: str) -> None:
        """Forget a channel and its staged rows, which the store has forgotten already."""
        self.books.remove_channel(name, self._clock())
        del self._places[name]

    # Attempts.

    def open(self, channel: str, staging: Staging) -> Part:
        """Begin an attempt; see ``StagingBooks.open``."""
        part = self.books.open(channel, staging, self._clock())
        self.go_on()
        return part

    async def stage(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        """Wait until there is room for the first chunk; then keep as many as fit, and return how many.

        The chunks of a late attempt are dropped.

        Args:
            part: the attempt.
            chunks: none empty, none above the channel's limit.

        Raises:
            StagingFullError: the whole batch can never fit, or others have held the room for too long.
            StagedPartError: the attempt was forgotten meanwhile.
            StoreError: they could not be written.
        """
        if (place := self._places.get(part.channel)) is None:  # of a channel that was removed, late parts have room
            return self._take(part, chunks)
        channel = place.channel
        count = await channel.room(lambda: self._take(part, chunks), channel.require_appendable)
        if part.is_kept:
            await self._keep(part, chunks[:count])
        return count

    def _take(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        now = self._clock()
        fitting = (self.books.stage(part, chunk.num_rows, now) for chunk in chunks)
        return next((count for count, fits in enumerate(fitting) if not fits), len(chunks))

    @settled
    async def _keep(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> None:
        place = self._places.get(part.channel)
        if place is None:  # channel and part were removed meanwhile; the producer's next chunk fails
            return
        await place.channel.store.stage(part.staging, place.channel.as_declared(chunks))
        if not part.is_kept:
            await place.channel.store.forget([part.staging])

    def end(self, part: Part) -> None:
        """Note that all rows of an attempt are here; see ``StagingBooks.end``."""
        self.books.end(part, self._clock())

    def break_off(self, part: Part) -> None:
        """Note that the stream of an attempt is over; forget the attempt unless it has ended."""
        if self.books.break_off(part, self._clock()):
            self._forget([part])

    # Batches.

    async def prepare(self, query: str, batch: int, parts: Sequence[StagedPart]) -> bool:
        """Let attempts wait to be published, all or none, for however long; return whether the batch was published.

        Raises:
            PermitflowError: as ``publish``.
        """
        async with self.ordering:
            plan = await self._planned(query, batch, parts)
            await self._prepare(plan, self._channels_of(plan))
            return plan.was_published

    @settled
    async def _prepare(self, plan: Publication, channels: Mapping[str, ReplayChannel]) -> None:
        async with self._writing(channels.values()):
            await self._store.prepare([(part.channel, part.staging) for part in plan.published])
            self.books.prepare(plan, self._clock())

    async def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> bool:
        """Publish attempts to their channels, all or none; return whether the batch was published before.

        After an error, nothing was published.

        Raises:
            InvalidParametersError: the query has no name, or the batch is below 0.
            StagedPartError: one of the attempts is incomplete.
            ChannelError: one of the channels is over.
            StoreError: the write failed.
        """
        async with self.ordering:
            plan = await self._planned(query, batch, parts)
            if not plan.was_published:
                await self._publish(query, batch, plan, self._channels_of(plan))
            return plan.was_published

    async def _planned(self, query: str, batch: int, parts: Sequence[StagedPart]) -> Publication:
        planning = partial(self.books.planning, query, batch, parts)
        return planning() if len(parts) <= _FEW_ATTEMPTS else await self._turns.run(planning)

    def _channels_of(self, plan: Publication) -> dict[str, ReplayChannel]:
        return {part.channel: self._places[part.channel].channel for part in plan.published}

    @asynccontextmanager
    async def _writing(self, channels: Iterable[ReplayChannel]) -> AsyncIterator[None]:
        """Nobody else writes into these channels, or ends one; they are open."""
        async with AsyncExitStack() as stack:
            for channel in channels:
                await stack.enter_async_context(channel.writing)
            for channel in channels:
                channel.require_appendable()
            yield

    @settled
    async def _publish(self, query: str, batch: int, plan: Publication, channels: Mapping[str, ReplayChannel]) -> None:
        async with self._writing(channels.values()):
            numbered = _numbered(plan.published, channels)
            await self._store.publish(query, batch, numbered, plan.forgotten)
            publication = self.books.carry_out(query, batch, plan, self._clock())
            for part in publication.published:
                channels[part.channel].note_appended()
        self._note_change(publication.late)

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> int:
        """Forget unpublished attempts; return the number of their rows.  See ``StagingBooks.discard``.

        Raises:
            StoreError: the write failed; the attempts of this channel, and of some others, stay.
        """
        async with self.ordering:
            return await self._discard(query, batch, parts)

    @settled
    async def _discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> int:
        failures = await self._forget_on_disk(self.books.unpublished(query, batch, parts))
        gone = [part for part in parts if part.channel not in failures]
        dropped = self.books.discard(query, batch, gone, self._clock())
        self._note_change(dropped)
        for failure in failures.values():
            raise failure
        return sum(part.rows for part in dropped)

    async def rollback(self, channels: Sequence[str]) -> list[int]:
        """Forget what is in doubt in channels; return the number of their rows.  See ``StagingBooks.rollback``.

        Raises:
            StoreError: the write failed; what is in this channel, and in some others, stays in doubt.
        """
        async with self.ordering:
            return await self._rollback(channels)

    @settled
    async def _rollback(self, channels: Sequence[str]) -> list[int]:
        here = [channel for channel in channels if channel in self._places]
        doubtful = [part for channel in here for part in self.books.in_doubt(channel, self._clock())]
        failures = await self._forget_on_disk(doubtful)
        gone = [part for part in doubtful if part.channel not in failures]
        self.books.rollback(gone, self._clock())
        self._note_change(gone)
        for failure in failures.values():
            raise failure
        rows = Counter[str]()
        for part in gone:
            rows[part.channel] += part.rows
        return [rows[channel] for channel in channels]

    async def _forget_on_disk(self, parts: Iterable[Part]) -> dict[str, BaseException]:
        """Forget attempts in the store, those of all channels with one flush; the channels where that has failed."""
        by_channel: dict[str, list[Staging]] = {}
        for part in parts:
            by_channel.setdefault(part.channel, []).append(part.staging)
        forgetting = (self._places[channel].channel.store.forget(some) for channel, some in by_channel.items())
        outcomes = await asyncio.gather(*forgetting, return_exceptions=True)
        return {each: error for each, error in zip(by_channel, outcomes, strict=True) if error is not None}

    def require_none_prepared(self, channel: str, deed: str, alternative: str = "") -> None:
        """Refuse an order at a channel with prepared rows; see ``StagingBooks.require_none_prepared``."""
        self.books.require_none_prepared(channel, deed, self._clock(), alternative)

    def area(self, channel: str) -> StagingArea:
        """The books of a channel's staged rows."""
        return self._places[channel].area

    def in_doubt_rows(self, channel: str) -> int:
        """Prepared rows of queries of which nothing was heard for long.  See ``StagingBooks.in_doubt``."""
        return sum(part.rows for part in self.books.in_doubt(channel, self._clock()))

    # Background work.

    def stop(self) -> set[asyncio.Task[None]]:
        """Look no more before ``go_on``; return the writes that are under way."""
        if self._tidying is not None:
            self._tidying.cancel()
            self._tidying = None
        return {*self._tasks}

    def go_on(self) -> None:
        """Start the background work: forget late parts, and look for expired ones while rows are staged."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # channels may be added before the loop runs; ``open`` calls this again
        while self._left_over:
            self._begin(self._forget_kept(self._left_over.pop()))
        if self._tidying is None and self.books.has_staged:
            self._tidying = loop.call_later(_TIDY_SECONDS, self._tidy)

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tidy(self) -> None:
        self._tidying = None
        if not self.ordering.locked():
            self._forget(self.books.expire(self._clock()))
        for place in self._places.values():
            if place.area.line:
                place.channel.note_change()  # those that wait look at the clock
        self.go_on()

    def _forget(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._begin(self._forget_kept(part))
        self._note_change(parts)

    async def _forget_kept(self, part: Part) -> None:
        if part.channel not in self._places:
            return
        try:
            await self._places[part.channel].channel.store.forget([part.staging])
        except StoreError as error:
            _log.warning("rows of an attempt that nobody will publish stay on disk: %s", error)

    def _note_change(self, parts: Sequence[Part]) -> None:
        for channel in {part.channel for part in parts} & self._places.keys():
            self._places[channel].channel.note_change()


def _numbered(parts: Sequence[Part], channels: Mapping[str, ReplayChannel]) -> list[PublishedPart]:
    """Number each part's rows behind those before it in its channel."""
    next_rows = {name: channel.books.next_row for name, channel in channels.items()}
    numbered = []
    for part in parts:
        numbered.append(PublishedPart(part.channel, part.staging, next_rows[part.channel]))
        next_rows[part.channel] += part.rows
    return numbered


class StagedProducer(KeepingProducer):
    """A producer of staged rows.  If it gives up or leaves without End, its rows are dropped; its channel goes on."""

    def __init__(self, channel: ReplayChannel, areas: StagingAreas, end: RemoteReceiver, peer: str) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer)
        self._areas = areas
        self._part: Part | None = None

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Accept the producer, and stage its rows."""
        channel, areas, staging = self._channel, self._areas, put.staging
        assert staging is not None, "the exchange has looked at it"
        require_key(staging)
        if put.producer:
            rule = "must be empty for staged rows: an attempt has a name of its own"
            raise InvalidParametersError(name="producer", value=put.producer, rule=rule)
        if direct := put.attempt or put.total or put.failed_job:
            rule = "is for rows that are delivered as they come: staged rows have an attempt of their own"
            raise InvalidParametersError(name="attempt", value=direct, rule=rule)
        # A late attempt's rows are dropped: a repeated job need not know that its channels have ended since.
        rows = schema
        if not areas.books.was_published(staging.query, staging.batch):
            rows = await channel.declare(schema)
        await self._end.meet()
        if not areas.books.was_published(staging.query, staging.batch):
            channel.require_appendable(rows)  # it may have ended meanwhile, or been removed
        part = self._part = areas.open(channel.name, staging)
        self._agree(schema, rows=rows)
        if await self._keep_all(lambda pieces: areas.stage(part, pieces)) is not None:
            # ``closes_channel`` has no effect here: only a control request closes a channel with staged rows.
            areas.end(part)
            self._end.answer_end(EndOutcome.ACCEPTED)

    async def give_up(self, abort: Abort) -> None:
        """Forget the attempt."""
        self._break_off()

    def fail(self, reason: str) -> None:
        """Forget the attempt."""
        self._break_off()

    def leave(self) -> None:
        """Note that the stream is over."""
        self._break_off()
        super().leave()

    def _break_off(self) -> None:
        if self._part is not None:
            self._areas.break_off(self._part)
