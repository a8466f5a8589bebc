"""A carrier of which a test plays the other end."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from permitflow.transports.carrier import Buffer, PromptCarrier, Received, Take

__all__ = ["PlayedCarrier"]


class PlayedCarrier(PromptCarrier):
    """Hands over at once what the test lets come; what is written is nobody's, unless ``write_now`` is overridden."""

    def __init__(self, dialled: Iterable[Sequence[Buffer]]) -> None:
        """With the messages by which the other end has dialled."""
        self._first: deque[Received] = deque(map(b"".join, dialled))
        self._take: Take | None = None
        self._behind = 0

    async def read(self) -> Received | None:
        """What the other end has dialled with; then nothing, ever."""
        if self._first:
            return self._first.popleft()
        for_ever: asyncio.Future[Received | None] = asyncio.get_running_loop().create_future()
        return await for_ever

    def hand_to(self, take: Take) -> None:
        """Call this with what comes."""
        self._take = take

    @property
    def has_more(self) -> bool:
        """Are messages that come together not handed over yet?"""
        return self._behind > 0

    def bring(self, *messages: Sequence[Buffer]) -> None:
        """Let messages come together."""
        assert self._take is not None, "the end was not told to read yet"
        self._behind = len(messages)
        for message in messages:
            self._behind -= 1
            self._take(b"".join(message))

    def write_now(self, message: Sequence[Buffer]) -> None:
        """Nothing is left to be done."""

    async def write(self, message: Sequence[Buffer]) -> None:
        """As ``write_now``."""
        self.write_now(message)

    async def half_close(self) -> None:
        """Nothing to do."""
