"""Work that takes long on the event loop, with other tasks in between."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

# Shorter work needs no rest, and a stream lets others run after so long.
_SHORT_SECONDS = 0.002
# After the work on a request of a client that sends many ahead: so much longer does it rest.
_REST_OF_MANY = 4
_MOST_REST_SECONDS = 0.1
# Work on an item takes up to some 50 microseconds: so few are done at once, and so many in a turn.
_FEW_ITEMS = 50
_ITEMS_AT_ONCE = 500


class Turns:
    """All long work of one exchange: one piece at a time, and after each as long a rest.

    So together it takes at most half of the time.  A rest of one round of the loop would not do: passing a message on
    takes many rounds.
    """

    def __init__(self) -> None:
        self._queue, self._many = asyncio.Lock(), asyncio.Lock()
        self._goes_on_at = 0.0

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work in its turn; a piece may take tens of milliseconds."""
        async with self._queue:
            while (seconds := self._goes_on_at - monotonic()) > 0:  # noqa: ASYNC110  # the time moves on meanwhile
                await asyncio.sleep(seconds)
            began = monotonic()
            try:
                return work()
            finally:
                now = monotonic()
                if now - began > _SHORT_SECONDS:
                    self._goes_on_at = now + (now - began)

    async def all(self, items: Iterable[T]) -> list[T]:
        """Make a list; making each item takes some microseconds.  Few items wait for no turn."""
        left = iter(items)
        made = [*islice(left, _FEW_ITEMS)]
        while len(made) >= _FEW_ITEMS and (piece := await self.run(lambda: [*islice(left, _ITEMS_AT_ONCE)])):
            made += piece
        return made

    async def of_many(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work on a request of a client that has sent many ahead: one of all these at a time, and then a rest.

        Each is short, but together they would leave no time for others.
        """
        async with self._many:
            began = monotonic()
            done = await work()
            await asyncio.sleep(min(_MOST_REST_SECONDS, _REST_OF_MANY * (monotonic() - began)))
            return done


class Stint:
    """Work of a stream for which everything may be at hand: other tasks run in between, and nothing rests."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Others have just run: this task has waited."""
        self._since = monotonic()

    async def pause(self) -> None:
        """Let other tasks run if the last time is longer ago than short work takes."""
        if monotonic() - self._since > _SHORT_SECONDS:
            await asyncio.sleep(0)
            self.begin()
