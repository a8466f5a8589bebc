"""The staging area of one channel: who waits for room there, and what waits to enter the channel."""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice
from time import monotonic

from permitflow.channels.waiting import Stopwatch
from permitflow.exchange.replay_log import ReplayLog
from permitflow.exchange.statistics import StagingStatistics
from permitflow.protocol.control import ChannelState
from permitflow.protocol.staging import PartState, StagingArea

__all__ = ["StagingPlace"]

# Enough for one write, few enough for others to have their turn.
_AT_ONCE = 512


class StagingPlace:
    """Between the staged rows of a channel and its log.  Changes here wake nobody who waits at another channel."""

    def __init__(self, log: ReplayLog, area: StagingArea) -> None:
        """Nothing is published yet."""
        self.log = log
        self.area = area
        self.entering: deque[int] = deque()
        """Rows of each published chunk that is not part of the channel yet, in order."""
        self.waiting = Stopwatch(monotonic)
        """The time in which producers waited for room."""
        self.drain: asyncio.Task[None] | None = None
        """Leads published rows into the channel."""
        self._changed = asyncio.Event()

    @property
    def is_to_be_drained(self) -> bool:
        """Do published rows wait, and does nobody lead them into the channel?"""
        return bool(self.entering) and (self.drain is None or self.drain.done())

    def publish(self, chunk_rows: Sequence[int]) -> None:
        """So many rows of each chunk are published: they will be part of the channel once there is room."""
        self.entering.extend(chunk_rows)
        self.log.expect(sum(chunk_rows))

    async def take_over(self) -> int:
        """Wait until there is room for the first published chunk; take over as many as there is room for.  How many?

        Raises:
            ChannelError: the log is broken, or was removed.
            StoreError: they could not be written; nothing was taken over.
        """
        return await self.log.take_over(list(islice(self.entering, _AT_ONCE)))

    def note_change(self) -> None:
        """Let everybody who waits for room here look again."""
        self._changed.set()
        self._changed.clear()

    def dismiss(self) -> None:
        """Those who wait for room in a channel that has ended, or is broken, wait for nothing: let them look."""
        if self.area.line and self.log.state is not ChannelState.OPEN:
            self.note_change()

    async def changed(self) -> None:
        """Wait until something has changed here.

        Raises:
            ChannelError: nothing can be staged here any more.
        """
        await self._changed.wait()
        self.log.require_appendable()

    def statistics(self) -> StagingStatistics:
        """What is staged here."""
        area = self.area
        return StagingStatistics(
            limit_rows=area.limit_rows,
            staged_rows=area.staged_rows,
            published_rows=area.published_rows,
            attempts=len(area.parts),
            open_attempts=sum(part.state is PartState.OPEN for part in area.parts),
            waiting_attempts=len(area.line),
            waiting_seconds=self.waiting.seconds,
        )
