"""The staging areas of an exchange: rows that nobody sees before all rows of their batch are published.

Published rows enter their channels chunk by chunk, as there is room; until then they occupy the staging area, so that
a slow consumer stops the channel first, then the writers of the next batch.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from time import monotonic

import pyarrow as pa

from permitflow.errors import ChannelError, StoreError
from permitflow.exchange.replay_log import ReplayLog
from permitflow.exchange.settling import settled
from permitflow.exchange.staging_place import StagingPlace
from permitflow.exchange.statistics import StagingStatistics
from permitflow.exchange.stores.store import Store
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.staging import DEFAULT_TIMEOUT_SECONDS, Part, PartState, Publication, StagingBooks

__all__ = ["StagingAreas", "default_staging_rows"]

_log = logging.getLogger(__name__)

# How often to look whether something is to be forgotten, while something is staged.
_TIDY_SECONDS = 1.0
# A disk that was full may have room again.
_RETRY_SECONDS = 1.0


def default_staging_rows(row_permits: int) -> int:
    """Room for two batches of twice a window each: one that enters the channel, and one that is written meanwhile."""
    return 4 * row_permits


class StagingAreas:
    """What is staged in an exchange.  For one event loop."""

    def __init__(
        self,
        store: Store,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Without channels.

        Args:
            store: keeps what is staged; what it has kept is gone on with as channels are added.
            timeout_seconds: what is staged by a query of which nothing was heard for so long is forgotten.
            clock: seconds that do not go backwards.
        """
        self.books = StagingBooks(timeout_seconds)
        self.books.restore(store.published_batches())
        self._store = store
        self._clock = clock
        self._places: dict[str, StagingPlace] = {}
        self._publishing: set[StagingPlace] = set()
        """Where rows were published that nobody leads into the channel yet."""
        self._chunk_rows: dict[Part, list[int]] = {}
        """Rows of each chunk that is staged and not published."""
        self._left_over: list[Part] = []
        """What came late, and was still in the store when the exchange before this one was killed."""
        self._ordering = asyncio.Lock()
        """One order at a time; nothing else ends or forgets what has ended meanwhile."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tidying: asyncio.TimerHandle | None = None

    def add_channel(self, log: ReplayLog, limit_rows: int) -> None:
        """Have room for so many rows of a channel, and go on with what was kept of it.

        Raises:
            InvalidParametersError: there is no room for a row.
        """
        place = self._places[log.name] = StagingPlace(log, self.books.add_channel(log.name, limit_rows))
        now = self._clock()
        for kept in log.found.published:
            self.books.restore_part(log.name, kept.staging, sum(kept.chunk_rows), now, is_published=True)
            self._enter(place, kept.chunk_rows)
        for kept in log.found.staged:
            part = self.books.restore_part(log.name, kept.staging, sum(kept.chunk_rows), now, is_published=False)
            if part.state is PartState.LATE:
                self._left_over.append(part)
            else:
                self._chunk_rows[part] = list(kept.chunk_rows)
        self._go_on()

    def remove_channel(self, name: str) -> None:
        """Forget a channel and what is staged for it; the store has forgotten it, too."""
        for part in self.books.remove_channel(name, self._clock()):
            self._chunk_rows.pop(part, None)
        place = self._places.pop(name)
        self._publishing.discard(place)
        if place.drain is not None:
            place.drain.cancel()
        place.note_change()

    # Attempts.

    def open(self, channel: str, staging: Staging) -> Part:
        """Begin an attempt; see ``StagingBooks.open``."""
        part = self.books.open(channel, staging, self._clock())
        if part.is_kept:
            self._chunk_rows[part] = []
            self._go_on()
        return part

    async def stage(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        """Wait until there is room for the first chunk; then keep as many as there is room for, and say how many.

        Of a late attempt, they are all thrown away.

        Args:
            part: the attempt.
            chunks: none empty, none above ``row_permits``.

        Raises:
            StagingFullError: the batch can never be here as a whole.
            StagedPartError: the attempt was forgotten meanwhile.
            StoreError: they could not be written.
        """
        count = self._take(part, chunks)
        if not count:
            count = await self._room(part, chunks)
        if part.is_kept:
            await settled(self._keep(part, chunks[:count]))
        return count

    def _take(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        now = self._clock()
        fitting = (self.books.stage(part, chunk.num_rows, now) for chunk in chunks)
        return next((count for count, fits in enumerate(fitting) if not fits), len(chunks))

    async def _room(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> int:
        place = self._places[part.channel]
        place.waiting.start()
        try:
            count = 0
            while not count:
                await place.changed()
                count = self._take(part, chunks)
            return count
        finally:
            place.waiting.stop()

    async def _keep(self, part: Part, chunks: Sequence[pa.RecordBatch]) -> None:
        place = self._places.get(part.channel)
        if place is None:  # removed meanwhile, with the part; whoever stages is told so when he goes on
            return
        log = place.log
        await log.store.stage(part.staging, chunks)
        if part.is_kept:
            self._chunk_rows[part] += [chunk.num_rows for chunk in chunks]
        else:
            await log.store.forget([part.staging])

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
            plan = self.books.plan(query, batch, parts)
            if plan.was_published:
                return True
            for part in plan.published:
                self._places[part.channel].log.require_appendable()
            await settled(self._publish(query, batch, plan))
            return False

    async def _publish(self, query: str, batch: int, plan: Publication) -> None:
        published = [(part.channel, part.staging) for part in plan.published]
        await self._store.publish(query, batch, published, plan.forgotten)
        # From here on it is published, whatever has happened to its channels meanwhile.
        publication = self.books.carry_out(query, batch, plan, self._clock())
        for part in publication.published:
            self._enter(self._places[part.channel], self._chunk_rows.pop(part))
        for part in publication.late:
            self._chunk_rows.pop(part, None)
        self._note_change(publication.late)
        self._go_on()

    async def discard(self, query: str, batch: int, parts: Sequence[StagedPart] = ()) -> int:
        """Forget what is staged for a batch and not published; see ``StagingBooks.discard``.  How many rows?"""
        async with self._ordering:
            dropped = self.books.discard(query, batch, self._clock(), parts)
            self._forget(dropped)
            return sum(part.rows for part in dropped)

    def statistics(self, channel: str) -> StagingStatistics:
        """What is staged for a channel."""
        return self._places[channel].statistics()

    def stop(self) -> None:
        """Do nothing any more; what is published stays where it is, and may be gone on with from the store."""
        for task in self._tasks:
            task.cancel()
        if self._tidying is not None:
            self._tidying.cancel()

    # What goes on by itself.

    def _go_on(self) -> None:
        """Let published rows enter their channels, and look now and then whether something is to be forgotten."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # who adds channels before the loop runs will open a stream or publish in it
        while self._publishing:
            place = self._publishing.pop()
            if place.is_to_be_drained:
                place.drain = self._begin(self._drain(place))
        while self._left_over:
            self._begin(self._forget_kept(self._left_over.pop()))
        if self._tidying is None and self._chunk_rows:
            self._tidying = loop.call_later(_TIDY_SECONDS, self._tidy)

    def _enter(self, place: StagingPlace, chunk_rows: Sequence[int]) -> None:
        place.publish(chunk_rows)
        self._publishing.add(place)

    def _begin(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _drain(self, place: StagingPlace) -> None:
        while place.entering:
            try:
                count = await place.take_over()
            except ChannelError as error:
                _log.warning("%d published rows cannot enter their channel: %s", place.area.published_rows, error)
                return
            except StoreError as error:
                _log.warning("published rows wait: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for _ in range(count):
                self.books.drain(place.area.published[0], place.entering.popleft(), self._clock())
            place.note_change()

    def _tidy(self) -> None:
        self._tidying = None
        if not self._ordering.locked():
            self._forget(self.books.tidy(self._clock()))
        for place in self._places.values():
            place.dismiss()
        self._go_on()

    def _forget(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self._chunk_rows.pop(part, None)
            self._begin(self._forget_kept(part))
        self._note_change(parts)

    async def _forget_kept(self, part: Part) -> None:
        if part.channel not in self._places:
            return
        try:
            await self._places[part.channel].log.store.forget([part.staging])
        except StoreError as error:
            _log.warning("rows of an attempt that nobody will publish stay on disk: %s", error)

    def _note_change(self, parts: Iterable[Part]) -> None:
        for channel in {part.channel for part in parts} & self._places.keys():
            self._places[channel].note_change()
