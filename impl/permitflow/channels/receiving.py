"""The calls of a receiving end, the same over every carrier.  ``BulkReceive`` documents each of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Self, TypeVar

from permitflow.channels.interface import require_count
from permitflow.errors import EndOfStream, LocalProtocolError
from permitflow.flows.byte_window import Sums
from permitflow.flows.messages import Message
from permitflow.flows.seam import Inbound

T = TypeVar("T")


class ReceivingEnd(ABC, Generic[T]):
    """Receives and takes through the flow's end; a subclass says when that may be, and carries feedback."""

    _core: Inbound[T]

    @property
    def core(self) -> Inbound[T]:
        """The flow's end, which knows its group; its methods are for the group's own code."""
        return self._core

    # What a subclass adds.

    @abstractmethod
    async def until_takeable(self) -> bool:
        """Wait until this task may take the oldest message; has it waited?"""

    @abstractmethod
    def _require_takeable(self) -> None:
        """As ``until_takeable``, but raises ``WouldBlock`` instead of waiting."""

    @abstractmethod
    def _require_consumable(self) -> None:
        """Require that the end is neither closed nor aborted."""

    @abstractmethod
    def _spare(self) -> int:
        """The messages that are here, untaken, and belong to no waiting task."""

    @abstractmethod
    def _advance(self) -> None:
        """Pass feedback on, after messages were consumed."""

    def _taken(self) -> None:
        """React to messages that were taken."""

    # Receiving.

    def receive_nowait(self) -> Message[T]:
        """Receive the oldest message; its permits return."""
        self._core.require_none_taken()
        self._require_takeable()
        return self._receive_now()

    async def receive(self) -> Message[T]:
        """Receive the oldest message; wait until there is one."""
        self._core.require_none_taken()
        await self.until_takeable()
        return self._receive_now()

    def _receive_now(self) -> Message[T]:
        message = self._core.try_receive()
        assert message is not None, "the caller has seen that a message is here"
        self._advance()
        return message

    async def receive_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Receive the messages that are here, at least one and at most ``max_messages``."""
        self._core.require_none_taken()
        messages = self._core.receive_many(await self._until_some(max_messages))
        self._advance()
        return messages

    def take_nowait(self) -> Message[T]:
        """Take the oldest untaken message; it keeps its permits until ``consume``."""
        self._require_takeable()
        return self._take_now()

    async def take(self) -> Message[T]:
        """Take the oldest untaken message; wait until there is one."""
        await self.until_takeable()
        return self._take_now()

    def _take_now(self) -> Message[T]:
        message = self._core.take()
        self._taken()
        return message

    async def take_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Take the untaken messages that are here, at least one."""
        messages = self._core.take_many(await self._until_some(max_messages))
        self._taken()
        return messages

    async def _until_some(self, max_messages: int | None) -> int:
        """Wait for the first message that may be taken; return how many may be taken then."""
        if max_messages is not None:
            require_count(max_messages, name="max_messages")
        await self.until_takeable()
        spare = self._spare()
        return spare if max_messages is None else min(spare, max_messages)

    def consume(self, messages: int = 1) -> None:
        """Mark the oldest taken messages as consumed: their permits return."""
        require_count(messages, name="messages")
        self._require_consumable()
        self._core.consume_many(messages)
        self._advance()

    def chunks_at_hand(self, most: int, most_rows: int) -> tuple[Sequence[T], Sequence[int], Sums]:
        """The oldest chunks, their rows and sums of their bytes; they stay here."""
        return self._core.chunks_at_hand(min(most, self._spare()), most_rows)

    def rows_at_hand(self, most: int, most_rows: int) -> Sequence[int]:
        """The rows of all these chunks, of whatever runs."""
        return self._core.rows_at_hand(min(most, self._spare()), most_rows)

    def consume_oldest(self, count: int) -> None:
        """Take and consume the ``count`` oldest messages, which ``chunks_at_hand`` has returned."""
        self._require_consumable()
        self._core.consume_oldest(count)
        self._advance()

    def __aiter__(self) -> Self:
        """Receive until the end of the stream."""
        return self

    async def __anext__(self) -> Message[T]:
        """The next message.

        Raises:
            StopAsyncIteration: the stream has ended.
        """
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    def _require_no_group(self) -> None:
        if self._core.belongs_to_group:
            raise LocalProtocolError("an input of a gate cannot be cancelled by itself: close the gate")
