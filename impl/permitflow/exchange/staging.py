"""The staging areas of an exchange: rows that no consumer sees before all rows of their batch are published.

Published rows are rows of their channels at once.  Those beyond what a channel keeps take room of its staging
area until rows are acknowledged, so that a slow consumer stops direct producers first, then the writers of the next
batch.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

import pyarrow as pa

from permitflow.channels.waiting import Stopwatch
from permitflow.errors import InvalidParametersError, StoreError
from permitflow.exchange.replay_channel import KeepingProducer, ReplayChannel, settled
from permitflow.exchange.statistics import StagingStatistics
from permitflow.exchange.stores.store import PublishedPart, Store
from permitflow.exchange.turns import Turn, Turns
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Abort, EndOutcome, Put, Staging
from permitflow.protocol.staging import (
    DEFAULT_TIMEOUT_SECONDS,
    Part,
    PartState,
    Publication,
    StagingArea,
    StagingBooks,
    require_key,
)
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

__all__ = ["StagedProducer", "StagingAreas"]

_log = logging.getLogger(__name__)

# In one round of the loop.
_DISCARDED_AT_ONCE = 256

# How often to look whether something is to be forgotten, while something is staged.
_TIDY_SECONDS = 1.0


class _Place(NamedTuple):
    """Where rows of one channel are staged."""

    channel: ReplayChannel
    area: StagingArea
    waiting: Stopwatch
    """The time in which producers waited for room."""


class StagingAreas:
    """What is staged in an exchange.  For one event loop."""

    def __init__(
        self,
        store: Store,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        clock: Callable[[], float] = monotonic,
        turns: Turns | None = None,
    ) -> None:
        """Without channels.

        Args:
            store: keeps what is staged; what it has kept is gone on with as channels are added.
            timeout_seconds: what is staged by a query of which nothing was heard for so long is forgotten.
            clock: seconds that do not go backwards.
            turns: those of the exchange.
        """
        self.books = StagingBooks(timeout_seconds)
        self.books.restore(store.published_batches())
        self._store = store
        self._clock = clock
        self._turns = turns or Turns()
        self._places: dict[str, _Place] = {}
        self._left_over: list[Part] = []
        """What came late, and was still in the store when the exchange before this one was killed."""
        self._ordering = asyncio.Lock()
        """One order at a time; nothing else ends or forgets what has ended meanwhile."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidying: asyncio.TimerHandle | None = None

    def add_channel(self, channel: ReplayChannel, limit_rows: int) -> None:
        """Have room for so many rows of a channel, and go on with what was kept of it.

        Raises:
            InvalidParametersError: there is no room for a row.
        """
        area = self.books.add_channel(channel.name, limit_rows, channel.books)
        self._places[channel.name] = _Place(channel, area, Stopwatch(monotonic))
        for staging, chunk_rows in channel.found.staged.items():
            part = self.books.restore_part(channel.name, staging, chunk_rows, self._clock())
            if part.state is PartState.LATE:
                self._left_over.append(part)
        self._go_on()

    def remove_channel(self, name: str) -> None:
        """Forget a channel and what is staged for it; the store has forgotten it, too."""
        self.books.remove_channel(name, self._clock())
        del self._places[name]

    # Attempts.

    def open(self, channel: str, staging: Staging) -> Part:
        """Begin an attempt; see ``StagingBooks.open``."""
        part = self.books.open(channel, staging, self._clock())
        self._go_on()
        return part

    async def stage(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        """Wait until there is room for the first chunk; then keep as many as there is room for, and say how many.

        Of a late attempt, they are all thrown away.

        Args:
            part: the attempt.
            chunks: none empty, none above what the channel keeps.

        Raises:
            StagingFullError: the batch can never be here as a whole.
            StagedPartError: the attempt was forgotten meanwhile.
            StoreError: they could not be written.
        """
        if (place := self._places.get(part.channel)) is None:  # of a channel that was removed, late parts have room
            return self._take(part, chunks)
        channel = place.channel
        count = await channel.room(lambda: self._take(part, chunks), place.waiting, channel.require_appendable)
        if part.is_kept:
            await settled(self._keep(part, chunks[:count]))
        return count

    def _take(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        now = self._clock()
        fitting = (self.books.stage(part, chunk.num_rows, now) for chunk in chunks)
        return next((count for count, fits in enumerate(fitting) if not fits), len(chunks))

    async def _keep(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> None:
        place = self._places.get(part.channel)
        if place is None:  # removed meanwhile, with the part; its producer is told when it goes on
            return
        await place.channel.store.stage(part.staging, chunks)
        if not part.is_kept:
            await place.channel.store.forget([part.staging])

    def end(self, part: Part) -> None:
        """All rows of an attempt are here; see ``StagingBooks.end``."""
        self.books.end(part, self._clock())

    def break_off(self, part: Part) -> None:
        """The stream of an attempt is over; unless it has ended, it is forgotten."""
        if self.books.break_off(part, self._clock()):
            self._forget([part])

    # Batches.

    async def publish(self, query: str, batch: int, parts: Sequence[StagedPart]) -> bool:
        """Make attempts part of their channels, all or none; was the batch published before?

        Raises:
            InvalidParametersError: the query has no name, or the batch is below 0.
            StagedPartError: one of the attempts is not here as a whole.
            ChannelError: one of the channels is over.
            StoreError: it could not be written.

        All of them say that nothing was published.
        """
        async with self._ordering:
            plan = await self._turns.done(self.books.planning(query, batch, parts))
            if not plan.was_published:
                for part in plan.published:  # some may have been removed with their channels, while this was planned
                    if part.state is not PartState.ENDED:
                        raise part.error(part.reason)
                channels = {part.channel: self._places[part.channel].channel for part in plan.published}
                await settled(self._publish(query, batch, plan, channels))
            return plan.was_published

    async def _publish(self, query: str, batch: int, plan: Publication, channels: Mapping[str, ReplayChannel]) -> None:
        turn, writing = Turn(self._turns), list[ReplayChannel]()
        try:
            for channel in channels.values():
                await channel.writing.acquire()
                writing.append(channel)
                await turn.pause()
            for channel in writing:
                await turn.pause()
                if channel.name in self._places:  # of one that was removed meanwhile, nothing is published
                    channel.require_appendable()
            numbered = await self._turns.done(_numbered(plan.published, channels))
            await self._store.publish(query, batch, numbered, plan.forgotten)
            # From here on it is published, whatever has happened to its channels meanwhile.
            publication = self.books.carry_out(query, batch, plan, self._clock())
            await turn.rest()
            for part in publication.published:
                channels[part.channel].note_appended(part.chunks)
                await turn.pause()
        finally:
            for channel in writing:
                channel.writing.release()
        self._note_change(publication.late)

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart]) -> int:
        """Forget attempts that are not published; see ``StagingBooks.discard``.  How many rows?"""
        rows, turn = 0, Turn(self._turns)
        async with self._ordering:
            for start in range(0, len(parts), _DISCARDED_AT_ONCE):
                dropped = self.books.discard(query, batch, parts[start : start + _DISCARDED_AT_ONCE], self._clock())
                self._forget(dropped)
                rows += sum(part.rows for part in dropped)
                await turn.rest()
        return rows

    def statistics(self, channel: str) -> StagingStatistics:
        """What is staged for a channel."""
        place = self._places[channel]
        area = place.area
        return StagingStatistics(
            limit_rows=area.limit_rows,
            staged_rows=area.staged_rows,
            published_rows=area.log.excess_rows,
            attempts=len(area.parts),
            open_attempts=sum(part.state is PartState.OPEN for part in area.parts),
            waiting_attempts=len(area.line),
            waiting_seconds=place.waiting.seconds,
        )

    def stop(self) -> None:
        """Do nothing any more; what is staged may be gone on with from the store."""
        for task in self._tasks:
            task.cancel()
        if self._tidying is not None:
            self._tidying.cancel()

    # What goes on by itself.

    def _go_on(self) -> None:
        """Look now and then whether something is to be forgotten."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # channels may be added before the loop runs; each stream that is opened in it looks again
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
        if not self._ordering.locked():
            self._forget(self.books.tidy(self._clock()))
        self._go_on()

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


def _numbered(
    parts: Sequence[Part], channels: Mapping[str, ReplayChannel]
) -> Generator[None, None, list[PublishedPart]]:
    """The rows of each part follow those before it in its channel."""
    next_rows = {name: channel.books.next_row for name, channel in channels.items()}
    numbered = []
    for part in parts:
        numbered.append(PublishedPart(part.channel, part.staging, next_rows[part.channel]))
        next_rows[part.channel] += part.rows
        yield
    return numbered


class StagedProducer(KeepingProducer):
    """See ``ProducerStream``.  One that leaves without its end, or gives up, is forgotten; its channel stays whole."""

    def __init__(
        self, channel: ReplayChannel, areas: StagingAreas, end: RemoteReceiver, peer: str, same_host: SameHost
    ) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer, same_host)
        self._areas = areas
        self._part: Part | None = None

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and stage what comes."""
        channel, areas, staging = self._channel, self._areas, put.staging
        assert staging is not None, "the exchange has looked at it"
        require_key(staging)
        if put.producer:
            rule = "must be empty for staged rows: an attempt has a name of its own"
            raise InvalidParametersError(name="producer", value=put.producer, rule=rule)
        # What comes late is thrown away: a job that is repeated need not know that its channels have ended since.
        if not areas.books.was_published(staging.query, staging.batch):
            await channel.declare(schema)
        await self._end.meet(self._same_host)
        part = self._part = areas.open(channel.name, staging)
        if not areas.books.was_published(staging.query, staging.batch):
            # Others may have ended the channel meanwhile.
            channel.require_appendable(schema)
        self._agree(schema)
        if await self._keep_all(lambda pieces: areas.stage(part, pieces)) is not None:
            # If it says that no other one will put, that is true of this attempt only: an order closes the channel.
            areas.end(part)
            self._end.answer_end(EndOutcome.ACCEPTED)

    async def give_up(self, abort: Abort) -> None:
        """Forget what came."""
        self._break_off()

    def fail(self, reason: str) -> None:
        """Forget what came."""
        self._break_off()

    def leave(self) -> None:
        """Note that the stream is over."""
        self._break_off()
        super().leave()

    def _break_off(self) -> None:
        if self._part is not None:
            self._areas.break_off(self._part)
