"""Long work of the event loop in short turns, so that others are served in between."""

import asyncio
from collections.abc import Generator, Iterable
from time import monotonic
from typing import TypeVar

__all__ = ["Turn", "Turns"]

T = TypeVar("T")

# A neighbour waits so long for a piece of somebody's long work, and the work as long for the neighbours: a message that
# is passed on takes many rounds of the loop, so that one round between two pieces would not do.
_TURN_SECONDS = 0.002


class Turns:
    """All long work of one exchange: together it takes half of the time, however many have some."""

    def __init__(self) -> None:
        """Nobody works."""
        self._queue = asyncio.Lock()
        """Held by who goes on next."""
        self._goes_on_at = 0.0

    async def done(self, steps: Generator[object, None, T]) -> T:
        """Take all steps, and answer what they come to."""
        turn = Turn(self)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await turn.pause()

    async def rest(self) -> None:
        """Let others be served for a while."""
        self._goes_on_at = monotonic() + _TURN_SECONDS
        async with self._queue:
            while (seconds := self._goes_on_at - monotonic()) > 0:  # noqa: ASYNC110  # the time moves on meanwhile
                await asyncio.sleep(seconds)

    async def all(self, items: Iterable[T]) -> list[T]:
        """Make a list; making each item is a step."""
        return await self.done(_listed(items))


class Turn:
    """Somebody's long work, which begins now."""

    def __init__(self, turns: Turns) -> None:
        """Others have just been served."""
        self._turns = turns
        self._since = monotonic()

    async def pause(self) -> None:
        """Let others be served, if this work has had its time."""
        if monotonic() - self._since > _TURN_SECONDS:
            await self.rest()

    async def rest(self) -> None:
        """Let others be served."""
        await self._turns.rest()
        self._since = monotonic()


def _listed(items: Iterable[T]) -> Generator[None, None, list[T]]:
    made = []
    for item in items:
        made.append(item)
        yield
    return made
