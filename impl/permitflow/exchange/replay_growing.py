"""How a log grows: chunks wait for room in the order in which they came, and count once they are written."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from time import monotonic

from permitflow.channels.waiting import Stopwatch
from permitflow.errors import InvalidParametersError
from permitflow.exchange.settling import settled
from permitflow.protocol.replay import ReplayBooks

__all__ = ["Growing"]


class Growing:
    """The entrance of a log."""

    def __init__(
        self, books: ReplayBooks, changed: Callable[[], Awaitable[None]], note_change: Callable[[], None]
    ) -> None:
        """``changed`` waits until there may be room; ``note_change`` is called when rows have come."""
        self.written_chunks = 0
        self.waiting = Stopwatch(monotonic)
        """The time in which producers waited for room."""
        self.writing = asyncio.Lock()
        """Whoever has it may change what is behind the last row."""
        self._books = books
        self._changed = changed
        self._note_change = note_change
        self._turn = asyncio.Lock()

    async def grow(
        self, chunk_rows: Sequence[int], write: Callable[[int], Awaitable[None]], require: Callable[[], None]
    ) -> int:
        """Wait until there is room for the first chunk; then write as many as there is room for, and say how many.

        Cancelled, it has written all of these or none.

        Args:
            chunk_rows: rows of each chunk.
            write: keeps so many of them, all or none.
            require: raises if nothing may be written any more.

        Raises:
            InvalidParametersError: the first chunk will never fit.
            PermitflowError: what ``write`` or ``require`` raise; nothing was kept.
        """
        rows, row_permits = chunk_rows[0], self._books.row_permits
        if rows > row_permits:
            rule = f"must be at most row_permits = {row_permits}: cut the chunk first"
            raise InvalidParametersError(name="rows", value=rows, rule=rule)
        async with self._turn:
            await self._room(rows, require)
            return await settled(self._write(chunk_rows, write, require))

    async def _room(self, rows: int, require: Callable[[], None]) -> None:
        if self._books.has_room(rows):
            return
        self.waiting.start()
        try:
            while not self._books.has_room(rows):
                require()
                await self._changed()
        finally:
            self.waiting.stop()

    async def _write(
        self, chunk_rows: Sequence[int], write: Callable[[int], Awaitable[None]], require: Callable[[], None]
    ) -> int:
        async with self.writing:
            require()
            count = sum(self._books.has_room(total) for total in accumulate(chunk_rows))
            if count:
                await write(count)
                self._books.produce(sum(chunk_rows[:count]))
                self.written_chunks += count
        self._note_change()
        return count
