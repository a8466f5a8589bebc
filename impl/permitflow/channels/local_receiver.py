"""The receiving end of a local channel."""

from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from permitflow.channels.counts import require_count
from permitflow.channels.local_channel import LocalChannel, Sending
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import turn
from permitflow.errors import EndOfStream
from permitflow.protocol.direct import receive_all_directly, return_directly
from permitflow.protocol.messages import Message, PlainChunk
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.trains import chunks_at_hand, consume_many, pass_by, receive_many, take_many

__all__ = ["LocalReceiver"]

T = TypeVar("T")

_ABORTED = Sending.ABORTED  # reading an enumeration's attribute costs more than the question


class LocalReceiver(Generic[T]):
    """The end from which messages come; see ``ReceiveEnd`` for what each method promises."""

    __slots__ = ("_channel", "_core", "_costs", "_line", "_payloads", "_peer")

    def __init__(self, channel: LocalChannel[T]) -> None:
        """Use ``open_channel``."""
        self._channel = channel
        self._core = channel.receiver
        self._peer = channel.sender
        self._line = channel.takers
        self._payloads, self._costs = channel.receiver.queues

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._channel.name

    @property
    def parameters(self) -> ChannelParameters:
        """The channel's parameters."""
        return self._channel.parameters

    def receive_nowait(self) -> Message[T]:
        """Receive the oldest message; its permits return."""
        self._channel.require_takeable()
        return self._receive_now()

    async def receive(self) -> Message[T]:
        """Receive the oldest message; wait until there is one."""
        core, line, costs = self._core, self._line, self._costs
        if not costs or line.reserved:
            # As ``until_takeable``, without its call.
            is_first = line.begin_turn()
            if is_first:
                try:
                    await turn()
                except BaseException:
                    line.abandon_turn()
                    raise
                line.reserved -= 1
            if not costs or line.reserved:
                await self._sleep(is_first=is_first)
            if line.futures:
                return self._receive_now()
        if core._is_quiet or core._note_arrivals():
            # As ``_receive_now``, without its calls: this is the way of nearly every message.
            cost = costs.popleft()
            if cost:
                payload = self._payloads.popleft()
                unreturned = core._unreturned + cost
                if unreturned < core._batch and costs:
                    core._unreturned = unreturned
                else:
                    core._unreturned = 0
                    peer = self._peer
                    peer._row_permits += unreturned
                    peer._returned_rows += unreturned
                    if self._channel.is_stalled:
                        self._channel.advance()
                message: PlainChunk[T] = PlainChunk()
                message.payload = payload  # type: ignore[assignment]  # a cost above 0 says that it is a T
                message.rows = message.cost = cost
                return message
            costs.appendleft(0)
        return self._receive_now()

    def _sleep(self, *, is_first: bool) -> Awaitable[None]:
        return self._channel.sleep_until_takeable(is_first=is_first)

    async def receive_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Receive what is here, at least one message and at most ``max_messages``."""
        if max_messages is not None and (type(max_messages) is not int or max_messages < 1):
            require_count(max_messages, name="max_messages")
        core, line = self._core, self._line
        costs = core._costs
        if len(costs) <= core._taken + line.reserved:
            # As ``until_takeable``, without its call.
            is_first = line.begin_turn()
            if is_first:
                try:
                    await turn()
                except BaseException:
                    line.abandon_turn()
                    raise
                line.reserved -= 1
            if not costs or line.spare <= 0:
                await self._channel.sleep_until_takeable(is_first=is_first)
        spare = len(costs) - core._taken - line.reserved
        return self._receive_many_now(spare if max_messages is None or spare < max_messages else max_messages)

    def _receive_many_now(self, count: int) -> list[Message[T]]:
        channel, core = self._channel, self._core
        messages = receive_all_directly(self._peer, core) if count == len(core._costs) else None
        if not messages:
            messages = receive_many(core, count)
            if core.has_returns:
                return_directly(self._peer, core)
        if channel.is_stalled:
            channel.advance()
        if self._line.futures:
            channel.tell_if_over()
        return messages

    def _receive_now(self) -> Message[T]:
        message = self._core.try_receive()
        if message is None:
            raise AssertionError("the caller has seen that a message is here")
        if self._core.has_returns:
            self._channel.return_permits()
        if self._line.futures:
            # Those who wait behind the last message will not get another one.
            self._channel.tell_if_over()
        return message

    def take_nowait(self) -> Message[T]:
        """Hand the oldest message over that was not taken yet; it keeps its permits until ``consume``."""
        self._channel.require_takeable()
        return self._take_now()

    async def take(self) -> Message[T]:
        """Hand the oldest message over that was not taken yet; wait until there is one."""
        await self._channel.until_takeable()
        return self._take_now()

    def _take_now(self) -> Message[T]:
        message = self._core.take()
        self._channel.tell_if_over()
        return message

    async def take_many(self, max_messages: int | None = None) -> list[Message[T]]:
        """Hand over what is here and was not taken yet, at least one message."""
        if max_messages is not None:
            require_count(max_messages, name="max_messages")
        if (spare := self._line.spare) <= 0:
            await self._channel.until_takeable()
            spare = self._line.spare
        messages = take_many(self._core, spare if max_messages is None else min(spare, max_messages))
        self._channel.tell_if_over()
        return messages

    async def until_takeable(self) -> None:
        """Wait until there is a message that may be taken now; nothing is taken.

        Raises:
            EndOfStream, ChannelAbortedError, ChannelClosedError, PeerGoneError: as for ``receive_nowait``.
        """
        if self._line.spare <= 0:
            await self._channel.until_takeable()

    def at_arrival(self, call: Callable[[], None] | None) -> None:
        """While a task waits at this end, call this first when something comes; it may take it, and must not wait."""
        self._line.at_arrival = call

    @property
    def unconsumed(self) -> int:
        """Messages that are here and were not consumed, taken or not."""
        return len(self._costs)

    @property
    def has_untaken(self) -> bool:
        """Is a message here that may be taken now?"""
        return self._line.spare > 0

    def lone_chunk(self) -> T | None:
        """The only message here, if it is an ordinary chunk that may be taken now; it stays where it is."""
        costs = self._costs
        if len(costs) == 1 and costs[0] and not self._core._taken and not self._line.reserved:
            return self._payloads[0]  # type: ignore[return-value]  # a cost above 0 says that it is a T
        return None

    def chunks_at_hand(self, most: int, most_rows: int) -> list[T]:
        """The oldest chunks, at most so many, up to the first message that is unusual; they stay where they are.

        No more than would have ``most_rows`` if all were as long as the first one, and another.
        None while a message is held, or if the oldest one is unusual: no chunk, or one that does not cost its rows.
        """
        return chunks_at_hand(self._core, min(most, self._line.spare), most_rows)

    def pass_by(self, count: int) -> None:
        """Take so many of the oldest messages, which ``chunks_at_hand`` has shown, and consume them at once."""
        channel = self._channel
        if channel.is_receiver_closed or channel.sending is _ABORTED:
            raise channel.ending()
        pass_by(self._core, count)
        return_directly(self._peer, self._core)
        if channel.is_stalled:
            channel.advance()

    def consume(self, messages: int = 1) -> None:
        """Say that the application is done with the oldest messages it took: their permits return."""
        require_count(messages, name="messages")
        channel = self._channel
        if channel.is_receiver_closed or channel.sending is _ABORTED:
            raise channel.ending()
        consume_many(self._core, messages)
        channel.return_permits()

    def __aiter__(self) -> "LocalIteration[T]":
        """Receive until the end of the stream."""
        return LocalIteration(self._channel)

    async def __anext__(self) -> Message[T]:
        """The next message.

        Raises:
            StopAsyncIteration: the stream has ended.
        """
        return await anext(aiter(self))

    def close(self) -> None:
        """Release this end."""
        if not self._channel.is_receiver_closed:
            self._channel.close_receiver()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        return self._channel.statistics()

    def __enter__(self) -> Self:
        """Close this end at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        channel = self._channel
        state = "closed" if channel.is_receiver_closed else "open"
        here, waiting = self._core.untaken, len(self._line.futures)
        return f"<LocalReceiver {channel.name!r} {state}, {here} messages here, {waiting} waiting>"


class LocalIteration(LocalReceiver[T]):
    """The same end where ``async for`` reads from it: the end of the stream ends the loop.

    Each message costs one call, ``receive`` itself; a method that calls it would cost half as much again.
    """

    __slots__ = ()
    __anext__ = LocalReceiver[T].receive

    async def _sleep(self, *, is_first: bool) -> None:
        try:
            await super()._sleep(is_first=is_first)
        except EndOfStream:
            raise StopAsyncIteration from None
