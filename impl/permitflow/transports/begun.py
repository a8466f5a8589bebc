"""A coroutine that is begun at once, by whoever has no task, and finished by a task.

For libraries that do their work in the first step of a coroutine, and then only wait to hear that it was done.
"""

from collections.abc import Coroutine, Generator

__all__ = ["Begun"]


class Begun:
    """A coroutine after its first step; await it to finish it, once."""

    def __init__(self, coroutine: Coroutine[object, None, None]) -> None:
        """Run it until it waits for something; what it raises until then is raised here."""
        self._coroutine = coroutine
        self._awaited: object = None
        self.is_done = False
        """Has it waited for nothing?"""
        try:
            self._awaited = coroutine.send(None)
        except StopIteration:
            self.is_done = True

    async def finish(self) -> None:
        """Wait for the end of it; cancelled, it is cancelled."""
        if not self.is_done:
            await self

    def __await__(self) -> Generator[object, None, None]:
        awaited = self._awaited
        while True:
            try:
                try:
                    yield awaited
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as error:
                    awaited = self._coroutine.throw(error)
                else:
                    awaited = self._coroutine.send(None)
            except StopIteration:
                return
