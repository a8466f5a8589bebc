"""Long work of the event loop in short turns, so that others are served in between."""

import asyncio
from collections.abc import Generator, Iterable
from time import monotonic
from typing import TypeVar

__all__ = ["Turn", "Turns"]

T = TypeVar("T")

# A neighbour waits so long for a piece of somebody's long work.
_TURN_SECONDS = 0.002


class Turns:
    """All long work of one exchange: of many callers that have some, one goes on in each round of the loop."""

    def __init__(self) -> None:
        """Nobody works."""
        self.queue = asyncio.Lock()
        """Held by who goes on in the next round."""

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
        async with self._turns.queue:
            await asyncio.sleep(0)
        self._since = monotonic()


def _listed(items: Iterable[T]) -> Generator[None, None, list[T]]:
    made = []
    for item in items:
        made.append(item)
        yield
    return made
