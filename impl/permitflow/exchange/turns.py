"""Long work on the event loop in short turns, with other tasks in between."""

import asyncio
from collections.abc import Generator, Iterable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

# The length of a turn and of the rest after it.  A rest of one round of the loop would not do: passing a message on
# takes many rounds.
_TURN_SECONDS = 0.002


class Turns:
    """All long work of one exchange: together it takes at most half of the time."""

    def __init__(self) -> None:
        self._queue = asyncio.Lock()
        """Held by the work that runs next."""
        self._goes_on_at = 0.0

    async def done(self, steps: Generator[object, None, T]) -> T:
        """Take all steps, and return their result."""
        turn = Turn(self)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await turn.pause()

    async def rest(self) -> None:
        """Let other tasks run for the length of a turn."""
        self._goes_on_at = monotonic() + _TURN_SECONDS
        async with self._queue:
            while (seconds := self._goes_on_at - monotonic()) > 0:  # noqa: ASYNC110  # the time moves on meanwhile
                await asyncio.sleep(seconds)

    async def all(self, items: Iterable[T]) -> list[T]:
        """Make a list; making each item is a step."""
        return await self.done(_listed(items))


class Turn:
    """A piece of long work, which begins now."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._since = monotonic()

    async def pause(self) -> None:
        """Rest if the turn is used up."""
        if monotonic() - self._since > _TURN_SECONDS:
            await self.rest()

    async def rest(self) -> None:
        """Let other tasks run, then begin the next turn."""
        await self._turns.rest()
        self._since = monotonic()


class Stint:
    """Work of a stream for which everything may be at hand: other tasks run in between, and nothing rests."""

    def __init__(self) -> None:
        self._since = monotonic()

    async def pause(self) -> None:
        """Let other tasks run if the last time is longer ago than a turn."""
        if monotonic() - self._since > _TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = monotonic()


def _listed(items: Iterable[T]) -> Generator[None, None, list[T]]:
    made = []
    for item in items:
        made.append(item)
        yield
    return made
