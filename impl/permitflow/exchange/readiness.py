"""Whether an exchange takes streams now, for those who dial and for those who ask about its health."""

import asyncio
from enum import Enum

from permitflow.errors import PeerGoneError

__all__ = ["Phase", "Readiness"]


class Phase(Enum):
    """How far an exchange has come."""

    READY = ""
    """It takes streams."""
    DRAINING = "it is being stopped"
    """It takes no producers any more; consumers may take what is here."""


class Readiness:
    """The phase of an exchange, and who waits for the next one.  For one event loop."""

    def __init__(self) -> None:
        """Ready: before that, nobody can dial."""
        self._phase = Phase.READY
        self._changed = asyncio.Event()

    @property
    def phase(self) -> Phase:
        """How far the exchange has come."""
        return self._phase

    def enter(self, phase: Phase) -> None:
        """Note that it has come further."""
        self._phase = phase
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, phase: Phase) -> None:
        """Wait for a phase."""
        while self._phase is not phase:
            await self._changed.wait()

    async def until_not(self, phase: Phase) -> None:
        """Wait for another phase than this one."""
        while self._phase is phase:
            await self._changed.wait()

    def require(self, phase: Phase) -> None:
        """Refuse what goes in this phase only.

        Raises:
            PeerGoneError: the exchange is in another one; whoever dials again later may find it ready.
        """
        if self._phase is not phase:
            raise PeerGoneError(who="the exchange", reason=self._phase.value)
