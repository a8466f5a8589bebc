"""Requests to one exchange and its replies, also over the connections that follow lost ones."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import NamedTuple

from permitflow.carriers.calling import reached_again
from permitflow.carriers.carrier import Carrier, Conversation
from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.wire.buffers import Received


class ControlLine:
    """A conversation, and those that follow it after lost connections."""

    def __init__(
        self, dial: Callable[[], AbstractAsyncContextManager[Carrier]], who: str, resume_seconds: float
    ) -> None:
        """``open`` dials; an order is repeated for at most ``resume_seconds``, 0: never."""
        self._dial, self._who, self._resume_seconds = dial, who, resume_seconds
        self._connection = AsyncExitStack()

    async def open(self) -> None:
        """Dial.

        Raises:
            PeerGoneError: no server answers.
        """
        await self._connection.aclose()
        self._carrier = await self._connection.enter_async_context(self._dial())
        self._conversation = Conversation(self._carrier)

    async def ask(self, message: bytes, *, is_repeatable: bool = True) -> Received | None:
        """The reply to a message; None: the exchange ends the stream.  It may be repeated if the connection is lost.

        One that may not be repeated is sent over another connection if this one is known to be lost.

        Raises:
            ResumeTimeoutError: the exchange could not be reached again.
            PermitflowError: the stream is over; the type says why.
        """
        known = self._conversation.failure
        if isinstance(known, PeerGoneError) and self._may_come_again and not is_repeatable:
            await reached_again(self._open_again, who=self._who, reason=str(known.reason), seconds=self._resume_seconds)
        try:
            return await self._ask_once(message)
        except PeerGoneError as lost:
            if not self._may_come_again:
                raise  # who was never there need not come back
            if not is_repeatable:
                reason = f"{lost.reason}; the order may or may not have been carried out: see (permitflow channel list)"
                raise PeerGoneError(who=self._who, reason=reason) from lost
            reason = str(lost.reason)
        answer, _ = await reached_again(
            partial(self._ask_again, message), who=self._who, reason=reason, seconds=self._resume_seconds
        )
        if isinstance(answer.outcome, PermitflowError):
            raise answer.outcome
        return answer.outcome

    @property
    def _may_come_again(self) -> bool:
        """Is another connection to follow the one that was lost?"""
        return bool(self._resume_seconds) and self._carrier.is_cut and not self._carrier.is_unreached

    async def _open_again(self) -> bool:
        await self.open()
        return True

    async def _ask_again(self, message: bytes) -> "_Answer | None":
        await self.open()
        try:
            return _Answer(await self._ask_once(message))
        except PermitflowError as error:
            if not self._carrier.is_cut:
                return _Answer(error)
            if isinstance(error, PeerGoneError):
                raise  # in vain as well, and it says why
            return None

    async def _ask_once(self, message: bytes) -> Received | None:
        await self._conversation.write([message])
        return await self._conversation.read()

    async def close(self) -> None:
        """Hang up."""
        await self._connection.aclose()


class _Answer(NamedTuple):
    outcome: Received | PermitflowError | None
